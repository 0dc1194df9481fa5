"""The nouns: frozen dataclasses and enums that every other module shares.

Character offsets are half-open and count code points of the document's parsed text.
Times are POSIX seconds (UTC). Keys of entities are normal forms of names (`app.names`);
a relation's key joins its two entity keys, sorted, with a tab.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Scalar = str | int | float | bool
Metadata = Mapping[str, Scalar | Sequence[Scalar]]


class Kind(StrEnum):
    """What a vector point or graph reference stands for."""

    CHUNK = "chunk"
    ENTITY = "entity"
    RELATION = "relation"
    COMMUNITY = "community"


class Status(StrEnum):
    """State of a document as callers see it; derived from its latest job."""

    QUEUED = "queued"
    PARSING = "parsing"
    EXTRACTING = "extracting"
    MERGING = "merging"
    INDEXING = "indexing"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


class State(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (State.DONE, State.FAILED, State.CANCELLED)


class Plan(StrEnum):
    """Kind of a job; `workers.plans` says which stages each has."""

    INGEST = "ingest"
    DELETE = "delete"
    WITHDRAW = "withdraw"  # of what an ingest that was cancelled or failed has left visible
    CURATE = "curate"  # of the workspace: it has no document
    REBUILD = "rebuild"  # of the workspace: its graph anew from what was read
    EVALUATE = "evaluate"  # of the workspace: its modes measured on questions
    COMMUNITIES = "communities"  # of the workspace: its graph in groups, and reports on them


FIRST_STAGE: Mapping[Plan, str] = {
    Plan.INGEST: "parse", Plan.DELETE: "retract", Plan.WITHDRAW: "withdraw",
    Plan.CURATE: "resolve", Plan.REBUILD: "refold",
    Plan.EVALUATE: "prepare", Plan.COMMUNITIES: "cluster",
}  # fmt: skip


class Mode(StrEnum):
    """How `POST /query` retrieves."""

    NAIVE = "naive"
    LOCAL = "local"
    GLOBAL = "global"
    HYBRID = "hybrid"
    MIX = "mix"
    PPR = "ppr"
    HYDE = "hyde"
    RQ = "rq"
    AUTO = "auto"
    SUBGRAPH = "subgraph"
    ASR = "asr"
    COMMUNITY = "community"
    BYPASS = "bypass"


class Scope(StrEnum):
    """What an API key may do; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


# --- ids -----------------------------------------------------------------------------------------


def derive_id(workspace: str, kind: str, *natural: str) -> str:
    """Deterministic 128-bit UUID of a natural key; the same in every store."""
    digest = hashlib.sha256("\x1f".join((workspace, kind, *natural)).encode()).digest()
    bits = int.from_bytes(digest[:16])
    # Variant and version 8 (RFC 9562: custom) by hand: `uuid` takes version 8 from 3.14 on only.
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x8 << 76 | 0x2 << 62
    return str(uuid.UUID(int=bits))


def document_id_of(source: str) -> str:
    """Id of a document that its sender gave none: equal bytes, equal id, in every workspace. What
    depends on the order of ids is so the same in a copy of a workspace."""
    return derive_id("", "document", source)


def chunk_id(
    document_id: str, *, start: int, page: int | None, headings: Sequence[str], text: str
) -> str:
    """Covers all that a chunk shows, so that equal ids mean equal chunks."""
    return derive_id("", "chunk", document_id, str(start), str(page), *headings, text)


def relation_key(one: str, other: str) -> str:
    """Key of the unordered pair of two entity keys."""
    return "\t".join(sorted((one, other)))


def relation_ends(key: str) -> tuple[str, str]:
    first, second = key.split("\t")
    return first, second


class Ref(NamedTuple):
    """Points at a chunk, entity, relation or community of the workspace at hand."""

    kind: Kind
    key: str


