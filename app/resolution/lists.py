"""The word lists of resolution, read at first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from app.names import key
from app.words import word_sets


@cache
def words(name: str) -> frozenset[str]:
    """A list of `data/name-words.txt`."""
    return word_sets("app", "data/name-words.txt")[name]


@cache
def impersonal() -> frozenset[str]:
    """Words that are in no person's name."""
    return words("things") | words("modifiers")


@cache
def legal_phrases() -> tuple[tuple[str, ...], ...]:
    """Legal forms of several words, the longest first."""
    phrases = (tuple(phrase.split("_")) for phrase in words("legal-phrases"))
    return tuple(sorted(phrases, key=lambda phrase: (-len(phrase), phrase)))


@cache
def opposites() -> Mapping[str, frozenset[str]]:
    """Word to the words that exclude it."""
    found: dict[str, set[str]] = {}
    for pair in words("opposites"):
        one, other = pair.split("/")
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


@cache
def states() -> Mapping[str, str]:
    """Postal code of a state of the US to its name; only names of one word."""
    return dict(pair.split("=") for pair in words("states"))


@cache
def world() -> Mapping[str, int]:
    """Key of a name that the whole world knows to the number of the thing it names."""
    rows = [row for row in _lines("world-names.txt") if row and not row.startswith("#")]
    return {key(form): number for number, row in enumerate(rows) for form in row.split("|")}


@cache
def _simplified() -> Mapping[int, str]:
    rows = [row for row in _lines("chinese-variants.txt") if not row.startswith("#")]
    return {ord(pair[0]): pair[1] for row in rows for pair in row.split()}


def simplify(text: str) -> str:
    """Traditional characters replaced by their simplified forms, where there is just one."""
    return text.translate(_simplified())


def _lines(name: str) -> list[str]:
    path = resources.files("app").joinpath("data", name)
    return path.read_text(encoding="utf-8").splitlines()
