"""Rules for single values of a model's reply: what a name, a kind, a description may be.

A value is judged alone and never raises; a rejected name has a reason, which is counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from app.llm.lines import COMPLETE, SEPARATOR

MAX_NAME = 200
MAX_NAME_WORDS = 24
MAX_KIND = 40
MAX_DESCRIPTION = 4000
MAX_KEYWORD = 80
MAX_KEYWORDS = 12
MAX_ALIASES = 8


class Rejected(Exception):
    """Why a name is none."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffe\uffff"
    "\ud800-\udfff]"
)
_PAIRS = {
    '"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "„": "“", "«": "»", "「": "」", "『": "』",
    "*": "*", "(": ")", "（": "）", "[": "]",
}  # fmt: skip
_BRACKETS = "(（["
_LETTER = re.compile(r"[^\W\d_]")
_ALNUM = re.compile(r"[^\W_]")
_PLACEHOLDER = re.compile(
    r"(?:none|null|n/?a|nan|undefined|unknown|unnamed|not (?:specified|mentioned|available|stated)"
    r"|untitled|[<{\[]?(?:entity|node|source|target)[ _]?(?:name|entity|\d)?[>}\]]?)\.?",
    re.IGNORECASE,
)
_SELF_CORRECTION = re.compile(
    r"(?:\.\.\.|…|[-–—,;:(])\s{0,3}(?:no,? )?(?:wait|hmm+|oops|scratch that|correction:|i mean"
    r"|actually,|or rather|rather,|re-?reading|let me|i should)\b",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\\[A-Za-z]{2,}\s{0,3}[{\\(_^]"  # a TeX command
    r"|\b(?:def|function|class|return|import|lambda)\b[^\n]{0,80}[(:={]"
    r"|[{;]\s{0,9}[\w\"'}][^\n]{0,80}[:=,(]"
    r"|[!=<>]==?\s|\)\s?\{|=>\s?[{(]|::=|&&|\|\|"
)
_SENTENCE_END = re.compile(r"[.!?]\s+(?=[A-Z\"“])|[。！？]")
_ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|Inc|Ltd|Co|Corp|vs|No|Jr|Sr))\.\s"
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:1\d|20|21)?\d{2}"
_DATE = re.compile(
    rf"(?:the )?(?:{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?"
    rf"|(?:early |late |mid-?)?{_MONTH},? {_YEAR}|(?:early |late |mid-?)?{_YEAR}s"
    r"|\d{1,4}\s?年(?:\s?\d{1,2}\s?月)?(?:\s?\d{1,2}\s?[日号])?|\d{1,2}\s?月\s?\d{1,2}\s?[日号]"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?|\d{1,2}:\d\d(?::\d\d)? ?[ap]\.?m\.?)",
    re.IGNORECASE,
)
_MEASURE_KINDS = frozenset(
    ("date", "time", "datetime", "timestamp", "year", "month", "day", "number", "quantity", "value",
     "percentage", "percent", "money", "amount", "duration", "measurement", "version", "period",
     "日期", "时间", "数字", "数量")
)  # fmt: skip


def text(value: object, limit: int = MAX_DESCRIPTION) -> str:
    """As one string without control characters, cut at the limit; "" for what is no text."""
    if isinstance(value, str):
        return _CONTROL.sub("", value[: limit * 2]).strip()[:limit].rstrip()
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, Sequence):
        return " ".join(
            filter(None, (text(item, limit) for item in value if isinstance(item, str)))
        )[:limit]
    return ""


def name(value: object, kind: str = "") -> str:
    """A name as the model wrote it, without decoration around it; raises `Rejected`."""
    raw = _CONTROL.sub("", _scalar(value))
    bare = _undecorated(" ".join(_without_debris(raw).split()))
    if not _ALNUM.search(bare) or _PLACEHOLDER.fullmatch(bare):
        raise Rejected("no name")
    if reason := _fault(bare, lines=raw.strip().count("\n") + 1, kind=kind):
        raise Rejected(reason)
    return bare


def _scalar(value: object) -> str:
    if isinstance(value, dict):
        value = value.get("name")
    if isinstance(value, list) and len(value) == 1:
        [value] = value
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise Rejected("no name")
    raw = value if isinstance(value, str) else f"{value:g}"
    if len(raw) > 4 * MAX_NAME:
        raise Rejected("name too long")
    return raw


