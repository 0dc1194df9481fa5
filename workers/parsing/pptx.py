"""PowerPoint: slides as pages, shapes from top to bottom, tables, diagrams and speaker's notes."""

from __future__ import annotations

from lxml.etree import _Element

from workers.parsing.archives import Archive, local
from workers.parsing.layout import Builder, Limits, Parsed
from workers.parsing.refusals import refusal
from workers.parsing.rows import piped

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_UNSEEN = ("dt", "ftr", "sldNum", "hdr", "sldImg")  # dates, footers, numbers: the same everywhere
_TITLES = ("title", "ctrTitle")


def parse_pptx(data: bytes, limits: Limits) -> Parsed:
    archive = Archive(data, expanded=limits.expanded_mb << 20)
    main = next(
        (part for kind, part in archive.relations("").values() if kind == "officeDocument"), ""
    )
    slides = archive.relations(main)
    builder = Builder(limits)
    for number, entry in enumerate(archive.xml(main).iter(f"{_P}sldId"), 1):
        _, part = slides.get(entry.get(f"{_R}id", ""), ("", ""))
        if part not in archive.names:
            builder.warn(f"Slide {number} is missing from the file.")
            continue
        builder.page(number)
        _slide(archive, part, builder)
    if not slides:
        raise refusal("damaged")
    return builder.done(_title(archive))


def _title(archive: Archive) -> str:
    if "docProps/core.xml" not in archive.names:
        return ""
    return archive.xml("docProps/core.xml").findtext("{http://purl.org/dc/elements/1.1/}title", "")


def _slide(archive: Archive, part: str, builder: Builder) -> None:
    tree = archive.xml(part).find(f"{_P}cSld/{_P}spTree")
    if tree is None:
        return
    relations = archive.relations(part)
    for shape in sorted(_shapes(tree), key=_place):
        _write(archive, shape, relations, builder)
    for kind, target in relations.values():
        if kind == "notesSlide" and target in archive.names:
            notes = _notes(archive.xml(target))
            if notes:
                builder.block(f"Notes: {notes}")


def _shapes(tree: _Element) -> list[_Element]:
    """Shapes of a slide, groups dissolved, one of each pair of alternatives."""
    found = []
    stack = list(reversed(tree))
    while stack:
        element = stack.pop()
        tag = local(element)
        if tag in ("sp", "graphicFrame"):
            if _kind(element) not in _UNSEEN:
                found.append(element)
        elif tag in ("grpSp", "AlternateContent", "Choice"):
            stack.extend(reversed(element))
    return found


def _kind(shape: _Element) -> str:
    holder = shape.find(f".//{_P}ph")
    return "" if holder is None else holder.get("type", "body")


def _place(shape: _Element) -> tuple[int, int, int]:
    """Titles first; shapes without a place of their own keep the layout's order, before others.
    Half an inch of difference in height is the same row."""
    offset = shape.find(f".//{_A}off")
    if _kind(shape) in _TITLES:
        return (0, 0, 0)
    if offset is None:
        return (1, 0, 0)
    return (2, _number(offset.get("y")) // 457_200, _number(offset.get("x")))


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _write(
    archive: Archive, shape: _Element, relations: dict[str, tuple[str, str]], builder: Builder
) -> None:
    tables = shape.findall(f".//{_A}tbl")
    if tables:
        for table in tables:
            rows = [[_words(cell) for cell in row.iter(f"{_A}tc")] for row in table.iter(f"{_A}tr")]
            builder.block("\n".join(line for line in map(piped, rows) if line))
        return
    text = "\n".join(_paragraphs(shape))
    if _kind(shape) in _TITLES:
        builder.heading(text, 1)
    elif text:
        builder.block(text)
    for inner in shape.iter("{*}relIds", "{*}chart"):
        identifier = inner.get(f"{_R}dm") or inner.get(f"{_R}id") or ""
        kind, target = relations.get(identifier, ("", ""))
        if kind in ("diagramData", "chart") and target in archive.names:
            builder.block("\n".join(_embedded(archive.xml(target), kind)))


def _embedded(root: _Element, kind: str) -> list[str]:
    """Words of a diagram, or the series of a chart with their cached values."""
    if kind == "diagramData":
        return _paragraphs(root)
    lines = _paragraphs(root)
    for series in root.iter("{*}ser"):
        name = ", ".join(value.text or "" for value in series.iterfind("{*}tx//{*}v"))
        labels = [value.text or "" for value in series.iterfind("{*}cat//{*}v")]
        values = [value.text or "" for value in series.iterfind("{*}val//{*}v")]
        pairs = (f"{a}: {b}" for a, b in zip(labels, values, strict=False))
        lines.append(f"{name or 'Series'}: " + (", ".join(pairs) or ", ".join(values)))
    return lines


def _paragraphs(shape: _Element) -> list[str]:
    lines = (_words(paragraph) for paragraph in shape.iter(f"{_A}p"))
    return [line for line in lines if line]


def _words(element: _Element) -> str:
    parts = []
    for inner in element.iter(f"{_A}t", f"{_A}br", f"{_A}tab"):
        parts.append((inner.text or "") if local(inner) == "t" else " ")
    return " ".join("".join(parts).split())


def _notes(root: _Element) -> str:
    shapes = [shape for shape in root.iter(f"{_P}sp") if _kind(shape) == "body"]
    return "\n".join(line for shape in shapes for line in _paragraphs(shape))
