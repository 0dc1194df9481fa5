"""Names of records that are the same for every history of the documents.

The key of an entity depends on which of its names came first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from app.domain import Chunk, relation_key
from app.paging import pages
from app.ports import Workspace

PAGE = 200  # communities read at a time
GONE = "?"  # before the id of what a record refers to and is not there


async def document_labels(workspace: Workspace, ids: Iterable[str]) -> dict[str, str]:
    """Ids are the same in every workspace; one of no document shows."""
    asked = sorted(set(ids))
    known = {one.id for one in await workspace.documents.many(asked)}
    return {id: id if id in known else GONE + id for id in asked}


def chunk_label(document: str, chunk: Chunk) -> str:
    """From its document's label: a document has one visible chunk at each position."""
    return f"{document}#{chunk.position}"


async def entity_labels(workspace: Workspace, keys: Collection[str]) -> dict[str, str]:
    """The smallest of the names that mean the entity as a whole: which of them is its key depends
    on what came first."""
    members = await workspace.names.members(list(keys))
    return {key: min([key, *members.get(key, ())]) for key in keys}


async def community_labels(workspace: Workspace) -> dict[str, str]:
    """From level and members: an id follows from those that a community had when it was new."""
    labels: dict[str, str] = {}
    async for page in pages(workspace.communities.clusters, lambda one: one.id, PAGE):
        named = await entity_labels(workspace, {key for one in page for key in one.members})
        for one in page:
            lines = [str(one.level), *sorted(named[key] for key in one.members)]
            labels[one.id] = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
    return labels


@dataclass(frozen=True, slots=True)
class Ends:
    """Labels of entities, and of relations through those of their ends."""

    labels: dict[str, str]

    def entity(self, key: str) -> str:
        return self.labels.get(key, GONE + key)

    def relation(self, key: str) -> str:
        """Also of a key that is damaged."""
        return relation_key(*(self.entity(end) for end in (*key.split("\t"), "")[:2]))


async def ends_of(
    workspace: Workspace, *, entities: Iterable[str] = (), relations: Iterable[str] = ()
) -> Ends:
    keys = {*entities, *(end for key in relations for end in key.split("\t"))}
    return Ends(await entity_labels(workspace, sorted(keys)))
