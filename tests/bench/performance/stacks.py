"""The service on a stack, with the scripted model beside it and the processes that are measured."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.bench.performance.processes import (
    DATABASES,
    SERVICE,
    Groups,
    Meter,
    children,
    command,
)
from tests.faults.servers import qdrant_daemon
from tests.servers import Server, free_port, neo4j_server, redis_server
from tests.system.stack import ROOT, Service, clean_environment, distributed, embedded

AT_ONCE = 16  # model calls
WORKERS = 2
STACKS = ("embedded", "neo4j")
SETTINGS = {
    "HELIOGRAPH_LLM_CONCURRENCY": str(AT_ONCE), "HELIOGRAPH_LLM_MODEL": "scripted",
    "HELIOGRAPH_EMBED_MODEL": "scripted-embedding", "HELIOGRAPH_LOG_LEVEL": "WARNING",
    # So many steps at a time that the model is the limit, in each process.
    "HELIOGRAPH_MAX_JOBS": str(2 * AT_ONCE),
}  # fmt: skip


class ScriptedModel:
    """The model's process, as its control."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url, self._process = url, process
        self.http = httpx.Client(base_url=url, timeout=30)

    @property
    def settings(self) -> dict[str, str]:
        url = f"openai+{self.url}/v1"
        return {**SETTINGS, "HELIOGRAPH_LLM_URL": url, "HELIOGRAPH_EMBED_URL": url}

    def reset(self, **told: float) -> None:
        """Count from zero; `chat_ms` changes how long an answer takes."""
        self.http.post("/reset", json=told).raise_for_status()

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get("/stats").json()
        return found

    def calls(self, kind: str) -> int:
        return int(self.stats()["kinds"].get(kind, {}).get("calls", 0))


@contextmanager
def scripted_model(chat_ms: float = 0.0) -> Iterator[ScriptedModel]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.performance.model", "--port", str(port),
         "--chat-ms", str(chat_ms)],
        cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        model = ScriptedModel(f"http://127.0.0.1:{port}", process)
        for _ in range(300):
            try:
                model.stats()
                break
            except httpx.TransportError:
                time.sleep(0.05)
        with closing(model.http):
            yield model
    finally:
        process.terminate()
        process.wait()


@dataclass(slots=True)
class Running:
    """A service that is up. `data`: folder of what it keeps; `servers`: of what they keep."""

    service: Service
    model: ScriptedModel
    data: Path
    databases: Mapping[str, int] = field(default_factory=dict)

    @property
    def groups(self) -> Groups:
        return {SERVICE: self.service.pids.values(), DATABASES: self.databases.values()}

    def measured(self) -> Meter:
        """Counts the model's calls from zero, too."""
        self.model.reset()
        return Meter(self.groups)


class Stacks:
    """Starts a service on fresh stores, again and again; servers of databases stay up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stack = ExitStack()
        self._servers: tuple[Server, Server] | None = None

    def __enter__(self) -> Stacks:
        if self.name == "neo4j":
            enter = self._stack.enter_context
            self._servers = enter(neo4j_server()), enter(redis_server())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def fresh(
        self, model: ScriptedModel, settings: Mapping[str, str] | None = None
    ) -> Iterator[Running]:
        """On empty stores, which go afterwards."""
        with (
            tempfile.TemporaryDirectory(prefix="heliograph-bench-") as folder,
            self.running(Path(folder), model, settings) as running,
        ):
            yield running

    @contextmanager
    def running(
        self, folder: Path, model: ScriptedModel, settings: Mapping[str, str] | None = None
    ) -> Iterator[Running]:
        """Embedded: on what the folder holds. Servers are emptied."""
        told = {**model.settings, **(settings or {})}
        if self._servers is None:
            with embedded(folder, told) as service:
                yield Running(service, model, folder / "data", _valkey(service.pid))
            return
        neo4j, redis = self._servers
        port = free_port()
        with (
            qdrant_daemon(folder, port) as qdrant,
            distributed(
                folder, neo4j=neo4j, redis_url=redis.url, qdrant_url=f"http://127.0.0.1:{port}",
                settings=told, workers=WORKERS,
            ) as service,
        ):  # fmt: skip
            databases = {"qdrant": qdrant.pid}
            for name, server in (("neo4j", neo4j), ("redis", redis)):
                if server.daemon:  # else of someone else, and not counted
                    databases[name] = server.daemon.pid
            yield Running(service, model, folder / "data", databases)


def _valkey(pid: int) -> dict[str, int]:
    found = [one for one in children(pid) if "valkey-server" in command(one)]
    return {"valkey": found[0]} if found else {}
