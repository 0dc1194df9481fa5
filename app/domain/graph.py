"""Entities, relations, and the evidence that they are folded from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from app.domain.ids import Ref


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


@dataclass(frozen=True, slots=True)
class Subgraph:
    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Stats:
    """Visible records of a workspace."""

    documents: int
    chunks: int
    entities: int
    relations: int
