"""Documents of one workspace in Neo4j, their revisions, and the opening of their jobs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import LiteralString

from app.domain import Document, Job, Plan, Revision, Status, Usage
from app.ports import Filters
from app.stores.filters import fields_of
from app.stores.neo4j.database import Database, Row, Transaction
from app.stores.neo4j.filters import (
    EVERY_DOCUMENT,
    MATCHES,
    indexable,
    parameters,
    parameters_of,
)
from app.stores.neo4j.jobs import open_job
from app.stores.neo4j.rows import document_of, seconds
from app.stores.records import already_has, in_order, revision_json, revision_of, unique
from app.stores.refusals import no_document, same_job, still_visible

# What a coming revision changed of a published chunk, until it is published itself.
NOTHING_BEFORE = {
    f"before_{name}": None for name in ("position", "page_end", "key", "extraction", "failed")
}
KEEP_BEFORE: LiteralString = """
    SET c.before_position = c.position, c.before_page_end = c.page_end,
        c.before_key = c.extraction_key, c.before_extraction = c.extraction,
        c.before_failed = c.failed
    """
PARTS = 16  # nodes over which a workspace's totals are spread
_FIND: LiteralString = """
    UNWIND $ids AS id
    MATCH (d:Document {workspace: $workspace, id: id})
    MATCH (j:Job {id: d.job_id})
    RETURN id, properties(d) AS d, properties(j) AS j, COUNT { (d)-[:HAS_CHUNK]->() } AS chunks
    """


async def is_latest(tx: Transaction, workspace: str, document_id: str, job_id: str) -> bool:
    """The fence: whether the job still speaks for its document, which stays locked."""
    rows = await tx.run(
        """
        MATCH (d:Document {workspace: $workspace, id: $document}) SET d.locked = true
        WITH d WHERE d.job_id = $job
        MATCH (j:Job {id: $job}) WHERE j.state IN ['queued', 'running']
        RETURN d.id
        """,
        workspace=workspace, document=document_id, job=job_id,
    )  # fmt: skip
    return bool(rows)


def part_of(document_id: str) -> int:
    """Which of them a document counts in, so that few writers wait for each other."""
    return zlib.crc32(document_id.encode()) % PARTS


class Neo4jDocuments:
    """Implements `app.ports.Documents`."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    async def submit(self, document_id: str, revision: Revision, job: Job) -> Document:
        async def work(tx: Transaction) -> Document:
            [locked] = await tx.lock(
                """
                MERGE (d:Document {workspace: $workspace, id: $id})
                ON CREATE SET d.version = 0, d.warnings = [], d.llm_calls = 0,
                    d.prompt_tokens = 0, d.completion_tokens = 0, d.cost = 0.0,
                    d.created_at = timestamp()
                SET d.locked = true
                RETURN d.id IS NOT NULL AS there, d.job_id IS NOT NULL AS known, timestamp() AS now,
                    EXISTS { (:Job {id: $job}) } AS repeated
                """,
                workspace=self._workspace, id=document_id, job=job.id,
            )  # fmt: skip
            known: Document | None = None
            if locked["known"]:
                known = await self._must_find(tx, document_id)
                if locked["repeated"] or already_has(known, revision):
                    return known
            elif locked["repeated"]:
                raise same_job(job.id)
            doomed = known if known is not None and known.job.plan is Plan.DELETE else None
            if doomed is not None:
                await self._unpublish(tx, doomed)
            await self._put_pending(tx, document_id, revision, seconds(locked["now"]))
            await open_job(tx, self._workspace, replace(job, document_id=document_id))
            submitted = await self._must_find(tx, document_id)
            pushed = [known.pending] if known else []
            pushed += [doomed.live] if doomed else []
            return replace(submitted, superseded=tuple(one for one in pushed if one is not None))

        return await self._database.transaction(work)

    async def reopen(self, document_id: str, job: Job, *, again: Sequence[str] = ()) -> Document:
        async def work(tx: Transaction) -> Document:
            await tx.run(
                "MATCH (d:Document {workspace: $workspace, id: $id}) SET d.locked = true",
                workspace=self._workspace, id=document_id,
            )  # fmt: skip
            known = await self._must_find(tx, document_id)
            if known.job.id == job.id:
                return known
            if job.plan is Plan.INGEST:
                await self._resume(tx, known, job.id)
                await self._unread(tx, document_id, job.id, again)
            await open_job(tx, self._workspace, replace(job, document_id=document_id))
            return await self._must_find(tx, document_id)

        return await self._database.transaction(work)

    async def get(self, document_id: str) -> Document:
        found = await self.many([document_id])
        if not found:
            raise no_document(document_id)
        return found[0]

    async def many(self, ids: Sequence[str]) -> list[Document]:
        rows = await self._database.read(_FIND, workspace=self._workspace, ids=unique(ids))
        return [document_of(row) for row in in_order(rows, ids, by="id")]

    async def page(
        self, *, status: Status | None = None, filters: Filters | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Document]:  # fmt: skip
        tests = parameters_of(filters or {})
        if status is None:
            rows = await self._page_of_all(tests, after, limit)
        else:
            rows = await self._page_of_status(status, tests, after, limit)
        return [document_of(row) for row in rows]

    async def _page_of_all(self, filters: list[list[Row]], after: str, limit: int) -> list[Row]:
        return await self._database.read(
            f"""
            MATCH (d:Document) WHERE d.workspace = $workspace AND d.id > $after
                AND {MATCHES}
            WITH d ORDER BY d.workspace, d.id LIMIT $limit
            MATCH (j:Job {{id: d.job_id}})
            RETURN properties(d) AS d, properties(j) AS j,
                COUNT {{ (d)-[:HAS_CHUNK]->() }} AS chunks
            ORDER BY d.id
            """,
            workspace=self._workspace, filters=filters, after=after, limit=limit,
        )  # fmt: skip

    async def _page_of_status(
        self, status: Status, filters: list[list[Row]], after: str, limit: int
    ) -> list[Row]:
        return await self._database.read(
            f"""
            MATCH (j:Job) USING INDEX SEEK j:Job(workspace, status, latest_of)
            WHERE j.workspace = $workspace AND j.status = $status AND j.latest_of > $after
            WITH j ORDER BY j.workspace, j.status, j.latest_of
            MATCH (d:Document {{workspace: $workspace, id: j.latest_of}})
            WHERE {MATCHES}
            WITH d, j LIMIT $limit
            RETURN properties(d) AS d, properties(j) AS j,
                COUNT {{ (d)-[:HAS_CHUNK]->() }} AS chunks
            ORDER BY d.id
            """,
            workspace=self._workspace, status=status, filters=filters, after=after, limit=limit,
        )  # fmt: skip

    async def counts(self) -> dict[Status, int]:
        rows = await self._database.read(
            """
            UNWIND $statuses AS status
            CALL (status) {
                MATCH (j:Job) USING INDEX SEEK j:Job(workspace, status, latest_of)
                WHERE j.workspace = $workspace AND j.status = status AND j.latest_of IS NOT NULL
                RETURN count(j) AS documents
            }
            RETURN status, documents
            """,
            workspace=self._workspace, statuses=list(Status),
        )  # fmt: skip
        return {Status(row["status"]): row["documents"] for row in rows if row["documents"]}

    async def matching(self, filters: Filters, *, limit: int) -> list[str]:
        # Without a filter: what every document has. The first filter finds, the others narrow.
        [first, *others] = parameters_of(filters) or [parameters([EVERY_DOCUMENT])]
        rows = await self._database.read(
            f"""
            UNWIND $first AS t
            CALL (t) {{
                UNWIND t.values AS value
                MATCH (f:Field) USING INDEX SEEK f:Field(workspace, name, value)
                WHERE f.workspace = $workspace AND f.name = t.name AND f.value = value AND f.live
                RETURN f.document_id AS id
              UNION
                MATCH (f:Field) USING INDEX SEEK f:Field(workspace, name, value)
                WHERE f.workspace = $workspace AND f.name = t.name
                    AND f.value >= coalesce(t.gte, t.gt) AND f.live
                    AND (t.gt IS NULL OR f.value > t.gt)
                    AND (t.lte IS NULL OR f.value <= t.lte)
                    AND (t.lt IS NULL OR f.value < t.lt)
                RETURN f.document_id AS id
              UNION
                WITH t WHERE coalesce(t.gte, t.gt) IS NULL
                MATCH (f:Field) USING INDEX SEEK f:Field(workspace, name, value)
                WHERE f.workspace = $workspace AND f.name = t.name
                    AND f.value <= coalesce(t.lte, t.lt) AND f.live
                    AND (t.lt IS NULL OR f.value < t.lt)
                RETURN f.document_id AS id
            }}
            WITH DISTINCT id ORDER BY id
            MATCH (d:Document {{workspace: $workspace, id: id}})
            WHERE {MATCHES}
            RETURN id ORDER BY id LIMIT $limit
            """,
            workspace=self._workspace, first=first, filters=others, limit=limit,
        )  # fmt: skip
        return [row["id"] for row in rows]

    async def parsed(self, document_id: str, job_id: str, *, text: str, title: str) -> None:
        async def work(tx: Transaction) -> None:
            pending = await self._pending(tx, document_id, job_id)
            if pending is None:
                return
            await tx.run(
                """
                MATCH (d:Document {workspace: $workspace, id: $id})
                SET d.warnings_before = CASE WHEN d.live IS NOT NULL
                        THEN coalesce(d.warnings_before, d.warnings) END
                SET d.pending = $pending, d.pending_text = $text, d.warnings = [],
                    d.updated_at = timestamp()
                """,
                workspace=self._workspace, id=document_id, text=text,
                pending=revision_json(replace(pending, text=text, title=title)),
            )  # fmt: skip

        await self._database.transaction(work)

    async def charge(self, document_id: str, usage: Usage, warnings: Sequence[str] = ()) -> None:
        await self._database.write(
            """
            MATCH (d:Document {workspace: $workspace, id: $id})
            SET d.locked = true
            SET d.llm_calls = d.llm_calls + $calls,
                d.prompt_tokens = d.prompt_tokens + $prompt,
                d.completion_tokens = d.completion_tokens + $completion,
                d.cost = d.cost + $cost,
                d.warnings = d.warnings + [w IN $warnings WHERE NOT w IN d.warnings],
                d.updated_at = timestamp()
            """,
            workspace=self._workspace, id=document_id, calls=usage.llm_calls,
            prompt=usage.prompt_tokens, completion=usage.completion_tokens, cost=usage.cost,
            warnings=unique(warnings),
        )  # fmt: skip

    async def note(
        self, document_id: str, job_id: str, *, without: Sequence[str], add: Sequence[str]
    ) -> None:
        async def work(tx: Transaction) -> None:
            if await is_latest(tx, self._workspace, document_id, job_id):
                await tx.run(
                    """
                    MATCH (d:Document {workspace: $workspace, id: $id})
                    SET d.warnings = [w IN d.warnings WHERE NOT w IN $without AND NOT w IN $add]
                        + $add, d.updated_at = timestamp()
                    """,
                    workspace=self._workspace, id=document_id, without=list(without),
                    add=unique(add),
                )  # fmt: skip

        await self._database.transaction(work)

    async def publish(self, document_id: str, job_id: str) -> None:
        async def work(tx: Transaction) -> None:
            if not await is_latest(tx, self._workspace, document_id, job_id):
                return
            await tx.run(
                """
                MATCH (:Document {workspace: $workspace, id: $id})-[:HAS_CHUNK]->(c)
                WITH c, c.job_id = $job AS published
                WHERE published <> (c.published IS NOT NULL) OR c.before_key IS NOT NULL
                WITH c, published ORDER BY c.id
                SET c.published = CASE WHEN published THEN true END, c += $nothing
                """,
                workspace=self._workspace, id=document_id, job=job_id, nothing=NOTHING_BEFORE,
            )  # fmt: skip
            if await self._pending(tx, document_id, job_id) is None:
                return
            await tx.run(
                """
                MATCH (d:Document {workspace: $workspace, id: $id})
                CALL (d) {
                    MATCH (d)-[:HAS_FIELD]->(f)
                    WITH f, f.live AS old
                    FOREACH (_ IN CASE WHEN old THEN [1] ELSE [] END | DETACH DELETE f)
                    FOREACH (_ IN CASE WHEN old THEN [] ELSE [1] END | SET f.live = true)
                }
                MERGE (t:Total {workspace: $workspace, part: $part})
                SET t.documents = coalesce(t.documents, 0)
                    + CASE WHEN d.live IS NULL THEN 1 ELSE 0 END
                SET d.live = d.pending, d.live_source = d.pending_source,
                    d.live_text = d.pending_text, d.pending = null, d.pending_source = null,
                    d.pending_text = null, d.warnings_before = null, d.updated_at = timestamp(),
                    d.version = d.version + CASE
                        WHEN d.version = 0 AND EXISTS {
                            MATCH (d)-[:HAS_CHUNK]->(c) WHERE c.job_id <> $job
                        } THEN 2 ELSE 1 END
                """,
                workspace=self._workspace, id=document_id, job=job_id,
                part=part_of(document_id),
            )  # fmt: skip

        await self._database.transaction(work)

    async def restore(self, document_id: str, job_id: str) -> None:
        async def work(tx: Transaction) -> None:
            if not await is_latest(tx, self._workspace, document_id, job_id):
                return
            # What is to be counted again belongs to the job that does it.
            await tx.run(
                """
                MATCH (:Document {workspace: $workspace, id: $id})-[:HAS_CHUNK]->(c)
                WHERE c.before_key IS NOT NULL
                WITH c ORDER BY c.id
                SET c.folded = c.folded AND c.extraction = c.before_extraction
                SET c.folded = coalesce(c.folded, false), c.job_id = $job,
                    c.position = c.before_position, c.page_end = c.before_page_end,
                    c.extraction_key = c.before_key, c.extraction = c.before_extraction,
                    c.failed = c.before_failed,
                    c.reusable = CASE WHEN c.before_failed THEN null ELSE c.before_key END
                SET c += $nothing
                """,
                workspace=self._workspace, id=document_id, job=job_id, nothing=NOTHING_BEFORE,
            )  # fmt: skip
            await tx.run(
                """
                MATCH (d:Document {workspace: $workspace, id: $id})
                SET d.warnings = coalesce(d.warnings_before,
                        CASE WHEN d.live IS NULL THEN [] ELSE d.warnings END),
                    d.warnings_before = null
                """,
                workspace=self._workspace, id=document_id,
            )  # fmt: skip

        await self._database.transaction(work)

    async def remove(self, document_id: str, job_id: str) -> None:
        async def work(tx: Transaction) -> None:
            if not await is_latest(tx, self._workspace, document_id, job_id):
                return
            rows = await tx.run(
                """
                MATCH (d:Document {workspace: $workspace, id: $id})
                RETURN EXISTS { (d)-[:HAS_CHUNK]->() } AS visible
                """,
                workspace=self._workspace, id=document_id,
            )  # fmt: skip
            if rows[0]["visible"]:
                raise still_visible()
            await tx.run(
                """
                MATCH (d:Document {workspace: $workspace, id: $id})
                MERGE (t:Total {workspace: $workspace, part: $part})
                SET t.documents = coalesce(t.documents, 0)
                    - CASE WHEN d.live IS NULL THEN 0 ELSE 1 END
                WITH d MATCH (j:Job {id: d.job_id}) REMOVE j.latest_of
                WITH d
                CALL (d) { MATCH (d)-[:HAS_FIELD]->(f) DETACH DELETE f }
                CALL () {
                    MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
                    WHERE c.workspace = $workspace AND c.document_id = $id
                        AND c.position IS NOT NULL
                    SET c.gone = c.gone OR c.unindexed IS NOT NULL
                    WITH c WHERE NOT c.gone
                    DETACH DELETE c
                }
                CALL () {
                    MATCH (p:Placement {workspace: $workspace, document_id: $id}) DELETE p
                }
                CALL () { MATCH (m:Move {workspace: $workspace, document_id: $id}) DELETE m }
                DETACH DELETE d
                """,
                workspace=self._workspace, id=document_id, part=part_of(document_id),
            )  # fmt: skip

        await self._database.transaction(work)

    async def blob_in_use(self, blob_key: str) -> bool:
        [row] = await self._database.read(
            """
            RETURN EXISTS { MATCH (d:Document {live_source: $key}) }
                OR EXISTS { MATCH (d:Document {live_text: $key}) }
                OR EXISTS { MATCH (d:Document {pending_source: $key}) }
                OR EXISTS { MATCH (d:Document {pending_text: $key}) } AS used
            """,
            key=blob_key,
        )
        return bool(row["used"])

    # --- inside a transaction --------------------------------------------------------------------

    async def _must_find(self, tx: Transaction, document_id: str) -> Document:
        rows = await tx.run(_FIND, workspace=self._workspace, ids=[document_id])
        if not rows:
            raise no_document(document_id)
        return document_of(rows[0])

    async def _put_pending(
        self, tx: Transaction, document_id: str, revision: Revision, uploaded_at: float
    ) -> None:
        fields = fields_of(document_id, revision, uploaded_at)
        await tx.run(
            """
            MERGE (:Total {workspace: $workspace, part: $part})
            WITH * MATCH (d:Document {workspace: $workspace, id: $id})
            SET d.name = $name, d.pending = $pending, d.pending_source = $source,
                d.pending_text = $text, d.updated_at = timestamp()
            WITH d
            CALL (d) { MATCH (d)-[:HAS_FIELD]->(f) WHERE NOT f.live DETACH DELETE f }
            UNWIND $fields AS field
            CREATE (d)-[:HAS_FIELD]->(:Field {
                name: field[0], value: field[1], live: false,
                workspace: $workspace, document_id: $id
            })
            """,
            workspace=self._workspace, id=document_id, name=revision.name,
            pending=revision_json(revision), source=revision.source,
            text=revision.text or None, part=part_of(document_id),
            fields=[[field.name, indexable(field.value)] for field in fields],
        )  # fmt: skip

    async def _resume(self, tx: Transaction, known: Document, job_id: str) -> None:
        """Hand the chunks of the last ingest over to the one that repeats it, which may never put
        them again. After a deletion that did not end, everything is to be read again."""
        if known.job.plan is Plan.DELETE and known.pending is None:
            await self._put_pending(tx, known.id, known.revision, known.created_at)
        await tx.run(
            """
            MATCH (j:Job) USING INDEX SEEK j:Job(workspace, document_id, order)
            WHERE j.workspace = $workspace AND j.document_id = $id AND j.order IS NOT NULL
                AND j.plan = 'ingest'
            WITH j ORDER BY j.workspace DESC, j.document_id DESC, j.order DESC LIMIT 1
            MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
            WHERE c.workspace = $workspace AND c.document_id = $id
                AND c.position IS NOT NULL AND (c.job_id = j.id
                    OR ($all AND c.published IS NOT NULL))
            SET c.job_id = $job
            """,
            workspace=self._workspace, id=known.id, job=job_id,
            all=known.pending is None,  # nobody will put them again
        )  # fmt: skip

    async def _unread(
        self, tx: Transaction, document_id: str, job_id: str, ids: Sequence[str]
    ) -> None:
        """Chunks whose reading failed are to be read again."""
        if not ids:
            return
        await tx.run(
            f"""
            UNWIND $ids AS id
            MATCH (c:Chunk {{workspace: $workspace, id: id}}) SET c.locked = true
            WITH c, c.published IS NOT NULL AND c.before_key IS NULL AS changed
            WHERE c.document_id = $document AND c.failed AND NOT c.gone
            FOREACH (_ IN CASE WHEN changed THEN [1] ELSE [] END | {KEEP_BEFORE})
            SET c.extraction = null, c.failed = false, c.folded = false, c.job_id = $job
            """,
            workspace=self._workspace, document=document_id, job=job_id, ids=sorted(set(ids)),
        )  # fmt: skip

    async def _unpublish(self, tx: Transaction, known: Document) -> None:
        """A deletion that an upload overtakes: what it has not reached yet is no version any more,
        and goes with what the upload replaces."""
        await tx.run(
            """
            MATCH (d:Document {workspace: $workspace, id: $id})
            MERGE (t:Total {workspace: $workspace, part: $part})
            SET t.documents = coalesce(t.documents, 0) - CASE WHEN d.live IS NULL THEN 0 ELSE 1 END
            SET d.live = null, d.live_source = null, d.live_text = null, d.version = 0,
                d.warnings = [], d.warnings_before = null
            WITH d
            CALL (d) { MATCH (d)-[:HAS_FIELD]->(f) WHERE f.live DETACH DELETE f }
            CALL (d) {
                MATCH (d)-[:HAS_CHUNK]->(c) WHERE c.published IS NOT NULL
                WITH c ORDER BY c.id
                SET c.published = null, c += $nothing
            }
            """,
            workspace=self._workspace, id=known.id, part=part_of(known.id), nothing=NOTHING_BEFORE,
        )  # fmt: skip

    async def _pending(self, tx: Transaction, document_id: str, job_id: str) -> Revision | None:
        """Lock the document and return its coming revision, unless the job no longer speaks
        for it."""
        if not await is_latest(tx, self._workspace, document_id, job_id):
            return None
        rows = await tx.run(
            "MATCH (d:Document {workspace: $workspace, id: $id}) RETURN d.pending AS pending",
            workspace=self._workspace, id=document_id,
        )  # fmt: skip
        return revision_of(rows[0]["pending"])
