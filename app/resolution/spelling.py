"""Words that differ by a slip of the pen."""

from __future__ import annotations

from app.words import listed

UNSURE = 0.2  # looks like a slip, but such words are often two
_LONGEST = 40  # letters; longer words are no words
_DEMONYMS = ("n", "an", "ian", "ese", "ish", "ic", "i", "s")
_FEMININE = ("a", "e", "y")  # or a country: Davida, Germany


def within(one: str, other: str, limit: int) -> int:
    """Edits (insert, delete, replace, swap of neighbours) between two words; limit + 1 if more.

    Optimal string alignment in a band of 2·limit + 1 cells a row.
    """
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, char in enumerate(one, start=1):
        low, high = max(1, i - limit), min(len(other), i + limit)
        new = [limit + 1] * (len(other) + 1)
        if low == 1:
            new[0] = i
        for j in range(low, high + 1):
            cost = row[j - 1] + (char != other[j - 1])
            cost = min(cost, row[j] + 1, new[j - 1] + 1)
            if i > 1 and j > 1 and char == other[j - 2] and one[i - 2] == other[j - 1]:
                cost = min(cost, before[j - 2] + 1)
            new[j] = cost
        if min(new) > limit:
            return limit + 1
        before, row = row, new
    return row[-1]


def slip(one: str, other: str) -> float:
    """How likely one word is the other misspelt: 0 no, up to 1.

    One edit in five letters, two in nine, the same first letter; not a nationality (Oman,
    Omani), perhaps not a feminine (David, Davida), and not two words of the dictionary
    (modulated, modified).
    """
    short, long = sorted((one, other), key=len)
    if (
        not 5 <= len(short) <= len(long) <= _LONGEST
        or short[0] != long[0]
        or not (short.isalpha() and long.isalpha())
    ):
        return 0.0
    edits = within(short, long, 2 if len(short) >= 9 else 1)
    if edits > (2 if len(short) >= 9 else 1):
        return 0.0
    if any(
        long.endswith(ending) and long[: -len(ending)] in (short, short[:-1])
        for ending in _DEMONYMS
    ):
        return 0.0
    if any(long == short + ending for ending in _FEMININE):
        return UNSURE
    known = listed(short) + listed(long)
    if known == 2:
        return 0.0
    return 0.5 + (known == 1) * 0.2 + (edits == 1 and len(short) >= 7) * 0.2
