"""CSV and TSV: the dialect is found by counting, rows become `column: value` lines."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator

from workers.parsing.encodings import decode
from workers.parsing.layout import Builder, Limits, Parsed, clean
from workers.parsing.rows import described

_SAMPLE_LINES = 50


def parse_csv(data: bytes, limits: Limits) -> Parsed:
    return _parse(data, limits, "")


def parse_tsv(data: bytes, limits: Limits) -> Parsed:
    return _parse(data, limits, "\t")


def _parse(data: bytes, limits: Limits, delimiter: str) -> Parsed:
    builder = Builder(limits)
    decoded = decode(data)
    if decoded.warning:
        builder.warn(decoded.warning)
    text = clean(decoded.text)
    delimiter = delimiter or _delimiter(text)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=False))
    except csv.Error:  # a quotation mark that is never closed swallows the rest of the file
        builder.warn("Quotation marks do not match; they were read as ordinary characters.")
        rows = list(_unquoted(text, delimiter))
    for line in described(rows):
        builder.line(line)
    return builder.done()


def _unquoted(text: str, delimiter: str) -> Iterator[list[str]]:
    for line in text.split("\n"):
        yield line.split(delimiter)


def _delimiter(text: str) -> str:
    """The one that divides most of the first lines into the same number of cells, more than one."""
    lines = text[: 1 << 16].split("\n")[:_SAMPLE_LINES]
    best, delimiter = 0.0, ","
    for candidate in (",", ";", "\t", "|"):
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=candidate) if row]
        except csv.Error:
            continue
        if not widths:
            continue
        width, times = Counter(widths).most_common(1)[0]
        score = times / len(widths) * min(width, 20) ** 0.5 if width > 1 else 0.0
        if score > best:
            best, delimiter = score, candidate
    return delimiter
