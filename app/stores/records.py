"""What the graph stores keep and show alike: JSON forms, rows as nouns, reasons of closed jobs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from app.domain import (
    Chunk,
    Document,
    Entity,
    EntityMention,
    Extraction,
    Failure,
    Finding,
    Job,
    Kind,
    Plan,
    Readings,
    Ref,
    Relation,
    RelationMention,
    Report,
    Revision,
    State,
    Status,
    Unread,
    Usage,
)
from app.errors import Invalid

GRACE_SECONDS = 5.0  # a fresh step is left to the queue for so long
LONGEST_DELAY = 100.0  # before a step is tried again; the runner gives less
REPLACED = Failure("cancelled", "A later request for the document took over.", "", False)
CANCELLED = Failure("cancelled", "The job was cancelled.", "", True)
_THOUSANDTHS = 1000


def furthest(lease: float, leased: bool) -> float:
    """How far ahead a step's time may lie. One beyond that was written by a clock that has been
    set back since, and would hold the step for as long as the clock was ahead."""
    return 1.5 * lease if leased else LONGEST_DELAY


def worker_lost(tries: int, stage: str) -> Failure:
    message = f"The worker was lost {tries} times during this step."
    return Failure("worker_lost", message, stage, True)


def thousandths(strength: float) -> int:
    """Strengths are added up as integers: sums of floats would depend on the order."""
    return round(strength * _THOUSANDTHS) if math.isfinite(strength) else 0


def strength(weight: int) -> float:
    return weight / _THOUSANDTHS


def relation_name(source_name: str, target_name: str) -> str:
    """How a relation is called where entities have a name."""
    return f"{source_name} → {target_name}"


# --- JSON ----------------------------------------------------------------------------------------


def dump(value: object) -> str:
    """Raises `ValueError` for numbers that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def revision_json(revision: Revision) -> str:
    try:
        return dump(asdict(revision))
    except ValueError as error:
        raise Invalid("Numbers in the metadata must be finite.") from error


def revision_of(text: str | None) -> Revision | None:
    return None if text is None else Revision(**json.loads(text))


def extraction_json(extraction: Extraction) -> str:
    """Without `asdict`, which copies each value: 1.6 ms for a short document, now 0.3."""
    return dump(
        {
            **_fields(extraction),
            "entities": [_fields(one) for one in extraction.entities],
            "relations": [_fields(one) for one in extraction.relations],
            "usage": _fields(extraction.usage),
        }
    )


def _fields(record: Extraction | EntityMention | RelationMention | Usage) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__slots__}


EMPTY = '{"entities":[],'  # how the extraction of a chunk begins that says nothing


def extraction_of(text: str) -> Extraction:
    stored: dict[str, Any] = json.loads(text)
    return Extraction(
        entities=tuple(
            EntityMention(**{**item, "aliases": tuple(item["aliases"])})
            for item in stored["entities"]
        ),
        relations=tuple(
            RelationMention(**{**item, "keywords": tuple(item["keywords"])})
            for item in stored["relations"]
        ),
        about=tuple(stored["about"]),
        model=stored["model"],
        dropped=stored["dropped"],
        error=stored["error"],
        usage=Usage(**stored["usage"]),
    )


def report_json(report: Report) -> str:
    return dump(asdict(report))


def report_of(text: str) -> Report:
    stored: dict[str, Any] = json.loads(text)
    findings = tuple(
        Finding(
            one["summary"], one["explanation"],
            tuple(Ref(Kind(kind), key) for kind, key in one["refs"]),
        )
        for one in stored["findings"]
    )  # fmt: skip
    return Report(**{**stored, "findings": findings})


def failure_json(failure: Failure) -> str:
    return dump(asdict(failure))


def failure_of(text: str | None) -> Failure | None:
    return None if text is None else Failure(**json.loads(text))


# --- what a document has already -----------------------------------------------------------------


def already_has(document: Document, revision: Revision) -> bool:
    """Whether the document has, or is about to have, this revision anyway."""
    if document.job.plan is not Plan.INGEST:
        return False
    if document.pending is not None:
        return not document.job.state.final and _same(document.pending, revision)
    settled = document.job.state not in (State.FAILED, State.CANCELLED)
    return settled and document.live is not None and _same(document.live, revision)


def _same(one: Revision, other: Revision) -> bool:
    return _identity(one) == _identity(other)


def _identity(revision: Revision) -> tuple[str, str, str, str]:
    metadata = dict(sorted(revision.metadata.items()))
    return revision.source, revision.name, revision.date, dump(metadata)


# --- rows ----------------------------------------------------------------------------------------


class Record(Protocol):
    """What a driver returns: values by name, of types that only the query knows."""

    def __getitem__(self, name: str, /) -> Any: ...


AnyRecord = TypeVar("AnyRecord", bound=Record)


def unique(values: Iterable[str]) -> list[str]:
    """Each value once, in the order given."""
    return list(dict.fromkeys(values))


def in_order(rows: Iterable[AnyRecord], keys: Iterable[str], *, by: str) -> list[AnyRecord]:
    """The rows in the order in which their keys were asked for, each once."""
    found = {row[by]: row for row in rows}
    return [found[key] for key in unique(keys) if key in found]


def job_of(
    row: Record, *, id: str, error: Failure | None, created_at: float, updated_at: float
) -> Job:
    return Job(
        id=id,
        workspace=row["workspace"],
        plan=Plan(row["plan"]),
        document_id=row["document_id"],
        state=State(row["state"]),
        status=Status(row["status"]),
        stage=row["stage"],
        done=row["done"],
        total=row["total"],
        attempts=row["attempts"],
        error=error,
        created_at=created_at,
        updated_at=updated_at,
    )


def chunk_of(row: Record, headings: Sequence[str]) -> Chunk:
    return Chunk(
        id=row["id"],
        document_id=row["document_id"],
        position=row["position"],
        start=row["start"],
        end=row["end"],
        text=row["text"],
        tokens=row["tokens"],
        headings=tuple(headings),
        page=row["page"],
        page_end=row["page_end"],
    )


def readings_of(rows: Sequence[Record]) -> Readings:
    return Readings(
        len(rows),
        tuple(row["id"] for row in rows if row["empty"] and not row["failed"]),
        tuple(Unread(row["id"], row["position"], row["why"]) for row in rows if row["failed"]),
    )


def entity_of(row: Record, aliases: Sequence[str]) -> Entity:
    return Entity(
        key=row["key"],
        name=row["name"],
        kind=row["kind"],
        profile=row["profile"],
        mentions=row["mentions"],
        degree=row["degree"],
        aliases=tuple(aliases),
        revision=row["revision"],
        profiled=row["profiled"],
        indexed=row["indexed"],
        digest=row["digest"],
    )


def relation_of(
    row: Record, keywords: Sequence[str], *, weight: float, source_name: str, target_name: str
) -> Relation:
    return Relation(
        key=row["key"],
        source=row["source"],
        target=row["target"],
        source_name=source_name,
        target_name=target_name,
        profile=row["profile"],
        keywords=tuple(keywords),
        weight=weight,
        mentions=row["mentions"],
        revision=row["revision"],
        profiled=row["profiled"],
        indexed=row["indexed"],
        digest=row["digest"],
    )
