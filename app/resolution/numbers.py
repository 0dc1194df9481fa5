"""Numbers in names: digits, words, ordinals, roman and Chinese numerals as one canonical form."""

from __future__ import annotations

import re

_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = (
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
    "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
    "seventeenth", "eighteenth", "nineteenth",
)  # fmt: skip
_TENTHS = (
    "twentieth", "thirtieth", "fortieth", "fiftieth", "sixtieth", "seventieth", "eightieth",
    "ninetieth",
)  # fmt: skip
_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_WORDS = {
    **{word: n for n, word in enumerate(_UNITS)},
    **{word: n for n, word in enumerate(_ORDINALS)},
    **{word: 20 + 10 * n for n, word in enumerate(_TENS)},
    **{word: 20 + 10 * n for n, word in enumerate(_TENTHS)},
}
_TENS_SET = frozenset(_TENS)
_BELOW_TEN = frozenset(_UNITS[1:10]) | frozenset(_ORDINALS[1:10])
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, start=1)}
_ROMAN = re.compile(r"X{0,3}(?:IX|IV|V?I{0,3})")
_ORDINAL = re.compile(r"0*(\d+)(?:st|nd|rd|th)")
_PREFIXED = re.compile(r"([^\W\d_]{2,})0*(\d+)")
_HAN_DIGITS = {char: n for n, char in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2}
_HAN = "〇零一二三四五六七八九十百"
_HAN_NUMBER = re.compile(
    rf"第([{_HAN}]+)|([{_HAN}]+)(?=[世次号號届屆期军軍师師旅团團年月日区區街级級]|战(?!争))"
)


def month(word: str) -> int:
    """1 to 12 for the English name of a month, else 0."""
    return _MONTHS.get(word, 0)


def compound(one: str, other: str) -> str:
    """`forty`, `four` → `#44`; empty unless tens are followed by a unit."""
    if one in _TENS_SET and other in _BELOW_TEN:
        return f"#{_WORDS[one] + _WORDS[other]}"
    return ""


def numeral(word: str, written: str, *, first: bool) -> tuple[str, ...]:
    """Canonical tokens of a folded word that is or holds a number; empty for a plain word.

    `44`, `44th`, `fourth` → `#44`, `#4`; `cov2` → `cov`, `#2`; other codes stay whole (`1b1`).
    Roman numerals count only in capitals and not as the first word.
    """
    known = _WORDS.get(word)
    if known is not None:
        return (f"#{known}",)
    if word[0].isdigit() or word[-1].isdigit():
        if word.isdecimal():
            return (f"#{int(word)}",)
        if match := _ORDINAL.fullmatch(word):
            return (f"#{match.group(1)}",)
        if match := _PREFIXED.fullmatch(word):
            return (match.group(1), f"#{match.group(2)}")
        return (f"#{word}",)
    if not first and written.isupper() and written.isascii() and _ROMAN.fullmatch(written):
        return (f"#{_roman(written)}",)
    if any(char.isdigit() for char in word):
        return (f"#{word}",)
    return ()


def chinese_numbers(text: str) -> list[str]:
    """`第二次` → `#2`, `三世` → `#3`."""
    return [f"#{_chinese(m.group(1) or m.group(2))}" for m in _HAN_NUMBER.finditer(text)]


def _roman(text: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10}[char] for char in text]
    return sum(
        -value if place + 1 < len(values) and values[place + 1] > value else value
        for place, value in enumerate(values)
    )


def _chinese(text: str) -> int:
    if not any(char in "十百" for char in text):
        return int("".join(str(_HAN_DIGITS[char]) for char in text))
    total, digit = 0, 0
    for char in text:
        if char in "十百":
            total += (digit or 1) * (10 if char == "十" else 100)
            digit = 0
        else:
            digit = _HAN_DIGITS[char]
    return total + digit
