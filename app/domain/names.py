"""Names: which of them mean one thing, and who said so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.jobs import Usage


@dataclass(frozen=True, slots=True)
class KnownName:
    """A name of the live evidence: what `app.resolution` needs to know of it, and the entity that
    it means. `scopes` counts what its mentions say it is; `revision` counts changes of all this."""

    key: str
    form: str  # as most often written
    kind: str
    aliases: tuple[str, ...]  # stated for it
    mentions: int  # 0: it is gone
    scopes: Mapping[str, int]
    entity: str
    revision: int
    blocks: tuple[str, ...] = ()  # as of when it was last resolved


class Ruling(NamedTuple):
    """Somebody's word on two names (keys, sorted): one thing, or two. A user's beats a model's."""

    one: str
    other: str
    same: bool
    by: str  # user | model
    note: str = ""
    at: float = 0.0

    @property
    def place(self) -> str:
        """Where it stands in a list: what pages call `after`."""
        return f"{self.one}\t{self.other}\t{self.by}"


class Placement(NamedTuple):
    """Where mentions of a name belong, if not where the name itself says. `scope`: which mentions
    ("" all; "document:<id>" those of a document; else what they say the thing is). `entity` "":
    nowhere. `name`: what to show instead of the name as written."""

    key: str
    scope: str
    entity: str
    name: str = ""

    @property
    def place(self) -> str:
        """Where it stands in a list: what pages call `after`."""
        return f"{self.key}\t{self.scope}"


class NameSaid(NamedTuple):
    """A name and what the documents say of it, for whoever is to judge it."""

    name: str
    kind: str
    description: str


Asked = tuple[NameSaid, NameSaid]


@dataclass(frozen=True, slots=True)
class Judgement:
    """For each pair asked: one thing (True), two (False), or not to be told (None)."""

    verdicts: tuple[bool | None, ...]
    usage: Usage = Usage()
