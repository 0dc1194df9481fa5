"""What the core asks of the outside: Protocols, and the bundles that carry them.

A store method is one transaction, may be called twice with the same effect, and raises only errors
of `app.errors`. Missing keys are left out of results; only `get` and `job` raise `NotFound`.
Everything bound to a workspace is reached through `Workspace`, so code below the API cannot name
another one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import IO, Any, Literal, Protocol

from app.domain import (
    ApiKey,
    Asked,
    Chunk,
    ChunkLinks,
    Cluster,
    Clustering,
    Community,
    Compared,
    Completion,
    Context,
    Division,
    Document,
    Embeddings,
    Entity,
    EntityLinks,
    Evaluation,
    Evidence,
    Extraction,
    Fact,
    Failure,
    Hit,
    Job,
    Judgement,
    KeyPoints,
    Keywords,
    Kind,
    KnownName,
    Mark,
    Mention,
    Opened,
    Options,
    Passages,
    Placement,
    Point,
    Profile,
    Prompt,
    Proposed,
    Queries,
    Question,
    Readings,
    Ref,
    Relation,
    Report,
    Reported,
    Revision,
    Ruling,
    Scalar,
    Stale,
    State,
    Stats,
    Status,
    Step,
    Subgraph,
    Ticket,
    Usage,
    VectorQuery,
)
from app.holdings import (
    HeldAlias,
    HeldAssertion,
    HeldChunk,
    HeldEntity,
    HeldMention,
    HeldName,
    HeldPlacement,
    HeldRelation,
    JobFault,
)
from app.joint import Joint
from app.resolution.settlement import Reviewed, Settlement

Condition = Scalar | Sequence[Scalar] | Mapping[Literal["gte", "gt", "lte", "lt"], str | float]
Filters = Mapping[str, Condition]


# --- stores of one workspace ---------------------------------------------------------------------


class Documents(Protocol):
    """Documents and the opening of their jobs. `job_id` arguments fence: where it is no longer the
    document's latest job, the call changes nothing."""

    async def submit(self, document_id: str, revision: Revision, job: Job) -> Document:
        """Store a revision as pending and open `job` (with its first step) in one transaction.
        Running jobs of the document are cancelled. If pending, while its job runs, or else live
        already holds the same source, name, metadata and date, nothing changes: the returned
        document's `job.id` then differs from `job.id`. After a job that failed, was cancelled or
        deletes, it is always a new job. The same `job.id` again changes nothing, even when other
        jobs came after it; `Conflict` if its document is gone by now. The document returned names
        the coming revision that it pushed aside (`superseded`); after a deletion that did not end
        also the visible one, which is visible no longer."""
        ...

    async def reopen(self, document_id: str, job: Job, *, again: Sequence[str] = ()) -> Document:
        """Open a job for what is stored (delete, retry); cancels running ones. An ingest takes over
        the chunks that the document's last ingest put; those of `again` whose reading failed are
        unread for it. After a deletion that did not end, live
        becomes pending too, since its chunks are to be read again. `NotFound` if unknown."""
        ...

    async def get(self, document_id: str) -> Document: ...

    async def page(
        self, *, status: Status | None = None, filters: Filters | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Document]:  # fmt: skip
        """In the order of ids, those after `after`. Filters look at the live revision, else at the
        pending one."""
        ...

    async def many(self, ids: Sequence[str]) -> list[Document]: ...

    async def counts(self) -> dict[Status, int]: ...

    async def matching(self, filters: Filters, *, limit: int) -> list[str]:
        """Ids of documents with a live revision that meets all conditions: a metadata field, or the
        reserved `document_id`, `name`, `date`. A list means any of; of a list-valued field one
        element must match; a mapping is a range, all of whose limits the same value must meet.
        Text, numbers and truth values never match across (1 equals 1.0, not True and not "1").
        `date` is the revision's, else the time of its upload as ISO 8601, and compares as text.
        In the order of ids; `Invalid` for a range that is none."""
        ...

    async def parsed(self, document_id: str, job_id: str, *, text: str, title: str) -> None:
        """Record the parsed text (blob key) and title of the pending revision; clears warnings,
        which are kept aside where a revision is visible."""
        ...

    async def charge(self, document_id: str, usage: Usage, warnings: Sequence[str] = ()) -> None:
        """Add to its usage; warnings are kept once each. No-op for an unknown document."""
        ...

    async def note(
        self, document_id: str, job_id: str, *, without: Sequence[str], add: Sequence[str]
    ) -> None:
        """Drop some of its warnings and add others, each kept once."""
        ...

    async def publish(self, document_id: str, job_id: str) -> None:
        """Pending becomes live, version + 1, and the job's chunks are those of the visible
        revision; without a pending one, only that they are as the job put them. One that was never
        published but whose chunks can be seen, since a newer one came in between, counts as a
        version too: as with any replacement, it has left evidence that only it supported."""
        ...

    async def restore(self, document_id: str, job_id: str) -> None:
        """Undo what the coming revision changed of published chunks, and of warnings. Chunks whose
        evidence is to be counted again are then `unfolded` ones of the job."""
        ...

    async def remove(self, document_id: str, job_id: str) -> None:
        """Forget the document (its jobs stay readable) and its unfolded chunks. Folded ones must be
        retracted before: `Conflict`. Tombstones stay until forgotten."""
        ...

    async def blob_in_use(self, blob_key: str) -> bool:
        """Whether any revision of any workspace refers to the blob as source or text."""
        ...