# --- documents and jobs --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Model calls and what they cost. `cost` is in the currency of the price settings."""

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.llm_calls + other.llm_calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed, for people (`message`) and programs (`code`)."""

    code: str
    message: str
    stage: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Revision:
    """One uploaded version of a document. `source` and `text` are blob keys (SHA-256)."""

    name: str
    media_type: str
    size: int
    source: str
    metadata: Metadata = field(default_factory=dict)
    date: str = ""  # ISO 8601; "" means the time of upload
    title: str = ""  # found by the parser
    text: str = ""  # "" until parsed


@dataclass(frozen=True, slots=True)
class Job:
    """A plan carried out for one document, or for the whole workspace (`document_id` empty).
    `done` and `total` count units of the current stage."""

    id: str
    workspace: str
    plan: Plan
    document_id: str
    state: State = State.QUEUED
    status: Status = Status.QUEUED
    stage: str = ""
    done: int = 0
    total: int = 0
    attempts: int = 0  # failed tries of its steps so far
    error: Failure | None = None
    created_at: float = 0.0
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Document:
    """A document: the revision that queries see (`live`), the coming one (`pending`), or both."""

    id: str
    version: int  # of `live`; 0 means nothing is visible yet
    live: Revision | None
    pending: Revision | None
    job: Job  # the latest
    chunks: int = 0  # visible ones
    warnings: tuple[str, ...] = ()
    usage: Usage = Usage()
    created_at: float = 0.0
    updated_at: float = 0.0
    superseded: tuple[Revision, ...] = ()  # only in what `Documents.submit` returns

    @property
    def revision(self) -> Revision:
        """What to show of it: the visible revision, else the coming one."""
        revision = self.live or self.pending
        assert revision is not None, "a document has at least one revision"
        return revision

    @property
    def coming(self) -> Revision:
        """What work in progress is about: the coming revision, else the visible one."""
        revision = self.pending or self.live
        assert revision is not None, "a document has at least one revision"
        return revision

    @property
    def status(self) -> Status:
        return self.job.status


@dataclass(frozen=True, slots=True)
class Step:
    """A claimed unit of work. An empty shard means: divide the stage first."""

    id: str  # <job>.<stage>.<n>
    job_id: str
    workspace: str
    plan: Plan
    document_id: str
    stage: str
    shard: tuple[str, ...]
    attempt: int  # 1 for the first claim; fences writes of earlier claims
    tries: int = 1  # claims that count against the limit: all but those given back by a stop


class Ticket(NamedTuple):
    """What the queue carries. `attempt` = claims so far: a redelivery has a new identity."""

    step_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Opened:
    """What `Journal.finish` opened: a step already claimed for the caller, others to be sent."""

    step: Step | None = None
    send: tuple[Ticket, ...] = ()
    job_done: bool = False


def withdrawal_id(job_id: str) -> str:
    """Of the job that takes back what this one left visible, if it ended with something left."""
    return derive_id("", "withdraw", job_id).replace("-", "")


def first_ticket(job_id: str, plan: Plan) -> Ticket:
    """Of the step with which every job begins."""
    return Ticket(f"{job_id}.{FIRST_STAGE[plan]}.0", 0)


def withdrawal_of(job_id: str) -> Ticket:
    """Its first step, for the queue: where there is none, nobody can claim it."""
    return first_ticket(withdrawal_id(job_id), Plan.WITHDRAW)


# --- what a chunk says ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chunk:
    """A token window of a document: `text == parsed_text[start:end]`, exactly."""

    id: str
    document_id: str
    position: int
    start: int
    end: int
    text: str
    tokens: int
    headings: tuple[str, ...] = ()
    page: int | None = None  # of its first character, from 1
    page_end: int | None = None


@dataclass(frozen=True, slots=True)
class EntityMention:
    """An entity as one chunk names it."""

    name: str
    kind: str
    description: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelationMention:
    """A relation as one chunk states it; `source` and `target` are names, strength is 0 to 10."""

    source: str
    target: str
    description: str
    keywords: tuple[str, ...] = ()
    strength: float = 1.0


@dataclass(frozen=True, slots=True)
class Extraction:
    """All that one chunk says. `about`: names that it is about (title, heading, subject)."""

    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    about: tuple[str, ...] = ()
    model: str = ""
    dropped: int = 0  # records of the reply that could not be used
    error: str = ""  # why the chunk has no extraction, if it failed for good
    usage: Usage = Usage()


class Unread(NamedTuple):
    """A chunk whose reading failed, and why."""

    id: str
    position: int
    why: str


@dataclass(frozen=True, slots=True)
class Readings:
    """How the extractor fared with the chunks of a job: `empty` are those that it read and found no
    entity in."""

    chunks: int
    empty: tuple[str, ...] = ()
    failed: tuple[Unread, ...] = ()


# --- the graph -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entity:
    """`mentions` counts the chunks that name it. `revision` counts changes of its evidence,
    `profiled` the revision that `profile` covers, `indexed` the one that its vector covers."""

    key: str
    name: str
    kind: str
    profile: str
    mentions: int
    degree: int = 0
    aliases: tuple[str, ...] = ()
    revision: int = 0
    profiled: int = 0
    indexed: int = 0
    digest: str = ""  # of the text that was last indexed


@dataclass(frozen=True, slots=True)
class Relation:
    """`source` and `target` are entity keys in sorted order, `weight` the sum of the strengths."""

    key: str
    source: str
    target: str
    source_name: str
    target_name: str
    profile: str
    keywords: tuple[str, ...]
    weight: float
    mentions: int
    revision: int = 0
    profiled: int = 0
    indexed: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Descriptions from which a profile is made, a bounded, order-free sample of all (`count`)."""

    ref: Ref
    name: str
    revision: int
    descriptions: tuple[str, ...]
    count: int
    profile: str = ""  # the present one
    covered: int = 0  # evidence count when it was last summarised by a model


