"""Many at once: four workers and two APIs take in short documents that share a few names, while
other clients ask, replace and delete; in a second round all processes are restarted, one by one."""

from __future__ import annotations

import itertools
import random
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.fingerprint import Held, differences, held
from tests.faults.ledger import Model, stored_there
from tests.faults.runner import Outcome, model_settings, workplace
from tests.faults.servers import Distributed, Servers
from tests.faults.stacks import Embedded, running
from tests.faults.workload import NAMES, PATIENCE, Client, Op, paragraph
from tests.servers import free_port

WORKERS, BATCH, CLIENTS = 4, 10, 4
WAKEUP = "Exception ignored when trying to write to the signal wakeup fd"
# What must not be seen in any log: a conflict that nobody solved, or a bug.
SURFACED = re.compile(r"deadlock|step\.bug|sweep\.bug|Traceback|job\.failed", re.IGNORECASE)


@dataclass(frozen=True)
class Work:
    first: Mapping[str, str]
    replaced: Mapping[str, str]
    deleted: tuple[str, ...]

    @property
    def survivors(self) -> dict[str, str]:
        left = {**self.first, **self.replaced}
        for one in self.deleted:
            del left[one]
        return left

    @property
    def patience(self) -> float:
        """Seconds for all of it, on a machine that does much else."""
        return PATIENCE + 2 * len(self.first)


def work(seed: str, documents: int) -> Work:
    """One document in ten is replaced, one in ten deleted. Every text names a hub."""
    chance = random.Random(seed)

    def text(mark: str) -> str:
        return f"{paragraph(chance, mark)} {chance.choice(NAMES[:3])} heard of it in {mark}."

    ids = [f"d{n:04}" for n in range(documents)]
    touched = chance.sample(ids, max(2, documents // 5))
    half = len(touched) // 2
    return Work(
        {one: text(f"{one}first") for one in ids},
        {one: text(f"{one}second") for one in touched[:half]},
        tuple(touched[half:]),
    )


class Crowd(Distributed):
    def __init__(self, folder: Path, settings: Mapping[str, str], servers: Servers) -> None:
        super().__init__(folder, settings, servers)
        self.other_port = free_port()

    def prepare(self) -> None:
        self.add("api", "api", {})
        self.add("api-1", "api", {}, env={"HELIOGRAPH_PORT": str(self.other_port)})
        for n in range(WORKERS):
            self.add(f"worker-{n}", "worker", {})
        self.servers.wipe()

    @property
    def urls(self) -> tuple[str, str]:
        return self.url, f"http://127.0.0.1:{self.other_port}"

    def surfaced(self) -> list[str]:
        found = []
        for member in self.members:
            before = ""
            for line in member.log.read_text(errors="replace").splitlines():
                # The driver's own note that it tries again: nobody else hears of that. And Python's
                # own, of a second signal to a process that has closed its event loop to end.
                harmless = "will be retried" in line or "Client[" in line or WAKEUP in before
                if SURFACED.search(line) and not harmless:
                    found.append(f"{member.name}: {line[:200]}")
                before = line
        return found


def crowds(seed: str, documents: int, model: Model, servers: Servers) -> Iterator[Outcome]:
    """Without restarts, and with them."""
    todo = work(seed, documents)
    expected = alone(todo, seed, model)
    for restarts in (False, True):
        yield crowd(seed, todo, expected, model, servers, restarts=restarts)


def crowd(
    seed: str, todo: Work, expected: Held, model: Model, servers: Servers, *, restarts: bool
) -> Outcome:
    kind = "rolling restart under load" if restarts else "many workers, APIs and clients"
    outcome = Outcome(seed, kind, f"{len(todo.first)} documents, {WORKERS} workers, 2 APIs", 0)
    start = time.monotonic()
    with workplace() as folder:
        room = f"crowd-{folder.name}"
        ledger = model.open(room, stored_there(servers.stored, folder / "marks"), latency=0.02)
        stack = Crowd(folder, model_settings(model.url(room)), servers)
        with running(stack), closing(Client(*stack.urls)) as client:
            with asking(stack), restarting(stack) if restarts else nothing():
                feed(todo, stack)
            began = time.monotonic()
            client.wait_idle(todo.patience)
            outcome.recovery = time.monotonic() - began
            if found := differences(expected, held(client)):
                outcome.wrong += ["the graph differs (expected -> found):", *found]
            counts = client.call("GET", "/documents/counts")
            outcome.lost = len(todo.survivors) - counts["ready"]
        outcome.wrong += stack.surfaced()[:10]
        outcome.tail = stack.tail() if outcome.wrong else ""
    twice = [*ledger.paid_twice(), *ledger.repeated()]  # nothing is killed: there is no window
    outcome.paid_twice = len(twice)
    outcome.wrong += [f"paid twice: {call.text[:60]!r}" for call in twice[:5]]
    outcome.wrong += [f"{outcome.lost} documents lost"] if outcome.lost else []
    outcome.seconds = time.monotonic() - start
    return outcome


def alone(todo: Work, seed: str, model: Model) -> Held:
    """One worker, one step at a time, and only what is left in the end."""
    with workplace() as folder:
        room = f"alone-{seed}"
        model.open(room, lambda _: False, latency=0.0)
        settings = {**model_settings(model.url(room)), "HELIOGRAPH_MAX_JOBS": "1"}
        stack = Embedded(folder, settings)
        with running(stack), closing(Client(stack.url)) as client:
            rows = list(todo.survivors.items())
            for begin in range(0, len(rows), 100):
                client.run((Op("add", dict(rows[begin : begin + 100])),))
            client.wait_idle(todo.patience)
            return held(client)


def feed(todo: Work, stack: Crowd) -> None:
    """Clients side by side, each with its share; replaced and deleted while much is on its way."""
    rows = list(todo.first.items())
    batches = [dict(rows[begin : begin + BATCH]) for begin in range(0, len(rows), BATCH)]

    def share(number: int) -> None:
        with closing(Client(*stack.urls)) as client:
            for batch in batches[number::CLIENTS]:
                client.add(batch, f"{number}")
                for one in batch.keys() & todo.replaced.keys():
                    client.add({one: todo.replaced[one]}, f"{number}")
                for one in batch.keys() & set(todo.deleted):
                    client.call("DELETE", f"/documents/{one}")

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(share, range(CLIENTS)))


@contextmanager
def asking(stack: Crowd) -> Iterator[None]:
    """Two clients that ask all the time. A refused connection is tried at the other API."""
    done, failed = threading.Event(), []

    def ask(number: int) -> None:
        with closing(Client(*stack.urls)) as client:
            for name in itertools.cycle(NAMES[number:]):
                if done.is_set():
                    return
                try:
                    client.call("POST", "/query", json={"query": f"Whom did {name} meet?"})
                except Exception as error:
                    failed.append(error)
                    return

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


@contextmanager
def restarting(stack: Crowd) -> Iterator[None]:
    """Every process in turn, as a new version is rolled out: told to stop, and started again when
    it has. Goes once round, at least."""
    done = threading.Event()

    def roll() -> None:
        for round_number in itertools.count():
            for member in stack.members:
                if done.is_set() and round_number:
                    return
                lives = member.lives
                member.send(signal.SIGTERM)
                until = time.monotonic() + 60
                while member.lives == lives and time.monotonic() < until:
                    time.sleep(0.05)
                time.sleep(2.0)  # it comes up before the next one goes

    thread = threading.Thread(target=roll)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def nothing() -> Iterator[None]:
    yield
