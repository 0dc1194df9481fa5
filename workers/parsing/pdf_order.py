"""Reading order of a PDF page: columns of prose one after the other, tables row by row.

A gutter is a vertical line that many rows leave free. Lines that cross it (titles, wide figures)
part the page into bands. A band is read column by column if what stands on both sides of its gutter
looks like lines of prose; otherwise it is a table or a form and is read across.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workers.parsing.pdf_glyphs import Fragment

Row = list[Fragment]
_DEPTH = 6


@dataclass(slots=True)
class Region:
    """Rows from top to bottom, each from left to right, that are read across. Of vertical text each
    line is a row. `aside`: printed sideways to the main text."""

    rows: list[Row]
    vertical: bool = False
    aside: bool = False


def reading_order(fragments: Sequence[Fragment]) -> list[Region]:
    """Text in the page's main direction first, then what is printed sideways."""
    by_turn: dict[int, list[Fragment]] = {}
    for fragment in fragments:
        by_turn.setdefault(fragment.turn, []).append(fragment)
    regions: list[Region] = []
    turns = sorted(by_turn, key=lambda turn: -sum(len(one.text) for one in by_turn[turn]))
    for turn in turns:
        group = by_turn[turn]
        vertical = [one for one in group if one.vertical]
        if len(vertical) * 2 > len(group):
            regions += [Region([[one] for one in tier], vertical=True) for tier in _tiers(vertical)]
            group = [one for one in group if not one.vertical]
        arranged = _arranged(rows_of(group), 0)
        if turn != turns[0]:
            arranged = [Region(region.rows, aside=True) for region in arranged]
        regions += arranged
    return regions


def rows_of(fragments: Sequence[Fragment]) -> list[Row]:
    """Fragments on the same height, rows from top to bottom."""
    rows: list[Row] = []
    middle = 0.0
    for fragment in sorted(fragments, key=lambda one: one.middle):
        if rows and abs(fragment.middle - middle) < 0.5 * min(fragment.size, rows[-1][0].size):
            rows[-1].append(fragment)
        else:
            rows.append([fragment])
            middle = fragment.middle
    for row in rows:
        row.sort(key=lambda one: one.left)
    return rows


def _tiers(fragments: Sequence[Fragment]) -> list[list[Fragment]]:
    """Vertical lines: tiers from top to bottom, in each from right to left."""
    tiers: list[list[Fragment]] = []
    for fragment in sorted(fragments, key=lambda one: one.top):
        if tiers and fragment.top < max(one.middle for one in tiers[-1]):
            tiers[-1].append(fragment)
        else:
            tiers.append([fragment])
    return [sorted(tier, key=lambda one: -one.left) for tier in tiers]


def _arranged(rows: list[Row], depth: int) -> list[Region]:
    for gutter in _gutters(rows) if depth < _DEPTH else ():
        bands = list(_bands(rows, gutter))
        if any(apart and _is_columns(band, gutter) for apart, band in bands):
            return _by_bands(bands, gutter, depth)
    return [Region(rows)] if rows else []


def _by_bands(bands: Sequence[tuple[bool, list[Row]]], gutter: float, depth: int) -> list[Region]:
    regions: list[Region] = []
    across: list[Row] = []
    for apart, band in bands:
        if not (apart and _is_columns(band, gutter)):
            across += band
            continue
        regions += _arranged(across, depth + 1)
        across = []
        left, right = _sides(band, gutter)
        sides = [right, left] if _is_rtl(band) else [left, right]
        for side in sides:
            regions += _arranged(rows_of([one for row in side for one in row]), depth + 1)
    return regions + _arranged(across, depth + 1)


def _gutters(rows: Sequence[Row]) -> list[float]:
    """Places that the most rows leave free between two fragments, best first."""
    if len(rows) < 3:
        return []
    low = min(one.left for row in rows for one in row)
    high = max(one.right for row in rows for one in row)
    width = int(high - low) + 2
    if width > 20_000:
        return []
    steps = [0] * (width + 1)
    for row in rows:
        for one, two in pairwise(row):
            begin, end = int(one.right - low) + 1, int(two.left - low)
            if end > begin:
                steps[begin] += 1
                steps[end] -= 1
    return [low + place for place in _peaks(steps)]


def _peaks(steps: Sequence[int]) -> list[float]:
    """Middles of the plateaus that are higher than both neighbours, the highest first."""
    free = begin = 0
    rising = False
    peaks: list[tuple[int, float]] = []
    for place, step in enumerate(steps):
        if step > 0:
            rising, begin = True, place
        elif step < 0 and rising:
            peaks.append((free, (begin + place) / 2))
            rising = False
        free += step
    peaks.sort(key=lambda peak: -peak[0])
    return [place for height, place in peaks[:5] if height >= 3]


def _bands(rows: Sequence[Row], gutter: float) -> Iterator[tuple[bool, list[Row]]]:
    """Maximal groups of rows that leave the gutter free (True), or cross it (False)."""
    band: list[Row] = []
    apart = True
    for row in rows:
        free = not any(one.left < gutter < one.right for one in row)
        if band and free != apart:
            yield apart, band
            band = []
        apart = free
        band.append(row)
    if band:
        yield apart, band


def _sides(band: Sequence[Row], gutter: float) -> tuple[list[Row], list[Row]]:
    left = [[one for one in row if one.right <= gutter] for row in band]
    right = [[one for one in row if one.left >= gutter] for row in band]
    return [row for row in left if row], [row for row in right if row]


def _is_columns(band: Sequence[Row], gutter: float, depth: int = 0) -> bool:
    left, right = _sides(band, gutter)
    return _is_prose(left, depth) and _is_prose(right, depth)


def _is_prose(rows: Sequence[Row], depth: int) -> bool:
    """Three lines or more, most of them in one piece, long, and filling the column; or columns."""
    if len(rows) < 3:
        return False
    whole = sum(len(row) == 1 for row in rows) / len(rows)
    if whole < 0.55:
        return depth < 3 and any(
            _is_columns(rows, gutter, depth + 1) for gutter in _gutters(rows)[:2]
        )
    length = statistics.median(sum(_length(one.text) for one in row) for row in rows)
    column = max(row[-1].right for row in rows) - min(row[0].left for row in rows)
    fill = statistics.median(row[-1].right - row[0].left for row in rows) / max(column, 1.0)
    return length >= 18 and fill >= 0.5


def _length(text: str) -> int:
    """Characters, those of East Asian scripts counted twice."""
    return len(text) + sum(char > "\u2e7f" for char in text)


def _is_rtl(band: Sequence[Row]) -> bool:
    text = "".join(one.text for row in band for one in row)
    return sum("\u0590" <= char <= "\u08ff" for char in text) * 2 > len(text)
