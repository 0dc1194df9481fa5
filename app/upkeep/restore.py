"""An archive back into an empty workspace, of the same name or another.

The archive is checked as a whole before anything is written. The graph is folded anew from what
chunks say. A job of the workspace is held all the while: should this process die, a worker goes on
with it and makes what is missing of profiles and vectors; should an error end it, what was stored
is taken back. In memory are the chunks of one document and a page of other records at a time.
"""

from __future__ import annotations

import asyncio
import logging
import pickle  # of our own, in a file that nobody else has
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, Self, TypeVar

from app.domain import (
    Chunk,
    Document,
    Failure,
    Kind,
    Mark,
    Plan,
    Point,
    Profile,
    Ref,
    Revision,
    State,
    Status,
    Step,
    Ticket,
)
from app.errors import BadRecord, Conflict
from app.ports import Services, Workspace
from app.upkeep import communities, records
from app.upkeep.container import Member, members
from app.upkeep.emptying import empty
from app.upkeep.jobs import LEASE, claimed, held, new_job, send, workspace_job
from app.upkeep.records import ChunkRecord, DocumentRecord, ProfileRecord, unpacked
from app.upkeep.verify import Contents, document_number, verified

log = logging.getLogger("heliograph.restore")

FOLD = 16  # chunks a transaction
IN_MEMORY = 2**23  # bytes of a blob, or of chunks that wait; beyond, they lie on the disk
NO_BLOB = "0" * 64  # a hash that nothing has: of what was gone when the archive was written
# What records that fit their types can still lead to.
_MISSHAPEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

T = TypeVar("T")


@dataclass(slots=True)
class Restored:
    """What was stored. `queued`: documents that are to be read by a worker."""

    workspace: str
    documents: int = 0
    chunks: int = 0
    queued: int = 0
    vectors: bool = True  # False: of another model; a worker makes them anew


async def restore(
    services: Services, name: str, file: IO[bytes], *, limit: int | None = None
) -> Restored:
    """Fill the empty workspace from a seekable archive of at most `limit` bytes, unpacked. Raises
    `Invalid` for one that is damaged, `BadRecord` for what no backup writes, `TooLarge`, `Conflict`
    if the workspace has documents; then nothing was changed."""
    contents = await asyncio.to_thread(verified, file, limit=limit)
    workspace = services.workspace(name)
    if await workspace.documents.page(limit=1):
        raise Conflict(f"The workspace {name} has documents: restore into an empty one.")
    async with workspace_job(services, name):
        jobs: set[str] = set()
        try:
            filling = _Filling(services, workspace, contents, jobs)
            await filling.fill(file)
        except BaseException as error:
            log.warning("restore.undone workspace=%s error=%s", name, type(error).__name__)
            await asyncio.shield(empty(services, workspace, jobs))
            if isinstance(error, _MISSHAPEN):
                log.warning("restore.misshapen workspace=%s", name, exc_info=error)
                raise BadRecord(
                    "The archive holds something that no backup writes: "
                    f"{type(error).__name__}. Nothing was restored."
                ) from error
            raise
    await send(services, filling.tickets)
    log.info(
        "workspace.restored workspace=%s documents=%d chunks=%d queued=%d",
        name, filling.done.documents, filling.done.chunks, filling.done.queued,
    )  # fmt: skip
    return filling.done


# --- the archive, member by member ---------------------------------------------------------------


