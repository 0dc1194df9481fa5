"""JSON and JSON Lines as `path: value` lines, a paragraph per record."""

from __future__ import annotations

import json
from collections.abc import Iterator

from workers.parsing.encodings import decode
from workers.parsing.layout import Builder, Limits, Parsed


def parse_json(data: bytes, limits: Limits) -> Parsed:
    builder, text = _opened(data, limits)
    try:
        value = _load(text)
    except (ValueError, RecursionError):
        return parse_lines_or_text(builder, text)
    records = value if isinstance(value, list) else [value]
    if not any(isinstance(record, dict | list) for record in records):
        records = [value]
    return _described(builder, records)


def parse_jsonl(data: bytes, limits: Limits) -> Parsed:
    builder, text = _opened(data, limits)
    return parse_lines_or_text(builder, text)


def parse_lines_or_text(builder: Builder, text: str) -> Parsed:
    """A record a line; where a line is none, the text is kept as it came."""
    try:
        records = [_load(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        builder.warn("The file is not valid JSON; it was read as plain text.")
        builder.verbatim(text)
        return builder.done()
    return _described(builder, records)


def _opened(data: bytes, limits: Limits) -> tuple[Builder, str]:
    builder = Builder(limits)
    decoded = decode(data)
    if decoded.warning:
        builder.warn(decoded.warning)
    return builder, decoded.text


def _load(text: str) -> object:
    """Numbers stay as written, so that no digit is lost and none is too long to convert."""
    return json.loads(text, parse_int=str, parse_float=str)


def _described(builder: Builder, records: list[object]) -> Parsed:
    for record in records:
        first = True
        for line in _lines(record):
            (builder.block if first else builder.line)(line)
            first = False
    return builder.done()


def _lines(record: object) -> Iterator[str]:
    """Depth first, without recursion. Lists of plain values stay on one line."""
    stack: list[tuple[str, object]] = [("", record)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            named = ((f"{path}.{key}" if path else key, inner) for key, inner in value.items())
            stack.extend(reversed(list(named)))
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            stack.extend(
                (f"{path}[{place}]", item) for place, item in reversed(list(enumerate(value, 1)))
            )
        else:
            words = _words(value)
            if words.strip():
                yield f"{path}: {words}" if path else words


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(word for word in map(_words, value) if word)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
