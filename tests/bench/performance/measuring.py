"""Each part of the bench: what it measures, and the rows that it leaves in its record."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.performance import reference, start
from tests.bench.performance.corpus import documents
from tests.bench.performance.ingest import ingest, ingestion
from tests.bench.performance.query import MODES, every_mode, while_busy
from tests.bench.performance.records import Record
from tests.bench.performance.scale import SIZES, Growing, Limits, grown
from tests.bench.performance.stacks import Running, Stacks, scripted_model
from tests.bench.performance.update import added, deleted, deleted_together, replaced

OURS = "heliograph"
CHAT_MS = (0.0, 50.0)
EXTRA = 5_000_000  # documents from here on are those that come and go
WARMING = 50  # documents before, on a server of databases that has just started


@dataclass(frozen=True, slots=True)
class Wanted:
    """`changed`: documents added, replaced and deleted one by one; `together`: deleted at once."""

    results: Path
    stacks: tuple[str, ...] = ("embedded",)
    sizes: tuple[int, ...] = ()
    runs: int = 3
    queries: int = 100
    changed: int = 20
    together: int = 100
    minutes: float = 30.0
    reference: bool = False
    chat_ms: tuple[float, ...] = CHAT_MS
    modes: tuple[str, ...] = MODES
    rest: float = 4.0  # seconds that a process is looked at when it has started

    def beside(self, stack: str) -> bool:
        """Whether the reference is run by turns with this stack."""
        return self.reference and stack == "embedded"


def measure_ingest(wanted: Wanted) -> None:
    """Runs of one size, at each speed of the model, one after the other by turns."""
    record = Record.read(wanted.results, "ingest")
    for name in wanted.stacks:
        with Stacks(name) as stacks:
            _warm(stacks)
            for size in wanted.sizes or (100, 1000):
                runs = Runs("ingest", record)
                for _ in range(wanted.runs):
                    for ms in wanted.chat_ms:
                        what = {"stack": name, "n": size, "chat_ms": ms}
                        runs.add({"system": OURS, **what}, ingestion(stacks, size, ms))
                        if wanted.beside(name):
                            theirs = reference.measured(size, ms)
                            runs.add(_theirs(theirs, what), theirs["ingest"])


def measure_query(wanted: Wanted) -> None:
    record = Record.read(wanted.results, "query")
    for name in wanted.stacks:
        for size in wanted.sizes or (1000,):
            with Stacks(name) as stacks, scripted_model() as model, stacks.fresh(model) as running:
                _fill(running, size)
                runs = Runs("query", record)
                for _ in range(wanted.runs):
                    for mode, clients, figures in every_mode(running, wanted.queries, wanted.modes):
                        what = {"stack": name, "n": size, "mode": mode, "clients": clients}
                        runs.add({"system": OURS, **what}, figures)
                    if wanted.beside(name):
                        theirs = reference.measured(size, 0.0, queries=wanted.queries)
                        for key, figures in theirs["query"].items():
                            mode, clients_ = key.split()
                            what = {"n": size, "mode": mode, "clients": int(clients_)}
                            runs.add(_theirs(theirs, what), figures)
                busy = while_busy(running, size, wanted.queries)
                runs.add({"system": OURS, "stack": name, "n": size, "mode": "busy"}, busy)


def measure_update(wanted: Wanted) -> None:
    record = Record.read(wanted.results, "update")
    for name in wanted.stacks:
        with Stacks(name) as stacks:
            _warm(stacks)
            for size in (0, *(wanted.sizes or (1000,))):
                runs = Runs("update", record)
                for _ in range(wanted.runs):
                    with scripted_model() as model, stacks.fresh(model) as running:
                        _fill(running, size)
                        for what, figures in _changes(running, size, wanted).items():
                            row = {"system": OURS, "stack": name, "n": size, "what": what}
                            runs.add(row, figures)
                    if size and wanted.beside(name):
                        theirs = reference.measured(size, 0.0, changed=wanted.changed)
                        for what in ("add one", "delete one"):
                            runs.add(_theirs(theirs, {"n": size, "what": what}), theirs[what])


class Runs:
    """Figures of several runs of the same things, put into a record as they come."""

    def __init__(self, part: str, record: Record) -> None:
        self._part, self._record = part, record
        self._rows: dict[str, list[Mapping[str, Any]]] = {}

    def add(self, what: dict[str, Any], figures: Mapping[str, Any]) -> None:
        found = self._rows.setdefault(repr(what), [])
        found.append(figures)
        _told(self._part, self._record, what, found)


def _theirs(measured: Mapping[str, Any], what: Mapping[str, Any]) -> dict[str, Any]:
    return {"system": measured["version"], **what, "stack": "files"}


def _changes(running: Running, size: int, wanted: Wanted) -> dict[str, Mapping[str, Any]]:
    some = [*documents(wanted.changed, EXTRA)]
    many = [*documents(wanted.together, EXTRA + wanted.changed)]
    found = {"add one": added(running, some)}
    if size:
        found["replace one"] = replaced(running, some)
        ingest(running, many)
        found["delete many"] = deleted_together(running, many)
    found["delete one"] = deleted(running, some)
    return found


def measure_scale(wanted: Wanted) -> None:
    record = Record.read(wanted.results, "scale")
    for name in wanted.stacks:
        with (
            tempfile.TemporaryDirectory(prefix="heliograph-scale-") as folder,
            Stacks(name) as stacks, scripted_model() as model,
            Growing(stacks, model, Path(folder)) as growing,
        ):  # fmt: skip

            def put(what: Mapping[str, Any], figures: Mapping[str, Any], name: str = name) -> None:
                _told("scale", record, {"system": OURS, "stack": name, **what}, [figures])

            limits = Limits(
                time.monotonic() + 60 * wanted.minutes,
                wanted.queries,
                wanted.changed,
                wanted.together,
            )
            grown(growing, wanted.sizes or SIZES, limits, put)


def measure_start(wanted: Wanted) -> None:
    record = Record.read(wanted.results, "start")
    with scripted_model() as model:
        for models, settings in (("built-in", {}), ("endpoints", model.settings)):
            runs: dict[str, list[Mapping[str, Any]]] = {"api": [], "worker": [], "alone": []}
            for _ in range(wanted.runs):
                for role, found in runs.items():
                    found.append(start.started(role, settings, wanted.rest))
            for role, found in runs.items():
                _told("start", record, {"role": role, "models": models}, found)
    for module in start.MODULES:
        start.import_seconds(module)  # so that all is compiled and in the cache of the system
        seconds = [start.import_seconds(module) for _ in range(wanted.runs)]
        _told("start", record, {"import": module}, seconds)
        record.put({"packages of": module}, start.imports(module))
    record.put({"installed": "requirements.lock"}, start.installed())


def _warm(stacks: Stacks) -> None:
    """The first minute of a Java server is no measure of it."""
    if stacks.name != "embedded":
        with scripted_model() as model, stacks.fresh(model) as running:
            _fill(running, WARMING)


def _fill(running: Running, size: int) -> None:
    if size:
        ingest(running, [*documents(size)])


def _told(part: str, record: Record, what: dict[str, Any], runs: list[Mapping[str, Any]]) -> None:
    row = record.put(what, runs)
    names = " ".join(f"{value:g}" if isinstance(value, float) else str(value)
                     for value in what.values())  # fmt: skip
    figures = " ".join(f"{name}={row.shown(name)}" for name in row.runs[0])
    print(f"{part} {names}: {figures}", flush=True)
