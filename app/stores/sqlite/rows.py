"""Rows to nouns and back; what has no column of its own is JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from sqlite3 import Row
from typing import Any

from app.domain import (
    Chunk,
    Document,
    Entity,
    EntityMention,
    Extraction,
    Failure,
    Job,
    Plan,
    Relation,
    RelationMention,
    Revision,
    State,
    Status,
    Usage,
)

# A document with its latest job; the columns of both are told apart by prefix.
DOCUMENT = """
    d.id, d.version, d.live, d.pending, d.chunks, d.warnings, d.llm_calls, d.prompt_tokens,
    d.completion_tokens, d.cost, d.created_at as document_created, d.updated_at as document_updated,
    j.id as job_id, j.workspace, j.plan, j.document_id, j.state, j.status, j.stage, j.done, j.total,
    j.attempts, j.error, j.created_at, j.updated_at
"""
JOB = """
    id as job_id, workspace, plan, document_id, state, status, stage, done, total, attempts, error,
    created_at, updated_at
"""
CHUNK = """
    c.id, c.document_id, c.position, c.span_start, c.span_end, c.text, c.tokens, c.headings,
    c.page, c.page_end
"""
ENTITY = """
    e.key, e.name, e.kind, e.profile, e.mentions, e.degree, e.aliases, e.revision, e.profiled,
    e.indexed, e.digest
"""
# `s` and `t` are the relation's ends.
RELATION = """
    r.seq, r.key, s.key as source, t.key as target, s.name as source_name, t.name as target_name,
    r.profile, r.keywords, r.weight, r.mentions, r.revision, r.profiled, r.indexed, r.digest
"""
THOUSANDTHS = 1000


def dump(value: object) -> str:
    """Raises `ValueError` for numbers that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def listed(values: Iterable[str]) -> str:
    """For `json_each`: each value once, in the order given."""
    return dump(list(dict.fromkeys(values)))


def document_of(row: Row) -> Document:
    return Document(
        id=row["id"],
        version=row["version"],
        live=revision_of(row["live"]),
        pending=revision_of(row["pending"]),
        job=job_of(row),
        chunks=row["chunks"],
        warnings=tuple(json.loads(row["warnings"])),
        usage=Usage(
            row["llm_calls"], row["prompt_tokens"], row["completion_tokens"], row["cost"]
        ),
        created_at=row["document_created"],
        updated_at=max(row["document_updated"], row["updated_at"]),
    )  # fmt: skip


def revision_of(text: str | None) -> Revision | None:
    return None if text is None else Revision(**json.loads(text))


def revision_json(revision: Revision) -> str:
    return dump(asdict(revision))


def job_of(row: Row) -> Job:
    return Job(
        id=row["job_id"],
        workspace=row["workspace"],
        plan=Plan(row["plan"]),
        document_id=row["document_id"],
        state=State(row["state"]),
        status=Status(row["status"]),
        stage=row["stage"],
        done=row["done"],
        total=row["total"],
        attempts=row["attempts"],
        error=None if row["error"] is None else Failure(**json.loads(row["error"])),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def chunk_of(row: Row) -> Chunk:
    return Chunk(
        id=row["id"],
        document_id=row["document_id"],
        position=row["position"],
        start=row["span_start"],
        end=row["span_end"],
        text=row["text"],
        tokens=row["tokens"],
        headings=tuple(json.loads(row["headings"])),
        page=row["page"],
        page_end=row["page_end"],
    )


def entity_of(row: Row) -> Entity:
    return Entity(
        key=row["key"],
        name=row["name"],
        kind=row["kind"],
        profile=row["profile"],
        mentions=row["mentions"],
        degree=row["degree"],
        aliases=tuple(json.loads(row["aliases"])),
        revision=row["revision"],
        profiled=row["profiled"],
        indexed=row["indexed"],
        digest=row["digest"],
    )


def relation_of(row: Row) -> Relation:
    return Relation(
        key=row["key"],
        source=row["source"],
        target=row["target"],
        source_name=row["source_name"],
        target_name=row["target_name"],
        profile=row["profile"],
        keywords=tuple(json.loads(row["keywords"])),
        weight=row["weight"] / THOUSANDTHS,
        mentions=row["mentions"],
        revision=row["revision"],
        profiled=row["profiled"],
        indexed=row["indexed"],
        digest=row["digest"],
    )


def extraction_json(extraction: Extraction) -> str:
    return dump(asdict(extraction))


def extraction_of(text: str) -> Extraction:
    stored: dict[str, Any] = json.loads(text)
    return Extraction(
        entities=tuple(_entity_mention(item) for item in stored["entities"]),
        relations=tuple(_relation_mention(item) for item in stored["relations"]),
        about=tuple(stored["about"]),
        model=stored["model"],
        dropped=stored["dropped"],
        error=stored["error"],
        usage=Usage(**stored["usage"]),
    )


def in_order(rows: Iterable[Row], keys: Sequence[str], *, by: str) -> list[Row]:
    """The rows in the order in which their keys were asked for, each once."""
    found = {row[by]: row for row in rows}
    return [found[key] for key in dict.fromkeys(keys) if key in found]


def _entity_mention(item: dict[str, Any]) -> EntityMention:
    return EntityMention(**{**item, "aliases": tuple(item["aliases"])})


def _relation_mention(item: dict[str, Any]) -> RelationMention:
    return RelationMention(**{**item, "keywords": tuple(item["keywords"])})
