"""Word lists of the rules (`data/*.txt`), loaded at first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from app.words import word_sets


@cache
def english() -> Mapping[str, frozenset[str]]:
    """List name to words: heads of names by kind, connectors, titles, grammar, empty nouns, …"""
    return word_sets("app.rules", "data/english.txt")


@cache
def foreign() -> Mapping[str, frozenset[str]]:
    """List name (`fr-person`, `de-noun-ending`, …) to words of other languages."""
    return word_sets("app.rules", "data/foreign.txt")


@cache
def chinese() -> Mapping[str, frozenset[str]]:
    return word_sets("app.rules", "data/chinese.txt")
