"""The graph of a workspace: read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.domain import (
    Chunk,
    ChunkLinks,
    Entity,
    EntityLinks,
    Evidence,
    Extraction,
    Kind,
    Mark,
    Mention,
    Profile,
    Readings,
    Ref,
    Relation,
    Stale,
    Stats,
    Subgraph,
)


class GraphReader(Protocol):
    """All that query code may see. Only folded ("live") chunks and their evidence exist here.
    `documents`, where given, limits evidence to these documents."""

    async def stats(self) -> Stats: ...

    async def chunks(self, ids: Sequence[str]) -> list[Chunk]: ...

    async def document_chunks(
        self, document_id: str, *, after: int = -1, limit: int = 100
    ) -> list[Chunk]:
        """By position, those behind `after`."""
        ...

    async def entities(self, keys: Sequence[str]) -> list[Entity]: ...

    async def relations(self, keys: Sequence[str]) -> list[Relation]: ...

    async def find(self, keys: Sequence[str], *, about: bool = False) -> dict[str, Entity]:
        """Exact look-up of thousands of normal keys, by entity key first, then by alias (the most
        mentioned entity, then the first key). With `about`, only entities that some chunk is
        about."""
        ...

    async def search(self, text: str, *, limit: int, after: str = "") -> list[Entity]:
        """For people: name or alias contains the words; "" lists all. Most mentioned first;
        `after` is the key of the last one seen."""
        ...

    async def failed(self, document_id: str) -> dict[str, str]:
        """Visible chunks that have no extraction since their reading failed, each with why, by
        position."""
        ...

    async def chunk_links(self, ids: Sequence[str]) -> list[ChunkLinks]: ...

    async def entity_links(
        self, keys: Sequence[str], *, chunks: int, about: int,
        documents: Sequence[str] | None = None,
    ) -> list[EntityLinks]:  # fmt: skip
        """At most so many chunk ids each, in id order; a hub is not read beyond. With `documents`,
        entities without evidence there are left out; `mentions` counts all the same."""
        ...

    async def relations_of(
        self, keys: Sequence[str], *, per_entity: int, documents: Sequence[str] | None = None
    ) -> list[Relation]:
        """Relations with an end among these entities, heaviest first for each entity."""
        ...

    async def heaviest(
        self, keys: Sequence[str], *, per_entity: int, documents: Sequence[str] | None = None
    ) -> dict[str, list[str]]:
        """Entity key -> keys of its relations, in that order, without reading the relations:
        cheap for hundreds of entities, and a hub is not read beyond `per_entity`. Entities without
        any are left out."""
        ...

    async def relation_chunks(
        self, keys: Sequence[str], *, per_relation: int, documents: Sequence[str] | None = None
    ) -> dict[str, list[str]]:
        """Relation key -> ids of chunks that assert it, in id order."""
        ...

    async def evidence(
        self, refs: Sequence[Ref], *, limit: int = 64, documents: Sequence[str] | None = None
    ) -> list[Evidence]:
        """Descriptions by chunk id (ids are hashes: the first `limit` are an order-free sample);
        empty ones are no evidence and not counted. With `documents`, refs without a description
        there are left out; `count` is of all documents."""
        ...

    async def mentions(self, ref: Ref, *, after: str = "", limit: int = 50) -> list[Mention]:
        """Evidence of an entity or relation by chunk id."""
        ...

    async def supported(self, kind: Kind, documents: Sequence[str], *, limit: int) -> list[str]:
        """Keys of entities or relations with evidence in these documents."""
        ...

    async def subgraph(self, keys: Sequence[str], *, depth: int, limit: int) -> Subgraph:
        """Breadth first from these entities, heaviest relations first, at most `limit` entities."""
        ...


class GraphWriter(Protocol):
    """Evidence in, profiles and index marks after it.

    A chunk is *put* for a job (invisible), *read* (its extraction stored), *folded* (visible: its
    mentions and assertions count), *retired* (left out by a newer revision) and *retracted* (its
    evidence taken back; the row stays as a tombstone until its vector is deleted)."""

    async def put_chunks(
        self, document_id: str, job_id: str, chunks: Sequence[Chunk], keys: Sequence[str]
    ) -> None:
        """Make these the chunks of the document's coming revision; `keys` are their extraction
        keys. Equal ids keep their extraction, unless it failed or the key changed. Unfolded chunks
        left from earlier jobs disappear."""
        ...

    async def pending_chunks(self, document_id: str, ids: Sequence[str]) -> list[tuple[Chunk, str]]:
        """Chunks, visible or not, each with its extraction key."""
        ...

    async def unread(self, document_id: str, job_id: str) -> list[str]:
        """Ids of its put chunks without an extraction, by position."""
        ...

    async def extractions(self, keys: Sequence[str]) -> dict[str, Extraction]:
        """Stored extractions of any chunk of the workspace by extraction key; failed ones never."""
        ...

    async def put_extraction(self, chunk_id: str, extraction: Extraction, *, key: str = "") -> None:
        """No-op once the chunk is gone or, with `key`, has another extraction key, and where one is
        stored already, unless that one failed and this one did not."""
        ...

    async def readings(self, document_id: str, job_id: str) -> Readings:
        """How its put chunks were read, in their order."""
        ...

    async def unfolded(self, document_id: str, job_id: str) -> list[str]:
        """Ids of its put and read chunks whose evidence is not counted yet, by position: new ones,
        and visible ones that were read again."""
        ...

    async def fold(self, document_id: str, job_id: str, ids: Sequence[str]) -> None:
        """Make chunks visible and count their evidence (`app.folding`), each chunk once; that of an
        earlier reading is taken back. Others than `unfolded` ones are left alone."""
        ...

    async def retired(self, document_id: str, job_id: str) -> list[str]:
        """Folded chunks that the document's coming revision does not have; all of them when the job
        deletes the document, those that were never published when it withdraws. Nothing for a job
        that is not the document's latest."""
        ...

    async def retract(self, document_id: str, ids: Sequence[str]) -> None:
        """Take back the evidence of folded chunks, exactly. Those that the document's latest job
        put are left alone, unless it deletes, so that a late worker of an earlier job does no harm.
        A withdrawal takes what was never published; it leaves no tombstones but put chunks, with
        what they say, whose points are to be forgotten all the same.
        What loses evidence has `covered` 0 then: its profile is to be made from scratch."""
        ...

    async def unprofiled(self, document_id: str = "") -> list[Ref]:
        """Entities and relations with evidence newer than their profile: those that the document
        supports, or of the whole workspace. In key order."""
        ...

    async def put_profiles(self, profiles: Sequence[Profile]) -> None:
        """An older revision never wins, nor one read before evidence was taken back."""
        ...

    async def unindexed(self, document_id: str = "") -> list[Stale]:
        """What the vector store is behind on: the document's chunks (tombstones too), entities and
        relations, and relations of its entities whose end was renamed; or the whole workspace with
        everything that has no evidence left."""
        ...

    async def mark_indexed(self, marks: Sequence[Mark]) -> None:
        """`indexed` never falls, nor passes `profiled`. No-op for what has no evidence any more."""
        ...

    async def forget(self, refs: Sequence[Ref]) -> None:
        """The points of these refs were deleted: remove tombstones and entities and relations
        without evidence. One that has evidence again becomes unindexed (indexed 0, no digest)."""
        ...


class GraphStore(GraphReader, GraphWriter, Protocol): ...
