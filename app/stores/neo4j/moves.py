"""Moves: evidence is folded anew where names came to mean other entities.

Any number of workers may move at the same time. What a chunk says is compared with what is counted
for it while both are locked, so a page that two work on is moved once; and a move goes on from
where it stands only if it is still the one that was read (`token`), since a later decision lets it
begin anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.folding import MentionRow, surfaces_json
from app.stores.neo4j.database import Database, Row, Transaction
from app.stores.neo4j.documents import part_of
from app.stores.neo4j.folds import Change, Told, apply, told_before, told_by
from app.stores.neo4j.placements import insist


@dataclass(frozen=True, slots=True)
class _Page:
    """Some chunks (id, document id) of an open move; the last ones if `ends`."""

    move: Row
    chunks: list[tuple[str, str]]
    ends: bool


class Neo4jMoves:
    """The part of `app.ports.Names` about evidence that follows placements."""

    _database: Database
    _workspace: str

    async def move(self, job_id: str, *, limit: int) -> int:
        async def work(tx: Transaction) -> int:
            await insist(tx, self._workspace)
            pages = await self._pages(tx, limit)
            if not pages:
                return 0
            chunks = sorted({chunk for page in pages for chunk in page.chunks})
            moved = await self._fold_anew(tx, job_id, chunks)
            await self._go_on(tx, pages)
            if moved or any(page.ends for page in pages):
                await tx.lock(
                    """
                    MERGE (m:Moved {workspace: $workspace, job_id: $job})
                    SET m.name = $job
                    RETURN m.job_id IS NOT NULL AS there
                    """,
                    workspace=self._workspace, job=job_id,
                )  # fmt: skip
            return len(chunks) or 1

        return await self._database.transaction(work)

    async def moving(self) -> bool:
        rows = await self._database.read(
            """
            CALL () {
                MATCH (m:Move) USING INDEX SEEK m:Move(workspace, order)
                WHERE m.workspace = $workspace AND m.order IS NOT NULL
                RETURN 1 AS one LIMIT 1
              UNION
                MATCH (m:Moved) USING INDEX SEEK m:Moved(workspace, job_id)
                WHERE m.workspace = $workspace AND m.job_id IS NOT NULL
                    AND NOT EXISTS { (j:Job {id: m.job_id})
                        WHERE j.state IN ['queued', 'running'] }
                RETURN 1 AS one LIMIT 1
            }
            RETURN one LIMIT 1
            """,
            workspace=self._workspace,
        )
        return bool(rows)

    async def moved(self, job_id: str) -> bool:
        rows = await self._database.read(
            """
            MATCH (m:Moved {workspace: $workspace, job_id: $job})
            RETURN 1 AS one LIMIT 1
            """,
            workspace=self._workspace, job=job_id,
        )  # fmt: skip
        return bool(rows)

    async def adopt(self, job_id: str) -> None:
        await self._database.write(
            """
            MATCH (m:Moved) USING INDEX SEEK m:Moved(workspace, job_id)
            WHERE m.workspace = $workspace AND m.job_id IS NOT NULL AND m.job_id <> $job
                AND NOT EXISTS { (j:Job {id: m.job_id}) WHERE j.state IN ['queued', 'running'] }
            WITH m ORDER BY m.job_id
            DELETE m
            WITH count(*) AS orphans WHERE orphans > 0
            MERGE (own:Moved {workspace: $workspace, job_id: $job})
            SET own.name = $job
            """,
            workspace=self._workspace, job=job_id,
        )  # fmt: skip

    async def tidy(self, job_id: str) -> None:
        await self._database.write(
            """
            MATCH (m:Moved {workspace: $workspace, job_id: $job})
            DELETE m
            """,
            workspace=self._workspace, job=job_id,
        )  # fmt: skip

    # --- inside a transaction --------------------------------------------------------------------

    async def _pages(self, tx: Transaction, limit: int) -> list[_Page]:
        """The first open moves, as many as have `limit` chunks together."""
        rows = await tx.run(
            """
            MATCH (m:Move) USING INDEX SEEK m:Move(workspace, order)
            WHERE m.workspace = $workspace AND m.order IS NOT NULL
            WITH m ORDER BY m.workspace, m.order LIMIT $limit
            RETURN m {.key, .entity, .document_id, .after, .token} AS m
            """,
            workspace=self._workspace, limit=limit,
        )  # fmt: skip
        pages: list[_Page] = []
        left = limit
        for row in rows:
            chunks = await self._chunks_of(tx, row["m"], left)
            pages.append(_Page(row["m"], chunks, len(chunks) < left))
            left -= len(chunks)
            if left <= 0:
                break
        return pages

    async def _chunks_of(self, tx: Transaction, move: Row, limit: int) -> list[tuple[str, str]]:
        if move["document_id"]:
            rows = await tx.run(
                """
                MATCH (:Document {workspace: $workspace, id: $document})-[:HAS_CHUNK]->(c)
                WHERE c.id > $after
                RETURN c.id AS id, $document AS document ORDER BY id LIMIT $limit
                """,
                workspace=self._workspace, document=move["document_id"], after=move["after"],
                limit=limit,
            )  # fmt: skip
        else:
            rows = await tx.run(
                """
                MATCH ()-[m:MENTIONS]->() USING INDEX SEEK m:MENTIONS(workspace, entity, chunk)
                WHERE m.workspace = $workspace AND m.entity = $entity AND m.chunk > $after
                    AND $name IN m.names
                WITH m ORDER BY m.workspace, m.entity, m.chunk LIMIT $limit
                RETURN m.chunk AS id, m.document AS document ORDER BY id
                """,
                workspace=self._workspace, entity=move["entity"], name=move["key"],
                after=move["after"], limit=limit,
            )  # fmt: skip
        return [(row["id"], row["document"]) for row in rows]

    async def _fold_anew(
        self, tx: Transaction, job_id: str, chunks: Sequence[tuple[str, str]]
    ) -> bool:
        """Those of the chunks whose evidence is not where names mean it to be now."""
        read = await self._lock_chunks(tx, chunks)
        change = await told_by(tx, self._workspace, read)
        change.taken = await told_before(tx, self._workspace, [chunk["id"] for chunk in read])
        wrong = _misplaced(change)
        change.added = [told for told in change.added if told.chunk_id in wrong]
        change.taken = [told for told in change.taken if told.chunk_id in wrong]
        if not wrong:
            return False
        await apply(tx, self._workspace, change)
        await tx.run(
            """
            MERGE (t:Total {workspace: $workspace, part: $part})
            SET t.entities = coalesce(t.entities, 0) + $entities,
                t.relations = coalesce(t.relations, 0) + $relations
            """,
            workspace=self._workspace, part=part_of(job_id), entities=change.entities,
            relations=change.relations,
        )  # fmt: skip
        return True

    async def _lock_chunks(self, tx: Transaction, chunks: Sequence[tuple[str, str]]) -> list[Row]:
        """Chunks whose evidence is that of the extraction they have; others are to be folded
        anyway, by a job of their own."""
        await tx.run(
            """
            UNWIND $documents AS id
            MATCH (d:Document {workspace: $workspace, id: id}) SET d.locked = true
            """,
            workspace=self._workspace, documents=sorted({document for _, document in chunks}),
        )  # fmt: skip
        return await tx.run(
            """
            UNWIND $ids AS id
            MATCH (c:Chunk {workspace: $workspace, id: id}) SET c.locked = true
            WITH c WHERE c.live AND c.folded
            RETURN c.id AS id, c.document_id AS document_id, c.extraction AS extraction
            """,
            workspace=self._workspace, ids=sorted(id for id, _ in chunks),
        )  # fmt: skip

    async def _go_on(self, tx: Transaction, pages: Sequence[_Page]) -> None:
        """A move that ended is gone; one that began anew meanwhile, or that another worker took
        further, stays as it is."""
        rows = [
            {**page.move, "next": None if page.ends else page.chunks[-1][0]}
            for page in sorted(pages, key=_place)
        ]
        await tx.run(
            """
            UNWIND $rows AS row
            MATCH (m:Move {workspace: $workspace, key: row.key, entity: row.entity,
                document_id: row.document_id})
            SET m.locked = true
            WITH m, row WHERE m.token = row.token AND m.after = row.after
            FOREACH (_ IN CASE WHEN row.next IS NULL THEN [1] ELSE [] END | DELETE m)
            FOREACH (_ IN CASE WHEN row.next IS NULL THEN [] ELSE [1] END |
                SET m.after = row.next)
            """,
            workspace=self._workspace, rows=rows,
        )  # fmt: skip


def _place(page: _Page) -> tuple[str, str, str]:
    return page.move["key"], page.move["entity"], page.move["document_id"]


def _misplaced(change: Change) -> set[str]:
    """Ids of chunks that would be counted otherwise than they are."""
    now, before = _where(change.added), _where(change.taken)
    return {id for id in now.keys() | before.keys() if now.get(id) != before.get(id)}


def _where(told: Sequence[Told]) -> dict[str, set[tuple[str, str, str]]]:
    found: dict[str, set[tuple[str, str, str]]] = {}
    for one in told:
        if isinstance(one.row, MentionRow):
            place = one.row.key, one.row.name, surfaces_json(one.row)
            found.setdefault(one.chunk_id, set()).add(place)
    return found
