"""The service's own entry points with a fault inside: `python -m tests.faults.process alone`, or
`api` or `worker`. The product knows nothing of this: its objects are wrapped before it starts.

What happens where comes as JSON in HELIOGRAPH_TEST_FAULTS:
{"folder": where marks are left, "points": [{"at": "graph.fold", "when": "after", "nth": 2, "do":
"kill" | "freeze" | "signal"}], "queue": {"drop": share, "double": share, "seed": n}, "clock":
seconds ahead, "jump": seconds that SIGUSR1 adds, "slow": {"vectors": seconds}}.

A point leaves the mark `hit` when it is reached, once for all processes of a schedule. `kill` ends
the process there and then, `freeze` stops it (the runner wakes it), `signal` holds this one task
until the runner has left the mark `go`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import runpy
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

Told = dict[str, Any]
REAL_TIME = time.time


class Marks:
    """Files by which a process and the runner tell each other how far they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def first(self, name: str) -> bool:
        """Leave a mark; False if some process has left it before."""
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def wait_for(self, name: str) -> None:
        while not (self.folder / name).exists():
            time.sleep(0.01)

    def line(self, name: str, text: str) -> None:
        handle = os.open(self.folder / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(handle, f"{text}\n".encode())
        os.close(handle)


class Points:
    """Counts how often each point is passed and does what is planned there."""

    def __init__(self, marks: Marks, planned: list[Told]) -> None:
        self._marks, self._planned = marks, planned
        self._passed = [0] * len(planned)

    def _due(self, at: str, when: str) -> str:
        for place, one in enumerate(self._planned):
            if one["at"] == at and one["when"] == when:
                self._passed[place] += 1
                if self._passed[place] == one["nth"] and self._marks.first("hit"):
                    return str(one["do"])
        return ""

    def pass_by(self, at: str, when: str) -> bool:
        """True: the caller is to wait for the runner."""
        do = self._due(at, when)
        if do == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal is on its way; nothing more may happen here
        if do == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        return do == "signal"

    async def pass_async(self, at: str, when: str) -> None:
        if self.pass_by(at, when):
            await asyncio.to_thread(self._marks.wait_for, "go")

    def around(self, owner: type, method: str, at: str) -> None:
        """Pass the point before and after each call of a coroutine method."""
        inner = getattr(owner, method)

        async def wrapped(*args: Any, **named: Any) -> Any:
            await self.pass_async(at, "before")
            result = await inner(*args, **named)
            await self.pass_async(at, "after")
            return result

        setattr(owner, method, wrapped)

    def around_function(self, inner: Callable[..., Any], at: str) -> Callable[..., Any]:
        async def wrapped(*args: Any, **named: Any) -> Any:
            await self.pass_async(at, "before")
            result = await inner(*args, **named)
            await self.pass_async(at, "after")
            return result

        return wrapped


METHODS = {
    "journal": ("claim", "finish", "release", "close"),
    "documents": ("submit", "reopen", "parsed", "charge", "publish", "remove"),
    "graph": (
        "put_chunks", "put_extraction", "fold", "retract", "put_profiles", "mark_indexed", "forget",
    ),
    "vectors": ("upsert", "delete"),
    "blobs": ("put", "delete"),
    "queue": ("send",),
}  # fmt: skip


def wrap(points: Points, marks: Marks) -> dict[str, type]:
    """Put all points into the product's own classes and plans."""
    from app.llm.extraction import LlmExtractor
    from app.stores.blobs import ObjectBlobs
    from app.stores.queue import ArqQueue
    from workers import plans

    owners: dict[str, type] = {**_stores(points), "blobs": ObjectBlobs, "queue": ArqQueue}
    _report_stored(owners["graph"], marks)
    for name, owner in owners.items():
        for method in METHODS[name]:
            points.around(owner, method, f"{name}.{method}")
    points.around(LlmExtractor, "extract", "model.extract")
    for plan, stages in plans.PLANS.items():
        plans.PLANS[plan] = tuple(
            replace(
                stage,
                run=points.around_function(stage.run, f"stage.{plan}.{stage.name}"),
                split=stage.split
                and points.around_function(stage.split, f"split.{plan}.{stage.name}"),
            )
            for stage in stages
        )
    return owners


def _stores(points: Points) -> dict[str, type]:
    """The classes in use; the others are not imported, which would take a second."""
    if os.environ.get("HELIOGRAPH_GRAPH_URL"):
        from app.stores import neo4j
        from app.stores.qdrant import QdrantVectors

        points.around(neo4j.Database, "transaction", "graph.commit")
        return {
            "journal": neo4j.Neo4jJournal, "documents": neo4j.Neo4jDocuments,
            "graph": neo4j.Neo4jGraph, "vectors": QdrantVectors,
        }  # fmt: skip
    from app.stores import sqlite
    from app.stores.edge import EdgeVectors

    _wrap_commit(sqlite.SqliteDatabase, points)
    return {
        "journal": sqlite.SqliteJournal, "documents": sqlite.SqliteDocuments,
        "graph": sqlite.SqliteGraph, "vectors": EdgeVectors,
    }  # fmt: skip


def _wrap_commit(database: Any, points: Points) -> None:
    """The last moment before and the first after a commit of SQLite, in the writer's thread."""
    inner = database._write

    def write(self: Any, orders: Sequence[Any]) -> None:
        work = orders[-1].work

        def worked(connection: Any) -> Any:
            result = work(connection)
            points.pass_by("graph.commit", "before")
            return result

        orders[-1].work = worked
        inner(self, orders)
        points.pass_by("graph.commit", "after")

    database._write = write


def _report_stored(graph: Any, marks: Marks) -> None:
    """Tell the ledger of the model which texts have a stored answer."""
    texts: dict[str, str] = {}
    pending_chunks, put_extraction = graph.pending_chunks, graph.put_extraction

    async def noted(self: Any, *args: Any, **named: Any) -> Any:
        found = await pending_chunks(self, *args, **named)
        texts.update((chunk.id, chunk.text) for chunk, _ in found)
        return found

    async def stored(self: Any, chunk_id: str, *args: Any, **named: Any) -> None:
        await put_extraction(self, chunk_id, *args, **named)
        if chunk_id in texts:
            marks.line("stored", digest(texts[chunk_id]))

    graph.pending_chunks, graph.put_extraction = noted, stored


def digest(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:24]


def disturb_queue(told: Told) -> None:
    """Messages that are lost or come twice, by shares."""
    from app.stores.queue import ArqQueue

    chance = random.Random(told["seed"])
    inner = ArqQueue._send  # of one ticket

    async def send(self: Any, ticket: Any, delay: float) -> None:
        drawn = chance.random()
        if drawn < told.get("drop", 0):
            return
        await inner(self, ticket, delay)
        if drawn > 1 - told.get("double", 0):
            await inner(self, ticket._replace(attempt=ticket.attempt + 1000), delay)

    ArqQueue._send = send  # type: ignore[method-assign]


def slow_down(told: dict[str, float], stores: dict[str, type]) -> None:
    """Stores that take their time; seconds by name."""

    def later(owner: Any, method: str, seconds: float) -> None:
        inner = getattr(owner, method)

        async def wrapped(*args: Any, **named: Any) -> Any:
            await asyncio.sleep(seconds)
            return await inner(*args, **named)

        setattr(owner, method, wrapped)

    for name, seconds in told.items():
        for method in METHODS[name]:
            later(stores[name], method, seconds)


def shift_clock(ahead: float, jump: float) -> None:
    """Before anything imports `time.time` by name. SIGUSR1 moves the clock by `jump`."""
    shifted = [ahead]
    time.time = lambda: REAL_TIME() + shifted[0]

    def on_signal(*_: object) -> None:
        shifted[0] += jump

    signal.signal(signal.SIGUSR1, on_signal)


ENTRIES = {
    "alone": ("workers.standalone", []),
    "worker": ("workers.main", []),
    "api": ("uvicorn", ["app.main:create_app", "--factory", "--port"]),
}


def main() -> None:
    told: Told = json.loads(os.environ.get("HELIOGRAPH_TEST_FAULTS", "{}"))
    if "clock" in told or "jump" in told:
        shift_clock(told.get("clock", 0.0), told.get("jump", 0.0))
    marks = Marks(Path(os.environ["HELIOGRAPH_TEST_MARKS"]))
    owners = wrap(Points(marks, told.get("points", [])), marks)
    if "queue" in told:
        disturb_queue(told["queue"])
    if "slow" in told:
        slow_down(told["slow"], owners)
    module, arguments = ENTRIES[sys.argv[1]]
    if sys.argv[1] == "api":
        arguments = [*arguments, os.environ["HELIOGRAPH_PORT"]]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
