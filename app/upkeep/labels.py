"""Names of records that are the same in every workspace and for every history of the documents.

Ids derive from the workspace, and the key of an entity may depend on which of its names came first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from app.domain import Chunk, Document, derive_id, relation_key
from app.ports import Workspace


def document_label(workspace: str, document: Document) -> str:
    """The caller's id, or the hash of the bytes where the id was derived from them."""
    for revision in (document.live, document.pending):
        if revision and document.id == derive_id(workspace, "document", revision.source):
            return f"sha256:{revision.source}"
    return document.id


async def document_labels(workspace: Workspace, ids: Iterable[str]) -> dict[str, str]:
    """Of those that exist."""
    found = await workspace.documents.many(sorted(set(ids)))
    return {one.id: document_label(workspace.name, one) for one in found}


def chunk_label(document: str, chunk: Chunk) -> str:
    """From its document's label: a document has one visible chunk at each position."""
    return f"{document}#{chunk.position}"


async def entity_labels(workspace: Workspace, keys: Collection[str]) -> dict[str, str]:
    """The smallest of the names that mean the entity as a whole: which of them is its key depends
    on what came first."""
    members = await workspace.names.members(list(keys))
    return {key: min([key, *members.get(key, ())]) for key in keys}


@dataclass(frozen=True, slots=True)
class Ends:
    """Labels of entities, and of relations through those of their ends."""

    labels: dict[str, str]

    def entity(self, key: str) -> str:
        return self.labels.get(key, f"?{key}")

    def relation(self, key: str) -> str:
        """Also of a key that is damaged."""
        return relation_key(*(self.entity(end) for end in (*key.split("\t"), "")[:2]))


async def ends_of(
    workspace: Workspace, *, entities: Iterable[str] = (), relations: Iterable[str] = ()
) -> Ends:
    keys = {*entities, *(end for key in relations for end in key.split("\t"))}
    return Ends(await entity_labels(workspace, sorted(keys)))
