"""Plain text: kept as it is, with the headings of its chapters where they are beyond doubt."""

from __future__ import annotations

from workers.parsing.chapters import chapters
from workers.parsing.encodings import decode
from workers.parsing.layout import Builder, Limits, Parsed, clean


def parse_text(data: bytes, limits: Limits) -> Parsed:
    builder = Builder(limits)
    text = clean(read(data, builder))
    builder.verbatim(text)
    for heading in chapters(text):
        builder.mark(heading)
    return builder.done()


def read(data: bytes, builder: Builder) -> str:
    """Decoded; what was doubtful about the encoding is told as a warning."""
    decoded = decode(data)
    if decoded.warning:
        builder.warn(decoded.warning)
    return decoded.text
