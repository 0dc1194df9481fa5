"""HTML: headings, paragraphs, lists and tables of the main part, without the page around it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lxml import etree
from lxml.etree import _Element

from workers.parsing.archives import EXHAUSTED, local, unreadable
from workers.parsing.encodings import decode
from workers.parsing.layout import Builder, Limits, Parsed
from workers.parsing.refusals import refusal
from workers.parsing.rows import piped

_DROPPED = frozenset((
    "head", "script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed",
    "audio", "video", "map", "nav", "footer", "aside", "form", "button", "select", "option",
    "input", "textarea", "dialog", "menu", "annotation", "annotation-xml",
))  # fmt: skip
_DROPPED_ROLES = frozenset((
    "navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar", "dialog",
))  # fmt: skip
_BLOCKS = frozenset((
    "address", "article", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "form", "header", "hr", "html", "li", "main", "ol", "p",
    "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
    "caption",
))  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LAYOUT = frozenset((
    "table", "ul", "ol", "dl", "pre", "blockquote", "section", *_HEADINGS,
))  # fmt: skip
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_BLANK_LINE = re.compile(r"(?<=\S)[ \t]*\r?\n[ \t]*\r?\n\s*(?=\S)")
# A line break between two Chinese or Japanese characters is none of the text.
_EAST = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_EAST_BREAK = re.compile(f"(?<=[{_EAST}])[ \t]*\n\\s*(?=[{_EAST}])")
_CHARSET = re.compile(rb"""<meta[^>]{0,300}?charset\s*=\s*["']?\s*([\w:.-]{2,40})""", re.I)
_XML_ENCODING = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w:.-]{2,40})""")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


def parse_html(data: bytes, limits: Limits) -> Parsed:
    builder = Builder(limits)
    text = _decoded(data, builder)
    root = tree(text)
    title = root.findtext(".//title") or ""
    write(_main(root), builder)
    if not builder.length and _main(root) is not root:
        write(root, builder)
    return builder.done(title)


def _decoded(data: bytes, builder: Builder) -> str:
    told = _XML_ENCODING.match(data) or _CHARSET.search(data[:4096])
    decoded = decode(data, hint=told[1].decode("ascii") if told else "")
    if decoded.warning:
        builder.warn(decoded.warning)
    return decoded.text


def tree(text: str) -> _Element:
    """Root of any HTML, however broken; nothing is fetched. Beyond its bounds (2,048 elements deep)
    libxml2 drops the rest without a word: `Unparsable`, `too_complex`."""
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, recover=True, remove_comments=True, remove_pis=True,
        huge_tree=True,  # pages with forgotten end tags are deeper than 256; the child has limits
    )  # fmt: skip
    data = text.replace("\0", "").encode("utf-8", "replace")
    try:
        root = etree.fromstring(data, parser)
    except etree.ParserError as error:
        raise refusal("empty") from error
    except etree.XMLSyntaxError as error:
        raise unreadable(error) from error
    if any(entry.type in EXHAUSTED for entry in parser.error_log):
        raise refusal("too_complex")
    if root is None:
        raise refusal("empty")
    return root


def _main(root: _Element) -> _Element:
    """The element that holds the page's own content, if the page marks one."""
    for path in (".//main", ".//*[@role='main']", ".//article"):
        found = root.findall(path)
        if len(found) == 1 and len("".join(map(str, found[0].itertext())).strip()) > 200:
            return found[0]
    body = root.find(".//body")
    return root if body is None else body


def write(root: _Element, builder: Builder) -> None:
    """Append the text below an element."""
    _Writer(builder).walk(root)


