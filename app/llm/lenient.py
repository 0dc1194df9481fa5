"""JSON as models write it: among prose, in fences, cut off, with inner quotes or stray commas.

Strict parsing first; where that fails, one forward pass that guesses what was meant. Linear in the
length of the text, bounded in depth, and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

MAX_DEPTH = 32
STRICT_TRIES = 8  # each may read to the end, so their number is bounded


class Cut(dict[str, object]):
    """An object that the text ends within."""


def values(text: str) -> Iterator[object]:
    """The top-level objects and arrays in the text, in order."""
    decoder = json.JSONDecoder(strict=False)
    tries = STRICT_TRIES
    place = 0
    while opening := _OPENING.search(text, place):
        place = opening.start()
        if tries:
            try:
                value, place = decoder.raw_decode(text, place)
            except (ValueError, RecursionError):
                tries -= 1
            else:
                yield value
                continue
        value, place = _Reader(text).value(place, 0)
        yield value


_OPENING = re.compile(r"[{\[]")
_GAP = re.compile(r"(?:[\s,;]|//[^\n]{0,200}\n|/\*[^*]{0,500}\*/)*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\s,\]}]|$)")
_BARE = re.compile(r"[^,\]}\[{\n]+")
_STRAY = re.compile(r"[^,\]}\[{\n\"“]+")
_BARE_KEY = re.compile(r"[^\s:,{}\[\]\"'“”][^:,{}\[\]\"\n]{0,60}(?=\s{0,9}[:：=])")
_COLON = re.compile(r"\s{0,99}(?:[:：]|=>?)")
_PLAIN_PART = re.compile(r"[^\"'“”\\]+")
_AFTER_END = re.compile(r"\s{0,200}(?:[}\]]|$)")
_AFTER_COMMA = re.compile(
    r"\s{0,200},\s{0,200}(?:[\"'“{\[\]}]|-?\d|(?:true|false|null|None)\b|\w{1,40}\s?:|$)"
)
_AFTER_LINE = re.compile(r"[ \t]{0,99}\r?\n\s{0,200}[\"“{]")
_LITERALS: dict[str, object] = {
    "true": True, "false": False, "null": None, "none": None, "nan": None, "...": None, "…": None,
}  # fmt: skip
_CLOSERS = {'"': '"”', "'": "'", "“": '”"'}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_UNICODE_ESCAPE = re.compile(r"u([0-9a-fA-F]{4})")


class _Reader:
    """One pass over the text; every method takes a position and returns value and next position."""

    def __init__(self, text: str) -> None:
        self.text = text

    def value(self, place: int, depth: int) -> tuple[object, int]:
        first = self.text[place]
        if first == "{":
            return self.mapping(place + 1, depth + 1)
        if first == "[":
            return self.sequence(place + 1, depth + 1)
        if first in _CLOSERS:
            return self.string(place + 1, first, is_key=False)
        if number := _NUMBER.match(self.text, place):
            return float(number[0]), number.end()
        bare = _BARE.match(self.text, place)
        if not bare:
            return None, place + 1
        word = bare[0].strip()
        return _LITERALS.get(word.lower(), word), bare.end()

    def sequence(self, place: int, depth: int) -> tuple[list[object], int]:
        items: list[object] = []
        while (place := self.skip(place)) < len(self.text):
            first = self.text[place]
            if first == "]":
                return items, place + 1
            if first == "}" and depth > 1:
                return items, place  # the bracket is missing: the object around ends here
            if first == "}" or (first in "{[" and depth >= MAX_DEPTH):
                place += 1
                continue
            item, place = self.value(place, depth)
            if item is not None:
                items.append(item)
        return items, place

    def mapping(self, place: int, depth: int) -> tuple[dict[str, object], int]:
        found: dict[str, object] = {}
        while (place := self.skip(place)) < len(self.text):
            first = self.text[place]
            if first == "}":
                return found, place + 1
            if first in "]{" and depth > 1 and found:
                return found, place  # the brace is missing: the next record, or the array's end
            key, place = self.key(place)
            colon = _COLON.match(self.text, place)
            if key is None or not colon:
                continue
            place = self.skip(colon.end())
            if place >= len(self.text):
                break
            if self.text[place] in "}]":
                continue
            if self.text[place] in "{[" and depth >= MAX_DEPTH:
                place += 1
                continue
            found[key], place = self.value(place, depth)
        return Cut(found), place

    def key(self, place: int) -> tuple[str | None, int]:
        first = self.text[place]
        if first in _CLOSERS:
            value, end = self.string(place + 1, first, is_key=True)
            return value or None, end
        bare = _BARE_KEY.match(self.text, place)
        if bare:
            return bare[0].strip(), bare.end()
        # Stray prose: on to where something can begin, but not past a bracket.
        stray = _STRAY.match(self.text, place)
        return None, stray.end() if stray else place + 1

    def string(self, place: int, quote: str, *, is_key: bool) -> tuple[str | None, int]:
        """None if the text ends within. A quote counts as the end only where one can follow."""
        closers = _CLOSERS[quote]
        parts: list[str] = []
        while place < len(self.text):
            if plain := _PLAIN_PART.match(self.text, place):
                parts.append(plain[0])
                place = plain.end()
                continue
            char = self.text[place]
            place += 1
            if char == "\\":
                part, place = self.escape(place)
                parts.append(part)
            elif char in closers and self.ends(place, is_key=is_key):
                return "".join(parts), place
            else:
                parts.append(char)
        return None, place

    def ends(self, place: int, *, is_key: bool) -> bool:
        if is_key:
            return _COLON.match(self.text, place) is not None
        return any(
            pattern.match(self.text, place) for pattern in (_AFTER_END, _AFTER_COMMA, _AFTER_LINE)
        )

    def escape(self, place: int) -> tuple[str, int]:
        if code := _UNICODE_ESCAPE.match(self.text, place):
            return chr(int(code[1], 16)), code.end()
        char = self.text[place : place + 1]
        if char in _ESCAPES:
            return _ESCAPES[char], place + 1
        return (char, place + 1) if char in "\"'\\/“”" else ("\\" + char, place + 1)

    def skip(self, place: int) -> int:
        gap = _GAP.match(self.text, place)
        return gap.end() if gap else place
