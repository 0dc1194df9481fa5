"""The file of an archive: a tar that ends with a manifest, whose checksum covers all before it.

It is written and read as a stream. Members are small pages of records, and blobs. gzip around it is
seen when it is read.
"""

from __future__ import annotations

import gzip
import hashlib
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
_BLOCK = 512
_GZIP = b"\x1f\x8b"


class Seal:
    """The running checksum of names and contents, in their order."""

    def __init__(self) -> None:
        self.members = 0
        self._hash = hashlib.sha256()

    def add(self, name: str, data: bytes) -> None:
        self.members += 1
        self._hash.update(f"{name}\0{len(data)}\0".encode())
        self._hash.update(data)

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()


@dataclass(slots=True)
class Writer:
    """Members to bytes of the file."""

    seal: Seal = field(default_factory=Seal)
    _numbers: dict[str, int] = field(default_factory=dict)

    def member(self, name: str, data: bytes) -> bytes:
        self.seal.add(name, data)
        return _entry(name, data)

    def json(self, name: str, value: Mapping[str, Any]) -> bytes:
        return self.member(name, encoded(value))

    def page(self, folder: str, records: Sequence[Mapping[str, Any]]) -> bytes:
        """The next page of a kind of records."""
        number = self._numbers.get(folder, 0) + 1
        self._numbers[folder] = number
        lines = b"\n".join(encoded(record) for record in records)
        return self.member(f"{folder}/{number:08}.ndjson", lines)

    def end(self, **facts: Any) -> bytes:
        manifest = {**facts, "members": self.seal.members, "sha256": self.seal.checksum}
        return _entry(MANIFEST, encoded(manifest)) + bytes(2 * _BLOCK)


def encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def compressed(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """As gzip."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    async for piece in stream:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _entry(name: str, data: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o600
    padding = -len(data) % _BLOCK
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(padding)


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    data: bytes

    @property
    def folder(self) -> str:
        return self.name.partition("/")[0]

    def json(self) -> Any:
        return json.loads(self.data)

    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.data.split(b"\n") if line]


def members(file: IO[bytes]) -> Iterator[Member]:
    """All members from the start of the file, one in memory at a time. Raises `Invalid`."""
    file.seek(0)
    packed = file.read(2) == _GZIP
    file.seek(0)
    plain: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]  # reads as one
    try:
        with tarfile.open(fileobj=plain, mode="r|") as archive:
            while (info := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # or all would be kept
                if not info.isreg():
                    raise Invalid("This is no archive of a workspace: it has more than files.")
                if info.size > MAX_MEMBER:
                    raise TooLarge("The archive has a member of more than 2 GiB.")
                content = archive.extractfile(info)
                assert content is not None, "it is a file"
                yield Member(info.name, content.read())
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise Invalid(f"The archive cannot be read to its end: {type(error).__name__}.") from error


@dataclass(frozen=True, slots=True)
class Contents:
    header: Mapping[str, Any]
    manifest: Mapping[str, Any]


def verified(file: IO[bytes]) -> Contents:
    """Reads everything once; raises `Invalid` unless it is whole and as it was written."""
    seal = Seal()
    first: Mapping[str, Any] | None = None
    for member in members(file):
        if first is None:
            first = _header(member)
        if member.name == MANIFEST:
            manifest = _object(member)
            told = (manifest.get("members"), manifest.get("sha256"))
            if told != (seal.members, seal.checksum):
                raise Invalid("The archive is damaged: its checksum is not that of its contents.")
            return Contents(first, manifest)
        seal.add(member.name, member.data)
    raise Invalid("The archive is cut off: it has no manifest.")


def header(file: IO[bytes]) -> Mapping[str, Any]:
    """What the archive says of itself, unchecked. Raises `Invalid`."""
    for member in members(file):
        return _header(member)
    raise Invalid("This is no archive of a workspace.")


def _header(member: Member) -> Mapping[str, Any]:
    if member.name != HEADER:
        raise Invalid("This is no archive of a workspace.")
    found = _object(member)
    if found.get("format") != FORMAT:
        raise Invalid(
            f"The archive has the format {found.get('format')}, this version reads {FORMAT}."
        )
    return found


def _object(member: Member) -> Mapping[str, Any]:
    try:
        found = member.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Invalid(f"The archive is damaged: its {member.name} is no JSON object.")
    return found
