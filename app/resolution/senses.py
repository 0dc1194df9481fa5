"""Homonyms: what one mention says a thing is, and which of these must be apart.

Only a definition sets a thing apart ("Paris (born 1967) is an American rapper"), never a type
alone: types of models and rules stray, and a well-known name must not fall apart over one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from app.names import key as normal_key
from app.resolution.lists import words
from app.resolution.model import coarse
from app.resolution.parse import parse

_BEGINNING = 300  # characters of a description in which it defines
_COPULA = re.compile(r"\b(?:is|was|are|were)\b")
_BRACKETS = re.compile(r"[(（][^()（）]*[)）]")
_BORN = re.compile(r"\b(?:born|b\.)[^;()\d]*(?:\d{1,2}\b[^;()\d]*)?(\d{3,4})\b")
_LIFE = re.compile(
    r"[(（;,][^()（）\d]*(?:\d{1,2} )?[^()（）;\d]{0,24}?\b(\d{3,4})\s*年?[^()（）;–—]{0,9}\s*[–—-]"
)
_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)\b")
_PARTS = re.compile(r"[,;()（）]")
_QUOTES = re.compile(r"[\"“”„]|''")
_WORD = re.compile(r"[^\W_]+")
_END = re.compile(
    r"\b(?:of|that|who|which|in|by|from|at|on|for|with|to|whose|directed|written|starring|based|"
    r"released|produced|located|known|involved|associated|mentioned|referenced)\b|[.;:,]"
)
_MANY = 8  # a definition without a year is heard from one in so many of those that say otherwise
_PASSING = 4  # and types alone, four of which outweigh one definition
_TYPED = "typed "
_BIRTHS = 2  # years by which sources differ over one birth
_RELEASES = 1  # and over one work


class _Scope(NamedTuple):
    """`group`: person, thing (a place or an organisation), or a kind of work."""

    group: str
    year: int
    text: str


def scope_of(name: str, kind: str, description: str) -> str:
    """What one mention says that the thing is.

    By its definition: `person born 1887`, `person`, `place`, `organization`, `film 1913`; else by
    its type: `typed person`, `typed place`, `typed organization`; else empty.
    """
    typed = coarse(kind)
    return _defined(name, typed, description) or (f"typed {typed}" if typed else "")


def _defined(name: str, typed: str, description: str) -> str:
    beginning = description[:_BEGINNING]
    copula = _COPULA.search(_blank(beginning))
    if not copula or not _is_subject(name, beginning[: copula.start()]):
        return ""
    subject, said = beginning[: copula.start()], beginning[copula.end() :]
    end = _END.search(said)
    phrase = said[: end.start()] if end else said
    heads = [word.lower() for word in _WORD.findall(phrase)]
    for word, after in zip(reversed(heads), ["", *reversed(heads)], strict=False):
        if after not in ("", "and", "or"):
            continue
        for group in ("person", "place", "organization"):
            if word in words(f"says-{group}"):
                return _of_person(subject) if group == "person" else group
    for word, after in reversed([*pairwise([*heads, ""])]):
        if (work := _works().get(word)) and after not in words("says-person"):
            year = _YEAR.search(phrase) or _YEAR.search(" ".join(_BRACKETS.findall(subject)))
            return f"{work} {year.group(1)}" if year else work
    if typed in ("", "person") and (born := _BORN.search(subject)):
        return f"person born {int(born.group(1))}"
    return _of_person(subject) if typed == "person" and _LIFE.search(subject) else ""


def senses(key: str, form: str, scopes: Mapping[str, int]) -> dict[str, str]:
    """Scope to form of the entity apart from the base name, for every scope that means another
    thing than most mentions do. A function of the tally alone; scopes left out stay with the base.
    """
    if not any(scope and not scope.startswith(_TYPED) for scope in scopes) or parse(form).qualifier:
        return {}
    units = _units(_read(scope) for scope in scopes if not scope.startswith(_TYPED))
    counts = [sum(scopes[scope.text] for scope in unit) for unit in units]
    typed = _typed(scopes)
    if presumed := _presumed(units, counts, typed):
        units.append([])
        counts.append(presumed)
    if len(units) < 2:
        return {}
    base = min(range(len(units)), key=lambda n: (-counts[n], units[n][0].text if units[n] else ""))
    found: dict[str, str] = {}
    for number, unit in enumerate(units):
        dated = any(scope.year for scope in unit)
        if number == base or not (dated or counts[number] * _MANY >= counts[base]):
            continue
        apart = _form(form, min(unit, key=lambda s: (-scopes[s.text], s.text)))
        if normal_key(apart) != key:
            found |= {scope.text: apart for scope in unit}
            if sum(other[0].group == unit[0].group for other in units if other) == 1:
                found |= {text: apart for text in _texts(unit[0].group) if text in scopes}
    return found


# --- one mention ---------------------------------------------------------------------------------


def _blank(text: str) -> str:
    """Brackets overwritten, so that nothing in them is taken for the sentence's verb."""
    return _BRACKETS.sub(lambda match: " " * len(match.group()), text)


