"""Text into sentences of tokens, all with offsets into the text as it is.

Nothing is rewritten: a token's `text` may differ from the slice it stands for (soft hyphens and
line-end hyphens are gone, apostrophes straight), its offsets never do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from app import words
from app.rules.lexicon import english

MAX_TOKENS = 200  # of a sentence; what is longer is none, and is cut

# How a token is parted from the one before it.
JOINED, SOFT, STOP, HARD = range(4)

_LETTER = r"[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
_INNER = r"[-‐‑/'’&+\u00ad]|[-\u00ad]\n[ \t]*|(?<![a-z]{2})\.(?=[A-Z])|\.(?=[a-z0-9])"
_TOKEN = re.compile(
    r"(?P<link>(?:https?://|www\.)[^\s<>\"\])]+|[\w.+-]+@[\w-]+\.[\w.-]+)"
    r"|(?P<initials>(?<![\w.])(?:[A-Za-z]\.){2,}(?![\w]))"
    r"|(?P<number>\d+(?:[.,:/]\d+)*(?![\w])%?)"
    rf"|(?P<word>{_LETTER}+(?:(?:{_INNER}){_LETTER}+)*(?:\+(?!\w))?)"
)  # fmt: skip
_SENTENCE_END = re.compile(r"[.!?…][)\]\"'’”»*_]*(?:\s|$)|[.!?…]['\"”’»]*[ \n]*[\"“«‘`]")
_LINE_START = re.compile(r"\n[ \t]*(?:[-*•–▪◦+>|#]|\d{1,2}[.)])[ \t]")
_CLOSERS = re.compile(r"[.!?…]+[)\]\"'’”»*_]*")
_SOFT_MARKS = re.compile(r"[^\s.'’*_]")


class Token(NamedTuple):
    """`cap`: written like (part of) a name. `start` and `end` leave out a possessive ending."""

    text: str
    low: str
    start: int
    end: int
    before: int  # JOINED, SOFT, STOP or HARD
    gap: str  # what stands between the token before and this one
    cap: bool
    number: bool
    possessive: bool


@dataclass(slots=True)
class Sentence:
    """`text[start:end]`. `kinds` are the word classes of the tokens (`app.words`)."""

    start: int
    end: int
    tokens: list[Token]
    heading: bool = False
    kinds: list[str] = field(default_factory=list)
    speaker: str = ""  # of a chat line
    cells: tuple[tuple[str, int, int], ...] = ()  # of a table row: header, first and last token


def whole(text: str, start: int, end: int) -> Sentence:
    """A stretch as one sentence, however it reads."""
    return Sentence(start, end, list(_tokens(text, start, end, frozenset()))[:MAX_TOKENS])


def sentences(text: str, start: int = 0, end: int | None = None) -> list[Sentence]:
    """Sentences of a stretch of prose, in order; empty ones are left out."""
    end = len(text) if end is None else end
    found: list[Sentence] = []
    current: list[Token] = []
    begin = start
    closing = _short_lines(text, start, end)
    for token in _tokens(text, start, end, closing):
        if current and (
            token.before == HARD
            or (token.before == STOP and _opens(token))
            or len(current) == MAX_TOKENS
        ):
            found.append(_sentence(text, begin, token.start, current))
            current = []
        if not current:
            begin = _outset(text, token)
        current.append(token)
    if current:
        found.append(_sentence(text, begin, end, current))
    return found


def _outset(text: str, token: Token) -> int:
    """Where a sentence with this first token starts: an opening quote or bracket belongs to it."""
    start = token.start
    while start and token.gap and text[start - 1] in "\"'“‘«([`$€£" and token.start - start < 3:
        start -= 1
    return start


def _opens(token: Token) -> bool:
    first = token.text[0]
    return (
        first.isupper()
        or first.isdigit()
        or not first.islower()
        or bool(token.gap.strip("\n .!?…)"))
    )


def _sentence(text: str, begin: int, limit: int, tokens: list[Token]) -> Sentence:
    last = tokens[-1]
    end = last.end
    tail = text[end:limit]
    closing = _CLOSERS.search(tail)
    if closing:
        end += closing.end()
    elif last.possessive and tail[:1] in ("'", "’"):
        end += 2
    else:
        end += len(tail[:2].rstrip()) if tail[:1] in (":", ";", ")", "]", '"', "”") else 0
    heading = _is_heading(tokens, text[last.end : end])
    return Sentence(begin, min(end, limit), tokens, heading)


def _is_heading(tokens: list[Token], tail: str) -> bool:
    """Three to fourteen words without a final stop, 70 % of them capital."""
    if not 3 <= len(tokens) <= 14 or any(mark in tail for mark in ".!?…"):
        return False
    content = [token for token in tokens if not words.is_stop_word(token.low) or token.cap]
    return sum(token.cap for token in content) >= 0.7 * len(content)


def _tokens(text: str, start: int, end: int, short_lines: frozenset[int]) -> Iterator[Token]:
    abbreviations = english()["abbreviation"]
    last_end = start
    last: str = ""
    barrier = False
    possessive = False
    for match in _TOKEN.finditer(text, start, end):
        begin, stop = match.span()
        if match.lastgroup == "link":
            barrier = True
            continue
        gap = text[last_end:begin]
        before = JOINED if gap == " " else _parting(gap, last, abbreviations)
        if "\n" in gap and before < HARD and last_end + gap.index("\n") in short_lines:
            before = HARD if text[begin].isupper() or text[begin].isdigit() else before
        if barrier:
            before, barrier = max(before, SOFT), False
        raw = match.group()
        number = match.lastgroup == "number"
        low, possessive = raw, False
        if not number:
            if not raw.isalnum():
                raw, possessive = _cleaned(raw)
                if possessive:
                    stop -= 2
            low = raw.lower()
        yield Token(
            raw, low, begin, stop, before, gap,
            not number and raw != low and _capital(raw) and not (gap == "." and last.isdigit()),
            number, possessive,
        )  # fmt: skip
        last_end = stop + 2 if possessive else stop
        last = low


def _cleaned(raw: str) -> tuple[str, bool]:
    word = raw.replace("\u00ad", "").replace("’", "'").replace("‑", "-").replace("‐", "-")
    if "\n" in word:
        word = _joined_lines(word)
    if word.endswith(("'s", "'S")) and len(word) > 3:
        return word[:-2], True
    return word, False


def _joined_lines(word: str) -> str:
    """A word cut at the end of a line; a real hyphen stays."""
    first, _, rest = word.partition("-\n")
    rest = rest.strip()
    whole = first + rest
    compound = not rest[:1].islower() or (
        words.listed(first.lower()) and words.listed(rest) and not words.listed(whole.lower())
    )
    return f"{first}-{rest}" if compound else whole


_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|'s|k|m|bn|x|kg|km|mm|cm|mg|ml|px|gb|mb)", re.IGNORECASE)


def _capital(word: str) -> bool:
    """A capital first letter, an inner capital, or letters with digits."""
    if word[0].isupper():
        return True
    if word[0].isdigit():
        return not _ORDINAL.fullmatch(word)
    return any(char.isupper() for char in word) and not word.startswith(("'", "o'"))


def _parting(gap: str, last: str, abbreviations: frozenset[str]) -> int:
    if not gap:
        return SOFT if last else HARD
    bare = gap.strip(" \t\u00a0")
    if not bare:
        return JOINED if len(gap) < 4 else HARD  # columns
    if bare == "\n":
        return JOINED
    if gap.count("\n") > 1 and "\n\n" in gap.replace(" ", "").replace("\t", "").replace("\r", ""):
        return HARD
    if _LINE_START.search(gap) or "|" in gap or "\x0c" in gap:
        return HARD
    if bare[0] == "." and bare in (".", ".\n") and (len(last) == 1 or last in abbreviations):
        return JOINED
    if _SENTENCE_END.search(gap):
        return STOP
    if bare in ("*", "**", "_", "__", "***"):
        return SOFT
    return SOFT if _SOFT_MARKS.search(bare) or bare else JOINED


def _short_lines(text: str, start: int, end: int) -> frozenset[int]:
    """Places of line ends that end a sentence: of headings (lines much shorter than the text is
    set) and of lines set in columns."""
    if text.find("\n", start, end) < 0:
        return frozenset()
    lines: list[tuple[int, int]] = []
    columns: set[int] = set()
    place = start
    for line in text[start:end].split("\n"):
        lines.append((place + len(line), len(line.strip())))
        if "    " in line.strip():
            columns.add(place + len(line))
        place += len(line) + 1
    widths = sorted(width for _, width in lines if width)
    if len(widths) < 3:
        return frozenset(end for end, width in lines if width < 60) | columns
    usual = widths[int(0.8 * (len(widths) - 1))]
    return frozenset(end for end, width in lines if width < 0.6 * usual) | columns
