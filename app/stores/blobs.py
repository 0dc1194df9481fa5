"""Content-addressed bytes in a folder or an object store, by URL.

`file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://account/container/prefix`,
`memory://` for tests. Credentials and endpoints come from the environment, under the names that
each provider documents (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`…).
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, MemoryStore, from_url

from app.errors import Misconfigured, NotFound, Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

SCHEMES = ("file", "memory", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
RETRY: RetryConfig = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
PIECE = 2**20  # bytes that are read at a time
PUT_TRIES = 3  # a deletion of the same bytes may empty their folder under a write
_KEY = re.compile(r"[0-9a-f]{64}")


class ObjectBlobs:
    """`Blobs`; the key is the SHA-256 of the bytes in hex, fanned out over 256 folders."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def open(cls, url: str) -> ObjectBlobs:
        return cls(_open(url))

    async def put(self, data: bytes) -> str:
        """Atomic. Equal bytes are written again, not asked for first: that costs the same call and
        heals a blob that was damaged or is being deleted."""
        key = await asyncio.to_thread(_digest, data)
        await self._put(key, lambda: data)
        return key

    async def put_file(self, file: IO[bytes]) -> str:
        key = await asyncio.to_thread(_digest_of_file, file)

        def again() -> IO[bytes]:
            file.seek(0)
            return file

        await self._put(key, again)
        return key

    async def _put(self, key: str, content: Callable[[], bytes | IO[bytes]]) -> None:
        for _ in range(PUT_TRIES):
            with suppress(FileNotFoundError), _errors():
                await obstore.put_async(self._store, _path(key), content())
                if isinstance(self._store, LocalStore) and self._store.prefix is not None:
                    await asyncio.to_thread(_sync, self._store.prefix / _path(key))
                return
        raise Unavailable("The file was deleted while it was stored; try again.")

    async def get(self, key: str) -> bytes:
        if not _KEY.fullmatch(key):
            raise NotFound("No stored file has this key.")
        try:
            with _errors():
                result = await obstore.get_async(self._store, _path(key))
                return bytes(await result.bytes_async())
        except FileNotFoundError as error:
            raise NotFound("The stored file is gone.") from error

    async def size(self, key: str) -> int:
        if not _KEY.fullmatch(key):
            raise NotFound("No stored file has this key.")
        try:
            with _errors():
                return (await obstore.head_async(self._store, _path(key)))["size"]
        except FileNotFoundError as error:
            raise NotFound("The stored file is gone.") from error

    async def pieces(
        self, key: str, *, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        size = await self.size(key)
        end = size if end is None else min(end, size)
        # A store that streams would hold its connection for as long as a slow reader takes.
        for begin in range(start, end, PIECE):
            try:
                with _errors():
                    piece = await obstore.get_range_async(
                        self._store, _path(key), start=begin, end=min(begin + PIECE, end)
                    )
            except FileNotFoundError as error:
                raise NotFound("The stored file is gone.") from error
            yield bytes(piece)

    async def has(self, key: str) -> bool:
        if not _KEY.fullmatch(key):
            return False
        try:
            with _errors():
                await obstore.head_async(self._store, _path(key))
        except FileNotFoundError:
            return False
        return True

    async def delete(self, keys: Sequence[str]) -> None:
        await asyncio.gather(*(self._delete(key) for key in set(keys) if _KEY.fullmatch(key)))

    async def list(self) -> AsyncIterator[tuple[str, float]]:
        with _errors():
            async for page in obstore.list(self._store):
                for found in page:
                    key = found["path"].rpartition("/")[2]
                    if _KEY.fullmatch(key):
                        yield key, found["last_modified"].timestamp()

    async def under(
        self, start: str, *, after: str = "", limit: int
    ) -> Sequence[tuple[str, float]]:
        found: list[tuple[str, float]] = []
        with suppress(FileNotFoundError), _errors():
            async for page in obstore.list(self._store, prefix=f"{start}/"):
                for one in page:
                    key = one["path"].rpartition("/")[2]
                    if _KEY.fullmatch(key) and key > after:
                        found.append((key, one["last_modified"].timestamp()))
        return heapq.nsmallest(limit, found)

    async def ping(self) -> str:
        """A look-up of a key that no bytes have; reaches the store and leaves nothing there."""
        with suppress(FileNotFoundError), _errors():
            await obstore.head_async(self._store, _path("0" * 64))
        return type(self._store).__name__

    async def _delete(self, key: str) -> None:
        # Missing is an error on some stores and none on others; here it is what was wanted.
        with suppress(FileNotFoundError), _errors():
            await obstore.delete_async(self._store, _path(key))


def _open(url: str) -> ObjectStore:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise Misconfigured(
            f"HELIOGRAPH_BLOB_URL has the scheme {parts.scheme!r}; known are {', '.join(SCHEMES)}."
        )
    try:
        if parts.scheme == "memory":
            return MemoryStore()
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost"):
                raise Misconfigured("HELIOGRAPH_BLOB_URL needs an absolute path: file:///folder.")
            return LocalStore(Path(unquote(parts.path)), mkdir=True)
        return from_url(url, retry_config=RETRY)
    except (BaseError, ValueError, OSError) as error:
        raise Misconfigured(f"The blob store cannot be opened: {_first_line(error)}") from error


def _sync(file: Path) -> None:
    """Through to the disk, bytes and name: a document counts as safe once it is accepted."""
    for path in (file, file.parent):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of_file(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


def _path(key: str) -> str:
    return f"{key[:2]}/{key}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


@contextmanager
def _errors() -> Iterator[None]:
    """`FileNotFoundError` passes: what it means differs from call to call."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise Unavailable("The blob store refused our credentials.") from error
    except (BaseError, OSError) as error:
        raise Unavailable(f"The blob store failed: {_first_line(error)}", blameless=True) from error
