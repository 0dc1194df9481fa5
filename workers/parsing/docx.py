"""Word: paragraphs and tables in body order, with notes and comments where they belong.

Read from the XML itself (ECMA-376): footnotes, comments, content controls, text boxes and tracked
changes all need that anyway.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lxml.etree import _Element

from workers.parsing.archives import Archive, local
from workers.parsing.layout import Builder, Limits, Parsed
from workers.parsing.refusals import refusal
from workers.parsing.rows import piped

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VAL = f"{_W}val"
_ID = f"{_W}id"
# Deleted text, field codes and alternative renderings of what is read anyway.
_SKIPPED = frozenset((
    "del", "moveFrom", "delText", "instrText", "pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr",
    "Fallback", "pict", "rubyPr", "rt",
))  # fmt: skip
_HEADING_NAME = re.compile(r"heading (\d)$", re.I)


def parse_docx(data: bytes, limits: Limits) -> Parsed:
    archive = Archive(data, expanded=limits.expanded_mb << 20)
    main = next(
        (part for kind, part in archive.relations("").values() if kind == "officeDocument"), ""
    )
    body = archive.xml(main).find(f"{_W}body")
    if body is None:
        raise refusal("damaged")
    related: dict[str, list[str]] = {}
    for kind, part in archive.relations(main).values():
        if part in archive.names:
            related.setdefault(kind, []).append(part)
    builder = Builder(limits)
    reader = _Reader(
        builder,
        _styles(archive, related),
        _notes(archive, related, "footnotes") | _notes(archive, related, "endnotes"),
        _comments(archive, related),
    )
    _margins(archive, related, "header", builder)
    reader.blocks(body)
    _margins(archive, related, "footer", builder)
    return builder.done(_title(archive))


def _title(archive: Archive) -> str:
    if "docProps/core.xml" not in archive.names:
        return ""
    return archive.xml("docProps/core.xml").findtext("{http://purl.org/dc/elements/1.1/}title", "")


def _margins(archive: Archive, related: dict[str, list[str]], kind: str, builder: Builder) -> None:
    """Each different header or footer once; mere page numbers never."""
    seen = set()
    for part in related.get(kind, ()):
        lines = [_plain(paragraph) for paragraph in archive.xml(part).iter(f"{_W}p")]
        text = " ".join(" ".join(lines).split())
        if text not in seen and any(char.isalpha() for char in text):
            seen.add(text)
            builder.block(text)


@dataclass(frozen=True, slots=True)
class _Styles:
    levels: dict[str, int]  # style id -> heading level
    lists: frozenset[str]  # ids of the styles of list items


def _styles(archive: Archive, related: dict[str, list[str]]) -> _Styles:
    """What styles say themselves, or those that they are based on."""
    if not related.get("styles"):
        return _Styles({}, frozenset())
    styles = list(archive.xml(related["styles"][0]).iter(f"{_W}style"))
    based = {style.get(f"{_W}styleId", ""): _value(style, "basedOn") for style in styles}
    own_level = {style.get(f"{_W}styleId", ""): _level_of(style) for style in styles}
    own_list = {
        style.get(f"{_W}styleId", "")
        for style in styles
        if style.find(f"{_W}pPr/{_W}numPr") is not None
    }
    levels: dict[str, int] = {}
    lists: set[str] = set()
    for key in based:
        chain = [key]
        while based.get(chain[-1]) and len(chain) < 12:
            chain.append(based[chain[-1]])
        levels[key] = next((own_level[one] for one in chain if own_level.get(one)), 0)
        if own_list.intersection(chain):
            lists.add(key)
    return _Styles(levels, frozenset(lists))


def _level_of(style: _Element) -> int:
    name, outline = _value(style, "name"), _value(style, "pPr/{w}outlineLvl")
    if found := _HEADING_NAME.match(name):
        return int(found[1])
    if name.lower() == "title":
        return 1
    return int(outline) + 1 if outline.isdigit() and int(outline) < 9 else 0


def _value(element: _Element, path: str) -> str:
    found = element.find(_W + path.replace("{w}", _W))
    return "" if found is None else found.get(_VAL, "")


def _notes(archive: Archive, related: dict[str, list[str]], kind: str) -> dict[str, str]:
    """`footnote:1` -> its text. Separators are notes too and have a type."""
    found = {}
    for part in related.get(kind, ()):
        for note in archive.xml(part):
            if local(note) == kind[:-1] and note.get(f"{_W}type", "normal") == "normal":
                words = " ".join(_plain(paragraph) for paragraph in note.iter(f"{_W}p"))
                found[f"{kind[:-1]}:{note.get(_ID)}"] = " ".join(words.split())
    return found


def _comments(archive: Archive, related: dict[str, list[str]]) -> dict[str, str]:
    found = {}
    for part in related.get("comments", ()):
        for comment in archive.xml(part).iter(f"{_W}comment"):
            words = " ".join(_plain(paragraph) for paragraph in comment.iter(f"{_W}p"))
            author = comment.get(f"{_W}author", "")
            label = f"Comment by {author}" if author else "Comment"
            found[comment.get(_ID, "")] = f"[{label}: {' '.join(words.split())}]"
    return found


def _plain(paragraph: _Element) -> str:
    return _Paragraph().read(paragraph).text


@dataclass(slots=True)
class _Paragraph:
    """Words of a paragraph, and what hangs on it: notes, comments, text boxes."""

    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    boxes: list[_Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts).strip()

    def read(self, paragraph: _Element) -> _Paragraph:
        stack = [paragraph]
        while stack:
            element = stack.pop()
            tag = local(element)
            if tag in _SKIPPED:
                continue
            if tag == "txbxContent":
                self.boxes.append(element)
            elif tag == "t":
                self.parts.append(element.text or "")
            elif tag in _SIGNS:
                self.parts.append(_SIGNS[tag])
            elif tag in ("footnoteReference", "endnoteReference"):
                self._note(f"{tag[:-9]}:{element.get(_ID)}")
            elif tag == "commentReference":
                self.comments.append(element.get(_ID, ""))
            else:
                stack.extend(reversed(element))
        return self

    def _note(self, key: str) -> None:
        self.parts.append(f"[{key.partition(':')[2]}]")
        self.notes.append(key)


_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}


@dataclass(slots=True)
class _Reader:
    builder: Builder
    styles: _Styles
    notes: dict[str, str]
    comments: dict[str, str]
    in_list: bool = False

    def blocks(self, container: _Element) -> None:
        """Content controls and the like are transparent."""
        stack = list(reversed(container))
        while stack:
            element = stack.pop()
            tag = local(element)
            if tag == "p":
                self._paragraph(element)
            elif tag == "tbl":
                self._table(element)
            elif tag not in _SKIPPED:
                stack.extend(reversed(element))

    def _paragraph(self, element: _Element) -> None:
        paragraph = _Paragraph().read(element)
        level = self._level(element)
        listed = not level and self._listed(element)
        if paragraph.text and level:
            self.builder.heading(paragraph.text, level)
        elif paragraph.text:
            text = f"- {paragraph.text}" if listed else paragraph.text
            (self.builder.line if listed and self.in_list else self.builder.block)(text)
        if paragraph.text:
            self.in_list = listed
        self._attached(paragraph)

    def _level(self, element: _Element) -> int:
        own = _value(element, "pPr/{w}outlineLvl")
        if own.isdigit() and int(own) < 9:
            return int(own) + 1
        return self.styles.levels.get(_value(element, "pPr/{w}pStyle"), 0)

    def _listed(self, element: _Element) -> bool:
        numbered = element.find(f"{_W}pPr/{_W}numPr") is not None
        return numbered or _value(element, "pPr/{w}pStyle") in self.styles.lists

    def _attached(self, paragraph: _Paragraph) -> None:
        for key in paragraph.notes:
            if self.notes.get(key):
                self.builder.line(f"[{key.partition(':')[2]}] {self.notes[key]}")
        for key in paragraph.comments:
            if key in self.comments:
                self.builder.line(self.comments[key])
        for box in paragraph.boxes:
            self.blocks(box)

    def _table(self, table: _Element) -> None:
        self.in_list = False
        hanging = _Paragraph()
        first = True
        for cells in _rows(table, hanging):
            line = piped(cells)
            if line:
                (self.builder.block if first else self.builder.line)(line)
                first = False
        self._attached(hanging)


def _rows(table: _Element, hanging: _Paragraph) -> list[list[str]]:
    rows = []
    for row in _inside(table, "tr"):
        cells = []
        for cell in _inside(row, "tc"):
            cells.append(_cell(cell, hanging))
            span = _value(cell, "tcPr/{w}gridSpan")
            cells.extend([""] * (min(int(span), 64) - 1 if span.isdigit() else 0))
        rows.append(cells)
    return rows


def _inside(container: _Element, wanted: str) -> list[_Element]:
    """Children of that name, also within content controls, but not those of nested tables."""
    found = []
    stack = list(reversed(container))
    while stack:
        element = stack.pop()
        tag = local(element)
        if tag == wanted:
            found.append(element)
        elif tag not in _SKIPPED and tag != "tbl":
            stack.extend(reversed(element))
    return found


def _cell(cell: _Element, hanging: _Paragraph) -> str:
    """A nested table stands in its cell as `[a, b; c, d]`."""
    parts = []
    stack = list(reversed(cell))
    while stack:
        element = stack.pop()
        tag = local(element)
        if tag == "p":
            paragraph = _Paragraph().read(element)
            parts.append(paragraph.text)
            hanging.notes += paragraph.notes
            hanging.comments += paragraph.comments
            hanging.boxes += paragraph.boxes
        elif tag == "tbl":
            inner = "; ".join(piped(row).replace(" | ", ", ") for row in _rows(element, hanging))
            parts.append(f"[{inner}]")
        elif tag not in _SKIPPED:
            stack.extend(reversed(element))
    return " ".join(part for part in parts if part)
