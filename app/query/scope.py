"""Which evidence a question may use. With filters, entities and relations without evidence in the
matching documents do not exist for the question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import Kind, Question
from app.ports import Workspace

MOST_KEYS = 20_000  # beyond, searches are not narrowed but their hits checked


@dataclass(frozen=True, slots=True)
class Scope:
    """`documents`: evidence only from these. `entities`, `relations`: keys that have such evidence;
    None means that a search need not be narrowed to them. Hits are checked for evidence anyway."""

    documents: tuple[str, ...] | None = None
    entities: Sequence[str] | None = None
    relations: Sequence[str] | None = None

    @property
    def empty(self) -> bool:
        return self.documents is not None and not self.documents


async def scope_of(workspace: Workspace, question: Question) -> Scope:
    documents = question.documents
    if not documents:
        return Scope(documents)
    entities, relations = await asyncio.gather(
        workspace.graph.supported(Kind.ENTITY, documents, limit=MOST_KEYS),
        workspace.graph.supported(Kind.RELATION, documents, limit=MOST_KEYS),
    )
    return Scope(
        documents,
        entities if len(entities) < MOST_KEYS else None,
        relations if len(relations) < MOST_KEYS else None,
    )
