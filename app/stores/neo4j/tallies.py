"""Counters of entities and relations in Neo4j: locked and read, then written back.

Entities are locked in the order of their keys before anything is read of them, so transactions that
share hubs queue up without deadlock and lose nothing. A relation is changed only by who holds both
its ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain import relation_ends
from app.stores.counts import EntityCount, RelationCount, tally_of
from app.stores.neo4j.database import Row, Transaction
from app.stores.records import dump, strength


@dataclass(frozen=True, slots=True)
class Progress:
    """How far profiles and vectors have followed the evidence, in revisions."""

    revision: int
    shrunk: int = 0
    profiled: int = 0
    indexed: int = 0
    covered: int = 0


@dataclass(slots=True, kw_only=True)
class EntityTotal(EntityCount):
    key: str
    progress: Progress


@dataclass(slots=True, kw_only=True)
class RelationTotal(RelationCount):
    key: str
    progress: Progress
    known: bool  # there is a relationship
    former: bool  # its vector may still have to be deleted


# --- locking and reading -------------------------------------------------------------------------


async def lock_entities(
    tx: Transaction, workspace: str, keys: Iterable[str]
) -> dict[str, EntityTotal]:
    """Counters by key; entities that are new begin at nought."""
    rows = await tx.lock(
        """
        UNWIND $keys AS key
        MERGE (e:Entity {workspace: $workspace, key: key})
        ON CREATE SET e.name = '', e.profile = '', e.digest = '', e.mentions = 0,
            e.described = 0, e.abouts = 0, e.degree = 0, e.revision = 0, e.shrunk = 0,
            e.evidenced = 0, e.profiled = 0, e.indexed = 0, e.covered = 0,
            e.names_tally = '{}', e.kinds_tally = '{}', e.aliases_tally = '{}'
        SET e.locked = true
        RETURN properties(e) AS e, e.key IS NOT NULL AS there
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    return {row["e"]["key"]: _entity_of(row["e"]) for row in rows}


async def lock_relations(
    tx: Transaction, workspace: str, keys: Iterable[str], others: Iterable[str] = ()
) -> dict[str, RelationTotal]:
    """Counters of the relations with these keys. `others` are locked with them, since all locks of
    relations are taken at once, in the order of keys."""
    own = set(keys)
    rows = await tx.run(
        """
        UNWIND $rows AS row
        OPTIONAL MATCH ()-[r:RELATES {workspace: $workspace, key: row.key}]->()
        OPTIONAL MATCH (f:FormerRelation {workspace: $workspace, key: row.key})
        SET r.locked = true
        WITH row, r, f WHERE row.own
        RETURN row.key AS key, properties(r) AS r, f.revision AS former
        """,
        workspace=workspace,
        rows=[{"key": key, "own": key in own} for key in sorted({*own, *others})],
    )  # fmt: skip
    return {row["key"]: _relation_of(row) for row in rows}


async def relations_of(tx: Transaction, workspace: str, entities: Sequence[str]) -> set[str]:
    """Keys of all relations of these entities, whose locks keep others from adding to them."""
    if not entities:
        return set()
    rows = await tx.run(
        """
        UNWIND $entities AS key
        CALL (key) {
            MATCH ()-[r:RELATES]->() USING INDEX SEEK r:RELATES(workspace, source, lightness, key)
            WHERE r.workspace = $workspace AND r.source = key AND r.lightness IS NOT NULL
                AND r.key IS NOT NULL
            RETURN r.key AS relation
          UNION ALL
            MATCH ()-[r:RELATES]->() USING INDEX SEEK r:RELATES(workspace, target, lightness, key)
            WHERE r.workspace = $workspace AND r.target = key AND r.lightness IS NOT NULL
                AND r.key IS NOT NULL
            RETURN r.key AS relation
        }
        RETURN DISTINCT relation
        """,
        workspace=workspace, entities=entities,
    )  # fmt: skip
    return {row["relation"] for row in rows}


def _entity_of(e: Row) -> EntityTotal:
    return EntityTotal(
        key=e["key"],
        name=e["name"],
        tally=tally_of(e),
        mentions=e["mentions"],
        described=e["described"],
        abouts=e["abouts"],
        degree=e["degree"],
        progress=_progress_of(e),
    )


def _relation_of(row: Row) -> RelationTotal:
    """A former relation goes on counting revisions: late profiles of before must not win."""
    r, former = row["r"], row["former"]
    return RelationTotal(
        key=row["key"],
        tally=json.loads(r["keywords_tally"]) if r else {},
        weight=-r["lightness"] if r else 0,
        mentions=r["mentions"] if r else 0,
        described=r["described"] if r else 0,
        progress=_progress_of(r) if r else Progress(former or 0, former or 0),
        known=r is not None,
        former=former is not None,
    )


