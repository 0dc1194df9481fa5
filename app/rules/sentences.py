"""What an extractive answer is made of: sentences of a passage, with their offsets."""

from __future__ import annotations

import re
from typing import NamedTuple

from app import words
from app.rules.chinese import is_unspaced
from app.rules.reading import read
from app.rules.tokens import Sentence
from app.terms import terms

SHORTEST, LONGEST, LONGEST_LINE = 15, 600, 400
SHORTEST_UNSPACED = 5
_UNSPACED_SENTENCE = re.compile(r"[^。！？!?\n]+[。！？!?]*[”」』’\"）)]*")


class Piece(NamedTuple):
    """`text[start:end]` of a passage, in order; `stems` are its content words; a `heading` says
    nothing by itself."""

    start: int
    end: int
    stems: frozenset[str]
    heading: bool = False


def pieces(text: str) -> list[Piece]:
    """Sentences of a passage (chat: whole lines; tables: rows), none too short or too long."""
    found: list[Piece] = []
    for start, full, longest, heading in _spans(text):
        end = _cut(text, start, full, longest)
        if end - start >= (SHORTEST_UNSPACED if is_unspaced(text[start:end]) else SHORTEST):
            found.append(Piece(start, end, stems(text[start:end]), heading))
    return found


def _spans(text: str) -> list[tuple[int, int, int, bool]]:
    if not is_unspaced(text):
        return [
            (s.start, s.end, LONGEST_LINE if s.speaker else LONGEST, _is_heading(text, s))
            for s in read("", text).sentences
        ]
    found = []
    for match in _UNSPACED_SENTENCE.finditer(text):
        part = match.group()
        start = match.start() + len(part) - len(part.lstrip())
        found.append((start, match.start() + len(part.rstrip()), LONGEST, False))
    return found


def _is_heading(text: str, sentence: Sentence) -> bool:
    if sentence.cells or sentence.speaker:
        return False
    own = text[sentence.start : sentence.end]
    return sentence.heading or (own.isupper() and own[-1] not in ".!?…")


def _cut(text: str, start: int, end: int, longest: int) -> int:
    """An end within the limit, after a word."""
    if end - start <= longest:
        return end
    end = start + longest
    space = text.rfind(" ", start + longest // 2, end)
    return space if space > 0 else end


def stems(text: str) -> frozenset[str]:
    """Content words in a common form."""
    return frozenset(stem(term) for term in terms(text) if not words.is_stop_word(term))


def stem(word: str) -> str:
    """Without the endings -s, -ed, -ing, -ly and a final e: enough to match forms of a verb."""
    if not word.isascii() or len(word) < 4:
        return word
    for ending in ("ing", "ed", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "sl":
                word = word[:-1]
            break
    if word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("i"):
        return word[:-1] + "y"
    return word[:-1] if word.endswith("e") and len(word) > 3 else word
