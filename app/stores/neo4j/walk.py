"""Breadth first from some entities along the heaviest relations: one read per level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from app.stores.neo4j.database import Database, Row

# Per entity its relations, heaviest first, then by key.
HEAVIEST: LiteralString = """
    UNWIND $keys AS key
    CALL (key) {
        CALL (key) {
            MATCH ()-[r:RELATES]->() USING INDEX r:RELATES(workspace, source, lightness, key)
            WHERE r.workspace = $workspace AND r.source = key
                AND r.lightness IS NOT NULL AND r.key IS NOT NULL
            RETURN r ORDER BY r.workspace, r.source, r.lightness, r.key LIMIT $limit
          UNION ALL
            MATCH ()-[r:RELATES]->() USING INDEX r:RELATES(workspace, target, lightness, key)
            WHERE r.workspace = $workspace AND r.target = key
                AND r.lightness IS NOT NULL AND r.key IS NOT NULL
            RETURN r ORDER BY r.workspace, r.target, r.lightness, r.key LIMIT $limit
        }
        WITH r ORDER BY r.lightness, r.key LIMIT $limit
        RETURN collect(r {.key, .source, .target, .lightness}) AS relations
    }
    RETURN key, relations
    """


@dataclass(frozen=True, slots=True)
class Found:
    """Keys: entities in the order in which they were reached, relations heaviest first."""

    entities: list[str]
    relations: list[str]
    truncated: bool


async def neighbourhood(
    database: Database, workspace: str, seeds: Sequence[str], *, depth: int, limit: int
) -> Found:
    """Entities level by level, those behind heavier relations first, and the relations among them.
    A hub is read up to `limit` relations."""
    found = dict.fromkeys(seeds[:limit])
    truncated = len(seeds) > limit
    seen: dict[str, Row] = {}
    frontier = list(found)
    for level in range(depth + 1):  # the last level finds relations, but no further entities
        reached: dict[str, Row] = {}
        for row in await _heaviest(database, workspace, frontier, limit=limit + 1):
            truncated |= len(row["relations"]) > limit
            reached |= {relation["key"]: relation for relation in row["relations"][:limit]}
        seen |= reached
        frontier = []
        if level == depth:
            break
        for relation in sorted(reached.values(), key=_weight_then_key):
            for end in (relation["source"], relation["target"]):
                if end in found:
                    continue
                if len(found) == limit:
                    truncated = True
                    continue
                found[end] = None
                frontier.append(end)
    inside = [one for one in seen.values() if {one["source"], one["target"]} <= found.keys()]
    return Found(
        list(found), [one["key"] for one in sorted(inside, key=_weight_then_key)], truncated
    )


async def _heaviest(
    database: Database, workspace: str, keys: Sequence[str], *, limit: int
) -> list[Row]:
    if not keys:
        return []
    return await database.read(
        HEAVIEST, workspace=workspace, keys=list(keys), limit=limit,
    )  # fmt: skip


def _weight_then_key(relation: Row) -> tuple[int, str]:
    return relation["lightness"], relation["key"]
