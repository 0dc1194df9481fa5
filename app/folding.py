"""How evidence adds up to entities and relations: the part of the fold that both stores share.

`collate` turns what a chunk says into one row per entity and relation; stores keep those rows and,
per entity and relation, tallies that rows are added to and taken from. All of it is independent of
the order of arrival, so that any history of the same chunks ends in the same graph.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.domain import EntityMention, Extraction, Placement, RelationMention, relation_key
from app.names import key as normal_key
from app.resolution.senses import scope_of, senses

MAX_KEYWORDS = 32  # shown per relation; the tally keeps all
MAX_ALIASES = 32
MAX_STATED = 16  # aliases by which a name is compared with others


class Surface(NamedTuple):
    """A name as one chunk uses it. `scope`: what the mention says the thing is."""

    key: str
    name: str
    kind: str = ""
    scope: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MentionRow:
    """A chunk's evidence for one entity, under one or more of its names. `about`: the chunk is
    about it."""

    key: str
    name: str
    kind: str
    description: str
    aliases: tuple[str, ...] = ()
    about: bool = False
    surfaces: tuple[Surface, ...] = ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """What counts for the name shown: the names as written, or the one that was given."""
        names = tuple(surface.name for surface in self.surfaces)
        return names if self.name in names else (self.name,)


@dataclass(frozen=True, slots=True)
class AssertionRow:
    """A chunk's evidence for one relation; `source` and `target` are entity keys as directed."""

    key: str
    source: str
    target: str
    description: str
    keywords: tuple[str, ...] = ()
    strength: float = 1.0


class Places:
    """Which entity a name means, by what was decided (`app.resolution`) and by hand."""

    def __init__(self, placements: Iterable[Placement] = ()) -> None:
        self._placed = {(one.key, one.scope): one for one in placements}

    def of(self, key: str, document_id: str, scope: str) -> Placement:
        """Somebody's word on the document goes before what the mention says of itself, and before
        both what was said of such mentions in the document."""
        for narrowed in (
            document_scope(document_id, scope), document_scope(document_id), scope, "",
        ):  # fmt: skip
            placed = self._placed.get((key, narrowed))
            if placed is not None:
                return placed
        return Placement(key, "", key)


NOWHERE_ELSE = Places()


_DOCUMENT = "document:"


def document_scope(document_id: str, sense: str | None = None) -> str:
    """All mentions in a document; with a sense, those that say that they are this, and with the
    empty one those that say nothing of the kind."""
    scope = f"{_DOCUMENT}{document_id}"
    return scope if sense is None else f"{scope}\t{sense}"  # no id holds a tab


def is_of_document(scope: str) -> bool:
    return scope.startswith(_DOCUMENT)


def document_of(scope: str) -> str:
    """The document of its scope."""
    return scope.removeprefix(_DOCUMENT).partition("\t")[0]


def sense_of(scope: str) -> str | None:
    """None: of all mentions in the document."""
    _, within, sense = scope.partition("\t")
    return sense if within else None


def name_keys(extraction: Extraction) -> set[str]:
    """Normal keys of all names that an extraction uses."""
    names = [entity.name for entity in extraction.entities]
    names += extraction.about
    for relation in extraction.relations:
        names += (relation.source, relation.target)
    return {normal_key(name) for name in names}


def collate(
    extraction: Extraction, places: Places = NOWHERE_ELSE, document_id: str = ""
) -> tuple[list[MentionRow], list[AssertionRow]]:
    """One row per entity and relation, in key order. Ends of relations and names that the chunk
    is about become mentions even where the extraction did not list them. Relations of an entity
    with itself, and whatever was placed nowhere, are left out."""
    rows = _Rows(places, document_id)
    for entity in extraction.entities:
        rows.mention(entity)
    for name in extraction.about:
        rows.bare(name, about=True)
    for relation in extraction.relations:
        if normal_key(relation.source) != normal_key(relation.target):
            rows.state(relation)
    return (
        [rows.mentions[key] for key in sorted(rows.mentions)],
        [rows.assertions[key] for key in sorted(rows.assertions)],
    )