class _Filling:
    def __init__(
        self, services: Services, workspace: Workspace, contents: Contents, jobs: set[str]
    ) -> None:
        self._services, self._workspace, self._jobs = services, workspace, jobs
        self._void, self._missing = set(contents.manifest.void), set(contents.manifest.missing)
        embedding, embedder = contents.header.embedding, services.models.embedder
        self._dimension = embedding.dimension
        self._same_model = (embedding.model, embedding.dimension) == (
            embedder.model, embedder.dimension,
        )  # fmt: skip
        self.done = Restored(workspace.name, vectors=self._same_model)
        self.tickets: list[Ticket] = []
        self._division = ""  # the job that divided the graph

    async def fill(self, file: IO[bytes]) -> None:
        found = _Ahead(_in_thread(members(file)))
        while (member := await found.take()) is not None:
            if member.folder == "documents":
                number = document_number(member)
                if int(number) not in self._void:
                    record = records.document_of(member)
                    await self._document(record, self._pages(found, number, record))
            else:
                await self._other(member)

    async def _pages(
        self, found: _Ahead, number: str, document: DocumentRecord
    ) -> AsyncIterator[list[ChunkRecord]]:
        """Chunks of the document, which lie right behind it."""
        while (member := await found.look()) and member.name.startswith(f"chunks/{number}/"):
            await found.take()
            yield await asyncio.to_thread(records.chunks_of, member, document, self._dimension)

    async def _other(self, member: Member) -> None:
        match member.folder:
            case "blobs":
                await self._blob(member)
            case "rulings":
                await self._workspace.archive.admit_names(records.rulings_of(member), [])
            case "placements":
                await self._workspace.archive.admit_names([], records.placements_of(member))
            case "entities":
                await self._profiles(Kind.ENTITY, member)
            case "relations":
                await self._profiles(Kind.RELATION, member)
            case "communities":
                page = records.communities_of(member, self._dimension)
                await communities.restore_page(
                    self._workspace, self._division, page, vectors=self._same_model
                )
            case communities.DIVISION:
                division = records.division_of(member)
                self._division = division.job_id
                await communities.restore_division(self._workspace, division)

    async def _blob(self, member: Member) -> None:
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as file:
            await asyncio.to_thread(_copy, member, file)
            await self._workspace.blobs.put_file(file)

    # --- documents -------------------------------------------------------------------------------

    async def _document(
        self, record: DocumentRecord, pages: AsyncIterator[list[ChunkRecord]]
    ) -> None:
        ended = record.state.final
        with _Told() as live, _Told() as coming:
            async for page in pages:
                await live.add([one for one in page if one.live])
                await coming.add([one for one in page if not one.live])
            if record.live is not None:
                lasting = ended and record.failed and record.pending is None
                failure = record.error if lasting else None
                await self._visible(record.id, self._reachable(record.live), live, failure)
            if record.pending is not None:
                failure = record.error if ended else None
                await self._coming(record.id, self._reachable(record.pending), coming, failure)
        stored = await self._workspace.documents.get(record.id)
        await self._workspace.archive.admit(_as_it_was(stored, record), record.date)
        self.done.documents += 1

    def _reachable(self, revision: Revision) -> Revision:
        """Without what was gone already: another workspace may have the same bytes."""
        source, text = (
            NO_BLOB if key in self._missing else key for key in (revision.source, revision.text)
        )
        return replace(revision, source=source, text=text)

    async def _visible(
        self, document_id: str, revision: Revision, told: _Told, failure: Failure | None
    ) -> None:
        """The whole ingest at once. A worker that takes over would read the document as usual, and
        find what its chunks say."""
        async with self._ingest(document_id, revision) as step:
            async for page in self._put(step, told):
                for start in range(0, len(page), FOLD):
                    ids = [one.chunk.id for one in page[start : start + FOLD]]
                    await self._workspace.graph.fold(document_id, step.job_id, ids)
            await self._workspace.documents.publish(document_id, step.job_id)
            async for page in told.pages():
                await self._points_of(page, document_id)
                self.done.chunks += len(page)
            if failure is None:
                await self._services.journal.finish(step, next_status=Status.READY, lease=LEASE)
            else:
                await self._close(step, failure)

    async def _coming(
        self, document_id: str, revision: Revision, told: _Told, failure: Failure | None
    ) -> None:
        """As an upload that waits for a worker, which finds chunks that were read and paid for; or
        as one that failed."""
        original = replace(revision, text="", title="")
        async with self._ingest(document_id, original) as step:
            async for _ in self._put(step, told):
                pass
            if failure is not None:
                await self._close(step, failure)
                return
            ticket = await self._services.journal.release(step, delay=0)
            if ticket is not None:
                self.tickets.append(ticket)
                self.done.queued += 1

    @asynccontextmanager
    async def _ingest(self, document_id: str, revision: Revision) -> AsyncIterator[Step]:
        job = new_job(self._workspace.name, Plan.INGEST, document_id)
        self._jobs.add(job.id)
        await self._workspace.documents.submit(document_id, revision, job)
        step = await claimed(self._services, job)
        async with held(self._services, step):
            yield step

    async def _close(self, step: Step, failure: Failure) -> None:
        state = State.CANCELLED if failure.code == "cancelled" else State.FAILED
        await self._services.journal.close(step.workspace, step.job_id, state, failure)

    async def _put(self, step: Step, told: _Told) -> AsyncIterator[list[ChunkRecord]]:
        """Chunks, then what they say; each page once it is stored."""
        graph = self._workspace.graph
        await graph.put_chunks(step.document_id, step.job_id, told.chunks, told.keys)
        async for page in told.pages():
            for one in page:
                await graph.put_extraction(one.chunk.id, one.extraction)
            yield page

    async def _points_of(self, told: Sequence[ChunkRecord], document_id: str) -> None:
        if not self._same_model:
            return
        points = [
            unpacked(one.point, Ref(Kind.CHUNK, one.chunk.id), document_id)
            for one in told
            if one.point
        ]
        if points:
            await self._workspace.vectors.upsert(points)
            await self._workspace.graph.mark_indexed([Mark(point.ref, 0, "") for point in points])

    # --- profiles --------------------------------------------------------------------------------

    async def _profiles(self, kind: Kind, member: Member) -> None:
        """Where the evidence is that from which they were made; with their vectors."""
        told = await asyncio.to_thread(records.profiles_of, member, kind, self._dimension)
        graph = self._workspace.graph
        refs = [Ref(kind, one.key) for one in told]
        found = {one.ref.key: one for one in await graph.evidence(refs, limit=0)}
        counts = await self._mentions(kind, list(found))
        fresh = [
            one
            for one in told
            if one.key in found
            and (one.mentions, one.described) == (counts[one.key], found[one.key].count)
        ]
        await graph.put_profiles(
            [
                Profile(Ref(kind, one.key), one.profile, found[one.key].revision, one.covered)
                for one in fresh
            ]
        )
        indexed = [(one, point) for one in fresh if (point := self._point(kind, one))]
        await self._workspace.vectors.upsert([point for _, point in indexed])
        await graph.mark_indexed(
            [Mark(point.ref, found[one.key].revision, one.digest) for one, point in indexed]
        )

    def _point(self, kind: Kind, one: ProfileRecord) -> Point | None:
        return unpacked(one.point, Ref(kind, one.key)) if one.point and self._same_model else None

    async def _mentions(self, kind: Kind, keys: Sequence[str]) -> Mapping[str, int]:
        graph = self._workspace.graph
        if kind is Kind.ENTITY:
            return {one.key: one.mentions for one in await graph.entities(keys)}
        return {one.key: one.mentions for one in await graph.relations(keys)}


