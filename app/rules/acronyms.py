"""Pairs of a long form and its acronym in brackets, after Schwartz and Hearst (2003), stricter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.rules.lexicon import english
from app.rules.tokens import Token

MAX_WORDS = 8
_SHORT = re.compile(r"[A-Za-z][\w.+-]{1,9}")
_SPLIT = re.compile(r"[-–/]")
_FREE = frozenset({"of", "and", "for", "the", "in", "de", "la", "&"})


class Pair(NamedTuple):
    """Tokens `first` up to `last` are the long form, token `short` its acronym."""

    first: int
    last: int
    short: int


def pairs(tokens: Sequence[Token]) -> list[Pair]:
    """`long form (LF)` and `LF (long form)` among the tokens of a sentence."""
    found: list[Pair] = []
    for place, token in enumerate(tokens):
        if not place or "(" not in token.gap or token.gap.rstrip()[-1:] != "(":
            continue
        if is_short_form(token.text) and _closes(tokens, place + 1):
            first = _long_form(tokens, place, token.text)
            if first is not None:
                found.append(Pair(first, place, place))
        elif is_short_form(tokens[place - 1].text):
            last = _bracket_end(tokens, place)
            long = tokens[place:last]
            if len(long) > 1 and _matches(tokens[place - 1].text, [t.low for t in long]):
                found.append(Pair(place, last, place - 1))
    return found


def is_short_form(word: str) -> bool:
    """Two to ten characters with at least two capitals, or one and a digit."""
    capitals = sum(char.isupper() for char in word)
    return bool(_SHORT.fullmatch(word)) and (
        capitals >= 2 or (capitals == 1 and any(char.isdigit() for char in word))
    )


def _closes(tokens: Sequence[Token], after: int) -> bool:
    """Whether the bracket holds one token, or the token and something after a mark."""
    return after >= len(tokens) or tokens[after].gap[:1] in (")", ",", ";", "]", ":")


def _bracket_end(tokens: Sequence[Token], first: int) -> int:
    for place in range(first + 1, min(first + MAX_WORDS + 1, len(tokens))):
        if ")" in tokens[place].gap:
            return place
        if tokens[place].gap.strip():
            return first
    return len(tokens) if len(tokens) - first <= MAX_WORDS else first


def _long_form(tokens: Sequence[Token], end: int, short: str) -> int | None:
    """Where the long form before the bracket at `end` starts; the shortest that fits. All letters
    are tried first, then the capitals only (ccRCC, mRNA); a letter for each word first, then rests
    inside the last one (tuberculosis, TB)."""
    outset = _outset(tokens, end)
    for letters in _letters(short):
        for rest in (False, True):
            for first in range(end - 1, outset - 1, -1):
                long = [token.low for token in tokens[first:end]]
                if long[0] not in _FREE and _fits(letters, short, long, rest=rest):
                    return first
    return None


def _outset(tokens: Sequence[Token], end: int) -> int:
    """How far back a long form can reach: over no modal, pronoun, determiner or mark."""
    barred = english()["modal"] | english()["pronoun"] | english()["determiner"]
    for first in range(end - 1, max(0, end - MAX_WORDS) - 1, -1):
        low = tokens[first].low
        if low in barred and low not in _FREE:
            return first + 1
        if tokens[first].gap.strip(" \n\"'“”‘’*_"):
            return first
    return max(0, end - MAX_WORDS)


def _letters(short: str) -> list[list[str]]:
    letters = [char.lower() for char in short.rstrip("s") if char.isalnum()]
    capitals = [char.lower() for char in short if char.isupper()]
    return [letters, capitals] if 2 <= len(capitals) < len(letters) else [letters]


def _matches(short: str, long: list[str]) -> bool:
    return any(_fits(letters, short, long, rest=True) for letters in _letters(short))


def _fits(letters: list[str], short: str, long: list[str], *, rest: bool) -> bool:
    parts = [part for word in long for part in _SPLIT.split(word) if part]
    if short.lower() in parts or len(parts) > MAX_WORDS + 2:
        return False
    return _starts(letters, parts, rest=rest)


def _starts(letters: Sequence[str], parts: Sequence[str], *, rest: bool) -> bool:
    """Every letter starts a part, in order; one part may be skipped beside the free ones; a rest of
    letters may lie inside the last part."""
    if not parts or not letters or parts[0][0] != letters[0]:
        return False
    place, skipped = 0, 0
    for number, part in enumerate(parts):
        if place < len(letters) and part[0] == letters[place]:
            place += 1
            if number == len(parts) - 1:
                inside = letters[place:]
                return not inside or (rest and _inside(inside, part[1:]))
        elif part not in _FREE:
            skipped += 1
            if skipped > 1 or number == len(parts) - 1:
                return False
    return False


def _inside(letters: Sequence[str], part: str) -> bool:
    place = 0
    for letter in letters:
        place = part.find(letter, place) + 1
        if not place:
            return False
    return True
