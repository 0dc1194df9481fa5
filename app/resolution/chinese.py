"""Short and long forms of Chinese names, which have no spaces to find words by."""

from __future__ import annotations

from itertools import pairwise

from app.resolution.lists import words

MAX_SHORT = 5


def abbreviates(short: str, long: str) -> float:
    """How surely `short` leaves characters of `long` out: 0 if it does not, 1 if its form is that
    of usual abbreviations. Both in simplified characters.

    The characters run through the long name in order from its first (or the first after a leading
    place), and no part that is merely cut off counts (上海 is not 上海戏剧学院), nor a middle that
    is cut out (上海大学 is not 上海交通大学).
    """
    if not 2 <= len(short) <= MAX_SHORT or len(long) < len(short) + 2:
        return 0.0
    for place, start in enumerate(starts(long)):
        rest = long[start:]
        if rest[0] == short[0] and _runs_through(short, rest):
            if short in rest and (place == 0 or len(short) < 4):
                continue
            if _cut(short, rest):
                continue
            return _sureness(short, rest, whole=place == 0)
    return 0.0


def given_name(short: str, full: str) -> bool:
    """玄德 of 刘玄德: the two characters after a surname of one."""
    return len(short) == 2 and len(full) == 3 and full[1:] == short and is_person(full)


def is_person(name: str) -> bool:
    return 2 <= len(name) <= 4 and name[0] in words("surnames")


def contained(one: str, other: str) -> bool:
    return one in other or other in one


def share(one: str, other: str) -> bool:
    """Whether two neighbouring characters are in both."""
    pairs = set(map("".join, pairwise(one)))
    return any("".join(pair) in pairs for pair in pairwise(other))


def bigrams(text: str, limit: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map("".join, pairwise(text))))[:limit]


def starts(long: str) -> list[int]:
    """Where an abbreviation may begin: the name itself, or after the places in front of it."""
    starts = [0]
    places = words("places")
    for size in (2, 3):
        if long[:size] in places and len(long) - size > 2:
            after = size + (long[size] in "省市")
            starts.append(after)
    return starts


def _cut(short: str, long: str) -> bool:
    """Whether the short name is the long one's beginning and its whole last word, both in full."""
    ending = short[-2:]
    whole = ending in words("placed-ends") and long.endswith(ending)
    return whole and len(short) >= 4 and long.startswith(short[:-2])


def _runs_through(short: str, long: str) -> bool:
    after = 0
    for char in short:
        after = long.find(char, after) + 1
        if not after:
            return False
    return True


def _sureness(short: str, long: str, *, whole: bool) -> float:
    """Share of the signs of a usual abbreviation: enough characters, the ending kept, the front."""
    ending = short[-1] in long[-2:]
    reach = long.rfind(short[-1]) >= len(long) - 4
    return (4 * (len(short) > 2) + 3 * ending + 2 * reach + whole) / 10
