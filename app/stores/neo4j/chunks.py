"""Chunks from put to retracted: the writing half of the graph, up to the fold.

What concerns a document's chunks begins by writing to the document node: its lock makes the test
whether the job is still the latest hold until the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.domain import Chunk, Extraction, Readings
from app.stores.neo4j.database import Database, Row, Transaction
from app.stores.neo4j.documents import KEEP_BEFORE, NOTHING_BEFORE, is_latest, part_of
from app.stores.neo4j.folds import Change, apply, told_before, told_by
from app.stores.neo4j.placements import insist
from app.stores.neo4j.rows import chunk_of
from app.stores.records import EMPTY, extraction_json, extraction_of, readings_of, unique


class Neo4jChunks:
    """The part of `app.ports.GraphWriter` about evidence."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    async def put_chunks(
        self, document_id: str, job_id: str, chunks: Sequence[Chunk], keys: Sequence[str]
    ) -> None:
        rows = [_chunk_row(chunk, key) for chunk, key in zip(chunks, keys, strict=True)]
        rows.sort(key=lambda row: str(row["id"]))  # the order in which all take their locks

        async def work(tx: Transaction) -> None:
            if not await is_latest(tx, self._workspace, document_id, job_id):
                return
            # What this job put before and does not name now is another revision's: nobody's.
            await tx.run(
                """
                MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
                WHERE c.workspace = $workspace AND c.document_id = $document
                    AND c.position IS NOT NULL AND c.job_id = $job
                SET c.job_id = ''
                """,
                workspace=self._workspace, document=document_id, job=job_id,
            )  # fmt: skip
            await tx.lock(
                f"""
                MATCH (d:Document {{workspace: $workspace, id: $document}})
                UNWIND $rows AS row
                MERGE (c:Chunk {{workspace: $workspace, id: row.id}})
                ON CREATE SET c.live = false, c.folded = false, c.gone = false,
                    c.indexed = false, c.failed = false
                WITH d, c, row, c.indexed AND NOT c.gone AS indexed,
                    c.extraction IS NOT NULL AND NOT c.failed
                    AND c.extraction_key = row.extraction_key AS read,
                    c.published IS NOT NULL AND c.before_key IS NULL AND (c.failed
                    OR c.position <> row.position OR c.extraction_key <> row.extraction_key
                    OR coalesce(c.page_end, -1) <> coalesce(row.page_end, -1)) AS changed
                FOREACH (_ IN CASE WHEN changed THEN [1] ELSE [] END | {KEEP_BEFORE})
                SET c += row, c.document_id = $document, c.job_id = $job,
                    c.name = d.name + ' §' + toString(row.position + 1),
                    c.indexed = indexed, c.gone = false, c.failed = false,
                    c.unindexed = CASE WHEN c.live AND NOT indexed
                        OR NOT c.live AND c.unindexed IS NOT NULL THEN true END
                FOREACH (_ IN CASE WHEN read THEN [] ELSE [1] END |
                    SET c.folded = false, c.extraction = null, c.reusable = null)
                RETURN c.id IS NOT NULL AS there
                """,
                workspace=self._workspace, document=document_id, job=job_id, rows=rows,
            )  # fmt: skip
            await tx.run(
                """
                MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
                WHERE c.workspace = $workspace AND c.document_id = $document
                    AND c.position IS NOT NULL
                    AND c.job_id <> $job AND NOT c.live
                SET c.gone = c.gone OR c.unindexed IS NOT NULL
                WITH c WHERE NOT c.gone
                DETACH DELETE c
                """,
                workspace=self._workspace, document=document_id, job=job_id,
            )  # fmt: skip

        await self._database.transaction(work)

    async def pending_chunks(self, document_id: str, ids: Sequence[str]) -> list[tuple[Chunk, str]]:
        rows = await self._database.read(
            """
            UNWIND $ids AS id
            MATCH (c:Chunk {workspace: $workspace, id: id})
            WHERE c.document_id = $document AND NOT c.gone
            RETURN c {.id, .document_id, .position, .start, .end, .text, .tokens, .headings,
                .page, .page_end} AS c, c.extraction_key AS key
            ORDER BY c.position, c.id
            """,
            workspace=self._workspace, document=document_id, ids=unique(ids),
        )  # fmt: skip
        return [(chunk_of(row["c"]), row["key"]) for row in rows]

    async def unread(self, document_id: str, job_id: str) -> list[str]:
        rows = await self._database.read(
            """
            MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
            WHERE c.workspace = $workspace AND c.document_id = $document
                AND c.position IS NOT NULL AND c.job_id = $job AND NOT c.gone
                AND c.extraction IS NULL
            RETURN c.id AS id ORDER BY c.position, id
            """,
            workspace=self._workspace, document=document_id, job=job_id,
        )  # fmt: skip
        return [row["id"] for row in rows]

    async def readings(self, document_id: str, job_id: str) -> Readings:
        rows = await self._database.read(
            """
            MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
            WHERE c.workspace = $workspace AND c.document_id = $document
                AND c.position IS NOT NULL AND c.job_id = $job AND NOT c.gone
                AND c.extraction IS NOT NULL
            RETURN c.id AS id, c.position AS position, c.failed AS failed,
                c.extraction STARTS WITH $empty AS empty,
                CASE WHEN c.failed THEN c.extraction END AS said
            ORDER BY position, id
            """,
            workspace=self._workspace, document=document_id, job=job_id, empty=EMPTY,
        )  # fmt: skip
        return readings_of(
            [{**row, "why": row["said"] and extraction_of(row["said"]).error} for row in rows]
        )

    async def unfolded(self, document_id: str, job_id: str) -> list[str]:
        rows = await self._database.read(
            """
            MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
            WHERE c.workspace = $workspace AND c.document_id = $document
                AND c.position IS NOT NULL AND c.job_id = $job AND NOT c.gone
                AND NOT c.folded AND c.extraction IS NOT NULL
            RETURN c.id AS id ORDER BY c.position, id
            """,
            workspace=self._workspace, document=document_id, job=job_id,
        )  # fmt: skip
        return [row["id"] for row in rows]

    async def extractions(self, keys: Sequence[str]) -> dict[str, Extraction]:
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            CALL (key) {
                MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, reusable)
                WHERE c.workspace = $workspace AND c.reusable = key
                RETURN c.extraction AS extraction LIMIT 1
            }
            RETURN key, extraction
            """,
            workspace=self._workspace, keys=unique(keys),
        )  # fmt: skip
        return {row["key"]: extraction_of(row["extraction"]) for row in rows}

    async def put_extraction(self, chunk_id: str, extraction: Extraction, *, key: str = "") -> None:
        # The first reading stands, unless it failed: what was folded stays what was stored.
        await self._database.write(
            """
            MATCH (c:Chunk {workspace: $workspace, id: $id}) SET c.locked = true
            WITH c WHERE NOT c.gone AND (c.extraction IS NULL OR (c.failed AND NOT $failed))
                AND $key IN ['', c.extraction_key]
            SET c.extraction = $extraction, c.failed = $failed, c.folded = false,
                c.reusable = CASE WHEN $failed THEN null ELSE c.extraction_key END
            """,
            workspace=self._workspace, id=chunk_id, failed=bool(extraction.error),
            extraction=extraction_json(extraction), key=key,
        )  # fmt: skip

    # --- evidence --------------------------------------------------------------------------------

    async def fold(self, document_id: str, job_id: str, ids: Sequence[str]) -> None:
        async def work(tx: Transaction) -> None:
            await insist(tx, self._workspace)
            if not await is_latest(tx, self._workspace, document_id, job_id):
                return
            chunks = await tx.run(
                """
                UNWIND $ids AS id
                MATCH (c:Chunk {workspace: $workspace, id: id})
                SET c.locked = true
                WITH c WHERE c.document_id = $document AND c.job_id = $job
                    AND NOT c.gone AND NOT c.folded AND c.extraction IS NOT NULL
                RETURN c.id AS id, c.document_id AS document_id, c.extraction AS extraction,
                    c.live AS live
                """,
                workspace=self._workspace, document=document_id, job=job_id,
                ids=sorted(set(ids)),
            )  # fmt: skip
            if not chunks:
                return
            change = await told_by(tx, self._workspace, chunks)
            # Visible ones were read again: what they said before goes.
            if again := [chunk["id"] for chunk in chunks if chunk["live"]]:
                change.taken = await told_before(tx, self._workspace, again)
            await apply(tx, self._workspace, change)
            await tx.run(
                """
                MATCH (d:Document {workspace: $workspace, id: $document})
                CALL (d) {
                    UNWIND $fresh AS id
                    MATCH (c:Chunk {workspace: $workspace, id: id})
                    CREATE (d)-[:HAS_CHUNK]->(c)
                }
                CALL () {
                    UNWIND $ids AS id
                    MATCH (c:Chunk {workspace: $workspace, id: id})
                    SET c.live = true, c.folded = true, c.indexed = false, c.unindexed = true
                }
                MERGE (t:Total {workspace: $workspace, part: $part})
                SET t.chunks = coalesce(t.chunks, 0) + size($fresh),
                    t.entities = coalesce(t.entities, 0) + $entities,
                    t.relations = coalesce(t.relations, 0) + $relations
                """,
                workspace=self._workspace, document=document_id, part=part_of(document_id),
                ids=[chunk["id"] for chunk in chunks],
                fresh=[chunk["id"] for chunk in chunks if not chunk["live"]],
                entities=change.entities, relations=change.relations,
            )  # fmt: skip

        await self._database.transaction(work)

    async def retired(self, document_id: str, job_id: str) -> list[str]:
        rows = await self._database.read(
            """
            MATCH (d:Document {workspace: $workspace, id: $document}) WHERE d.job_id = $job
            MATCH (j:Job {id: $job})
            MATCH (d)-[:HAS_CHUNK]->(c) WHERE CASE j.plan WHEN 'delete' THEN true
                WHEN 'withdraw' THEN c.published IS NULL ELSE c.job_id <> $job END
            RETURN c.id AS id ORDER BY c.position, id
            """,
            workspace=self._workspace, document=document_id, job=job_id,
        )  # fmt: skip
        return [row["id"] for row in rows]

    async def retract(self, document_id: str, ids: Sequence[str]) -> None:
        async def work(tx: Transaction) -> None:
            # A late worker of an earlier job must not take what the latest one keeps.
            chunks = await tx.run(
                """
                MATCH (d:Document {workspace: $workspace, id: $document}) SET d.locked = true
                WITH d MATCH (j:Job {id: d.job_id})
                WITH j UNWIND $ids AS id
                MATCH (c:Chunk {workspace: $workspace, id: id})
                SET c.locked = true
                WITH c, j WHERE c.document_id = $document AND c.live
                    AND CASE j.plan WHEN 'delete' THEN true
                        WHEN 'withdraw' THEN c.published IS NULL ELSE c.job_id <> j.id END
                RETURN c.id AS id, j.plan = 'withdraw' AS kept
                """,
                workspace=self._workspace, document=document_id, ids=sorted(set(ids)),
            )  # fmt: skip
            if not chunks:
                return
            named = [chunk["id"] for chunk in chunks]
            change = Change(taken=await told_before(tx, self._workspace, named))
            await apply(tx, self._workspace, change)
            await tx.run(
                """
                CALL () {
                    UNWIND $ids AS id
                    MATCH (c:Chunk {workspace: $workspace, id: id})<-[h:HAS_CHUNK]-()
                    SET c.live = false, c.folded = false, c.gone = NOT $kept,
                        c.unindexed = true, c.published = null, c += $nothing
                    DELETE h
                }
                MERGE (t:Total {workspace: $workspace, part: $part})
                SET t.chunks = coalesce(t.chunks, 0) - size($ids),
                    t.entities = coalesce(t.entities, 0) + $entities,
                    t.relations = coalesce(t.relations, 0) + $relations
                """,
                workspace=self._workspace, part=part_of(document_id), ids=named,
                kept=chunks[0]["kept"], nothing=NOTHING_BEFORE,
                entities=change.entities, relations=change.relations,
            )  # fmt: skip

        await self._database.transaction(work)


def _chunk_row(chunk: Chunk, key: str) -> Row:
    return {
        "id": chunk.id,
        "position": chunk.position,
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "tokens": chunk.tokens,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "page_end": chunk.page_end,
        "extraction_key": key,
    }
