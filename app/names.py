"""Names: the normal form under which a name is stored, and the spans of a text that may be names.

Two spellings of one name have equal keys; a key is for machines and never shown.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from app.words import is_stop_word

_APOSTROPHES = dict.fromkeys(map(ord, "’‘ʼ′`´＇"), "'")
_DROPPED = dict.fromkeys(map(ord, "®™©\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_MIDDLE_DOTS = dict.fromkeys(map(ord, "·・‧∙⋅•"))
_LETTERS = str.maketrans(
    {
        "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D",
        "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "TH", "ı": "i", "ẞ": "SS",
    }
)  # fmt: skip
_BRACKET = re.compile(r"\s*[(\[]([^()\[\]]+)[)\]]$")
_AND = re.compile(r"(?<=\w)\s*&\s*(?=\w)")
_INITIALS = re.compile(r"(?<!\w)(?:[^\W\d_]\.){2,}(?:[^\W\d_](?!\w))?")
_INNER_POINT = re.compile(r"(?<=\d)[.,](?=\w)|(?<=\w)[.,](?=\d)")
_INNER_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_CJ = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CJ_SPACE = re.compile(f"(?<=[{_CJ}]) +(?=[{_CJ}])")
_UNSPACED = re.compile(f"[{_CJ}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
_PLAIN = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")
_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, start=1)}
_MONTHS |= {name[:3]: n for name, n in _MONTHS.items()} | {"sept": 9}
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_YEAR = re.compile(r"\d{3,4}")
_EMPTY = "^"  # what a blank name becomes


# --- the normal form -----------------------------------------------------------------------------


@lru_cache(maxsize=1 << 15)
def key(name: str) -> str:
    """The normal form of a name: never empty, without tabs or control characters.

    Case, width, diacritics, punctuation and a leading article do not count; plural, possessive,
    numbers and a qualifier in brackets do. A lone acronym gets the prefix `^`, so that "WHO" and
    "The Who" differ.
    """
    text = name if _PLAIN.fullmatch(name) else _plain(_without_alias(_compatible(name)))
    words = text.split()
    if len(words) > 1 and words[0].lower() in ("the", "a", "an") and words[1].lower() != "and":
        words = words[1:]
    if not words:
        return _unspeakable(name)
    if len(words) == 1 and _looks_like_acronym(words[0]):
        return "^" + words[0].casefold()
    folded = unicodedata.normalize("NFC", " ".join(words).casefold())
    return _date(folded.split()) or folded


def is_blank(name: str) -> bool:
    """Whether nothing of it can name anything: blanks, control and invisible characters, or the
    mark that stands for those."""
    return key(name) == _EMPTY


def _compatible(name: str) -> str:
    """Compatibility form, without marks that only decorate."""
    text = name.translate(_DROPPED).translate(_APOSTROPHES)
    text = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    return " ".join(text.split())


def _without_alias(name: str) -> str:
    """`Long Form (LF)` and `LF (Long Form)` are `Long Form`; other brackets stay."""
    bracket = _BRACKET.search(name)
    if not bracket or not bracket.start():
        return name
    head, inner = name[: bracket.start()], bracket.group(1).strip()
    if abbreviates(inner, head):
        return head
    return inner if abbreviates(head, inner) else name


def _plain(text: str) -> str:
    text = _fold(text)
    text = _AND.sub(" and ", text)
    text = _INITIALS.sub(lambda match: match.group().replace(".", ""), text)
    text = _INNER_APOSTROPHE.sub("", text).translate(_MIDDLE_DOTS)
    text = _INNER_POINT.sub("\x00", text)  # NUL cannot be in the result, so it can stand for them
    kept = "".join(
        char if char.isalnum() or char in "\x00%°#" or unicodedata.category(char)[0] == "M"
        else "+" if char == "+" and text[max(0, place - 1) : place + 2].count("+") > 1
        else " "
        for place, char in enumerate(text)
    )  # fmt: skip
    kept = _CJ_SPACE.sub("", " ".join(kept.split()))
    return kept.replace("\x00", ".")


def _fold(text: str) -> str:
    """Without diacritics on Latin, Greek and Cyrillic letters; other scripts keep their marks."""
    if text.isascii():
        return text.replace("\x00", " ")
    chars: list[str] = []
    bare = False
    for char in unicodedata.normalize("NFD", text.replace("\x00", " ")):
        if unicodedata.combining(char):
            if bare:
                continue
        else:
            bare = char < "\u0530" or "\u1e00" <= char < "\u2000"
        chars.append(char)
    return unicodedata.normalize("NFC", "".join(chars)).translate(_LETTERS)


def _looks_like_acronym(word: str) -> bool:
    return 2 <= len(word) <= 5 and word.isalpha() and word.isupper()


def _unspeakable(name: str) -> str:
    """The key of a name without a letter or digit: the name itself."""
    text = unicodedata.normalize("NFKC", name)
    kept = "".join(char if unicodedata.category(char)[0] != "C" else " " for char in text)
    return " ".join(kept.split()) or _EMPTY


def _date(words: list[str]) -> str:
    """ISO form of a name that is only a date with the month in letters, else empty."""
    words = [word for word in words if word != "of"]
    if not 2 <= len(words) <= 3:
        return ""
    months = [place for place, word in enumerate(words) if word in _MONTHS]
    if len(months) != 1 or months[0] == 2:
        return ""
    month = f"{_MONTHS[words[months[0]]]:02}"
    rest = [word for place, word in enumerate(words) if place != months[0]]
    year = f"{int(rest[-1]):04}" if _YEAR.fullmatch(rest[-1]) and rest[-1].isascii() else ""
    if year and len(rest) == 1:
        return f"{year}-{month}" if months[0] == 0 else ""
    day = _DAY.fullmatch(rest[0])
    if not day or not rest[0].isascii() or not 1 <= int(day.group(1)) <= 31:
        return ""
    if len(rest) == 1:
        return f"--{month}-{int(day.group(1)):02}"
    return f"{year}-{month}-{int(day.group(1)):02}" if year else ""


# --- acronyms ------------------------------------------------------------------------------------


def abbreviates(short: str, long: str) -> bool:
    """Whether `short` is written like an acronym of `long` (WHO, World Health Organization)."""
    letters = short.replace(".", "").replace("-", "")
    if letters.endswith("s") and letters[:-1].isupper():
        letters = letters[:-1]
    capitals = sum(char.isupper() for char in letters)
    if not letters.isalnum() or not 2 <= len(letters) <= 7:
        return False
    if capitals < 2 or len(letters) - capitals > 2:
        return False
    words = re.findall(r"\w+", _fold(unicodedata.normalize("NFKC", long)).casefold())
    letters = _fold(letters).casefold()
    parts = {letters, *re.split(r"[-.]", short.casefold())} - {""}
    if len(words) < 2 or parts & {word for word in words if len(word) > 1}:
        return False
    content = [word for word in words if not is_stop_word(word)]
    if letters in ("".join(w[0] for w in words), "".join(w[0] for w in content)):
        return True
    return _runs_through(letters, content)


def _runs_through(letters: str, words: list[str]) -> bool:
    """Letters in order, hitting the initial of every word; rests may lie inside a word."""
    if not words:
        return not letters
    if not letters or letters[0] != words[0][0]:
        return False
    taken, inside = 1, 1
    while True:
        if _runs_through(letters[taken:], words[1:]):
            return True
        if taken == len(letters):
            return False
        inside = words[0].find(letters[taken], inside) + 1
        if not inside:
            return False
        taken += 1


# --- spans ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end]`, which may be a name. `marked`: it holds a capital, a digit or a letter of
    another script than Latin. `bare`: no stop word at either end."""

    start: int
    end: int
    key: str
    words: int
    marked: bool
    bare: bool


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    text: str
    folded: str  # "" if the key of a span with this word must be computed from the text
    stop: bool
    marked: bool


