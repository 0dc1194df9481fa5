"""Whether a passage uses two names, whatever entities they mean: decisions may depend on it, and
must not depend on what was decided before."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import LiteralString, Protocol

from app.stores.neo4j.database import Row


class Run(Protocol):
    """Runs a query, in a transaction or by itself."""

    def __call__(self, query: LiteralString, **parameters: object) -> Awaitable[list[Row]]: ...


async def together(
    run: Run, workspace: str, pairs: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Mentions under a name are of the entity that has it for its key, or of one with it as an
    alias; those of the rarer one's are looked through."""
    rows = await run(
        """
        UNWIND $pairs AS pair
        CALL (pair) {
            UNWIND pair AS key
            CALL (key) {
                MATCH (e:Entity {workspace: $workspace, key: key}) RETURN e
              UNION
                MATCH (:Alias {workspace: $workspace, key: key})-[:NAMES]->(e) RETURN e
            }
            WITH key, collect(e) AS homes, sum(e.mentions) AS mentions ORDER BY mentions, key
            RETURN collect({key: key, homes: homes}) AS ends
        }
        WITH pair, ends[0] AS one, ends[1] AS other WHERE size(ends) = 2
        CALL (one, other) {
            UNWIND one.homes AS a
            MATCH (a)<-[m:MENTIONS]-(c) WHERE one.key IN m.names
            MATCH (c)-[n:MENTIONS]->(b) WHERE b IN other.homes AND other.key IN n.names
            RETURN 1 AS met LIMIT 1
        }
        RETURN pair
        """,
        workspace=workspace, pairs=[list(pair) for pair in pairs],
    )  # fmt: skip
    return {(row["pair"][0], row["pair"][1]) for row in rows}
