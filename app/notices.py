"""Warnings about what a document's chunks say, in words that programs may rely on."""

from __future__ import annotations

import re

from app.domain import Readings

NO_ENTITIES = "no_entities: "  # begins the warning that nothing at all was found
ENOUGH = 200  # characters; a shorter text may well name nothing
# A capital in the middle of a sentence, or a script without capitals.
_NAME = re.compile(
    r"(?<=[^\W\d_][ ,;])\s*[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]\w"
    r"|[\u0590-\u07ff\u0900-\u109f\u3040-\u9fff\uac00-\ud7af]"
)
_UNREAD = "chunk {position} ({id}) has no entities: {why}"
_OURS = re.compile(rf"chunk \d+ \([^)]+\) has no entities: |{NO_ENTITIES}")


def of_readings(readings: Readings) -> list[str]:
    """One for each chunk that could not be read."""
    return [
        _UNREAD.format(position=one.position, id=one.id, why=one.why) for one in readings.failed
    ]


def nothing_found(chunks: int) -> str:
    return (
        f"{NO_ENTITIES}the model found no entity in any of {chunks} chunks; it may be too weak for "
        "extraction, and question answering falls back to plain retrieval"
    )


def has_names(text: str) -> bool:
    """Whether a reader would expect to find something in it."""
    return len(text) >= ENOUGH and _NAME.search(text) is not None


def is_ours(warning: str) -> bool:
    """Whether it is one of these, and so told anew by each ingest."""
    return _OURS.match(warning) is not None