_WORD = re.compile(r"[^\W_](?:[\w.'’&/+#%°-]*[\w+#%°])?|[^\W_]")
_POSSESSIVE = re.compile(r"(?<=\w)['’][sS]$|(?<=[sS])['’]$")
_BREAK = re.compile(r"[\n;!?。！？；]|[.:](?=\s)")


def spans(text: str, *, longest: int) -> list[Span]:
    """All runs of up to `longest` words, in reading order, the longest first at each place.

    A run does not cross the end of a sentence, except after an initial or abbreviation. A
    possessive is left off at the end. Scripts without spaces give spans of 2 to 12 characters.
    """
    found: list[Span] = []
    words = [_word(text, match) for match in _WORD.finditer(text)]
    for place, first in enumerate(words):
        here: list[Span] = []
        for count in range(1, longest + 1):
            if place + count > len(words):
                break
            last = words[place + count - 1]
            if count > 1 and _breaks(text, words[place + count - 2], last):
                break
            here += _span(text, words[place : place + count])
        if _UNSPACED.search(first.text):
            here += _unspaced(text, first)
        found += sorted(here, key=lambda span: (span.start, -span.end))
    return found


def _word(text: str, match: re.Match[str]) -> _Word:
    word = match.group()
    plain = word.isascii() and word.isalnum()
    marked = any(c.isupper() or c.isdigit() or (c.isalpha() and c > "\u024f") for c in word)
    lower = word.lower()
    return _Word(
        match.start(), match.end(), word, lower if plain else "", is_stop_word(lower), marked
    )


def _breaks(text: str, one: _Word, other: _Word) -> bool:
    between = text[one.end : other.start]
    if between == " ":
        return False
    if between.startswith(". ") and (len(one.text) == 1 or one.text in ("St", "Dr", "Mr", "Mrs")):
        return False
    return bool(_BREAK.search(between)) or len(between) > 4


def _span(text: str, words: list[_Word]) -> list[Span]:
    start, end = words[0].start, words[-1].end
    marked = any(word.marked for word in words)
    bare = not (words[0].stop or words[-1].stop)
    ends = [end]
    possessive = _POSSESSIVE.search(words[-1].text)
    if possessive:
        ends.append(words[-1].start + possessive.start())
    elif text[end : end + 1] in ("'", "’") and text[end - 1] in "sS":
        pass  # "boys'": the word already ends before the mark
    found = []
    for stop in ends:
        name = _joined(words) if stop == end else ""
        found.append(Span(start, stop, name or key(text[start:stop]), len(words), marked, bare))
    return found


def _joined(words: list[_Word]) -> str:
    """Key of plain lower-case-able words without the whole normal form; "" where it is needed."""
    folded = [word.folded for word in words]
    if not all(folded):
        return ""
    if len(words) == 1:
        return "" if words[0].text.isupper() else folded[0]
    if folded[0] in ("the", "a", "an") or any(word in _MONTHS for word in folded):
        return ""
    return " ".join(folded)


def _unspaced(text: str, word: _Word) -> list[Span]:
    """Spans of characters inside a word of a script that does not put spaces between words."""
    found = []
    for run in _UNSPACED.finditer(word.text):
        base = word.start + run.start()
        length = len(run.group())
        for start in range(length):
            for size in range(min(12, length - start), 1, -1):
                begin, end = base + start, base + start + size
                if (begin, end) != (word.start, word.end):
                    found.append(Span(begin, end, key(text[begin:end]), 1, True, True))
    return found
