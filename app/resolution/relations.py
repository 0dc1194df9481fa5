"""The named relation between two names, which alone can make them one.

Likeness never does: stages, dates, editions and relatives are as alike as slips of the pen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from app.names import abbreviates
from app.resolution import chinese, spelling
from app.resolution.lists import impersonal, words
from app.resolution.model import Name, coarse
from app.resolution.parse import Parsed, parse
from app.words import is_stop_word

BASES = {
    "known": 96.0, "defined": 95.0, "near": 92.0, "initials": 82.0, "safe_tail": 80.0,
    "acronym": 76.0, "middle": 76.0, "chinese": 74.0, "typo": 68.0, "partial": 68.0,
    "near_1": 66.0, "soft_tail": 60.0, "qualified": 52.0, "script": 16.0, "contained": 40.0,
    "mixed": 30.0, "none": 20.0,
}  # fmt: skip
# A pair of one of these may be one thing without a number from an embedder.
RECOGNISED = frozenset(BASES) - {"script", "contained", "mixed", "none"}
_ROMAN = re.compile("[ivx]+")
_UNTYPED = frozenset({"", "concept", "other", "unknown", "entity"})


@dataclass(frozen=True, slots=True)
class Side:
    """A name as it is compared."""

    name: Name
    parsed: Parsed
    kind: str  # coarse
    person: bool  # may be a person's name
    typed: bool  # has a type that says something
    stated: frozenset[str]  # keys of its aliases


class Relation(NamedTuple):
    """`leaf`: the key of the short form. `sure`: 0..1, how well the form fits its class."""

    name: str
    leaf: str = ""
    sure: float = 0.0


def side(name: Name) -> Side:
    parsed = parse(name.form)
    kind = coarse(name.kind)
    typed = name.kind.casefold() not in _UNTYPED
    person = (
        not (parsed.conjunction or parsed.possessive) and not any(map(_is_role, parsed.core))
        if kind == "person"
        else not typed and parsed.capitalised and not parsed.comma
    )
    stated = {parse(alias).key for alias in name.aliases} | parsed.aliases
    return Side(name, parsed, kind, person, typed, frozenset(stated - {name.key}))


def _is_role(word: str) -> bool:
    return word in words("roles") or word.endswith(("ologist", "therapist", "iatrist"))


def relate(one: Side, other: Side) -> Relation:
    """The first class that fits, from the surest down."""
    a, b = one.parsed, other.parsed
    if a.world >= 0 and a.world == b.world:
        return Relation("known")
    if (stated := _stated(one, other)) and not _is_part(a, b):
        return Relation("defined", stated)
    if a.script != b.script:
        return Relation("script")
    for found in (_near(one, other), _tail(a, b)):
        if found:
            return found
    if a.script == "cj":
        return _chinese(a, b)
    found = _persons(one, other) if one.person or other.person else None
    return found or _acronym(a, b) or _typo(one, other) or _inside(a, b)


def alike(one: str, other: str) -> bool:
    """Whether two keys are, by themselves, spellings of one long form."""
    a, b = parse(_written(one)), parse(_written(other))
    if a.world >= 0 and a.world == b.world:
        return True
    if a.numbers != b.numbers or not a.cores or not b.cores:
        return False
    if a.cores == b.cores:
        return not (a.front and b.front and a.front != b.front and len(named(a.core)) == 1)
    return a.joined == b.joined or bool(_initials(a, b) or _middle(a, b))


def _written(key: str) -> str:
    """A key with the capitals that matter: of acronyms and roman numerals."""
    words = key.split()
    if len(words) == 1:
        return key[1:].upper() if key[0] == "^" else key
    return " ".join([words[0], *(w.upper() if _ROMAN.fullmatch(w) else w for w in words[1:])])


def _stated(one: Side, other: Side) -> str:
    """The key that a text states as another name; of two that state each other, the shorter."""
    mine, theirs = other.name.key in one.stated, one.name.key in other.stated
    if mine and theirs:
        return min(
            (one, other), key=lambda s: (s.parsed.weight, len(s.parsed.joined), s.name.key)
        ).name.key
    return other.name.key if mine else one.name.key if theirs else ""


def _is_part(one: Parsed, other: Parsed) -> bool:
    """Whether what a text states is only a word of the name, or the name without its title
    (Washington, of George Washington): it means that there, and the city elsewhere."""
    mine, theirs = {*one.tokens, *one.cores}, {*other.tokens, *other.cores}
    if one.cores and (one.cores <= other.cores or other.cores <= one.cores):
        return True
    return bool(one.tokens and other.tokens) and (mine <= theirs or theirs <= mine)


def stated(one: Side, other: Side) -> bool:
    return other.name.key in one.stated or one.name.key in other.stated


def _near(one: Side, other: Side) -> Relation | None:
    a, b = one.parsed, other.parsed
    if not a.cores or not b.cores:
        return None
    if sorted(a.core) != sorted(b.core):
        if a.joined != b.joined or a.qualifier != b.qualifier:
            return None
        return Relation("near", _lone(a, b), 1.0) if a.joined else None
    if a.core != b.core and not (a.comma or b.comma) and not _describes(one, other):
        return Relation("near_1")  # perhaps two people, two journals, two films
    if a.front != b.front and _front_matters(one, other):
        return Relation("near_1")
    if max(a.weight, b.weight) > 1 or (a.legal and b.legal):
        return Relation("near", _lone(a, b) or _untitled(a, b), 1.0)
    return Relation("near_1", min(a.key, b.key, key=lambda k: (len(k), k)))


def _describes(one: Side, other: Side) -> bool:
    """Whether the names say what they name, so that the order of their words is free."""
    titled = {one.kind, other.kind, one.name.kind, other.name.kind} & {"person", "work"}
    if titled or one.parsed.letters or (one.person and other.person):
        return False
    plain = words("things") | words("roles")
    return not plain.isdisjoint(one.parsed.core) and words("placed").isdisjoint(one.parsed.core)


def _front_matters(one: Side, other: Side) -> bool:
    """`City of X` need not be X, nor King X Duke X; and only a person has a title."""
    fronts = {one.parsed.front, other.parsed.front} - {"", "republic"}
    if fronts & words("heads") or len(fronts) > 1:
        return True
    return bool(fronts) and any(side.typed and side.kind != "person" for side in (one, other))


def _untitled(a: Parsed, b: Parsed) -> str:
    """`Charles II`, where the other is King Charles II: another may be Duke Charles II."""
    if a.front == b.front or (a.front and b.front) or len(named(a.core)) > 1:
        return ""
    return b.key if a.front else a.key


def named(core: tuple[str, ...]) -> tuple[str, ...]:
    """The core without numbers at its end."""
    end = len(core)
    while end and core[end - 1][0] == "#":
        end -= 1
    return core[:end]


def _lone(a: Parsed, b: Parsed) -> str:
    """The side of one token, if only one side is."""
    if a.weight > 1 and b.weight == 1:
        return b.key
    return a.key if a.weight == 1 and b.weight > 1 else ""


def _tail(a: Parsed, b: Parsed) -> Relation | None:
    """One name has more words at its end, all of them empty ones."""
    short, long = (a, b) if len(a.core) < len(b.core) else (b, a)
    if not short.core or len(short.core) == len(long.core):
        return None
    if long.core[: len(short.core)] != short.core or short.qualifier != long.qualifier:
        return None
    more = long.core[len(short.core) :]
    safe = words("safe-tail") | (words("long-tail") if short.weight > 1 else frozenset())
    if all(word in safe for word in more):
        return Relation("safe_tail", short.key, 1.0)
    soft = words("soft-tail") | words("long-tail")
    return Relation("soft_tail", short.key, 1.0) if all(word in soft for word in more) else None


# --- persons -------------------------------------------------------------------------------------


def _persons(one: Side, other: Side) -> Relation | None:
    a, b = one.parsed, other.parsed
    if one.person and other.person:
        if found := _initials(a, b):
            return found
        if found := _middle(a, b):
            return found
    short, long = (one, other) if a.weight < b.weight else (other, one)
    if long.person and short.kind in ("", "person") and long.name.kind != "concept":
        return _partial(short.parsed, long.parsed)
    return None


def _partial(short: Parsed, long: Parsed) -> Relation | None:
    if len(short.core) != 1 or len(long.core) < 2:
        return None
    [token] = short.core
    if len(token) < 2 or token in impersonal() or token in words("roles"):
        return None
    if long.comma or token not in (long.core[0], long.core[-1]):
        return None
    return Relation("qualified" if "of" in long.tokens else "partial", short.key)


def _initials(a: Parsed, b: Parsed) -> Relation | None:
    """`J. Strauss II`, `JC Juncker`: every given name equal or its initial, the last one equal."""
    mine, theirs = named(a.core), named(b.core)
    left, right = _spread(mine, theirs), _spread(theirs, mine)
    if len(left) != len(right) or len(left) < 2 or left == right:
        return None
    if left[-1] != right[-1] or len(left[-1]) < 2:
        return None
    for x, y in zip(left, right, strict=True):
        if x != y and not (x[0] == y[0] and 1 in (len(x), len(y))):
            return None
    count = [sum(len(token) == 1 for token in tokens) for tokens in (left, right)]
    sure = float(len(left) > 2 or len(a.core) > len(mine))
    if count[0] == count[1]:
        return Relation("initials", min(a.key, b.key), sure)
    return Relation("initials", a.key if count[0] > count[1] else b.key, sure)


def _spread(core: tuple[str, ...], against: tuple[str, ...]) -> tuple[str, ...]:
    """`jc juncker` as `j c juncker` against a name that has two given names there."""
    first = core[0] if core else ""
    if 2 <= len(first) <= 3 and len(against) == len(core) + len(first) - 1:
        initials = "".join(token[0] for token in against[: len(first)])
        if initials == first:
            return (*first, *core[1:])
    return core


def _middle(a: Parsed, b: Parsed) -> Relation | None:
    """Equal first and last names, and the longer has more between, or an initial before."""
    one, other = (a, b) if len(a.core) < len(b.core) else (b, a)
    short, long = named(one.core), named(other.core)
    if len(short) < 2 or len(short) >= len(long):
        return None
    if len(long[0]) == 1 and long[1:] == short:
        return Relation("middle", one.key, 1.0)  # G. Stanley Hall
    if (short[0], short[-1]) != (long[0], long[-1]):
        return None
    between = iter(long[1:-1])
    if not all(token in between for token in short[1:-1]):
        return None
    return Relation("middle", one.key, float(len(short) == 2))


# --- acronyms, slips, the rest -------------------------------------------------------------------


def _acronym(a: Parsed, b: Parsed) -> Relation | None:
    for short, long in ((a, b), (b, a)):
        if not short.short or len(long.tokens) < 2 or short.joined[0] not in _initial(long):
            continue
        if abbreviates(short.base, long.base):
            letters = short.joined
            whole = letters in ("".join(t[0] for t in long.tokens), "".join(_contents(long)))
            return Relation("acronym", short.key, whole * 0.5 + (len(letters) > 3) * 0.5)
    return None


def _initial(long: Parsed) -> tuple[str, ...]:
    return (long.tokens[0][0], *_contents(long)[:1])


def _contents(long: Parsed) -> list[str]:
    return [token[0] for token in long.tokens if not is_stop_word(token)]


def _typo(one: Side, other: Side) -> Relation | None:
    """One word of several differs by a slip; of single words it is `near_1`."""
    a, b = one.parsed, other.parsed
    mine, theirs = a.cores - b.cores, b.cores - a.cores
    if len(mine) != 1 or len(theirs) != 1 or abs(len(a.core) - len(b.core)) > 1:
        return None
    if len(a.cores) > 2 and one.stated & other.stated and a.qualifier == b.qualifier:
        return Relation("typo", "", 0.5)  # one word of several differs, and the acronym does not
    sure = spelling.slip(*mine, *theirs)
    if not sure:
        return None
    if len(a.core) == 1 or len(b.core) == 1:
        return Relation("near_1", min(a.key, b.key), sure)
    same_place = [x == y for x, y in zip(a.core, b.core, strict=False)].count(False) == 1
    return Relation(
        "typo", "", sure if same_place and len(a.core) == len(b.core) else spelling.UNSURE
    )


def _inside(a: Parsed, b: Parsed) -> Relation:
    for short, long in ((a, b), (b, a)):
        if long.qualifier and not short.qualifier and short.core and short.core == long.head:
            return Relation("qualified", short.key)
    if a.cores <= b.cores or b.cores <= a.cores:
        return Relation("contained" if a.cores and b.cores else "none")
    return Relation("none" if a.cores.isdisjoint(b.cores) else "mixed")


def _chinese(a: Parsed, b: Parsed) -> Relation:
    for short, long in ((a, b), (b, a)):
        if long.qualifier and not short.qualifier and short.joined == long.joined:
            return Relation("qualified", short.key)
        if short.qualifier or long.qualifier:
            continue
        if chinese.given_name(short.joined, long.joined):
            return Relation("partial", short.key)
        if short.joined and (sure := chinese.abbreviates(short.joined, long.joined)):
            return Relation("chinese", short.key, sure)
        if len(long.core) > 1 and short.joined in (long.core[0], long.core[-1]):
            return Relation("partial", short.key)  # 杰克逊 of 迈克尔·杰克逊
    if chinese.contained(a.joined, b.joined):
        return Relation("contained")
    return Relation("mixed" if chinese.share(a.joined, b.joined) else "none")