class _Rows:
    """What one chunk says, under the keys of the entities that are meant."""

    def __init__(self, places: Places, document_id: str) -> None:
        self._places, self._document_id = places, document_id
        self._meant: dict[str, str] = {}  # name key -> entity key, as the first mention has it
        self.mentions: dict[str, MentionRow] = {}
        self.assertions: dict[str, AssertionRow] = {}

    def mention(self, entity: EntityMention, *, about: bool = False) -> None:
        row = self._row(entity, about)
        self._meant.setdefault(row.surfaces[0].key, row.key)
        if row.key:
            known = self.mentions.get(row.key)
            self.mentions[row.key] = row if known is None else _join_mentions(known, row)

    def bare(self, name: str, *, about: bool = False) -> str:
        """The entity that a name without a description means; empty for none."""
        key = normal_key(name)
        if key not in self._meant:
            self.mention(EntityMention(name, "", ""), about=about)
        elif about and self._meant[key]:
            known = self.mentions[self._meant[key]]
            more = MentionRow(known.key, name, "", "", about=True, surfaces=known.surfaces[:1])
            self.mentions[known.key] = _join_mentions(known, more)
        return self._meant[key]

    def state(self, relation: RelationMention) -> None:
        source, target = self.bare(relation.source), self.bare(relation.target)
        if source == target or not source or not target:
            return
        row = AssertionRow(
            relation_key(source, target), source, target, relation.description,
            tuple(dict.fromkeys(relation.keywords)), relation.strength,
        )  # fmt: skip
        known = self.assertions.get(row.key)
        self.assertions[row.key] = row if known is None else _join_assertions(known, row)

    def _row(self, entity: EntityMention, about: bool) -> MentionRow:
        key = normal_key(entity.name)
        scope = scope_of(entity.name, entity.kind, entity.description)
        placed = self._places.of(key, self._document_id, scope)
        surface = Surface(key, entity.name, entity.kind, scope, entity.aliases)
        name, aliases = placed.name or entity.name, entity.aliases
        if name != entity.name:
            aliases = (entity.name, *aliases)
        return MentionRow(
            placed.entity, name, entity.kind, entity.description, aliases, about, (surface,)
        )


def _join_mentions(one: MentionRow, other: MentionRow) -> MentionRow:
    spelling = other.name if other.name not in one.spellings else ""
    known = {(surface.key, surface.scope) for surface in one.surfaces}
    fresh = [its for its in other.surfaces if (its.key, its.scope) not in known]
    if fresh:  # its own names count as they are
        spelling = ""
    spellings = (*one.aliases, spelling, *other.aliases)
    return replace(
        one,
        kind=one.kind or other.kind,
        description=_join_texts(one.description, other.description),
        aliases=tuple(dict.fromkeys(name for name in spellings if name and name != one.name)),
        about=one.about or other.about,
        surfaces=(*(_join_surfaces(mine, other.surfaces) for mine in one.surfaces), *fresh),
    )


def _join_surfaces(mine: Surface, others: Iterable[Surface]) -> Surface:
    """A chunk counts once for each name and scope; what it says of it adds up."""
    for other in others:
        if (other.key, other.scope) == (mine.key, mine.scope):
            aliases = tuple(dict.fromkeys((*mine.aliases, *other.aliases)))
            mine = mine._replace(kind=mine.kind or other.kind, aliases=aliases)
    return mine


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


def surfaces_json(row: MentionRow) -> str:
    """How stores keep the names of a mention."""
    return json.dumps(row.surfaces, ensure_ascii=False, separators=(",", ":"))


def surfaces_of(text: str) -> tuple[Surface, ...]:
    return tuple(
        Surface(key, name, kind, scope, tuple(aliases))
        for key, name, kind, scope, aliases in json.loads(text)
    )


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
            add(self.names, row.spellings, sign),
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
    keys = {normal_key(alias) for alias in row.aliases}
    keys.update(surface.key for surface in row.surfaces)
    return sorted(keys - {row.key, ""})


@dataclass(frozen=True, slots=True)
class NameTally:
    """What is known of a name, from all mentions that use it."""

    forms: Tally = field(default_factory=dict)
    kinds: Tally = field(default_factory=dict)
    scopes: Tally = field(default_factory=dict)
    aliases: Tally = field(default_factory=dict)

    def plus(self, surface: Surface, sign: int = 1) -> NameTally:
        stated = [one for one in surface.aliases if normal_key(one) != surface.key]
        return NameTally(
            add(self.forms, [surface.name], sign),
            add(self.kinds, [surface.kind], sign),
            add(self.scopes, [surface.scope], sign),
            add(self.aliases, stated, sign),
        )

    @property
    def form(self) -> str:
        return most(self.forms)

    @property
    def kind(self) -> str:
        return most(self.kinds)

    @property
    def stated(self) -> tuple[str, ...]:
        return tuple(sorted(ranked(self.aliases, MAX_STATED)))

    def facts(self, key: str) -> str:
        """All that decisions about the name depend on: equal facts, equal decisions. Empty for a
        name that is gone."""
        if not self.forms:
            return ""
        apart = sorted(senses(key, self.form, self.scopes).items()) if self.scopes else []
        return json.dumps([self.form, self.kind, self.stated, apart], ensure_ascii=False)
