"""Start: until the API and the worker are ready, what they hold at rest, what their imports cost,
and how large the installation is."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import httpx

from tests.bench.performance.processes import MIB, cpu_seconds, resident, trees
from tests.servers import free_port, redis_server
from tests.system.stack import ROOT, clean_environment

PATIENCE = 60.0
MODULES = ("app.main", "workers.main", "workers.standalone")
LISTED = 25
TIMED = re.compile(r"import time: +(\d+) \| +(\d+) \|( +)(\S+)")
WORKER_READY = "worker.started"

Figures = dict[str, Any]


def started(role: str, settings: Mapping[str, str], rest: float) -> Figures:
    """`role`: api, worker or alone; `rest`: seconds over which it is looked at afterwards.
    On a store that knows the schema already, as in service."""
    with tempfile.TemporaryDirectory(prefix="heliograph-start-") as name, redis_server() as redis:
        folder = Path(name)
        env = {
            **clean_environment(), **settings, "HELIOGRAPH_DATA_DIR": str(folder / "data"),
            "HELIOGRAPH_LOG_LEVEL": "INFO",
        }  # fmt: skip
        if role != "alone":
            env["HELIOGRAPH_QUEUE_URL"] = redis.url
        subprocess.run([sys.executable, "-m", "migrations"], cwd=ROOT, env=env, check=True)
        with _process(role, env, folder / "log") as (process, ready):
            began = time.perf_counter()
            while not ready():
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.perf_counter() - began < PATIENCE, "it does not come up"
                time.sleep(0.01)
            figures: Figures = {
                "wall_s": time.perf_counter() - began, "cpu_s": cpu_seconds([process.pid]),
            }  # fmt: skip
            time.sleep(rest)
            figures["mib"] = sum(map(resident, trees([process.pid]))) / MIB
            before = cpu_seconds([process.pid])
            time.sleep(rest)
            figures["idle_percent"] = 100 * (cpu_seconds([process.pid]) - before) / rest
        return figures


@contextmanager
def _process(role: str, env: dict[str, str], log: Path) -> Iterator[Any]:
    port = free_port()
    module = {"api": "app.main", "worker": "workers.main", "alone": "workers.standalone"}[role]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=ROOT, env={**env, "HELIOGRAPH_PORT": str(port)},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip

    def ready() -> bool:
        if role == "worker":
            return WORKER_READY in log.read_text(errors="replace")
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        return False

    try:
        yield process, ready
    finally:
        process.terminate()
        process.wait()


def imports(module: str) -> list[dict[str, Any]]:
    """The dearest packages that an import brings: milliseconds with what they import themselves,
    each only where another package brings it."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {module}"],
        cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    own: dict[str, int] = {}
    for alone, _, _, name in TIMED.findall(done.stderr):
        package = name.partition(".")[0]
        own[package] = own.get(package, 0) + int(alone)
    ranked = sorted(own.items(), key=lambda item: -item[1])[:LISTED]
    return [{"package": name, "ms": round(us / 1000, 1)} for name, us in ranked]


def import_seconds(module: str) -> Figures:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", f"import {module}"], cwd=ROOT, env=clean_environment(), check=True
    )
    return {"wall_s": time.perf_counter() - began}


def installed() -> list[dict[str, Any]]:
    """Sizes on the disk of what `requirements.lock` names, and of our own code, in MiB."""
    wanted = {
        _normal(found[1])
        for found in re.finditer(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.M)
    }
    rows = [
        {"package": one.name, "mib": round(size / MIB, 1)}
        for one in distributions()
        if _normal(one.name) in wanted and (size := _size(one))
    ]
    own = sum(
        path.stat().st_size
        for part in ("app", "workers", "migrations")
        for path in (ROOT / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    rows.append({"package": "heliograph", "mib": round(own / MIB, 1)})
    return sorted(rows, key=lambda row: -row["mib"])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _size(distribution: Any) -> int:
    files = (distribution.locate_file(one) for one in distribution.files or ())
    return sum(path.stat().st_size for path in map(Path, files) if path.is_file())
