"""Tables as text: a line per row that still makes sense when it is cut from its header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_NUMBER = re.compile(r"[-+(]?[$€£¥]?[\d.,\s]*\d[\d.,\s]*%?\)?$")
_YEAR = re.compile(r"(?:19|20)\d\d$")
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
    """Names of columns: at least two and for most of them, words or years."""
    filled = [cell.strip() for cell in row if cell.strip()]
    return (
        len(filled) >= 2
        and not _sparse(row)
        and not _NUMBER.match(filled[0])
        and all(_is_name(cell) for cell in filled)
    )


def _is_name(cell: str) -> bool:
    return len(cell) <= 200 and bool(_YEAR.match(cell) or not _NUMBER.match(cell))


def _sparse(row: Row) -> bool:
    """Cells for half of the columns or fewer: a title, or labels that span columns."""
    places = [place for place, cell in enumerate(row) if cell.strip()]
    return len(places) == 1 or len(places) * 2 <= places[-1] + 1


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
        elif fresh and _sparse(row):
            yield piped([cell for cell in row if cell.strip()])
            header = ()
        else:
            waiting, fresh = None, False
            yield named(header, row)
    if waiting is not None:
        yield piped(waiting)
