"""The worker's machine on the embedded stores and built-in models, driven by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import pytest

from app.domain import (
    FIRST_STAGE,
    Document,
    Extraction,
    Job,
    Plan,
    Revision,
    Status,
    Ticket,
    document_id_of,
)
from app.ports import Models, Services, Workspace
from app.settings import Settings
from app.wiring import embedded_queue, open_services
from workers.runner import Terms, run_ticket, sweep


@dataclass
class RecordingQueue:
    """Keeps what was sent until a test delivers it: late, twice or never."""

    sent: deque[Ticket] = field(default_factory=deque)

    async def send(self, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
        self.sent.extend(tickets)

    async def depth(self) -> int:
        return len(self.sent)


@dataclass
class CountingExtractor:
    """The built-in extractor, or what a test puts in its place, with its calls counted."""

    inner: object
    calls: list[str] = field(default_factory=list)
    fault: BaseException | None = None
    bad: str = ""  # chunks that contain this cannot be read

    @property
    def by_model(self) -> bool:
        return bool(self.inner.by_model)  # type: ignore[attr-defined]

    @property
    def version(self) -> str:
        return str(self.inner.version)  # type: ignore[attr-defined]

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        from app.errors import BadModelOutput

        if self.fault is not None:
            raise self.fault
        self.calls.append(text)
        if self.bad and self.bad in text:
            raise BadModelOutput("The reply is not what was asked for.")
        extraction: Extraction = await self.inner.extract(  # type: ignore[attr-defined]
            title, headings, text
        )
        return extraction


@dataclass
class Rig:
    services: Services = field(repr=False)
    queue: RecordingQueue
    extractor: CountingExtractor
    terms: Terms = field(default_factory=lambda: Terms(lease=30, tries=3))

    def workspace(self, name: str = "default") -> Workspace:
        return self.services.workspace(name)

    async def submit(
        self, text: str, document_id: str = "", name: str = "note.txt", workspace: str = "default"
    ) -> Document:
        space, data = self.workspace(workspace), text.encode()
        source = await space.blobs.put(data)
        document_id = document_id or document_id_of(source)
        job = self.job(Plan.INGEST, document_id, workspace)
        document = await space.documents.submit(
            document_id, Revision(name, "text/plain", len(data), source), job
        )
        await self.queue.send([self.first(job)])
        return document

    async def delete(self, document_id: str, workspace: str = "default") -> Job:
        job = self.job(Plan.DELETE, document_id, workspace)
        await self.workspace(workspace).documents.reopen(document_id, job)
        await self.queue.send([self.first(job)])
        return job

    @staticmethod
    def job(plan: Plan, document_id: str, workspace: str) -> Job:
        status = Status.DELETING if plan is Plan.DELETE else Status.QUEUED
        return Job(
            uuid4().hex, workspace, plan, document_id, stage=FIRST_STAGE[plan], status=status
        )

    @staticmethod
    def first(job: Job) -> Ticket:
        return Ticket(f"{job.id}.{job.stage}.0", 0)

    async def drain(self) -> None:
        """Deliver everything that was and is sent meanwhile."""
        while self.queue.sent:
            await run_ticket(self.services, self.queue.sent.popleft(), self.terms)

    async def sweep(self) -> None:
        await sweep(self.services, self.terms)
        await self.drain()

    async def entities(self, workspace: str = "default") -> dict[str, int]:
        found = await self.workspace(workspace).graph.search("", limit=1000)
        return {entity.name: entity.mentions for entity in found}


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Rig]:
    async with embedded_queue(settings) as queued, open_services(queued) as services:
        queue, extractor = RecordingQueue(), CountingExtractor(services.models.extractor)
        models: Models = replace(services.models, extractor=extractor)
        yield Rig(replace(services, queue=queue, models=models), queue, extractor)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with opened(Settings(_env_file=None, data_dir=tmp_path)) as rig:
        yield rig
