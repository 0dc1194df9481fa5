"""Relations between the entities of a sentence: its subject with the others, and neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from app import words
from app.domain import RelationMention
from app.rules.candidates import SHORT_CHUNK
from app.rules.foreign import themes
from app.rules.kinds import describe
from app.rules.lexicon import english
from app.rules.noun_phrases import phrases
from app.rules.reading import Found, Reading, Spot, singular
from app.rules.tokens import JOINED, Sentence

SHORT_DOCUMENT = 12  # sentences; in a shorter one the title is the subject throughout
NEAR, FAR = 8, 14  # tokens between neighbours
TERM_DISCOUNT = 0.7  # for each end that is a term
_VERBS = frozenset({"V", "D", "P", "v", "G"})
IN_PASSING = 3.0
_PERSONAL = frozenset({"he", "him", "his", "she", "her", "hers"})
_COPULA = frozenset({"is", "was", "are", "were", "be"})
_BACK = frozenset(
    {"film", "company", "album", "song", "book", "novel", "band", "city", "town", "team", "series"}
)


class _Mention(NamedTuple):
    """Tokens of a sentence that stand for an entity (its number); a subject that the sentence does
    not name has none and stands before the first."""

    first: int
    last: int
    entity: int


class _Pair(NamedTuple):
    strength: float
    source: int
    target: int
    spot: Spot
    keywords: tuple[str, ...]


def relate(reading: Reading, entities: Sequence[Found]) -> list[RelationMention]:
    """Relations of the chunk, strongest first, at most 1.6 for each entity and 2."""
    best: dict[tuple[int, int], _Pair] = {}
    repeats: Counter[tuple[int, int]] = Counter()
    for pair in _Linking(reading, entities).pairs():
        ends = (min(pair.source, pair.target), max(pair.source, pair.target))
        repeats[ends] += 1
        if ends not in best or pair.strength > best[ends].strength:
            best[ends] = pair
    ranked = sorted(
        (pair._replace(strength=pair.strength + repeats[ends] - 1) for ends, pair in best.items()),
        key=lambda pair: (-pair.strength, pair.spot, pair.source, pair.target),
    )
    return [
        RelationMention(
            entities[pair.source].name,
            entities[pair.target].name,
            describe(reading.text, reading.sentences[pair.spot.sentence], pair.spot),
            pair.keywords,
            round(min(10.0, pair.strength), 1),
        )
        for pair in ranked[: int(1.6 * len(entities) + 2)]
    ]


class _Linking:
    """The pairs of a chunk, sentence by sentence."""

    def __init__(self, reading: Reading, entities: Sequence[Found]) -> None:
        self._reading = reading
        self._entities = entities
        self._short = len(reading.sentences) <= SHORT_DOCUMENT
        titles = (n for n, entry in enumerate(entities) if entry.origin == "title")
        self._title = next(titles, None) if reading.size <= SHORT_CHUNK else None

    def pairs(self) -> list[_Pair]:
        found: list[_Pair] = []
        topic = self._title
        for index, present in enumerate(self._mentions()):
            sentence = self._reading.sentences[index]
            if sentence.cells:
                found += _row_pairs(sentence, index, present)
                continue
            back = _refers_back(sentence)
            subject = self._subject(present, topic if back else None)
            if subject is not None:
                found += self._of_sentence(index, subject, present)
            if not back and topic is not None and _has_pronoun(sentence):
                found += self._of_pronoun(index, topic, present)
            if self._title is None and not back:
                topic = self._topic(present, topic)
        return found

    def _mentions(self) -> list[list[_Mention]]:
        """Mentions of each sentence from left to right; the longest wins where they overlap."""
        found: list[list[_Mention]] = [[] for _ in self._reading.sentences]
        for number, entry in enumerate(self._entities):
            for spot in entry.spots:
                found[spot.sentence].append(_Mention(spot.first, spot.last, number))
        return [_without_overlap(present) for present in found]

    def _topic(self, present: Sequence[_Mention], topic: int | None) -> int | None:
        """The first name that stands among the first four tokens."""
        for mention in present:
            if mention.first < 4 and self._entities[mention.entity].origin != "term":
                return mention.entity
        return topic

    def _subject(self, present: Sequence[_Mention], topic: int | None) -> _Mention | None:
        unnamed = self._title if self._title is not None and self._short else topic
        if unnamed is None:
            return present[0] if present else None
        named = next((mention for mention in present if mention.entity == unnamed), None)
        return named or _Mention(-1, 0, unnamed)

    def _of_sentence(
        self, index: int, subject: _Mention, present: Sequence[_Mention]
    ) -> list[_Pair]:
        found = [
            self._pair(index, subject, mention, neighbours=False)
            for mention in present
            if mention.entity != subject.entity
        ]
        return found + [
            self._pair(index, one, other, neighbours=True)
            for one, other in pairwise(present)
            if one.entity != other.entity
        ]

    def _of_pronoun(self, index: int, topic: int, present: Sequence[_Mention]) -> list[_Pair]:
        """A pronoun within the sentence may be the topic: weak pairs with the names beside it."""
        if any(mention.entity == topic for mention in present):
            return []
        unnamed = _Mention(-1, 0, topic)
        return [
            self._pair(index, unnamed, mention, neighbours=False)._replace(strength=IN_PASSING)
            for mention in present
            if self._entities[mention.entity].origin != "term"
        ]

    def _pair(self, index: int, one: _Mention, other: _Mention, *, neighbours: bool) -> _Pair:
        sentence = self._reading.sentences[index]
        if one.first > other.first:
            one, other = other, one
        verbs = _verb_group(sentence, one.last, other.first)
        strength = _strength(sentence, one, other, verbs=bool(verbs), neighbours=neighbours)
        terms = sum(self._entities[mention.entity].origin == "term" for mention in (one, other))
        spot = Spot(index, max(one.first, 0), other.last)
        if self._reading.language == "zh":
            keywords = _chinese_keywords(sentence, one, other)
        elif self._reading.language != "en":
            keywords = themes(self._reading, sentence, _places(one, other))
        else:
            keywords = _keywords(sentence, one, other, verbs)
        return _Pair(strength - TERM_DISCOUNT * terms, one.entity, other.entity, spot, keywords)


def _without_overlap(present: Sequence[_Mention]) -> list[_Mention]:
    kept: list[_Mention] = []
    used: set[int] = set()
    for mention in sorted(present, key=lambda m: (m.first - m.last, m.first, m.entity)):
        places = range(mention.first, mention.last)
        if not used.intersection(places):
            used.update(places)
            kept.append(mention)
    return sorted(kept)


def _refers_back(sentence: Sentence) -> bool:
    """Whether the sentence starts with a pronoun or "the film", "this company"."""
    tokens = sentence.tokens
    if not tokens:  # marks only
        return False
    if tokens[0].low in english()["starter"] and tokens[0].low not in ("this", "these"):
        return True
    return len(tokens) > 1 and tokens[0].low in ("the", "this") and tokens[1].low in _BACK


def _has_pronoun(sentence: Sentence) -> bool:
    return any(token.low in _PERSONAL for token in sentence.tokens)


def _row_pairs(sentence: Sentence, index: int, present: Sequence[_Mention]) -> list[_Pair]:
    """The first text cell with the other ones; their headers are the keywords."""
    headers = {first: header.strip().lower() for header, first, _ in sentence.cells}
    return [
        _Pair(
            7.0,
            present[0].entity,
            other.entity,
            Spot(index, present[0].first, other.last),
            (headers[other.first],) if headers.get(other.first) else (),
        )
        for other in present[1:]
        if other.entity != present[0].entity
    ]


def _strength(
    sentence: Sentence, one: _Mention, other: _Mention, *, verbs: bool, neighbours: bool
) -> float:
    distance = other.first - one.last
    if neighbours and distance <= NEAR and verbs:
        return 8.0
    between = sentence.tokens[one.last : other.first]
    if one.first >= 0 and all(token.low == "and" for token in between):
        return 3.0
    if neighbours and distance <= FAR:
        return 5.0
    return 6.0 if verbs else 4.0


# --- keywords ------------------------------------------------------------------------------------


def _verb_group(sentence: Sentence, first: int, last: int) -> str:
    """The last verbs between two tokens with their preposition ("published by"), else a copula."""
    tokens, kinds = sentence.tokens, sentence.kinds
    end = last - 1
    while end >= first and not _is_main_verb(sentence, end):
        end -= 1
    if end < first:
        return next((t.low for t in tokens[first:last] if t.low in _COPULA), "")
    begin = end
    while begin > first and kinds[begin - 1] in ("V", "D", "P") and tokens[begin].before == JOINED:
        begin -= 1
    group = [token.low for token in tokens[begin : end + 1]]
    if end + 1 < last and tokens[end + 1].low in english()["preposition"]:
        group.append(tokens[end + 1].low)
    return " ".join(group[-4:])


def _is_main_verb(sentence: Sentence, place: int) -> bool:
    token, kind = sentence.tokens[place], sentence.kinds[place]
    if kind not in _VERBS or token.cap or token.low in english()["auxiliary"]:
        return False
    before = sentence.tokens[place - 1].low if place else ""
    return not (kind in ("v", "G") and before in english()["determiner"])


def _keywords(sentence: Sentence, one: _Mention, other: _Mention, verbs: str) -> tuple[str, ...]:
    """The verbs, then up to two terms of the sentence; without either, its two rarest nouns."""
    tokens = sentence.tokens
    taken = _places(one, other)
    terms = [
        " ".join(token.low for token in tokens[first:last])
        for first, last in phrases(sentence, taken)
        if not any(token.cap for token in tokens[first:last])
    ]
    order = {theme: place for place, theme in reversed(list(enumerate(terms)))}
    best = sorted(order, key=lambda theme: (-theme.count(" "), order[theme]))[:2]
    found = [verbs, *best] if verbs and verbs not in _COPULA else best
    if found:
        return tuple(found)
    nouns = {
        token.low
        for place, token in enumerate(tokens)
        if place not in taken and sentence.kinds[place] in ("N", "n") and not token.cap
    }
    return tuple(sorted(nouns, key=lambda word: (words.score(singular(word)), word))[:2])


def _places(one: _Mention, other: _Mention) -> frozenset[int]:
    return frozenset([*range(max(one.first, 0), one.last), *range(other.first, other.last)])


def _chinese_keywords(sentence: Sentence, one: _Mention, other: _Mention) -> tuple[str, ...]:
    """The last verb between the two, then two other nouns."""
    tokens, kinds = sentence.tokens, sentence.kinds
    between = range(one.last, other.first)
    verbs = [tokens[place].low for place in between if kinds[place] == "V"]
    long = [verb for verb in verbs if len(verb) > 1] or verbs
    taken = {tokens[m.first].low for m in (one, other) if m.first >= 0}
    nouns = [
        token.low
        for token, kind in zip(tokens, kinds, strict=True)
        if kind == "N" and len(token.low) > 1 and token.low not in taken
    ]
    return tuple(dict.fromkeys([*long[-1:], *nouns]))[:3]
