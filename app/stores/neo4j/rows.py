"""What the driver returns, turned into nouns. Nodes keep times as milliseconds of the server."""

from __future__ import annotations

from app.domain import ApiKey, Chunk, Document, Entity, Failure, Job, Relation, Scope, Usage
from app.stores import records
from app.stores.neo4j.database import Row
from app.stores.records import revision_of, strength


def seconds(milliseconds: int) -> float:
    return milliseconds / 1000


def document_of(row: Row) -> Document:
    """From `d` (a Document's properties), `j` (those of its latest job) and `chunks`."""
    d, job = row["d"], job_of(row["j"])
    return Document(
        id=d["id"],
        version=d["version"],
        live=revision_of(d.get("live")),
        pending=revision_of(d.get("pending")),
        job=job,
        chunks=row["chunks"],
        warnings=tuple(d["warnings"]),
        usage=Usage(d["llm_calls"], d["prompt_tokens"], d["completion_tokens"], d["cost"]),
        created_at=seconds(d["created_at"]),
        updated_at=max(seconds(d["updated_at"]), job.updated_at),
    )


def job_of(j: Row) -> Job:
    error = None
    if "error_code" in j:
        error = Failure(
            j["error_code"], j["error_message"], j["error_stage"], j["error_retryable"]
        )  # fmt: skip
    return records.job_of(
        j, id=j["id"], error=error,
        created_at=seconds(j["created_at"]), updated_at=seconds(j["updated_at"]),
    )  # fmt: skip


def chunk_of(c: Row) -> Chunk:
    return records.chunk_of(c, c["headings"])


def entity_of(e: Row) -> Entity:
    return records.entity_of(e, e["aliases"])


def relation_of(row: Row) -> Relation:
    """From `r` (a relation's properties) and the names of its ends."""
    r = row["r"]
    return records.relation_of(
        r, r["keywords"], weight=strength(-r["lightness"]),
        source_name=row["source_name"], target_name=row["target_name"],
    )  # fmt: skip


def api_key_of(k: Row) -> ApiKey:
    return ApiKey(
        id=k["id"],
        digest=k["digest"],
        scope=Scope(k["scope"]),
        workspaces=tuple(k["workspaces"]),
        label=k["name"],
        created_at=k["created_at"],
    )
