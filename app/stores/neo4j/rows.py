"""What the driver returns, turned into nouns. Nodes keep times as milliseconds of the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.domain import (
    ApiKey,
    Chunk,
    Document,
    Entity,
    Failure,
    Job,
    Plan,
    Relation,
    Scope,
    State,
    Status,
    Usage,
)
from app.stores.neo4j.database import Row
from app.stores.records import THOUSANDTHS, revision_of


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
    return Job(
        id=j["id"],
        workspace=j["workspace"],
        plan=Plan(j["plan"]),
        document_id=j["document_id"],
        state=State(j["state"]),
        status=Status(j["status"]),
        stage=j["stage"],
        done=j["done"],
        total=j["total"],
        attempts=j["attempts"],
        error=error,
        created_at=seconds(j["created_at"]),
        updated_at=seconds(j["updated_at"]),
    )


def chunk_of(c: Row) -> Chunk:
    return Chunk(
        id=c["id"],
        document_id=c["document_id"],
        position=c["position"],
        start=c["start"],
        end=c["end"],
        text=c["text"],
        tokens=c["tokens"],
        headings=tuple(c["headings"]),
        page=c.get("page"),
        page_end=c.get("page_end"),
    )


def entity_of(e: Row) -> Entity:
    return Entity(
        key=e["key"],
        name=e["name"],
        kind=e["kind"],
        profile=e["profile"],
        mentions=e["mentions"],
        degree=e["degree"],
        aliases=tuple(e["aliases"]),
        revision=e["revision"],
        profiled=e["profiled"],
        indexed=e["indexed"],
        digest=e["digest"],
    )


def relation_of(row: Row) -> Relation:
    """From `r` (a relation's properties) and the names of its ends."""
    r = row["r"]
    return Relation(
        key=r["key"],
        source=r["source"],
        target=r["target"],
        source_name=row["source_name"],
        target_name=row["target_name"],
        profile=r["profile"],
        keywords=tuple(r["keywords"]),
        weight=-r["lightness"] / THOUSANDTHS,
        mentions=r["mentions"],
        revision=r["revision"],
        profiled=r["profiled"],
        indexed=r["indexed"],
        digest=r["digest"],
    )


def api_key_of(k: Row) -> ApiKey:
    return ApiKey(
        id=k["id"],
        digest=k["digest"],
        scope=Scope(k["scope"]),
        workspaces=tuple(k["workspaces"]),
        label=k["name"],
        created_at=k["created_at"],
    )


def unique(values: Iterable[str]) -> list[str]:
    """Each value once, in the order given."""
    return list(dict.fromkeys(values))


def in_order(rows: Iterable[Row], keys: Sequence[str], *, by: str) -> list[Row]:
    """The rows in the order in which their keys were asked for, each once."""
    found = {row[by]: row for row in rows}
    return [found[key] for key in unique(keys) if key in found]
