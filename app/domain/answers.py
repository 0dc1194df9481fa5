"""What is found for a question, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.graph import Entity, Relation
from app.domain.jobs import Usage
from app.domain.questions import Turn
from app.domain.reading import Chunk


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
