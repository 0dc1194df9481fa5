"""Communities in Neo4j, and what the fold does to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import LiteralString

from app.domain import Cluster, Clustering, Community, Division, Report, Usage
from app.stores.neo4j.database import Database, Row, Transaction
from app.stores.records import dump, in_order, report_json, report_of, unique

# Of a community `c`, whose lock is held. `version` counts what makes a report in the making void;
# `unindexed` is there while its point is to be written or deleted.
_ERASE: LiteralString = """
    SET c.version = c.version + 1, c.report = null, c.rank = null, c.wanting = null, c.covered = 0,
        c.indexed = false, c.digest = '', c.name = '', c.unindexed = c.pointed
    """
_SHOWN: LiteralString = """
    properties(c) AS c, COUNT { (c)<-[:MEMBER_OF]-() } AS size,
    reduce(sum = 0, n IN [(c)<-[:MEMBER_OF]-(e) | e.mentions] | sum + n) AS mentions
    """


async def take_back(tx: Transaction, workspace: str, keys: Sequence[str]) -> None:
    """These entities, whose locks are held, have lost evidence, which reports on their communities
    may tell of. Last of all in a transaction: large communities are shared by many."""
    if not keys:
        return
    await tx.run(
        f"""
        UNWIND $keys AS key
        MATCH (:Entity {{workspace: $workspace, key: key}})-[:MEMBER_OF]->(c)
        WITH DISTINCT c ORDER BY c.id
        SET c.locked = true
        {_ERASE}
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    await tx.run(
        """
        UNWIND $keys AS key
        MATCH (e:Entity {workspace: $workspace, key: key})-[m:MEMBER_OF]->(c)
        WHERE e.mentions = 0
        DELETE m
        WITH DISTINCT c WHERE NOT EXISTS { (c)<-[:MEMBER_OF]-() }
        SET c.gone = true
        WITH c WHERE c.pointed IS NULL
        DETACH DELETE c
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip


class Neo4jCommunities:
    """Implements `app.ports.Communities`."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    # --- the division ----------------------------------------------------------------------------

    async def division(self) -> Division | None:
        rows = await self._database.read(
            "MATCH (d:Division {workspace: $workspace}) RETURN properties(d) AS d",
            workspace=self._workspace,
        )
        if not rows:
            return None
        d = rows[0]["d"]
        usage = Usage(d["llm_calls"], d["prompt_tokens"], d["completion_tokens"], d["cost"])
        return Division(Clustering(**json.loads(d["clustering"])), d["job_id"], usage)

    async def begin(self, job_id: str, clustering: Clustering) -> None:
        await self._database.write(
            """
            MERGE (d:Division {workspace: $workspace})
            ON CREATE SET d.llm_calls = 0, d.prompt_tokens = 0, d.completion_tokens = 0,
                d.cost = 0.0
            SET d.job_id = $job, d.clustering = $clustering
            """,
            workspace=self._workspace, job=job_id, clustering=dump(asdict(clustering)),
        )  # fmt: skip

    async def charge(self, usage: Usage) -> None:
        await self._database.write(
            """
            MATCH (d:Division {workspace: $workspace}) SET d.locked = true
            SET d.llm_calls = d.llm_calls + $usage.llm_calls,
                d.prompt_tokens = d.prompt_tokens + $usage.prompt_tokens,
                d.completion_tokens = d.completion_tokens + $usage.completion_tokens,
                d.cost = d.cost + $usage.cost
            """,
            workspace=self._workspace, usage=asdict(usage),
        )  # fmt: skip

    async def _divides(self, tx: Transaction, job_id: str) -> bool:
        rows = await tx.run(
            """
            MATCH (d:Division {workspace: $workspace}) SET d.locked = true
            RETURN d.job_id = $job AS its
            """,
            workspace=self._workspace, job=job_id,
        )  # fmt: skip
        return bool(rows) and bool(rows[0]["its"])

    # --- clusters --------------------------------------------------------------------------------

    async def put(self, job_id: str, clusters: Sequence[Cluster]) -> bool:
        """Entities are locked before their communities, as by the fold: who takes evidence back
        sees the membership, or it is seen that an entity has none left."""

        async def work(tx: Transaction) -> bool:
            if not await self._divides(tx, job_id):
                return False
            await tx.run(
                """
                UNWIND $keys AS key
                MATCH (e:Entity {workspace: $workspace, key: key}) SET e.locked = true
                """,
                workspace=self._workspace,
                keys=sorted({key for one in clusters for key in one.members}),
            )  # fmt: skip
            await tx.run(
                f"""
                UNWIND $rows AS row
                MERGE (c:Community {{workspace: $workspace, id: row.id}})
                ON CREATE SET c.version = 0, c.covered = 0, c.indexed = false, c.digest = '',
                    c.name = ''
                SET c.locked = true, c.level = row.level, c.parent = row.parent, c.leaf = row.leaf,
                    c.gone = null
                WITH c, row
                CALL (c, row) {{
                    OPTIONAL MATCH (c)<-[m:MEMBER_OF]-(e) WHERE NOT e.key IN row.members
                    DELETE m
                    RETURN count(m) AS left
                }}
                CALL (c, row) {{
                    UNWIND row.members AS key
                    MATCH (e:Entity {{workspace: $workspace, key: key}})
                    WHERE e.mentions > 0 AND NOT EXISTS {{ (e)-[:MEMBER_OF]->(c) }}
                    CREATE (e)-[:MEMBER_OF]->(c)
                    RETURN count(e) AS come
                }}
                WITH c, left, come, NOT EXISTS {{ (c)<-[:MEMBER_OF]-() }} AS empty
                CALL (c, left, come, empty) {{
                    WITH c, left, come, empty WHERE left > 0 OR empty
                    {_ERASE}
                  UNION
                    WITH c, left, come, empty WHERE left = 0 AND come > 0
                    SET c.version = c.version + 1
                }}
                WITH c, empty WHERE empty
                SET c.gone = true
                WITH c WHERE c.pointed IS NULL
                DETACH DELETE c
                """,
                workspace=self._workspace, rows=[_cluster_row(one) for one in _by_id(clusters)],
            )  # fmt: skip
            return True

        return await self._database.transaction(work)

    async def drop(self, job_id: str, ids: Sequence[str]) -> bool:
        async def work(tx: Transaction) -> bool:
            if not await self._divides(tx, job_id):
                return False
            await tx.run(
                f"""
                UNWIND $ids AS id
                MATCH (c:Community {{workspace: $workspace, id: id}})
                SET c.locked = true, c.gone = true
                {_ERASE}
                WITH c
                CALL (c) {{ MATCH (c)<-[m:MEMBER_OF]-() DELETE m }}
                WITH c WHERE c.pointed IS NULL
                DETACH DELETE c
                """,
                workspace=self._workspace, ids=sorted(set(ids)),
            )  # fmt: skip
            return True

        return await self._database.transaction(work)

    # --- reports ---------------------------------------------------------------------------------

    async def put_report(
        self, community_id: str, report: Report, *, version: int, covered: int
    ) -> bool:
        rows = await self._database.write(
            """
            MATCH (c:Community {workspace: $workspace, id: $id}) SET c.locked = true
            WITH c WHERE c.version = $version AND c.gone IS NULL
            SET c.report = $report, c.name = $title, c.rank = -$rating, c.wanting = $wanting,
                c.covered = $covered, c.indexed = false, c.pointed = true, c.unindexed = true,
                c.version = c.version + 1
            RETURN c.id AS id
            """,
            workspace=self._workspace, id=community_id, version=version, covered=covered,
            report=report_json(report), title=report.title, rating=report.rating,
            wanting=True if report.fault else None,
        )  # fmt: skip
        return bool(rows)

    async def due(self) -> list[str]:
        rows = await self._database.read(
            """
            MATCH (c:Community) WHERE c.workspace = $workspace AND c.id IS NOT NULL
                AND c.gone IS NULL
            OPTIONAL MATCH (c)<-[:MEMBER_OF]-(e)
            WITH c, sum(e.mentions) AS mentions
            WHERE c.report IS NULL OR c.wanting OR c.covered <> mentions
            RETURN c.id AS id ORDER BY c.level DESC, id
            """,
            workspace=self._workspace,
        )
        return [row["id"] for row in rows]

    # --- reading ---------------------------------------------------------------------------------

    async def get(self, ids: Sequence[str]) -> list[Community]:
        rows = await self._database.read(
            f"""
            UNWIND $ids AS id
            MATCH (c:Community {{workspace: $workspace, id: id}}) WHERE c.gone IS NULL
            RETURN id, {_SHOWN}
            """,
            workspace=self._workspace, ids=unique(ids),
        )  # fmt: skip
        return [_community_of(row) for row in in_order(rows, ids, by="id")]

    async def page(
        self, *, level: int | None = None, after: str = "", limit: int = 50
    ) -> list[Community]:
        rows = await self._database.read(
            f"""
            MATCH (c:Community) WHERE c.workspace = $workspace AND c.id > $after
                AND c.gone IS NULL AND ($level IS NULL OR c.level = $level)
            WITH c ORDER BY c.workspace, c.id LIMIT $limit
            RETURN {_SHOWN} ORDER BY c.id
            """,
            workspace=self._workspace, after=after, level=level, limit=limit,
        )  # fmt: skip
        return [_community_of(row) for row in rows]

    async def at_level(self, level: int, *, limit: int) -> list[Community]:
        rows = await self._database.read(
            f"""
            UNWIND range(0, $level) AS level
            CALL (level) {{
                MATCH (c:Community) USING INDEX SEEK c:Community(workspace, level, rank, id)
                WHERE c.workspace = $workspace AND c.level = level AND c.rank IS NOT NULL
                    AND c.id IS NOT NULL AND (level = $level OR c.leaf)
                RETURN c ORDER BY c.workspace, c.level, c.rank, c.id LIMIT $limit
            }}
            WITH c ORDER BY c.rank, c.id LIMIT $limit
            RETURN {_SHOWN} ORDER BY c.rank, c.id
            """,
            workspace=self._workspace, level=level, limit=limit,
        )  # fmt: skip
        return [_community_of(row) for row in rows]

    async def clusters(self, *, after: str = "", limit: int) -> list[Cluster]:
        rows = await self._database.read(
            """
            MATCH (c:Community) WHERE c.workspace = $workspace AND c.id > $after
                AND c.gone IS NULL
            WITH c ORDER BY c.workspace, c.id LIMIT $limit
            RETURN c {.id, .level, .parent, .leaf} AS c,
                [(c)<-[:MEMBER_OF]-(e) | e.key] AS members
            ORDER BY c.id
            """,
            workspace=self._workspace, after=after, limit=limit,
        )  # fmt: skip
        return [
            Cluster(c["id"], c["level"], c["parent"], c["leaf"], tuple(sorted(members)))
            for c, members in ((row["c"], row["members"]) for row in rows)
        ]

    async def levels(self) -> dict[int, int]:
        rows = await self._database.read(
            """
            MATCH (c:Community) WHERE c.workspace = $workspace AND c.id IS NOT NULL
                AND c.gone IS NULL
            RETURN c.level AS level, count(*) AS count ORDER BY level
            """,
            workspace=self._workspace,
        )
        return {row["level"]: row["count"] for row in rows}

    async def members(self, community_id: str, *, after: str = "", limit: int) -> list[str]:
        rows = await self._database.read(
            """
            OPTIONAL MATCH (last:Entity {workspace: $workspace, key: $after})
            WITH last WHERE $after = '' OR last IS NOT NULL
            MATCH (c:Community {workspace: $workspace, id: $id})<-[:MEMBER_OF]-(e)
            WHERE c.gone IS NULL AND (last IS NULL OR e.mentions < last.mentions
                OR e.mentions = last.mentions AND e.key > last.key)
            RETURN e.key AS key ORDER BY e.mentions DESC, key LIMIT $limit
            """,
            workspace=self._workspace, id=community_id, after=after, limit=limit,
        )  # fmt: skip
        return [row["key"] for row in rows]

    async def of_entities(self, keys: Sequence[str], *, level: int) -> dict[str, str]:
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            MATCH (:Entity {workspace: $workspace, key: key})-[:MEMBER_OF]->(c)
            WHERE c.gone IS NULL AND c.level <= $level
            RETURN key, c.id AS id ORDER BY c.level, id DESC
            """,
            workspace=self._workspace, keys=unique(keys), level=level,
        )  # fmt: skip
        found = {row["key"]: row["id"] for row in rows}
        return {key: found[key] for key in unique(keys) if key in found}


def _by_id(clusters: Sequence[Cluster]) -> list[Cluster]:
    return sorted(clusters, key=lambda one: one.id)


def _cluster_row(cluster: Cluster) -> Row:
    return {
        "id": cluster.id,
        "level": cluster.level,
        "parent": cluster.parent,
        "leaf": cluster.leaf,
        "members": list(cluster.members),
    }


def _community_of(row: Row) -> Community:
    c = row["c"]
    return Community(
        c["id"], c["level"], c["parent"], c["leaf"], row["size"], row["mentions"], c["version"],
        report_of(c["report"]) if c.get("report") else None, c["covered"], c["indexed"],
        c["digest"],
    )  # fmt: skip
