"""The fold: evidence of chunks added to, and taken from, entities and relations.

Everything here happens inside the caller's transaction, touches only what the chunks name, and is
the same for any order of chunks: rows are kept, and what is shown of an entity or relation is
computed from tallies of its rows (`app.folding`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sqlite3 import Connection, Row

import orjson

from app.domain import relation_ends
from app.folding import (
    AssertionRow,
    MentionRow,
    Places,
    Surface,
    alias_keys,
    collate,
    name_keys,
    surfaces_json,
    surfaces_of,
)
from app.stores.counts import EntityCount, RelationCount, tally_of
from app.stores.records import dump, extraction_of, strength, thousandths
from app.stores.sqlite.communities import take_back
from app.stores.sqlite.placements import count_names, open_tied, placements_of
from app.stores.sqlite.rows import listed

AliasCount = tuple[str, str]  # alias key, entity key
_Told = tuple[int, MentionRow]  # by which chunk


@dataclass(slots=True, kw_only=True)
class _Entity(EntityCount):
    seq: int
    mentions_before: int


@dataclass(slots=True, kw_only=True)
class _Relation(RelationCount):
    seq: int
    mentions_before: int


@dataclass(slots=True)
class _Evidence:
    """Rows of some chunks, and the aliases that they state."""

    mentions: list[MentionRow] = field(default_factory=list)
    assertions: list[AssertionRow] = field(default_factory=list)
    aliases: list[AliasCount] = field(default_factory=list)


def exchange(
    connection: Connection, workspace: str, *, taken: Sequence[Row] = (), added: Sequence[Row] = ()
) -> None:
    """Take back what was counted for some chunks, whatever their extraction says now, and count
    what the extractions of others, or the same, say. Rows need seq; added ones also id, document_id
    and extraction. A name is counted once for both: what only moves does not change its facts."""
    before, losers = _take(connection, workspace, taken)
    after = _add(connection, workspace, added)
    if losers:  # here, since what only moves is not gone in between
        take_back(connection, losers)
    gone, come = _surfaces(before), _surfaces(after)
    count_names(connection, workspace, gone, come)
    if _used(before) != _used(after):
        open_tied(connection, workspace, {surface.key for surface in gone}, "has")
        open_tied(connection, workspace, {surface.key for surface in come}, "lacks")


def _surfaces(told: Iterable[_Told]) -> list[Surface]:
    return [surface for _, row in told for surface in row.surfaces]


def _used(told: Iterable[_Told]) -> list[tuple[int, Surface]]:
    """Which names each chunk uses."""
    return sorted((chunk, surface) for chunk, row in told for surface in row.surfaces)


def _add(connection: Connection, workspace: str, chunks: Sequence[Row]) -> list[_Told]:
    collated = _collated(connection, workspace, chunks)
    evidence = _Evidence(
        [row for _, mentions, _ in collated for row in mentions],
        [row for _, _, assertions in collated for row in assertions],
        [(alias, row.key) for _, rows, _ in collated for row in rows for alias in alias_keys(row)],
    )
    entities, relations = _count(connection, workspace, evidence, 1)
    connection.executemany(
        "insert into mentions (entity, chunk_id, chunk, document_id, name, kind, description,"
        " aliases, alias_keys, about, surfaces) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                entities[row.key].seq, chunk["id"], chunk["seq"], chunk["document_id"], row.name,
                row.kind, row.description, dump(row.aliases), dump(alias_keys(row)), row.about,
                surfaces_json(row),
            )
            for chunk, mentions, _ in collated
            for row in mentions
        ],
    )  # fmt: skip
    connection.executemany(
        "insert into assertions (relation, chunk_id, chunk, document_id, source, target,"
        " description, keywords, strength) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                relations[row.key].seq, chunk["id"], chunk["seq"], chunk["document_id"], row.source,
                row.target, row.description, dump(row.keywords), thousandths(row.strength),
            )
            for chunk, _, assertions in collated
            for row in assertions
        ],
    )  # fmt: skip
    return [(chunk["seq"], row) for chunk, mentions, _ in collated for row in mentions]


def misplaced(connection: Connection, workspace: str, chunks: Sequence[Row]) -> list[Row]:
    """Those whose evidence is not where names mean it to be now."""
    found = []
    for chunk, mentions, _ in _collated(connection, workspace, chunks):
        rows = connection.execute(
            "select e.key, m.name, m.surfaces from mentions m cross join entities e"
            " where m.chunk = ? and e.seq = m.entity",
            (chunk["seq"],),
        )
        stored = {(row["key"], row["name"], row["surfaces"]) for row in rows}
        if stored != {(row.key, row.name, surfaces_json(row)) for row in mentions}:
            found.append(chunk)
    return found


def _collated(
    connection: Connection, workspace: str, chunks: Sequence[Row]
) -> list[tuple[Row, list[MentionRow], list[AssertionRow]]]:
    read = [(chunk, extraction_of(chunk["extraction"])) for chunk in chunks]
    keys = {key for _, extraction in read for key in name_keys(extraction)}
    places = Places(placements_of(connection, workspace, keys))
    return [
        (chunk, *collate(extraction, places, chunk["document_id"])) for chunk, extraction in read
    ]


def _take(
    connection: Connection, workspace: str, chunks: Sequence[Row]
) -> tuple[list[_Told], list[int]]:
    """What was counted, and the entities (`seq`) that have lost it."""
    bound = {"chunks": dump([chunk["seq"] for chunk in chunks])}
    evidence, told = _Evidence(), []
    for row in connection.execute(
        "select m.chunk, e.key, m.name, m.kind, m.description, m.aliases, m.alias_keys, m.about,"
        " m.surfaces"
        " from json_each(:chunks) c cross join mentions m cross join entities e"
        " where m.chunk = c.value and e.seq = m.entity",
        bound,
    ):
        mention = MentionRow(
            row["key"], row["name"], row["kind"], row["description"],
            tuple(orjson.loads(row["aliases"])), bool(row["about"]), surfaces_of(row["surfaces"]),
        )  # fmt: skip
        evidence.mentions.append(mention)
        told.append((row["chunk"], mention))
        evidence.aliases += [(alias, row["key"]) for alias in orjson.loads(row["alias_keys"])]
    for row in connection.execute(
        "select r.key, a.source, a.target, a.description, a.keywords, a.strength"
        " from json_each(:chunks) c cross join assertions a cross join relations r"
        " where a.chunk = c.value and r.seq = a.relation",
        bound,
    ):
        evidence.assertions.append(
            AssertionRow(
                row["key"], row["source"], row["target"], row["description"],
                tuple(orjson.loads(row["keywords"])), strength(row["strength"]),
            )
        )  # fmt: skip
    entities, _ = _count(connection, workspace, evidence, -1)
    for table in ("mentions", "assertions"):
        connection.execute(
            f"delete from {table} where chunk in (select value from json_each(:chunks))", bound
        )
    return told, [one.seq for one in entities.values()]


def add_totals(
    connection: Connection, workspace: str, *, documents: int = 0, chunks: int = 0,
    entities: int = 0, relations: int = 0,
) -> None:  # fmt: skip
    """Keep what `stats` answers."""
    connection.execute(
        "insert into totals (workspace, documents, chunks, entities, relations)"
        " values (:workspace, :documents, :chunks, :entities, :relations)"
        " on conflict (workspace) do update set documents = documents + excluded.documents,"
        " chunks = chunks + excluded.chunks, entities = entities + excluded.entities,"
        " relations = relations + excluded.relations",
        {
            "workspace": workspace, "documents": documents, "chunks": chunks,
            "entities": entities, "relations": relations,
        },
    )  # fmt: skip


def _appeared(found: Mapping[str, _Entity] | Mapping[str, _Relation]) -> int:
    """How many have evidence now that had none before, less those that lost all."""
    return sum(bool(one.mentions) - bool(one.mentions_before) for one in found.values())


def _count(
    connection: Connection, workspace: str, evidence: _Evidence, sign: int
) -> tuple[dict[str, _Entity], dict[str, _Relation]]:
    entities = _entities(connection, workspace, [row.key for row in evidence.mentions])
    for mention in evidence.mentions:
        entities[mention.key].count(mention, sign)
    keys = [row.key for row in evidence.assertions]
    relations = _relations(connection, workspace, keys, entities)
    for assertion in evidence.assertions:
        relation = relations[assertion.key]
        absent = 0 if sign > 0 else 1  # mentions next to the step that makes it appear or vanish
        if relation.mentions == absent:
            for end in relation_ends(assertion.key):
                entities[end].degree += sign
        relation.count(assertion, sign)
    _put_entities(connection, entities.values())
    _put_relations(connection, relations.values())
    appeared = {"entities": _appeared(entities), "relations": _appeared(relations)}
    add_totals(connection, workspace, **appeared)
    _put_aliases(connection, workspace, evidence.aliases, entities, sign)
    _note_renamed(connection, entities.values(), {relation.seq for relation in relations.values()})
    return entities, relations


# --- reading -------------------------------------------------------------------------------------


def _entities(connection: Connection, workspace: str, keys: Sequence[str]) -> dict[str, _Entity]:
    """Counters by key; entities that are new begin at nought."""
    bound = {"workspace": workspace, "keys": listed(keys)}
    connection.execute(
        "insert into entities (workspace, key)"
        " select :workspace, value from json_each(:keys) where true"
        " on conflict (workspace, key) do nothing",
        bound,
    )
    rows = connection.execute(
        "select e.seq, e.key, e.name, e.names_tally, e.kinds_tally, e.aliases_tally, e.mentions,"
        " e.described, e.abouts, e.degree"
        " from json_each(:keys) k cross join entities e"
        " where e.workspace = :workspace and e.key = k.value",
        bound,
    )
    return {
        row["key"]: _Entity(
            seq=row["seq"],
            name=row["name"],
            tally=tally_of(row),
            mentions=row["mentions"],
            described=row["described"],
            abouts=row["abouts"],
            degree=row["degree"],
            mentions_before=row["mentions"],
        )
        for row in rows
    }


def _relations(
    connection: Connection, workspace: str, keys: Sequence[str], entities: dict[str, _Entity]
) -> dict[str, _Relation]:
    ends = {key: relation_ends(key) for key in keys}
    # An end that was forgotten and came back is another row than the one remembered.
    connection.executemany(
        "insert into relations (workspace, key, source, target) values (?, ?, ?, ?)"
        " on conflict (workspace, key) do update set"
        " source = excluded.source, target = excluded.target"
        " where source <> excluded.source or target <> excluded.target",
        [
            (workspace, key, entities[source].seq, entities[target].seq)
            for key, (source, target) in ends.items()
        ],
    )
    rows = connection.execute(
        "select r.seq, r.key, r.keywords_tally, r.weight, r.mentions, r.described"
        " from json_each(:keys) k cross join relations r"
        " where r.workspace = :workspace and r.key = k.value",
        {"workspace": workspace, "keys": listed(keys)},
    )
    return {
        row["key"]: _Relation(
            seq=row["seq"],
            tally=orjson.loads(row["keywords_tally"]),
            weight=row["weight"],
            mentions=row["mentions"],
            described=row["described"],
            mentions_before=row["mentions"],
        )
        for row in rows
    }


# --- writing -------------------------------------------------------------------------------------

# A lost description may be in the profile: `shrunk` refuses profiles made before, `covered` 0 asks
# for one made from scratch. Nothing is left to read of what has no evidence.
_TOUCH = """
    revision = revision + 1,
    evidenced = revision + 1,
    shrunk = case when :lost then revision + 1 else shrunk end,
    covered = case when :lost then 0 else covered end,
    profile = case when :mentions = 0 then '' else profile end,
    digest = case when :mentions = 0 then '' else digest end
