"""Chunks, and what an extractor said about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from app.domain.jobs import Usage


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
