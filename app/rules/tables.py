"""Rows of Markdown tables and lines of chats, told from prose."""

from __future__ import annotations

import re
from typing import NamedTuple

_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*")
_NAMED = re.compile(r"(?<![^|\s])(?P<name>[^\W\d_][^:|\n]{0,60}): (?=\S)")
_SPEAKER = re.compile(r"[ \t]*(?P<name>[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,3}): (?=\S)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
MAX_CELL = 80  # characters of a cell that can be a name


class Cell(NamedTuple):
    """`text[start:end]` under a header."""

    header: str
    start: int
    end: int


class Row(NamedTuple):
    start: int
    end: int
    cells: tuple[Cell, ...]


class Stretch(NamedTuple):
    """`text[start:end]`; kind is prose, row (of a table) or line (of a chat)."""

    start: int
    end: int
    kind: str
    speaker: str = ""
    cells: tuple[Cell, ...] = ()


def stretches(text: str) -> list[Stretch]:
    """The text cut into prose, table rows and chat lines; nothing is left out but rule lines."""
    special = sorted([*_row_stretches(text), *_chat_lines(text)])
    found: list[Stretch] = []
    place = 0
    for stretch in special:
        if stretch.start > place:
            found.append(Stretch(place, stretch.start, "prose"))
        if stretch.start >= place:
            found.append(stretch)
            place = stretch.end
    if place < len(text):
        found.append(Stretch(place, len(text), "prose"))
    return found


def rows(text: str) -> list[Row]:
    """Rows of all tables; a header or rule line is a row without cells.

    A table is a block of lines with `|`: Markdown (a rule under the header), `name: value | …`, or
    plain cells, whose first line is the header if it has no number.
    """
    if "|" not in text:
        return []
    found: list[Row] = []
    block: list[tuple[int, str]] = []
    place = 0
    for line in [*text.split("\n"), ""]:
        if "|" in line:
            block.append((place, line))
        elif block:
            found += _rows_of(block)
            block = []
        place += len(line) + 1
    return found


def _rows_of(block: list[tuple[int, str]]) -> list[Row]:
    named = sum(len(_NAMED.findall(line)) for _, line in block)
    if len(block) < 2 and named < 2:  # a table of one record: `name: value | name: value`
        return []
    if any(_RULE.fullmatch(line) for _, line in block[:3]):
        return _ruled(block)
    has_names = named >= len(block)
    header: list[str] = []
    if not has_names:
        place, line = block[0]
        header = [line[start:end] for start, end in _cells(line)]
        if not _is_header(header):
            header = []
    found = []
    for number, (place, line) in enumerate(block):
        if (header and not number) or (has_names and not _NAMED.search(line)):
            found.append(Row(place, place + len(line), ()))
        else:
            names = header or [""] * (line.count("|") + 1)
            cells = zip(names, _cells(line), strict=False)
            found.append(_row(place, line, [_named(line, name, *span) for name, span in cells]))
    return found


def _is_header(cells: list[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return len(filled) > 1 and all(is_text(cell) for cell in filled)


def is_text(cell: str) -> bool:
    """Whether a cell holds words rather than a number or code."""
    letters = sum(char.isalpha() for char in cell)
    return letters > 1 and sum(char.isdigit() for char in cell) < letters


def _ruled(block: list[tuple[int, str]]) -> list[Row]:
    """Rows of a Markdown table; lines before its header are prose."""
    rule = next(number for number, (_, line) in enumerate(block) if _RULE.fullmatch(line))
    if not rule:
        return []
    header = [block[rule - 1][1][start:end] for start, end in _cells(block[rule - 1][1])]
    found = [Row(place, place + len(line), ()) for place, line in block[rule - 1 : rule + 1]]
    for place, line in block[rule + 1 :]:
        cells = zip(header, _cells(line), strict=False)
        found.append(_row(place, line, [Cell(name, *span) for name, span in cells]))
    return found


def _row(place: int, line: str, cells: list[Cell]) -> Row:
    shifted = (Cell(c.header, place + c.start, place + c.end) for c in cells if c.start < c.end)
    return Row(place, place + len(line), tuple(shifted))


def _named(line: str, header: str, start: int, end: int) -> Cell:
    """The cell without the name of its column, if it carries one."""
    match = _NAMED.match(line, start, end) if not header else None
    return Cell(match.group("name"), match.end(), end) if match else Cell(header, start, end)


def _cells(line: str) -> list[tuple[int, int]]:
    """Where the cells of a line stand, without blanks and emphasis."""
    found: list[tuple[int, int]] = []
    start = len(line) - len(line.lstrip(" \t|"))
    for cell in line[start:].rstrip(" \t\r|").split("|"):
        inner = cell.strip(_DECORATION)
        begin = start + len(cell) - len(cell.lstrip(_DECORATION)) if inner else start
        found.append((begin, begin + len(inner)))
        start += len(cell) + 1
    return found


_DECORATION = " \t\r*_`"


def _row_stretches(text: str) -> list[Stretch]:
    return [Stretch(row.start, row.end, "row", cells=row.cells) for row in rows(text)]


def _chat_lines(text: str) -> list[Stretch]:
    """Lines `Name: text`, if there are at least three of at least two names."""
    found: list[Stretch] = []
    place = 0
    for line in text.split("\n"):
        match = _SPEAKER.match(line)
        if match and match.group("name") not in _LABELS:
            found.append(Stretch(place, place + len(line), "line", match.group("name")))
        place += len(line) + 1
    speakers = {stretch.speaker for stretch in found}
    return found if len(found) >= 3 and 2 <= len(speakers) <= 0.67 * len(found) else []


_LABELS = frozenset({"Time", "Date", "Subject", "From", "To", "Note", "Title", "Q", "A"})


def spoken_name(raw: str) -> str:
    """`MaryAnnLee` as people write it."""
    return raw if " " in raw else _CAMEL.sub(" ", raw)
