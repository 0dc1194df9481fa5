"""English words with class and frequency, and the stop words of several languages.

The word list (`data/words-en.tsv`: word, class, 10·log10 of occurrences per million) is loaded at
first use. Classes: N noun, n noun that is also a verb, J adjective, V verb, v verb that is also a
noun, D past form, P participle, G -ing form, R adverb, M number word, F function word.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def _list() -> dict[str, tuple[str, int]]:
    rows = (line.split("\t") for line in _lines("app", "data/words-en.tsv"))
    return {word: (kind, int(points)) for word, kind, points in rows}


def word_class(word: str) -> str:
    """Class of a lower-case word; "" if it is not listed."""
    return _list().get(word, ("", 0))[0]


def score(word: str) -> int:
    """10·log10 of the occurrences per million; 0 if the word is not listed."""
    return _list().get(word, ("", 0))[1]


def listed(word: str) -> bool:
    return word in _list()


@cache
def stop_words() -> Mapping[str, frozenset[str]]:
    """Language (ISO 639-1) to its stop words, in lower case."""
    return word_sets("app", "data/stop-words.txt")


def is_stop_word(word: str, language: str = "en") -> bool:
    """Whether a lower-case word is one of the language's stop words."""
    return word in stop_words().get(language, ())


def word_sets(package: str, path: str) -> dict[str, frozenset[str]]:
    """Read a resource of lines `name: word word …`; lines of one name add up."""
    sets: dict[str, set[str]] = {}
    for line in _lines(package, path):
        if line and not line.startswith("#"):
            name, _, words = line.partition(":")
            sets.setdefault(name, set()).update(words.split())
    return {name: frozenset(words) for name, words in sets.items()}


def _lines(package: str, path: str) -> list[str]:
    return resources.files(package).joinpath(path).read_text(encoding="utf-8").splitlines()
