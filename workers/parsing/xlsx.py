"""Excel: a section per sheet, a line per row that names its columns, formulas by their values."""

from __future__ import annotations

import datetime as dt
import io
import warnings
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from workers.parsing.archives import Archive
from workers.parsing.layout import Builder, Limits, Parsed
from workers.parsing.refusals import refusal
from workers.parsing.rows import described

if TYPE_CHECKING:
    from openpyxl.cell.cell import Cell, MergedCell
    from openpyxl.worksheet.worksheet import Worksheet

_ROWS = 100_000  # rows with content per workbook
_COLUMNS = 500


def parse_xlsx(data: bytes, limits: Limits) -> Parsed:
    Archive(data, expanded=limits.expanded_mb << 20)  # refuses what is locked, broken or a bomb
    builder = Builder(limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about features that do not matter to text
        try:
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise refusal("damaged") from error
        left = _ROWS
        for sheet in book.worksheets:
            left = _sheet(sheet, builder, left)
    return builder.done(book.properties.title or "")


def _sheet(sheet: Worksheet, builder: Builder, left: int) -> int:
    sheet.reset_dimensions()  # type: ignore[attr-defined]  # missing in the stubs; often wrong
    counter = _Rows(left)
    headed = False
    for line in described(counter.of(sheet)):
        if not headed:
            builder.heading(sheet.title, 1)
            builder.block(line)
            headed = True
        else:
            builder.line(line)
    if counter.left <= 0:
        builder.warn(f"The workbook is longer than {_ROWS:,} rows; the rest was left out.")
    if counter.wide:
        builder.warn(f"A sheet is wider than {_COLUMNS} columns; the rest was left out.")
    return counter.left


class _Rows:
    """Cells of a sheet as text, and how many more rows may come."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.wide = False

    def of(self, sheet: Worksheet) -> Iterator[list[str]]:
        blank = 0
        for row in sheet.iter_rows():
            cells = [_text(cell) for cell in row[:_COLUMNS]]
            self.wide = self.wide or any(cell.value is not None for cell in row[_COLUMNS:])
            if not any(cells):
                blank += 1
                if blank == 1:
                    yield []
                continue
            if self.left <= 0:
                return
            blank = 0
            self.left -= 1
            yield cells


def _text(cell: Cell | MergedCell) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dt.datetime):
        midnight = value.time() == dt.time()
        return value.date().isoformat() if midnight else value.isoformat(" ", "seconds")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, int | float):
        return _number(value, cell.number_format or "")
    return str(value)


def _number(value: float, pattern: str) -> str:
    if "%" in pattern:
        return f"{value * 100:.10g}%"
    return f"{value:.15g}"
