"""Random histories: what users do, interleaved with the steps of workers that crash and stall."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.api import ingestion
from app.api.uploads import Upload
from app.domain import Document, EntityMention, Extraction, Plan, RelationMention, State, Ticket
from app.errors import AppError, BadModelOutput, Conflict, NotFound
from app.ports import Services, Workspace
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump
from tests import make
from tests.workers.conftest import RecordingQueue
from workers.runner import Terms, run_ticket

PATIENT = Terms(lease=30, tries=1000)
HURRIED = Terms(lease=0.02, tries=1000)  # takes a longer lease for one of a clock that was ahead
# Paragraphs; documents begin alike, so that versions share chunks. One cannot be read.
PARAGRAPHS = (
    "Ada Lovelace; Analytical Engine; Charles Babbage",
    "Charles Babbage; Difference Engine; London",
    "WHO; World Health Organization; Geneva",
    "A. Lovelace; Ada Lovelace; unreadable",
    "C. Babbage; Babbage; London; Paris",
)
NAMES = ("note.txt", "The Engine.txt")


class Crash(BaseException):
    """The process is gone: nobody catches this."""


class Refused(AppError):
    """An error that no repetition mends."""

    status, code, title = 500, "refused", "Refused"


class ListsOfNames:
    """An extractor for paragraphs of names: each is related to the one before. What it says depends
    on the title too, as a model's reply does."""

    version = "lists of names"
    by_model = True

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        names = [name.strip() for name in text.replace("\n", ";").split(";") if name.strip()]
        if "unreadable" in names:
            raise BadModelOutput("It cannot be read.")
        mentions = [EntityMention(name, "", f"{name} by {title}") for name in names]
        pairs = itertools.pairwise(names)
        relations = [RelationMention(a, b, f"{a} and {b} by {title}") for a, b in pairs]
        return Extraction(tuple(mentions), tuple(relations), model="test")


# --- workers that break off ----------------------------------------------------------------------


@dataclass
class Wire:
    """What happens to a worker at its n-th call of a store, before or after it had its effect."""

    what: str = ""  # crash | stall | fail
    calls: int = -1
    after: bool = False
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, method: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Any:
        self.calls -= 1
        if self.calls != -1:
            return await method(*args, **named)
        result = await method(*args, **named) if self.after else None
        self.reached.set()
        match self.what:
            case "crash":
                raise Crash
            case "fail":
                raise Refused("The store will not.")
            case _:
                await self.go_on.wait()
        return result if self.after else await method(*args, **named)


class Wired:
    """A store whose calls go over a wire."""

    def __init__(self, inner: Any, wire: Wire) -> None:
        self._inner, self._wire = inner, wire

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(method):
            return method
        return lambda *args, **named: self._wire.call(method, *args, **named)


def wired(services: Services, wire: Wire) -> Services:
    def workspace(name: str) -> Workspace:
        space = small(services).workspace(name)
        stores: dict[str, Any] = {
            part: Wired(getattr(space, part), wire)
            for part in ("documents", "graph", "names", "vectors", "blobs")
        }
        return replace(space, **stores)

    return replace(services, workspace=workspace, journal=Wired(services.journal, wire))


def small(services: Services) -> Services:
    """With chunks of a paragraph, of which a step reads one."""

    def workspace(name: str) -> Workspace:
        space = services.workspace(name)
        options = replace(space.options, chunk_tokens=24, chunk_overlap=0, chunks_per_step=1)
        return replace(space, options=options)

    return replace(services, workspace=workspace)


# --- a history -----------------------------------------------------------------------------------


@dataclass
class Stalled:
    task: asyncio.Task[None]
    wire: Wire


