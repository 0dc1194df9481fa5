"""Regions of a PDF page to paragraphs, headings and table rows."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from workers.parsing.pdf_glyphs import HYPHEN
from workers.parsing.pdf_grid import column_edges, placed
from workers.parsing.pdf_order import Region, Row
from workers.parsing.rows import piped

_LEADERS = re.compile(r"(?:[.…·_][ \t]?){5,}")
BULLET = re.compile(r"(?:[•▪◦‣●○*–—-]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]")
_EAST = re.compile("[\u2e80-\u30ff\u3400-\u9fff\uff00-\uffef]")
_ENDS = re.compile(r"[.!?:;。！？：；”\"'»)\]]$")
_HYPHENATED = re.compile(r"[^\W\d_]+-[^\W\d_]+")


class Kind(Enum):
    PARAGRAPH = "paragraph"
    TABLE = "table"
    ASIDE = "aside"


@dataclass(slots=True)
class Block:
    """`size` and `bold` of its type; `lines` it had on the page."""

    kind: Kind
    text: str
    size: float
    bold: bool
    lines: int


@dataclass(slots=True)
class _Line:
    text: str
    row: Row

    @property
    def size(self) -> float:
        return max(self.row, key=lambda one: len(one.text)).size

    @property
    def left(self) -> float:
        return self.row[0].left

    @property
    def right(self) -> float:
        return max(one.right for one in self.row)

    @property
    def middle(self) -> float:
        return statistics.fmean(one.middle for one in self.row)

    @property
    def bold(self) -> bool:
        return all(one.bold for one in self.row)


def blocks(region: Region, hyphenated: frozenset[str]) -> Iterator[Block]:
    """`hyphenated` are words that the document writes with a hyphen within a line."""
    if region.vertical:
        yield _vertical(region.rows)
        return
    prose: list[_Line] = []
    kind = Kind.ASIDE if region.aside else Kind.PARAGRAPH
    for is_table, rows in _parts(region.rows):
        if is_table:
            yield from _paragraphs(prose, kind, hyphenated)
            prose = []
            lines = list(_table(rows))
            size = statistics.median(one.size for row in rows for one in row)
            yield Block(Kind.TABLE, "\n".join(lines), size, False, len(lines))
        else:
            prose += [_Line(_joined(row), row) for row in rows]
    yield from _paragraphs(prose, kind, hyphenated)


def hyphenated_words(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(word.lower() for text in texts for word in _HYPHENATED.findall(text))


def _joined(row: Row) -> str:
    return _LEADERS.sub("… ", " ".join(one.text.strip(" ") for one in row)) + (
        " " if row[-1].text.endswith(" ") else ""
    )


# --- tables --------------------------------------------------------------------------------------


def _parts(rows: Sequence[Row]) -> Iterator[tuple[bool, list[Row]]]:
    """Ruled tables apart from what stands between them."""
    between: list[Row] = []
    for row in rows:
        grids = [one for one in row if one.cells]
        rest = [one for one in row if not one.cells]
        if rest:
            between.append(rest)
        if grids:
            yield from _tables(between)
            between = []
            yield from ((True, [[one]]) for one in grids)
    yield from _tables(between)


def _tables(rows: Sequence[Row]) -> Iterator[tuple[bool, list[Row]]]:
    """Rows that belong together as a table (True), and those between. A table has two rows or more
    of several cells; a row with one cell belongs to it if it stands under one of its columns."""
    group: list[Row] = []
    table = False
    for place, row in enumerate(rows):
        celled = len(row) > 1
        following = rows[place + 1] if place + 1 < len(rows) else []
        if table:
            stays = celled or (_continues(group[-1], row) and _under(group, row))
        else:
            stays = not (celled and len(following) > 1 and _near(row, following))
        if not stays:
            if group:
                yield table, group
            group = []
            table = not table
            if not table and celled and len(following) > 1 and _near(row, following):
                table = True
        elif table and not _near(group[-1], row) and len(row) == 1:
            yield True, group
            group, table = [], False
        group.append(row)
    if group:
        yield table and len(group) > 1, group


def _near(above: Row, below: Row) -> bool:
    return below[0].top - max(one.bottom for one in above) < 2.5 * below[0].size


def _continues(above: Row, below: Row) -> bool:
    return below[0].top - max(one.bottom for one in above) < 0.8 * below[0].size


def _under(group: Sequence[Row], row: Row) -> bool:
    """Under a cell that is not the first, so that a paragraph after the table is none of it."""
    return any(
        abs(one.left - row[0].left) < one.size or abs(one.right - row[0].right) < one.size
        for above in group[-4:]
        for one in above[1:]
    )


def _table(rows: Sequence[Row]) -> Iterator[str]:
    if rows[0][0].cells:
        yield from filter(None, map(_piped, rows[0][0].cells))
        return
    edges = column_edges(rows)
    cells: list[list[str]] = []
    last: Row = []
    for row in rows:
        new = [""] * (len(edges) + 1)
        for one in row:
            for place, text in placed(one, edges):
                new[place] = f"{new[place]} {text}".strip()
        if cells and last and _continues(last, row) and _completes(cells[-1], new):
            cells[-1] = [f"{a} {b}".strip() for a, b in zip(cells[-1], new, strict=True)]
        else:
            cells.append(new)
        last = row
    yield from map(_piped, cells)


def _piped(cells: Sequence[str]) -> str:
    first = next((place for place, cell in enumerate(cells) if cell), 0)
    return _LEADERS.sub("… ", piped(cells[first:]))


def _completes(above: Sequence[str], new: Sequence[str]) -> bool:
    """The rest of cells that need more than one line: only below cells that hold something."""
    return (
        bool(above[0])
        and not new[0]
        and sum(map(bool, new)) <= max(1, sum(map(bool, above)) // 2)
        and all(a for a, b in zip(above, new, strict=True) if b)
    )


# --- prose ---------------------------------------------------------------------------------------


def _paragraphs(lines: Sequence[_Line], kind: Kind, hyphenated: frozenset[str]) -> Iterator[Block]:
    if not lines:
        return
    left = min(line.left for line in lines)
    right = max(line.right for line in lines)
    pitch = _pitch(lines)
    paragraph: list[_Line] = []
    for line in lines:
        if paragraph and _breaks(paragraph[-1], line, left, right, pitch):
            yield _block(paragraph, kind, hyphenated)
            paragraph = []
        paragraph.append(line)
    yield _block(paragraph, kind, hyphenated)


def _pitch(lines: Sequence[_Line]) -> float:
    """Usual distance of lines, as a multiple of their size."""
    steps = [
        (b.middle - a.middle) / max(a.size, 1.0) for a, b in pairwise(lines) if b.middle > a.middle
    ]
    return statistics.median_low(steps) if steps else 1.3


def _breaks(above: _Line, line: _Line, left: float, right: float, pitch: float) -> bool:
    step = (line.middle - above.middle) / max(above.size, 1.0)
    if step < 0 or step > pitch * 1.3 + 0.05:
        return True
    if abs(line.size - above.size) > 0.12 * above.size or line.bold != above.bold:
        return True
    if BULLET.match(line.text) or _is_centred(above, line):
        return True
    width = max(right - left, 1.0)
    ends = bool(_ENDS.search(above.text.strip()))
    if _is_rtl(line.text):
        return ends and above.left > left + 0.12 * width
    short = above.right < right - 0.12 * width
    indented = above.left + 0.8 * line.size < line.left < left + 0.25 * width
    return ends and (short or (indented and not BULLET.match(above.text)))


def _is_centred(above: _Line, line: _Line) -> bool:
    """Neither edge in line with the line above: a title page, an address, a verse."""
    return (
        abs(above.left - line.left) > 2 * line.size
        and abs(above.right - line.right) > 2 * line.size
    )


def _is_rtl(text: str) -> bool:
    return sum("\u0590" <= char <= "\u08ff" for char in text) * 2 > len(text)


def _block(lines: Sequence[_Line], kind: Kind, hyphenated: frozenset[str]) -> Block:
    text = ""
    for line in lines:
        text = glued(text, line.text, hyphenated) if text else line.text
    size = statistics.median(line.size for line in lines)
    return Block(kind, text.strip(" "), size, all(line.bold for line in lines), len(lines))


def _vertical(rows: Sequence[Row]) -> Block:
    """Lines that reach the bottom go on in the next one, unless that is set in."""
    lines = [row[0] for row in rows]
    top, bottom = min(one.top for one in lines), max(one.bottom for one in lines)
    text = lines[0].text.strip()
    for above, line in pairwise(lines):
        goes_on = above.bottom > bottom - above.size and line.top < top + 0.5 * line.size
        text += ("" if goes_on else "\n") + line.text.strip()
    size = statistics.median(one.size for one in lines)
    return Block(Kind.PARAGRAPH, text, size, False, len(lines))


def goes_on(above: Block, below: Block) -> bool:
    """Whether a paragraph goes on behind the end of its column or page."""
    if not (above.kind is below.kind is Kind.PARAGRAPH) or above.bold != below.bold:
        return False
    if abs(above.size - below.size) > 0.06 * above.size or above.lines < 2:
        return False
    if above.text.endswith(HYPHEN):
        return True
    last, first = above.text[-1:], below.text[:1]
    if _EAST.match(last) and _EAST.match(first):
        return not _ENDS.search(last)
    return first.islower() and not re.search(r"[.!?:]$", above.text)


def glued(text: str, line: str, hyphenated: frozenset[str]) -> str:
    if text.endswith((HYPHEN, "\u00ad")) or re.search(r"[^\W\d_]-$", text):
        return _unhyphenated(text, line, hyphenated)
    if _EAST.match(text[-1]) and _EAST.match(line[:1]):
        return text + line
    return f"{text.rstrip()} {line}"


def _unhyphenated(text: str, line: str, hyphenated: frozenset[str]) -> str:
    """A word cut at the end of a line is whole again, unless the hyphen is part of it."""
    stem = text[:-1]
    head = re.search(r"[^\W\d_]*$", stem)
    tail = re.match(r"[^\W\d_]*", line)
    compound = f"{head[0] if head else ''}-{tail[0] if tail else ''}".lower()
    soft = text.endswith("\u00ad")
    if line[:1].islower() and compound not in hyphenated and (soft or len(compound) > 3):
        return stem + line
    return f"{stem}-{line}"
