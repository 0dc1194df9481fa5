"""Bytes of documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import IO, Protocol


class Blobs(Protocol):
    """Content-addressed bytes, shared by all workspaces: the key is the SHA-256 of the bytes."""

    async def put(self, data: bytes) -> str: ...

    async def put_file(self, file: IO[bytes]) -> str:
        """The same of a seekable file of any length, read in pieces from its start."""
        ...

    async def get(self, key: str) -> bytes: ...

    async def size(self, key: str) -> int:
        """In bytes; `NotFound` where it is gone."""
        ...

    def pieces(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, a few at a time. For what is too long for the
        memory, or where nobody knows how long it is."""
        ...

    async def has(self, key: str) -> bool: ...

    async def delete(self, keys: Sequence[str]) -> None: ...

    def list(self) -> AsyncIterator[tuple[str, float]]:
        """Keys of all that is there, each with the time when it was last put."""
        ...

    async def under(
        self, start: str, *, after: str = "", limit: int
    ) -> Sequence[tuple[str, float]]:
        """The same of keys that begin with these two digits, in their order, behind `after`. Reads
        no other keys."""
        ...
