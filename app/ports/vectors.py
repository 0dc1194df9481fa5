"""Vector stores, and vectors that are made beside those in use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from app.domain import Hit, Kind, Point, Ref, VectorQuery


class VectorStore(Protocol):
    async def upsert(self, points: Sequence[Point]) -> None: ...

    async def search(self, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        """One list per query, best first, ties by key; one round trip for all."""
        ...

    async def delete(self, refs: Sequence[Ref]) -> None: ...

    async def count(self, kind: Kind) -> int: ...

    async def read(self, refs: Sequence[Ref]) -> list[Point]:
        """Stored points, in no order, dense vectors as the engine keeps them (unit length)."""
        ...

    async def scroll(
        self, kind: Kind, *, after: str = "", limit: int = 256
    ) -> tuple[list[Point], str]:
        """Stored points, and what to give as `after` for those behind them: "" at the end."""
        ...

    async def digests(self, refs: Sequence[Ref]) -> dict[Ref, str]:
        """Of the texts that stored points were made from; "" where that is not known."""
        ...

    async def listed(
        self, kind: Kind, *, after: str = "", limit: int = 1000
    ) -> tuple[list[Ref], str]:
        """What has a point; as `scroll`, without reading vectors."""
        ...


class Pingable(Protocol):
    """A dependency that /readyz can name."""

    async def ping(self) -> str:
        """Its version; raises `Unavailable`."""
        ...


class NextVectors(Protocol):
    """Collections beside those in use, as far as they are made: an earlier try may have left some.
    Only one process makes them at a time."""

    def store(self, workspace: str) -> VectorStore: ...

    async def hold(self) -> bool:
        """Have whoever writes to the vectors in use wait (`Unavailable`, for a minute at most), in
        all processes, so that nothing new is missed. Whether they have waited without a gap since
        the last call."""
        ...

    async def switch(self) -> None:
        """In one step these are the ones in use. Needs `hold`: `Conflict` where it has lapsed.

        Of the same model, all processes answer from them at once, and the former are deleted. Of
        another model, running processes go on answering from the former, and write no more."""
        ...


class VectorEngine(Pingable, Protocol):
    """What holds the vectors of all workspaces, made by one embedding model. After a switch to
    another model every write is `Unavailable`, until a process is started with that model."""

    def beside(self, model: str, dimension: int) -> AbstractAsyncContextManager[NextVectors]:
        """Open, or begin, collections of a model beside those in use. Leaving ends a hold."""
        ...

    async def discard(self) -> list[str]:
        """Delete all collections that are not in use, half-made and former ones; their names."""
        ...
