"""What processes have used: CPU seconds and memory of process trees, read from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
EVERY = 0.25  # seconds between looks at the memory
MIB = 2**20

# Process ids by what they are; below a root what is a root of another group is not counted.
Groups = Mapping[str, Iterable[int]]
SERVICE, DATABASES = "service", "databases"


@dataclass(slots=True)
class Used:
    """Of one stretch of time: wall and CPU seconds, and the highest resident memory in MiB, by
    group. `largest_mib`: of the largest single process."""

    wall_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)
    largest_mib: float = 0.0

    @property
    def cpu(self) -> float:
        return sum(self.cpu_s.values())

    def told(self) -> dict[str, object]:
        """For JSON."""
        return {
            "wall_s": round(self.wall_s, 3), "cpu_s": _rounded(self.cpu_s, 3),
            "peak_mib": _rounded(self.peak_mib, 1), "largest_mib": round(self.largest_mib, 1),
        }  # fmt: skip


class Meter:
    """`with Meter(groups) as used:` measures the trees below the roots; `used` is complete
    afterwards. Processes that end in between count as long as their parents waited for them."""

    def __init__(self, groups: Groups) -> None:
        self._groups = {name: list(pids) for name, pids in groups.items()}
        self.used = Used()
        self._halt = threading.Event()
        self._watch = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Used:
        self._began, self._before = time.perf_counter(), self._cpu()
        self._watch.start()
        return self.used

    def __exit__(self, *_: object) -> None:
        used = self.used
        used.wall_s = time.perf_counter() - self._began
        after = self._cpu()
        used.cpu_s = {name: after[name] - self._before[name] for name in after}
        self._halt.set()
        self._watch.join()
        self._look()

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pids, self._apart(name)) for name, pids in self._groups.items()}

    def _apart(self, name: str) -> set[int]:
        return {pid for other, pids in self._groups.items() if other != name for pid in pids}

    def _look_on(self) -> None:
        while not self._halt.wait(EVERY):
            self._look()

    def _look(self) -> None:
        for name, pids in self._groups.items():
            sizes = [resident(pid) / MIB for pid in trees(pids, self._apart(name))]
            self.used.peak_mib[name] = max(self.used.peak_mib.get(name, 0.0), sum(sizes))
            if name == SERVICE:
                self.used.largest_mib = max(self.used.largest_mib, *sizes, 0.0)


def cpu_seconds(roots: Iterable[int], apart: Collection[int] = ()) -> float:
    """Spent so far by these and all below them, also by those that ended and were waited for."""
    ticks = 0
    for pid in trees(roots, apart):
        with suppress(OSError):
            ticks += sum(map(int, _stat(pid)[11:15]))  # of its own and of children it waited for
    return ticks / TICK


def resident(pid: int) -> int:
    """Bytes of memory; 0 if it has ended."""
    with suppress(OSError):
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def trees(roots: Iterable[int], apart: Collection[int] = ()) -> Iterator[int]:
    """The roots and all below them, without the trees that begin at `apart`."""
    for pid in roots:
        yield pid
        yield from trees((one for one in children(pid) if one not in apart), apart)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the third on (`man 5 proc`)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _rounded(values: Mapping[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in values.items()}