@dataclass(frozen=True, slots=True)
class Profile:
    ref: Ref
    text: str
    revision: int
    covered: int = 0


class Mark(NamedTuple):
    """A reference whose vector now covers `revision`; `digest` identifies the indexed text."""

    ref: Ref
    revision: int
    digest: str


class Stale(NamedTuple):
    """A reference whose vector is behind; `gone` means no evidence is left: delete the point."""

    ref: Ref
    gone: bool


@dataclass(frozen=True, slots=True)
class ChunkLinks:
    """What a chunk is tied to: mentioned entities, asserted relations, entities it is about."""

    chunk_id: str
    document_id: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    about: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntityLinks:
    """Chunks of an entity, bounded. `mentions` is the true count, `chunks` a part of them."""

    key: str
    name: str
    mentions: int
    chunks: tuple[str, ...]
    about: tuple[str, ...]  # chunks about it


@dataclass(frozen=True, slots=True)
class Mention:
    """One piece of evidence for an entity or relation, with where it stands."""

    chunk_id: str
    document_id: str
    name: str
    kind: str
    description: str


# --- names: which of them mean one thing ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownName:
    """A name of the live evidence: what `app.resolution` needs to know of it, and the entity that
    it means. `scopes` counts what its mentions say it is; `revision` counts changes of all this."""

    key: str
    form: str  # as most often written
    kind: str
    aliases: tuple[str, ...]  # stated for it
    mentions: int  # 0: it is gone
    scopes: Mapping[str, int]
    entity: str
    revision: int
    blocks: tuple[str, ...] = ()  # as of when it was last resolved


class Ruling(NamedTuple):
    """Somebody's word on two names (keys, sorted): one thing, or two. A user's beats a model's."""

    one: str
    other: str
    same: bool
    by: str  # user | model
    note: str = ""
    at: float = 0.0


class Placement(NamedTuple):
    """Where mentions of a name belong, if not where the name itself says. `scope`: which mentions
    ("" all; "document:<id>" those of a document; else what they say the thing is). `entity` "":
    nowhere. `name`: what to show instead of the name as written."""

    key: str
    scope: str
    entity: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Subgraph:
    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    truncated: bool = False


