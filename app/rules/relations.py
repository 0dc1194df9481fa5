"""Relations between the entities of a sentence: its subject with the others, and neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from app import words
from app.domain import RelationMention
from app.rules.kinds import describe
from app.rules.lexicon import english
from app.rules.noun_phrases import phrases
from app.rules.reading import Found, Reading, Spot, singular
from app.rules.tokens import Sentence

SHORT_DOCUMENT = 12  # sentences; in a shorter one the title is the subject throughout
_VERBS = frozenset({"V", "D", "P", "v", "G"})
_CUES = frozenset(
    {"film", "company", "album", "song", "book", "novel", "band", "city", "town", "team"}
)


class _Mention(NamedTuple):
    first: int
    last: int
    entity: int


class _Pair(NamedTuple):
    strength: float
    source: int
    target: int
    sentence: int
    spot: Spot
    keywords: tuple[str, ...]


def relate(reading: Reading, entities: Sequence[Found]) -> list[RelationMention]:
    """Relations of the chunk, strongest first, at most 1.6 for each entity and 2."""
    mentions = _mentions(reading, entities)
    title = next((n for n, entry in enumerate(entities) if entry.origin == "title"), None)
    best: dict[tuple[int, int], _Pair] = {}
    repeats: Counter[tuple[int, int]] = Counter()
    topic = title
    for index, sentence in enumerate(reading.sentences):
        present = mentions[index]
        for pair in _pairs(reading, entities, index, present, topic, title):
            ends = (min(pair.source, pair.target), max(pair.source, pair.target))
            repeats[ends] += 1
            if ends not in best or pair.strength > best[ends].strength:
                best[ends] = pair
        if title is None and not _refers_back(sentence):
            topic = _topic(entities, present, topic)
    ranked = sorted(
        (
            pair._replace(strength=min(10.0, pair.strength + repeats[ends] - 1))
            for ends, pair in best.items()
        ),
        key=lambda pair: (-pair.strength, pair.sentence, pair.source, pair.target),
    )
    return [_relation(reading, entities, pair) for pair in ranked[: int(1.6 * len(entities) + 2)]]


def _mentions(reading: Reading, entities: Sequence[Found]) -> list[list[_Mention]]:
    """Mentions of each sentence from left to right; the longest wins where they overlap."""
    found: list[list[_Mention]] = [[] for _ in reading.sentences]
    for number, entry in enumerate(entities):
        for spot in entry.spots:
            found[spot.sentence].append(_Mention(spot.first, spot.last, number))
    for place, present in enumerate(found):
        kept: list[_Mention] = []
        used: set[int] = set()
        for mention in sorted(present, key=lambda m: (m.first - m.last, m.first, m.entity)):
            tokens = range(mention.first, mention.last)
            if not used.intersection(tokens):
                used.update(tokens)
                kept.append(mention)
        found[place] = sorted(kept)
    return found


def _topic(entities: Sequence[Found], present: Sequence[_Mention], topic: int | None) -> int | None:
    for mention in present:
        if mention.first < 4 and entities[mention.entity].origin != "term":
            return mention.entity
    return topic


def _refers_back(sentence: Sentence) -> bool:
    """Whether the sentence starts with a pronoun or "the film", "this company"."""
    tokens = sentence.tokens
    if tokens[0].low in english()["starter"] and tokens[0].low not in ("this", "these"):
        return True
    return len(tokens) > 1 and tokens[0].low in ("the", "this") and tokens[1].low in _CUES


def _pairs(
    reading: Reading,
    entities: Sequence[Found],
    index: int,
    present: Sequence[_Mention],
    topic: int | None,
    title: int | None,
) -> list[_Pair]:
    sentence = reading.sentences[index]
    if sentence.cells:
        return _row_pairs(sentence, index, present)
    subject: _Mention | None = None
    outside = topic if _refers_back(sentence) else None
    if title is not None and len(reading.sentences) <= SHORT_DOCUMENT:
        outside = title
    if outside is not None and all(m.entity != outside for m in present):
        subject = _Mention(0, 0, outside)
    elif present:
        subject = next((m for m in present if m.entity == outside), present[0])
    if subject is None:
        return []
    found: list[_Pair] = []
    for mention in present:
        if mention.entity != subject.entity:
            found.append(_pair(sentence, index, entities, subject, mention, distant=True))
    for one, other in pairwise(present):
        if one.entity != other.entity:
            found.append(_pair(sentence, index, entities, one, other, distant=False))
    return found


def _row_pairs(sentence: Sentence, index: int, present: Sequence[_Mention]) -> list[_Pair]:
    headers = {first: header for header, first, _ in sentence.cells}
    return [
        _Pair(
            7, present[0].entity, other.entity, index, Spot(index, present[0].first, other.last),
            tuple(filter(None, [headers.get(other.first, "").strip().lower()])),
        )
        for other in present[1:]
        if other.entity != present[0].entity
    ]  # fmt: skip


def _pair(
    sentence: Sentence,
    index: int,
    entities: Sequence[Found],
    one: _Mention,
    other: _Mention,
    *,
    distant: bool,
) -> _Pair:
    if one.first > other.first:
        one, other = other, one
    verbs = _verb_group(sentence, one.last, other.first)
    distance = other.first - one.last
    between = sentence.tokens[one.last : other.first]
    if distance <= 8 and verbs and not distant:
        strength = 8.0
    elif (not distant and not between) or all(token.low == "and" for token in between):
        strength = 3.0
    elif not distant and distance <= 14:
        strength = 5.0
    else:
        strength = 6.0 if verbs else 4.0
    strength -= 0.7 * sum(entities[m.entity].origin == "term" for m in (one, other))
    spot = Spot(index, one.first, max(other.last, one.first + 1))
    keywords = _keywords(sentence, one, other, verbs)
    return _Pair(strength, one.entity, other.entity, index, spot, keywords)


def _verb_group(sentence: Sentence, first: int, last: int) -> str:
    """The last verbs before `last` with their preposition ("published by")."""
    tokens, kinds = sentence.tokens, sentence.kinds
    lists = english()
    end = last - 1
    while end >= first and (
        kinds[end] not in _VERBS or tokens[end].cap or tokens[end].low in lists["auxiliary"]
        or (kinds[end] in ("v", "G") and end and tokens[end - 1].low in lists["determiner"])
    ):  # fmt: skip
        end -= 1
    if end < first:
        return _copula(sentence, first, last)
    begin = end
    while begin > first and kinds[begin - 1] in ("V", "D", "P") and tokens[begin].before == 0:
        begin -= 1
    group = [token.low for token in tokens[begin : end + 1]]
    if end + 1 < last and tokens[end + 1].low in lists["preposition"]:
        group.append(tokens[end + 1].low)
    return " ".join(group[-4:])


def _copula(sentence: Sentence, first: int, last: int) -> str:
    for place in range(first, last):
        if sentence.tokens[place].low in ("is", "was", "are", "were"):
            return sentence.tokens[place].low
    return ""


def _keywords(sentence: Sentence, one: _Mention, other: _Mention, verbs: str) -> tuple[str, ...]:
    taken = frozenset([*range(one.first, one.last), *range(other.first, other.last)])
    tokens = sentence.tokens
    themes: list[str] = []
    for first, last in phrases(sentence, taken):
        if any(token.cap for token in tokens[first:last]):
            continue
        themes.append(" ".join(token.low for token in tokens[first:last]))
    themes = sorted(
        dict.fromkeys(themes), key=lambda theme: (-theme.count(" "), themes.index(theme))
    )[:2]
    if verbs in ("is", "was", "are", "were"):
        verbs = ""
    found = [verbs, *themes] if verbs else themes
    if not found:
        nouns = {
            t.low
            for n, t in enumerate(tokens)
            if n not in taken and sentence.kinds[n] in ("N", "n") and not t.cap
        }
        found = sorted(nouns, key=lambda word: (words.score(singular(word)), word))[:2]
    return tuple(found)


def _relation(reading: Reading, entities: Sequence[Found], pair: _Pair) -> RelationMention:
    sentence = reading.sentences[pair.sentence]
    return RelationMention(
        entities[pair.source].name,
        entities[pair.target].name,
        describe(reading.text, sentence, pair.spot),
        pair.keywords,
        round(max(0.5, pair.strength), 1),
    )
