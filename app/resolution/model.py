"""The nouns of resolution: a name, what the graph knows of two names, and what was found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from app.resolution.lists import words

MERGE = 80.0  # a pair from here on is one thing
ASK = 50.0  # from here to MERGE it may be
MAX_MEMBERS = 64  # of a cluster


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a workspace. `form`: the spelling written most often; `kind`: the type extracted
    most often; `aliases`: other forms that a text states for it."""

    key: str
    form: str
    kind: str = ""
    aliases: tuple[str, ...] = ()
    mentions: int = 1


@dataclass(frozen=True, slots=True)
class Ties:
    """What the graph knows of two names. `together`: a passage names both; `related`: it asserts a
    relation between them; `neighbours`: share in common, 0..1; `names`, `descriptions`: cosines."""

    together: bool = False
    related: bool = False
    neighbours: float = 0.0
    names: float | None = None
    descriptions: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two names compared; keys in order. `score`: 0..100, before anybody asks how many others the
    shorter form may stand for (`app.resolution.decide`). `leaf`: the key that is only a short form
    of the other, or empty. `veto`: why they cannot be one, or empty."""

    one: str
    other: str
    relation: str
    base: float
    score: float
    veto: str = ""
    features: Mapping[str, float | str] = field(default_factory=dict)
    leaf: str = ""

    @property
    def keys(self) -> tuple[str, str]:
        return self.one, self.other


_NOT_A_LETTER = re.compile(r"[^a-z]")


@lru_cache(maxsize=4096)
def coarse(kind: str) -> str:
    """`person`, `place`, `organization`, or empty for any other type."""
    plain = _NOT_A_LETTER.sub("", kind.casefold())
    for name in ("person", "place", "organization"):
        if plain in words(f"kind-{name}"):
            return name
    return ""
