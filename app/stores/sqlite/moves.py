"""Moves: evidence is folded anew where names came to mean other entities."""

from __future__ import annotations

from sqlite3 import Connection, Row

from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.evidence import exchange, misplaced


class SqliteMoves:
    """The part of `app.ports.Names` about evidence that follows placements."""

    _database: SqliteDatabase
    _workspace: str

    async def move(self, job_id: str, *, limit: int) -> int:
        def work(connection: Connection) -> int:
            move = connection.execute(
                "select seq, name, entity, document_id, after from moves"
                " where workspace = ? order by seq limit 1",
                (self._workspace,),
            ).fetchone()
            if move is None:
                return 0
            chunks = self._to_move(connection, move, limit)
            read = [chunk for chunk in chunks if chunk["extraction"]]
            wrong = misplaced(connection, self._workspace, read)
            exchange(connection, self._workspace, taken=wrong, added=wrong)
            ends = len(chunks) < limit
            if ends:
                connection.execute("delete from moves where seq = ?", (move["seq"],))
            else:
                connection.execute(
                    "update moves set after = ? where seq = ?", (chunks[-1]["id"], move["seq"])
                )
            if wrong or ends:
                connection.execute(
                    "insert or ignore into moved (workspace, job_id) values (?, ?)",
                    (self._workspace, job_id),
                )
            return len(chunks) or 1

        return await self._database.write(work)

    def _to_move(self, connection: Connection, move: Row, limit: int) -> list[Row]:
        """Chunks whose evidence is that of the extraction they have; others are to be folded
        anyway, by a job of their own."""
        bound = {
            "workspace": self._workspace, "name": move["name"], "entity": move["entity"],
            "document": move["document_id"], "after": move["after"], "limit": limit,
        }  # fmt: skip
        columns = "c.seq, c.id, c.document_id, case when c.folded then c.extraction end extraction"
        if move["document_id"]:
            sql = (
                f"select {columns} from chunks c where c.workspace = :workspace"
                " and c.document_id = :document and c.live = 1 and c.id > :after"
                " order by c.id limit :limit"
            )
        else:
            sql = (
                f"select {columns} from entities e cross join mentions m cross join chunks c"
                " where e.workspace = :workspace and e.key = :entity and m.entity = e.seq"
                " and m.chunk_id > :after and c.seq = m.chunk and exists ("
                " select 1 from json_each(m.surfaces) s where json_extract(s.value, '$[0]') = :name"
                ") order by m.chunk_id limit :limit"
            )
        return connection.execute(sql, bound).fetchall()

    async def moving(self) -> bool:
        rows = await self._database.rows(
            "select 1 from moves where workspace = :workspace"
            f" union all select 1 from moved m where {_ORPHANED} limit 1",
            {"workspace": self._workspace},
        )
        return bool(rows)

    async def moved(self, job_id: str) -> bool:
        rows = await self._database.rows(
            "select 1 from moved where workspace = :workspace and job_id = :job",
            {"workspace": self._workspace, "job": job_id},
        )
        return bool(rows)

    async def adopt(self, job_id: str) -> None:
        def work(connection: Connection) -> None:
            connection.execute(
                f"update or replace moved as m set job_id = :job where {_ORPHANED}",
                {"workspace": self._workspace, "job": job_id},
            )

        await self._database.write(work)

    async def tidy(self, job_id: str) -> None:
        def work(connection: Connection) -> None:
            connection.execute(
                "delete from moved where workspace = ? and job_id = ?", (self._workspace, job_id)
            )

        await self._database.write(work)


_ORPHANED = (
    "m.workspace = :workspace and not exists ("
    " select 1 from jobs j where j.id = m.job_id and j.state in ('queued', 'running'))"
)
