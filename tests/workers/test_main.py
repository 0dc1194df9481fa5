"""The worker inside the lone process outlives what ends arq or a sweep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from arq.worker import Worker
from redis.exceptions import ConnectionError as RedisConnectionError

from app.domain import FIRST_STAGE, Extraction, Job, Plan, Revision, Status, Ticket
from app.ports import Services
from app.settings import Settings
from app.wiring import embedded_queue, open_services
from workers import main

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")  # arq


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Services, Settings]]:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    async with embedded_queue(settings) as settings, open_services(settings) as services:
        yield services, settings


async def _submit(services: Services, document_id: str = "d") -> Ticket:
    space, data = services.workspace("default"), b"Marie Curie was a physicist in Paris."
    data += document_id.encode()
    job = Job(uuid4().hex, "default", Plan.INGEST, document_id, stage=FIRST_STAGE[Plan.INGEST])
    source = await space.blobs.put(data)
    revision = Revision("a.txt", "text/plain", len(data), source)
    await space.documents.submit(document_id, revision, job)
    return Ticket(f"{job.id}.{job.stage}.0", 0)


async def _until_ready(services: Services, count: int = 1) -> None:
    await _until(lambda: _ready(services), count)


async def _ready(services: Services) -> int:
    page = await services.workspace("default").documents.page(status=Status.READY)
    return len(page)


async def _until(look: Callable[[], Awaitable[int]], wanted: int) -> None:
    async with asyncio.timeout(60):
        while True:
            if await look() == wanted:
                return
            await asyncio.sleep(0.02)


async def test_a_queue_server_that_was_away_does_not_leave_the_service_without_a_worker(
    opened: tuple[Services, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, settings = opened
    monkeypatch.setattr(main, "RESTART_SECONDS", 0.01)
    poll = Worker._poll_iteration
    failed = 0

    async def away(worker: Worker) -> None:
        nonlocal failed
        if failed < 2:
            failed += 1
            raise RedisConnectionError
        await poll(worker)

    monkeypatch.setattr(Worker, "_poll_iteration", away)
    async with main.working(services, settings) as running:
        await services.queue.send([await _submit(services)])
        await _until_ready(services)
        assert not running.done()
    assert failed == 2


@pytest.mark.parametrize("where", ["_poll_iteration", "close"])
async def test_jobs_that_arq_cancels_do_not_end_the_worker(
    opened: tuple[Services, Settings], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """It waits for what it has cancelled, and ends as if it had been cancelled itself."""
    services, settings = opened
    monkeypatch.setattr(main, "RESTART_SECONDS", 0.01)
    poll, close = Worker._poll_iteration, Worker.close
    ended = False

    async def broken(worker: Worker) -> None:
        nonlocal ended
        if ended:
            await poll(worker)
            return
        ended = True
        raise RedisConnectionError if where == "close" else asyncio.CancelledError

    async def closed(worker: Worker) -> None:
        await close(worker)
        if where == "close":
            raise asyncio.CancelledError

    monkeypatch.setattr(Worker, "_poll_iteration", broken)
    monkeypatch.setattr(Worker, "close", closed)
    async with main.working(services, settings) as running:
        await services.queue.send([await _submit(services)])
        await _until_ready(services)
        assert ended and not running.done()


class Holding:
    """The built-in extractor, which answers nobody before it may."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.free, self.asked = inner, asyncio.Event(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        self.asked += 1
        await self.free.wait()
        found: Extraction = await self._inner.extract(title, headings, text)
        return found


async def test_a_full_worker_leaves_what_waits_to_others_and_what_runs_is_not_in_the_queue(
    opened: tuple[Services, Settings],
) -> None:
    """arq reads no further than the first hundred entries of its queue: were those of running
    steps among them, a fleet could not run more."""
    services, settings = opened
    holding = Holding(services.models.extractor)
    services = replace(services, models=replace(services.models, extractor=holding))
    settings = settings.model_copy(update={"max_jobs": 2})

    async def asked() -> int:
        return holding.asked

    await services.queue.send([await _submit(services, f"d{n}") for n in range(5)])
    async with main.working(services, settings):
        await _until(asked, 2)
        await _until(services.queue.depth, 3)
        await asyncio.sleep(5 * main.POLL_SECONDS)
        assert (holding.asked, await services.queue.depth()) == (2, 3)
        async with main.working(services, settings):
            await _until(asked, 4)
            await _until(services.queue.depth, 1)
            holding.free.set()
            await _until_ready(services, 5)
    assert await services.queue.depth() == 0


async def test_a_bug_in_one_sweep_does_not_end_sweeping(
    opened: tuple[Services, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, settings = opened
    monkeypatch.setattr(main, "SWEEP_SECONDS", 0.01)
    broken = True

    class Journal:
        def __getattr__(self, name: str) -> object:
            return getattr(services.journal, name)

        async def overdue(self, *, limit: int, lease: float) -> list[Ticket]:
            nonlocal broken
            if broken:
                broken = False
                raise ZeroDivisionError
            return [ticket]

    ticket = await _submit(services)  # and lost on its way to the queue
    async with main.working(replace(services, journal=Journal()), settings):  # type: ignore[arg-type]
        await _until_ready(services)
    assert not broken


async def test_a_stop_is_heard_where_the_queue_client_makes_an_error_of_it(
    opened: tuple[Services, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "RESTART_SECONDS", 0.01)
    begun = asyncio.Event()

    async def deaf(worker: Worker) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RedisConnectionError from None

    monkeypatch.setattr(Worker, "_poll_iteration", deaf)
    async with asyncio.timeout(30):
        async with main.working(*opened) as running:
            await begun.wait()
        assert running.done()
