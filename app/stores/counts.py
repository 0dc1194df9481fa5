"""Counters of entities and relations while a transaction changes them: the fold of both stores.

Stores lock and read them, count rows of evidence in or out, and write them back.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from app.folding import (
    MAX_KEYWORDS,
    AssertionRow,
    EntityTally,
    MentionRow,
    NameTally,
    Surface,
    add,
    ranked,
)
from app.stores.records import Record, dump, thousandths


def tally_of(row: Record) -> EntityTally:
    return EntityTally(
        orjson.loads(row["names_tally"]),
        orjson.loads(row["kinds_tally"]),
        orjson.loads(row["aliases_tally"]),
    )


@dataclass(slots=True, kw_only=True)
class EntityCount:
    name: str  # as shown before
    tally: EntityTally
    mentions: int
    described: int
    abouts: int
    degree: int
    lost: bool = False  # some evidence was taken

    def count(self, row: MentionRow, sign: int) -> None:
        self.tally = self.tally.plus(row, sign)
        self.mentions += sign
        self.described += sign * bool(row.description)
        self.abouts += sign * row.about
        self.lost |= sign < 0

    @property
    def renamed(self) -> bool:
        return self.mentions > 0 and self.name not in ("", self.tally.name)

    @property
    def words(self) -> str:
        """What a search by words looks into."""
        return "\n".join((self.tally.name, *self.tally.shown_aliases)).casefold()


@dataclass(slots=True, kw_only=True)
class NameCount:
    key: str
    tally: NameTally
    mentions: int = 0

    def count(self, surface: Surface, sign: int) -> None:
        self.tally = self.tally.plus(surface, sign)
        self.mentions = max(0, self.mentions + sign)

    @property
    def facts(self) -> str:
        return self.tally.facts(self.key) if self.mentions else ""


def name_tally_of(text: str) -> NameTally:
    return NameTally(**orjson.loads(text))


def name_tally_json(tally: NameTally) -> str:
    return dump(
        {
            "forms": tally.forms, "kinds": tally.kinds, "scopes": tally.scopes,
            "aliases": tally.aliases,
        }
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RelationCount:
    tally: dict[str, int]
    weight: int  # thousandths
    mentions: int
    described: int
    lost: bool = False

    def count(self, row: AssertionRow, sign: int) -> None:
        self.tally = add(self.tally, row.keywords, sign)
        self.weight += sign * thousandths(row.strength)
        self.mentions += sign
        self.described += sign * bool(row.description)
        self.lost |= sign < 0

    @property
    def keywords(self) -> tuple[str, ...]:
        return ranked(self.tally, MAX_KEYWORDS)
