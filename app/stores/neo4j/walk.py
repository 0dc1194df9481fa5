"""Along relations: the heaviest of entities first, and breadth first from some entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from app.stores.neo4j.database import Database, Row
from app.stores.neo4j.pieces import FEW_DOCUMENTS
from app.stores.records import unique
from app.stores.walk import Edge, Walk

_SHOWN: LiteralString = "collect(r {.key, .source, .target, .lightness}) AS relations"


def _at(end: LiteralString) -> LiteralString:
    """Relations with the entity at this end, from the heaviest on, until enough have evidence."""
    return f"""
            MATCH ()-[r:RELATES]->() USING INDEX SEEK r:RELATES(workspace, {end}, lightness, key)
            WHERE r.workspace = $workspace AND r.{end} = key
                AND r.lightness IS NOT NULL AND r.key IS NOT NULL
                AND ($documents IS NULL OR EXISTS {{
                    MATCH ()-[e:STATES]->() USING INDEX SEEK e:STATES(workspace, relation, chunk)
                    WHERE e.workspace = $workspace AND e.relation = r.key
                        AND e.chunk IS NOT NULL AND e.document IN $documents }})
            RETURN r ORDER BY r.workspace, r.{end}, r.lightness, r.key LIMIT $limit
            """


# Per entity its relations, heaviest first, then by key.
HEAVIEST: LiteralString = f"""
    UNWIND $keys AS key
    CALL (key) {{
        CALL (key) {{ {_at("source")} UNION ALL {_at("target")} }}
        WITH r ORDER BY r.lightness, r.key LIMIT $limit
        RETURN {_SHOWN}
    }}
    RETURN key, relations
    """
# With few documents: what their chunks that mention the entity say about it.
TOLD: LiteralString = f"""
    UNWIND $keys AS key
    CALL (key) {{
        UNWIND $documents AS document
        MATCH (c)-[m:MENTIONS]->() USING INDEX SEEK m:MENTIONS(workspace, entity, document)
        WHERE m.workspace = $workspace AND m.entity = key AND m.document = document
        MATCH (c)-[e:STATES]->() WHERE e.source = key OR e.target = key
        WITH DISTINCT e.relation AS relation
        MATCH ()-[r:RELATES {{workspace: $workspace, key: relation}}]->()
        WITH r ORDER BY r.lightness, r.key LIMIT $limit
        RETURN {_SHOWN}
    }}
    RETURN key, relations
    """


async def heaviest(
    database: Database, workspace: str, keys: Sequence[str], *,
    limit: int, documents: Sequence[str] | None = None,
) -> dict[str, list[Row]]:  # fmt: skip
    """Entity key -> key, source, target and lightness of its first `limit` relations."""
    if not keys:
        return {}
    few = documents is not None and len(documents) <= FEW_DOCUMENTS
    rows = await database.read(
        TOLD if few else HEAVIEST, workspace=workspace, keys=unique(keys), limit=limit,
        documents=None if documents is None else list(documents),
    )  # fmt: skip
    return {row["key"]: row["relations"] for row in rows}


async def neighbourhood(
    database: Database, workspace: str, seeds: Sequence[str], *, depth: int, limit: int
) -> tuple[Walk[str], list[str]]:
    """Entities and the keys of relations among them: one read per level. A hub is read up to
    `limit` relations."""
    walk = Walk(seeds, limit=limit)
    for _ in range(depth):
        walk.follow(await _edges(database, workspace, walk))
    return walk, walk.end(await _edges(database, workspace, walk))


async def _edges(database: Database, workspace: str, walk: Walk[str]) -> list[Edge[str]]:
    found = await heaviest(database, workspace, walk.frontier, limit=walk.limit + 1)
    walk.truncated |= any(len(relations) > walk.limit for relations in found.values())
    return [
        Edge(one["key"], one["source"], one["target"], -one["lightness"])
        for relations in found.values()
        for one in relations[: walk.limit]
    ]
