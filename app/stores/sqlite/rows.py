"""Rows to nouns and back; what has no column of its own is JSON."""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Row

import orjson

from app.domain import Chunk, Document, Entity, Job, Kind, Relation, Usage
from app.stores import records
from app.stores.records import dump, failure_of, revision_of, strength, unique

TABLES = {Kind.ENTITY: "entities", Kind.RELATION: "relations"}
# The table of a kind's evidence, and its column with the row of TABLES.
EVIDENCE = {Kind.ENTITY: ("mentions", "entity"), Kind.RELATION: ("assertions", "relation")}

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
    c.id, c.document_id, c.position, c.span_start as start, c.span_end as "end", c.text, c.tokens,
    c.headings, c.page, c.page_end
"""
# What a coming revision may change of a published chunk, so that it can be put back.
BEFORE = (
    "json_object('position', position, 'page_end', page_end, 'key', extraction_key,"
    " 'extraction', extraction, 'failed', failed)"
)
ENTITY = """
    e.key, e.name, e.kind, e.profile, e.mentions, e.degree, e.aliases, e.revision, e.profiled,
    e.indexed, e.digest
"""
# `s` and `t` are the relation's ends.
RELATION = """
    r.seq, r.key, s.key as source, t.key as target, s.name as source_name, t.name as target_name,
    r.profile, r.keywords, r.weight, r.mentions, r.revision, r.profiled, r.indexed, r.digest
"""
ENDS = "cross join entities s on s.seq = r.source cross join entities t on t.seq = r.target"


def listed(values: Iterable[str]) -> str:
    """For `json_each`: each value once, in the order given."""
    return dump(unique(values))


def document_of(row: Row) -> Document:
    return Document(
        id=row["id"],
        version=row["version"],
        live=revision_of(row["live"]),
        pending=revision_of(row["pending"]),
        job=job_of(row),
        chunks=row["chunks"],
        warnings=tuple(orjson.loads(row["warnings"])),
        usage=Usage(
            row["llm_calls"], row["prompt_tokens"], row["completion_tokens"], row["cost"]
        ),
        created_at=row["document_created"],
        updated_at=max(row["document_updated"], row["updated_at"]),
    )  # fmt: skip


def job_of(row: Row) -> Job:
    return records.job_of(
        row, id=row["job_id"], error=failure_of(row["error"]),
        created_at=row["created_at"], updated_at=row["updated_at"],
    )  # fmt: skip


def chunk_of(row: Row) -> Chunk:
    return records.chunk_of(row, orjson.loads(row["headings"]))


def entity_of(row: Row) -> Entity:
    return records.entity_of(row, orjson.loads(row["aliases"]))


def relation_of(row: Row) -> Relation:
    return records.relation_of(
        row, orjson.loads(row["keywords"]), weight=strength(row["weight"]),
        source_name=row["source_name"], target_name=row["target_name"],
    )  # fmt: skip
