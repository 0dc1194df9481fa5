"""Characters of a PDF page to fragments: runs of text without a wide gap, with their places.

PDFium gives characters in the order of the page's content stream, with right-to-left text already
in logical order, blanks where words part, and line breaks. Fragments keep its order within a line;
the order of lines is left to `pdf_order`.
"""

from __future__ import annotations

import math
import statistics
import unicodedata
from collections.abc import Iterator, Sequence
from ctypes import byref
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

# Of the line's height: more than justified text puts between words, where it has blanks of its own,
# and where PDFium had to insert them.
_GAP, _BARE_GAP = 1.1, 0.75
_TURN = math.pi / 2
_ALEFS = frozenset("\u0622\u0623\u0625\u0627")
_LAM = "\u0644"
HYPHEN = "\x02"  # PDFium's mark for a hyphen that ends a line


class _Glyph(NamedTuple):
    """Coordinates are turned so that text runs to the right and `top` < `bottom`."""

    char: str
    left: float
    top: float
    right: float
    bottom: float
    made: bool  # a blank or break that PDFium inserted


class Word(NamedTuple):
    text: str
    left: float
    right: float


@dataclass(slots=True)
class Fragment:
    """`turn`: quarter turns of the text on the page; coordinates are those of the turned page."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    size: float  # height of its line of type
    bold: bool
    turn: int
    vertical: bool
    words: tuple[Word, ...]
    cells: tuple[tuple[str, ...], ...] = ()  # of a whole table (`pdf_grid`)

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def fragments(textpage: Any) -> list[Fragment]:  # Any: pypdfium2 has no types
    found: list[Fragment] = []
    for turn, first, glyphs in _lines(textpage):
        line = _mended(glyphs)
        bold = _bold(textpage, first)
        vertical = _is_vertical(line)
        parts = [line] if vertical else _parts(line)
        found.extend(_fragment(part, turn, bold=bold, vertical=vertical) for part in parts)
    return [fragment for fragment in found if fragment.text]


def _bold(textpage: Any, index: int) -> bool:
    return bool(pdfium.FPDFText_GetFontWeight(textpage.raw, index) >= 600)


def _lines(textpage: Any) -> Iterator[tuple[int, int, list[_Glyph]]]:
    """(turn, index of the first character, glyphs) of every line."""
    line: list[_Glyph] = []
    turn = first = 0
    for index, new_turn, glyph in _glyphs(textpage):
        if glyph.char in "\r\n" or (line and (new_turn != turn or _leaves(line, glyph))):
            if line:
                yield turn, first, line
            line = []
        if glyph.char in "\r\n":
            continue
        if not line:
            if glyph.char == " ":
                continue
            turn, first = new_turn, index
        line.append(glyph)
    if line:
        yield turn, first, line


def _leaves(line: list[_Glyph], glyph: _Glyph) -> bool:
    """Whether a character is on another line than the ones before."""
    if glyph.char == " ":
        return False
    last = next(one for one in reversed(line) if one.char != " ")
    height = max(last.bottom - last.top, glyph.bottom - glyph.top)
    drop = abs(glyph.top + glyph.bottom - last.top - last.bottom) / 2
    aside = abs(glyph.left + glyph.right - last.left - last.right) / 2
    below = glyph.char > "\u2e7f" and aside < 0.5 * height and drop < 1.3 * height
    return drop > 0.9 * height and not below  # vertical writing goes on below


def _glyphs(textpage: Any) -> Iterator[tuple[int, int, _Glyph]]:
    raw = textpage.raw
    box = pdfium.FS_RECTF()
    reference = byref(box)
    unicode, loose, angle, generated = (
        pdfium.FPDFText_GetUnicode, pdfium.FPDFText_GetLooseCharBox,
        pdfium.FPDFText_GetCharAngle, pdfium.FPDFText_IsGenerated,
    )  # fmt: skip
    turn = 0
    for index in range(textpage.count_chars()):
        code = unicode(raw, index)
        if 0xD800 <= code < 0xDC00:
            low = unicode(raw, index + 1)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        elif not code or 0xDC00 <= code < 0xE000:
            continue
        loose(raw, index, reference)
        made = code in (13, 10, 32) and (generated(raw, index) == 1 or box.left == box.right)
        if not made:
            turn = round(angle(raw, index) / _TURN) % 4
        char = chr(code) if code <= 0x10FFFF else "\ufffd"
        if char in "\t\u00a0":
            char = " "
        yield index, turn, _turned(char, made, box, turn)


def _turned(char: str, made: bool, box: Any, turn: int) -> _Glyph:
    left, right, bottom, top = box.left, box.right, box.bottom, box.top
    if turn == 0:
        return _Glyph(char, left, -top, right, -bottom, made)
    if turn == 1:  # clockwise: text runs down the page
        return _Glyph(char, -top, -right, -bottom, -left, made)
    if turn == 2:
        return _Glyph(char, -right, bottom, -left, top, made)
    return _Glyph(char, bottom, left, top, right, made)


def _mended(line: list[_Glyph]) -> list[_Glyph]:
    """Arabic as it is spelled: ligatures come out reversed, vowel signs before their letter."""
    if not any("\u0590" <= glyph.char <= "\u08ff" for glyph in line):
        return line
    line = list(line)
    for place in range(len(line) - 1):
        one, two = line[place], line[place + 1]
        if one.char in _ALEFS and two.char == _LAM and one[1:5] == two[1:5]:
            line[place], line[place + 1] = two, one
    return _marks_behind(line)


def _marks_behind(line: list[_Glyph]) -> list[_Glyph]:
    mended: list[_Glyph] = []
    marks: list[_Glyph] = []
    for place, glyph in enumerate(line):
        if unicodedata.category(glyph.char) == "Mn":
            following = line[place + 1] if place + 1 < len(line) else None
            middle = (glyph.left + glyph.right) / 2
            if following is not None and following.left <= middle <= following.right:
                while mended and mended[-1].made:
                    mended.pop()
                marks.append(glyph)
                continue
        mended.append(glyph)
        if marks:
            mended += marks
            marks = []
    return mended + marks


def _is_vertical(line: Sequence[_Glyph]) -> bool:
    """Three or more characters below each other."""
    solid = [glyph for glyph in line if not glyph.made]
    if len(solid) < 3:
        return False
    width = max(glyph.right - glyph.left for glyph in solid)
    middles = [(glyph.left + glyph.right) / 2 for glyph in solid]
    falls = sum(b.top > a.top for a, b in pairwise(solid))
    spread = max(glyph.bottom for glyph in solid) - min(glyph.top for glyph in solid)
    return (
        max(middles) - min(middles) < 0.7 * width
        and falls >= len(solid) - 2
        and spread > 1.5 * width
    )


def _parts(line: Sequence[_Glyph]) -> Iterator[list[_Glyph]]:
    """Cut at wide gaps. Sorted by place first, since the order of the text may run both ways."""
    solid = sorted((glyph for glyph in line if glyph.char != " "), key=lambda glyph: glyph.left)
    height = statistics.median(glyph.bottom - glyph.top for glyph in solid) or 1.0
    blanks = [glyph for glyph in line if glyph.char == " " and not glyph.made]
    edges = []
    reach = solid[0].right
    for glyph in solid[1:]:
        gap = glyph.left - reach
        if gap > _BARE_GAP * height and (
            gap > _GAP * height
            or not any(reach - 1 < one.right and one.left < glyph.left for one in blanks)
        ):
            edges.append((glyph.left + reach) / 2)
        reach = max(reach, glyph.right)
    if not edges:
        yield list(line)
        return
    cells: dict[int, list[_Glyph]] = {}
    for glyph in line:
        place = sum(glyph.left > edge for edge in edges)
        cells.setdefault(place, []).append(glyph)
    yield from (cell for cell in cells.values() if any(glyph.char != " " for glyph in cell))


def _fragment(glyphs: Sequence[_Glyph], turn: int, *, bold: bool, vertical: bool) -> Fragment:
    solid = [glyph for glyph in glyphs if glyph.char != " "]
    text = "".join(glyph.char for glyph in glyphs)
    sizes = [
        (glyph.right - glyph.left) if vertical else (glyph.bottom - glyph.top) for glyph in solid
    ]
    return Fragment(
        text.strip(" ") + (" " if text.endswith(" ") and not vertical else ""),
        min(glyph.left for glyph in solid),
        min(glyph.top for glyph in solid),
        max(glyph.right for glyph in solid),
        max(glyph.bottom for glyph in solid),
        statistics.median(sizes) or 1.0,
        bold,
        turn,
        vertical,
        () if vertical else tuple(_words(glyphs)),
    )


def _words(glyphs: Sequence[_Glyph]) -> Iterator[Word]:
    word: list[_Glyph] = []
    for glyph in (*glyphs, None):
        if glyph is not None and glyph.char != " ":
            word.append(glyph)
        elif word:
            yield Word(
                "".join(one.char for one in word),
                min(one.left for one in word),
                max(one.right for one in word),
            )
            word = []
