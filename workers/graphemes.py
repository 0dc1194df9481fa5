"""Whether a text may be cut between two code points without breaking what a reader sees as one
character (extended grapheme clusters, Unicode Standard Annex 29)."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_ZWJ = "\u200d"


def is_boundary(text: str, at: int) -> bool:
    """True at both ends of the text. Looks at few neighbours, except in rows of flags."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before < "\u0300" and after < "\u0300" and after != "\xad":
        return not (before == "\r" and after == "\n")
    if unicodedata.category(before) in ("Cc", "Zl", "Zp"):
        return True  # a line break ends a cluster whatever follows
    if _extends(after):
        return False
    if _prepends(before):
        return unicodedata.category(after) == "Cc"
    if before == _ZWJ:
        return not _joins(text, at)
    if _is_flag(before) and _is_flag(after):
        return _flags_before(text, at) % 2 == 0
    if "\u1100" <= after <= "\ud7ff" and _hangul_joins(before, after):
        return False
    return not _conjunct(text, at)


@lru_cache(maxsize=4096)
def _extends(char: str) -> bool:
    """Marks, joiners, skin tones, tags: never at the start of a cluster."""
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or char in "\u200c\u200d\uff9e\uff9f\u0e33\u0eb3"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


_PREPENDED = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"
    "\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f\U00011941\U00011a3a\U00011d46"
)


def _prepends(char: str) -> bool:
    return char in _PREPENDED


def _joins(text: str, at: int) -> bool:
    """Emoji, its modifiers, a joiner: and another emoji at `at`."""
    if not _pictographic(text[at]):
        return False
    place = at - 2
    while place >= 0 and place > at - 32 and _extends(text[place]):
        place -= 1
    return place >= 0 and _pictographic(text[place])


def _pictographic(char: str) -> bool:
    return (
        ("\U0001f000" <= char <= "\U0001faff" and not _is_flag(char))
        or char in "\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299"
        or ("\u2190" <= char <= "\u2bff")
    )


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    """Regional indicators right before; they pair up from the left."""
    place = at
    while place > 0 and _is_flag(text[place - 1]):
        place -= 1
    return at - place


def _hangul_joins(before: str, after: str) -> bool:
    """Parts of one syllable: leading consonants, vowels, trailing consonants, in this order."""
    left, right = _jamo(before), _jamo(after)
    return (
        (left == "L" and right in ("L", "V", "LV", "LVT"))
        or (left in ("V", "LV") and right in ("V", "T"))
        or (left in ("T", "LVT") and right == "T")
    )


def _jamo(char: str) -> str:
    if "\uac00" <= char <= "\ud7a3":
        return "LV" if (ord(char) - 0xAC00) % 28 == 0 else "LVT"
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    return ""


_VIRAMAS = frozenset("\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d")


def _conjunct(text: str, at: int) -> bool:
    """Consonant, virama, consonant: one cluster in the scripts of India (rule GB9c)."""
    if not ("\u0900" <= text[at] <= "\u0d7f" and unicodedata.category(text[at]) == "Lo"):
        return False
    place = at - 1
    linked = False
    while place >= 0 and place > at - 16 and _extends(text[place]):
        linked = linked or text[place] in _VIRAMAS
        place -= 1
    return linked and place >= 0 and unicodedata.category(text[place]) == "Lo"
