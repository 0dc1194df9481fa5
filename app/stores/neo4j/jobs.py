"""Jobs inside a transaction: what documents and journal both do to them.

Whoever reads a job's state to change it writes to the job node first: that takes its lock, and
what is read afterwards is what the last holder left.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import LiteralString

from app.domain import FIRST_STAGE, Failure, Job, State, Status
from app.stores.neo4j.database import Transaction
from app.stores.records import CANCELLED, GRACE_SECONDS, REPLACED

GRACE_MS = int(GRACE_SECONDS * 1000)


async def open_job(tx: Transaction, workspace: str, job: Job) -> None:
    """Make `job` the document's latest, cancel those before it, and open its first step. The
    document node must be locked."""
    await tx.run(
        """
        MATCH (j:Job {workspace: $workspace, document_id: $document})
        USING INDEX j:Job(workspace, document_id, order)
        WHERE j.order IS NOT NULL AND j.state IN ['queued', 'running']
        SET j.locked = true
        WITH j WHERE j.state IN ['queued', 'running']
        SET j.state = 'cancelled', j.status = 'failed', j.updated_at = timestamp(), j += $error,
            j.error_stage = j.stage
        WITH j MATCH (j)-[:HAS_STEP]->(s) DETACH DELETE s
        """,
        workspace=workspace, document=job.document_id, error=error_properties(REPLACED),
    )  # fmt: skip
    await tx.run(
        f"""
        MATCH (d:Document {{workspace: $workspace, id: $document}})
        OPTIONAL MATCH (old:Job {{id: d.job_id}}) WHERE old.id <> $id
        REMOVE old.latest_of
        SET d.job_id = $id
        CREATE (d)-[:HAS_JOB]->(j:Job {{id: $id}})
        {_BEGIN}
        SET j.latest_of = $document
        """,
        **_beginning(workspace, job),
    )


async def insert_job(tx: Transaction, workspace: str, job: Job) -> None:
    """A job of the workspace, with its first step: it gives no document its status. One that is
    there already stays as it is."""
    await tx.run(
        f"""
        MERGE (j:Job {{id: $id}}) ON CREATE SET j.fresh = true
        WITH j WHERE j.fresh
        REMOVE j.fresh
        {_BEGIN}
        """,
        **_beginning(workspace, job),
    )


# Of a job `j` that has nothing but its id.
_BEGIN: LiteralString = """
        WITH j, datetime.realtime() AS now
        SET j += {
            name: $plan, workspace: $workspace, plan: $plan, document_id: $document,
            state: 'queued', status: $status, stage: $stage, done: 0, total: 0, attempts: 0,
            created_at: timestamp(), updated_at: timestamp(),
            order: (now.epochSeconds * 1000000 + now.microsecond) * 1000
                + toInteger(rand() * 1000)
        }
        CREATE (j)-[:HAS_STEP]->(:Step {
            name: $stage, id: $id + '.' + $stage + '.0', workspace: $workspace, stage: $stage,
            shard: [], claims: 0, tries: 0, leased: false,
            ready_at: timestamp(), overdue_at: timestamp() + $grace
        })
        """


def _beginning(workspace: str, job: Job) -> dict[str, object]:
    return {
        "workspace": workspace, "document": job.document_id, "id": job.id, "plan": job.plan,
        "status": job.status, "stage": FIRST_STAGE[job.plan], "grace": GRACE_MS,
    }  # fmt: skip


async def close_job(
    tx: Transaction, workspace: str, job_id: str, state: State, error: Failure | None
) -> bool:
    """End a job that has not ended yet and drop its steps."""
    if state is State.CANCELLED and error is None:
        error = CANCELLED
    rows = await tx.run(
        """
        MATCH (j:Job {id: $id}) WHERE j.workspace = $workspace
        SET j.locked = true
        WITH j WHERE j.state IN ['queued', 'running']
        SET j.state = $state, j.status = $status, j.updated_at = timestamp(), j += $error
        SET j.error_stage = CASE j.error_stage WHEN '' THEN j.stage ELSE j.error_stage END
        WITH j OPTIONAL MATCH (j)-[:HAS_STEP]->(s)
        DETACH DELETE s
        RETURN DISTINCT j.id
        """,
        id=job_id, workspace=workspace, state=state,
        status=Status.READY if state is State.DONE else Status.FAILED,
        error=error_properties(error),
    )  # fmt: skip
    return bool(rows)


def error_properties(error: Failure | None) -> dict[str, str | bool | None]:
    """`None` removes a property."""
    names = ("code", "message", "stage", "retryable")
    values = dict.fromkeys(names) if error is None else asdict(error)
    return {f"error_{name}": values[name] for name in names}
