"""Parsed text to windows of at most so many tokens, cut where the text itself has a seam.

A window ends, in this order of preference, before a heading, between paragraphs, lines or
sentences, between words, and else between characters as a reader sees them. Each window but those
behind a heading repeats the end of the one before it. Each step looks at one window's worth of
text, so the time is linear in the length of the text.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.ports import Tokenizer
from workers.graphemes import is_boundary
from workers.parsing.layout import Heading, Parsed


@dataclass(frozen=True, slots=True)
class Window:
    """`[start, end)` of the parsed text. `headings` is the path in force at its start, outermost
    first; pages count from 1 and are None where the document has none."""

    start: int
    end: int
    tokens: int
    headings: tuple[str, ...]
    page: int | None
    page_end: int | None


def chunks(parsed: Parsed, tokenizer: Tokenizer, *, size: int, overlap: int) -> list[Window]:
    """Windows that together cover all of the text but blanks at their edges.

    `overlap` must be less than half of `size`, both in tokens. A single character of more tokens
    than `size` (a letter under hundreds of accents) is cut: the limit holds always.
    """
    if not 0 <= overlap * 2 < size:
        raise ValueError("overlap must be less than half of size")
    places = _Places(parsed)
    spans = _Cutter(parsed, tokenizer, size, overlap).spans()
    return [Window(start, end, tokens, *places.at(start, end)) for start, end, tokens in spans]


class _Places:
    """Pages and headings by offset."""

    def __init__(self, parsed: Parsed) -> None:
        self._page_starts = [start for start, _ in parsed.pages]
        self._page_numbers = [number for _, number in parsed.pages]
        self._starts = [heading.start for heading in parsed.headings]
        self._paths = list(_paths(parsed.headings))

    def at(self, start: int, end: int) -> tuple[tuple[str, ...], int | None, int | None]:
        place = bisect.bisect_right(self._starts, start) - 1
        path = self._paths[place] if place >= 0 else ()
        return path, self._page(start), self._page(end - 1)

    def _page(self, offset: int) -> int | None:
        if not self._page_starts:
            return None
        place = max(bisect.bisect_right(self._page_starts, offset) - 1, 0)
        return self._page_numbers[place]


def _paths(headings: Sequence[Heading]) -> Iterator[tuple[str, ...]]:
    path: list[Heading] = []
    for heading in headings:
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
        yield tuple(one.text for one in path)


# Seams, best first, each with the share of a window that must be filled to stop there.
# A seam lies at the end of a match.
_CLOSERS = "\"'”’»)\\]}」』）】》〉"
_SEAMS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"\n[^\S\n]*\n\s*"), 0.5),  # paragraphs
    (re.compile(rf"(?:[.!?…][{_CLOSERS}]*\s+|[。！？；｡][{_CLOSERS}]*\s*)|\n\s*"), 0.4),
    (re.compile(r"[,;:，、：][^\S\n]*(?![\d」』）】》])"), 0.75),  # clauses
    (re.compile(r"\s+"), 0.0),  # words
)
_SENTENCE = _SEAMS[1][0]
_WORD = re.compile(r"\s+|[，、：]|(?<=[\u3040-\u9fff\uac00-\ud7a3])")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*$", re.M)
_ROW = re.compile(r"^[^\n]* \| [^\n]*$|^\|[^\n]*$", re.M)
_HEADING_FILL = 0.35


class _Cutter:
    def __init__(self, parsed: Parsed, tokenizer: Tokenizer, size: int, overlap: int) -> None:
        self._text = parsed.text
        self._tokenizer = tokenizer
        self._size = size
        self._overlap = overlap
        self._headings = sorted({heading.start for heading in parsed.headings})
        self._whole = _whole_spans(parsed.text)
        self._whole_starts = [start for start, _ in self._whole]
        self._reach = size * 4  # characters that probably hold more than `size` tokens

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """(start, end, tokens) from the first to the last."""
        text = self._text
        start = _skip_blanks(text, 0)
        done = start  # all before it is covered
        while start < len(text):
            end, tokens, offsets = self._fit(start, done)
            yield start, end, tokens
            done = _skip_blanks(text, end)
            start = done if self._is_heading(done) else self._back(start, end, done, offsets)

    def _fit(self, start: int, done: int) -> tuple[int, int, Sequence[int]]:
        """The window that begins at `start` and ends behind `done`."""
        offsets, reached = self._offsets(start)
        limit = start + offsets[self._size] if len(offsets) > self._size else reached
        while True:
            cut = limit if limit == len(self._text) else self._cut(start, max(done, start), limit)
            end = start + len(self._text[start:cut].rstrip())
            tokens = self._tokenizer.count(self._text[start:end])
            if tokens <= self._size:
                return end, tokens, offsets
            # Cut off from what follows, the last word may take a few tokens more: give way.
            limit = self._nearer(start, end, tokens, offsets)

    def _nearer(self, start: int, end: int, tokens: int, offsets: Sequence[int]) -> int:
        place = bisect.bisect_left(offsets, end - start) - (tokens - self._size)
        limit = start + offsets[place] if place > 0 else start + 1
        return max(min(limit, end - 1), start + 1)

    def _offsets(self, start: int) -> tuple[Sequence[int], int]:
        """Token offsets from `start`, of more than `size` tokens or to the end of the text."""
        reach = self._reach
        while True:
            reached = min(start + reach, len(self._text))
            offsets = self._tokenizer.offsets(self._text[start:reached])
            if len(offsets) > self._size or reached == len(self._text):
                break
            reach *= 2
        if len(offsets) > self._size:
            self._reach = max(offsets[self._size] * 5 // 4, self._size) + 16
        return offsets, reached

    def _cut(self, start: int, done: int, limit: int) -> int:
        """Where to end: behind `done`, at most at `limit`."""
        least = done + 1
        cut = self._heading_before(start, least, limit) or self._seam(start, least, limit)
        return self._whole_cut(start, least, cut) if cut else self._grapheme(least, limit)

    def _heading_before(self, start: int, least: int, limit: int) -> int:
        place = bisect.bisect_right(self._headings, limit) - 1
        if place < 0:
            return 0
        cut = self._headings[place]
        # Headings in a row belong together: stop before the first of them.
        while place > 0 and not self._text[self._end_of_line(place - 1) : cut].strip():
            place -= 1
            cut = self._headings[place]
        floor = start + int((limit - start) * _HEADING_FILL)
        return cut if cut >= max(floor, least) else 0

    def _end_of_line(self, place: int) -> int:
        end = self._text.find("\n", self._headings[place])
        return len(self._text) if end < 0 else end

    def _seam(self, start: int, least: int, limit: int) -> int:
        for pattern, fill in _SEAMS:
            floor = max(start + int((limit - start) * fill), least)
            cut = _last(pattern, self._text, floor, limit)
            if cut:
                return cut
        return 0

    def _whole_cut(self, start: int, least: int, cut: int) -> int:
        """Step back out of a code block or table row that fits in a window of its own."""
        place = bisect.bisect_left(self._whole_starts, cut) - 1
        if place < 0:
            return cut
        begin, end = self._whole[place]
        inside = begin < cut < end and begin >= max(least, start + 1)
        if inside and self._fits(begin, end):
            return begin
        return cut

    def _fits(self, begin: int, end: int) -> bool:
        if end - begin > self._size * 8:
            return False
        return self._tokenizer.count(self._text[begin:end]) <= self._size

    def _grapheme(self, least: int, limit: int) -> int:
        for cut in range(limit, least - 1, -1):
            if is_boundary(self._text, cut):
                return cut
        return max(limit, least)

    def _back(self, start: int, end: int, done: int, offsets: Sequence[int]) -> int:
        """Start of the next window: at most `overlap` tokens before `end`, at a sentence or else a
        word; `done` where nothing is to be repeated."""
        place = bisect.bisect_left(offsets, end - start) - self._overlap
        if self._overlap == 0 or place <= 0 or done >= len(self._text):
            return done
        floor = start + offsets[place]
        for pattern in (_SENTENCE, _WORD):
            found = self._first(pattern, max(floor, start + 1), end)
            if found and self._tokenizer.count(self._text[found:end]) <= self._overlap:
                return found
        return done

    def _first(self, pattern: re.Pattern[str], floor: int, end: int) -> int:
        for match in pattern.finditer(self._text, max(floor - 1, 0), end):
            begin = match.end()
            if floor <= begin < end and is_boundary(self._text, begin):
                return begin if not self._inside_whole(begin) else 0
        return 0

    def _inside_whole(self, offset: int) -> bool:
        place = bisect.bisect_left(self._whole_starts, offset) - 1
        return place >= 0 and self._whole[place][0] < offset < self._whole[place][1]

    def _is_heading(self, offset: int) -> bool:
        place = bisect.bisect_left(self._headings, offset)
        return place < len(self._headings) and self._headings[place] == offset


def _skip_blanks(text: str, start: int) -> int:
    match = _NOT_BLANK.search(text, start)
    return match.start() if match else len(text)


_NOT_BLANK = re.compile(r"\S")


def _last(pattern: re.Pattern[str], text: str, floor: int, limit: int) -> int:
    """The last seam in `[floor, limit]` that is a boundary of characters; 0 if there is none."""
    last = 0
    for match in pattern.finditer(text, max(floor - 1, 0), limit):
        if match.end() >= floor and is_boundary(text, match.end()):
            last = match.end()
    return last


def _whole_spans(text: str) -> list[tuple[int, int]]:
    """Code blocks and table rows, ascending and apart."""
    spans: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opening is None:
            opening = match
        elif match[1].startswith(opening[1]):
            spans.append((opening.start(), match.end()))
            opening = None
    fences = list(spans)
    place = 0
    for row in _ROW.finditer(text):
        while place < len(fences) and fences[place][1] <= row.start():
            place += 1
        if place == len(fences) or row.end() <= fences[place][0]:
            spans.append(row.span())
    return sorted(spans)
