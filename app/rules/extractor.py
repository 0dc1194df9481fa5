"""Extraction by rules: the entities and relations of a chunk without a language model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.domain import EntityMention, Extraction
from app.rules.candidates import gather
from app.rules.chinese import is_chinese, is_unspaced, read_chinese
from app.rules.kinds import portray
from app.rules.reading import read
from app.rules.relations import relate
from app.rules.unspaced import read_unspaced

MODEL = "offline-rules-1"  # raise when a rule changes: it is part of the extraction key


class RuleExtractor:
    """The port `Extractor`, played by rules."""

    version = MODEL
    by_model = False

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        return await asyncio.to_thread(extract, title, headings, text)


def extract(title: str, headings: Sequence[str], text: str) -> Extraction:
    """Entities and relations of a chunk; a pure function of its arguments."""
    if is_chinese(text):
        reading, found = read_chinese(title, text)
    elif is_unspaced(text):
        reading, found = read_unspaced(title, text)
    else:
        reading = read(title, text, headings)
        found = gather(reading)
    entities = []
    for entry in found:
        portrait = portray(reading, entry)
        entities.append(
            EntityMention(entry.name, portrait.kind, portrait.description, tuple(entry.aliases[:4]))
        )
    return Extraction(tuple(entities), tuple(relate(reading, found)), model=MODEL)
