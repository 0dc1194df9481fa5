"""The service as real processes: all in one (embedded) or `uvicorn` and arq workers on servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.servers import Server, empty_neo4j, empty_redis, free_port

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 120.0  # seconds for a start or for a document on a busy machine


class Service:
    """A running service and the calls that tests make of it."""

    pid = 0  # of the one process, where it is one

    def __init__(self, url: str, log: Path, headers: Mapping[str, str] | None = None) -> None:
        self.url, self.log = url, log
        self.pids: dict[str, int] = {}  # of its own processes
        self.http = httpx.Client(base_url=url, timeout=PATIENCE, headers=dict(headers or {}))

    def close(self) -> None:
        self.http.close()

    def json(self, method: str, path: str, expect: int = 200, **request: Any) -> Any:
        reply = self.http.request(method, path, **request)
        assert reply.status_code == expect, f"{method} {path}: {reply.status_code} {reply.text}"
        return reply.json()

    def upload(self, *paths: Path, **data: str) -> list[str]:
        files = [("files", (path.name, path.read_bytes())) for path in paths]
        reply = self.json("POST", "/documents", 202, files=files, data=data)
        return [document["id"] for document in reply["documents"]]

    def add(self, *documents: Mapping[str, Any]) -> list[str]:
        reply = self.json("POST", "/documents", 202, json={"documents": list(documents)})
        return [document["id"] for document in reply["documents"]]

    def wait(self, ids: Sequence[str], patience: float = PATIENCE) -> list[Any]:
        """The documents, once each is in a final state."""
        until, seen = time.monotonic() + patience, {}
        while len(seen) < len(ids):
            assert time.monotonic() < until, f"{len(ids) - len(seen)} unfinished; {self.tail()}"
            for one in ids:
                if one not in seen:
                    document = self.json("GET", f"/documents/{one}")
                    if document["status"] in ("ready", "failed"):
                        seen[one] = document
            time.sleep(0.05)
        return [seen[one] for one in ids]

    def wait_idle(self, patience: float = PATIENCE) -> dict[str, int]:
        """The counts of documents by status, once none is on its way."""
        until = time.monotonic() + patience
        while True:
            counts: dict[str, int] = self.json("GET", "/documents/counts")
            if sum(counts.values()) == counts.get("ready", 0) + counts.get("failed", 0):
                return counts
            assert time.monotonic() < until, f"still busy: {counts}; {self.tail()}"
            time.sleep(0.1)

    def delete(self, document: str) -> None:
        job = self.json("DELETE", f"/documents/{document}", 202)["job_id"]
        until = time.monotonic() + PATIENCE
        while (seen := self.json("GET", f"/jobs/{job}"))["state"] not in ("done", "failed"):
            assert time.monotonic() < until, f"the deletion hangs: {seen}"
            time.sleep(0.05)
        assert seen["state"] == "done", seen

    def query(self, query: str, **options: Any) -> Any:
        return self.json("POST", "/query", json={"query": query, **options})

    def entities(self) -> dict[str, int]:
        """Name -> mentions of all entities."""
        found: dict[str, int] = {}
        params: dict[str, Any] = {"limit": 200}
        while True:
            page = self.json("GET", "/graph/entities", params=params)
            found |= {entity["name"]: entity["mentions"] for entity in page["entities"]}
            if not page["next"]:
                return found
            params["cursor"] = page["next"]

    def cpu_seconds(self) -> float:
        """Spent by the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


@contextmanager
def embedded(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Service]:
    """Everything in one process, stopped as Ctrl-C stops it."""
    port = free_port()
    env = _environment({
        "HELIOGRAPH_DATA_DIR": str(folder / "data"), "HELIOGRAPH_PORT": str(port),
        **(settings or {}),
    })  # fmt: skip
    log = folder / "service.log"
    with _process([sys.executable, "-m", "workers.standalone"], env, log) as process:
        with closing(Service(f"http://127.0.0.1:{port}", log)) as service:
            service.pid = process.pid
            service.pids = {"alone": process.pid}
            _wait_up(service, process)
            yield service
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, service.tail()


@contextmanager
def distributed(
    folder: Path,
    *,
    neo4j: Server,
    redis_url: str,
    qdrant_url: str,
    settings: Mapping[str, str] | None = None,
    workers: int = 2,
) -> Iterator[Service]:
    """`uvicorn` and arq workers as processes of their own, on real servers, which are emptied."""
    empty_neo4j(neo4j)
    empty_redis(redis_url)
    port = free_port()
    env = _environment({
        "HELIOGRAPH_GRAPH_URL": neo4j.url, "HELIOGRAPH_GRAPH_USER": neo4j.user,
        "HELIOGRAPH_GRAPH_PASSWORD": neo4j.password, "HELIOGRAPH_VECTOR_URL": qdrant_url,
        "HELIOGRAPH_QUEUE_URL": redis_url, "HELIOGRAPH_DATA_DIR": str(folder / "data"),
        "HELIOGRAPH_PORT": str(port), **(settings or {}),
    })  # fmt: skip
    subprocess.run([sys.executable, "-m", "migrations"], cwd=ROOT, env=env, check=True)
    api = [
        sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--port", str(port),
    ]  # fmt: skip
    worker = [sys.executable, "-m", "arq", "workers.main.WorkerSettings"]
    with ExitStack() as stack:
        process = stack.enter_context(_process(api, env, folder / "api.log"))
        pids = {"api": process.pid}
        for n in range(workers):
            name = f"worker-{n}"
            pids[name] = stack.enter_context(_process(worker, env, folder / f"{name}.log")).pid
        service = stack.enter_context(
            closing(Service(f"http://127.0.0.1:{port}", folder / "api.log"))
        )
        service.pids = pids
        _wait_up(service, process)
        yield service


@contextmanager
def _process(
    command: Sequence[str], env: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()  # so that it ends the queue server that it started
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def model_server(folder: Path, *, latency: float = 0.0) -> Iterator[httpx.Client]:
    """The scripted model in a process of its own; the client reads its `/stats`."""
    port = free_port()
    command = [
        sys.executable, "-m", "tests.model_server", "--port", str(port), "--latency", str(latency),
    ]  # fmt: skip
    log = folder / "model.log"
    with (
        _process(command, _environment({}), log) as process,
        closing(Service(f"http://127.0.0.1:{port}", log)) as service,
    ):
        _wait_up(service, process, "/v1/models")
        yield service.http


def model_settings(model: httpx.Client, dialect: str = "openai") -> dict[str, str]:
    """Settings that let a service use the scripted model for everything."""
    url = str(model.base_url).rstrip("/")
    url = f"openai+{url}/v1" if dialect == "openai" else f"ollama+{url}"
    return {
        "HELIOGRAPH_LLM_URL": url, "HELIOGRAPH_LLM_MODEL": "scripted",
        "HELIOGRAPH_EMBED_URL": url, "HELIOGRAPH_EMBED_MODEL": "scripted-embedding",
    }  # fmt: skip


def clean_environment() -> dict[str, str]:
    """Ours, without settings of the service."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HELIOGRAPH_")}
    return {**inherited, "PYTHONPATH": str(ROOT)}


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    return {**clean_environment(), **settings}


def _wait_up(service: Service, process: subprocess.Popen[bytes], path: str = "/readyz") -> None:
    until = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, f"it ended early: {service.tail()}"
        assert time.monotonic() < until, f"it does not come up: {service.tail()}"
        try:
            if service.http.get(path).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
