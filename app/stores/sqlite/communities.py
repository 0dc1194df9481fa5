"""Communities in SQLite, and what the fold does to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from sqlite3 import Connection, Row

from app.domain import Cluster, Clustering, Community, Division, Report, Usage
from app.stores.records import dump, in_order, report_json, report_of, unique
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.rows import listed


def take_back(connection: Connection, seqs: Iterable[int]) -> None:
    """These entities have lost evidence, which reports on their communities may tell of."""
    bound = {"entities": dump(sorted(seqs))}
    connection.execute(
        "update communities set version = version + 1, report = null, rating = 0, wanting = 0,"
        " covered = 0, indexed = 0, digest = ''"
        " where seq in (select m.community from json_each(:entities) e cross join members m"
        " where m.entity = e.value)",
        bound,
    )
    left = connection.execute(
        "delete from members where entity in (select e.seq from json_each(:entities) x"
        " cross join entities e where e.seq = x.value and e.mentions = 0) returning community",
        bound,
    ).fetchall()
    if left:
        connection.execute(
            "update communities set gone = 1 where seq in (select value from json_each(?))"
            " and not exists (select 1 from members m where m.community = communities.seq)",
            (dump([row["community"] for row in left]),),
        )
        connection.execute(
            "delete from communities where seq in (select value from json_each(?))"
            " and gone = 1 and pointed = 0",
            (dump([row["community"] for row in left]),),
        )


class SqliteCommunities:
    """Implements `app.ports.Communities`."""

    def __init__(self, database: SqliteDatabase, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    # --- the division ----------------------------------------------------------------------------

    async def division(self) -> Division | None:
        rows = await self._database.rows(
            "select * from divisions where workspace = :workspace", self._bound()
        )
        if not rows:
            return None
        [row] = rows
        usage = Usage(
            row["llm_calls"], row["prompt_tokens"], row["completion_tokens"], row["cost"]
        )  # fmt: skip
        return Division(Clustering(**json.loads(row["clustering"])), row["job_id"], usage)

    async def begin(self, job_id: str, clustering: Clustering) -> None:
        def work(connection: Connection) -> None:
            connection.execute(
                "insert into divisions (workspace, job_id, clustering)"
                " values (:workspace, :job, :clustering) on conflict (workspace) do update set"
                " job_id = excluded.job_id, clustering = excluded.clustering",
                {**self._bound(), "job": job_id, "clustering": dump(asdict(clustering))},
            )

        await self._database.write(work, durable=True)

    async def charge(self, usage: Usage) -> None:
        def work(connection: Connection) -> None:
            connection.execute(
                "update divisions set llm_calls = llm_calls + :llm_calls,"
                " prompt_tokens = prompt_tokens + :prompt_tokens,"
                " completion_tokens = completion_tokens + :completion_tokens, cost = cost + :cost"
                " where workspace = :workspace",
                {**self._bound(), **asdict(usage)},
            )

        await self._database.write(work)

    # --- clusters --------------------------------------------------------------------------------

    async def put(self, job_id: str, clusters: Sequence[Cluster]) -> bool:
        def work(connection: Connection) -> bool:
            if not self._divides(connection, job_id):
                return False
            for cluster in clusters:
                self._put(connection, cluster)
            return True

        return await self._database.write(work)

    def _put(self, connection: Connection, cluster: Cluster) -> None:
        [seq] = connection.execute(
            "insert into communities (workspace, id, level, parent, leaf)"
            " values (:workspace, :id, :level, :parent, :leaf) on conflict (workspace, id)"
            " do update set level = excluded.level, parent = excluded.parent,"
            " leaf = excluded.leaf, gone = 0 returning seq",
            {
                **self._bound(), "id": cluster.id, "level": cluster.level,
                "parent": cluster.parent, "leaf": cluster.leaf,
            },
        ).fetchone()  # fmt: skip
        had = {row["entity"] for row in connection.execute(
            "select entity from members where community = ?", (seq,)
        )}  # fmt: skip
        has = {row["seq"] for row in connection.execute(
            "select e.seq from json_each(:keys) k cross join entities e"
            " where e.workspace = :workspace and e.key = k.value and e.mentions > 0",
            {**self._bound(), "keys": listed(cluster.members)},
        )}  # fmt: skip
        connection.executemany(
            "delete from members where community = ? and entity = ?",
            [(seq, one) for one in had - has],
        )
        connection.executemany(
            "insert into members (community, entity) values (?, ?)",
            [(seq, one) for one in has - had],
        )
        if had - has or not has:  # what the report tells may be of somebody who is no member
            self._erase(connection, [seq])
        elif has - had:
            connection.execute("update communities set version = version + 1 where seq = ?", (seq,))
        if not has:
            self._bury(connection, [seq])

    async def drop(self, job_id: str, ids: Sequence[str]) -> bool:
        def work(connection: Connection) -> bool:
            if not self._divides(connection, job_id):
                return False
            rows = connection.execute(
                "select c.seq from json_each(:ids) i cross join communities c"
                " where c.workspace = :workspace and c.id = i.value",
                {**self._bound(), "ids": listed(ids)},
            ).fetchall()
            seqs = [row["seq"] for row in rows]
            self._erase(connection, seqs)
            connection.execute(
                "delete from members where community in (select value from json_each(?))",
                (dump(seqs),),
            )
            self._bury(connection, seqs)
            return True

        return await self._database.write(work)

    def _divides(self, connection: Connection, job_id: str) -> bool:
        return connection.execute(
            "select 1 from divisions where workspace = :workspace and job_id = :job",
            {**self._bound(), "job": job_id},
        ).fetchone() is not None  # fmt: skip

    def _erase(self, connection: Connection, seqs: Sequence[int]) -> None:
        connection.execute(
            "update communities set version = version + 1, report = null, rating = 0, wanting = 0,"
            " covered = 0, indexed = 0, digest = ''"
            " where seq in (select value from json_each(?))",
            (dump(seqs),),
        )

    def _bury(self, connection: Connection, seqs: Sequence[int]) -> None:
        """At once where there can be no point, else when that is deleted."""
        for sql in (
            "update communities set gone = 1 where seq in (select value from json_each(?))",
            "delete from communities where seq in (select value from json_each(?)) and pointed = 0",
        ):
            connection.execute(sql, (dump(seqs),))

    # --- reports ---------------------------------------------------------------------------------

    async def put_report(
        self, community_id: str, report: Report, *, version: int, covered: int
    ) -> bool:
        def work(connection: Connection) -> bool:
            return connection.execute(
                "update communities set report = :report, rating = :rating, wanting = :wanting,"
                " covered = :covered, indexed = 0, pointed = 1, version = version + 1"
                " where workspace = :workspace and id = :id and version = :version and gone = 0",
                {
                    **self._bound(), "id": community_id, "version": version, "covered": covered,
                    "report": report_json(report), "rating": report.rating,
                    "wanting": bool(report.fault),
                },
            ).rowcount > 0  # fmt: skip

        return await self._database.write(work, durable=bool(report.model))

    async def due(self) -> list[str]:
        rows = await self._database.rows(
            f"select id from (select {_COLUMNS}, c.report, c.wanting from communities c"
            " where c.workspace = :workspace and c.gone = 0)"
            " where report is null or wanting = 1 or covered <> mentions"
            " order by level desc, id",
            self._bound(),
        )
        return [row["id"] for row in rows]

    # --- reading ---------------------------------------------------------------------------------

    async def get(self, ids: Sequence[str]) -> list[Community]:
        rows = await self._database.rows(
            f"select {_COLUMNS}, c.report from json_each(:ids) i cross join communities c"
            " where c.workspace = :workspace and c.id = i.value and c.gone = 0",
            {**self._bound(), "ids": listed(ids)},
        )
        return [_community_of(row) for row in in_order(rows, ids, by="id")]

    async def page(
        self, *, level: int | None = None, after: str = "", limit: int = 50
    ) -> list[Community]:
        narrowed = "" if level is None else "and c.level = :level"
        rows = await self._database.rows(
            f"select {_COLUMNS}, c.report from communities c"
            f" where c.workspace = :workspace and c.gone = 0 and c.id > :after {narrowed}"
            " order by c.id limit :limit",
            {**self._bound(), "after": after, "limit": limit, "level": level},
        )
        return [_community_of(row) for row in rows]

    async def at_level(self, level: int, *, limit: int) -> list[Community]:
        rows = await self._database.rows(
            f"select {_COLUMNS}, c.report, c.rating from communities c"
            " where c.workspace = :workspace and c.gone = 0 and c.report is not null"
            " and (c.level = :level or (c.level < :level and c.leaf = 1))"
            " order by c.rating desc, c.id limit :limit",
            {**self._bound(), "level": level, "limit": limit},
        )
        return [_community_of(row) for row in rows]

    async def clusters(self, *, after: str = "", limit: int) -> list[Cluster]:
        def work(connection: Connection) -> list[Cluster]:
            rows = connection.execute(
                "select seq, id, level, parent, leaf from communities"
                " where workspace = :workspace and gone = 0 and id > :after"
                " order by id limit :limit",
                {**self._bound(), "after": after, "limit": limit},
            ).fetchall()
            return [
                Cluster(
                    row["id"], row["level"], row["parent"], bool(row["leaf"]),
                    tuple(one["key"] for one in connection.execute(_MEMBERS, (row["seq"],))),
                )
                for row in rows
            ]  # fmt: skip

        return await self._database.read(work)

    async def levels(self) -> dict[int, int]:
        rows = await self._database.rows(
            "select level, count(*) as count from communities"
            " where workspace = :workspace and gone = 0 group by level order by level",
            self._bound(),
        )
        return {row["level"]: row["count"] for row in rows}

    async def members(self, community_id: str, *, after: str = "", limit: int) -> list[str]:
        behind = ""
        if after:
            behind = (
                "and (-e.mentions, e.key) > (select -mentions, key from entities"
                " where workspace = :workspace and key = :after)"
            )
        rows = await self._database.rows(
            "select e.key from communities c cross join members m cross join entities e"
            " where c.workspace = :workspace and c.id = :id and c.gone = 0"
            f" and m.community = c.seq and e.seq = m.entity {behind}"
            " order by e.mentions desc, e.key limit :limit",
            {**self._bound(), "id": community_id, "after": after, "limit": limit},
        )
        return [row["key"] for row in rows]

    async def of_entities(self, keys: Sequence[str], *, level: int) -> dict[str, str]:
        rows = await self._database.rows(
            "select e.key, c.id from json_each(:keys) k cross join entities e"
            " cross join members m cross join communities c"
            " where e.workspace = :workspace and e.key = k.value and m.entity = e.seq"
            " and c.seq = m.community and c.gone = 0 and c.level <= :level"
            " order by c.level, c.id desc",  # during a new division, two may have it
            {**self._bound(), "keys": listed(keys), "level": level},
        )
        found = {row["key"]: row["id"] for row in rows}
        return {key: found[key] for key in unique(keys) if key in found}

    def _bound(self) -> dict[str, object]:
        return {"workspace": self._workspace}


_SIZE = "(select count(*) from members m where m.community = c.seq)"
_MENTIONS = (
    "(select coalesce(sum(e.mentions), 0) from members m cross join entities e"
    " where m.community = c.seq and e.seq = m.entity)"
)
_COLUMNS = (
    "c.id, c.level, c.parent, c.leaf, c.version, c.covered, c.indexed, c.digest,"
    f" {_SIZE} as size, {_MENTIONS} as mentions"
)
_MEMBERS = (
    "select e.key from members m cross join entities e"
    " where m.community = ? and e.seq = m.entity order by e.key"
)


def _community_of(row: Row) -> Community:
    return Community(
        row["id"], row["level"], row["parent"], bool(row["leaf"]), row["size"], row["mentions"],
        row["version"], report_of(row["report"]) if row["report"] else None, row["covered"],
        bool(row["indexed"]), row["digest"],
    )  # fmt: skip
