"""Documents of one workspace, their revisions, and the opening of their jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from sqlite3 import Connection

from app.domain import Document, Job, Plan, Revision, Status, Usage
from app.ports import Filters
from app.stores.filters import fields_of
from app.stores.records import already_has, in_order, revision_json, revision_of
from app.stores.refusals import no_document, same_job, still_visible
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.evidence import add_totals
from app.stores.sqlite.filters import select_matching
from app.stores.sqlite.jobs import is_latest, job_exists, open_job
from app.stores.sqlite.rows import BEFORE, DOCUMENT, document_of, listed

_FROM = f"select {DOCUMENT} from documents d join jobs j on j.id = d.job_id"


class SqliteDocuments:
    """Implements `app.ports.Documents`."""

    def __init__(self, database: SqliteDatabase, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    async def submit(self, document_id: str, revision: Revision, job: Job) -> Document:
        def work(connection: Connection) -> Document:
            now = self._database.clock()
            known = self._find(connection, document_id)
            repeated = job_exists(connection, job.id)
            if known is not None and (repeated or already_has(known, revision)):
                return known
            if repeated:
                raise same_job(job.id)
            if known is not None and known.job.plan is Plan.DELETE:
                self._unpublish(connection, known)
            values = {
                **self._bound(document_id), "job": job.id, "now": now,
                "pending": revision_json(revision),
            }  # fmt: skip
            connection.execute(
                "insert into documents (workspace, id, pending, job_id, created_at, updated_at)"
                " values (:workspace, :document, :pending, :job, :now, :now)"
                " on conflict (workspace, id) do update set"
                " pending = excluded.pending, job_id = excluded.job_id, updated_at = :now",
                values,
            )
            self._put_fields(connection, document_id, revision, now)
            open_job(connection, self._workspace, replace(job, document_id=document_id), now)
            submitted = self._must_find(connection, document_id)
            pushed = [known.pending] if known else []
            if known is not None and known.job.plan is Plan.DELETE:
                pushed.append(known.live)
            return replace(submitted, superseded=tuple(one for one in pushed if one is not None))

        return await self._database.write(work, durable=True)

    async def reopen(self, document_id: str, job: Job, *, again: Sequence[str] = ()) -> Document:
        def work(connection: Connection) -> Document:
            now = self._database.clock()
            known = self._must_find(connection, document_id)
            if known.job.id == job.id:
                return known
            values = {**self._bound(document_id), "job": job.id, "now": now}
            connection.execute(
                "update documents set job_id = :job, updated_at = :now"
                " where workspace = :workspace and id = :document",
                values,
            )
            if job.plan is Plan.INGEST:
                self._resume(connection, known, values)
                connection.execute(_UNREAD, {**values, "again": listed(again)})
            open_job(connection, self._workspace, replace(job, document_id=document_id), now)
            return self._must_find(connection, document_id)

        return await self._database.write(work, durable=True)

    async def get(self, document_id: str) -> Document:
        return await self._database.read(
            lambda connection: self._must_find(connection, document_id)
        )

    async def page(
        self, *, status: Status | None = None, filters: Filters | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Document]:  # fmt: skip
        shown = "(d.live is not null)"
        selects, parameters = select_matching(filters or {}, live=shown)
        narrowed = "".join(
            f" and exists ({select} and document_id = d.id)" for select in selects
        )  # fmt: skip
        # The jobs of one status are in the order of their documents, the documents of all anyway.
        if status is not None:
            start = (
                f"select {DOCUMENT} from jobs j cross join documents d"
                " where j.latest = 1 and j.workspace = :workspace and j.status = :status"
                " and j.document_id > :after and d.workspace = :workspace and d.id = j.document_id"
            )
        else:
            start = f"{_FROM} where d.workspace = :workspace and d.id > :after"
        order = "j.document_id" if status is not None else "d.id"
        rows = await self._database.rows(
            f"{start}{narrowed} order by {order} limit :limit",
            {
                **parameters, "workspace": self._workspace, "status": status,
                "after": after, "limit": limit,
            },
        )  # fmt: skip
        return [document_of(row) for row in rows]

    async def many(self, ids: Sequence[str]) -> list[Document]:
        rows = await self._database.rows(
            f"select {DOCUMENT} from json_each(:ids) i cross join documents d"
            " join jobs j on j.id = d.job_id where d.workspace = :workspace and d.id = i.value",
            {"ids": listed(ids), "workspace": self._workspace},
        )
        return [document_of(row) for row in in_order(rows, ids, by="id")]

    async def counts(self) -> dict[Status, int]:
        rows = await self._database.rows(
            "select status, count(*) as documents from jobs"
            " where workspace = :workspace and latest = 1 group by status",
            {"workspace": self._workspace},
        )
        return {Status(row["status"]): row["documents"] for row in rows}

    async def matching(self, filters: Filters, *, limit: int) -> list[str]:
        selects, parameters = select_matching(filters, live="1")
        if not selects:
            selects = [
                "select id as document_id from documents"
                " where workspace = :workspace and live is not null"
            ]
        rows = await self._database.rows(
            f"select distinct document_id from ({' intersect '.join(selects)})"
            " order by document_id limit :limit",
            {**parameters, "workspace": self._workspace, "limit": limit},
        )
        return [row["document_id"] for row in rows]

    async def parsed(self, document_id: str, job_id: str, *, text: str, title: str) -> None:
        def work(connection: Connection) -> None:
            pending = self._pending(connection, document_id, job_id)
            if pending is None:
                return
            connection.execute(
                "update documents set pending = :pending, warnings = '[]', updated_at = :now,"
                " warnings_before = case when live is null then null"
                " else coalesce(warnings_before, warnings) end"
                " where workspace = :workspace and id = :document",
                {
                    **self._bound(document_id), "now": self._database.clock(),
                    "pending": revision_json(replace(pending, text=text, title=title)),
                },
            )  # fmt: skip

        await self._database.write(work)

    async def charge(self, document_id: str, usage: Usage, warnings: Sequence[str] = ()) -> None:
        def work(connection: Connection) -> None:
            known = self._find(connection, document_id)
            if known is None:
                return
            connection.execute(
                "update documents set llm_calls = llm_calls + :calls,"
                " prompt_tokens = prompt_tokens + :prompt,"
                " completion_tokens = completion_tokens + :completion, cost = cost + :cost,"
                " warnings = :warnings, updated_at = :now"
                " where workspace = :workspace and id = :document",
                {
                    **self._bound(document_id), "calls": usage.llm_calls,
                    "prompt": usage.prompt_tokens, "completion": usage.completion_tokens,
                    "cost": usage.cost, "now": self._database.clock(),
                    "warnings": listed((*known.warnings, *warnings)),
                },
            )  # fmt: skip

        await self._database.write(work)

    async def note(
        self, document_id: str, job_id: str, *, without: Sequence[str], add: Sequence[str]
    ) -> None:
        def work(connection: Connection) -> None:
            known = self._find(connection, document_id)
            if known is None or not is_latest(connection, self._workspace, document_id, job_id):
                return
            kept = [one for one in known.warnings if one not in without]
            connection.execute(
                "update documents set warnings = :warnings, updated_at = :now"
                " where workspace = :workspace and id = :document",
                {
                    **self._bound(document_id), "now": self._database.clock(),
                    "warnings": listed((*kept, *add)),
                },
            )  # fmt: skip

        await self._database.write(work)

    async def publish(self, document_id: str, job_id: str) -> None:
        def work(connection: Connection) -> None:
            if not is_latest(connection, self._workspace, document_id, job_id):
                return
            connection.execute(_PUBLISH_CHUNKS, {**self._bound(document_id), "job": job_id})
            if self._pending(connection, document_id, job_id) is None:
                return
            values = {**self._bound(document_id), "now": self._database.clock()}
            if self._must_find(connection, document_id).live is None:
                add_totals(connection, self._workspace, documents=1)
            connection.execute(
                "update documents set live = pending, pending = null, version = version + 1 + ("
                " version = 0 and exists (select 1 from chunks c where c.workspace = :workspace"
                " and c.document_id = :document and c.live = 1 and c.job_id <> :job)),"
                " warnings_before = null, updated_at = :now"
                " where workspace = :workspace and id = :document",
                {**values, "job": job_id},
            )
            self._drop_fields(connection, document_id, live=1)
            connection.execute(
                "update fields set live = 1"
                " where workspace = :workspace and document_id = :document and live = 0",
                values,
            )

        await self._database.write(work, durable=True)

    async def restore(self, document_id: str, job_id: str) -> None:
        def work(connection: Connection) -> None:
            if not is_latest(connection, self._workspace, document_id, job_id):
                return
            values = {**self._bound(document_id), "job": job_id}
            for sql in _RESTORE:
                connection.execute(sql, values)

        await self._database.write(work, durable=True)

    async def remove(self, document_id: str, job_id: str) -> None:
        def work(connection: Connection) -> None:
            if not is_latest(connection, self._workspace, document_id, job_id):
                return
            values = self._bound(document_id)
            visible = connection.execute(
                "select 1 from chunks where workspace = :workspace and document_id = :document"
                " and live = 1 limit 1",
                values,
            ).fetchone()
            if visible is not None:
                raise still_visible()
            if self._must_find(connection, document_id).live is not None:
                add_totals(connection, self._workspace, documents=-1)
            for sql in _REMOVE:
                connection.execute(sql, values)

        await self._database.write(work, durable=True)

    async def blob_in_use(self, blob_key: str) -> bool:
        columns = ("live_source", "live_text", "pending_source", "pending_text")
        [row] = await self._database.rows(
            "select "
            + " or ".join(
                f"exists (select 1 from documents where {column} = :key)" for column in columns
            )
            + " as used",
            {"key": blob_key},
        )
        return bool(row["used"])

    # --- inside a transaction --------------------------------------------------------------------

    def _bound(self, document_id: str) -> dict[str, object]:
        return {"workspace": self._workspace, "document": document_id}

    def _find(self, connection: Connection, document_id: str) -> Document | None:
        row = connection.execute(
            f"{_FROM} where d.workspace = :workspace and d.id = :document",
            self._bound(document_id),
        ).fetchone()
        return None if row is None else document_of(row)

    def _must_find(self, connection: Connection, document_id: str) -> Document:
        document = self._find(connection, document_id)
        if document is None:
            raise no_document(document_id)
        return document

    def _pending(self, connection: Connection, document_id: str, job_id: str) -> Revision | None:
        """The coming revision, unless the job no longer speaks for the document."""
        if not is_latest(connection, self._workspace, document_id, job_id):
            return None
        row = connection.execute(
            "select pending from documents"
            " where workspace = :workspace and id = :document and job_id = :job",
            {**self._bound(document_id), "job": job_id},
        ).fetchone()
        return None if row is None else revision_of(row["pending"])

    def _resume(
        self, connection: Connection, known: Document, values: Mapping[str, object]
    ) -> None:
        """Hand the chunks of the last ingest over to the one that repeats it, which may never put
        them again. After a deletion that did not end, everything is to be read again."""
        if known.job.plan is Plan.DELETE and known.pending is None:
            connection.execute(
                "update documents set pending = live"
                " where workspace = :workspace and id = :document",
                values,
            )
            self._put_fields(connection, known.id, known.revision, known.created_at)
        connection.execute(
            "update chunks set job_id = :job where workspace = :workspace"
            " and document_id = :document and job_id = ("
            " select id from jobs where workspace = :workspace and document_id = :document"
            " and plan = 'ingest' order by seq desc limit 1)",
            values,
        )
        if known.pending is None:  # nobody will put them again
            connection.execute(
                "update chunks set job_id = :job where workspace = :workspace"
                " and document_id = :document and published = 1",
                values,
            )

    def _unpublish(self, connection: Connection, known: Document) -> None:
        """A deletion that an upload overtakes: what it has not reached yet is no version any more,
        and goes with what the upload replaces."""
        if known.live is not None:
            add_totals(connection, self._workspace, documents=-1)
        values = self._bound(known.id)
        self._drop_fields(connection, known.id, live=1)
        connection.execute(
            "update documents set live = null, version = 0, warnings = '[]', warnings_before = null"
            " where workspace = :workspace and id = :document",
            values,
        )
        connection.execute(
            "update chunks set published = 0, before = null"
            " where workspace = :workspace and document_id = :document",
            values,
        )

    def _put_fields(
        self, connection: Connection, document_id: str, revision: Revision, now: float
    ) -> None:
        self._drop_fields(connection, document_id, live=0)
        connection.executemany(
            "insert into fields (workspace, document_id, live, name, kind, value)"
            " values (?, ?, 0, ?, ?, ?)",
            [
                (self._workspace, document_id, *field)
                for field in fields_of(document_id, revision, now)
            ],
        )

    def _drop_fields(self, connection: Connection, document_id: str, *, live: int) -> None:
        connection.execute(
            "delete from fields"
            " where workspace = :workspace and document_id = :document and live = :live",
            {**self._bound(document_id), "live": live},
        )


_PUBLISH_CHUNKS = (
    "update chunks set published = (job_id = :job), before = null where workspace = :workspace"
    " and document_id = :document and (published <> (job_id = :job) or before is not null)"
)
_UNREAD = (
    f"update chunks set before = case when published = 1 and before is null then {BEFORE}"
    " else before end, extraction = null, failed = 0, folded = 0, job_id = :job"
    " where workspace = :workspace and document_id = :document and failed = 1 and gone = 0"
    " and id in (select value from json_each(:again))"
)
# What is to be counted again belongs to the job that does it.
_RESTORE = (
    "update chunks set position = before ->> 'position', page_end = before ->> 'page_end',"
    " extraction_key = before ->> 'key', extraction = before ->> 'extraction',"
    " failed = before ->> 'failed',"
    " folded = case when extraction is before ->> 'extraction' then folded else 0 end,"
    " job_id = :job, before = null"
    " where workspace = :workspace and document_id = :document and before is not null",
    "update documents set warnings = coalesce(warnings_before,"
    " case when live is null then '[]' else warnings end), warnings_before = null"
    " where workspace = :workspace and id = :document",
)
_REMOVE = (
    "update chunks set gone = 1, ghost = 0 where workspace = :workspace"
    " and document_id = :document and ghost = 1",
    "delete from chunks where workspace = :workspace and document_id = :document and gone = 0",
    "delete from fields where workspace = :workspace and document_id = :document",
    "delete from documents where workspace = :workspace and id = :document",
    "delete from placements indexed by placements_by_scope"
    " where workspace = :workspace and scope = 'document:' || :document and by_hand = 1",
    "delete from placements indexed by placements_by_scope where workspace = :workspace"
    " and scope >= 'document:' || :document || char(9)"
    " and scope < 'document:' || :document || char(10) and by_hand = 1",
    "delete from moves where workspace = :workspace and document_id = :document",
    "update jobs set latest = 0"
    " where workspace = :workspace and document_id = :document and latest = 1",
)