@dataclass
class History:
    """A workspace with what is to be left of each document: the source of its visible version, ""
    for one that is there without, absent for one that is gone."""

    services: Services
    queue: RecordingQueue
    open_steps: Callable[[str], Awaitable[list[Ticket]]]
    name: str = field(default_factory=make.name)
    left: dict[str, str] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    stalled: list[Stalled] = field(default_factory=list)

    @property
    def space(self) -> Workspace:
        return self.services.workspace(self.name)

    # --- what users do ---------------------------------------------------------------------------

    async def put(self, document: str, paragraphs: Sequence[int], name: str) -> None:
        upload = uploaded(document, paragraphs, name)
        self.uploads[upload.source + name] = upload
        await ingestion.store(self.services, self.space, [upload], key="", now=0.0)
        self.left[document] = upload.source + name

    async def delete(self, document: str) -> None:
        with contextlib.suppress(NotFound):
            known = await self.space.documents.get(document)
            await ingestion.reopen(self.services, self.space, known, Plan.DELETE, now=0.0)
            self.left.pop(document, None)

    async def cancel(self, document: str) -> None:
        with contextlib.suppress(NotFound, Conflict):
            known = await self.space.documents.get(document)
            await ingestion.cancel(self.services, self.space, known.job)
            await self.stays(document)

    async def retry(self, document: str) -> None:
        with contextlib.suppress(NotFound, Conflict):
            known = await self.space.documents.get(document)
            await ingestion.retry(self.services, self.space, known, now=0.0)
            if known.job.plan is not Plan.DELETE:
                self.left[document] = version(known)

    async def stays(self, document: str) -> None:
        """Its last job has ended: what was published before is to be left."""
        with contextlib.suppress(NotFound):
            known = await self.space.documents.get(document)
            self.left[document] = known.live.source + known.live.name if known.live else ""

    # --- what workers do -------------------------------------------------------------------------

    def take(self, n: int) -> Ticket | None:
        if not self.queue.sent:
            return None
        ticket = self.queue.sent[n % len(self.queue.sent)]
        self.queue.sent.remove(ticket)
        return ticket

    async def work(self, n: int, steps: int, times: int) -> None:
        """Some steps, one after the other; the queue may deliver each twice."""
        for _ in range(steps):
            if (ticket := self.take(n)) is not None:
                for _ in range(times):
                    await run_ticket(small(self.services), ticket, HURRIED, leaving=lambda: True)

    async def lose(self, n: int) -> None:
        """The queue forgets a ticket."""
        self.take(n)

    async def crash(self, n: int, calls: int, after: bool) -> None:
        ticket = self.take(n)
        if ticket is not None:
            services = wired(self.services, Wire("crash", calls, after))
            try:
                await run_ticket(services, ticket, PATIENT)
            except* Crash:
                pass
            self.queue.sent.append(ticket)

    async def fail(self, n: int, calls: int) -> None:
        """A step fails for good; a deletion or withdrawal is let alone, since it must not."""
        ticket = self.take(n)
        if ticket is None:
            return
        try:
            job = await self.services.journal.job(self.name, ticket.step_id.split(".")[0])
        except NotFound:
            return  # of a withdrawal that there was no need for
        if job.plan is not Plan.INGEST or job.state.final:
            self.queue.sent.append(ticket)
            return
        wire = Wire("fail", calls)
        with contextlib.suppress(Refused):  # before it has claimed the step
            await run_ticket(wired(self.services, wire), ticket, HURRIED)
        ended = await self.services.journal.job(self.name, job.id)
        if ended.state is State.FAILED:
            await self.stays(job.document_id)

    async def stall(self, n: int, calls: int, after: bool) -> None:
        """A worker stands still, long enough for another to take its step."""
        ticket = self.take(n)
        if ticket is None:
            return
        wire = Wire("stall", calls, after)
        work = run_ticket(wired(self.services, wire), ticket, PATIENT, leaving=lambda: True)
        task = asyncio.create_task(work)
        reached = asyncio.create_task(wire.reached.wait())
        await asyncio.wait({task, reached}, return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        self.queue.sent.append(ticket)
        self.stalled.append(Stalled(task, wire))

    async def resume(self, n: int) -> None:
        if self.stalled:
            one = self.stalled.pop(n % len(self.stalled))
            one.wire.go_on.set()
            await one.task

    async def drain(self) -> None:
        """Every step that the journal holds is delivered until none is left; those that stalled go
        on in the middle of it."""
        while tickets := await self.open_steps(self.name):
            self.queue.sent.clear()
            for ticket in tickets:
                await run_ticket(small(self.services), ticket, HURRIED, leaving=lambda: True)
            await self.resume(0)
        while self.stalled:
            await self.resume(0)
        if await self.open_steps(self.name):
            await self.drain()

    # --- what is left ----------------------------------------------------------------------------

    async def faults(self) -> list[str]:
        """What is not as if only the survivors had ever been there."""
        return [
            *await self._documents(),
            *difference(await self._survivors_alone(), await self.lines()),
            *await self._leftovers(),
        ]

    async def lines(self) -> list[str]:
        return sorted([line async for line in dump(self.space)])

    async def _documents(self) -> list[str]:
        found = {one.id: one for one in await self.space.documents.page(limit=100)}
        seen = {
            id: one.live.source + one.live.name if one.live else "" for id, one in found.items()
        }
        return [] if seen == self.left else [f"left: {self.left} -> {seen}"]

    async def _survivors_alone(self) -> list[str]:
        alone = History(self.services, self.queue, self.open_steps)
        for document in await self.space.documents.page(limit=100):
            upload = self.uploads[version(document, live=document.live is not None)]
            await ingestion.store(
                self.services, alone.space, [replace(upload, id=document.id)], key="", now=0.0
            )
            if document.live is None:
                await alone.cancel(document.id)
        await alone.drain()
        return await alone.lines()

    async def _leftovers(self) -> list[str]:
        graph, names = self.space.graph, self.space.names
        left = [
            *(f"unprofiled {ref}" for ref in await graph.unprofiled()),
            *(f"unindexed {stale}" for stale in await graph.unindexed()),
            *(f"open {name.key}" for name in await names.opened(limit=10)),
            *(["moving"] if await names.moving() else []),
            *(f"step {one}" for one in await self.open_steps(self.name)),
            *[
                f"blob {key}"
                async for key, _ in self.space.blobs.list()
                if not await self._used(key)
            ],
        ]
        known = {one.id for one in await self.space.documents.page(limit=100)}
        for held in await self.space.archive.chunks(limit=1000):
            if held.gone or held.chunk.document_id not in known:
                left.append(f"chunk {held}")
        return left

    async def _used(self, key: str) -> bool:
        return await self.space.documents.blob_in_use(key)


def version(document: Document, *, live: bool = False) -> str:
    revision = document.revision if live else document.coming
    return revision.source + revision.name


def uploaded(document: str, paragraphs: Sequence[int], name: str) -> Upload:
    text = "\n\n".join(PARAGRAPHS[n] for n in paragraphs)
    data = text.encode()
    source = hashlib.sha256(data).hexdigest()
    return Upload(document, name, "text/plain", data, source, {}, "")
