"""Jobs and their steps: leases, fences and the opening of the next stage, each one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from sqlite3 import Connection, Row

from app.domain import Failure, Job, Opened, Plan, State, Status, Step, Ticket
from app.stores.records import furthest, worker_lost
from app.stores.refusals import no_job
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.jobs import add_step, close_job, end_job, insert_job, job_exists
from app.stores.sqlite.rows import JOB, job_of

_STEP = """
    select s.id, s.job_id, s.stage, s.shard, s.claims, s.tries, s.leased, s.ready_at,
        j.workspace, j.plan, j.document_id
    from steps s join jobs j on j.id = s.job_id
    where s.id = :id
"""


class SqliteJournal:
    """Implements `app.ports.Journal`."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def ping(self) -> str:
        return await self._database.ping()

    async def job(self, workspace: str, job_id: str) -> Job:
        rows = await self._database.rows(
            f"select {JOB} from jobs where id = :id and workspace = :workspace",
            {"id": job_id, "workspace": workspace},
        )
        if not rows:
            raise no_job(job_id)
        return job_of(rows[0])

    async def jobs(
        self, workspace: str, *, document_id: str = "", state: State | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Job]:  # fmt: skip
        narrowed = "and document_id = :document" if document_id else ""
        if state is not None:
            narrowed += " and state = :state"
        if after:
            narrowed += " and seq < (select seq from jobs where id = :after)"
        rows = await self._database.rows(
            f"select {JOB} from jobs where workspace = :workspace {narrowed}"
            " order by seq desc limit :limit",
            {
                "workspace": workspace, "document": document_id, "state": state,
                "after": after, "limit": limit,
            },
        )  # fmt: skip
        return [job_of(row) for row in rows]

    async def claim(self, step_id: str, *, lease: float, tries: int) -> Step | None:
        def work(connection: Connection) -> Step | None:
            now = self._database.clock()
            row = connection.execute(_STEP, {"id": step_id}).fetchone()
            if row is None or now < row["ready_at"] <= now + furthest(lease, row["leased"]):
                return None
            if row["tries"] >= tries:
                lost = worker_lost(row["tries"], row["stage"])
                end_job(connection, row["job_id"], State.FAILED, now, error=lost)
                return None
            return _claim(connection, row, now, lease)

        return await self._database.write(work)

    async def open(self, job: Job) -> None:
        def work(connection: Connection) -> None:
            if not job_exists(connection, job.id):
                insert_job(connection, job.workspace, job, self._database.clock())

        await self._database.write(work, durable=True)

    async def renew(self, step: Step, *, lease: float) -> bool:
        def work(connection: Connection) -> bool:
            until = self._database.clock() + lease
            return (
                connection.execute(
                    f"update steps set ready_at = :until, overdue_at = :until where {_HELD}",
                    {**_held(step), "until": until},
                ).rowcount
                == 1
            )

        return await self._database.write(work)

    async def finish(
        self, step: Step, *, shards: Sequence[Sequence[str]] = (),
        next_stage: str = "", next_status: Status = Status.READY, lease: float,
    ) -> Opened:  # fmt: skip
        def work(connection: Connection) -> Opened:
            now = self._database.clock()
            if not _drop(connection, step):
                return Opened()
            filled = [tuple(shard) for shard in shards if shard]
            own, theirs = ([], filled) if next_stage else (filled, [])
            connection.execute(
                "update jobs set done = done + :done, total = total + :total, updated_at = :now"
                " where id = :job",
                {
                    "job": step.job_id, "now": now, "done": len(step.shard),
                    "total": sum(map(len, own)),
                },
            )  # fmt: skip
            opened = _divide(connection, step.job_id, step.stage, own, now)
            if not opened and not _has_steps(connection, step.job_id):
                if not next_stage:
                    close_job(connection, step.job_id, State.DONE, now)
                    _set_status(connection, step.job_id, next_status)
                    return Opened(job_done=True)
                _set_status(connection, step.job_id, next_status)
                opened = _enter(connection, step.job_id, next_stage, theirs, now)
            return _straight_through(connection, opened, now, lease)

        return await self._database.write(work)

    async def release(self, step: Step, *, delay: float, error: str = "") -> Ticket | None:
        def work(connection: Connection) -> Ticket | None:
            now = self._database.clock()
            failed = 1 if error else 0
            released = connection.execute(
                "update steps set leased = 0, ready_at = :until, overdue_at = :until,"
                f" tries = tries - 1 + :failed where {_HELD}",
                {**_held(step), "until": now + delay, "failed": failed},
            ).rowcount
            if not released:
                return None
            connection.execute(
                "update jobs set attempts = attempts + :failed, updated_at = :now where id = :job",
                {"job": step.job_id, "failed": failed, "now": now},
            )
            return Ticket(step.id, step.attempt)

        return await self._database.write(work)

    async def close(
        self, workspace: str, job_id: str, state: State, error: Failure | None = None
    ) -> bool:
        def work(connection: Connection) -> bool:
            row = connection.execute(
                "select 1 from jobs where id = :id and workspace = :workspace",
                {"id": job_id, "workspace": workspace},
            ).fetchone()
            now = self._database.clock()
            return row is not None and end_job(connection, job_id, state, now, error=error)

        return await self._database.write(work, durable=True)

    async def overdue(self, *, limit: int, lease: float) -> list[Ticket]:
        now = self._database.clock()
        rows = await self._database.rows(
            "select id, claims from steps where overdue_at <= :now"
            " order by overdue_at limit :limit",
            {"now": now, "limit": limit},
        )
        if len(rows) < limit:  # and those of a clock that was ahead
            rows += await self._database.rows(
                "select id, claims from steps where overdue_at > :far"
                " and overdue_at > case leased when 1 then :leased else :waiting end limit :limit",
                {
                    "leased": now + furthest(lease, True), "waiting": now + furthest(lease, False),
                    "far": now + min(furthest(lease, held) for held in (True, False)),
                    "limit": limit - len(rows),
                },
            )  # fmt: skip
        return [Ticket(row["id"], row["claims"]) for row in rows]

    async def resent(self, tickets: Sequence[Ticket], *, wait: float) -> None:
        def work(connection: Connection) -> None:
            until = self._database.clock() + wait
            connection.executemany(
                "update steps set overdue_at = ? where id = ? and claims = ?",
                [(until, ticket.step_id, ticket.attempt) for ticket in tickets],
            )

        await self._database.write(work)