def _as_it_was(document: Document, record: DocumentRecord) -> Document:
    return replace(
        document, version=record.version, warnings=record.warnings, usage=record.usage,
        created_at=record.created_at, updated_at=record.updated_at,
    )  # fmt: skip


# --- reading beside the loop ---------------------------------------------------------------------


class _Told:
    """Chunk records of one document, in a file. Their chunks are in memory as well: they are put in
    one transaction, as those of an upload."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self.chunks: list[Chunk] = []
        self.keys: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    async def add(self, page: list[ChunkRecord]) -> None:
        if page:
            await asyncio.to_thread(pickle.dump, page, self._file)
            self.chunks += [one.chunk for one in page]
            self.keys += [one.key for one in page]

    async def pages(self) -> AsyncIterator[list[ChunkRecord]]:
        self._file.seek(0)
        while True:
            try:
                page: list[ChunkRecord] = await asyncio.to_thread(pickle.load, self._file)
            except EOFError:
                return
            yield page


class _Ahead:
    """Members one by one, with a look at the next."""

    def __init__(self, found: AsyncIterator[Member]) -> None:
        self._found = found
        self._next: Member | None = None

    async def look(self) -> Member | None:
        if self._next is None:
            self._next = await anext(self._found, None)
        return self._next

    async def take(self) -> Member | None:
        member, self._next = await self.look(), None
        return member


def _copy(member: Member, file: IO[bytes]) -> None:
    for piece in member.pieces():
        file.write(piece)


async def _in_thread(found: Iterator[T]) -> AsyncIterator[T]:
    """Each step of a blocking iterator in a thread."""
    nothing: Any = object()
    while (one := await asyncio.to_thread(next, found, nothing)) is not nothing:
        yield one
