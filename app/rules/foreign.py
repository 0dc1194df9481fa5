"""Names and terms in European languages other than English: capitals, stop words and repetition."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from app.rules.lexicon import english, foreign
from app.rules.noun_phrases import FLOOR, Term
from app.rules.proper_names import MAX_WORDS, Run
from app.rules.reading import Reading, Spot, opens_quote
from app.rules.tokens import JOINED, Sentence, Token

MAX_TERM_WORDS = 3
LONG = 9  # letters from which a German compound weighs like two words
_ROMAN = re.compile(r"[IVXLC]+")


def foreign_runs(reading: Reading, sentence: Sentence, blocked: frozenset[int]) -> list[Run]:
    """Names of a sentence: runs of capitals; of single ones those that can be no common noun."""
    tokens = sentence.tokens
    flags = [
        token.cap and place not in blocked and _counts(reading, tokens, place)
        for place, token in enumerate(tokens)
    ]
    if sentence.heading or all(token.text.isupper() for token in tokens if not token.number):
        flags = [flag and reading.capital[t.low] > 0 for flag, t in zip(flags, tokens, strict=True)]
    found: list[Run] = []
    place = 0
    while place < len(tokens):
        if not flags[place]:
            place += 1
            continue
        last = _end(tokens, flags, place)
        first = place
        person = tokens[first].low in english()["courtesy"] and last - first > 1
        if person:
            first += 1
        if last - first > 1 or _stands_alone(reading, tokens, first):
            found.append(Run(first, last, (("person", 4.0),) if person else ()))
        place = last
    return found


def _counts(reading: Reading, tokens: Sequence[Token], place: int) -> bool:
    token = tokens[place]
    if token.low in reading.stops or len(token.text) == 1:
        return False
    if place and not opens_quote(token):
        return True
    follower = tokens[place + 1] if place + 1 < len(tokens) else None
    joined = follower is not None and follower.cap and follower.before == JOINED
    if reading.capital[token.low] or (len(token.text) > 1 and token.text.isupper()):
        return True
    return token.low not in reading.lower and (joined or reading.language != "de")


def _end(tokens: Sequence[Token], flags: Sequence[bool], first: int) -> int:
    last = first + 1
    while last < len(tokens) and last - first < MAX_WORDS and tokens[last].before == JOINED:
        token = tokens[last]
        if flags[last]:
            last += 1
        elif token.number and len(token.text) <= 3:
            return last + 1
        else:
            step = _connected(tokens, flags, last)
            if not step:
                break
            last += step
    return last


def _connected(tokens: Sequence[Token], flags: Sequence[bool], place: int) -> int:
    joins = english()["connector"] | {"für", "und", "e", "et", "en"}
    for step in (1, 2):
        behind = place + step
        if tokens[behind - 1].low not in joins or behind >= len(tokens):
            return 0
        if tokens[behind].before != JOINED:
            return 0
        if flags[behind]:
            joining = tokens[place].low in ("und", "et", "e", "y", "en")
            return 0 if joining and not _opens_institution(tokens, place) else step
    return 0


def _opens_institution(tokens: Sequence[Token], place: int) -> bool:
    return any(
        tokens[place - 1].low.endswith(head)
        for language in ("de", "fr", "es")
        for head in foreign()[f"{language}-organization"]
    )


def _stands_alone(reading: Reading, tokens: Sequence[Token], place: int) -> bool:
    """Whether one word with a capital is a name. In German every noun has one."""
    token = tokens[place]
    if _ROMAN.fullmatch(token.text) or token.low in english()["courtesy"]:
        return False
    if token.text.isupper() or any(char.isdigit() for char in token.text):
        return True
    if reading.language != "de":
        start = place == 0 or opens_quote(token)
        return not start or bool(reading.capital[token.low])
    if place == 0 or opens_quote(token) or token.low in reading.lower:
        return False
    before = tokens[place - 1].low if token.before == JOINED else ""
    lists = foreign()
    after_article = before in lists["de-before-noun"] or before.endswith(("en", "er", "es", "em"))
    ending = any(token.low.endswith(end) and len(end) > 2 for end in lists["de-noun-ending"])
    return not (after_article and before not in _PLACES) and not ending


_PLACES = frozenset(
    {"in", "nach", "aus", "von", "bei", "unter", "über", "hinter", "oder", "aber", "gegen"}
)


# --- terms ---------------------------------------------------------------------------------------


def foreign_terms(reading: Reading, taken: Sequence[frozenset[int]]) -> list[Term]:
    """Runs of words outside the stop list (German: nouns) that stand at least twice."""
    found: dict[str, Term] = {}
    for index, sentence in enumerate(reading.sentences):
        for first, last in _candidates(reading, sentence, taken[index]):
            tokens = sentence.tokens[first:last]
            name = " ".join(token.low for token in tokens)
            term = found.setdefault(name, Term(_written(tokens, reading.language)))
            term.spots.append(Spot(index, first, last))
    for term in found.values():
        size = term.name.count(" ") + 1
        long = size > 1 or (reading.language == "de" and len(term.name) >= LONG)
        term.score = len(term.spots) ** 0.8 * 1.2 * (1.35 if long else 0.8)
    repeated = (term for term in found.values() if len(term.spots) > 1 and term.score >= FLOOR)
    return sorted(repeated, key=lambda term: (-term.score, term.name))


def _written(tokens: Sequence[Token], language: str) -> str:
    return " ".join(token.text if language == "de" else token.low for token in tokens)


def _candidates(
    reading: Reading, sentence: Sentence, taken: frozenset[int]
) -> Iterator[tuple[int, int]]:
    tokens = sentence.tokens
    useful = [
        place not in taken
        and not token.number
        and len(token.low) > 3
        and token.low not in reading.stops
        and (reading.language != "de" or (token.cap and token.low not in reading.lower))
        for place, token in enumerate(tokens)
    ]
    for first in range(len(tokens)):
        for last in range(first + 1, min(first + MAX_TERM_WORDS, len(tokens)) + 1):
            if not useful[last - 1] or (last - first > 1 and tokens[last - 1].before != JOINED):
                break
            yield first, last


def foreign_kind(word: str, language: str) -> str:
    """Kind that a head word stands for; German compounds by their last part."""
    lists = foreign()
    for kind in ("person", "organization", "place", "event", "work", "method"):
        heads = lists.get(f"{language}-{kind}", frozenset())
        compound = language == "de" and any(len(h) > 3 and word.endswith(h) for h in heads)
        if word in heads or compound:
            return "location" if kind == "place" else kind
    return ""


def themes(reading: Reading, sentence: Sentence, taken: frozenset[int]) -> tuple[str, ...]:
    """The two longest words of a sentence that are no stop words."""
    lengths = Counter(
        {
            token.low: len(token.low)
            for place, token in enumerate(sentence.tokens)
            if place not in taken and not token.number and token.low not in reading.stops
        }
    )
    best = sorted(lengths, key=lambda word: (-lengths[word], word))
    return tuple(word for word in best[:2] if len(word) > 3)
