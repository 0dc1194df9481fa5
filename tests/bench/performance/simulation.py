"""A thousand workers on one machine: the real queue, journal and limiter, and scripted steps.

Workers are tasks of one process: arq's own worker, our runner, claims, leases, heartbeats and the
gate of the model, against real servers. Only what a stage does is scripted: it sleeps as long as it
would take. So many would not fit into real time on a few cores, so time is stretched: every pause
and duration is `dilation` times as long, rates are that much lower, and the load of the servers is
multiplied by it afterwards. What is told is in the time of the service.

    python -m tests.bench.performance.simulation --workers 1000 --dilation 60 --stack neo4j
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import redis
from redis.asyncio import Redis

from app.api import ingestion
from app.api.uploads import Upload
from app.domain import Plan, Status, Step, Ticket, first_ticket
from app.llm import gate, shared
from app.llm.gate import Gate
from app.llm.limits import Call, End, Limits
from app.llm.shared import RedisBook
from app.ports import Models, Services, Workspace
from app.settings import Settings
from app.wiring import open_services
from migrations import migrate
from tests.bench.performance.processes import Meter
from tests.bench.performance.records import Record
from tests.servers import Server, neo4j_server, redis_server
from tests.system.stack import ROOT
from workers import main as worker_main
from workers import plans, runner
from workers.crew import Crew
from workers.plans import Stage
from workers.runner import Terms

RESULTS = ROOT / "docs" / "performance"
MODEL_SECONDS = 4.0  # of a call that reads a chunk
STAGES = (  # name, status, seconds beside the model
    ("parse", Status.PARSING, 0.1), ("extract", Status.EXTRACTING, 0.0),
    ("merge", Status.MERGING, 0.05), ("resolve", Status.MERGING, 0.05),
    ("profile", Status.MERGING, 0.02), ("index", Status.INDEXING, 0.2),
    ("publish", Status.INDEXING, 0.02),
)  # fmt: skip
TOGETHER = 200
WORKSPACE = "default"
LOOK = 0.5


@dataclass(frozen=True, slots=True)
class Wanted:
    """`read_limit`: entries of the queue that a worker of arq looks at, 0 for its default (100).
    `idle`: seconds (of the service) that all look at an empty queue first; `settling`: seconds
    that they get to connect."""

    workers: int = 1000
    documents: int = 1000  # 0: only look at the empty queue
    dilation: float = 60.0
    stack: str = "neo4j"
    calls: int = 0  # model calls at a time, of all; 0: as many as workers
    read_limit: int = 0
    idle: float = 0.5
    settling: float = 10.0
    results: Path = RESULTS


def dilated(by: float) -> None:
    """Every pause of the real code, and every lease, so much longer."""
    for module, names in (
        (gate, ("FIRST_POLL", "LONGEST_POLL", "LONGEST_NAP", "LEASE")),
        (shared, ("LEASE", "STALE")), (runner, ("BEAT", "RESEND_SECONDS")),
        (worker_main, ("POLL_SECONDS", "SWEEP_SECONDS")),
    ):  # fmt: skip
        for name in names:
            setattr(module, name, getattr(module, name) * by)


class Crowd:
    """All simulated workers, each with what a process of its own would have."""

    def __init__(self, services: Services, settings: Settings, wanted: Wanted) -> None:
        self._services, self._settings, self._wanted = services, settings, wanted
        self._stack = AsyncExitStack()
        self._gates: list[Gate] = []
        self._turns = 0
        self.running = 0
        self.waited: list[float] = []  # seconds from asking for a model call to its turn
        self.runs: dict[str, int] = {}  # of extract by document

    async def __aenter__(self) -> Crowd:
        plans.PLANS[Plan.INGEST] = tuple(
            Stage(name, status, self._stage(seconds)) for name, status, seconds in STAGES
        )
        connection = Redis.from_url(self._settings.queue_url, max_connections=500)
        self._stack.push_async_callback(connection.aclose)
        limits = Limits(self._wanted.calls or self._wanted.workers)
        for _ in range(self._wanted.workers):
            one = Gate(RedisBook(connection, "simulated", limits), "simulated")
            self._stack.push_async_callback(one.aclose)
            self._gates.append(one)
        terms = Terms(30.0 * self._wanted.dilation, 8)
        self._tasks = [asyncio.create_task(self._work(terms)) for _ in self._gates]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._stack.aclose()

    async def _work(self, terms: Terms) -> None:
        crew = Crew(self._services, terms, 1)
        options = worker_main.arq_settings(self._settings)
        options |= {"max_jobs": 1, "handle_signals": False, "ctx": {"crew": crew}}
        options |= {"queue_read_limit": self._wanted.read_limit or None}
        worker = worker_main.StepWorker(**options)
        sweeper = asyncio.create_task(worker_main._sweep_for_ever(self._services, terms))
        try:
            await worker.async_run()
        finally:
            sweeper.cancel()
            await worker.close()

    def _stage(self, seconds: float) -> Any:
        async def run(workspace: Workspace, models: Models, step: Step) -> None:
            self.running += 1
            if step.stage == "extract":
                await self._call_model(step)
            await asyncio.sleep(seconds * self._wanted.dilation)
            self.running -= 1

        return run

    async def _call_model(self, step: Step) -> None:
        self._turns += 1
        mine = self._gates[self._turns % len(self._gates)]
        call, began = Call(tokens=1000, about="simulated"), time.perf_counter()
        await mine.enter(call)
        self.waited.append((time.perf_counter() - began) / self._wanted.dilation)
        await asyncio.sleep(MODEL_SECONDS * self._wanted.dilation)
        await mine.leave(call, End("ok", used=1000))
        self.runs[step.document_id] = self.runs.get(step.document_id, 0) + 1


async def simulated(wanted: Wanted, settings: Settings, pids: Mapping[str, int]) -> dict[str, Any]:
    """Figures in the time of the service: `..._cores` is the share of one core that a server would
    be busy, `idle_...` while all workers look at an empty queue."""
    dilated(wanted.dilation)
    groups = {name: [pid] for name, pid in pids.items()}
    by, count = wanted.dilation, wanted.documents
    async with open_services(settings) as services:
        steps = await _submitted(services, count)
        async with Crowd(services, settings, wanted) as crowd:
            await asyncio.sleep(wanted.settling)
            with Meter(groups) as idle:
                await asyncio.sleep(wanted.idle * by)
            connections = await asyncio.to_thread(_connections, settings.queue_url)
            rest = {
                "redis_connections": connections,
                **{f"idle_{n}_cores": by * cpu / idle.wall_s for n, cpu in idle.cpu_s.items()},
            }
            if not count:
                return rest
            with Meter(groups) as busy:
                await services.queue.send(steps)
                most = await _done(services, crowd, count)
    waited = sorted(crowd.waited)
    return {
        **rest, "documents": count, "seconds": busy.wall_s / by, "rate": count / (busy.wall_s / by),
        "most_running": most,
        **{f"{name}_cores": by * cpu / busy.wall_s for name, cpu in busy.cpu_s.items()},
        **{f"{name}_cpu_ms": 1000 * cpu / count for name, cpu in busy.cpu_s.items()},
        "extracted_twice": sum(n > 1 for n in crowd.runs.values()),
        "turn_p50_ms": 1000 * waited[len(waited) // 2],
        "turn_p95_ms": 1000 * waited[len(waited) * 95 // 100],
    }  # fmt: skip


class Held:
    """In place of the queue while documents are stored: their tickets are sent at once later."""

    async def send(self, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
        pass

    async def depth(self) -> int:
        return 0


async def _submitted(services: Services, count: int) -> list[Ticket]:
    workspace, held = services.workspace(WORKSPACE), replace(services, queue=Held())
    tickets: list[Ticket] = []
    for start in range(0, count, TOGETHER):
        uploads = [_upload(n) for n in range(start, min(count, start + TOGETHER))]
        accepted = await ingestion.store(held, workspace, uploads, key="", now=time.time())
        tickets += [first_ticket(one.job_id, Plan.INGEST) for one in accepted]
    return tickets


def _upload(number: int) -> Upload:
    data = f"Document {number}.".encode()
    source = hashlib.sha256(data).hexdigest()
    return Upload(f"d{number:06d}", f"{number}.txt", "text/plain", data, source, {}, "2026-01-01")


async def _done(services: Services, crowd: Crowd, count: int) -> int:
    """Until all are ready; the most steps that were seen under way at the same time."""
    most, documents = 0, services.workspace(WORKSPACE).documents
    while True:
        most = max(most, crowd.running)
        if len(crowd.runs) == count:
            counts = await documents.counts()
            if counts.get(Status.READY, 0) == count:
                return most
        await asyncio.sleep(LOOK)


def _connections(url: str) -> int:
    with closing(redis.Redis.from_url(url)) as server:
        return int(server.info("clients")["connected_clients"])


@contextmanager
def _servers(wanted: Wanted) -> Iterator[tuple[Settings, dict[str, int]]]:
    """Settings on servers of our own, and their processes."""
    with ExitStack() as stack:
        enter = stack.enter_context
        folder = Path(enter(tempfile.TemporaryDirectory(prefix="heliograph-simulation-")))
        queue = enter(redis_server())
        told: dict[str, Any] = {"data_dir": folder / "data", "queue_url": queue.url}
        pids = {"redis": _pid(queue)}
        if wanted.stack == "neo4j":
            graph = enter(neo4j_server())
            pids["neo4j"] = _pid(graph)
            told |= {
                "graph_url": graph.url, "graph_user": graph.user, "graph_password": graph.password
            }  # fmt: skip
        told["max_jobs"] = 1
        settings = Settings(_env_file=None, **told)
        user, password = settings.graph_user, settings.graph_password.get_secret_value()
        asyncio.run(migrate(settings.graph_url, user=user, password=password))
        yield settings, pids


def _pid(server: Server) -> int:
    assert server.daemon is not None, "a server of our own"
    return server.daemon.pid


def run(wanted: Wanted) -> dict[str, Any]:
    with _servers(wanted) as (settings, pids):
        figures = asyncio.run(simulated(wanted, settings, pids))
    what = {
        "workers": wanted.workers, "stack": wanted.stack, "calls": wanted.calls or wanted.workers,
        "read_limit": wanted.read_limit,
    }  # fmt: skip
    row = Record.read(wanted.results, "simulation").put(what, [figures])
    print(json.dumps({**what, **row.runs[0]}), flush=True)
    return row.runs[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--dilation", type=float, default=60.0)
    parser.add_argument("--stack", default="neo4j", choices=("neo4j", "embedded"))
    parser.add_argument("--calls", type=int, default=0, help="model calls at a time, of all")
    parser.add_argument("--read-limit", type=int, default=0, help="of arq's look at the queue")
    parser.add_argument("--settling", type=float, default=10.0, help="seconds to connect")
    parser.add_argument("--results", type=Path, default=RESULTS)
    told = parser.parse_args()
    run(
        Wanted(
            told.workers, told.documents, told.dilation, told.stack, told.calls, told.read_limit,
            settling=told.settling, results=told.results,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
