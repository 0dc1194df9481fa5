"""The file of an archive: a tar that ends with a manifest, whose checksum covers all before it.

It is written and read as a stream. Members are small pages of records, and blobs. gzip around it is
seen when it is read.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from app.errors import Invalid, TooLarge

FORMAT = 1
HEADER = "heliograph.json"
MANIFEST = "manifest.json"
MAX_MEMBER = 2**31  # bytes; a blob is one member
MAX_PAGE = 2**26  # bytes of a page of records, which is read whole
PAGE_BYTES = 2**23  # beyond, a page is ended
_BLOCK = 512
_PIECE = 2**20
_GZIP = b"\x1f\x8b"


class Seal:
    """The running checksum of names and contents, in their order."""

    def __init__(self) -> None:
        self.members = 0
        self._hash = hashlib.sha256()

    def begin(self, name: str, size: int) -> None:
        self.members += 1
        self._hash.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))

    def add(self, piece: bytes) -> None:
        self._hash.update(piece)

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()


@dataclass(slots=True)
class Writer:
    """Members to bytes of the file."""

    seal: Seal = field(default_factory=Seal)
    _numbers: dict[str, int] = field(default_factory=dict)

    def member(self, name: str, data: bytes) -> bytes:
        self.seal.begin(name, len(data))
        self.seal.add(data)
        return _entry(name, len(data)) + data + _padding(len(data))

    def file(self, name: str, file: IO[bytes]) -> Iterator[bytes]:
        """A member of all that the file holds, piece by piece."""
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        self.seal.begin(name, size)
        yield _entry(name, size)
        while piece := file.read(_PIECE):
            self.seal.add(piece)
            yield piece
        yield _padding(size)

    def json(self, name: str, value: Mapping[str, Any]) -> bytes:
        return self.member(name, encoded(value))

    def page(self, folder: str, records: Sequence[Mapping[str, Any]]) -> bytes:
        """The next page of a kind of records, or several where they are long."""
        pages: list[list[bytes]] = [[]]
        size = 0
        for line in map(encoded, records):
            if pages[-1] and size + len(line) > PAGE_BYTES:
                pages.append([])
                size = 0
            pages[-1].append(line)
            size += len(line)
        return b"".join(self._page(folder, b"\n".join(lines)) for lines in pages)

    def _page(self, folder: str, lines: bytes) -> bytes:
        number = self._numbers.get(folder, 0) + 1
        self._numbers[folder] = number
        return self.member(f"{folder}/{number:08}.ndjson", lines)

    def end(self, **facts: Any) -> bytes:
        manifest = {**facts, "members": self.seal.members, "sha256": self.seal.checksum}
        data = encoded(manifest)
        return _entry(MANIFEST, len(data)) + data + _padding(len(data)) + bytes(2 * _BLOCK)


def encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def compressed(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """As gzip."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    async for piece in stream:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _entry(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o600
    return info.tobuf(tarfile.USTAR_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


# --- reading -------------------------------------------------------------------------------------


class _Content:
    """The file after gzip, read forwards: entry by entry, no more than a piece in memory."""

    def __init__(self, file: IO[bytes], limit: int | None) -> None:
        self._file, self._limit = file, limit
        self.seal: Seal | None = None  # of what is read of the entry at hand
        self._total = 0
        self._left = 0  # of the entry at hand
        self._padding = 0

    def entry(self) -> tarfile.TarInfo | None:
        """The next one; None at the end. What is left of the one before is skipped."""
        while self.read():
            pass
        self._exactly(self._padding)
        self._padding = 0
        block = self._some(_BLOCK)
        if len(block) < _BLOCK or not any(block):
            return None
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.TarError as error:
            raise Invalid("This is no archive of a workspace: it is no tar file.") from error
        # Entries that describe others would be read whole by `tarfile`, however long they are.
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
            raise Invalid("This is no archive of a workspace: it has more than files.")
        self._count(info.size)
        self._left, self._padding = info.size, -info.size % _BLOCK
        return info

    def read(self) -> bytes:
        """The next piece of the entry; empty at its end."""
        piece = self._exactly(min(_PIECE, self._left))
        self._left -= len(piece)
        if self.seal:
            self.seal.add(piece)
        return piece

    def _count(self, size: int) -> None:
        if size > MAX_MEMBER:
            raise TooLarge("The archive has a member of more than 2 GiB.")
        self._total += size
        if self._limit is not None and self._total > self._limit:
            raise too_large(self._limit)

    def _exactly(self, size: int) -> bytes:
        found = self._some(size)
        if len(found) < size:
            raise Invalid("The archive cannot be read to its end: it is cut off.")
        return found

    def _some(self, size: int) -> bytes:
        try:
            return self._file.read(size) if size else b""
        except (EOFError, OSError, zlib.error) as error:
            raise Invalid(
                f"The archive cannot be read to its end: {type(error).__name__}."
            ) from error


def too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The archive has more than {limit:,} bytes, unpacked. Raise "
        "HELIOGRAPH_MAX_RESTORE_BYTES, or use `heliograph restore`, which has no limit."
    )


@dataclass(frozen=True, slots=True)
class Member:
    """Its content can be read once, before the next member is asked for."""

    name: str
    size: int
    _content: _Content

    @property
    def folder(self) -> str:
        return self.name.partition("/")[0]

    def pieces(self) -> Iterator[bytes]:
        while piece := self._content.read():
            yield piece

    def data(self) -> bytes:
        """All of it. Raises `TooLarge` for what is too much for a page of records."""
        if self.size > MAX_PAGE:
            raise TooLarge(f"The archive's {self.name} has more than {MAX_PAGE:,} bytes.")
        return b"".join(self.pieces())


def members(
    file: IO[bytes], *, limit: int | None = None, seal: Seal | None = None
) -> Iterator[Member]:
    """All members from the start of the file, each added to the seal but for the manifest, which
    tells its sum. Raises `Invalid`, and `TooLarge` for more than `limit` bytes in all."""
    file.seek(0)
    packed = file.read(2) == _GZIP
    file.seek(0)
    plain: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]  # reads as one
    content = _Content(plain, limit)
    while (info := content.entry()) is not None:
        content.seal = seal if info.name != MANIFEST else None
        if content.seal:
            content.seal.begin(info.name, info.size)
        yield Member(info.name, info.size, content)