@dataclass(slots=True)
class _Writer:
    builder: Builder
    words: list[str] = field(default_factory=list)
    lists: int = 0
    close: bool = False  # the next block continues a list or table

    def walk(self, root: _Element) -> None:
        """Depth first by hand: documents may be nested deeper than Python's stack."""
        stack: list[tuple[_Element, bool]] = [(root, False)]
        while stack:
            element, leaving = stack.pop()
            tag = local(element).lower()
            if leaving:
                self._leave(tag)
            elif (_dropped(element, tag) and element is not root) or self._whole(element, tag):
                pass
            else:
                self._enter(element, tag)
                stack.append((element, True))
                stack.extend((child, False) for child in reversed(element))
                continue
            if element is not root:
                parent = element.getparent()
                bare = parent is not None and local(parent) == "body"
                self._add(_paragraphs(element.tail) if bare else element.tail)
        self._flush()

    def _whole(self, element: _Element, tag: str) -> bool:
        """Elements that are written at once."""
        if tag in _HEADINGS:
            self._flush()
            self.builder.heading(_inline(element), _HEADINGS[tag])
        elif tag == "pre":
            self._flush()
            self.builder.block("".join(_texts(element, breaks=True)))
        elif tag == "table" and _is_data(element):
            self._flush()
            self._table(element)
        elif tag == "br":
            self.words.append("\x1e")
        else:
            return False
        return True

    def _enter(self, element: _Element, tag: str) -> None:
        if tag in _BLOCKS:
            self._flush()
        if tag == "li":
            self.words.append("- ")
        self._add(_paragraphs(element.text) if tag == "body" else element.text)

    def _leave(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._flush()
        if tag in ("ul", "ol", "dl"):
            self.close = False

    def _add(self, text: str | None) -> None:
        if text:
            self.words.append(text)

    def _flush(self) -> None:
        text = _collapsed("".join(self.words))
        self.words.clear()
        if not text or text == "-":
            if text:
                self.words.append("- ")  # the item's text follows in a block of its own
            return
        item = text.startswith("- ")
        (self.builder.line if item and self.close else self.builder.block)(text)
        self.close = item

    def _table(self, table: _Element) -> None:
        self.close = False
        first = True
        for row in table.iter("{*}tr", "{*}caption"):
            cells = [row] if local(row) == "caption" else list(row.iterchildren("{*}td", "{*}th"))
            line = piped([_inline(cell) for cell in cells])
            if line:
                (self.builder.block if first else self.builder.line)(line)
                first = False


def _paragraphs(text: str | None) -> str | None:
    """Pages without any markup part their paragraphs by blank lines, as plain text does."""
    return _BLANK_LINE.sub("\x1e\x1e", text) if text else text


def _dropped(element: _Element, tag: str) -> bool:
    if not tag or tag in _DROPPED:
        return tag != "form" or not _long(element)
    get = element.get
    return (
        get("hidden") is not None
        or get("aria-hidden") == "true"
        or get("role", "") in _DROPPED_ROLES
        or bool(_HIDDEN.search(get("style", "")))
    )


def _long(element: _Element) -> bool:
    """Some systems wrap the whole page in one form."""
    return len("".join(map(str, element.itertext()))) > 2000


def _is_data(table: _Element) -> bool:
    """Not a table that only arranges the page: its cells hold no blocks of their own."""
    for cell in table.iter("{*}td", "{*}th"):
        if any(local(inner).lower() in _LAYOUT for inner in cell.iterdescendants()):
            return False
        if sum(local(inner).lower() in ("p", "div") for inner in cell.iterdescendants()) > 3:
            return False
    return True


def _inline(element: _Element) -> str:
    return _collapsed("".join(_texts(element, breaks=False))).replace("\n", " ")


def _texts(element: _Element, *, breaks: bool) -> list[str]:
    texts: list[str] = []
    stack: list[tuple[_Element, bool]] = [(element, False)]
    while stack:
        inner, leaving = stack.pop()
        if leaving:
            if inner is not element and inner.tail:
                texts.append(inner.tail)
            continue
        stack.append((inner, True))
        tag = local(inner).lower()
        if inner is not element and _dropped(inner, tag):
            continue
        if tag == "br" or (tag in _BLOCKS and inner is not element):
            texts.append("\n" if breaks else " ")
        if inner.text:
            texts.append(inner.text)
        stack.extend((child, False) for child in reversed(inner))
    return texts


def _collapsed(text: str) -> str:
    text = _EAST_BREAK.sub("", text.replace("\u200b", ""))
    text = _BLANKS.sub(" ", text)
    lines = [line.strip(" ") for line in text.split("\x1e")]
    return "\n".join(lines).strip()
