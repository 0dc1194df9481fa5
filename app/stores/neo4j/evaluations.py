"""Evaluations of a workspace in Neo4j, what they have measured so far, and their results."""

from __future__ import annotations

from collections.abc import Mapping

from app.domain import Evaluation, Job
from app.stores.neo4j.database import Database, Row, Transaction
from app.stores.neo4j.jobs import insert_job
from app.stores.neo4j.rows import seconds
from app.stores.refusals import no_evaluation

REMOVED_AT_ONCE = 5000


class Neo4jEvaluations:
    """Implements `app.ports.Evaluations`. Writers take the lock of the evaluation's node first."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database, self._workspace = database, workspace

    async def open(self, evaluation: Evaluation, job: Job) -> None:
        async def work(tx: Transaction) -> None:
            await insert_job(tx, self._workspace, job)
            await tx.run(
                """
                MATCH (j:Job {id: $id}) WHERE j.workspace = $workspace
                MERGE (e:Evaluation {id: $id})
                ON CREATE SET e.workspace = $workspace, e.name = $name, e.request = $request,
                    e.total = $total, e.result = '', e.created_at = j.created_at,
                    e.order = j.order
                MERGE (j)-[:HAS_EVALUATION]->(e)
                """,
                id=job.id, workspace=self._workspace, name=evaluation.name,
                request=evaluation.request, total=evaluation.total,
            )  # fmt: skip

        await self._database.transaction(work)

    async def get(self, evaluation_id: str) -> Evaluation:
        rows = await self._database.read(
            """
            MATCH (e:Evaluation {id: $id}) WHERE e.workspace = $workspace
            RETURN properties(e) AS e, CASE WHEN e.result <> '' THEN e.total
                ELSE COUNT { (e)-[:HAS_OUTCOME]->() } END AS measured
            """,
            id=evaluation_id, workspace=self._workspace,
        )  # fmt: skip
        if not rows:
            raise no_evaluation(evaluation_id)
        return _evaluation_of(rows[0])

    async def page(self, *, after: str = "", limit: int = 50) -> list[Evaluation]:
        rows = await self._database.read(
            """
            OPTIONAL MATCH (last:Evaluation {id: $after})
            WITH coalesce(last.order, 9223372036854775807) AS before
            CALL (before) {
                MATCH (e:Evaluation) USING INDEX SEEK e:Evaluation(workspace, order)
                WHERE e.workspace = $workspace AND e.order < before
                WITH e ORDER BY e.workspace DESC, e.order DESC LIMIT $limit
                RETURN e
            }
            RETURN e {.id, .name, .total, .created_at, request: '', result: ''} AS e,
                CASE WHEN e.result <> '' THEN e.total
                ELSE COUNT { (e)-[:HAS_OUTCOME]->() } END AS measured
            """,
            after=after, workspace=self._workspace, limit=limit,
        )  # fmt: skip
        return [_evaluation_of(row) for row in rows]

    async def amend(self, evaluation_id: str, request: str, total: int) -> None:
        await self._database.write(
            """
            MATCH (e:Evaluation {id: $id}) WHERE e.workspace = $workspace AND e.result = ''
            SET e.request = $request, e.total = $total
            """,
            id=evaluation_id, workspace=self._workspace, request=request, total=total,
        )  # fmt: skip

    async def put_outcomes(self, evaluation_id: str, lines: Mapping[str, str]) -> None:
        await self._database.write(
            """
            MATCH (e:Evaluation {id: $id}) WHERE e.workspace = $workspace
            SET e.locked = true
            WITH e WHERE e.result = ''
            UNWIND $lines AS line
            MERGE (o:Outcome {evaluation: $id, key: line.key})
            SET o.workspace = $workspace, o.line = line.line
            MERGE (e)-[:HAS_OUTCOME]->(o)
            """,
            id=evaluation_id, workspace=self._workspace,
            lines=[{"key": key, "line": line} for key, line in lines.items()],
        )  # fmt: skip

    async def outcomes(self, evaluation_id: str) -> list[str]:
        rows = await self._database.read(
            """
            MATCH (e:Evaluation {id: $id})-[:HAS_OUTCOME]->(o) WHERE e.workspace = $workspace
            RETURN o.line AS line ORDER BY o.key
            """,
            id=evaluation_id, workspace=self._workspace,
        )  # fmt: skip
        return [row["line"] for row in rows]

    async def conclude(self, evaluation_id: str, result: str) -> None:
        changed = await self._database.write(
            """
            MATCH (e:Evaluation {id: $id}) WHERE e.workspace = $workspace
            SET e.locked = true
            WITH e WHERE e.result = ''
            SET e.result = $result
            RETURN e.id AS id
            """,
            id=evaluation_id, workspace=self._workspace, result=result,
        )  # fmt: skip
        if changed:
            await self._forget_outcomes(evaluation_id)

    async def remove(self, evaluation_id: str) -> bool:
        """The node goes first, and with it what would let more outcomes in."""
        rows = await self._database.write(
            """
            MATCH (e:Evaluation {id: $id}) WHERE e.workspace = $workspace
            DETACH DELETE e
            RETURN $id AS id
            """,
            id=evaluation_id, workspace=self._workspace,
        )  # fmt: skip
        if rows:
            await self._forget_outcomes(evaluation_id)
        return bool(rows)

    async def _forget_outcomes(self, evaluation_id: str) -> None:
        while await self._database.write(
            """
            MATCH (o:Outcome {evaluation: $id})
            WHERE o.key IS NOT NULL AND o.workspace = $workspace
            WITH o LIMIT $limit
            DETACH DELETE o
            RETURN 1 AS one LIMIT 1
            """,
            id=evaluation_id, workspace=self._workspace, limit=REMOVED_AT_ONCE,
        ):  # fmt: skip
            pass


def _evaluation_of(row: Row) -> Evaluation:
    e = row["e"]
    return Evaluation(
        id=e["id"], name=e["name"], request=e["request"], total=e["total"],
        measured=row["measured"], result=e["result"], created_at=seconds(e["created_at"]),
    )  # fmt: skip
