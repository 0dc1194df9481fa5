"""An archive back into an empty workspace, of the same name or another.

The archive is checked as a whole before anything is written. The graph is folded anew from what
chunks say. A job of the workspace is held all the while: should this process die, a worker goes on
with it and makes what is missing of profiles and vectors; should an error end it, what was stored
is taken back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any, TypeVar

from app.domain import (
    Document,
    Failure,
    Kind,
    Mark,
    Placement,
    Plan,
    Point,
    Profile,
    Ref,
    Revision,
    Ruling,
    State,
    Status,
    Step,
    Ticket,
    Usage,
)
from app.errors import Conflict, Invalid
from app.holdings import HeldPlacement
from app.ports import Services, Workspace
from app.upkeep import container
from app.upkeep.emptying import empty
from app.upkeep.forms import (
    Json,
    chunk_of,
    extraction_of,
    failure_of,
    point_of,
    revision_of,
)
from app.upkeep.jobs import LEASE, claimed, held, new_job, send, workspace_job

log = logging.getLogger("heliograph.restore")

FOLD = 16  # chunks a transaction
MAX_ID = 128  # characters, as of an upload: another id could not be deleted again
# What records of another shape lead to: a sound checksum says that the file is as it was written,
# and not that a backup wrote it.
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


async def restore(services: Services, name: str, file: IO[bytes]) -> Restored:
    """Fill the empty workspace from a seekable archive. Raises `Invalid` for one that is damaged,
    `Conflict` if the workspace has documents; then nothing was changed."""
    contents = await asyncio.to_thread(container.verified, file)
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
                raise Invalid(
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


@dataclass(slots=True)
class _Record:
    """A document of the archive with its chunks."""

    json: Json
    chunks: list[Json] = field(default_factory=list)


class _Filling:
    def __init__(
        self, services: Services, workspace: Workspace, contents: container.Contents, jobs: set[str]
    ) -> None:
        self._services, self._workspace, self._jobs = services, workspace, jobs
        self._void = set(contents.manifest["void"])
        embedding = contents.header["embedding"]
        embedder = services.models.embedder
        self._same_model = (embedding["model"], embedding["dimension"]) == (
            embedder.model, embedder.dimension,
        )  # fmt: skip
        self.done = Restored(workspace.name, vectors=self._same_model)
        self.tickets: list[Ticket] = []

    async def fill(self, file: IO[bytes]) -> None:
        waiting: _Record | None = None
        number = ""
        async for member in _in_thread(container.members(file)):
            if waiting is not None and not member.name.startswith(f"chunks/{number}/"):
                await self._document(waiting)
                waiting = None
            if member.folder == "documents":
                number = member.name.removeprefix("documents/").removesuffix(".json")
                if int(number) not in self._void:
                    waiting = _Record(member.json())
            elif member.folder == "chunks":
                if waiting is not None:
                    waiting.chunks += member.records()
            else:
                await self._other(member)

    async def _other(self, member: container.Member) -> None:
        match member.folder:
            case "blobs":
                await self._blob(member)
            case "rulings":
                rulings = [Ruling(**one) for one in member.records()]
                await self._workspace.archive.admit_names(rulings, [])
            case "placements":
                placed = [
                    HeldPlacement(
                        Placement(one["key"], one["scope"], one["entity"], one["name"]),
                        one["by_hand"],
                    )
                    for one in member.records()
                ]
                await self._workspace.archive.admit_names([], placed)
            case "entities":
                await self._profiles(Kind.ENTITY, member.records())
            case "relations":
                await self._profiles(Kind.RELATION, member.records())

    async def _blob(self, member: container.Member) -> None:
        key = await self._workspace.blobs.put(member.data)
        if member.name != f"blobs/{key}":
            raise Invalid("The archive holds a file under the hash of another one.")

    # --- documents -------------------------------------------------------------------------------

    async def _document(self, record: _Record) -> None:
        json = record.json
        document_id = json["id"]
        if not isinstance(document_id, str) or not 0 < len(document_id) <= MAX_ID:
            raise Invalid(f"The archive has a document without an id of 1 to {MAX_ID} characters.")
        live, pending = revision_of(json["live"]), revision_of(json["pending"])
        failure = failure_of(json["error"])
        ended = State(json["state"]).final
        if live is not None:
            chunks = [one for one in record.chunks if one["live"]]
            failed = failure if ended and json["failed"] and pending is None else None
            await self._visible(document_id, live, chunks, failed)
        if pending is not None:
            chunks = [one for one in record.chunks if not one["live"] and one["extraction"]]
            await self._coming(document_id, pending, chunks, failure if ended else None)
        stored = await self._workspace.documents.get(document_id)
        await self._workspace.archive.admit(_as_it_was(stored, json), json["date"])
        self.done.documents += 1

    async def _visible(
        self, document_id: str, revision: Revision, told: Sequence[Json], failure: Failure | None
    ) -> None:
        """The whole ingest at once. A worker that takes over would read the document as usual, and
        find what its chunks say."""
        async with self._ingest(document_id, revision) as step:
            ids = await self._put(step, told)
            graph = self._workspace.graph
            for start in range(0, len(ids), FOLD):
                await graph.fold(document_id, step.job_id, ids[start : start + FOLD])
            await self._workspace.documents.publish(document_id, step.job_id)
            await self._points_of(told, ids, document_id)
            self.done.chunks += len(ids)
            if failure is None:
                await self._services.journal.finish(step, next_status=Status.READY, lease=LEASE)
            else:
                await self._close(step, failure)

    async def _coming(
        self, document_id: str, revision: Revision, told: Sequence[Json], failure: Failure | None
    ) -> None:
        """As an upload that waits for a worker, which finds chunks that were read and paid for; or
        as one that failed."""
        original = replace(revision, text="", title="")
        async with self._ingest(document_id, original) as step:
            await self._put(step, told)
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

    async def _put(self, step: Step, told: Sequence[Json]) -> list[str]:
        """Chunks with what they say; ids in the order given."""
        chunks = [chunk_of(one["chunk"]) for one in told]
        graph = self._workspace.graph
        await graph.put_chunks(step.document_id, step.job_id, chunks, [one["key"] for one in told])
        for chunk, one in zip(chunks, told, strict=True):
            await graph.put_extraction(chunk.id, extraction_of(one["extraction"]))
        return [chunk.id for chunk in chunks]

    async def _points_of(self, told: Sequence[Json], ids: Sequence[str], document_id: str) -> None:
        if not self._same_model:
            return
        points = [
            point_of(one["point"], Ref(Kind.CHUNK, id), document_id)
            for one, id in zip(told, ids, strict=True)
            if one["point"]
        ]
        await self._workspace.vectors.upsert(points)
        await self._workspace.graph.mark_indexed([Mark(point.ref, 0, "") for point in points])

    # --- profiles --------------------------------------------------------------------------------

    async def _profiles(self, kind: Kind, records: Sequence[Json]) -> None:
        """Where the evidence is that from which they were made; with their vectors."""
        graph = self._workspace.graph
        refs = [Ref(kind, one["key"]) for one in records]
        found = {one.ref.key: one for one in await graph.evidence(refs, limit=0)}
        counts = await self._mentions(kind, list(found))
        fresh = [
            one
            for one in records
            if one["key"] in found
            and (one["mentions"], one["described"]) == (counts[one["key"]], found[one["key"]].count)
        ]
        await graph.put_profiles(
            [
                Profile(
                    Ref(kind, one["key"]), one["profile"], found[one["key"]].revision,
                    one["covered"],
                )
                for one in fresh
            ]
        )  # fmt: skip
        indexed = [one for one in fresh if one["point"] and self._same_model]
        points: list[Point] = [point_of(one["point"], Ref(kind, one["key"])) for one in indexed]
        await self._workspace.vectors.upsert(points)
        await graph.mark_indexed(
            [
                Mark(Ref(kind, one["key"]), found[one["key"]].revision, one["digest"])
                for one in indexed
            ]
        )

    async def _mentions(self, kind: Kind, keys: Sequence[str]) -> Mapping[str, int]:
        graph = self._workspace.graph
        if kind is Kind.ENTITY:
            return {one.key: one.mentions for one in await graph.entities(keys)}
        return {one.key: one.mentions for one in await graph.relations(keys)}


def _as_it_was(document: Document, json: Json) -> Document:
    return replace(
        document, version=json["version"], warnings=tuple(json["warnings"]),
        usage=Usage(**json["usage"]), created_at=json["created_at"],
        updated_at=json["updated_at"],
    )  # fmt: skip


# --- reading beside the loop ---------------------------------------------------------------------


async def _in_thread(found: Iterator[T]) -> AsyncIterator[T]:
    """Each step of a blocking iterator in a thread."""
    nothing: Any = object()
    while (one := await asyncio.to_thread(next, found, nothing)) is not nothing:
        yield one
