"""Plain text, and Markdown, whose text is kept as it is and whose headings are found."""

from __future__ import annotations

import re

from workers.parsing.encodings import decode
from workers.parsing.layout import Builder, Limits, Parsed, clean


def parse_text(data: bytes, limits: Limits) -> Parsed:
    builder = Builder(limits)
    builder.verbatim(_read(data, builder))
    return builder.done()


def parse_markdown(data: bytes, limits: Limits) -> Parsed:
    builder = Builder(limits)
    text = clean(_read(data, builder))
    builder.verbatim(text)
    title = ""
    for start, end, level, words in _headings(text):
        builder.mark(start, end, level, words)
        if level == 1 and not title:
            title = words
    return builder.done(_front_title(text) or title)


def _read(data: bytes, builder: Builder) -> str:
    decoded = decode(data)
    if decoded.warning:
        builder.warn(decoded.warning)
    return decoded.text


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_NO_PARAGRAPH = re.compile(r"[ \t]*$| {4}|\t| {0,3}(?:[#>|]|[-*+][ \t]|\d{1,9}[.)][ \t])")
_INLINE = re.compile(r"!?\[([^\]\n]{0,300})\]\([^)\s]{0,500}\)|[*_`]{1,3}")


def _headings(text: str) -> list[tuple[int, int, int, str]]:
    """(start, end, level, words) by CommonMark's rules for ATX and setext headings."""
    found: list[tuple[int, int, int, str]] = []
    fence = before = ""
    offset = before_at = 0
    front = text.startswith("---\n")
    for number, line in enumerate(text.split("\n")):
        paragraph = ""
        if front:
            front = number == 0 or line.rstrip() not in ("---", "...")
        elif fence:
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif opening := _FENCE.match(line):
            fence = opening[1]
        elif heading := _ATX.match(line):
            _add(found, offset, line, len(heading[1]), heading[2] or "")
        elif (underline := _UNDERLINE.match(line)) and before:
            whole = text[before_at : offset + len(line)]
            _add(found, before_at, whole, 1 if underline[1][0] == "=" else 2, before)
        elif not _NO_PARAGRAPH.match(line):
            paragraph = line
        before, before_at = paragraph, offset
        offset += len(line) + 1
    return found


def _add(
    found: list[tuple[int, int, int, str]], start: int, line: str, level: int, words: str
) -> None:
    words = " ".join(_INLINE.sub(r"\1", words).split())
    if words:
        found.append((start, start + len(line.rstrip()), level, words))


def _front_title(text: str) -> str:
    """Title in YAML front matter."""
    if not text.startswith("---\n"):
        return ""
    for line in text[4:4000].split("\n"):
        if line.rstrip() in ("---", "..."):
            break
        key, _, value = line.partition(":")
        if key == "title":
            return value.strip().strip("\"'")
    return ""
