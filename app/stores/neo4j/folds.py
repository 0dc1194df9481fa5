"""The fold in Neo4j: evidence of chunks added to, and taken from, entities and relations.

Rows of evidence are the relationships MENTIONS and STATES of a chunk. What is shown of entities and
relations is computed from tallies of these rows (`app.folding`), for any order of chunks alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.domain import Placement, relation_ends
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
from app.stores.neo4j.communities import take_back
from app.stores.neo4j.database import Again, Row, Transaction
from app.stores.neo4j.placements import count_names, open_tied, placements_of
from app.stores.neo4j.tallies import (
    EntityTotal,
    RelationTotal,
    lock_entities,
    lock_relations,
    note_renamed,
    put_entities,
    put_relations,
    relations_of,
)
from app.stores.records import extraction_of, strength, thousandths


@dataclass(frozen=True, slots=True)
class Told:
    """A chunk's evidence row and where it stands; `aliases` are alias keys."""

    chunk_id: str
    document_id: str
    row: MentionRow | AssertionRow
    aliases: tuple[str, ...] = ()


@dataclass(slots=True)
class Change:
    """What a transaction adds and takes, and how many live entities and relations that makes.
    `placements` are those of `names` that the added rows follow."""

    added: list[Told] = field(default_factory=list)
    taken: list[Told] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    placements: set[Placement] = field(default_factory=set)
    entities: int = 0
    relations: int = 0

    def rows(self) -> list[tuple[Told, int]]:
        """All with the sign that they count with, taken ones first."""
        return [*((told, -1) for told in self.taken), *((told, 1) for told in self.added)]


async def told_by(tx: Transaction, workspace: str, chunks: Sequence[Row]) -> Change:
    """What the chunks' extractions say. Rows have id, document_id and extraction."""
    read = [(chunk, extraction_of(chunk["extraction"])) for chunk in chunks]
    names = {key for _, extraction in read for key in name_keys(extraction)}
    placements = await placements_of(tx, workspace, names)
    places = Places(placements)
    change = Change(names=names, placements=placements)
    for chunk, extraction in read:
        document_id = chunk["document_id"]
        mentions, assertions = collate(extraction, places, document_id)
        for mention in mentions:
            aliases = tuple(alias_keys(mention))
            change.added.append(Told(chunk["id"], document_id, mention, aliases))
        change.added += [Told(chunk["id"], document_id, row) for row in assertions]
    return change


async def told_before(tx: Transaction, workspace: str, ids: Sequence[str]) -> list[Told]:
    """What was counted for the chunks, whatever their extraction says now."""
    chunks = await tx.run(
        """
        UNWIND $ids AS id
        MATCH (c:Chunk {workspace: $workspace, id: id})
        RETURN [(c)-[m:MENTIONS]->() | properties(m)] AS mentions,
            [(c)-[s:STATES]->() | properties(s)] AS assertions
        """,
        workspace=workspace, ids=ids,
    )  # fmt: skip
    return [
        *(_mention_of(m) for chunk in chunks for m in chunk["mentions"]),
        *(_assertion_of(s) for chunk in chunks for s in chunk["assertions"]),
    ]


async def apply(tx: Transaction, workspace: str, change: Change) -> None:
    """A dozen statements at most, whatever the size of the change. Raises `Again` if names mean
    other entities by the time that these are locked. Who changes what a name means holds the
    entities that have and get its evidence: either this sees the change, or that finds it."""
    mentioned = {told.row.key for told, _ in change.rows() if _mentions(told)}
    entities = await lock_entities(tx, workspace, mentioned)
    if change.names and await placements_of(tx, workspace, change.names) != change.placements:
        raise Again
    gone, come = _surfaces(change.taken), _surfaces(change.added)
    await count_names(tx, workspace, gone, come)
    if _used(change.taken) != _used(change.added):
        await open_tied(tx, workspace, {surface.key for surface in gone}, "has")
        await open_tied(tx, workspace, {surface.key for surface in come}, "lacks")
    lived = _living(entities)
    for told, sign in change.rows():
        if isinstance(told.row, MentionRow):
            entities[told.row.key].count(told.row, sign)
    renamed = [one.key for one in entities.values() if one.renamed]
    touching = await relations_of(tx, workspace, renamed)
    keys = {told.row.key for told, _ in change.rows() if not _mentions(told)}
    relations = await lock_relations(tx, workspace, keys, touching) if keys or touching else {}
    related = _living(relations)
    for told, sign in change.rows():
        if isinstance(told.row, AssertionRow):
            relations[told.row.key].count(told.row, sign)
    for relation in relations.values():
        appeared = (relation.mentions > 0) - relation.known
        for end in relation_ends(relation.key):
            entities[end].degree += appeared
    change.entities, change.relations = _living(entities) - lived, _living(relations) - related
    await put_entities(tx, workspace, entities.values())
    if relations:
        await put_relations(tx, workspace, list(relations.values()))
    await _put_evidence(tx, workspace, change)
    await _put_aliases(tx, workspace, change)
    await note_renamed(tx, workspace, entities.values(), keys)
    await take_back(tx, workspace, [one.key for one in entities.values() if one.lost])


