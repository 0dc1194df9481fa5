"""The writing half of the graph: chunks from put to forgotten, profiles and index marks."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection, Row

from app.domain import Chunk, Extraction, Kind, Mark, Profile, Readings, Ref, Stale
from app.stores.records import EMPTY, dump, extraction_json, extraction_of, readings_of
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.evidence import add_totals, exchange
from app.stores.sqlite.jobs import is_latest
from app.stores.sqlite.rows import BEFORE, CHUNK, EVIDENCE, TABLES, chunk_of, listed

# Of the chunks that a call names, those of the document.
_NAMED = (
    "from json_each(:ids) i cross join chunks c"
    " where c.workspace = :workspace and c.id = i.value and c.document_id = :document"
)


class SqliteGraphWriter:
    """Implements `app.ports.GraphWriter`."""

    def __init__(self, database: SqliteDatabase, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    # --- chunks ----------------------------------------------------------------------------------

    async def put_chunks(
        self, document_id: str, job_id: str, chunks: Sequence[Chunk], keys: Sequence[str]
    ) -> None:
        rows = [
            self._bound(document_id, job_id) | _chunk_values(chunk, key)
            for chunk, key in zip(chunks, keys, strict=True)
        ]

        def work(connection: Connection) -> None:
            if not is_latest(connection, self._workspace, document_id, job_id):
                return
            bound = self._bound(document_id, job_id)
            connection.execute(_DISOWN, bound)
            connection.executemany(_PUT_CHUNK, rows)
            for sql in _DROP_OTHERS:
                connection.execute(sql, bound)

        await self._database.write(work)

    async def pending_chunks(self, document_id: str, ids: Sequence[str]) -> list[tuple[Chunk, str]]:
        rows = await self._database.rows(
            f"select {CHUNK}, c.extraction_key {_NAMED} and c.gone = 0 order by c.position, c.id",
            {**self._bound(document_id), "ids": listed(ids)},
        )
        return [(chunk_of(row), row["extraction_key"]) for row in rows]

    async def unread(self, document_id: str, job_id: str) -> list[str]:
        return await self._ids(document_id, job_id, "extraction is null")

    async def readings(self, document_id: str, job_id: str) -> Readings:
        rows = await self._database.rows(
            "select id, position, failed, substr(extraction, 1, :length) = :empty as empty,"
            " case when failed = 1 then extraction ->> 'error' end as why"
            " from chunks where workspace = :workspace and document_id = :document"
            " and job_id = :job and gone = 0 and extraction is not null order by position, id",
            {**self._bound(document_id, job_id), "empty": EMPTY, "length": len(EMPTY)},
        )
        return readings_of(rows)

    async def unfolded(self, document_id: str, job_id: str) -> list[str]:
        return await self._ids(document_id, job_id, "extraction is not null and folded = 0")

    async def _ids(self, document_id: str, job_id: str, condition: str) -> list[str]:
        rows = await self._database.rows(
            "select id from chunks where workspace = :workspace and document_id = :document"
            f" and job_id = :job and gone = 0 and {condition} order by position, id",
            self._bound(document_id, job_id),
        )
        return [row["id"] for row in rows]

    async def extractions(self, keys: Sequence[str]) -> dict[str, Extraction]:
        rows = await self._database.rows(
            "select k.value as key, (select c.extraction from chunks c"
            " where c.workspace = :workspace and c.extraction_key = k.value"
            " and c.extraction is not null and c.failed = 0 limit 1) as extraction"
            " from json_each(:keys) k",
            {"workspace": self._workspace, "keys": listed(keys)},
        )
        return {
            row["key"]: extraction_of(row["extraction"]) for row in rows if row["extraction"]
        }  # fmt: skip

    async def put_extraction(self, chunk_id: str, extraction: Extraction, *, key: str = "") -> None:
        values = {
            "workspace": self._workspace, "id": chunk_id, "failed": bool(extraction.error),
            "extraction": extraction_json(extraction), "key": key,
        }  # fmt: skip

        # The first reading stands, unless it failed: what was folded stays what was stored.
        def work(connection: Connection) -> None:
            connection.execute(
                "update chunks set extraction = :extraction, failed = :failed, folded = 0"
                " where workspace = :workspace and id = :id and gone = 0"
                " and (extraction is null or failed > :failed)"
                " and :key in ('', extraction_key)",
                values,
            )

        await self._database.write(work, durable=extraction.usage.llm_calls > 0)

    # --- evidence --------------------------------------------------------------------------------

    async def fold(self, document_id: str, job_id: str, ids: Sequence[str]) -> None:
        def work(connection: Connection) -> None:
            if not is_latest(connection, self._workspace, document_id, job_id):
                return
            chunks = connection.execute(
                f"select c.seq, c.id, c.document_id, c.extraction, c.live {_NAMED}"
                " and c.job_id = :job and c.gone = 0 and c.folded = 0"
                " and c.extraction is not null",
                {**self._bound(document_id, job_id), "ids": listed(ids)},
            ).fetchall()
            fresh = [chunk for chunk in chunks if not chunk["live"]]
            # Visible ones were read again: what they said before goes.
            again = [chunk for chunk in chunks if chunk["live"]]
            exchange(connection, self._workspace, taken=again, added=chunks)
            connection.execute(
                "update chunks set live = 1, folded = 1, indexed = 0, ghost = 0"
                " where seq in (select value from json_each(:seqs))",
                _seqs(chunks),
            )
            self._count_chunks(connection, document_id, len(fresh))

        await self._database.write(work)

    async def retired(self, document_id: str, job_id: str) -> list[str]:
        rows = await self._database.rows(
            "select c.id from documents d join jobs j on j.id = d.job_id"
            " cross join chunks c where d.workspace = :workspace and d.id = :document"
            " and d.job_id = :job and c.workspace = :workspace and c.document_id = :document"
            f" and c.live = 1 and ({_RETIRED})"
            " order by c.position, c.id",
            self._bound(document_id, job_id),
        )
        return [row["id"] for row in rows]

    async def retract(self, document_id: str, ids: Sequence[str]) -> None:
        def work(connection: Connection) -> None:
            # A late worker of an earlier job must not take what the latest one keeps.
            withdrawn = connection.execute(
                "select 1 from documents d join jobs j on j.id = d.job_id"
                " where d.workspace = :workspace and d.id = :document and j.plan = 'withdraw'",
                self._bound(document_id),
            ).fetchone()
            chunks = connection.execute(
                f"select c.seq {_NAMED} and c.live = 1 and not exists ("
                " select 1 from documents d join jobs j on j.id = d.job_id"
                " where d.workspace = :workspace and d.id = :document"
                f" and not ({_RETIRED}))",
                {**self._bound(document_id), "ids": listed(ids)},
            ).fetchall()
            exchange(connection, self._workspace, taken=chunks)
            connection.execute(
                "update chunks set live = 0, folded = 0, published = 0, before = null,"
                " gone = not :kept, ghost = :kept"
                " where seq in (select value from json_each(:seqs))",
                {**_seqs(chunks), "kept": withdrawn is not None},
            )
            self._count_chunks(connection, document_id, -len(chunks))

        await self._database.write(work)

    # --- profiles and index marks ----------------------------------------------------------------

    async def unprofiled(self, document_id: str = "") -> list[Ref]:
        stale = "x.mentions > 0 and x.profiled < x.revision"

        def work(connection: Connection) -> list[Ref]:
            return [
                Ref(kind, row["key"])
                for kind in TABLES
                for row in connection.execute(
                    _supported(kind, stale)
                    if document_id
                    else f"select x.key from {TABLES[kind]} x"
                    f" indexed by {TABLES[kind]}_unprofiled"
                    f" where x.workspace = :workspace and {stale} order by x.key",
                    self._bound(document_id),
                )
            ]

        return await self._database.read(work)

    async def put_profiles(self, profiles: Sequence[Profile]) -> None:
        def work(connection: Connection) -> None:
            for kind, table in TABLES.items():
                # Where only names changed since it was read, a profile covers the present.
                connection.executemany(
                    f"update {table} set profile = :text, covered = :covered, profiled ="
                    " case when :revision >= evidenced then revision else :revision end"
                    " where workspace = :workspace and key = :key and mentions > 0"
                    " and :revision between shrunk and revision and :revision > profiled",
                    [
                        {
                            "workspace": self._workspace, "key": profile.ref.key,
                            "text": profile.text, "covered": profile.covered,
                            "revision": profile.revision,
                        }
                        for profile in profiles
                        if profile.ref.kind is kind
                    ],
                )  # fmt: skip

        await self._database.write(work)

    async def unindexed(self, document_id: str = "") -> list[Stale]:
        stale = "(x.mentions = 0 or x.indexed < x.profiled)"
        bound = self._bound(document_id)
        if document_id:
            chunks, order = "and document_id = :document", "id"
            queries = {
                Kind.ENTITY: _supported(Kind.ENTITY, stale),
                Kind.RELATION: _supported(Kind.RELATION, stale, _OF_ENDS),
            }
        else:
            chunks, order = "", "document_id, id"
            queries = {
                kind: f"select x.key, x.mentions = 0 as gone from {table} x"
                f" indexed by {table}_unindexed"
                f" where x.workspace = :workspace and {stale} order by x.key"
                for kind, table in TABLES.items()
            }
            queries[Kind.COMMUNITY] = _UNINDEXED_COMMUNITIES
        queries[Kind.CHUNK] = (
            "select id as key, live = 0 as gone from chunks indexed by chunks_unindexed"
            " where workspace = :workspace"
            " and (gone = 1 or ghost = 1 or (live = 1 and indexed = 0))"
            f" {chunks} order by {order}"
        )

        def work(connection: Connection) -> list[Stale]:
            return [
                Stale(Ref(kind, row["key"]), bool(row["gone"]))
                for kind in Kind
                if kind in queries
                for row in connection.execute(queries[kind], bound)
            ]

        return await self._database.read(work)

    async def mark_indexed(self, marks: Sequence[Mark]) -> None:
        def work(connection: Connection) -> None:
            for kind, sql in _MARK.items():
                connection.executemany(
                    sql,
                    [
                        {
                            "workspace": self._workspace, "key": mark.ref.key,
                            "revision": mark.revision, "digest": mark.digest,
                        }
                        for mark in marks
                        if mark.ref.kind is kind
                    ],
                )  # fmt: skip

        await self._database.write(work)

    async def forget(self, refs: Sequence[Ref]) -> None:
        def work(connection: Connection) -> None:
            for kind, statements in _FORGET.items():
                keys = listed(ref.key for ref in refs if ref.kind is kind)
                for sql in statements:
                    connection.execute(sql, {"workspace": self._workspace, "keys": keys})

        await self._database.write(work)

    # --- inside a transaction --------------------------------------------------------------------

    def _bound(self, document_id: str, job_id: str = "") -> dict[str, object]:
        return {"workspace": self._workspace, "document": document_id, "job": job_id}

    def _count_chunks(self, connection: Connection, document_id: str, more: int) -> None:
        add_totals(connection, self._workspace, chunks=more)
        connection.execute(
            "update documents set chunks = chunks + :more"
            " where workspace = :workspace and id = :document",
            {**self._bound(document_id), "more": more},
        )


# What the document's latest job, `j`, takes away. A withdrawal looks at what was published, since
# chunks that both revisions have are those of the job that it cleans up after.
_RETIRED = (
    "case j.plan when 'delete' then 1 when 'withdraw' then c.published = 0"
    " else c.job_id <> j.id end"
)
# Chunks that this job put before and does not name now are those of another revision: nobody's.
_DISOWN = (
    "update chunks set job_id = '' where workspace = :workspace and document_id = :document"
    " and job_id = :job"
)
_DROP_OTHERS = (
    "update chunks set gone = 1, ghost = 0 where workspace = :workspace"
    " and document_id = :document and job_id <> :job and ghost = 1",
    "delete from chunks where workspace = :workspace and document_id = :document"
    " and job_id <> :job and live = 0 and gone = 0",
)
_PUT_CHUNK = f"""
    insert into chunks (workspace, id, document_id, job_id, position, span_start, span_end, page,
        page_end, headings, text, tokens, extraction_key)
    values (:workspace, :id, :document, :job, :position, :start, :end, :page, :page_end, :headings,
        :text, :tokens, :key)
    on conflict (workspace, id) do update set
        document_id = excluded.document_id, job_id = excluded.job_id,
        position = excluded.position, span_start = excluded.span_start,
        span_end = excluded.span_end, page = excluded.page, page_end = excluded.page_end,
        headings = excluded.headings, text = excluded.text, tokens = excluded.tokens,
        extraction_key = excluded.extraction_key,
        before = case when published = 1 and before is null and (failed = 1
                or position <> excluded.position or page_end is not excluded.page_end
                or extraction_key <> excluded.extraction_key)
            then {BEFORE} else before end,
        extraction = case when failed = 0 and extraction_key = excluded.extraction_key
            then extraction end,
        folded = case when failed = 0 and extraction_key = excluded.extraction_key
            then folded else 0 end,
        indexed = case when gone = 1 then 0 else indexed end,
        ghost = max(ghost, gone), failed = 0, gone = 0
