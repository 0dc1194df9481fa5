"""The service of a case: its processes, which may be stopped, killed and started; its clients."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.cases.grounds import API, WORKER, Grounds
from tests.cases.record import Unusable
from tests.cases.settings import translated
from tests.servers import free_port
from tests.system.stack import PATIENCE, ROOT, _environment

EMBEDDED, SERVERS = "embedded", "neo4j"
INJECTED = Path(__file__).parent / "inject"
STOP_PATIENCE = 30.0


@dataclass
class Part:
    """A process of the service: `all`, `api` or `worker`."""

    role: str
    command: list[str]
    env: dict[str, str]
    log: Path
    url: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.up:
            return
        command = self.command
        if setpriv := shutil.which("setpriv"):  # ends it too when the run is killed
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.env,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def hint(self, number: int) -> None:
        if self.process is not None and self.up:
            self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process is None:
            return
        self.hint(number)
        try:
            self.process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""


@dataclass
class Deployment:
    """A service on one stack with data of its own. `secret`: an admin key, once it is closed."""

    grounds: Grounds
    kind: str
    folder: Path
    parts: list[Part] = field(default_factory=list)
    clients: list[httpx.Client] = field(default_factory=list)
    secret: str = ""
    refusal: str = ""  # what the last start said when it was refused
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("data", "tmp"):
            (self.folder / name).mkdir(parents=True)
        if self.kind == SERVERS:
            self.grounds.empty(self.folder / "qdrant")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    @property
    def connections(self) -> Path:
        return self.folder / "connections"

    def start(
        self, env: Mapping[str, object], *, api: int = 1, worker: int = 0, refused: bool = False
    ) -> bool:
        """With these settings, on the data that are there; False if it refuses to."""
        self.stop()
        ours, closed = translated(env, refused=refused)
        self.env = ours
        if self.kind == SERVERS:
            roles = [API] * api + [WORKER] * (worker or 2)
        elif api > 1 or worker > 1:
            raise Unusable("several processes need STACK=neo4j")
        else:
            roles = ["all"]
        self.parts = [self._part(role, number) for number, role in enumerate(roles)]
        if self.kind == SERVERS and not self._migrated():
            return False
        for part in self.parts:
            part.start()
        self.clients = [
            httpx.Client(base_url=part.url, timeout=PATIENCE) for part in self.parts if part.url
        ]
        if not self._wait_up(refused=refused):
            return False
        if closed and not self.secret:
            reply = self.clients[0].post("/admin/keys", json={"scope": "admin", "label": "runner"})
            reply.raise_for_status()
            self.secret = reply.json()["secret"]
            time.sleep(0 if len(self.clients) == 1 else 6)  # others look for keys every 5 s
        return True

    def stop(self) -> None:
        for part in self.parts:
            part.end()
        for client in self.clients:
            client.close()
        self.clients = []

    def pick(self, what: str, number: int | None = None) -> list[Part]:
        """Processes by role. In the embedded stack each role is the one process."""
        if what in ("all", "service") or self.kind == EMBEDDED:
            chosen = self.parts
        else:
            chosen = [p for p in self.parts if p.role == what.rstrip("s")]
        if not chosen:
            raise Unusable(f"proc: there is no process {what!r}")
        return chosen if number is None else [chosen[number % len(chosen)]]

    def wait_up(self) -> None:
        self._wait_up(refused=False)

    def _part(self, role: str, number: int) -> Part:
        log = self.folder / f"{role}-{number}.log"
        port = free_port() if role != WORKER else 0
        command = {
            "all": ["-m", "workers.standalone"],
            API: ["-m", "uvicorn", "app.main:create_app", "--factory", "--port", str(port)],
            WORKER: ["-m", "arq", "workers.main.WorkerSettings"],
        }[role]
        env = {
            "HELIOGRAPH_LLM_URL": f"openai+{self.grounds.fake}/v1",
            "HELIOGRAPH_LLM_MODEL": "scripted",
            "HELIOGRAPH_EMBED_URL": f"openai+{self.grounds.fake}/v1",
            "HELIOGRAPH_EMBED_MODEL": "scripted-embedding",
            "HELIOGRAPH_DATA_DIR": str(self.data),
            "HELIOGRAPH_PORT": str(port),
        }
        if self.kind == SERVERS:
            env |= self.grounds.settings(role)
        env = _environment({**env, **self.env})
        env |= {
            "PYTHONPATH": f"{INJECTED}:{ROOT}",
            "CASES_CLOCK": str(self.clock), "CASES_CONNECTIONS": str(self.connections),
        }  # fmt: skip
        url = f"http://127.0.0.1:{port}" if port else ""
        return Part(role, [sys.executable, *command], env, log, url)

    def _migrated(self) -> bool:
        done = subprocess.run(
            [sys.executable, "-m", "migrations"], cwd=ROOT, env=self.parts[0].env, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.refusal = done.stdout if done.returncode else ""
        return not done.returncode

    def _wait_up(self, *, refused: bool) -> bool:
        until = time.monotonic() + PATIENCE
        for client in self.clients:
            part = next(p for p in self.parts if p.url == str(client.base_url).rstrip("/"))
            while not _ready(client):
                if not part.up:
                    self.refusal = part.tail()
                    if refused:
                        return False
                    raise RuntimeError(f"the service ended early: {part.tail()}")
                if time.monotonic() > until:
                    raise RuntimeError(f"the service does not come up: {part.tail()}")
                time.sleep(0.05)
        self.refusal = ""
        return True


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False
