"""Factories of nouns: every field has a default, so that a test names only what it is about."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence

from app.domain import (
    ApiKey,
    Chunk,
    EntityMention,
    Extraction,
    Job,
    Keywords,
    Metadata,
    Mode,
    Plan,
    Question,
    RelationMention,
    Revision,
    Scope,
    Status,
)

_numbers = itertools.count(1)


def name(prefix: str = "w") -> str:
    """A name that no other test uses, also on a server that earlier runs have used."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def job(
    document_id: str = "d", *, id: str = "", plan: Plan = Plan.INGEST, workspace: str = ""
) -> Job:
    status = Status.DELETING if plan is Plan.DELETE else Status.QUEUED
    return Job(id or name("job"), workspace, plan, document_id, status=status)


def revision(
    source: str = "",
    *,
    name: str = "notes.txt",
    metadata: Metadata | None = None,
    date: str = "",
    media_type: str = "text/plain",
    size: int = 11,
) -> Revision:
    return Revision(
        name, media_type, size, source or uuid.uuid4().hex, metadata=metadata or {}, date=date
    )


def chunk(
    id: str = "",
    *,
    document_id: str = "d",
    position: int = 0,
    text: str = "some text",
    start: int = 0,
    headings: Sequence[str] = (),
    page: int | None = None,
) -> Chunk:
    return Chunk(
        id or f"c{next(_numbers):06}", document_id, position, start, start + len(text), text,
        len(text.split()), tuple(headings), page, page,
    )  # fmt: skip


def entity(
    name: str = "Marie Curie",
    description: str = "a physicist",
    *,
    kind: str = "person",
    aliases: Sequence[str] = (),
) -> EntityMention:
    return EntityMention(name, kind, description, tuple(aliases))


def relation(
    source: str = "Marie Curie",
    target: str = "Radium",
    description: str = "she discovered it",
    *,
    keywords: Sequence[str] = ("discovery",),
    strength: float = 5.0,
) -> RelationMention:
    return RelationMention(source, target, description, tuple(keywords), strength)


def extraction(
    *parts: EntityMention | RelationMention, about: Sequence[str] = (), error: str = ""
) -> Extraction:
    return Extraction(
        entities=tuple(part for part in parts if isinstance(part, EntityMention)),
        relations=tuple(part for part in parts if isinstance(part, RelationMention)),
        about=tuple(about),
        model="test",
        error=error,
    )


def question(
    text: str = "Who discovered radium?",
    *,
    mode: Mode = Mode.MIX,
    documents: Sequence[str] | None = None,
    keywords: Keywords | None = None,
) -> Question:
    among = None if documents is None else tuple(documents)
    return Question(text, mode=mode, documents=among, keywords=keywords)


def api_key(
    id: str = "", *, scope: Scope = Scope.READ, workspaces: Sequence[str] = (), digest: str = ""
) -> ApiKey:
    return ApiKey(
        id or name("key"), digest or uuid.uuid4().hex, scope, tuple(workspaces), "a label", 1.5
    )
