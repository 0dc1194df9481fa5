"""Jobs inside a transaction: what documents and journal both do to them."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

from app.domain import FIRST_STAGE, Failure, Job, Plan, State, Status, withdrawal_id
from app.stores.records import CANCELLED, GRACE_SECONDS, REPLACED, dump, failure_json


def open_job(connection: Connection, workspace: str, job: Job, now: float) -> None:
    """Make `job` the document's latest, cancel those before it, and open its first step."""
    values = {"workspace": workspace, "document": job.document_id}
    running = connection.execute(
        "select id from jobs where workspace = :workspace and document_id = :document"
        " and state in ('queued', 'running')",
        values,
    ).fetchall()
    for row in running:
        close_job(connection, row["id"], State.CANCELLED, now, error=REPLACED)
    connection.execute(
        "update jobs set latest = 0"
        " where workspace = :workspace and document_id = :document and latest = 1",
        values,
    )
    insert_job(connection, workspace, job, now)


def insert_job(connection: Connection, workspace: str, job: Job, now: float) -> None:
    """With its first step. A job of the workspace gives no document its status."""
    connection.execute(
        "insert into jobs (id, workspace, plan, document_id, latest, state, status, stage,"
        " created_at, updated_at) values (:id, :workspace, :plan, :document, :document <> '',"
        " 'queued', :status, :stage, :now, :now)",
        {
            "workspace": workspace, "document": job.document_id, "id": job.id, "plan": job.plan,
            "status": job.status, "stage": FIRST_STAGE[job.plan], "now": now,
        },
    )  # fmt: skip
    add_step(connection, job.id, FIRST_STAGE[job.plan], 0, (), now=now)


def add_step(
    connection: Connection, job_id: str, stage: str, n: int, shard: Sequence[str], *, now: float
) -> str:
    step_id = f"{job_id}.{stage}.{n}"
    connection.execute(
        "insert into steps (id, job_id, stage, shard, ready_at, overdue_at)"
        " values (:id, :job, :stage, :shard, :now, :overdue)",
        {
            "id": step_id, "job": job_id, "stage": stage, "shard": dump(shard), "now": now,
            "overdue": now + GRACE_SECONDS,
        },
    )  # fmt: skip
    return step_id


def close_job(
    connection: Connection, job_id: str, state: State, now: float, *, error: Failure | None = None
) -> bool:
    """End a job that has not ended yet and drop its steps."""
    if state is State.CANCELLED and error is None:
        error = CANCELLED
    status = Status.READY if state is State.DONE else Status.FAILED
    closed = connection.execute(
        "update jobs set state = :state, status = :status, updated_at = :now,"
        " error = case when :error is null or (plan = 'withdraw' and error is not null) then error"
        "   else json_set(:error, '$.stage', coalesce(nullif(:stage, ''), stage)) end"
        " where id = :id and state in ('queued', 'running')",
        {
            "id": job_id, "state": state, "status": status, "now": now,
            "error": None if error is None else failure_json(error),
            "stage": "" if error is None else error.stage,
        },
    ).rowcount  # fmt: skip
    connection.execute("delete from steps where job_id = :id", {"id": job_id})
    return closed == 1


def end_job(
    connection: Connection, job_id: str, state: State, now: float, *, error: Failure | None = None
) -> bool:
    """End a job that failed or was cancelled. What an ingest has left visible ahead of publication
    is withdrawn by a job that is opened with it, and shows why it ended."""
    if not close_job(connection, job_id, state, now, error=error):
        return False
    row = connection.execute(
        "select workspace, document_id, error from jobs j where id = :job and plan = 'ingest'"
        " and latest = 1 and exists (select 1 from chunks c where c.workspace = j.workspace"
        " and c.document_id = j.document_id"
        " and ((c.live = 1 and c.published = 0) or c.ghost = 1 or c.before is not null))",
        {"job": job_id},
    ).fetchone()
    if row is None:
        return True
    values = {"workspace": row["workspace"], "document": row["document_id"]}
    withdrawal = Job(
        withdrawal_id(job_id), row["workspace"], Plan.WITHDRAW, row["document_id"],
        status=Status.MERGING,
    )  # fmt: skip
    open_job(connection, row["workspace"], withdrawal, now)
    connection.execute(
        "update jobs set error = :error where id = :job",
        {"error": row["error"], "job": withdrawal.id},
    )
    connection.execute(
        "update documents set job_id = :job, updated_at = :now"
        " where workspace = :workspace and id = :document",
        {**values, "job": withdrawal.id, "now": now},
    )
    return True


def job_exists(connection: Connection, job_id: str) -> bool:
    return connection.execute("select 1 from jobs where id = ?", (job_id,)).fetchone() is not None


def is_latest(connection: Connection, workspace: str, document_id: str, job_id: str) -> bool:
    """The fence: whether the job still speaks for its document."""
    row = connection.execute(
        "select 1 from documents d join jobs j on j.id = d.job_id where d.workspace = :workspace"
        " and d.id = :id and d.job_id = :job and j.state in ('queued', 'running')",
        {"workspace": workspace, "id": document_id, "job": job_id},
    ).fetchone()
    return row is not None
