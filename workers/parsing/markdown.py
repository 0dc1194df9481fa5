"""Markdown as its reader sees it: CommonMark with tables, rendered to plain text.

Links become their text, images their description; reference definitions, marks of emphasis and
tags vanish; lists, tables and code blocks keep a form that reads well. The parser is markdown-it,
whose time is linear in the length of the text; so is what is done here with its tokens.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from workers.parsing.layout import Builder, Limits, Parsed, clean
from workers.parsing.rows import piped
from workers.parsing.tags import description, inline_tag, pieces
from workers.parsing.text import read

_NESTING = 40  # time grows with it; half as many lists within lists
_HEADING = 200  # characters of a heading at most
# Between these signs emphasis often fails by the letter of CommonMark, and the marks remain.
_EAST = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef“”‘’—…"
_EAST_STRONG = re.compile(
    rf"(?<=[{_EAST}])\*\*(?=\S)([^*\n]{{1,300}})(?<=\S)\*\*"
    rf"|\*\*(?=\S)([^*\n]{{1,300}})(?<=\S)\*\*(?=[{_EAST}])"
)
_WIKI_LINK = re.compile(r"(!?)\[\[([^\[\]|\n]{1,300})(?:\|([^\[\]|\n]{1,300}))?\]\]")
_CALLOUT = re.compile(r"\[!([A-Za-z]{2,20})\][+-]?")
_SPACES = re.compile(r"[ \t]{2,}")
_LINE_EDGES = re.compile(r" ?\n ?")
_MATH = re.compile(
    r"\$\$(?:[^$\\]|\\.){1,2000}\$\$|\$(?![\s$])(?:[^$\\\n]|\\.){1,400}(?<!\s)\$(?!\d)", re.S
)


def parse_markdown(data: bytes, limits: Limits) -> Parsed:
    builder = Builder(limits)
    front, body = _front_matter(clean(read(data, builder)))
    builder.block(front)
    writer = _Writer(builder)
    writer.write(_parser().parse(body))
    return builder.done(_front_title(front) or writer.title)


@functools.cache
def _parser() -> MarkdownIt:
    """Holds rules only, nothing of a document."""
    parser = MarkdownIt("commonmark", {"maxNesting": _NESTING}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "math", _math)
    return parser


def _math(state: StateInline, silent: bool) -> bool:
    """Formulas between dollar signs stay as they are: their backslashes and stars mean something.

    As in Pandoc, blanks within and digits behind tell amounts of money apart."""
    if state.src[state.pos] != "$":
        return False
    found = _MATH.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("code_inline", "", 0).content = found[0]
    state.pos = found.end()
    return True


# --- front matter --------------------------------------------------------------------------------


def _front_matter(text: str) -> tuple[str, str]:
    """Its lines without the rules around them, and the rest."""
    if not text.startswith("---\n"):
        return "", text
    closing = _FRONT_END.search(text, 3)
    if closing is None or not _KEY.match(text, 4):
        return "", text
    return text[4 : closing.start()], text[closing.end() :]


_FRONT_END = re.compile(r"\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_KEY = re.compile(r"(?:#[^\n]*\n)*[\w\"'.-]+[ \t]*:")


def _front_title(front: str) -> str:
    for line in front[:4000].split("\n"):
        key, _, value = line.partition(":")
        if key == "title":
            return value.strip().strip("\"'")
    return ""


# --- blocks --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Writes the flat list of block tokens; `margins` are the indents of the open list items."""

    builder: Builder
    title: str = ""
    margins: list[str] = field(default_factory=list)
    marker: str = ""  # of an item whose text has not come yet
    lists: int = 0
    fresh: bool = False  # the next block is the first of a list
    tight: bool = False  # the paragraph at hand belongs to a list without blank lines
    row: list[str] | None = None  # cells of the table row at hand
    rows: list[str] = field(default_factory=list)
    level: int = 0  # of the heading at hand

    def write(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if token.level >= _NESTING - 1 and token.type in _CONTAINERS:
                self.builder.warn("Lists or quotations are nested too deep; a part was left out.")
            if token.type == "inline":
                # Several lines above a rule are a paragraph, whatever CommonMark says.
                heading = self.level and token.level == 1 and "\n" not in token.content
                self._text(_inline(token.children or ()), self.level if heading else 0)
            elif token.type in ("fence", "code_block"):
                self._put(_code(token), tight=bool(self.margins))
            elif token.type == "html_block":
                self._html(token.content)
            elif token.type in _LISTS:
                self._list(token)
            elif token.type in _TABLES:
                self._table(token.type)
            elif token.type == "heading_open":
                self.level = int(token.tag[1])
            elif token.type == "paragraph_open":
                self.level, self.tight = 0, token.hidden

    def _text(self, text: str, level: int) -> None:
        if self.row is not None:
            self.row.append(text)
        elif level and len(text) <= _HEADING:
            self._heading(text, level)
        else:
            self._put(text, tight=self.tight and not self.level)

    def _heading(self, text: str, level: int) -> None:
        self.builder.heading(text, level)
        if level == 1 and not self.title:
            self.title = text

    def _html(self, html: str) -> None:
        for piece in pieces(html):
            if piece.level and not self.margins and len(piece.text) <= _HEADING:
                self._heading(piece.text, piece.level)
            else:
                self._put(piece.text, tight=piece.follows or bool(self.margins))

    def _list(self, token: Token) -> None:
        if token.type == "list_item_open":
            outer = "".join(self.margins)
            # An item that begins with a list of its own: both markers stand on one line.
            mark = f"{token.info}{token.markup} " if token.info else "- "
            self.marker = (self.marker or outer) + mark
            self.margins.append(" " * len(mark))
        elif token.type == "list_item_close":
            self.margins.pop()
            self.marker = ""
        elif token.nesting > 0:
            self.fresh = self.fresh or not self.lists
            self.lists += 1
        else:
            self.lists -= 1

    def _table(self, kind: str) -> None:
        if kind == "tr_open":
            self.row = []
        elif kind == "tr_close":
            self.rows.append(piped(self.row or ()))
            self.row = None
        elif kind == "table_close":
            self._put("\n".join(filter(None, self.rows)), tight=bool(self.margins))
            self.rows.clear()

    def _put(self, text: str, *, tight: bool) -> None:
        text = text.strip("\n").rstrip()
        if not text.strip():
            return
        margin = "".join(self.margins)
        first = self.marker or margin
        rest = f"\n{margin}" if margin else "\n"
        gap = "\n" if tight and not self.fresh else "\n\n"
        self.builder.block(first + text.replace("\n", rest), gap=gap)
        self.marker, self.fresh = "", False


_LISTS = frozenset((
    "bullet_list_open", "ordered_list_open", "bullet_list_close", "ordered_list_close",
    "list_item_open", "list_item_close",
))  # fmt: skip
_CONTAINERS = frozenset(("list_item_open", "blockquote_open"))
_TABLES = frozenset(("tr_open", "tr_close", "table_close"))


def _code(token: Token) -> str:
    """Fences stay: they tell readers, and the cutting into chunks, what belongs together."""
    if token.type == "fence":
        return f"{token.markup}{token.info.strip()}\n{token.content.rstrip()}\n{token.markup}"
    return "\n".join(f"    {line}" if line else "" for line in token.content.split("\n"))


# --- within a block ------------------------------------------------------------------------------


def _inline(tokens: Sequence[Token]) -> str:
    text = "".join(_words(tokens))
    if callout := _CALLOUT.match(text):
        text = f"{callout[1].capitalize()}:{text[callout.end() :]}"
    return _LINE_EDGES.sub("\n", _SPACES.sub(" ", text)).strip(" ")


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "text":
            yield _plain(token.content)
        elif token.type == "code_inline":
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield "\n"
        elif token.type == "image":
            yield description("".join(_words(token.children or ())), str(token.attrGet("src")))
        elif token.type == "html_inline":
            yield inline_tag(token.content)


def _plain(text: str) -> str:
    if "**" in text:
        text = _EAST_STRONG.sub(lambda found: found[1] or found[2], text)
    if "[[" in text:
        text = _WIKI_LINK.sub(_wiki, text)
    return text


def _wiki(link: re.Match[str]) -> str:
    """Links of note-taking programs, `[[page|text]]`; embedded files vanish."""
    return "" if link[1] else link[3] or link[2]
