"""The service as processes that die and are started again, as a supervisor of containers would."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import redis

from tests.servers import Missing, free_port
from tests.system.stack import ROOT, clean_environment

RESTART_SECONDS = 0.2  # as a container's supervisor waits before the first restart
START_SECONDS = 90.0
STOP_SECONDS = 30.0
MOST_LIVES = 12

# Short, so that a schedule takes seconds; some schedules run with the defaults.
QUICK = {
    "HELIOGRAPH_LEASE_SECONDS": "2",
    "HELIOGRAPH_OPTIONS__CHUNK_TOKENS": "96",
    "HELIOGRAPH_OPTIONS__CHUNK_OVERLAP": "0",
    "HELIOGRAPH_OPTIONS__CHUNKS_PER_STEP": "2",
}


@dataclass
class Member:
    """One process of the stack, with the environment of its first life and of later ones."""

    name: str
    role: str
    env: Mapping[str, str]
    log: Path
    faults: Mapping[str, Any] = field(default_factory=dict)
    lasting: bool = False  # the faults are those of later lives too
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0

    def start(self) -> None:
        told = dict(self.faults) if self.lives == 0 or self.lasting else {}
        env = {**self.env, "HELIOGRAPH_TEST_FAULTS": json.dumps(told)}
        command = [sys.executable, "-m", "tests.faults.process", self.role]
        if setpriv := shutil.which("setpriv"):  # ends with the runner, and ends its queue server
            command = [setpriv, "--pdeathsig", "TERM", *command]
        self.lives += 1
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        assert self.process is not None, "started"
        return self.process.pid

    def send(self, sign: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, sign)


class Stack(ABC):
    """Processes under supervision: whatever ends is started again until the stack is stopped."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder, self.marks = folder, folder / "marks"
        self.marks.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        inherited = clean_environment()
        self.env = {
            **inherited, **QUICK, **settings, "HELIOGRAPH_PORT": str(self.port),
            "HELIOGRAPH_DATA_DIR": str(folder / "data"), "PYTHONPATH": str(ROOT),
            "HELIOGRAPH_TEST_MARKS": str(self.marks),
        }  # fmt: skip
        self.members: list[Member] = []
        self.last_restart = time.monotonic()
        self.restarts = 0
        self.last_resort = ""  # the process to kill at the end if nothing went wrong before
        self.idle = threading.Event()  # the clients are done
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._supervise, daemon=True)

    def add(
        self, name: str, role: str, faults: Mapping[str, Any], *, lasting: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        log = self.folder / f"{name}.log"
        self.members.append(Member(name, role, {**self.env, **(env or {})}, log, faults, lasting))

    def member(self, name: str) -> Member:
        return next(one for one in self.members if one.name == name)

    def start(self) -> None:
        for member in self.members:
            member.start()
        self._watch.start()
        self.wait_up()

    def wait_up(self) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", timeout=10).status_code == 200:
                    return
            if time.monotonic() > until or self._hopeless():
                raise TimeoutError(f"the service does not come up: {self.tail()}")
            time.sleep(0.03)

    def _hopeless(self) -> bool:
        return max(member.lives for member in self.members) > MOST_LIVES

    def _supervise(self) -> None:
        while not self._stopping.wait(0.03):
            for member in self.members:
                if member.process is None or self._hopeless():
                    continue
                if member.process.poll() is not None:
                    if self._stopping.wait(RESTART_SECONDS):
                        return
                    self.restarts += 1
                    self.last_restart = time.monotonic()
                    member.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._watch.is_alive():
            self._watch.join()
        for member in self.members:
            member.send(signal.SIGCONT)
            member.send(signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        for member in self.members:
            if member.process is None:
                continue
            try:
                member.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()

    def tail(self, lines: int = 25) -> str:
        parts = []
        for member in self.members:
            if member.log.exists():
                told = member.log.read_text(errors="replace").splitlines()
                told = [line for line in told if "request method=GET" not in line]
                parts += [f"--- {member.name}", *told[-lines:]]
        return "\n".join(parts)

    @abstractmethod
    def prepare(self) -> None: ...


class Embedded(Stack):
    """All in one process; with `disk_mb` on a disk of its own, of that size."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *, disk_mb: int = 0) -> None:
        super().__init__(folder, settings)
        self.disk_mb = disk_mb

    def stop(self) -> None:
        super().stop()
        if self.disk_mb:
            subprocess.run(["umount", "--lazy", str(self.folder / "data")], check=True)

    def prepare(self) -> None:
        if self.disk_mb:
            data = self.folder / "data"
            data.mkdir()
            mount(data, self.disk_mb)
        if not self.members:
            self.add("alone", "alone", {})

    def queue_pid(self) -> int:
        """Of the Valkey that the process started; 0 if there is none now."""
        pid = self.member("alone").pid
        with suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if b"valkey" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        return 0

    def empty_queue(self) -> None:
        url = f"unix://{self.folder / 'data' / 'queue' / 'valkey.sock'}"
        with suppress(redis.RedisError), closing(redis.Redis.from_url(url)) as server:
            server.flushall()


def mount(folder: Path, megabytes: int) -> None:
    """A disk in memory. Raises `Missing` where this user may not."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing("a full disk needs the right to mount one (root)") from error


@contextmanager
def running(stack: Stack) -> Iterator[Stack]:
    stack.prepare()
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
