"""HTML within Markdown: a few tags mean something to a reader, the others vanish.

Fragments, not pages: tags may be left open or closed elsewhere, so no tree is built. Every pattern
looks at each character a bounded number of times.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<skip>script|style|svg|template)\b[^<>]*>.*?(?:</(?P=skip)\s*>|\Z)"
    r"|<(?P<close>/?)(?P<name>[a-z][a-z0-9-]*)(?P<rest>[^<>]*)>"
    r"|<[?!][^<>]*>",
    re.S | re.I,
)
_ATTRIBUTE = re.compile(r"""\b(alt|src)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+))""", re.I)
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "center", "dd", "details", "div", "dl", "dt",
    "figcaption", "figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li",
    "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr",
    "ul", "caption",
))  # fmt: skip
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SPACES = re.compile(" {2,}")
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_FILE_NAME = re.compile(
    r"[^\s/]{0,200}\.(?:png|jpe?g|gif|svg|webp|bmp|avif|tiff?|ico)"
    r"|[a-z0-9]{1,50}(?:[-_][a-z0-9]{1,50}){1,20}|image|img|picture|photo|alt text",
    re.I,
)
_BADGE = re.compile(r"shields\.io|\bbadges?\b|/workflows/", re.I)


class Piece(NamedTuple):
    """A block: a heading if it has a level; `follows` its forerunner in a list or table."""

    text: str
    level: int
    follows: bool


def pieces(fragment: str) -> Iterator[Piece]:
    """The blocks of a fragment that show something."""
    words: list[str] = []
    kind = before = ""  # the block at hand, the one written last
    filled = False
    for gap, tag in _parts(fragment):
        text = html.unescape(gap)
        words.append(text if kind == "pre" else _BLANKS.sub(" ", text))
        filled = filled or bool(text.strip())
        name = (tag["name"] or "").lower() if tag else ""
        if tag is not None and name not in _BLOCKS:
            words.append(_shown(name, tag, filled))
            continue
        block = _collapsed(words, verbatim=kind == "pre")
        if block not in ("", "-"):
            level = int(kind[1]) if kind in _HEADINGS else 0
            yield Piece(block, level, kind == before and kind in ("li", "tr"))
            before = kind
        opens = tag is not None and not tag["close"]
        before = "" if name in ("table", "ul", "ol") else before
        if block == "-" and opens:  # the item's text follows in a block of its own
            words, kind = ["- "], "li"
        else:
            words, kind = ["- "] if opens and name == "li" else [], name if opens else ""
        filled = False


def inline_tag(tag: str) -> str:
    """What a single tag within a paragraph shows."""
    found = _TAG.match(tag)
    return _shown(found["name"].lower(), found, False) if found and found["name"] else ""


def description(alt: str, source: str) -> str:
    """Of an image, unless it says no more than the name of a file or is a badge with its state."""
    text = " ".join(alt.split())
    return "" if _FILE_NAME.fullmatch(text) or _BADGE.search(source) else text


def _parts(fragment: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Each tag with the text before it; None at the end."""
    place = 0
    for tag in _TAG.finditer(fragment):
        yield fragment[place : tag.start()], tag
        place = tag.end()
    yield fragment[place:], None


def _shown(name: str, tag: re.Match[str], filled: bool) -> str:
    if name == "br":
        return "\n"
    if name == "img":
        found = {
            attribute.lower(): html.unescape(one or other or bare)
            for attribute, one, other, bare in _ATTRIBUTE.findall(tag["rest"])
        }
        return description(found.get("alt", ""), found.get("src", ""))
    return " | " if name in ("td", "th") and not tag["close"] and filled else ""


def _collapsed(words: list[str], *, verbatim: bool) -> str:
    text = "".join(words)
    if verbatim:
        return text.strip("\n").rstrip()
    lines = (_SPACES.sub(" ", line).strip(" ") for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
