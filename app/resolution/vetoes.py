"""What tells two names apart, however alike they are."""

from __future__ import annotations

from collections.abc import Iterable

from app.resolution.lists import opposites, words
from app.resolution.parse import Parsed, stem


def veto(one: Parsed, other: Parsed) -> str:
    """Why the two cannot be one thing: `number`, `letter`, `qualifier`, `opposite`, `negation`,
    `kin`, `possession`, `conjunction`; empty if nothing speaks against it."""
    if one.world >= 0 and other.world >= 0:
        return "" if one.world == other.world else "world"
    if one.key in other.aliases or other.key in one.aliases:
        return ""
    same_script = one.script == other.script
    if _numbers_differ(one, other, same_script=same_script):
        return "number"
    if not same_script:
        return ""
    mine, theirs = one.cores - other.cores, other.cores - one.cores
    if excluded := _excluded(frozenset(one.tokens), frozenset(other.tokens)):
        return excluded
    if not mine and not theirs:
        return _kin(one, other)
    return (
        _letters_differ(one, other, mine, theirs)
        or _qualifiers_differ(one, other)
        or _one_sided(one, other)
    )


def _numbers_differ(one: Parsed, other: Parsed, *, same_script: bool) -> bool:
    if one.numbers == other.numbers:
        return False
    if not same_script:
        if not (one.plain_numbers and other.plain_numbers):
            return False
        mine = [number for number in one.numbers if number.isdecimal()]
        theirs = [number for number in other.numbers if number.isdecimal()]
        return mine != theirs
    return one.joined != other.joined or one.qualifier != other.qualifier


def _letters_differ(
    one: Parsed, other: Parsed, mine: frozenset[str], theirs: frozenset[str]
) -> str:
    """Single letters on both sides that are not initials of the other's own words."""
    if not one.letters or not other.letters:
        return ""
    left = {letter for letter in one.letters & mine if not _begins(letter, theirs)}
    right = {letter for letter in other.letters & theirs if not _begins(letter, mine)}
    return "letter" if left and right else ""


def _begins(letter: str, tokens: Iterable[str]) -> bool:
    return any(len(token) > 1 and token[0] == letter for token in tokens)


def _qualifiers_differ(one: Parsed, other: Parsed) -> str:
    if not one.qualifier or not other.qualifier:
        return ""
    if one.qualifier <= other.cores or other.qualifier <= one.cores:
        return ""
    return "qualifier"


def _excluded(mine: frozenset[str], theirs: frozenset[str]) -> str:
    """Titles count here too: Mr and Mrs Smith."""
    table = opposites()
    for word in mine - theirs:
        if (against := table.get(word)) and not against.isdisjoint(theirs - mine):
            return "opposite"
    return ""


def _one_sided(one: Parsed, other: Parsed) -> str:
    if (set(one.tokens) ^ set(other.tokens)) & words("negations"):
        return "negation"
    if kin := _kin(one, other):
        return kin
    nested = one.cores < other.cores or other.cores < one.cores
    if nested and one.conjunction != other.conjunction:
        return "conjunction"
    if one.possessive != other.possessive:
        owned, free = (one, other) if one.possessive else (other, one)
        if free.cores < owned.cores:
            return "possession"
    return ""


def _kin(one: Parsed, other: Parsed) -> str:
    """A relative, or the wife by her husband's name, on one side only."""
    kin = words("kin")
    mine = {word for word in map(stem, one.tokens) if word in kin}
    mine |= {word for word in one.tokens if word in kin}
    theirs = {word for word in map(stem, other.tokens) if word in kin}
    theirs |= {word for word in other.tokens if word in kin}
    return "kin" if mine != theirs else ""