def _fault(bare: str, *, lines: int, kind: str) -> str:
    """Why this is no name; "" if it can be one."""
    count = len(bare.split())
    if len(bare) > MAX_NAME or count > MAX_NAME_WORDS:
        return "name too long"
    if count > 3 and _SELF_CORRECTION.search(bare):
        return "name is a thought"
    if _CODE.search(bare) or (lines > 1 and re.search(r"[={};]", bare)):
        return "name is code"
    if _is_sentence(bare, count):
        return "name is a sentence"
    return "date or number" if _is_measure(bare, kind) else ""


def kind(value: object) -> str:
    """A type in lower case; "" if it is none."""
    found = text(value, 200).strip(" \"'`*<>[](){}.").lower()
    found = re.split(r"\s*[/|,;、，]\s*|<\|", found, maxsplit=1)[0].replace("_", " ")
    if not _LETTER.search(found) or len(found) > MAX_KIND or SEPARATOR.search(found):
        return ""
    return " ".join(found.split())


def words(value: object, limit: int = MAX_KEYWORDS) -> tuple[str, ...]:
    """Keywords or aliases: a list, or a string with separators; without repeats."""
    if isinstance(value, str):
        items: list[object] = list(
            re.split(r"[,;，；、\n|]|<SEP>", value[: MAX_KEYWORD * limit * 2])
        )
    elif isinstance(value, list):
        items = value[: limit * 4]
    else:
        return ()
    found: dict[str, str] = {}
    for item in items:
        word = _undecorated(" ".join(SEPARATOR.sub(" ", text(item, MAX_KEYWORD * 2)).split()))
        if _ALNUM.search(word) and len(word) <= MAX_KEYWORD:
            found.setdefault(word.casefold(), word)
    return tuple(found.values())[:limit]


def strength(value: object) -> float:
    """0 to 10; 1 where nothing usable is stated."""
    if isinstance(value, str):
        number = re.match(r"\s*(-?\d{1,9}(?:\.\d{1,9})?)", value)
        value = float(number[1]) if number else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1.0
    try:
        found = float(value)
    except OverflowError:
        return 1.0
    return min(max(found, 0.0), 10.0) if math.isfinite(found) else 1.0


def _without_debris(raw: str) -> str:
    """Cut at the first separator of the line format; the separator alone is no name."""
    parts = [part for part in SEPARATOR.split(COMPLETE.sub("", raw)) if part.strip()]
    return parts[0] if parts else ""


def _undecorated(bare: str) -> str:
    """Without quotes, brackets and emphasis around the whole, and commas or colons after it."""
    while True:
        before = bare
        bare = bare.strip(" \t,;:，；：、").removeprefix("- ").removeprefix("• ")
        closing = _PAIRS.get(bare[:1])
        if closing and len(bare) > 1 and bare.endswith(closing):
            inner = bare[1:-1]
            if closing not in inner and bare[0] not in inner:
                bare = inner
            elif closing == '"' and bare.count('"') % 2:
                bare = bare[1:]
            elif bare.startswith("**") and bare.endswith("**") and len(bare) > 4:
                bare = bare[2:-2]
        elif closing and bare[0] in '"“„「『' and closing not in bare[1:]:
            bare = bare[1:]
        elif bare[-1:] in '"”' and bare.count(bare[-1:]) == 1 and "“" not in bare:
            bare = bare[:-1]
        elif bare[:1] in "(（" and not re.search("[)）]", bare):
            bare = bare[1:]
        if bare == before:
            return bare


def _is_sentence(bare: str, count: int) -> bool:
    without = _ABBREVIATION.sub("", bare)
    inner_ends = len(_SENTENCE_END.findall(without))
    return (inner_ends > 0 and (count > 10 or len(bare) > 60)) or (
        count > 12 and bare[-1] in ".!?" and bare[0].isupper()
    )


def _is_measure(bare: str, of_kind: str) -> bool:
    if not _LETTER.search(bare):
        # A work may be called 1984; any other bare number, date or time is no thing.
        return not (of_kind == "work" and bare.isdigit())
    if _DATE.fullmatch(bare):
        return True
    return of_kind in _MEASURE_KINDS and any(char.isdigit() for char in bare)
