"""An archive read once before anything of it is stored: whole, as it was written, and such that a
backup wrote it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO

from app.domain import Kind, Revision
from app.errors import BadRecord, Invalid, TooLarge
from app.originals import blobs_of
from app.upkeep.container import FORMAT, HEADER, MANIFEST, Member, Seal, members
from app.upkeep.records import (
    DocumentRecord,
    Header,
    Manifest,
    chunks_of,
    communities_of,
    division_of,
    document_of,
    header_of,
    manifest_of,
    placements_of,
    profiles_of,
    rulings_of,
)

MAX_TEXT = 2**27  # characters of the chunks of one document, which are in memory together
_BLOB = re.compile(r"[0-9a-f]{64}")
_DOCUMENT = re.compile(r"documents/(\d{1,12})\.json")


@dataclass(frozen=True, slots=True)
class Contents:
    header: Header
    manifest: Manifest


def header(file: IO[bytes]) -> Header:
    """What the archive says of itself, unchecked. Raises `Invalid`."""
    for member in members(file):
        return _header(member)
    raise Invalid("This is no archive of a workspace.")


def verified(file: IO[bytes], *, limit: int | None = None) -> Contents:
    """Reads everything once, a page of records in memory at a time. Raises `Invalid` for what is
    damaged or cut off, `BadRecord` for records that no backup writes, `TooLarge`."""
    seal = Seal()
    found: _Check | None = None
    for member in members(file, limit=limit, seal=seal):
        if found is None:
            found = _Check(_header(member))
        elif member.name == MANIFEST:
            manifest = manifest_of(member)
            if (manifest.members, manifest.sha256) != (seal.members, seal.checksum):
                raise Invalid("The archive is damaged: its checksum is not that of its contents.")
            found.has_all(manifest.missing)
            return Contents(found.header, manifest)
        else:
            found.see(member)
    raise Invalid("The archive is cut off: it has no manifest.")


def document_number(member: Member) -> str:
    """Under which a document's chunks lie."""
    told = _DOCUMENT.fullmatch(member.name)
    if not told:
        raise BadRecord(f"The archive holds what no backup writes: {member.name[:100]}.")
    return told[1]


def _header(member: Member) -> Header:
    if member.name != HEADER:
        raise Invalid("This is no archive of a workspace.")
    found = header_of(member)
    if found.format != FORMAT:
        raise Invalid(f"The archive has the format {found.format}, this version reads {FORMAT}.")
    return found


def _see_graph(member: Member, dimension: int) -> None:
    match member.folder:
        case "rulings":
            rulings_of(member)
        case "placements":
            placements_of(member)
        case "entities":
            profiles_of(member, Kind.ENTITY, dimension)
        case "relations":
            profiles_of(member, Kind.RELATION, dimension)
        case "communities":
            communities_of(member, dimension)
        case "division.json":
            division_of(member)


@dataclass(slots=True)
class _Check:
    """What was seen so far. Blobs are told by half of their hash, to keep many in little."""

    header: Header
    _document: DocumentRecord | None = None
    _number: str = ""
    _length: int = 0  # characters of its chunks
    _carried: set[bytes] = field(default_factory=set)
    _wanted: dict[str, str] = field(default_factory=dict)  # blob -> the member that refers to it

    def see(self, member: Member) -> None:
        dimension = self.header.embedding.dimension
        match member.folder:
            case "blobs":
                self._blob(member)
            case "documents":
                self._number = document_number(member)
                self._document, self._length = document_of(member), 0
                self._refer(member, (self._document.live, self._document.pending))
            case "chunks":
                if self._document and member.name.startswith(f"chunks/{self._number}/"):
                    told = chunks_of(member, self._document, dimension)
                    self._length += sum(len(one.chunk.text) for one in told)
                    if self._length > MAX_TEXT:
                        raise TooLarge("The archive has a document that is too long for one.")
            case _:
                _see_graph(member, dimension)

    def has_all(self, missing: Iterable[str]) -> None:
        """Only what the archive carries may be referred to: blobs of all workspaces lie together,
        and who knows the hash of another's could read it. What was gone when the archive was
        written is listed in it, and will refer to nothing."""
        for key in missing:
            self._wanted.pop(key, None)
        for key, name in self._wanted.items():
            if bytes.fromhex(key)[:16] not in self._carried:
                raise BadRecord(f"The archive lacks a file that its {name} refers to.")

    def _blob(self, member: Member) -> None:
        digest = hashlib.sha256()
        for piece in member.pieces():
            digest.update(piece)
        if member.name != f"blobs/{digest.hexdigest()}":
            raise BadRecord("The archive holds a file under the hash of another one.")
        self._carried.add(digest.digest()[:16])

    def _refer(self, member: Member, revisions: Iterable[Revision | None]) -> None:
        for revision in revisions:
            if revision is None:
                continue
            keys = blobs_of(revision)
            if not revision.source or not all(map(_BLOB.fullmatch, keys)):
                raise BadRecord(f"The archive's {member.name} refers to a file by no hash.")
            for key in keys:
                if bytes.fromhex(key)[:16] not in self._carried:
                    self._wanted[key] = member.name
