"""What a graph store holds, row by row: the nouns of fingerprint, backup and check.

Query code never sees these; they show what is behind the entities, relations and chunks there.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.domain import Chunk, Extraction, Placement, Plan
from app.folding import AssertionRow, MentionRow, NameTally, Tally


@dataclass(frozen=True, slots=True)
class HeldChunk:
    """`live`: visible; `folded`: its evidence is that of this extraction; `gone`: a tombstone."""

    chunk: Chunk
    job_id: str
    extraction_key: str
    extraction: Extraction | None
    live: bool
    folded: bool
    gone: bool
    indexed: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far profile and vector have followed the evidence, in revisions."""

    revision: int
    profiled: int
    indexed: int
    covered: int  # evidence that a model's profile covers; 0: made by rule
    digest: str  # of the indexed text


@dataclass(frozen=True, slots=True)
class HeldEntity:
    """`names`, `kinds` and `stated` (aliases) are the tallies that name, kind and aliases show."""

    key: str
    name: str
    kind: str
    aliases: tuple[str, ...]
    names: Tally
    kinds: Tally
    stated: Tally
    mentions: int
    described: int
    abouts: int
    degree: int
    profile: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class HeldRelation:
    """`source` and `target` are entity keys in sorted order; `weight` is in thousandths."""

    key: str
    source: str
    target: str
    keywords: tuple[str, ...]
    tally: Tally
    weight: int
    mentions: int
    described: int
    profile: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class HeldMention:
    """Evidence of an entity; `alias_keys` are the normal keys that it counts as aliases."""

    chunk_id: str
    document_id: str
    row: MentionRow
    alias_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldAssertion:
    """Evidence of a relation; the row's strength is in whole thousandths."""

    chunk_id: str
    document_id: str
    row: AssertionRow


@dataclass(frozen=True, slots=True)
class HeldAlias:
    """A normal key and the entities that it names besides their own, with the counts."""

    key: str
    entities: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class HeldName:
    """What is counted of a name: `mentions` by chunks, under whatever entity."""

    key: str
    tally: NameTally
    mentions: int


@dataclass(frozen=True, slots=True)
class HeldPlacement:
    """Where a name belongs, and whether somebody said so rather than the resolution."""

    placement: Placement
    by_hand: bool


@dataclass(frozen=True, slots=True)
class JobFault:
    """Something that no worker can get over. `kind`: a job without a step, a step of an ended job,
    a document without its job; `id` is the job's."""

    kind: str  # stepless | ended | jobless
    id: str
    document_id: str = ""
    plan: Plan = Plan.INGEST
