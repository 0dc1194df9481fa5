"""What parsing yields, plain text with the places of pages and headings, and how it is built."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from workers.parsing.refusals import refusal


@dataclass(frozen=True, slots=True)
class Heading:
    """`text` at `[start, end)` of the parsed text; level 1 is the outermost."""

    start: int
    end: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """Text of a document. Lines end with a line feed; offsets count code points.

    `pages` holds (offset of the first character, number from 1), ascending; empty where the format
    has none. `title` is what the file itself says, "" if it says nothing.
    """

    text: str
    title: str = ""
    pages: tuple[tuple[int, int], ...] = ()
    headings: tuple[Heading, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost; all but `seconds` and `text` hold in the child only."""

    seconds: float = 120.0  # of wall clock and of processor time
    memory_mb: int = 2048  # address space, in MiB
    expanded_mb: int = 512  # what the members of an archive may unpack to, in MiB
    text: int = 20_000_000  # characters of parsed text


@dataclass(slots=True)
class Builder:
    """Appends blocks and remembers where pages and headings begin."""

    limits: Limits
    _parts: list[str] = field(default_factory=list)
    _length: int = 0
    _pages: list[tuple[int, int]] = field(default_factory=list)
    _headings: list[Heading] = field(default_factory=list)
    _warnings: dict[str, None] = field(default_factory=dict)
    _page: int | None = None

    @property
    def length(self) -> int:
        return self._length

    def block(self, text: str, *, gap: str = "\n\n") -> None:
        """A paragraph, table or list: a blank line sets it off."""
        self._append(text, gap)

    def line(self, text: str) -> None:
        self._append(text, "\n")

    def heading(self, text: str, level: int) -> None:
        text = " ".join(clean(text).split())
        if text:
            end = self._append(text, "\n\n")
            self._headings.append(Heading(end - len(text), end, level, text))

    def verbatim(self, text: str) -> int:
        """Text as it is, cleaned only; returns the offset where it begins."""
        start = self._length
        self._put(clean(text))
        return start

    def mark(self, heading: Heading) -> None:
        """A heading within verbatim text."""
        self._headings.append(heading)

    def page(self, number: int) -> None:
        """What follows is on this page."""
        self._page = number

    def first_heading(self, level: int) -> str:
        """The first one, if it has this level."""
        found = self._headings[:1]
        return found[0].text if found and found[0].level == level else ""

    def warn(self, sentence: str) -> None:
        self._warnings[sentence] = None

    def done(self, title: str = "") -> Parsed:
        return Parsed(
            "".join(self._parts),
            " ".join(clean(title).split())[:500],
            tuple(self._pages),
            tuple(self._headings),
            tuple(self._warnings),
        )

    def _append(self, text: str, gap: str) -> int:
        text = clean(text).strip("\n").rstrip()
        if not text:
            return self._length
        if self._length:
            self._put(gap)
        if self._page is not None:
            self._pages.append((self._length, self._page))
            self._page = None
        self._put(text)
        return self._length

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        if self._length > self.limits.text:
            raise refusal("too_long")


_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Controls but tab and line feed; soft hyphens and byte order marks, which only break words;
# lone surrogates and the two non-characters that end the basic plane.
_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\ufeff\ufff9-\ufffb\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Line feeds as line ends, no control characters, nothing that UTF-8 cannot hold."""
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", text)
    text = _UNWANTED.sub("", text)
    return _SURROGATES.sub("\ufffd", text)


def is_blank(text: str) -> bool:
    """Nothing that a reader would see: blanks, zero-width characters, fillers."""
    return not text.strip().strip(_INVISIBLE)


_INVISIBLE = "\u200b\u200c\u200d\u200e\u200f\u2060\u3164\u115f\u1160 \t\n\u00a0\u3000\ufffd"
