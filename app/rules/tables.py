"""Rows of Markdown tables and lines of chats, told from prose."""

from __future__ import annotations

import re
from typing import NamedTuple

_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*")
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
    """Rows of all Markdown tables with a rule line under their header."""
    if "|" not in text:
        return []
    found: list[Row] = []
    header: list[str] = []
    before: tuple[int, str] = (0, "")
    place = 0
    for line in text.split("\n"):
        if "-" in line and "|" in line and _RULE.fullmatch(line) and "|" in before[1]:
            header = [before[1][start:end] for start, end in _cells(before[1])]
            found.append(Row(before[0], before[0] + len(before[1]), ()))
            found.append(Row(place, place + len(line), ()))
        elif header and "|" in line:
            cells = zip(header, _cells(line), strict=False)
            found.append(
                Row(
                    place,
                    place + len(line),
                    tuple(Cell(name, place + a, place + b) for name, (a, b) in cells if a < b),
                )
            )
        else:
            header = []
        before = (place, line)
        place += len(line) + 1
    return found


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
