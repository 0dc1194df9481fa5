"""PDF: text in reading order with its pages, by PDFium and what `pdf_*` make of its characters."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from workers.parsing.layout import Builder, Limits, Parsed, is_blank
from workers.parsing.pdf_glyphs import HYPHEN, Fragment, fragments
from workers.parsing.pdf_grid import rules, with_grids
from workers.parsing.pdf_margins import without_margins
from workers.parsing.pdf_order import reading_order
from workers.parsing.pdf_text import BULLET, Block, Kind, blocks, glued, goes_on, hyphenated_words
from workers.parsing.refusals import refusal

_FILE_NAME = re.compile(r"\.\w{2,4}$|^(?:untitled|microsoft word|document\d*$|slide 1$)", re.I)
_FEW = 50  # characters on a page that is an image


def parse_pdf(data: bytes, limits: Limits) -> Parsed:
    document = _opened(data)
    builder = Builder(limits)
    pages: list[list[Fragment]] = []
    scanned: list[int] = []
    budget = limits.text
    for number in range(len(document)):
        found = _page(document, number, builder)
        characters = sum(len(one.text) for one in found)
        budget -= characters
        if budget < 0:
            raise refusal("too_long")
        if characters < _FEW and _is_image(document, number):
            scanned.append(number + 1)
        pages.append(found)
    if is_blank("".join(one.text for page in pages for one in page)):
        raise refusal("no_text" if _has_marks(document) else "empty")
    if scanned:
        builder.warn(f"Pages without a text layer, readable only by OCR: {_ranges(scanned)}.")
    _write(without_margins(pages), _outline(document), builder)
    return builder.done(_title(document, builder))


def _opened(data: bytes) -> Any:
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        locked = pdfium.FPDF_GetLastError() == pdfium.FPDF_ERR_PASSWORD
        raise refusal("encrypted" if locked else "damaged") from error
    if len(document) == 0:
        raise refusal("damaged")
    return document


def _page(document: Any, number: int, builder: Builder) -> list[Fragment]:
    try:
        page = document[number]
        return with_grids(fragments(page.get_textpage()), rules(page))
    except pypdfium2.PdfiumError:
        builder.warn(f"Page {number + 1} is damaged and was left out.")
        return []


def _is_image(document: Any, number: int) -> bool:
    """Whether images cover half of the page."""
    try:
        page = document[number]
        width, height = page.get_size()
        area = 0.0
        for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=3):
            left, bottom, right, top = image.get_bounds()
            area += abs(right - left) * abs(top - bottom)
    except pypdfium2.PdfiumError:
        return False
    return area > 0.5 * float(width) * float(height)


def _has_marks(document: Any) -> bool:
    return any(
        next(iter(document[number].get_objects(max_depth=1)), None) is not None
        for number in range(min(len(document), 20))
    )


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    texts = [f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts]
    return ", ".join(texts[:20]) + (" …" if len(texts) > 20 else "")


def _title(document: Any, builder: Builder) -> str:
    told: str = document.get_metadata_dict().get("Title", "").strip()
    if told and not _FILE_NAME.search(told):
        return told
    return builder.first_heading(1)


def _outline(document: Any) -> dict[tuple[int, str], int]:
    """(page from 1, words) -> level of the bookmarks."""
    found = {}
    try:
        for bookmark in document.get_toc(max_depth=6):
            destination = bookmark.get_dest()
            index = destination.get_index() if destination else None
            if index is not None:
                found[index + 1, _folded(bookmark.get_title())] = bookmark.level + 1
    except pypdfium2.PdfiumError:
        return {}
    return found


def _folded(text: str) -> str:
    return re.sub(r"[\W\d_]+", "", text).lower()


@dataclass(slots=True)
class _Piece:
    page: int
    block: Block
    text: str
    level: int
    gap: str = "\n\n"  # what parts it from the piece before


def _write(
    pages: Sequence[Sequence[Fragment]], outline: dict[tuple[int, str], int], builder: Builder
) -> None:
    hyphenated = hyphenated_words([one.text for page in pages for one in page])
    written = [(number, _blocks(page, hyphenated)) for number, page in enumerate(pages, 1)]
    levels = _Levels([block for _, found in written for block in found], outline)
    pieces: list[_Piece] = []
    for number, found in written:
        for block in found:
            piece = _Piece(number, block, block.text, levels.of(block, number))
            if not (pieces and _continue(pieces[-1], piece, hyphenated)):
                pieces.append(piece)
    page = 0
    for piece in pieces:
        if piece.page != page:
            page = piece.page
            builder.page(page)
        text = piece.text.replace(HYPHEN, "-")
        if piece.level:
            builder.heading(text, piece.level)
        else:
            builder.block(text, gap=piece.gap)


def _continue(above: _Piece, below: _Piece, hyphenated: frozenset[str]) -> bool:
    """Join a paragraph that a column or page parts; on another page it stays a piece of its own."""
    if above.level or below.level or not goes_on(above.block, below.block):
        return False
    whole = glued(above.text, below.text, hyphenated)
    if above.page == below.page:
        above.text = whole
        above.block = below.block
        return True
    head = whole.removesuffix(below.text)
    above.text = head.rstrip()
    below.gap = head[len(above.text) :]
    return False


def _blocks(page: Sequence[Fragment], hyphenated: frozenset[str]) -> list[Block]:
    return [block for region in reading_order(page) for block in blocks(region, hyphenated)]


class _Levels:
    """Which blocks are headings: those of the document's outline, else those in larger type, and
    below these those in bold type that stand alone."""

    def __init__(self, written: Sequence[Block], outline: dict[tuple[int, str], int]) -> None:
        self._outline = outline
        weights: Counter[float] = Counter()
        for block in written:
            weights[_step(block.size)] += len(block.text)
        self._body = statistics.median(weights.elements()) if weights else 0.0
        larger = {
            _step(block.size)
            for block in written
            if _short(block) and block.size > self._body * 1.12
        }
        self._ranks = {size: rank for rank, size in enumerate(sorted(larger, reverse=True), 1)}

    def of(self, block: Block, page: int) -> int:
        """0 for what is none."""
        if block.kind is not Kind.PARAGRAPH or not _short(block):
            return 0
        if self._outline:
            return self._outline.get((page, _folded(block.text)), 0)
        if _step(block.size) in self._ranks:
            return min(self._ranks[_step(block.size)], 5)
        if block.bold and block.lines == 1 and not block.text.endswith((".", ",", ";")):
            return min(len(self._ranks) + 1, 6)
        return 0


def _step(size: float) -> float:
    return round(size * 2) / 2


def _short(block: Block) -> bool:
    """Numbered headings look like list items, other bullets never are headings."""
    text = block.text
    listed = BULLET.match(text) is not None and not text[0].isalnum()
    wide = sum(char > "\u2e7f" for char in text)
    return (
        block.lines <= 3 and len(text) + wide <= 150 and not listed and any(map(str.isalpha, text))
    )