# --- communities ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clustering:
    """How a graph is divided: levels at most, entities beyond which a community is divided again,
    and the resolution of modularity (more: smaller communities)."""

    levels: int = 3
    size: int = 10
    resolution: float = 1.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A community without its report. `parent` is the id of the one that it is a part of (""), a
    `leaf` is divided no further; members are entity keys, sorted."""

    id: str
    level: int
    parent: str
    leaf: bool
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a report tells, and the entities and relations that it rests on."""

    summary: str
    explanation: str = ""
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a community is about. `rating`: how much it matters, 0 to 10. `model` is empty where
    rules wrote it; `fault` then says why, if a model should have."""

    title: str
    summary: str
    rating: float = 0.0
    findings: tuple[Finding, ...] = ()
    model: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Community:
    """`size` counts its entities and `mentions` theirs, which is all its evidence; a report is made
    from `covered` of it. Evidence that is taken back takes the report with it, so that what a
    report lacks can only have come since. `version` counts what makes a report in the making void.
    `digest` is of the text that was last indexed."""

    id: str
    level: int
    parent: str
    leaf: bool
    size: int
    mentions: int
    version: int
    report: Report | None = None
    covered: int = 0
    indexed: bool = False
    digest: str = ""

    @property
    def fresh(self) -> bool:
        return self.report is not None and self.covered == self.mentions


@dataclass(frozen=True, slots=True)
class Division:
    """The communities of a workspace as a whole: how they were made, the job that did so last, and
    what reports have cost so far."""

    clustering: Clustering
    job_id: str
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Fact:
    """What a report may tell: an entity or relation by name, and what is known of it."""

    ref: Ref
    name: str
    kind: str
    text: str
    weight: float


@dataclass(frozen=True, slots=True)
class Reported:
    """Without a report where the reply was none."""

    report: Report | None
    usage: Usage = Usage()


class KeyPoint(NamedTuple):
    """Something in a report (by its place among those asked) that helps to answer, with 0 to 100
    for how much."""

    report: int
    text: str
    score: float
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyPoints:
    """`readable`: the reply was a list of points, if an empty one."""

    points: tuple[KeyPoint, ...] = ()
    readable: bool = True
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Stats:
    """Visible records of a workspace."""

    documents: int
    chunks: int
    entities: int
    relations: int


# --- vectors -------------------------------------------------------------------------------------

Vector = tuple[float, ...]


class Sparse(NamedTuple):
    """Term weights: hashed term ids (unique) and their values."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Embeddings:
    """A vector for each text, and what they cost; their tokens count as prompt tokens."""

    vectors: Sequence[Vector]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Point:
    """`dense` is () where the model has no vector for the text: then only its words find it.
    `digest` identifies the text."""

    ref: Ref
    dense: Vector
    sparse: Sparse
    document_id: str = ""  # chunks only
    digest: str = ""


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """One search: by dense or by sparse vector. `within` limits to these keys, `documents` (chunks
    only) to these documents; None means no limit."""

    kind: Kind
    limit: int
    dense: Vector | None = None
    sparse: Sparse | None = None
    within: Sequence[str] | None = None
    documents: Sequence[str] | None = None


class Hit(NamedTuple):
    key: str
    score: float


# --- questions and answers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Keywords:
    """Low: things (entities); high: themes (relations)."""

    low: tuple[str, ...] = ()
    high: tuple[str, ...] = ()
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts written as if documents held them, to search with."""

    texts: tuple[str, ...] = ()
    usage: Usage = Usage()


class Rewriting(StrEnum):
    """What a question needs before it is searched for (RQ-RAG)."""

    NONE = "none"
    REWRITE = "rewrite"
    DECOMPOSE = "decompose"
    DISAMBIGUATE = "disambiguate"


@dataclass(frozen=True, slots=True)
class Queries:
    """What to search for beside the question itself. A text may name the answer to an earlier one
    as `#n`, from 1, where that was asked for."""

    kind: Rewriting = Rewriting.NONE
    texts: tuple[str, ...] = ()
    usage: Usage = Usage()
    readable: bool = True  # False: the reply said nothing of the kind


@dataclass(frozen=True, slots=True)
class Turn:
    role: str  # user | assistant
    content: str


@dataclass(frozen=True, slots=True)
class Budget:
    """Token limits of the context; each part ends where its share or the whole does."""

    entities: int = 6000
    relations: int = 8000
    total: int = 30000


@dataclass(frozen=True, slots=True)
class Anchoring:
    """How modes `asr` and `subgraph` gather and score relations. `budget` counts relations of the
    pool, `deadline_ms` bounds the graph reads that fill it."""

    anchors: int = 16
    hops_topic: int = 2
    hops_anchor: int = 1
    budget: int = 1000
    scorer: str = "auto"  # auto | prior | weights | cosine
    ablate: tuple[str, ...] = ()  # of anchors, gate, gnn, path, topic
    deadline_ms: int = 400


@dataclass(frozen=True, slots=True)
class Question:
    """`workspace`: whose question it is, so that what is remembered of it stays there."""

    text: str
    workspace: str = ""
    mode: Mode = Mode.MIX
    top_k: int = 40
    chunk_top_k: int = 20
    budget: Budget = Budget()
    documents: tuple[str, ...] | None = None  # evidence only from these
    history: tuple[Turn, ...] = ()
    keywords: Keywords | None = None
    keyword_source: str = "auto"  # auto | model | query
    response_type: str = ""
    language: str = ""
    low_level: bool = True
    high_level: bool = True
    source_text: bool = True
    mix_style: str = "walk"  # walk | lightrag
    hyde_passages: int = 3  # that a model writes for mode hyde
    rq_base: Mode = Mode.MIX  # retrieves each query of mode rq
    rq_sequential: bool = False  # a query of mode rq may need what an earlier one finds
    anchoring: Anchoring = Anchoring()
    community_search: str = "level"  # level | nearest
    community_level: int = 1


@dataclass(frozen=True, slots=True)
class ScoredEntity:
    entity: Entity
    text: str  # its profile, or its matching evidence when the question has filters
    score: float


@dataclass(frozen=True, slots=True)
class ScoredRelation:
    relation: Relation
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Theme:
    """A point of a community's report, or of evidence where there is none; `title` is of the
    report."""

    title: str
    text: str
    score: float
    community: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk in the context, numbered for citation."""

    number: int
    chunk: Chunk
    document_name: str
    date: str
    score: float


