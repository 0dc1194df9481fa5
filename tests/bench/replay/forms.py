"""A recording as a reply: Heliograph's JSON, or the rows that prompts of LightRAG ask for."""

from __future__ import annotations

from app.domain import Extraction
from tests.bench.replay.recordings import Entity, Recording, Relation, as_json

FIELD, DONE = "<|#|>", "<|COMPLETE|>"


def of_extraction(extraction: Extraction) -> Recording:
    """What the built-in extractor found, as if it had been recorded."""
    return Recording(
        tuple(Entity(e.name, e.kind, e.description, e.aliases) for e in extraction.entities),
        tuple(
            Relation(r.source, r.target, r.keywords, r.description, r.strength)
            for r in extraction.relations
        ),
    )


def json_reply(recording: Recording) -> str:
    if recording.replies:
        return recording.replies[0]
    entities = [
        {"name": e.name, "type": e.kind, "aliases": e.aliases, "description": e.description}
        for e in recording.entities
    ]
    relations = [
        {
            "source": r.source, "target": r.target, "description": r.description,
            "keywords": r.keywords, "strength": r.strength,
        }
        for r in recording.relations
    ]  # fmt: skip
    return as_json({"entities": entities, "relationships": relations})


def rows_reply(recording: Recording) -> str:
    """Rows cannot tell aliases and strength; a triple without target is a row with too few
    fields, as LightRAG would have received it."""
    if recording.replies:
        return recording.replies[0]
    lines = [
        _row("entity", e.name, e.kind or "other", e.description or e.name)
        for e in recording.entities
    ]
    for r in recording.relations:
        ends = [r.source, r.target] if r.target else [r.source]
        words = ", ".join(r.keywords) or "related"
        lines.append(_row("relation", *ends, words, r.description))
    return "\n".join([*lines, DONE])


def gleaning_reply(recording: Recording | None, *, in_rows: bool) -> str:
    if recording and len(recording.replies) > 1 and recording.replies[1]:
        return recording.replies[1]
    return DONE if in_rows else as_json({"entities": [], "relationships": []})


def _row(*fields: str) -> str:
    return FIELD.join(" ".join(field.split()) for field in fields)
