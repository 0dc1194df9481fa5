"""Names and pairs for tests of resolution."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from app.names import key
from app.resolution.model import Name, Pair, Ties
from app.resolution.score import compare, recorded

TOGETHER = Ties(together=True)


def name(form: str, kind: str = "", *aliases: str, mentions: int = 1) -> Name:
    return Name(key(form), form, kind, aliases, mentions)


def pair(one: str, other: str, kind: str = "", ties: Ties = Ties()) -> Pair:  # noqa: B008 (frozen)
    return compare(name(one, kind), name(other, kind), ties)


def named(names: Iterable[Name]) -> dict[str, Name]:
    return {one.key: one for one in names}


def pairs(names: Iterable[Name], ties: Ties = Ties()) -> list[Pair]:  # noqa: B008 (frozen)
    made = (compare(one, other, ties) for one, other in combinations(names, 2))
    return [one for one in made if recorded(one)]
