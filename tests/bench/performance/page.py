"""docs/performance.md from the records: tables and plots; nothing is measured here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.bench.performance import plots
from tests.bench.performance.aims import AIMS, Aim
from tests.bench.performance.records import Record, Row
from tests.bench.tables import filled, head, row

TEMPLATE = Path(__file__).with_name("page.md")
PARTS = ("ingest", "query", "update", "scale", "start")
OURS = "heliograph"
Records = Mapping[str, Record]
NONE = ["Not measured yet."]
CURVES = {
    "ingest": ("Ingestion, CPU-ms a document", {"ingest": "cpu_ms"}),
    "query": ("Queries one by one, ms", {
        "query naive": "p50_ms", "query local": "p50_ms", "query mix": "p50_ms",
    }),
    "memory": ("Largest process, MiB", {"ingest": "process_mib", "restart": "mib"}),
    "disk": ("On the disk, MiB", {"disk": "mib"}),
    "update": ("One document, CPU-ms", {"add": "cpu_ms", "delete": "cpu_ms"}),
    "care": ("Restart and backup, s", {"restart": "wall_s", "backup": "wall_s"}),
}  # fmt: skip


def write(results: Path, page: Path) -> None:
    """The page and its plots, from what the records in a folder hold."""
    records = {part: Record.read(results, part) for part in PARTS}
    parts = {
        "machine": _machine(records), "aims": _aims(records), "ingest": _ingest(records["ingest"]),
        "versus": _versus(records), "query": _query(records["query"]),
        "busy": _busy(records["query"]), "update": _update(records["update"]),
        "scale": _scale(records["scale"]), "plots": _plots(records["scale"], results),
        "start": _start(records["start"]), "imports": _imports(records["start"]),
        "installed": _installed(records["start"]), "codes": _codes(records),
    }  # fmt: skip
    page.write_text(
        filled(TEMPLATE, {name: [*lines] or NONE for name, lines in parts.items()}),
        encoding="utf-8",
    )


def _machine(records: Records) -> Iterator[str]:
    for one in records.values():
        if one.machine:
            known = one.machine
            yield f"Measured on {known['processors']}, {known['memory']}, {known['system']},"
            yield f"Python {known['python']}; {known['versions']}."
            return


def _aims(records: Records) -> Iterator[str]:
    yield from head("aim", "wanted", "measured", "documents", "")
    for aim in AIMS:
        wanted = f"{'≥' if aim.least else '≤'} {aim.bound:g}"
        found = _largest(records[aim.part].where(**aim.what), aim)
        if found is None:
            yield row(aim.label, wanted, "not measured", "", "")
            continue
        value = found.middle(aim.figure) or 0.0
        ratio = aim.bound / value if aim.least else value / aim.bound
        verdict = "reached" if ratio <= 1 else f"missed by × {ratio:.1f}"
        size = f"{found.what['n']:,}" if "n" in found.what else ""
        yield row(aim.label, wanted, found.shown(aim.figure, 2), size, verdict)


def _largest(rows: Sequence[Row], aim: Aim) -> Row | None:
    rows = [one for one in rows if one.middle(aim.figure) is not None]
    return max(rows, key=lambda one: one.what.get("n", 0), default=None)


def _ingest(record: Record) -> Iterator[str]:
    if not record.rows:
        return
    yield from head(
        "system", "stack", "documents", "ms a call", "CPU-ms: service", "databases", "together",
        "wall, s", "of the bound", "calls", "overhead", "MiB", "runs",
    )  # fmt: skip
    for one in _sorted(record.rows):
        yield row(
            one.what["system"], one.what["stack"], f"{one.what['n']:,}",
            f"{one.what['chat_ms']:g}", one.shown("service_cpu_ms"),
            one.shown("databases_cpu_ms"), f"**{one.shown('cpu_ms')}**", one.shown("wall_s"),
            one.shown("over_bound", 2), one.shown("calls", 2), one.shown("overhead_tokens", 0),
            one.shown("service_mib", 0), str(len(one.runs)),
        )  # fmt: skip


def _versus(records: Records) -> Iterator[str]:
    """Ratios of runs made by turns: ours by theirs, run by run."""
    pairs = []
    for part in ("ingest", "query", "update"):
        for theirs in records[part].rows:
            what = {**theirs.what, "system": OURS, "stack": "embedded"}
            ours = records[part].where(**what)
            if theirs.what.get("system") != OURS and ours:
                pairs.append((part, theirs, ours[0]))
    if not pairs:
        return
    yield "### Beside lightrag-hku\n"
    yield "Its library with its own OpenAI binding, default file stores and all defaults (4 calls"
    yield "at a time, gleaning) on the same documents and model, by turns with the service. `times`"
    yield "is its CPU by ours, of the medians."
    yield ""
    yield from head("what", "documents", "theirs, CPU-ms", "ours", "times", "calls", "ours")
    for part, theirs, ours in pairs:
        kinds = {k: v for k, v in theirs.what.items() if k not in ("system", "stack", "n")}
        names = ", ".join(f"{k} {v:g}" if isinstance(v, float | int) else str(v)
                          for k, v in kinds.items())  # fmt: skip
        ratio = median(theirs.values("cpu_ms")) / max(0.01, median(ours.values("cpu_ms")))
        yield row(
            f"{part}, {names}", f"{theirs.what['n']:,}", theirs.shown("cpu_ms"),
            ours.shown("cpu_ms"), f"{ratio:.1f}", theirs.shown("calls", 2), ours.shown("calls", 2),
        )  # fmt: skip


def _query(record: Record) -> Iterator[str]:
    rows = [one for one in record.rows if "clients" in one.what]
    if not rows:
        return
    yield from head(
        "system", "stack", "documents", "mode", "CPU-ms", "of databases", "p50 ms", "p95 ms",
        "16: p50 ms", "p95 ms", "a second",
    )  # fmt: skip
    for one in _sorted(rows):
        if one.what["clients"] != 1:
            continue
        many = record.where(**{**one.what, "clients": 16})
        crowd = [many[0].shown(name) if many else "–" for name in ("p50_ms", "p95_ms", "rate")]
        yield row(
            one.what["system"], one.what["stack"], f"{one.what['n']:,}", one.what["mode"],
            one.shown("cpu_ms"), one.shown("databases_cpu_ms"), one.shown("p50_ms"),
            one.shown("p95_ms"), *crowd,
        )  # fmt: skip


def _busy(record: Record) -> Iterator[str]:
    rows = record.where(mode="busy")
    if not rows:
        return
    yield from head("stack", "documents", "p50 ms: rest", "busy", "p95 ms: rest", "busy", "times")
    for one in _sorted(rows):
        yield row(
            one.what["stack"], f"{one.what['n']:,}", one.shown("rest_p50_ms"), one.shown("p50_ms"),
            one.shown("rest_p95_ms"), one.shown("p95_ms"), one.shown("p95_ratio"),
        )  # fmt: skip


def _update(record: Record) -> Iterator[str]:
    if not record.rows:
        return
    yield from head(
        "system", "stack", "documents", "change", "CPU-ms a document", "of databases", "p50 ms",
        "chat calls", "summaries",
    )  # fmt: skip
    for one in _sorted(record.rows):
        yield row(
            one.what["system"], one.what["stack"], f"{one.what['n']:,}", one.what["what"],
            one.shown("cpu_ms"), one.shown("databases_cpu_ms"), one.shown("p50_ms", 0),
            one.shown("chats", 2), one.shown("summaries", 2),
        )  # fmt: skip


def _scale(record: Record) -> Iterator[str]:
    columns = {
        "CPU-ms a document": ("ingest", "cpu_ms"), "process MiB": ("ingest", "process_mib"),
        "disk MiB": ("disk", "mib"), "mix p50 ms": ("query mix", "p50_ms"),
        "p95": ("query mix", "p95_ms"), "CPU-ms": ("query mix", "cpu_ms"),
        "16 clients, a second": ("query mix 16", "rate"), "add, CPU-ms": ("add", "cpu_ms"),
        "delete": ("delete", "cpu_ms"), "each of many": ("delete many", "cpu_ms"),
        "restart s": ("restart", "wall_s"), "backup s": ("backup", "wall_s"),
    }  # fmt: skip
    if not record.rows:
        return
    yield from head("documents", *columns)
    for size in sorted({one.what["n"] for one in record.rows}):
        cells = []
        for what, figure in columns.values():
            found = record.where(n=size, what=what)
            cells.append(found[0].shown(figure) if found else "–")
        yield row(f"{size:,}", *cells)


def _plots(record: Record, results: Path) -> Iterator[str]:
    for name, (title, wanted) in CURVES.items():
        series = {
            f"{what}, {figure.partition('_')[0]}": [
                (one.what["n"], value)
                for one in record.where(what=what)
                if (value := one.middle(figure))
            ]
            for what, figure in wanted.items()
        }
        series = {label: points for label, points in series.items() if points}
        if series:
            plots.curves(title, series, results / f"scale-{name}.svg")
            yield f"![{title}]({results.name}/scale-{name}.svg)"


def _start(record: Record) -> Iterator[str]:
    rows = [one for one in record.rows if "role" in one.what]
    if not rows:
        return
    yield from head("process", "models", "ready s", "CPU s", "MiB at rest", "% at rest", "runs")
    for one in rows:
        yield row(
            one.what["role"], one.what["models"], one.shown("wall_s", 2), one.shown("cpu_s", 2),
            one.shown("mib", 0), one.shown("idle_percent"), str(len(one.runs)),
        )  # fmt: skip
    for one in record.rows:
        if "import" in one.what:
            yield row(f"`import {one.what['import']}`", "", one.shown("wall_s", 2), "", "", "",
                      str(len(one.runs)))  # fmt: skip


def _imports(record: Record) -> Iterator[str]:
    for one in record.rows:
        if "packages of" in one.what:
            dearest = ", ".join(f"{run['package']} {run['ms']:.0f}" for run in one.runs[:12])
            yield f"- `{one.what['packages of']}`: {dearest}"


def _installed(record: Record) -> Iterator[str]:
    for one in record.rows:
        if "installed" in one.what:
            total = sum(run["mib"] for run in one.runs)
            largest = ", ".join(f"{run['package']} {run['mib']:.0f}" for run in one.runs[:12])
            own = next(run["mib"] for run in one.runs if run["package"] == "heliograph")
            yield f"{total:.0f} MiB, of which the service itself {own:.1f}; the largest: {largest}."


def _codes(records: Records) -> Iterator[str]:
    """With the load of the machine: more than one runnable process a core makes walls long."""
    found: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for part, record in records.items():
        for one in record.rows:
            found[one.date, one.code].append((part, float(one.load)))
    for (date, code), rows in sorted(found.items()):
        parts = [part for part, _ in rows]
        counted = ", ".join(f"{parts.count(part)} of {part}" for part in dict.fromkeys(parts))
        loads = [value for _, value in rows]
        yield f"- `{code}`, {date}, load {min(loads):.0f} to {max(loads):.0f}: rows {counted}"


def _sorted(rows: Sequence[Row]) -> list[Row]:
    """Ours first, then by stack and size; what else tells them apart stays in its order."""
    return sorted(
        rows,
        key=lambda one: (one.what["system"] != OURS, one.what["stack"], one.what["n"]),
    )
