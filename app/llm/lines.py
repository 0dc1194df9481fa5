"""The line formats of LightRAG prompts, as models damage them.

New: `entity<|#|>name<|#|>type<|#|>description`, `relation<|#|>a<|#|>b<|#|>keywords<|#|>text`.
Old: `("entity"<|>"NAME"<|>"type"<|>"description")##`,
`("relationship"<|>"A"<|>"B"<|>"description"<|>"keywords"<|>9)##`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

COMPLETE = re.compile(r"<\s?[|｜]\s?COMPLETE\s?[|｜]?\s?>?", re.IGNORECASE)
# Pipes and hashes between angle brackets, of which one part may be lost; never `<SEP>`, nor the end
# of a word in brackets such as `<|endoftext|>`.
SEPARATOR = re.compile(
    r"[<＜][\s\\]?[|｜#＃\\]{1,5}[\s\\]?[>＞]"
    r"|[<＜][|｜]?[#＃][|｜]?"
    r"|(?<![\w<＜])[|｜]?[#＃]?[|｜]{1,3}[>＞]"
)
_QUOTES = "\"'“”‘’„«»「」『』`*"
_MARK = re.compile(
    rf"[\s\-*•#>\d.)]{{0,12}}[(（<\[{{]{{0,3}}\s?[{_QUOTES}]{{0,3}}\s?"
    rf"(entity|entities|node|relationship|relationships|relation|edge)\s?[{_QUOTES}):：]{{0,4}}\s?",
    re.IGNORECASE,
)
_RECORD_END = re.compile(r"\s{0,20}(?:##)?\s{0,20}$")
_BRACKET_END = re.compile(r"\s{0,20}[)）]?\s{0,20}(?:##)?\s{0,20}[)）]?\s{0,20}$")
_JOINED = re.compile(r"##\s*|(?<=[)）])\s*(?=[(（])")
_LAST_NUMBER = re.compile(
    rf"(?:{SEPARATOR.pattern})[\s\"'(]{{0,5}}(-?\d{{1,9}}(?:\.\d{{1,9}})?)\s?(?:/\s?10)?[\s\"')]{{0,5}}$"
)


class Record(NamedTuple):
    """One line. `kind`: "entity", "relation", or "" for a line that cannot be read."""

    kind: str
    fields: dict[str, object]


def records(reply: str) -> Iterator[Record]:
    for line in reply.splitlines():
        rest = COMPLETE.sub("", line)
        # Marks in a description may look like a joint: only a following record makes it one.
        for part in _split_joined(rest):
            if part.strip() and (record := _record(part)):
                yield record


def is_complete(reply: str) -> bool:
    return COMPLETE.search(reply) is not None


def _split_joined(line: str) -> Iterator[str]:
    start = 0
    for joint in _JOINED.finditer(line):
        mark = _MARK.match(line, joint.end())
        if mark and SEPARATOR.match(line, mark.end()):
            yield line[start : joint.start()]
            start = joint.end()
    yield line[start:]


def _record(line: str) -> Record | None:
    mark = _MARK.match(line)
    separator = SEPARATOR.match(line, mark.end()) if mark else None
    if not mark or not separator:
        return _unmarked(line)
    bracketed = any(bracket in mark[0] for bracket in "(（")
    text = (_BRACKET_END if bracketed else _RECORD_END).sub("", line[separator.end() :])
    if mark[1].lower() in ("entity", "entities", "node"):
        return _entity(text)
    return _relation(text)


def _unmarked(line: str) -> Record | None:
    """The mark is lost: told by the number of fields. None: prose."""
    text = _BRACKET_END.sub("", line.lstrip(" -*(（")) if line.lstrip()[:1] in "(（" else line
    count = sum(1 for _ in SEPARATOR.finditer(text)) + 1
    if count == 1:
        return None
    if count == 3:
        return _entity(text)
    return _relation(text) if count in (4, 5) else Record("", {})


def _entity(text: str) -> Record:
    """Separators within the description are its own."""
    fields = map(_unquoted, SEPARATOR.split(text, maxsplit=2))
    return Record("entity", dict(zip(("name", "type", "description"), fields, strict=False)))


def _relation(text: str) -> Record:
    found: dict[str, object] = {}
    names: tuple[str, ...] = ("source", "target", "keywords", "description")
    if number := _LAST_NUMBER.search(text):
        found["strength"] = float(number[1])
        text = text[: number.start()]
        names = ("source", "target", "description", "keywords")  # the old order
    fields = [_unquoted(field) for field in SEPARATOR.split(text, maxsplit=3)]
    if len(fields) < 2:
        return Record("", {})
    if len(fields) == 3:
        names = ("source", "target", "description")
    return Record("relation", found | dict(zip(names, fields, strict=False)))


def _unquoted(field: str) -> str:
    """Without the quotes around it: both, or one whose partner was lost at the edge."""
    text = field.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
        return text[1:-1].strip()
    for quote in '"“”':
        if text.count(quote) == 1:
            text = text.strip(quote).strip()
    return text
