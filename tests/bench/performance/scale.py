"""Growth: one store from a thousand documents on, measured at each size and written at once, so
that a run that was stopped is a result too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.performance.corpus import documents
from tests.bench.performance.ingest import calls, costs, ingest
from tests.bench.performance.processes import MIB
from tests.bench.performance.query import CLIENTS, asked
from tests.bench.performance.stacks import Running, ScriptedModel, Stacks
from tests.bench.performance.update import added, deleted, deleted_together
from tests.model_answers import tokens

SIZES = (1000, 3000, 10_000, 30_000, 100_000)
PART = 1000  # documents that come in at a time
MODES = ("naive", "local", "mix")
BACKUP = "/admin/workspaces/default/backup"
EXTRA = 5_000_000  # documents from here on are those that come and go

Figures = dict[str, Any]


@dataclass(slots=True)
class Limits:
    """`until`: of the monotonic clock; no documents come in afterwards."""

    until: float
    queries: int = 50
    changed: int = 10
    together: int = 100

    @property
    def over(self) -> bool:
        return time.monotonic() > self.until


class Growing:
    """A service whose store grows. It is stopped and started on the way."""

    def __init__(self, stacks: Stacks, model: ScriptedModel, folder: Path, stored: int = 0) -> None:
        self._stacks, self._model, self._folder = stacks, model, folder
        self._up = ExitStack()
        self._gone = 0
        self.stored = stored  # of the corpus, so many from its beginning

    def __enter__(self) -> Growing:
        self.running = self._started()
        return self

    def __exit__(self, *_: object) -> None:
        self._up.close()

    def _started(self) -> Running:
        return self._up.enter_context(self._stacks.running(self._folder, self._model))

    def grow(self, size: int, limits: Limits) -> Figures:
        """Costs of the documents from the size so far to this one, or as far as time allows."""
        begin, texts, began = self.stored, 0, time.monotonic()
        chunks = self._chunks()
        with self.running.measured() as used:
            while self.stored < size and not limits.over:
                some = [*documents(min(PART, size - self.stored), self.stored)]
                ingest(self.running, some)
                self.stored += len(some)
                texts += sum(tokens(one.text) for one in some)
                print(f"{self.stored} documents, {time.monotonic() - began:.0f} s", flush=True)
        if self.stored == begin:
            return {}
        kinds = self._model.stats()["kinds"]
        return {
            **costs(used, self.stored - begin),
            **calls(kinds, self._chunks() - chunks, texts),
        }

    def _chunks(self) -> int:
        return int(self.running.service.json("GET", "/graph/stats")["chunks"])

    def at_rest(self, limits: Limits) -> Iterator[tuple[str, Figures]]:
        """Everything else at the size that is reached."""
        queries, changed = limits.queries, limits.changed
        yield "disk", disk(self.running)
        for mode in MODES:
            yield f"query {mode}", asked(self.running, mode, queries, 1)
        yield f"query mix {CLIENTS}", asked(self.running, "mix", 4 * queries, CLIENTS)
        fresh = [*documents(changed + limits.together, EXTRA)]
        yield "add", added(self.running, fresh[:changed])
        yield "delete", deleted(self.running, fresh[:changed])
        ingest(self.running, fresh[changed:])
        yield "delete many", deleted_together(self.running, fresh[changed:])
        yield "restart", self._restart()
        yield "backup", backup(self.running)

    def _restart(self) -> Figures:
        """Of the embedded service: until it is ready on what it holds."""
        if self._stacks.name != "embedded":
            return {}
        self._up.close()
        began = time.perf_counter()
        self.running = self._started()
        took = time.perf_counter() - began
        with self.running.measured() as used:
            first = asked(self.running, "mix", 1, 1)
        return {
            "wall_s": took, "cpu_s": self.running.service.cpu_seconds(),
            "mib": used.peak_mib["service"], "first_ms": first["p50_ms"],
        }  # fmt: skip


def disk(running: Running) -> Figures:
    """MiB by what lies in the data folder."""
    found = {one.name: _size(one) / MIB for one in running.data.iterdir()}
    return {"mib": sum(found.values()), **{f"{name}_mib": size for name, size in found.items()}}


def _size(path: Path) -> int:
    """Blocks on the disk: files with holes count what they take."""
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    return sum(one.lstat().st_blocks * 512 for one in files if one.exists())


def backup(running: Running) -> Figures:
    """An archive, read and thrown away."""
    size = 0
    with (
        running.measured() as used,
        running.service.http.stream("GET", BACKUP, timeout=3600) as reply,
    ):
        reply.raise_for_status()
        for piece in reply.iter_bytes():
            size += len(piece)
    return {
        "wall_s": used.wall_s, "cpu_s": used.cpu, "archive_mib": size / MIB,
        "process_mib": used.largest_mib,
    }  # fmt: skip


Put = Callable[[Mapping[str, Any], Figures], None]


def grown(growing: Growing, sizes: Sequence[int], limits: Limits, put: Put) -> None:
    """`put` gets what was measured at once."""
    for size in sizes:
        if size <= growing.stored:
            continue
        if limits.over:
            return
        figures = growing.grow(size, limits)
        at = {"n": growing.stored}
        if figures:
            put({**at, "what": "ingest"}, figures)
        for what, found in growing.at_rest(limits):
            if found:
                put({**at, "what": what}, found)