def _is_subject(name: str, subject: str) -> bool:
    """Whether the sentence defines the name: it begins with it (more given names may stand inside),
    or ends a part with `known as` it. `Jean-Joseph Gaume was` does not define Jean."""
    parts = [_folded(part) for part in _PARTS.split(_QUOTES.sub(" ", subject))]
    own = list(_folded(_QUOTES.sub(" ", name)))
    if not own or not parts:
        return False
    own, first = _bare(own), _bare(list(parts[0]))
    size = len(own)
    if first[:size] == own and first[size : size + 1] in ([], ["or"]):
        return True
    if size > 1 and len(first) - size in (1, 2) and (first[0], first[-1]) == (own[0], own[-1]):
        between = iter(first)
        return all(word in between for word in own)
    return any(
        list(part[-size:]) == own and "known" in part and part[-size - 1] in ("as", "name")
        for part in parts
        if len(part) > size
    )


def _bare(own: list[str]) -> list[str]:
    return own[1:] if len(own) > 1 and own[0] in ("the", "a", "an") else own


def _folded(text: str) -> tuple[str, ...]:
    return tuple(normal_key(word).lstrip("^") for word in _WORD.findall(text))


def _of_person(subject: str) -> str:
    born = _BORN.search(subject) or _LIFE.search(subject)
    return f"person born {int(born.group(1))}" if born else "person"


@cache
def _works() -> Mapping[str, str]:
    return {word: kind for kind, word in (pair.split("=") for pair in words("works"))}


# --- all mentions --------------------------------------------------------------------------------


def _read(scope: str) -> _Scope:
    kind, _, year = scope.replace("born ", "").partition(" ")
    group = kind if kind == "person" or kind in _works().values() else "thing" if kind else ""
    return _Scope(group, int(year) if year.isdecimal() else 0, scope)


def _units(scopes: Iterable[_Scope]) -> list[list[_Scope]]:
    """Scopes that may be one thing, together. One without a year is with those of its group if all
    of them are one thing, and says nothing otherwise; a work without a year says nothing."""
    groups: dict[str, list[_Scope]] = {}
    for scope in sorted(scopes, key=lambda scope: (scope.group, scope.year, scope.text)):
        groups.setdefault(scope.group, []).append(scope)
    groups.pop("", None)
    units: list[list[_Scope]] = []
    for group, members in groups.items():
        undated = [scope for scope in members if not scope.year]
        dated = _by_year([scope for scope in members if scope.year], group)
        if len(dated) == 1:
            units.append(dated[0] + undated)
        elif dated:
            units += dated
        elif group in ("person", "thing"):
            units.append(undated)
    return units


def _by_year(scopes: list[_Scope], group: str) -> list[list[_Scope]]:
    """In runs whose years differ little from the first."""
    tolerance = _BIRTHS if group == "person" else _RELEASES
    runs: list[list[_Scope]] = []
    for scope in scopes:
        if runs and scope.year - runs[-1][0].year <= tolerance:
            runs[-1].append(scope)
        else:
            runs.append([scope])
    return runs


def _typed(scopes: Mapping[str, int]) -> Mapping[str, int]:
    """How many mentions only have a type, by group."""
    return {
        group: sum(scopes.get(text, 0) for text in _texts(group)) for group in ("person", "thing")
    }


def _texts(group: str) -> tuple[str, ...]:
    if group == "thing":
        return f"{_TYPED}place", f"{_TYPED}organization"
    return (f"{_TYPED}person",) if group == "person" else ()


def _presumed(units: list[list[_Scope]], counts: list[int], typed: Mapping[str, int]) -> int:
    """Mentions of a thing that nobody defines, since everybody knows it: a city in passing, where
    one text defines a singer of its name. Only types tell, so they must be many; else 0."""
    if len(units) != 1 or units[0][0].group != "person" or not any(s.year for s in units[0]):
        return 0
    return typed["thing"] if typed["thing"] >= _PASSING * (counts[0] + typed["person"]) else 0


def _form(form: str, scope: _Scope) -> str:
    if not scope.year:
        return f"{form} ({scope.text})"
    if scope.group == "person":
        return f"{form} (born {scope.year})"
    return f"{form} ({scope.year} {scope.group})"