class Evaluations(Protocol):
    """Measurements of the workspace and their history."""

    async def open(self, evaluation: Evaluation, job: Job) -> None:
        """Store it under the job's id and open the job, in one transaction. The same job again
        changes nothing."""
        ...

    async def get(self, evaluation_id: str) -> Evaluation:
        """Raises `NotFound`."""
        ...

    async def page(self, *, after: str = "", limit: int = 50) -> list[Evaluation]:
        """Newest first, without request and result; `after` is the id of the last one seen."""
        ...

    async def amend(self, evaluation_id: str, request: str, total: int) -> None:
        """Replace the request of one without a result; no-op for others."""
        ...

    async def put_outcomes(self, evaluation_id: str, lines: Mapping[str, str]) -> None:
        """Keep outcomes by key, the last of each; no-op once there is a result, or it is gone."""
        ...

    async def outcomes(self, evaluation_id: str) -> list[str]:
        """Those kept, by key; none once there is a result."""
        ...

    async def conclude(self, evaluation_id: str, result: str) -> None:
        """Store the result in place of the outcomes; the first one stays."""
        ...

    async def remove(self, evaluation_id: str) -> bool:
        """Forget it, with all that it measured; its job stays readable."""
        ...


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


class Names(Protocol):
    """Which entity each name means. The fold keeps what is known of names (`app.folding`), a name
    whose facts changed is *open* until settled, and evidence follows placements by *moves*, batch
    by batch. All of it is durable: what a crash leaves behind, any later job carries on."""

    async def version(self) -> int:
        """Of all settlements so far; to be read before anything that a settlement is made from."""
        ...

    async def opened(self, *, limit: int) -> list[KnownName]:
        """Names whose facts changed since they were settled, gone ones too, in key order."""
        ...

    async def known(self, keys: Sequence[str]) -> list[KnownName]: ...

    async def members(self, entities: Sequence[str]) -> dict[str, list[str]]:
        """Entity key -> keys of other names that were placed there as a whole."""
        ...

    async def in_blocks(self, blocks: Sequence[str], *, limit: int) -> dict[str, list[str]]:
        """Names posted under each block, at most `limit` each, in key order."""
        ...

    async def pairs(self, keys: Sequence[str]) -> list[Reviewed]:
        """Recorded pairs with an end among these names."""
        ...

    async def together(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the pairs that some chunk names both of, whatever the names mean. The fold opens
        names of recorded pairs whose `tie` may have changed."""
        ...

    async def rulings(self, keys: Sequence[str]) -> list[Ruling]:
        """With an end among these names; a user's hides a model's on the same pair."""
        ...

    async def settle(self, settlement: Settlement) -> bool:
        """One transaction; False, and nothing changes, if there was another settlement since the
        version it was made from, or a `tie` is not what it was. A name that changed meanwhile stays
        open."""
        ...

    async def rule(self, rulings: Sequence[Ruling]) -> None:
        """Record words on pairs of names, each replacing an earlier one of the same author; opens
        the names. A model's word on a name that is gone is dropped."""
        ...

    async def unrule(self, one: str, other: str) -> bool:
        """Take a user's word back; opens the names."""
        ...

    async def place(self, placements: Sequence[Placement], *, remove: bool = False) -> None:
        """By hand, scoped to documents (`app.folding.document_scope`): holds for what the document
        says now and in later revisions, until removed or the document is. Unknown documents are
        left out."""
        ...

    async def placed(self, *, after: str = "", limit: int = 100) -> list[Placement]:
        """Placements by hand in the order of `key` and `scope`, joined by a tab in `after`."""
        ...

    async def used_by(self, entity: str, *, limit: int) -> list[tuple[str, str]]:
        """(name key, document id) of the mentions that an entity has."""
        ...

    async def move(self, job_id: str, *, limit: int) -> int:
        """Fold up to `limit` chunks anew whose names were placed elsewhere; how many it looked at,
        0 when nothing is left to do."""
        ...

    async def moving(self) -> bool:
        """Whether evidence is still to be moved, or a job has ended before it was tidy."""
        ...

    async def adopt(self, job_id: str) -> None:
        """Take over what jobs that have ended moved and left untidy."""
        ...

    async def moved(self, job_id: str) -> bool:
        """Whether this job moved evidence: profiles and vectors of any document may be behind."""
        ...

    async def tidy(self, job_id: str) -> None:
        """Profiles and vectors followed what this job moved."""
        ...

    async def review(self, *, decision: str, after: str = "", limit: int = 50) -> list[Reviewed]:
        """Recorded pairs with a decision ("" any), best score first; `after` is the `place` of the
        last one seen."""
        ...


class Communities(Protocol):
    """Groups of entities and reports on them. Members are present entities: one that loses all
    evidence leaves its communities, and one without members is no more. Where evidence of a member
    is taken back, the same transaction forgets the reports of its communities: no report is ever
    stored that rests on evidence which is not. Vectors are told by `unindexed`, as of entities."""

    async def division(self) -> Division | None:
        """None: there never were communities."""
        ...

    async def begin(self, job_id: str, clustering: Clustering) -> None:
        """This job divides the graph from now on; earlier ones change nothing any more."""
        ...

    async def charge(self, usage: Usage) -> None:
        """Add to what reports have cost. No-op where nothing ever began."""
        ...

    async def put(self, job_id: str, clusters: Sequence[Cluster]) -> bool:
        """Make or change these. A report stays where no member leaves; one in the making is void
        where members change. Keys without evidence are left out. False, and nothing changes, if
        it is not the job that divides."""
        ...

    async def drop(self, job_id: str, ids: Sequence[str]) -> bool:
        """False, and nothing changes, if it is not the job that divides."""
        ...

    async def put_report(
        self, community_id: str, report: Report, *, version: int, covered: int
    ) -> bool:
        """False, and nothing changes, if the version is another by now, or the community gone."""
        ...

    async def get(self, ids: Sequence[str]) -> list[Community]: ...

    async def page(
        self, *, level: int | None = None, after: str = "", limit: int = 50
    ) -> list[Community]:
        """By id, those behind `after`; of one level or all."""
        ...

    async def at_level(self, level: int, *, limit: int) -> list[Community]:
        """Those into which the level divides the graph, leaves above it included, that have a
        report: highest rating first, then by id."""
        ...

    async def clusters(self, *, after: str = "", limit: int) -> list[Cluster]:
        """All with their members, by id, those behind `after`."""
        ...

    async def levels(self) -> dict[int, int]:
        """How many communities each level has."""
        ...

    async def members(self, community_id: str, *, after: str = "", limit: int) -> list[str]:
        """Entity keys, most mentioned first, then in their order; those behind the key `after`."""
        ...

    async def of_entities(self, keys: Sequence[str], *, level: int) -> dict[str, str]:
        """Entity key -> the community that the level, or the last one above it, puts it in."""
        ...

    async def due(self) -> list[str]:
        """Ids of those without a report, whose report lacks evidence, or is not the model's that
        it should be; those of lower levels (higher numbers) first."""
        ...


class Repairs(Protocol):
    """What `check` compares counters with, and how it mends them: from the evidence, which is
    counted anew, and from what chunks say."""

    async def told_of(
        self, kind: Kind, keys: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        """Evidence of entities or relations by visible chunks."""
        ...

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        """How many relations with evidence each of these entities has."""
        ...

    async def placements_of(self, names: Sequence[str]) -> list[Placement]: ...

    async def strays(self) -> list[Ref]:
        """Entities and relations with evidence by chunks that are not visible."""
        ...

    async def counted(self) -> Stats:
        """What `stats` should say."""
        ...

    async def refold(self, chunk_ids: Sequence[str]) -> None:
        """Replace the evidence of visible chunks by what they say, and count its owners anew."""
        ...

    async def recount(self, refs: Sequence[Ref]) -> None:
        """Drop evidence by chunks that are not visible; set everything that is counted, with the
        ends of relations. What changed is to be profiled and indexed again."""
        ...

    async def recount_names(self, keys: Sequence[str]) -> None:
        """Set what is counted of these names; those whose facts change are open then."""
        ...

    async def recount_totals(self) -> None:
        """Set what `stats` says, and how many chunks each document has."""
        ...

    async def job_faults(self) -> list[JobFault]: ...

    async def mend_job(self, fault: JobFault) -> None:
        """Drop the steps of an ended job; give a document a job that failed in place of a lost
        one. A job without a step is ended as failed."""
        ...


class Archive(Repairs, Protocol):
    """All that the graph store holds of the workspace, for fingerprint, backup and check. Pages are
    in the order of keys, behind `after`; one shorter than `limit` is the last. What is written
    meanwhile may be seen or not."""

    async def chunks(
        self, *, document_id: str = "", after: str = "", limit: int
    ) -> list[HeldChunk]:
        """By id: visible ones, put ones and tombstones; of one document, or all."""
        ...

    async def evidence(
        self, chunk_ids: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        """What is counted for these chunks, by chunk and key."""
        ...

    async def entities(self, *, after: str = "", limit: int) -> list[HeldEntity]:
        """By key, with those that have lost all evidence."""
        ...

    async def relations(self, *, after: str = "", limit: int) -> list[HeldRelation]: ...

    async def aliases(self, *, after: str = "", limit: int) -> list[HeldAlias]: ...

    async def names(self, *, after: str = "", limit: int) -> list[HeldName]: ...

    async def rulings(self, *, after: str = "", limit: int) -> list[Ruling]:
        """Of users and models; `after` is `one`, `other` and `by` joined by tabs."""
        ...

    async def placements(self, *, after: str = "", limit: int) -> list[HeldPlacement]:
        """`after` is `key` and `scope` joined by a tab."""
        ...

    async def admit_names(
        self, rulings: Sequence[Ruling], placements: Sequence[HeldPlacement]
    ) -> None:
        """Store what was decided elsewhere, before there is evidence that would have to move."""
        ...

    async def dates(self, document_ids: Sequence[str]) -> dict[str, str]:
        """What filters by `date` look at, of visible revisions: the time of the upload, where no
        date was given, is nowhere else."""
        ...

    async def admit(self, document: Document, date: str) -> None:
        """Give a stored document the version, usage, warnings, times and date of this one."""
        ...


class VectorStore(Protocol):
    async def upsert(self, points: Sequence[Point]) -> None: ...

    async def search(self, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        """One list per query, best first, ties by key; one round trip for all."""
        ...

    async def delete(self, refs: Sequence[Ref]) -> None: ...

    async def count(self, kind: Kind) -> int: ...

    async def read(self, refs: Sequence[Ref]) -> list[Point]:
        """Stored points, in no order, dense vectors as the engine keeps them (unit length)."""
        ...

    async def scroll(
        self, kind: Kind, *, after: str = "", limit: int = 256
    ) -> tuple[list[Point], str]:
        """Stored points, and what to give as `after` for those behind them: "" at the end."""
        ...

    async def digests(self, refs: Sequence[Ref]) -> dict[Ref, str]:
        """Of the texts that stored points were made from; "" where that is not known."""
        ...

    async def listed(
        self, kind: Kind, *, after: str = "", limit: int = 1000
    ) -> tuple[list[Ref], str]:
        """What has a point; as `scroll`, without reading vectors."""
        ...


class Blobs(Protocol):
    """Content-addressed bytes, shared by all workspaces: the key is the SHA-256 of the bytes."""

    async def put(self, data: bytes) -> str: ...

    async def put_file(self, file: IO[bytes]) -> str:
        """The same of a seekable file of any length, read in pieces from its start."""
        ...

    async def get(self, key: str) -> bytes: ...

    async def size(self, key: str) -> int:
        """In bytes; `NotFound` where it is gone."""
        ...

    def pieces(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, a few at a time. For what is too long for the
        memory, or where nobody knows how long it is."""
        ...

    async def has(self, key: str) -> bool: ...

    async def delete(self, keys: Sequence[str]) -> None: ...

    def list(self) -> AsyncIterator[tuple[str, float]]:
        """Keys of all that is there, each with the time when it was last put."""
        ...

    async def under(
        self, start: str, *, after: str = "", limit: int
    ) -> Sequence[tuple[str, float]]:
        """The same of keys that begin with these two digits, in their order, behind `after`. Reads
        no other keys."""
        ...


# --- stores of the whole service -----------------------------------------------------------------


class Journal(Protocol):
    """The durable half of the queue, for all workspaces. Time is that of the store.

    A job's first step is `<job>.<first stage>.0` and has an empty shard."""

    async def job(self, workspace: str, job_id: str) -> Job: ...

    async def jobs(
        self, workspace: str, *, document_id: str = "", state: State | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Job]:  # fmt: skip
        """Newest first; `after` is the id of the last one seen."""
        ...

    async def claim(self, step_id: str, *, lease: float, tries: int) -> Step | None:
        """Lease a step for so many seconds. None: done, cancelled, waiting for its time, or leased
        to another. When `tries` claims were used up the job is closed as failed (`worker_lost`)."""
        ...

    async def open(self, job: Job) -> None:
        """Open a job of the workspace (`document_id` empty) with its first step. The same id again
        changes nothing."""
        ...

    async def renew(self, step: Step, *, lease: float) -> bool:
        """False: the step is no longer this claim's; stop working on it. A claim whose lease ran
        out stays valid until another one is made."""
        ...

    async def finish(
        self, step: Step, *, shards: Sequence[Sequence[str]] = (),
        next_stage: str = "", next_status: Status = Status.READY, lease: float,
    ) -> Opened:  # fmt: skip
        """One transaction: remove the step; add `shards` as steps `<job>.<stage>.<n>` (n from 1) or
        count its own shard as done; if no step is open any more, open `<job>.<next_stage>.0`, or,
        without a next stage, close the job as done with `next_status`. The first step opened is
        claimed for the caller. The job's status becomes `next_status` when the stage ends, and its
        `done` and `total` begin at 0 with each stage. Empty shards are left out. A claim that is no
        longer valid changes nothing."""
        ...

    async def release(self, step: Step, *, delay: float, error: str = "") -> Ticket | None:
        """Give a step back, to be claimed again after `delay`. With `error` the job counts a failed
        attempt; without one (worker stopping) the claim does not count."""
        ...

    async def close(
        self, workspace: str, job_id: str, state: State, error: Failure | None = None
    ) -> bool:
        """End a job (failed, cancelled) and drop its steps; False if it had ended already or is
        unknown. Where an ingest has left chunks visible that were never published, or changed
        published ones, this opens the document's next job in the same transaction: a withdrawal
        (`app.domain.withdrawal_of`), which shows the error, whatever comes of itself. The status
        becomes failed; a cancelled job without an error gets one with the code `cancelled`. The
        error's stage is the job's where it names none."""
        ...

    async def overdue(self, *, limit: int, lease: float) -> list[Ticket]:
        """Open steps whose lease or waiting time has run out, or that were never claimed and are
        older than a few seconds. `lease` is what workers give, the same everywhere: a time further
        ahead is of a clock that was set back since, and has run out too, here as for `claim`. Those
        that have waited longest come first."""
        ...

    async def resent(self, tickets: Sequence[Ticket], *, wait: float) -> None:
        """These were sent again: they are not overdue for so many seconds, unless they are claimed
        in between and lost once more. When they may be claimed is another matter."""
        ...


class Keyring(Protocol):
    async def find(self, digest: str) -> ApiKey | None: ...

    async def add(self, key: ApiKey) -> None: ...

    async def all(self) -> list[ApiKey]: ...

    async def revoke(self, key_id: str) -> bool: ...

    async def workspaces(self) -> list[str]:
        """Names of workspaces that hold documents."""
        ...


class Queue(Protocol):
    async def send(self, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
        """A ticket that is already waiting is not sent twice."""
        ...

    async def depth(self) -> int: ...


class Pingable(Protocol):
    """A dependency that /readyz can name."""

    async def ping(self) -> str:
        """Its version; raises `Unavailable`."""
        ...


class NextVectors(Protocol):
    """Collections beside those in use, as far as they are made: an earlier try may have left some.
    Only one process makes them at a time."""

    def store(self, workspace: str) -> VectorStore: ...

    async def hold(self) -> bool:
        """Have whoever writes to the vectors in use wait (`Unavailable`, for a minute at most), in
        all processes, so that nothing new is missed. Whether they have waited without a gap since
        the last call."""
        ...

    async def switch(self) -> None:
        """In one step these are the ones in use. Needs `hold`: `Conflict` where it has lapsed.

        Of the same model, all processes answer from them at once, and the former are deleted. Of
        another model, running processes go on answering from the former, and write no more."""
        ...


class VectorEngine(Pingable, Protocol):
    """What holds the vectors of all workspaces, made by one embedding model. After a switch to
    another model every write is `Unavailable`, until a process is started with that model."""

    def beside(self, model: str, dimension: int) -> AbstractAsyncContextManager[NextVectors]:
        """Open, or begin, collections of a model beside those in use. Leaving ends a hold."""
        ...

    async def discard(self) -> list[str]:
        """Delete all collections that are not in use, half-made and former ones; their names."""
        ...


# --- roles: what the service needs a mind for; a language model or rules may play each ------------


class Extractor(Protocol):
    @property
    def by_model(self) -> bool: ...

    @property
    def version(self) -> str:
        """Model and prompt version: part of every extraction key."""
        ...

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction: ...


class Profiler(Protocol):
    @property
    def by_model(self) -> bool: ...

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Completion:
        """A text of at most `limit` tokens that says what the descriptions say."""
        ...


class Keyworder(Protocol):
    @property
    def by_model(self) -> bool: ...

    async def keywords(self, question: Question) -> Keywords: ...


class Rewriter(Protocol):
    """Turns a question into what is easier to search for. A reply that cannot be used gives
    nothing; the question itself then retrieves."""

    async def passages(self, question: Question, *, count: int) -> Passages:
        """At most so many texts as a document that answers might hold."""
        ...

    async def queries(self, question: Question, *, sequential: bool) -> Queries:
        """At most a handful. `sequential`: they may name the answers of earlier ones."""
        ...

    async def short_answer(self, query: str, texts: Sequence[str]) -> Completion:
        """A few words from the texts; "" where they do not tell."""
        ...


class Answerer(Protocol):
    @property
    def model(self) -> str | None:
        """None: no language model writes the answers."""
        ...

    def answer(self, question: Question, context: Context) -> AsyncGenerator[str | Usage, None]:
        """Pieces of text with `[n]` marks of context sources; usage once, at the end. No text: the
        sources do not tell."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """For bypass and rewriting; `Unavailable` without a model."""
        ...


class Embedder(Protocol):
    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        """Unit vectors, one per text. A document's text that the model cannot embed, even alone
        and in another form, gets the empty vector: it is to be left out, with a warning."""
        ...


class Reranker(Protocol):
    async def scores(self, query: str, texts: Sequence[str]) -> list[float]: ...


class Trained(Protocol):
    """Weights that score relations for mode `asr`; `version` identifies them."""

    @property
    def version(self) -> str: ...

    @property
    def network(self) -> Any:
        """`app.query.anchored.network.Network`"""
        ...


class Scorers(Protocol):
    def of(self, workspace: str) -> Trained | None:
        """None: no usable ones; a formula scores instead."""
        ...

    def notices(self) -> list[str]:
        """Files that cannot be used, and why; names no workspace."""
        ...


class Judge(Protocol):
    async def judge(self, asked: Sequence[Asked]) -> Judgement:
        """Whether the two names of each pair mean one thing."""
        ...


class Referee(Protocol):
    """Compares answers and thinks up questions, for evaluations."""

    @property
    def model(self) -> str: ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """Name to digest of each prompt that it uses: part of every record."""
        ...

    async def compare(
        self, question: str, first: str, second: str, criteria: Mapping[str, str]
    ) -> Compared:
        """`criteria`: name to what it means."""
        ...

    async def describe(self, samples: Sequence[str]) -> Completion:
        """What a collection is about, told from pieces of it."""
        ...

    async def propose(
        self, what: Literal["users", "tasks", "questions"], about: Mapping[str, str], count: int
    ) -> Proposed:
        """Users of the collection (`about`: its `description`), tasks of a `user`, or questions
        for a `task` of a `user`."""
        ...


class Reporter(Protocol):
    @property
    def by_model(self) -> bool: ...

    async def report(self, facts: Sequence[Fact]) -> Reported:
        """On a community, from what is known of its members, most central first. `BadModelOutput`
        or `Invalid` where the model refuses."""
        ...

    async def points(self, question: Question, reports: Sequence[Report]) -> KeyPoints:
        """What in these reports helps to answer; none that scores 0."""
        ...


class Tokenizer(Protocol):
    def count(self, text: str) -> int: ...

    def cut(self, text: str, limit: int) -> str:
        """The longest prefix of at most `limit` tokens that ends at a character boundary."""
        ...

    def offsets(self, text: str) -> Sequence[int]:
        """Start offset (in characters) of every token; lets callers cut by tokens exactly."""
        ...


# --- bundles -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Workspace:
    """Everything bound to one workspace."""

    name: str
    documents: Documents
    graph: GraphStore
    names: Names
    vectors: VectorStore
    blobs: Blobs
    options: Options
    archive: Archive
    evaluations: Evaluations
    communities: Communities


@dataclass(frozen=True, slots=True)
class Models:
    extractor: Extractor
    profiler: Profiler
    keyworder: Keyworder
    answerer: Answerer
    embedder: Embedder
    reranker: Reranker | None
    tokenizer: Tokenizer
    reporter: Reporter
    plain_reporter: Reporter  # by rules: for what is not worth a model's reply, or got none
    judge: Judge | None = None
    rewriter: Rewriter | None = None  # only a language model can play it
    referee: Referee | None = None
    scorers: Scorers | None = None
    joint: Joint = field(default_factory=Joint)  # calls under way in this process


@dataclass(frozen=True, slots=True)
class Services:
    """Exists once per process."""

    workspace: Callable[[str], Workspace]
    journal: Journal
    keyring: Keyring
    queue: Queue
    models: Models
    vectors: VectorEngine
    dependencies: Mapping[str, Pingable]
    # One by other settings than those of the service (`embed_…`); `Invalid` if they cannot be.
    embedder: Callable[[Mapping[str, object]], AbstractAsyncContextManager[Embedder]]
