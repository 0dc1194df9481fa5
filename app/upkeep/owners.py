"""What evidence is about, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from app.domain import Kind
from app.holdings import HeldEntity, HeldRelation
from app.paging import pages
from app.ports import Archive

Owners = tuple[Kind, Sequence[HeldEntity | HeldRelation]]


async def owners(archive: Archive, limit: int) -> AsyncIterator[Owners]:
    """All entities, then all relations, with those that have lost all evidence."""
    async for entities in pages(archive.entities, lambda one: one.key, limit):
        yield Kind.ENTITY, entities
    async for relations in pages(archive.relations, lambda one: one.key, limit):
        yield Kind.RELATION, relations