# A claim is valid until another one is made: its own lease may have run out meanwhile.
_HELD = "id = :id and claims = :attempt and leased = 1"


def _held(step: Step) -> dict[str, object]:
    return {"id": step.id, "attempt": step.attempt}


def _claim(connection: Connection, row: Row, now: float, lease: float) -> Step:
    shard = tuple(json.loads(row["shard"]))
    connection.execute(
        "update steps set claims = claims + 1, tries = tries + 1, leased = 1,"
        " ready_at = :until, overdue_at = :until where id = :id",
        {"id": row["id"], "until": now + lease},
    )
    connection.execute(
        "update jobs set state = 'running', updated_at = :now where id = :job",
        {"job": row["job_id"], "now": now},
    )
    return Step(
        id=row["id"],
        job_id=row["job_id"],
        workspace=row["workspace"],
        plan=Plan(row["plan"]),
        document_id=row["document_id"],
        stage=row["stage"],
        shard=shard,
        attempt=row["claims"] + 1,
        tries=row["tries"] + 1,
        alone=not shard,
    )


def _drop(connection: Connection, step: Step) -> bool:
    return connection.execute(f"delete from steps where {_HELD}", _held(step)).rowcount == 1


def _has_steps(connection: Connection, job_id: str) -> bool:
    row = connection.execute("select 1 from steps where job_id = :job", {"job": job_id})
    return row.fetchone() is not None


def _set_status(connection: Connection, job_id: str, status: Status) -> None:
    connection.execute(
        "update jobs set status = :status where id = :job", {"job": job_id, "status": status}
    )


def _enter(
    connection: Connection, job_id: str, stage: str, shards: Sequence[Sequence[str]], now: float
) -> list[str]:
    connection.execute(
        "update jobs set stage = :stage, done = 0, total = :total where id = :job",
        {"job": job_id, "stage": stage, "total": sum(map(len, shards))},
    )
    return _divide(connection, job_id, stage, shards, now) or [
        add_step(connection, job_id, stage, 0, (), now=now)
    ]


def _divide(
    connection: Connection, job_id: str, stage: str, shards: Sequence[Sequence[str]], now: float
) -> list[str]:
    return [
        add_step(connection, job_id, stage, n, tuple(shard), now=now)
        for n, shard in enumerate(shards, start=1)
    ]


def _straight_through(
    connection: Connection, opened: Sequence[str], now: float, lease: float
) -> Opened:
    if not opened:
        return Opened()
    row = connection.execute(_STEP, {"id": opened[0]}).fetchone()
    first = _claim(connection, row, now, lease)
    return Opened(
        step=replace(first, alone=len(opened) == 1),
        send=tuple(Ticket(step_id, 0) for step_id in opened[1:]),
    )
