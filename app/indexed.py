"""The texts that vectors are made of."""

from __future__ import annotations

from app.domain import Chunk, Document, Entity, Relation
from app.subjects import title_of


def document_title(document: Document) -> str:
    return title_of(document.coming.name, document.coming.title)


def chunk_text(title: str, chunk: Chunk) -> str:
    return "\n".join(line for line in (title, *chunk.headings, chunk.text) if line)


def entity_text(entity: Entity) -> str:
    return f"{entity.name}\n{entity.profile}"


def relation_text(relation: Relation) -> str:
    """The ends in the order of their names: that of their keys depends on what came first."""
    ends = " -- ".join(sorted((relation.source_name, relation.target_name)))
    return f"{ends}: {', '.join(relation.keywords)}\n{relation.profile}"
