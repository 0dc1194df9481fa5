"""The worker inside the lone process outlives what ends arq or a sweep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from arq.worker import Worker
from redis.exceptions import ConnectionError as RedisConnectionError

from app.domain import FIRST_STAGE, Job, Plan, Revision, Status, Ticket
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


async def _submit(services: Services) -> Ticket:
    space, data = services.workspace("default"), b"Marie Curie was a physicist in Paris."
    job = Job(uuid4().hex, "default", Plan.INGEST, "d", stage=FIRST_STAGE[Plan.INGEST])
    source = await space.blobs.put(data)
    await space.documents.submit("d", Revision("a.txt", "text/plain", len(data), source), job)
    return Ticket(f"{job.id}.{job.stage}.0", 0)


async def _until_ready(services: Services) -> None:
    async with asyncio.timeout(60):
        while True:
            if (await services.workspace("default").documents.get("d")).status is Status.READY:
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