"""


def _put_entities(connection: Connection, entities: Iterable[_Entity]) -> None:
    connection.executemany(
        "update entities set name = :name, kind = :kind, aliases = :aliases, words = :words,"
        " names_tally = :names, kinds_tally = :kinds, aliases_tally = :stated,"
        " mentions = :mentions, described = :described, abouts = :abouts, degree = :degree,"
        f" {_TOUCH} where seq = :seq",
        [
            {
                "seq": one.seq, "lost": one.lost,
                "name": one.tally.name, "kind": one.tally.kind,
                "aliases": dump(one.tally.shown_aliases),
                "words": one.words,
                "names": dump(one.tally.names), "kinds": dump(one.tally.kinds),
                "stated": dump(one.tally.aliases), "mentions": one.mentions,
                "described": one.described, "abouts": one.abouts, "degree": one.degree,
            }
            for one in entities
        ],
    )  # fmt: skip


def _put_relations(connection: Connection, relations: Iterable[_Relation]) -> None:
    connection.executemany(
        "update relations set keywords = :keywords, keywords_tally = :tally, weight = :weight,"
        f" mentions = :mentions, described = :described, {_TOUCH} where seq = :seq",
        [
            {
                "seq": one.seq, "lost": one.lost, "keywords": dump(one.keywords),
                "tally": dump(one.tally), "weight": one.weight, "mentions": one.mentions,
                "described": one.described,
            }
            for one in relations
        ],
    )  # fmt: skip


def _put_aliases(
    connection: Connection, workspace: str, aliases: Sequence[AliasCount],
    entities: dict[str, _Entity], sign: int,
) -> None:  # fmt: skip
    rows = [(workspace, alias, entities[key].seq) for alias, key in aliases]
    if sign > 0:
        connection.executemany(
            "insert into aliases (workspace, key, entity, count) values (?, ?, ?, 1)"
            " on conflict (workspace, key, entity) do update set count = count + 1",
            rows,
        )
        return
    where = "where workspace = ? and key = ? and entity = ?"
    connection.executemany(f"update aliases set count = count - 1 {where}", rows)
    connection.executemany(f"delete from aliases {where} and count <= 0", rows)


def _note_renamed(connection: Connection, entities: Iterable[_Entity], touched: set[int]) -> None:
    """The indexed text of a relation has the names of its ends. Its evidence is what it was, so a
    profile that was up to date stays so; only the vector falls behind."""
    renamed = [
        {"seq": one.seq, "touched": dump(sorted(touched))} for one in entities if one.renamed
    ]
    for end in ("source", "target"):
        connection.executemany(
            "update relations set revision = revision + 1, renamed = revision + 1,"
            f" profiled = profiled + (profiled = revision) where {end} = :seq and mentions > 0"
            " and seq not in (select value from json_each(:touched))",
            renamed,
        )
