"""How evidence adds up to entities and relations: the part of the fold that both stores share.

`collate` turns what a chunk says into one row per entity and relation; stores keep those rows and,
per entity and relation, tallies that rows are added to and taken from. All of it is independent of
the order of arrival, so that any history of the same chunks ends in the same graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from app.domain import Extraction, relation_key
from app.names import key as normal_key

MAX_KEYWORDS = 32  # shown per relation; the tally keeps all
MAX_ALIASES = 32


@dataclass(frozen=True, slots=True)
class MentionRow:
    """A chunk's evidence for one entity. `about`: the chunk is about it."""

    key: str
    name: str
    kind: str
    description: str
    aliases: tuple[str, ...] = ()
    about: bool = False


@dataclass(frozen=True, slots=True)
class AssertionRow:
    """A chunk's evidence for one relation; `source` and `target` are entity keys as directed."""

    key: str
    source: str
    target: str
    description: str
    keywords: tuple[str, ...] = ()
    strength: float = 1.0


def collate(extraction: Extraction) -> tuple[list[MentionRow], list[AssertionRow]]:
    """One row per entity and relation key, in key order. Ends of relations and names that the chunk
    is about become mentions even where the extraction did not list them."""
    mentions: dict[str, MentionRow] = {}

    def mention(row: MentionRow) -> None:
        known = mentions.get(row.key)
        mentions[row.key] = row if known is None else _join_mentions(known, row)

    for entity in extraction.entities:
        key = normal_key(entity.name)
        mention(MentionRow(key, entity.name, entity.kind, entity.description, entity.aliases))
    for name in extraction.about:
        mention(MentionRow(normal_key(name), name, "", "", about=True))
    assertions: dict[str, AssertionRow] = {}
    for relation in extraction.relations:
        source, target = normal_key(relation.source), normal_key(relation.target)
        if source == target:
            continue
        for key, name in ((source, relation.source), (target, relation.target)):
            if key not in mentions:
                mention(MentionRow(key, name, "", ""))
        row = AssertionRow(
            relation_key(source, target), source, target, relation.description,
            tuple(dict.fromkeys(relation.keywords)), relation.strength,
        )  # fmt: skip
        known_row = assertions.get(row.key)
        assertions[row.key] = row if known_row is None else _join_assertions(known_row, row)
    return (
        [mentions[key] for key in sorted(mentions)],
        [assertions[key] for key in sorted(assertions)],
    )


def _join_mentions(one: MentionRow, other: MentionRow) -> MentionRow:
    spellings = (*one.aliases, *((other.name,) if other.name != one.name else ()), *other.aliases)
    return replace(
        one,
        kind=one.kind or other.kind,
        description=_join_texts(one.description, other.description),
        aliases=tuple(dict.fromkeys(alias for alias in spellings if alias != one.name)),
        about=one.about or other.about,
    )


def _join_assertions(one: AssertionRow, other: AssertionRow) -> AssertionRow:
    return replace(
        one,
        description=_join_texts(one.description, other.description),
        keywords=tuple(dict.fromkeys((*one.keywords, *other.keywords))),
        strength=max(one.strength, other.strength),
    )


def _join_texts(one: str, other: str) -> str:
    if not other or other in one:
        return one
    return f"{one}\n{other}" if one else other


# --- tallies -------------------------------------------------------------------------------------

Tally = Mapping[str, int]


def add(tally: Tally, values: Iterable[str], sign: int = 1) -> dict[str, int]:
    """The tally with each value counted once more (or, with sign -1, once less)."""
    counts = dict(tally)
    for value in values:
        if value:
            counts[value] = counts.get(value, 0) + sign
    return {value: counts[value] for value in sorted(counts) if counts[value] > 0}


def most(tally: Tally, default: str = "") -> str:
    """The value counted most often; the first in order among equals."""
    return min(tally, key=lambda value: (-tally[value], value), default=default)


def ranked(tally: Tally, limit: int) -> tuple[str, ...]:
    """Values, most often counted first."""
    return tuple(sorted(tally, key=lambda value: (-tally[value], value))[:limit])


@dataclass(frozen=True, slots=True)
class EntityTally:
    """What an entity's shown name, kind and aliases are computed from."""

    names: Tally
    kinds: Tally
    aliases: Tally

    def plus(self, row: MentionRow, sign: int = 1) -> EntityTally:
        return EntityTally(
            add(self.names, [row.name], sign),
            add(self.kinds, [row.kind], sign),
            add(self.aliases, row.aliases, sign),
        )

    @property
    def name(self) -> str:
        return most(self.names)

    @property
    def kind(self) -> str:
        return most(self.kinds, "other")

    @property
    def shown_aliases(self) -> tuple[str, ...]:
        """Other spellings and stated aliases, without the shown name."""
        both = {**self.names}
        for alias, count in self.aliases.items():
            both[alias] = both.get(alias, 0) + count
        both.pop(self.name, None)
        return ranked(both, MAX_ALIASES)


def alias_keys(row: MentionRow) -> list[str]:
    """Normal keys under which the mention's entity can also be found."""
    return sorted({normal_key(alias) for alias in row.aliases} - {row.key, ""})
