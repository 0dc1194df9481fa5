"""Tables that rules divide into rows: each cell whole, however many lines it has."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from workers.parsing.pdf_glyphs import Fragment, Word
from workers.parsing.pdf_order import Row, rows_of

_THIN = 2.5  # points
_OBJECTS = 5_000
_LINES = 20  # of text between two rules: more is a page between its head and foot


class Rule(NamedTuple):
    """A horizontal line; coordinates as those of fragments that are not turned."""

    top: float
    left: float
    right: float


def rules(page: Any) -> list[Rule]:  # Any: pypdfium2 has no types
    """Thin lines, and the edges of boxes; pieces in a line are one."""
    found: list[Rule] = []
    objects = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_PATH], max_depth=2)
    for count, one in enumerate(objects):
        if count > _OBJECTS:
            return []
        left, bottom, right, top = one.get_bounds()
        if right - left < 8:
            continue
        if top - bottom <= _THIN:
            found.append(Rule(-(top + bottom) / 2, left, right))
        else:
            found += [Rule(-top, left, right), Rule(-bottom, left, right)]
    return _joined(sorted(found))


def _joined(found: Sequence[Rule]) -> list[Rule]:
    lines: list[list[Rule]] = []
    for rule in found:
        if lines and rule.top - lines[-1][0].top < _THIN:
            lines[-1].append(rule)
        else:
            lines.append([rule])
    joined: list[Rule] = []
    for line in lines:
        top = line[0].top
        for _, left, right in sorted(line, key=lambda one: one.left):
            if joined and joined[-1].top == top and left - joined[-1].right < 2 * _THIN:
                joined[-1] = Rule(top, joined[-1].left, max(right, joined[-1].right))
            else:
                joined.append(Rule(top, left, right))
    return joined


def with_grids(fragments: Sequence[Fragment], ruled: Sequence[Rule]) -> list[Fragment]:
    """Each ruled table in place of its fragments: one fragment that holds its cells."""
    rest = [one for one in fragments if one.turn == 0 and not one.vertical]
    others = [one for one in fragments if one.turn != 0 or one.vertical]
    tables: list[Fragment] = []
    for group in _groups(ruled):
        tops = [rule.top for rule in group]
        inside = [
            one
            for one in rest
            if tops[0] < one.middle < tops[-1]
            and group[0].left - 3 < one.left
            and one.right < group[0].right + 3
        ]
        cells = _cells(inside, tops)
        if cells:
            taken = {id(one) for one in inside}
            rest = [one for one in rest if id(one) not in taken]
            tables.append(_table(group, inside, cells))
    return [*rest, *tables, *others]


def _groups(ruled: Sequence[Rule]) -> Iterator[list[Rule]]:
    """Three rules or more with the same ends, from top to bottom."""
    groups: list[list[Rule]] = []
    for rule in ruled:
        for group in groups:
            last = group[-1]
            if abs(last.left - rule.left) < 4 and abs(last.right - rule.right) < 4:
                group.append(rule)
                break
        else:
            if len(groups) > 200:
                return
            groups.append([rule])
    yield from (group for group in groups if len(group) >= 3)


def _cells(inside: Sequence[Fragment], tops: Sequence[float]) -> tuple[tuple[str, ...], ...]:
    """() if these rules divide no table of two columns or more."""
    if not inside:
        return ()
    edges = column_edges(rows_of(inside))
    bands = [
        [one for one in inside if above < one.middle <= below] for above, below in pairwise(tops)
    ]
    filled = [rows_of(band) for band in bands if band]
    if not edges or len(filled) < 2 or max(map(len, filled)) > _LINES:
        return ()
    several = sum(any(len(row) > 1 for row in rows) for rows in filled)
    if several * 2 < len(filled) or sum(map(_is_many, filled)) * 3 > len(filled):
        return ()
    return tuple(_row(rows, edges) for rows in filled)


def _is_many(rows: Sequence[Row]) -> bool:
    """Rules that part groups of rows: short cells, and as many in each row as in the next."""
    widths = [len(row) for row in rows]
    lengths = [len(one.text) for row in rows for one in row]
    return len(rows) > 1 and min(widths) * 5 >= max(widths) * 4 and statistics.median(lengths) < 15


def _row(rows: Sequence[Row], edges: Sequence[float]) -> tuple[str, ...]:
    cells = [""] * (len(edges) + 1)
    for row in rows:
        for one in row:
            for place, text in placed(one, edges):
                cells[place] = f"{cells[place]} {text}".strip()
    return tuple(cells)


def _table(
    group: Sequence[Rule], inside: Sequence[Fragment], cells: tuple[tuple[str, ...], ...]
) -> Fragment:
    size = statistics.median(one.size for one in inside)
    text = " ".join(one.text for one in inside)
    top, bottom = min(one.top for one in inside), max(one.bottom for one in inside)
    left, right = group[0].left, group[0].right
    return Fragment(text, left, top, right, bottom, size, False, 0, False, (), cells)


def column_edges(rows: Sequence[Row]) -> list[float]:
    """Middles of the gaps that nearly all rows leave free."""
    low = min(one.left for row in rows for one in row)
    high = max(one.right for row in rows for one in row)
    width = min(int(high - low) + 2, 20_000)
    steps = [0] * (width + 1)
    for row in rows:
        for one in row:
            steps[min(int(one.left - low), width)] += 1
            steps[min(int(one.right - low) + 1, width)] -= 1
    allowed = len(rows) // 12
    edges: list[float] = []
    covered = begin = 0
    inside = False
    for place, step in enumerate(steps[:-1]):
        covered += step
        if covered <= allowed and not inside:
            inside, begin = True, place
        elif covered > allowed and inside:
            inside = False
            if begin > 0:
                edges.append(low + (begin + place) / 2)
    return edges


def placed(one: Fragment, edges: Sequence[float]) -> Iterator[tuple[int, str]]:
    """Columns of a fragment's words; of all of it if one word straddles an edge."""
    words = one.words
    if any(word.left < edge < word.right for word in words for edge in edges):
        words = (Word(one.text.strip(), one.left, one.right),)
    for word in words:
        yield sum((word.left + word.right) / 2 > edge for edge in edges), word.text
