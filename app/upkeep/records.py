"""The records of an archive: what each kind of line holds, and whether it can be."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from app.domain import (
    Chunk,
    Division,
    Extraction,
    Failure,
    Kind,
    Placement,
    Point,
    Ref,
    Report,
    Revision,
    Ruling,
    State,
    Usage,
)
from app.errors import BadRecord
from app.holdings import HeldPlacement
from app.upkeep.container import Member
from app.upkeep.forms import point_of
from app.upkeep.shapes import Misfit, fitting

MAX_ID = 128  # characters, as of an upload: another id could not be deleted again

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Embedding:
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Header:
    format: int
    workspace: str
    created_at: float
    embedding: Embedding


@dataclass(frozen=True, slots=True)
class Manifest:
    """`void`: numbers of documents that were written again; `missing`: blobs that were gone."""

    void: tuple[int, ...]
    documents: int
    members: int
    sha256: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PackedPoint:
    """Numbers in base64 (`app.upkeep.forms`)."""

    dense: str
    indices: str
    values: str


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    id: str
    version: int
    live: Revision | None
    pending: Revision | None
    date: str
    warnings: tuple[str, ...]
    usage: Usage
    created_at: float
    updated_at: float
    state: State
    error: Failure | None
    failed: bool


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    chunk: Chunk
    live: bool
    key: str
    extraction: Extraction
    point: PackedPoint | None


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """Of an entity or a relation."""

    key: str
    mentions: int
    described: int
    profile: str
    covered: int
    digest: str
    point: PackedPoint | None


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    key: str
    scope: str
    entity: str
    name: str
    by_hand: bool

    @property
    def held(self) -> HeldPlacement:
        return HeldPlacement(Placement(self.key, self.scope, self.entity, self.name), self.by_hand)


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """An entity in a community, and how much evidence it had."""

    key: str
    mentions: int


@dataclass(frozen=True, slots=True)
class CommunityRecord:
    id: str
    level: int
    parent: str
    leaf: bool
    members: tuple[MemberRecord, ...]
    report: Report | None
    covered: int
    digest: str
    point: PackedPoint | None


def header_of(member: Member) -> Header:
    return _only(Header, member)


def manifest_of(member: Member) -> Manifest:
    return _only(Manifest, member)


def document_of(member: Member) -> DocumentRecord:
    record = _only(DocumentRecord, member)
    blank = record.id != record.id.strip() or not record.id.isprintable()
    if blank or not 0 < len(record.id) <= MAX_ID:
        raise _bad(member, 1, f"id has not 1 to {MAX_ID} printable characters")
    if record.live is None and record.pending is None:
        raise _bad(member, 1, "has no revision")
    return record


def chunks_of(member: Member, document: DocumentRecord, dimension: int) -> list[ChunkRecord]:
    """With points that the collections of this dimension can take."""
    records = []
    for number, record in _each(ChunkRecord, member):
        if record.chunk.document_id != document.id:
            raise _bad(member, number, "chunk.document_id is another document's")
        if not record.chunk.id:
            raise _bad(member, number, "chunk.id is empty")
        _check_point(member, number, record.point, dimension)
        records.append(record)
    return records


def profiles_of(member: Member, kind: Kind, dimension: int) -> list[ProfileRecord]:
    records = []
    for number, record in _each(ProfileRecord, member):
        if kind is Kind.RELATION and record.key.count("\t") != 1:
            raise _bad(member, number, "key does not join two keys")
        _check_point(member, number, record.point, dimension)
        records.append(record)
    return records


def division_of(member: Member) -> Division:
    return _only(Division, member)


def communities_of(member: Member, dimension: int) -> list[CommunityRecord]:
    records = []
    for number, record in _each(CommunityRecord, member):
        if not 0 < len(record.id) <= MAX_ID:
            raise _bad(member, number, f"id has not 1 to {MAX_ID} characters")
        _check_point(member, number, record.point, dimension)
        records.append(record)
    return records


def rulings_of(member: Member) -> list[Ruling]:
    rulings = []
    for number, ruling in _each(Ruling, member):
        if ruling.by not in ("user", "model"):
            raise _bad(member, number, "by is neither user nor model")
        if not ruling.one < ruling.other:
            raise _bad(member, number, "one and other are not two names in order")
        rulings.append(ruling)
    return rulings


def placements_of(member: Member) -> list[HeldPlacement]:
    return [record.held for _, record in _each(PlacementRecord, member)]


def unpacked(point: PackedPoint, ref: Ref, document_id: str = "") -> Point:
    """Raises `ValueError` for what is no point."""
    packed = {"dense": point.dense, "indices": point.indices, "values": point.values}
    return point_of(packed, ref, document_id)


def _check_point(member: Member, number: int, packed: PackedPoint | None, dimension: int) -> None:
    if packed is None:
        return
    try:
        point = unpacked(packed, Ref(Kind.CHUNK, ""))
    except ValueError:
        raise _bad(member, number, "point is not packed as numbers are") from None
    indices, values = point.sparse
    if len(point.dense) not in (0, dimension):
        raise _bad(member, number, f"point.dense has not {dimension} numbers")
    if len(indices) != len(values) or len(set(indices)) < len(indices):
        raise _bad(member, number, "point.indices are not one for each of point.values")
    if not all(map(math.isfinite, (*point.dense, *values))):
        raise _bad(member, number, "point has a number that is not finite")


def _only(kind: type[T], member: Member) -> T:
    return _fit(kind, member, 1, member.data())


def _each(kind: type[T], member: Member) -> Iterator[tuple[int, T]]:
    for number, line in enumerate(member.data().split(b"\n"), start=1):
        if line:
            yield number, _fit(kind, member, number, line)


def _fit(kind: type[T], member: Member, number: int, line: bytes) -> T:
    try:
        return fitting(kind, json.loads(line))
    except Misfit as misfit:
        raise _bad(member, number, str(misfit)) from None
    except (ValueError, RecursionError):
        raise _bad(member, number, "is not JSON") from None


def _bad(member: Member, number: int, what: str) -> BadRecord:
    return BadRecord(
        f"The archive holds what no backup writes. {member.name}, line {number}: {what}. Nothing "
        "was restored."
    )
