"""Kinds and descriptions of entities, by cues in the name and around its mentions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from app import words
from app.rules.candidates import kind_of_word
from app.rules.lexicon import english
from app.rules.reading import Found, Reading, Spot, singular
from app.rules.tokens import JOINED, Sentence, Token

MAX_DESCRIPTION = 320
_COPULA = frozenset(
    {"is", "was", "are", "were", "ist", "war", "sind", "est", "était", "es", "era", "è", "é", "foi"}
)
_ARTICLES = frozenset(
    {"a", "an", "the", "one", "ein", "eine", "der", "die", "das", "un", "une", "le", "la", "una"}
    | {"uno", "el", "il", "um", "uma", "o", "een", "de", "het"}
)
_PHRASE_END = frozenset(
    {
        "of",
        "that",
        "who",
        "which",
        "in",
        "from",
        "by",
        "with",
        "and",
        "for",
        "to",
        "on",
        "at",
        "where",
    }
)
_AT_PLACE = frozenset(
    {"at", "from", "to", "towards", "toward", "into", "through", "across", "around"}
)
_DEFINED, _APPOSED = 4.5, 2.2
_SAMPLE = 12  # mentions that are looked at


Cues = defaultdict[str, float]


@dataclass(frozen=True, slots=True)
class Portrait:
    kind: str
    description: str


def portray(reading: Reading, entry: Found) -> Portrait:
    """Kind (`concept` without a cue) and description (a slice of the text) of an entity."""
    cues = defaultdict(float, entry.cues)
    _cues_of_name(entry, cues, reading.language)
    best: tuple[int, Spot] | None = None
    for spot in sorted(entry.spots)[:_SAMPLE]:
        sentence = reading.sentences[spot.sentence]
        rank = _definition(sentence, spot, cues, reading.language)
        if entry.origin != "term":
            _cues_around(sentence, spot, cues)
        if best is None or rank < best[0]:
            best = (rank, spot)
    kind = min(cues, key=lambda kind: (-cues[kind], kind), default="")
    if not kind or cues[kind] < 1:
        kind = "concept"
    if best is None:
        return Portrait(kind, _first_description(reading))
    return Portrait(kind, describe(reading.text, reading.sentences[best[1].sentence], best[1]))


def describe(text: str, sentence: Sentence, spot: Spot) -> str:
    """The sentence, or a part of it around the mention that ends at words."""
    start, end = sentence.start, sentence.end
    if end - start <= MAX_DESCRIPTION:
        return text[start:end].strip()
    at = sentence.tokens[spot.first].start
    if at - start > MAX_DESCRIPTION - 80:
        wanted = at - MAX_DESCRIPTION // 2
        start = next(token.start for token in sentence.tokens if token.start >= wanted)
    limit = min(end, start + MAX_DESCRIPTION)
    if limit < end:
        limit = max((t.end for t in sentence.tokens if start < t.end <= limit), default=limit)
    return text[start:limit].strip()


def _first_description(reading: Reading) -> str:
    """Of a title that the text does not name: the first sentence."""
    if not reading.sentences:
        return ""
    first = next((s for s in reading.sentences if not s.heading), reading.sentences[0])
    return describe(reading.text, first, Spot(0, 0, 1))


def _cues_of_name(entry: Found, cues: Cues, language: str) -> None:
    parts = entry.name.lower().replace(",", "").split()
    head = parts[-1]
    for place, part in enumerate(parts):
        if part == "of" and place:
            head = parts[place - 1]
            break
    kind = kind_of_word(head, language) or kind_of_word(singular(head), language)
    if not kind and language != "en":
        kind = kind_of_word(parts[0], language)
    if kind:
        cues[kind] += 3
    if entry.origin != "term":
        cues["person"] += _personal(entry, parts, named=not kind)
        if len(parts) > 1 and parts[0] in english()["place-opener"] and not kind:
            cues["location"] += 1.5


def _personal(entry: Found, parts: list[str], *, named: bool) -> float:
    """Points for a person by the parts of a name; `named`: its head says nothing else."""
    lists = english()
    points = 0.0
    if len(parts) > 1 and (
        parts[0] in lists["honoured"] or (parts[0] in lists["person"] and named)
    ):
        points += 2
    if len(parts) < 4 and parts[0] in lists["given"] and named:
        points += 1.5
    if entry.origin == "name" and 2 <= len(parts) <= 3 and entry.name[0].isupper():
        unlisted = not any(words.listed(part) or len(part) == 1 for part in parts)
        written = entry.name.split()
        if unlisted and all(p[0].isupper() and (p[1:].islower() or "-" in p) for p in written):
            points += 0 if parts[0] in lists["place-opener"] else 1
        if parts[0].isalpha() and all(len(part.strip(".")) == 1 for part in parts[1:]):
            points += 2
    return points


def _definition(sentence: Sentence, spot: Spot, cues: Cues, language: str) -> int:
    """Rank of the sentence as a description (0 is best); adds the cues of its pattern."""
    tokens = sentence.tokens
    place = _after_bracket(tokens, spot.last)
    if place < len(tokens) and tokens[place].low in _COPULA and place + 1 < len(tokens):
        after = tokens[place + 1].low
        if after == "born":
            cues["person"] += 4
        elif after in _ARTICLES or sentence.kinds[place + 1] in ("J", "N", "n"):
            kind = _listed_noun(sentence, place + 1, language)
            if (kind and after != "the") or (kind and spot.first < 3):
                cues[kind] += _DEFINED
            if after in _ARTICLES:
                return 0 if spot.first < 3 else 1
    if spot.last < len(tokens):
        gap = tokens[spot.last].gap
        if "(" in gap and tokens[spot.last].low == "born":
            cues["person"] += 4
            return 1 if spot.first < 3 else 2
        if gap.startswith(",") and tokens[spot.last].low in _ARTICLES:
            kind = _listed_noun(sentence, spot.last, language)
            if kind:
                cues[kind] += _APPOSED
            return 2
    return 3 if spot.first < 2 else 4


def _after_bracket(tokens: list[Token], place: int) -> int:
    """The place after a bracket that opens at `place`, else `place`."""
    if place < len(tokens) and "(" in tokens[place].gap:
        for behind in range(place + 1, min(place + 25, len(tokens))):
            if ")" in tokens[behind].gap:
                return behind
    return place


def _listed_noun(sentence: Sentence, first: int, language: str) -> str:
    """Kind of the first listed noun from the right of the phrase that starts at `first`."""
    tokens = sentence.tokens
    last = first + 1
    while last < len(tokens) and last - first < 10:
        if tokens[last].low in _PHRASE_END or (tokens[last].before > JOINED and last - first > 3):
            break
        if tokens[last].gap.strip() not in ("", ",", "-"):
            break
        last += 1
    for place in range(last - 1, first - 1, -1):
        low = tokens[place].low
        kind = kind_of_word(low, language) or kind_of_word(singular(low), language)
        if kind and (language == "de" or not tokens[place].cap):
            return kind
    return ""


def _cues_around(sentence: Sentence, spot: Spot, cues: Cues) -> None:
    tokens = sentence.tokens
    lists = english()
    before = tokens[spot.first - 1] if spot.first and tokens[spot.first].before == JOINED else None
    after = tokens[spot.last] if spot.last < len(tokens) else None
    if before is not None and not before.cap and not _qualifies(sentence, spot.last):
        for kind, points in _cues_before(before.low):
            cues[kind] += points
    if _is_subject_of_pronoun(sentence, spot):
        cues["person"] += 0.7
    if after is None:
        return
    if tokens[spot.last - 1].possessive and after.low in lists["owned"]:
        cues["person"] += 1
    if after.low in ("who", "whom", "whose") and after.gap.strip() in ("", ","):
        cues["person"] += 2
    said = after.low in lists["speech"] and "." not in after.gap
    if said or (before is not None and before.low in lists["speech"]):
        cues["person"] += 1.5


def _qualifies(sentence: Sentence, place: int) -> bool:
    """Whether the name before a token only qualifies a noun ("in LLM applications")."""
    if place >= len(sentence.tokens) or sentence.tokens[place].before != JOINED:
        return False
    return sentence.kinds[place] in ("N", "n") and not sentence.tokens[place].cap


def _cues_before(word: str) -> list[tuple[str, float]]:
    lists = english()
    if word in _IN_PLACE:
        return [("location", 1.5)]
    if word in _AT_PLACE:
        return [("location", 0.6)]
    if word in lists["person"]:
        return [("person", 2.0)]
    if word in _BODIES:
        return [("organization", 2.0)]
    return [("work", 2.0)] if word in lists["work"] else []


_IN_PLACE = frozenset({"in", "near", "inside", "outside", "à", "nach", "aus", "dans", "en"})
_BODIES = frozenset({"company", "band", "party", "group", "team", "club", "label"})


def _is_subject_of_pronoun(sentence: Sentence, spot: Spot) -> bool:
    """Whether he or she follows before another name does."""
    for token in sentence.tokens[spot.last : spot.last + 12]:
        if token.low in _PERSONAL:
            return True
        if token.cap:
            return False
    return False


_PERSONAL = frozenset({"he", "him", "his", "himself", "she", "her", "hers", "herself"})
