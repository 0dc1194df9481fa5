"""The application over ASGI: embedded stores, built-in models, and a queue that tests deliver."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api.auth import make_key
from app.domain import Scope, Ticket
from app.errors import Unavailable
from app.main import create_app
from app.ports import Services
from app.settings import Settings
from app.wiring import open_services
from workers.runner import Terms, run_ticket

BASE = "http://127.0.0.1:8080"


@dataclass
class RecordingQueue:
    """Keeps what was sent until a test lets the worker have it."""

    sent: deque[Ticket] = field(default_factory=deque)
    away: bool = False

    async def send(self, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
        if self.away:
            raise Unavailable("The queue does not answer.")
        self.sent.extend(tickets)

    async def depth(self) -> int:
        if self.away:
            raise Unavailable("The queue does not answer.")
        return len(self.sent)

    async def ping(self) -> str:
        if self.away:
            raise Unavailable("The queue does not answer.")
        return "recording"


@dataclass
class Site:
    """The running application, its insides, and a client that may do everything."""

    app: FastAPI
    settings: Settings
    services: Services
    queue: RecordingQueue
    client: httpx.AsyncClient

    async def work(self) -> None:
        """Let a worker do everything that is waiting, and what opens behind it."""
        terms = Terms(lease=30, tries=2)
        while self.queue.sent:
            await run_ticket(self.services, self.queue.sent.popleft(), terms)

    async def add(self, text: str, **fields: Any) -> dict[str, Any]:
        """A document that is ready."""
        reply = await self.client.post("/documents", json={"text": text, **fields})
        assert reply.status_code == 202, reply.text
        await self.work()
        shown: dict[str, Any] = reply.json()["documents"][0]
        return shown

    async def key(self, scope: Scope, *workspaces: str) -> dict[str, str]:
        """Headers of a new key."""
        secret, key = make_key("", scope, workspaces, now=0.0)
        await self.services.keyring.add(key)
        self.app.state.deployment.gate.forget()
        return {"Authorization": f"Bearer {secret}"}

    def stranger(self, **options: Any) -> httpx.AsyncClient:
        """Another client, which closes with the test."""
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, **{"base_url": BASE, **options})


@asynccontextmanager
async def embedded(folder: Path, queue_url: str) -> AsyncIterator[Services]:
    """The embedded stores and built-in models, with a queue that records."""
    settings = Settings(_env_file=None, data_dir=folder, queue_url=queue_url)
    async with open_services(settings) as opened:
        queue = RecordingQueue()
        dependencies = {**opened.dependencies, "queue": queue}
        yield replace(opened, queue=queue, dependencies=dependencies)


@pytest.fixture
async def services(tmp_path: Path, valkey_url: str) -> AsyncIterator[Services]:
    async with embedded(tmp_path, valkey_url) as opened:
        yield opened


@pytest.fixture
async def site_of(services: Services, tmp_path: Path) -> AsyncIterator[Callable[..., Site]]:
    """Makes a site with other settings or services."""
    clients: list[httpx.AsyncClient] = []

    def make(other: Services | None = None, **values: Any) -> Site:
        settings = Settings(_env_file=None, data_dir=tmp_path, **values)
        used = other or services
        app = create_app(settings, used)
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url=BASE)
        clients.append(client)
        assert isinstance(used.queue, RecordingQueue)
        return Site(app, settings, used, used.queue, client)

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def site(site_of: Callable[..., Site]) -> Site:
    return site_of()


def assert_problem(reply: httpx.Response, status: int, code: str, *words: str) -> dict[str, Any]:
    """The reply is a problem document with this status and code that mentions the words."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = reply.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"].endswith(code)
    assert problem["title"]
    assert problem["request_id"] == reply.headers["x-request-id"]
    for word in words:
        assert word in problem["detail"]
    return problem