def _mentions(told: Told) -> bool:
    return isinstance(told.row, MentionRow)


def _surfaces(told: Sequence[Told]) -> list[Surface]:
    return [its for one in told if isinstance(one.row, MentionRow) for its in one.row.surfaces]


def _used(told: Sequence[Told]) -> list[tuple[str, Surface]]:
    """Which names each chunk uses."""
    return sorted((one.chunk_id, its) for one in told for its in _surfaces([one]))


def _living(counted: dict[str, EntityTotal] | dict[str, RelationTotal]) -> int:
    return sum(one.mentions > 0 for one in counted.values())


def _mention_of(m: Row) -> Told:
    row = MentionRow(
        m["entity"], m["name"], m["kind"], m["description"], tuple(m["aliases"]), "about" in m,
        surfaces_of(m.get("surfaces", "[]")),  # evidence from before names were counted has none
    )  # fmt: skip
    return Told(m["chunk"], m["document"], row, tuple(m["alias_keys"]))


def _assertion_of(s: Row) -> Told:
    row = AssertionRow(
        s["relation"], s["source"], s["target"], s["description"], tuple(s["keywords"]),
        strength(s["strength"]),
    )  # fmt: skip
    return Told(s["chunk"], s["document"], row)


async def _put_evidence(tx: Transaction, workspace: str, change: Change) -> None:
    if change.taken:
        await tx.run(
            """
            UNWIND $ids AS id
            MATCH (:Chunk {workspace: $workspace, id: id})-[x:MENTIONS|STATES]->()
            DELETE x
            """,
            workspace=workspace, ids=sorted({told.chunk_id for told in change.taken}),
        )  # fmt: skip
    if change.added:
        await tx.run(
            """
            CALL () {
                UNWIND $mentions AS row
                MATCH (c:Chunk {workspace: $workspace, id: row.chunk})
                MATCH (e:Entity {workspace: $workspace, key: row.entity})
                CREATE (c)-[m:MENTIONS]->(e) SET m = row, m.workspace = $workspace
            }
            CALL () {
                UNWIND $assertions AS row
                MATCH (c:Chunk {workspace: $workspace, id: row.chunk})
                MATCH (e:Entity {workspace: $workspace, key: row.source})
                CREATE (c)-[s:STATES]->(e) SET s = row, s.workspace = $workspace
            }
            """,
            workspace=workspace,
            mentions=[_mention_row(told) for told in change.added if _mentions(told)],
            assertions=[_assertion_row(told) for told in change.added if not _mentions(told)],
        )  # fmt: skip


def _mention_row(told: Told) -> Row:
    row = told.row
    assert isinstance(row, MentionRow)
    return {
        "entity": row.key,
        "chunk": told.chunk_id,
        "document": told.document_id,
        "name": row.name,
        "kind": row.kind,
        "description": row.description,
        "aliases": list(row.aliases),
        "alias_keys": list(told.aliases),
        "names": sorted({surface.key for surface in row.surfaces}),
        "surfaces": surfaces_json(row),
        "described": told.chunk_id if row.description else None,
        "about": told.chunk_id if row.about else None,
    }


def _assertion_row(told: Told) -> Row:
    row = told.row
    assert isinstance(row, AssertionRow)
    return {
        "relation": row.key,
        "chunk": told.chunk_id,
        "document": told.document_id,
        "source": row.source,
        "target": row.target,
        "description": row.description,
        "keywords": list(row.keywords),
        "strength": thousandths(row.strength),
        "described": told.chunk_id if row.description else None,
    }


async def _put_aliases(tx: Transaction, workspace: str, change: Change) -> None:
    counts: dict[tuple[str, str], int] = {}
    for told, sign in change.rows():
        for alias in told.aliases:
            pair = alias, told.row.key
            counts[pair] = counts.get(pair, 0) + sign
    rows = [
        {"alias": alias, "entity": entity, "more": more}
        for (alias, entity), more in sorted(counts.items())
        if more
    ]
    if rows:
        await tx.run(
            """
            UNWIND $rows AS row
            MERGE (a:Alias {workspace: $workspace, key: row.alias})
            SET a.locked = true, a.name = row.alias
            WITH a, row
            MATCH (e:Entity {workspace: $workspace, key: row.entity})
            MERGE (a)-[n:NAMES]->(e)
            SET n.count = coalesce(n.count, 0) + row.more
            WITH a, n WHERE n.count <= 0
            DELETE n
            WITH DISTINCT a WHERE NOT EXISTS { (a)-[:NAMES]->() }
            DELETE a
            """,
            workspace=workspace, rows=rows,
        )  # fmt: skip
