"""What is printed around the text of a PDF page: running titles, page and line numbers."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from workers.parsing.pdf_glyphs import Fragment
from workers.parsing.pdf_order import Row, rows_of

Page = list[Fragment]
_EDGE_ROWS = 3
_DIGITS = re.compile(r"\d{1,6}")
_NOISE = re.compile(r"[\W\d_]+")
_PAGE_NUMBER = re.compile(
    r"(?:page|seite|p\.|pág\.|página|страница|第)?\s*[-–—]?\s*(\d{1,4})\s*[-–—]?\s*"
    r"(?:(?:of|von|de|sur|из|/)\s*\d{1,4})?\s*(?:頁|页|ページ)?",
    re.I,
)


def without_margins(pages: Sequence[Page]) -> list[Page]:
    edges = [_edges(page) for page in pages]
    sizes = [statistics.median([one.size for one in page] or [0.0]) for page in pages]
    keys = [
        [_key(row, number, size) for row in page]
        for number, (page, size) in enumerate(zip(edges, sizes, strict=True), 1)
    ]
    counts = Counter(key for page in keys for key in set(page))
    often = max(3, len(pages) * 0.4)
    kept = []
    for number, (page, rows, names) in enumerate(zip(pages, edges, keys, strict=True), 1):
        drop = {
            id(one)
            for row, key in zip(rows, names, strict=True)
            if counts[key] >= often or _is_page_number(row, number)
            for one in row
        }
        drop |= _line_numbers(page)
        kept.append([one for one in page if id(one) not in drop])
    return kept


def _edges(page: Page) -> list[Row]:
    """The outermost rows of the main direction, and all that is printed sideways."""
    main = Counter(one.turn for one in page for _ in one.text).most_common(1)
    if not main:
        return []
    rows = rows_of([one for one in page if one.turn == main[0][0]])
    outer = rows if len(rows) <= 2 * _EDGE_ROWS else rows[:_EDGE_ROWS] + rows[-_EDGE_ROWS:]
    return outer + [[one] for one in page if one.turn != main[0][0]]


def _key(row: Row, page: int, size: float) -> str:
    """The same for the same words, whatever page number stands among them. Of short rows the number
    counts, as its distance from the page's; rows in large type must be the same to the letter."""
    text = "".join(one.text for one in row).strip()
    if row[0].size > 1.15 * size or row[0].cells:
        return text
    words = _NOISE.sub("", text).lower()
    if len(words) >= 10:
        return words
    return words + ",".join(str(int(number) - page) for number in _DIGITS.findall(text)[:1])


def _is_page_number(row: Row, number: int) -> bool:
    """This page's number, alone or counted as in `Page 3 of 9`."""
    text = " ".join(one.text for one in row).strip()
    match = _PAGE_NUMBER.fullmatch(text)
    return match is not None and (int(match[1]) == number or not text.isdigit())


def _line_numbers(page: Page) -> set[int]:
    """Ids of numbers in a column of their own beside the text, counting up evenly from the top."""
    numbers = [one for one in page if one.text.strip().isdigit() and one.turn == 0]
    for column in _columns(numbers):
        values = [int(one.text) for one in column]
        steps = {b - a for a, b in pairwise(values)}
        if len(values) < 5 or len(steps) != 1 or min(steps) not in (1, 2, 5, 10):
            continue
        others = [one for one in page if not one.text.strip().isdigit() and one.turn == 0]
        right = max(one.right for one in column)
        left = min(one.left for one in column)
        beside = [one for one in others if one.left > right or one.right < left]
        rows = rows_of(others)
        single = sum(len(row) == 1 for row in rows) > 0.6 * len(rows)
        outside = all(one.left > right for one in beside) or all(one.right < left for one in beside)
        if single and outside and len(beside) >= 0.9 * len(others):
            return {id(one) for one in column}
    return set()


def _columns(numbers: Sequence[Fragment]) -> list[list[Fragment]]:
    """Numbers below each other, flush left or right."""
    columns: list[list[Fragment]] = []
    for one in sorted(numbers, key=lambda one: one.top):
        for column in columns:
            last = column[-1]
            if min(abs(last.right - one.right), abs(last.left - one.left)) < 0.5 * one.size:
                column.append(one)
                break
        else:
            columns.append([one])
    return columns
