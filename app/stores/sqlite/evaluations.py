"""Evaluations of a workspace, what they have measured so far, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from sqlite3 import Connection, Row

from app.domain import Evaluation, Job
from app.stores.refusals import no_evaluation
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.jobs import insert_job, job_exists

_MEASURED = (
    "case when e.result <> '' then e.total"
    " else (select count(*) from outcomes o where o.evaluation = e.id) end as measured"
)


class SqliteEvaluations:
    """Implements `app.ports.Evaluations`."""

    def __init__(self, database: SqliteDatabase, workspace: str) -> None:
        self._database, self._workspace = database, workspace

    async def open(self, evaluation: Evaluation, job: Job) -> None:
        def work(connection: Connection) -> None:
            if job_exists(connection, job.id):
                return
            now = self._database.clock()
            insert_job(connection, self._workspace, job, now)
            connection.execute(
                "insert into evaluations (id, workspace, name, request, total, created_at)"
                " values (:id, :workspace, :name, :request, :total, :now)",
                {
                    "id": job.id, "workspace": self._workspace, "name": evaluation.name,
                    "request": evaluation.request, "total": evaluation.total, "now": now,
                },
            )  # fmt: skip

        await self._database.write(work, durable=True)

    async def get(self, evaluation_id: str) -> Evaluation:
        rows = await self._database.rows(
            f"select e.*, {_MEASURED} from evaluations e"
            " where e.id = :id and e.workspace = :workspace",
            {"id": evaluation_id, "workspace": self._workspace},
        )
        if not rows:
            raise no_evaluation(evaluation_id)
        return _evaluation_of(rows[0])

    async def page(self, *, after: str = "", limit: int = 50) -> list[Evaluation]:
        before = (
            "and (e.created_at, e.id) < (select created_at, id from evaluations where id = :after)"
            if after
            else ""
        )
        rows = await self._database.rows(
            f"select e.id, e.name, '' as request, e.total, '' as result, e.created_at, {_MEASURED}"
            f" from evaluations e where e.workspace = :workspace {before}"
            " order by e.created_at desc, e.id desc limit :limit",
            {"workspace": self._workspace, "after": after, "limit": limit},
        )
        return [_evaluation_of(row) for row in rows]

    async def amend(self, evaluation_id: str, request: str, total: int) -> None:
        await self._update(
            "update evaluations set request = :request, total = :total"
            " where id = :id and workspace = :workspace and result = ''",
            {"id": evaluation_id, "request": request, "total": total},
        )

    async def put_outcomes(self, evaluation_id: str, lines: Mapping[str, str]) -> None:
        def work(connection: Connection) -> None:
            connection.executemany(
                "insert into outcomes (evaluation, key, line) select id, :key, :line"
                " from evaluations where id = :id and workspace = :workspace and result = ''"
                " on conflict (evaluation, key) do update set line = excluded.line",
                [
                    {"id": evaluation_id, "workspace": self._workspace, "key": key, "line": line}
                    for key, line in lines.items()
                ],
            )

        await self._database.write(work)

    async def outcomes(self, evaluation_id: str) -> list[str]:
        rows = await self._database.rows(
            "select o.line from outcomes o join evaluations e on e.id = o.evaluation"
            " where e.id = :id and e.workspace = :workspace order by o.key",
            {"id": evaluation_id, "workspace": self._workspace},
        )
        return [row["line"] for row in rows]

    async def conclude(self, evaluation_id: str, result: str) -> None:
        def work(connection: Connection) -> None:
            bound = {"id": evaluation_id, "workspace": self._workspace, "result": result}
            changed = connection.execute(
                "update evaluations set result = :result"
                " where id = :id and workspace = :workspace and result = ''",
                bound,
            ).rowcount
            if changed:
                connection.execute("delete from outcomes where evaluation = :id", bound)

        await self._database.write(work, durable=True)

    async def remove(self, evaluation_id: str) -> bool:
        return (
            await self._update(
                "delete from evaluations where id = :id and workspace = :workspace",
                {"id": evaluation_id},
            )
            == 1
        )

    async def _update(self, sql: str, bound: Mapping[str, object]) -> int:
        def work(connection: Connection) -> int:
            return connection.execute(sql, {**bound, "workspace": self._workspace}).rowcount

        return await self._database.write(work, durable=True)


def _evaluation_of(row: Row) -> Evaluation:
    return Evaluation(
        id=row["id"], name=row["name"], request=row["request"], total=row["total"],
        measured=row["measured"], result=row["result"], created_at=row["created_at"],
    )  # fmt: skip
