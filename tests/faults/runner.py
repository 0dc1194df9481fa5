"""One schedule from its seed to its verdict."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import faults
from tests.faults.faults import Fault
from tests.faults.fingerprint import Held, differences, held, stray_blobs
from tests.faults.ledger import Ledger, Model, stored_in_sqlite, stored_there
from tests.faults.servers import Distributed, Servers
from tests.faults.stacks import Embedded, Stack, running
from tests.faults.workload import Client, Op, Scenario, scenario
from tests.servers import Missing

SCENARIOS = 12  # each is done once undisturbed, to compare with
MINUTE = 60.0


@dataclass
class Outcome:
    """What came of a schedule; `wrong` says why it failed."""

    seed: str
    kind: str
    fault: str
    scenario: int
    wrong: list[str] = field(default_factory=list)
    left_out: str = ""  # why the schedule could not be done here
    stray: list[str] = field(default_factory=list)
    lost: int = 0
    paid_twice: int = 0
    repeated: int = 0
    recovery: float = 0.0
    seconds: float = 0.0
    tail: str = ""


class References:
    """What undisturbed runs end in; each is done when it is first asked for."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[int, Held] = {}
        self._locks = [threading.Lock() for _ in range(SCENARIOS)]

    def of(self, number: int) -> Held:
        with self._locks[number]:
            if number not in self._known:
                self._known[number] = self._made(number)
            return self._known[number]

    def _made(self, number: int) -> Held:
        with workplace() as folder:
            room = f"reference-{number}"
            self._model.open(room, lambda _: False, latency=0.0)
            stack = Embedded(folder, model_settings(self._model.url(room)))
            with running(stack), closing(Client(stack.url)) as client:
                client.run((Op("add", scenario(number).survivors), Op("wait")))
                return held(client)


def model_settings(url: str) -> dict[str, str]:
    return {
        "HELIOGRAPH_LLM_URL": url, "HELIOGRAPH_LLM_MODEL": "scripted",
        "HELIOGRAPH_EMBED_URL": url, "HELIOGRAPH_EMBED_MODEL": "scripted-embedding",
    }  # fmt: skip


@contextmanager
def workplace() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="heliograph-faults-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def embedded(seed: str, model: Model, references: References) -> Outcome:
    fault, chance = faults.drawn(seed, faults.EMBEDDED)
    number = chance.randrange(SCENARIOS)
    with workplace() as folder:
        room = f"schedule-{folder.name}"
        stored = stored_in_sqlite(folder / "data" / "graph.db", folder / "marks")
        ledger = model.open(room, stored, latency=chance.choice((0.0, 0.02, 0.1)))
        stack = Embedded(
            folder, {**model_settings(model.url(room)), **fault.settings}, disk_mb=fault.disk_mb
        )
        arm(stack, fault)
        return run(Schedule(seed, fault, number, stack, ledger), references.of(number))


def distributed(seed: str, model: Model, references: References, servers: Servers) -> Outcome:
    fault, chance = faults.drawn(seed, faults.SERVERS)
    number = chance.randrange(SCENARIOS)
    with workplace() as folder:
        room = f"schedule-{folder.name}"
        stored = stored_there(servers.stored, folder / "marks")
        ledger = model.open(room, stored, latency=chance.choice((0.0, 0.02, 0.1)))
        stack = Distributed(folder, {**model_settings(model.url(room)), **fault.settings}, servers)
        arm(stack, fault)
        return run(Schedule(seed, fault, number, stack, ledger), references.of(number))


def arm(stack: Stack, fault: Fault) -> None:
    for name in fault.members:
        stack.add(name, name.partition("-")[0], fault.told, lasting=fault.lasting)


@dataclass(frozen=True)
class Schedule:
    """A stack that is not started yet, and what is to happen to it."""

    seed: str
    fault: Fault
    scenario: int
    stack: Stack
    ledger: Ledger


def run(schedule: Schedule, expected: Held) -> Outcome:
    stack, fault, work = schedule.stack, schedule.fault, scenario(schedule.scenario)
    outcome = Outcome(schedule.seed, fault.kind, fault.name, schedule.scenario)
    start = time.monotonic()
    try:
        with running(stack), closing(Client(stack.url)) as client:
            lifted = disturb(stack, fault, client, work)
            client.wait_idle()
            outcome.recovery = max(0.0, time.monotonic() - max(lifted, stack.last_restart))
            judge(outcome, stack, client, expected)
    except Missing as missing:
        outcome.left_out = str(missing)
        return outcome
    except Exception as error:
        outcome.wrong.append(f"{type(error).__name__}: {error}")
        outcome.lost = max(outcome.lost, 1)
    outcome.seconds = time.monotonic() - start
    # Some faults end a process in their course, and then the window is open too.
    audit(outcome, schedule.ledger, excuse=fault.excuse or stack.restarts > 0)
    if outcome.recovery > MINUTE:
        outcome.wrong.append(f"recovery took {outcome.recovery:.0f} s")
    if outcome.wrong:
        outcome.tail = stack.tail()
    return outcome


def disturb(stack: Stack, fault: Fault, client: Client, work: Scenario) -> float:
    """Work and fault side by side; the moment when both are over."""
    failed: list[BaseException] = []

    def acting() -> None:
        try:
            if fault.act is not None:
                fault.act(stack)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=acting)
    thread.start()
    client.run(work.ops)
    if not fault.told.get("points"):
        thread.join()
        return time.monotonic()
    # The point may lie in what is still to come: only when nothing is left to do was it missed.
    wait_for_point(stack, client)
    stack.idle.set()
    thread.join()
    if stack.last_resort and not (stack.marks / "hit").exists():
        stack.member(stack.last_resort).send(signal.SIGKILL)
        time.sleep(0.3)
    if failed:
        raise failed[0]
    return time.monotonic()


def wait_for_point(stack: Stack, client: Client) -> None:
    while not (stack.marks / "hit").exists():
        counts: Mapping[str, int] = client.call("GET", "/documents/counts")
        if sum(counts.values()) == counts.get("ready", 0) + counts.get("failed", 0):
            return
        time.sleep(0.05)


def judge(outcome: Outcome, stack: Stack, client: Client, expected: Held) -> None:
    work = scenario(outcome.scenario)
    for one in work.survivors:
        seen = client.call("GET", f"/documents/{one}")
        if seen is None or seen["status"] != "ready":
            outcome.lost += 1
            outcome.wrong.append(f"{one}: {seen and (seen['status'], seen['error'])}")
    for one in work.deleted:
        if client.call("GET", f"/documents/{one}") is not None:
            outcome.lost += 1
            outcome.wrong.append(f"{one} was deleted and is there")
    if found := differences(expected, held(client)):
        outcome.wrong += ["the graph differs (expected -> found):", *found]
    outcome.stray += stray_blobs(client, stack.folder / "data" / "blobs", sorted(work.survivors))


def audit(outcome: Outcome, ledger: Ledger, *, excuse: bool) -> None:
    twice, again = ledger.paid_twice(), ledger.repeated()
    if not excuse:
        twice, again = twice + again, []
    outcome.paid_twice, outcome.repeated = len(twice), len(again)
    outcome.wrong += [f"paid twice: {call.text[:60]!r}" for call in twice[:5]]