"""
# Relations that the document need not support itself: one of its entities was renamed.
_OF_ENDS = "".join(
    " union select x.key, 0 as gone"
    " from chunks c cross join mentions m cross join relations x"
    " where c.workspace = :workspace and c.document_id = :document and c.live = 1"
    f" and m.chunk = c.seq and x.{end} = m.entity and x.mentions > 0"
    " and x.indexed < x.renamed and x.indexed < x.profiled"
    for end in ("source", "target")
)
_MARK_EVIDENCED = (
    "set indexed = :revision, digest = :digest where workspace = :workspace and key = :key"
    " and mentions > 0 and :revision between indexed and profiled"
)
_MARK = {
    Kind.CHUNK: "update chunks set indexed = 1"
    " where workspace = :workspace and id = :key and live = 1",
    **{kind: f"update {table} {_MARK_EVIDENCED}" for kind, table in TABLES.items()},
    Kind.COMMUNITY: "update communities set indexed = 1, digest = :digest"
    " where workspace = :workspace and id = :key and version = :revision and report is not null",
}
_AMONG = "where workspace = :workspace and {} in (select value from json_each(:keys))"
# What has evidence again lost its point all the same.
_FORGET = {
    Kind.CHUNK: (
        f"delete from chunks {_AMONG.format('id')} and gone = 1",
        f"update chunks set indexed = 0, ghost = 0 {_AMONG.format('id')}",
    ),
    **{
        kind: (
            f"delete from {table} {_AMONG.format('key')} and mentions = 0",
            f"update {table} set indexed = 0, digest = '' {_AMONG.format('key')}",
        )
        for kind, table in TABLES.items()
    },
    Kind.COMMUNITY: (
        f"delete from communities {_AMONG.format('id')} and gone = 1",
        "update communities set indexed = 0, digest = '', pointed = report is not null"
        f" {_AMONG.format('id')}",
    ),
}


_UNINDEXED_COMMUNITIES = """
    select id as key, report is null as gone from communities indexed by communities_unindexed
    where workspace = :workspace
        and ((report is null and pointed = 1) or (report is not null and indexed = 0))
    order by id
"""


def _supported(kind: Kind, stale: str, more: str = "") -> str:
    """Entities or relations with evidence in the document's visible chunks."""
    evidence, column = EVIDENCE[kind]
    return (
        "select distinct x.key as key, x.mentions = 0 as gone"
        f" from chunks c cross join {evidence} m cross join {TABLES[kind]} x"
        " where c.workspace = :workspace and c.document_id = :document and c.live = 1"
        f" and m.chunk = c.seq and x.seq = m.{column} and {stale}{more} order by key"
    )


def _seqs(chunks: Sequence[Row]) -> dict[str, object]:
    return {"seqs": dump([chunk["seq"] for chunk in chunks])}


def _chunk_values(chunk: Chunk, key: str) -> dict[str, object]:
    return {
        "id": chunk.id, "position": chunk.position, "start": chunk.start, "end": chunk.end,
        "page": chunk.page, "page_end": chunk.page_end, "headings": dump(chunk.headings),
        "text": chunk.text, "tokens": chunk.tokens, "key": key,
    }  # fmt: skip
