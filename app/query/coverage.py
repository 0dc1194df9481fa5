"""How much of a question a long passage holds, and how close together.

BM25 of a passage of 1,200 tokens says how often words occur in it; whether all of what is asked
occurs, and in one place, decides between such passages. Read from the texts of the first few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from app.domain import Chunk
from app.terms import content_terms, folded

LONG = 800  # tokens of a passage that counts in full; of short ones (a square law) BM25 says it all
WINDOW = 360  # characters: about 60 words
ENDINGS = ("", "s", "es")
_APART = {ord(char): " " for char in "\n\t\r!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~’‘“”–—…"}
_UNSPACED = "\u2e80"  # scripts from here on have no spaces between words


def coverage(question: str, chunks: Sequence[Chunk]) -> dict[str, float]:
    """By passage, in [0, 1]: the mean of the share of the question's content words that it has and
    of that within a window, for long passages. Words that fewer of the passages have weigh more."""
    wanted = content_terms(question)
    found = {chunk.id: _occurrences(chunk.text, wanted) for chunk in chunks}
    having = Counter(term for places in found.values() for term in {term for _, term in places})
    weights = {term: math.log1p(len(chunks) / max(having[term], 1)) for term in wanted}
    whole = sum(weights.values()) or 1.0
    return {
        chunk.id: (_held(found[chunk.id], weights) + _together(found[chunk.id], weights))
        / (2 * whole) * min(1.0, chunk.tokens / LONG) ** 2
        for chunk in chunks
    }  # fmt: skip


def _occurrences(text: str, wanted: Iterable[str]) -> list[tuple[int, str]]:
    """Places of the terms in the text, in order. Not by `terms`: that takes 2 ms a passage."""
    plain = f" {folded(text.translate(_APART))} "  # quotes and dashes apart, most text is ASCII
    found = []
    for term in wanted:
        unspaced = term[0] >= _UNSPACED
        stem = term if unspaced else f" {term.removesuffix('y') if len(term) > 4 else term}"
        place = plain.find(stem)
        while place >= 0:
            end = place + len(stem)
            if unspaced or _ends(plain, end, term):
                found.append((place, term))
            place = plain.find(stem, end)
    return sorted(found)


def _ends(plain: str, end: int, term: str) -> bool:
    rest = plain[end : plain.index(" ", end)]
    return rest in (("y", "ies") if term.endswith("y") and len(term) > 4 else ENDINGS)


def _held(places: Sequence[tuple[int, str]], weights: Mapping[str, float]) -> float:
    return sum(weights[term] for term in {term for _, term in places})


def _together(places: Sequence[tuple[int, str]], weights: Mapping[str, float]) -> float:
    """The most that stands within one window."""
    best = inside = 0.0
    counts: Counter[str] = Counter()
    first = 0
    for place, term in places:
        counts[term] += 1
        inside += weights[term] if counts[term] == 1 else 0.0
        while places[first][0] < place - WINDOW:
            left = places[first][1]
            counts[left] -= 1
            inside -= weights[left] if not counts[left] else 0.0
            first += 1
        best = max(best, inside)
    return best
