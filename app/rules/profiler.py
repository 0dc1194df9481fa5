"""Profiles without a language model: the best sentences of the descriptions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from app.domain import Completion
from app.ports import Tokenizer
from app.rules.sentences import Piece, pieces, stems

REDUNDANT = 0.75  # share of the shorter sentence's words that an earlier one says
_DEFINES = re.compile(r"\b(?:is|was|are|were)\s+(?:an?|the|one)\b|是|\best\b|\bist\b|\bes\b")


class RuleProfiler:
    """The port `Profiler`, played by rules."""

    by_model = False

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Completion:
        """The definition first, then further sentences that say something new."""
        text = await asyncio.to_thread(self._summary, name, descriptions, limit)
        return Completion(text)

    def _summary(self, name: str, descriptions: Sequence[str], limit: int) -> str:
        wanted = stems(name)
        found: list[tuple[bool, int, str, Piece]] = []
        for description in descriptions:
            for piece in pieces(description):
                sentence = description[piece.start : piece.end]
                head = sentence[: len(name) + 12].lower()
                defines = name.lower() in head and bool(_DEFINES.search(sentence))
                found.append((not defines, -len(wanted & piece.stems), sentence, piece))
        found.sort(key=lambda item: item[:2])
        kept: list[Piece] = []
        lines: list[str] = []
        room = limit
        for _, _, sentence, piece in found:
            if any(_repeats(piece, other) for other in kept):
                continue
            size = self._tokenizer.count(sentence) + 1
            if size > room:
                continue
            room -= size
            kept.append(piece)
            lines.append(sentence)
        return "\n".join(lines) or self._tokenizer.cut("\n".join(descriptions), limit)


def _repeats(one: Piece, other: Piece) -> bool:
    shorter = min(len(one.stems), len(other.stems))
    return not shorter or len(one.stems & other.stems) / shorter >= REDUNDANT
