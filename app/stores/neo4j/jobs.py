"""Jobs inside a transaction: what documents and journal both do to them.

Whoever reads a job's state to change it writes to the job node first: that takes its lock, and
what is read afterwards is what the last holder left.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import LiteralString

from app.domain import FIRST_STAGE, Failure, Job, Plan, State, Status, withdrawal_id
from app.stores.neo4j.database import Transaction
from app.stores.records import CANCELLED, GRACE_SECONDS, REPLACED

GRACE_MS = int(GRACE_SECONDS * 1000)


async def open_job(tx: Transaction, workspace: str, job: Job) -> None:
    """Make `job` the document's latest, cancel those before it, and open its first step. The
    document node must be locked."""
    await tx.run(
        """
        MATCH (j:Job {workspace: $workspace, document_id: $document})
        USING INDEX SEEK j:Job(workspace, document_id, order)
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
    """End a job that has not ended yet and drop its steps. What an ingest has left visible ahead of
    publication is withdrawn by a job that is opened with it, and shows why it ended."""
    if state is State.CANCELLED and error is None:
        error = CANCELLED
    # The document before the job, in the order in which all take their locks.
    documents = await tx.run(
        """
        MATCH (j:Job {id: $id}) WHERE j.workspace = $workspace
        MATCH (d:Document {workspace: $workspace, id: j.document_id}) SET d.locked = true
        WITH j, d WHERE d.job_id = j.id AND j.plan = 'ingest' AND (EXISTS {
            MATCH (d)-[:HAS_CHUNK]->(c) WHERE c.published IS NULL OR c.before_key IS NOT NULL
        } OR EXISTS {
            MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
            WHERE c.workspace = $workspace AND c.document_id = d.id AND c.position IS NOT NULL
                AND NOT c.live AND NOT c.gone AND c.unindexed IS NOT NULL
        })
        RETURN d.id AS id
        """,
        id=job_id, workspace=workspace,
    )  # fmt: skip
    rows = await tx.run(
        """
        MATCH (j:Job {id: $id}) WHERE j.workspace = $workspace
        SET j.locked = true
        WITH j WHERE j.state IN ['queued', 'running']
        WITH j, CASE j.plan WHEN 'withdraw' THEN j {.error_code, .error_message, .error_stage,
            .error_retryable} ELSE {} END AS shown
        SET j.state = $state, j.status = $status, j.updated_at = timestamp(), j += $error
        SET j.error_stage = CASE j.error_stage WHEN '' THEN j.stage ELSE j.error_stage END
        FOREACH (_ IN CASE WHEN shown.error_code IS NULL THEN [] ELSE [1] END |
            SET j += shown)
        WITH j OPTIONAL MATCH (j)-[:HAS_STEP]->(s)
        DETACH DELETE s
        RETURN DISTINCT j.id
        """,
        id=job_id, workspace=workspace, state=state,
        status=Status.READY if state is State.DONE else Status.FAILED,
        error=error_properties(error),
    )  # fmt: skip
    if rows and documents:
        await _withdraw(tx, workspace, documents[0]["id"], job_id)
    return bool(rows)


async def _withdraw(tx: Transaction, workspace: str, document_id: str, job_id: str) -> None:
    job = Job(
        withdrawal_id(job_id), workspace, Plan.WITHDRAW, document_id, status=Status.MERGING
    )  # fmt: skip
    await open_job(tx, workspace, job)
    await tx.run(
        """
        MATCH (old:Job {id: $old}), (j:Job {id: $id})
        SET j += old {.error_code, .error_message, .error_stage, .error_retryable}
        """,
        old=job_id, id=job.id,
    )  # fmt: skip


def error_properties(error: Failure | None) -> dict[str, str | bool | None]:
    """`None` removes a property."""
    names = ("code", "message", "stage", "retryable")
    values = dict.fromkeys(names) if error is None else asdict(error)
    return {f"error_{name}": values[name] for name in names}
