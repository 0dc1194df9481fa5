"""Tables as text: a line per row that still makes sense when it is cut from its header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_NUMBER = re.compile(r"[-+(]?[$€£¥]?[\d.,\s]*\d[\d.,\s]*%?\)?$")
Row = Sequence[str]


def piped(row: Row) -> str:
    """`a | b | c`; line breaks within cells become blanks, empty cells at the end are left out."""
    cells = [" ".join(cell.split()) for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return " | ".join(cells)


def named(header: Row, row: Row) -> str:
    """`name: value | name: value` for the cells that hold something."""
    parts = []
    for place, cell in enumerate(row):
        value = " ".join(cell.split())
        name = " ".join(header[place].split()) if place < len(header) else ""
        if value:
            parts.append(f"{name}: {value}" if name else value)
    return " | ".join(parts)


def is_header(row: Row) -> bool:
    """Names of columns: at least two, all different, none of them a number."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    filled = [cell for cell in cells if cell]
    return (
        len(filled) >= 2
        and len(filled) * 4 >= len(cells) * 3
        and len(set(filled)) == len(filled)
        and not any(_NUMBER.match(cell) or len(cell) > 200 for cell in filled)
    )


def described(rows: Iterable[Row]) -> Iterator[str]:
    """Lines for the rows of a sheet. Blank rows part its tables; a table whose first row looks like
    a header names its columns in every line, a table without one goes on under the last header."""
    header: Row = ()
    fresh = True
    waiting: Row | None = None  # a header that no row has followed yet
    for row in rows:
        if not any(cell.strip() for cell in row):
            if waiting is not None:
                yield piped(waiting)
                waiting = None
            fresh = True
        elif fresh and is_header(row):
            if waiting is not None:
                yield piped(waiting)
            header, waiting, fresh = row, row, False
        elif fresh and _title(row):
            yield piped(row)
            header = ()
        else:
            waiting, fresh = None, False
            yield named(header, row)
    if waiting is not None:
        yield piped(waiting)


def _title(row: Row) -> bool:
    return sum(bool(cell.strip()) for cell in row) == 1
