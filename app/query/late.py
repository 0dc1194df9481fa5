"""Late links: words of a passage that turn out to be what another passage is about.

Extraction does not name lower-case things ("was a journalist") and cannot know of documents that
come later; one exact look-up at query time finds both, and needs no re-indexing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from app.names import key, spans
from app.words import is_stop_word
from app.words import score as word_score

WORDS = 150  # of the beginning of a passage
CHARACTERS = 1200
LONGEST = 5  # words of a span
SHORTEST = 4  # letters of a single word
UNSPACED = 6  # characters of a span in a script without spaces
UNSPACED_CHARACTERS = 600
MOST = 12_000  # spans of all passages together
REMEMBERED = 4096  # passages whose spans are kept

_WORD = re.compile(r"[^\W_](?:[\w.'’&/+-]*[^\W_])?")
_POSSESSIVE = re.compile(r"['’]s$")
_NO_SPACES = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0eff]")


def late_spans(passages: Iterable[tuple[str, str, Iterable[str]]]) -> dict[str, set[str]]:
    """Keys of the spans of each (id, text, entity keys), without the entities' own. Passages come
    best first; once there are too many spans the rest is left out."""
    found: dict[str, set[str]] = {}
    total = 0
    for passage, text, entities in passages:
        lines = _lines(text[:CHARACTERS])
        keys = set(lines.split("\n")).difference(entities) if lines else set()
        total += len(keys)
        if total > MOST:
            break
        found[passage] = keys
    return found


def expected_passages(name: str, passages: int, length: float) -> float:
    """How many passages of `length` words should hold all words of a key, going by the frequency
    of its rarest word in general English; 0 if one is not listed.

    It stands in for the document frequency in text, which no store has to count: a page "Film" may
    be mentioned by itself alone while the word stands everywhere."""
    return passages * min((_share(word, length) for word in name.split()), default=0.0)


def _share(word: str, length: float) -> float:
    points = word_score(word)
    return 1 - math.exp(-length * 10 ** (points / 10) / 1e6) if points else 0.0


@lru_cache(maxsize=REMEMBERED)
def _lines(head: str) -> str:
    """The keys, a line each. Passages come up again and again: known ones take a ninth of the time.
    Sets of strings would take four times the room; full of long passages this takes 16 MiB."""
    return "\n".join(dict.fromkeys(_keys(head)))


def _keys(head: str) -> Iterator[str]:
    if _NO_SPACES.search(head):
        yield from _unspaced(head[:UNSPACED_CHARACTERS])
        return
    words = [match.span() for match in _WORD.finditer(head)][:WORDS]
    lower = [head[start:end].lower() for start, end in words]
    stops = [is_stop_word(word) for word in lower]
    plain = [word.isascii() and word.isalnum() for word in lower]
    for first, (start, _) in enumerate(words):
        if stops[first]:
            continue
        simple = True
        for last in range(first, min(first + LONGEST, len(words))):
            if last > first and not _adjacent(head, words[last - 1][1], words[last][0]):
                break
            simple = simple and plain[last]
            if stops[last]:
                continue
            name = head[start : words[last][1]]
            if last > first and simple:
                yield " ".join(lower[first : last + 1])
            elif last > first or len(name) >= SHORTEST:
                yield from _span(name, simple)


def _adjacent(text: str, end: int, start: int) -> bool:
    """Of what may stand inside a name, normal forms make one space."""
    return text[end:start] in (" ", ", ", "- ", "\n")


def _span(name: str, simple: bool) -> Iterator[str]:
    """Plain words need no whole normal form, unless one alone may be an acronym."""
    if simple and not name.isupper():
        yield name.lower()
        return
    yield key(name)
    if _POSSESSIVE.search(name):
        yield key(name[:-2])


def _unspaced(text: str) -> Iterator[str]:
    for span in spans(text, longest=LONGEST):
        alone = span.words == 1 and text[span.start] > "\u2e7f"
        length = span.end - span.start
        if span.bare and (length <= UNSPACED if alone else span.words > 1 or length >= SHORTEST):
            yield span.key
