"""The journal of steps in Neo4j: leases, fences and the opening of the next stage.

`claim` and `finish` begin by writing to the job node. That takes its lock before the step is read,
so two workers that finish last at the same moment still open the next stage once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.domain import Failure, Job, Opened, Plan, State, Status, Step, Ticket
from app.stores.neo4j.database import Database, Row, Transaction
from app.stores.neo4j.jobs import GRACE_MS, close_job, insert_job
from app.stores.neo4j.rows import job_of
from app.stores.records import furthest, worker_lost
from app.stores.refusals import no_job


class Neo4jJournal:
    """Implements `app.ports.Journal` and `app.ports.Pingable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ping(self) -> str:
        return await self._database.ping()

    async def job(self, workspace: str, job_id: str) -> Job:
        rows = await self._database.read(
            """
            MATCH (j:Job {id: $id}) WHERE j.workspace = $workspace
            RETURN properties(j) AS j
            """,
            id=job_id, workspace=workspace,
        )  # fmt: skip
        if not rows:
            raise no_job(job_id)
        return job_of(rows[0]["j"])

    async def jobs(
        self, workspace: str, *, document_id: str = "", state: State | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Job]:  # fmt: skip
        if document_id:
            rows = await self._jobs_of_document(workspace, document_id, state, after, limit)
        elif state is not None:
            rows = await self._jobs_in_state(workspace, state, after, limit)
        else:
            rows = await self._all_jobs(workspace, after, limit)
        return [job_of(row["j"]) for row in rows]

    async def _jobs_of_document(
        self, workspace: str, document_id: str, state: State | None, after: str, limit: int
    ) -> list[Row]:
        return await self._database.read(
            """
            OPTIONAL MATCH (last:Job {id: $after})
            WITH coalesce(last.order, 9223372036854775807) AS before
            CALL (before) {
                MATCH (j:Job) USING INDEX SEEK j:Job(workspace, document_id, order)
                WHERE j.workspace = $workspace AND j.document_id = $document AND j.order < before
                    AND ($state IS NULL OR j.state = $state)
                WITH j ORDER BY j.workspace DESC, j.document_id DESC, j.order DESC LIMIT $limit
                RETURN j
            }
            RETURN properties(j) AS j
            """,
            workspace=workspace, document=document_id, state=state, after=after, limit=limit,
        )  # fmt: skip

    async def _jobs_in_state(
        self, workspace: str, state: State, after: str, limit: int
    ) -> list[Row]:
        return await self._database.read(
            """
            OPTIONAL MATCH (last:Job {id: $after})
            WITH coalesce(last.order, 9223372036854775807) AS before
            CALL (before) {
                MATCH (j:Job) USING INDEX SEEK j:Job(workspace, state, order)
                WHERE j.workspace = $workspace AND j.state = $state AND j.order < before
                WITH j ORDER BY j.workspace DESC, j.state DESC, j.order DESC LIMIT $limit
                RETURN j
            }
            RETURN properties(j) AS j
            """,
            workspace=workspace, state=state, after=after, limit=limit,
        )  # fmt: skip

    async def _all_jobs(self, workspace: str, after: str, limit: int) -> list[Row]:
        return await self._database.read(
            """
            OPTIONAL MATCH (last:Job {id: $after})
            WITH coalesce(last.order, 9223372036854775807) AS before
            CALL (before) {
                MATCH (j:Job) USING INDEX SEEK j:Job(workspace, order)
                WHERE j.workspace = $workspace AND j.order < before
                WITH j ORDER BY j.workspace DESC, j.order DESC LIMIT $limit
                RETURN j
            }
            RETURN properties(j) AS j
            """,
            workspace=workspace, after=after, limit=limit,
        )  # fmt: skip

    async def claim(self, step_id: str, *, lease: float, tries: int) -> Step | None:
        rows = await self._database.write(
            """
            MATCH (j:Job {id: $job}) SET j.locked = true
            WITH j MATCH (s:Step {id: $id})
            WHERE s.ready_at <= timestamp()
                OR s.ready_at > timestamp() + CASE WHEN s.leased THEN $leased ELSE $waiting END
            WITH j, s, s.tries < $tries AS free
            FOREACH (_ IN CASE WHEN free THEN [1] ELSE [] END |
                SET s.claims = s.claims + 1, s.tries = s.tries + 1, s.leased = true,
                    s.ready_at = timestamp() + $lease, s.overdue_at = timestamp() + $lease,
                    j.state = 'running', j.updated_at = timestamp())
            RETURN free, properties(s) AS s, properties(j) AS j
            """,
            job=step_id.rsplit(".", 2)[0], id=step_id, lease=_ms(lease), tries=tries,
            leased=_ms(furthest(lease, True)), waiting=_ms(furthest(lease, False)),
        )  # fmt: skip
        if not rows:
            return None
        s, j = rows[0]["s"], rows[0]["j"]
        if not rows[0]["free"]:
            lost = worker_lost(s["tries"], s["stage"])
            await self.close(j["workspace"], j["id"], State.FAILED, lost)
            return None
        return replace(_step(s["id"], j, s["stage"], s["shard"], s["claims"]), tries=s["tries"])

    async def open(self, job: Job) -> None:
        await self._database.transaction(lambda tx: insert_job(tx, job.workspace, job))

    async def renew(self, step: Step, *, lease: float) -> bool:
        rows = await self._database.write(
            """
            MATCH (s:Step {id: $id}) SET s.locked = true
            WITH s WHERE s.claims = $attempt AND s.leased
            SET s.ready_at = timestamp() + $lease, s.overdue_at = timestamp() + $lease
            RETURN s.id
            """,
            id=step.id, attempt=step.attempt, lease=_ms(lease),
        )  # fmt: skip
        return bool(rows)

    async def finish(
        self, step: Step, *, shards: Sequence[Sequence[str]] = (),
        next_stage: str = "", next_status: Status = Status.READY, lease: float,
    ) -> Opened:  # fmt: skip
        filled = [list(shard) for shard in shards if shard]
        divided = next_stage or step.stage
        steps = [
            {"id": f"{step.job_id}.{divided}.{n}", "stage": divided, "shard": shard}
            for n, shard in enumerate(filled, start=1)
        ]
        first = {"id": f"{step.job_id}.{next_stage}.0", "stage": next_stage, "shard": []}
        own, following = ([], steps or [first]) if next_stage else (steps, [])
        rows = await self._database.write(
            """
            MATCH (j:Job {id: $job}) SET j.locked = true
            WITH j MATCH (s:Step {id: $id}) WHERE s.claims = $attempt AND s.leased
            DETACH DELETE s
            WITH j, EXISTS { (j)-[:HAS_STEP]->() } AS more
            WITH j, CASE
                WHEN size($own) > 0 THEN 'divide'
                WHEN more THEN 'wait'
                WHEN size($following) > 0 THEN 'next'
                ELSE 'close' END AS move
            WITH j, move,
                CASE move WHEN 'divide' THEN $own WHEN 'next' THEN $following ELSE [] END
                AS opened
            SET j.done = CASE move WHEN 'next' THEN 0 ELSE j.done + $done END,
                j.total = CASE move
                    WHEN 'next' THEN $total WHEN 'divide' THEN j.total + $total ELSE j.total END,
                j.stage = CASE move WHEN 'next' THEN $following[0].stage ELSE j.stage END,
                j.status = CASE WHEN move IN ['next', 'close'] THEN $status ELSE j.status END,
                j.state = CASE move WHEN 'close' THEN 'done' ELSE j.state END,
                j.updated_at = timestamp()
            FOREACH (i IN range(0, size(opened) - 1) |
                CREATE (j)-[:HAS_STEP]->(:Step {
                    name: opened[i].stage, id: opened[i].id, workspace: j.workspace,
                    stage: opened[i].stage, shard: opened[i].shard,
                    claims: CASE i WHEN 0 THEN 1 ELSE 0 END,
                    tries: CASE i WHEN 0 THEN 1 ELSE 0 END,
                    leased: i = 0,
                    ready_at: timestamp() + CASE i WHEN 0 THEN $lease ELSE 0 END,
                    overdue_at: timestamp() + CASE i WHEN 0 THEN $lease ELSE $grace END
                }))
            RETURN move, opened, properties(j) AS j
            """,
            job=step.job_id, id=step.id, attempt=step.attempt, own=own, following=following,
            status=next_status, done=len(step.shard), total=sum(map(len, filled)),
            lease=_ms(lease), grace=GRACE_MS,
        )  # fmt: skip
        if not rows:
            return Opened()
        [row] = rows
        if row["move"] == "close":
            return Opened(job_done=True)
        if not row["opened"]:
            return Opened()
        mine, *others = row["opened"]
        claimed = _step(mine["id"], row["j"], mine["stage"], mine["shard"], 1)
        return Opened(
            step=replace(claimed, alone=not others),
            send=tuple(Ticket(other["id"], 0) for other in others),
        )

    async def release(self, step: Step, *, delay: float, error: str = "") -> Ticket | None:
        rows = await self._database.write(
            """
            MATCH (j:Job {id: $job}) SET j.locked = true
            WITH j MATCH (s:Step {id: $id}) WHERE s.claims = $attempt AND s.leased
            SET s.leased = false, s.tries = s.tries - 1 + $failed,
                s.ready_at = timestamp() + $delay, s.overdue_at = timestamp() + $delay,
                j.attempts = j.attempts + $failed, j.updated_at = timestamp()
            RETURN s.claims AS claims
            """,
            job=step.job_id, id=step.id, attempt=step.attempt, delay=_ms(delay),
            failed=1 if error else 0,
        )  # fmt: skip
        return Ticket(step.id, rows[0]["claims"]) if rows else None

    async def close(
        self, workspace: str, job_id: str, state: State, error: Failure | None = None
    ) -> bool:
        async def work(tx: Transaction) -> bool:
            return await close_job(tx, workspace, job_id, state, error)

        return await self._database.transaction(work)

    async def overdue(self, *, limit: int, lease: float) -> list[Ticket]:
        rows = await self._database.read(
            """
            MATCH (s:Step) WHERE s.overdue_at <= timestamp()
            RETURN s.id AS id, s.claims AS claims ORDER BY s.overdue_at LIMIT $limit
            """,
            limit=limit,
        )
        if len(rows) < limit:  # and those of a clock that was ahead
            leased, waiting = _ms(furthest(lease, True)), _ms(furthest(lease, False))
            [clock] = await self._database.read("RETURN timestamp() AS now")
            rows += await self._database.read(
                """
                MATCH (s:Step) USING INDEX SEEK s:Step(overdue_at)
                WHERE s.overdue_at > $far
                WITH s WHERE s.overdue_at
                    - CASE WHEN s.leased THEN $leased ELSE $waiting END > $now
                RETURN s.id AS id, s.claims AS claims LIMIT $limit
                """,
                limit=limit - len(rows), leased=leased, waiting=waiting, now=clock["now"],
                far=clock["now"] + min(leased, waiting),
            )  # fmt: skip
        return [Ticket(row["id"], row["claims"]) for row in rows]

    async def resent(self, tickets: Sequence[Ticket], *, wait: float) -> None:
        await self._database.write(
            """
            UNWIND $tickets AS ticket
            MATCH (s:Step {id: ticket[0]}) WHERE s.claims = ticket[1]
            SET s.overdue_at = timestamp() + $wait
            """,
            tickets=[list(ticket) for ticket in sorted(tickets)], wait=_ms(wait),
        )  # fmt: skip


def _step(step_id: str, j: Row, stage: str, shard: Sequence[str], attempt: int) -> Step:
    return Step(
        id=step_id,
        job_id=j["id"],
        workspace=j["workspace"],
        plan=Plan(j["plan"]),
        document_id=j["document_id"],
        stage=stage,
        shard=tuple(shard),
        attempt=attempt,
        alone=not shard,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