@dataclass(frozen=True, slots=True)
class Context:
    """What the answerer sees, within the budget, best first."""

    entities: tuple[ScoredEntity, ...] = ()
    relations: tuple[ScoredRelation, ...] = ()
    sources: tuple[Source, ...] = ()
    tokens: int = 0
    themes: tuple[Theme, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.entities or self.relations or self.sources or self.themes)


@dataclass(frozen=True, slots=True)
class Citation:
    number: int
    document_id: str
    document_name: str
    chunk_id: str
    page: int | None
    start: int
    end: int
    quote: str
    score: float


@dataclass(frozen=True, slots=True)
class Prompt:
    system: str
    user: str
    history: tuple[Turn, ...] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    usage: Usage = Usage()
    finish_reason: str = "stop"


class NameSaid(NamedTuple):
    """A name and what the documents say of it, for whoever is to judge it."""

    name: str
    kind: str
    description: str


Asked = tuple[NameSaid, NameSaid]


@dataclass(frozen=True, slots=True)
class Judgement:
    """For each pair asked: one thing (True), two (False), or not to be told (None)."""

    verdicts: tuple[bool | None, ...]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Compared:
    """Which of two answers is better on each criterion: 1 or 2, 0 where neither is. Criteria that
    the reply says nothing usable about are missing."""

    better: Mapping[str, int]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Proposed:
    """Lines that were asked for, in order, without repeats; fewer where the reply has no more."""

    lines: tuple[str, ...]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Modes measured on questions by a job of the same id. `request` and `result` are JSON as
    `app.evaluation` writes it, `result` "" until all is done; `measured` of `total` outcomes are
    there. Lists leave both texts out."""

    id: str
    name: str
    request: str
    total: int
    measured: int = 0
    result: str = ""
    created_at: float = 0.0


# --- settings that core code sees ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """Knobs of ingestion and retrieval; plain data, so core code never sees the settings."""

    chunk_tokens: int = 1200
    chunk_overlap: int = 100
    chunks_per_step: int = 8
    parse_seconds: float = 120.0
    parse_memory_mb: int = 1024
    gleanings: int = 0
    profile_tokens: int = 500
    summary_threshold: int = 1200  # tokens of descriptions beyond which a profile is summarised
    entity_kinds: tuple[str, ...] = (
        "person", "organization", "location", "event", "work", "method", "concept", "other",
    )  # fmt: skip
    language: str = ""
    dense_weight: float = 0.4
    report_tokens: int = 8000  # of facts that a community's report is made from
    report_size: int = 3  # entities below which rules write the report, model or not
    community_reports: int = 64  # that a question is put to, those that matter most
    community_calls: int = 8  # model calls at a time for one such question


@dataclass(frozen=True, slots=True)
class ApiKey:
    """`digest` is the SHA-256 of the secret. No workspace listed means: all of them."""

    id: str
    digest: str
    scope: Scope
    workspaces: tuple[str, ...]
    label: str
    created_at: float
