"""The question's own names, looked up exactly in the index: where the walk begins."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from app.domain import Entity, Kind, Question, VectorQuery
from app.names import Span, key, spans
from app.ports import GraphReader
from app.terms import query_sparse
from app.words import is_stop_word, listed, word_sets

LONGEST = 9  # words of a span
MOST_LINKS = 24
LOWER_CASE = 0.3  # weight of a span without capital, digit or non-Latin letter
MIN_DICE = 0.6
CANDIDATES = 30
MOST_RUNS = 4


@dataclass(frozen=True, slots=True)
class Link:
    """A name of the question that is in the index. `weight` in (0, 1]: how sure we are of it."""

    name: str
    entity: Entity
    weight: float
    plain: bool = False  # written like any word: without capital, digit or non-Latin letter


@dataclass(frozen=True, slots=True)
class Linked:
    """Links, and capitalised runs of the question that matched nothing (typos, perhaps)."""

    links: tuple[Link, ...]
    unmatched: tuple[str, ...] = ()


async def find_links(graph: GraphReader, question: Question, low: Iterable[str]) -> Linked:
    """Longest spans first, without overlap; `low` are keywords that count as names for certain."""
    text = question.text
    every = spans(text, longest=LONGEST)
    tried = _tried(text, every)
    given = [name for name in dict.fromkeys(low) if name.strip()]
    keys = sorted({k for span in tried for k in _keys(span)} | {key(name) for name in given})
    known, titled = await asyncio.gather(graph.find(keys), graph.find(keys, about=True))
    chosen: dict[str, Link] = {}
    taken: list[Span] = []
    lower = _is_lower_case(text)
    for span in tried:
        if any(span.start < other.end and other.start < span.end for other in taken):
            continue
        weight = _weight(text, span, lower, titled)
        entities = _entities(_keys(span), known, titled) if weight else []
        for entity in entities:
            _keep(chosen, Link(text[span.start : span.end], entity, weight, not span.marked))
        if entities:
            taken.append(span)
    for name in given:
        for entity in _entities([key(name)], known, titled):
            _keep(chosen, Link(name, entity, 1.0))
    links = sorted(chosen.values(), key=lambda link: (-link.weight, link.entity.key))
    return Linked(tuple(links[:MOST_LINKS]), tuple(_unmatched(text, every, taken, given, chosen)))


def typo_queries(names: Sequence[str], within: Sequence[str] | None) -> list[VectorQuery]:
    """Searches for entities that are written almost like these names."""
    return [
        VectorQuery(Kind.ENTITY, CANDIDATES, sparse=query_sparse(name), within=within)
        for name in names
    ]


def nearest_spelling(name: str, keys: Iterable[str]) -> tuple[str, float] | None:
    """The key most like the name by trigrams (Dice), if it is alike enough, and how much."""
    wanted = key(name)
    scored = [(dice(wanted, other), other) for other in keys]
    score, best = max(scored, key=lambda item: (item[0], item[1]), default=(0.0, ""))
    return (best, score) if score >= MIN_DICE else None


def dice(one: str, other: str) -> float:
    """Dice coefficient of the character trigrams of two padded strings."""
    a, b = _trigrams(one), _trigrams(other)
    return 2 * (a & b).total() / max(1, a.total() + b.total())


def idf(mentions: float, passages: int) -> float:
    """Rarity in (0, 1] of what so many of the workspace's passages mention."""
    passages = max(passages, 1)
    return math.log1p(passages / max(mentions, 1.0)) / math.log1p(passages)


# --- spans ---------------------------------------------------------------------------------------


def _tried(text: str, every: Iterable[Span]) -> list[Span]:
    usable = (span for span in every if _usable(text, span))
    return sorted(usable, key=lambda s: (-s.words, s.start - s.end, s.start))


def _usable(text: str, span: Span) -> bool:
    """Single stop words are no names, not even behind an article, unless written as one."""
    if span.words == 1:
        return span.bare
    last = text[span.start : span.end].rsplit(maxsplit=1)[-1]
    return not is_stop_word(span.key) or last[:1].isupper()


def _keys(span: Span) -> list[str]:
    """A lone word may be an acronym that the question writes in lower case."""
    if span.words == 1 and not span.key.startswith("^") and span.key.isalpha():
        return [span.key, "^" + span.key]
    return [span.key]


def _weight(text: str, span: Span, lower: bool, titled: Mapping[str, Entity]) -> float:
    if span.marked:
        return 1.0
    named = any(k in titled for k in _keys(span))
    if span.words > 1:
        return 1.0 if lower and named else LOWER_CASE
    if not named:
        return 0.0
    return 1.0 if lower and not listed(text[span.start : span.end].lower()) else LOWER_CASE


def _is_lower_case(text: str) -> bool:
    return text == text.lower() and text != text.upper()


def _entities(
    keys: Sequence[str], known: Mapping[str, Entity], titled: Mapping[str, Entity]
) -> list[Entity]:
    """Under a name there may be one entity as written and another one, which chunks are about,
    that has it as an alias."""
    found = [where[k] for k in keys for where in (known, titled) if k in where]
    return list({entity.key: entity for entity in found}.values())


def _keep(links: dict[str, Link], link: Link) -> None:
    present = links.get(link.entity.key)
    if present is None or present.weight < link.weight:
        links[link.entity.key] = link


# --- near misses ---------------------------------------------------------------------------------


def _unmatched(
    text: str, every: Iterable[Span], taken: Sequence[Span], given: Sequence[str],
    links: Mapping[str, Link],
) -> list[str]:  # fmt: skip
    linked = {key(link.name) for link in links.values()}
    runs = [name for name in given if key(name) not in linked]
    for span in every:
        words = text[span.start : span.end].split()
        capital = all(word[0].isupper() or word[0].isdigit() for word in words)
        first_word = span.start == 0 and len(words) == 1
        free = not any(span.start < other.end and other.start < span.end for other in taken)
        if capital and free and span.bare and not first_word and words[0].lower() not in _asking():
            runs.append(text[span.start : span.end])
            taken = [*taken, span]  # spans come longest first at each place
    return runs[:MOST_RUNS]


@cache
def _asking() -> frozenset[str]:
    return word_sets("app", "data/questions.txt")["asking"]


def _trigrams(text: str) -> Counter[str]:
    padded = f"  {text} "
    return Counter(padded[i : i + 3] for i in range(len(padded) - 2))