def _progress_of(row: Row) -> Progress:
    return Progress(
        row["revision"], row["shrunk"], row["profiled"], row["indexed"], row["covered"]
    )  # fmt: skip


# --- writing -------------------------------------------------------------------------------------


def _touched(one: EntityTotal | RelationTotal) -> Row:
    """Counters after a change of evidence. A lost description may be in the profile: `shrunk`
    refuses profiles made before, `covered` 0 asks for one made from scratch. Flags are absent
    (`None`) where they do not hold."""
    was, alive = one.progress, one.mentions > 0
    revision = was.revision + 1
    return {
        "mentions": one.mentions,
        "described": one.described,
        "revision": revision,
        "evidenced": revision,
        "shrunk": revision if one.lost else was.shrunk,
        "covered": 0 if one.lost else was.covered,
        "unprofiled": True if alive else None,
        "unindexed": True if not alive or was.indexed < was.profiled else None,
        **({} if alive else {"profile": "", "digest": ""}),
    }


async def put_entities(tx: Transaction, workspace: str, entities: Iterable[EntityTotal]) -> None:
    rows = [
        {
            "key": one.key,
            "properties": {
                "name": one.tally.name,
                "kind": one.tally.kind,
                "aliases": list(one.tally.shown_aliases),
                "words": one.words,
                "names_tally": dump(one.tally.names),
                "kinds_tally": dump(one.tally.kinds),
                "aliases_tally": dump(one.tally.aliases),
                "rank": -one.mentions if one.mentions else None,
                "abouts": one.abouts,
                "degree": one.degree,
                **_touched(one),
            },
        }
        for one in entities
    ]
    await tx.run(
        """
        UNWIND $rows AS row
        MATCH (e:Entity {workspace: $workspace, key: row.key})
        SET e += row.properties
        """,
        workspace=workspace, rows=rows,
    )  # fmt: skip


async def put_relations(
    tx: Transaction, workspace: str, relations: Sequence[RelationTotal]
) -> None:
    """A relation without evidence leaves the graph at once; a node keeps its place until its
    vector is gone."""
    known = [_relation_row(one) for one in relations if one.known and one.mentions]
    fresh = [_relation_row(one) for one in relations if not one.known and one.mentions]
    gone = [
        {"key": one.key, "revision": one.progress.revision + 1}
        for one in relations
        if not one.mentions
    ]
    await tx.run(
        """
        CALL () {
            UNWIND $known AS row
            MATCH ()-[r:RELATES {workspace: $workspace, key: row.key}]->()
            SET r += row.properties
        }
        CALL () {
            UNWIND $fresh AS row
            MATCH (s:Entity {workspace: $workspace, key: row.source})
            MATCH (t:Entity {workspace: $workspace, key: row.target})
            CREATE (s)-[r:RELATES {
                workspace: $workspace, key: row.key, source: row.source, target: row.target,
                profile: '', digest: '', profiled: 0, indexed: 0
            }]->(t)
            SET r += row.properties
        }
        CALL () {
            UNWIND $gone AS row
            MATCH ()-[r:RELATES {workspace: $workspace, key: row.key}]->()
            MERGE (f:FormerRelation {workspace: $workspace, key: row.key})
            SET f.revision = row.revision, f.name = row.key
            DELETE r
        }
        CALL () {
            UNWIND $back AS key
            MATCH (f:FormerRelation {workspace: $workspace, key: key})
            DELETE f
        }
        """,
        workspace=workspace, known=known, fresh=fresh, gone=gone,
        back=[one.key for one in relations if one.former and one.mentions],
    )  # fmt: skip


def _relation_row(one: RelationTotal) -> Row:
    source, target = relation_ends(one.key)
    properties = {
        "keywords": list(one.keywords),
        "keywords_tally": dump(one.tally),
        "weight": strength(one.weight),
        "lightness": -one.weight,
        **_touched(one),
    }
    return {"key": one.key, "source": source, "target": target, "properties": properties}


async def note_renamed(
    tx: Transaction, workspace: str, entities: Iterable[EntityTotal], touched: Iterable[str]
) -> None:
    """The indexed text of a relation has the names of its ends. Its evidence is what it was, so a
    profile that was up to date stays so; only the vector falls behind."""
    keys = await relations_of(tx, workspace, [one.key for one in entities if one.renamed])
    if others := sorted(keys - set(touched)):
        await tx.run(
            """
            UNWIND $keys AS key
            MATCH ()-[r:RELATES {workspace: $workspace, key: key}]->() SET r.locked = true
            WITH r, r.profiled = r.revision AS fresh, r.revision + 1 AS revision
            SET r.revision = revision, r.renamed = revision,
                r.profiled = r.profiled + CASE WHEN fresh THEN 1 ELSE 0 END,
                r.unindexed = CASE WHEN fresh THEN true ELSE r.unindexed END
            """,
            workspace=workspace, keys=others,
        )  # fmt: skip
