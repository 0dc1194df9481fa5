"""What goes wrong, drawn by a seed: where a process dies, or what is done to what around it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.stacks import Embedded, Stack

STAGES = {
    "ingest": (
        "parse", "extract", "merge", "profile", "index", "publish", "retire", "reprofile",
        "reindex",
    ),
    "delete": ("retract", "reprofile", "reindex", "remove"),
}  # fmt: skip
# How often a point is passed at least in every scenario, about; one drawn beyond that is a kill at
# the end of the work.
CALLS = {
    "journal.claim": 6, "journal.finish": 20, "documents.submit": 4, "documents.reopen": 1,
    "documents.parsed": 4, "documents.publish": 4, "documents.remove": 1, "graph.put_chunks": 4,
    "graph.put_extraction": 8, "graph.fold": 4, "graph.retract": 1, "graph.put_profiles": 4,
    "graph.mark_indexed": 5, "graph.forget": 1, "vectors.upsert": 5, "vectors.delete": 1,
    "blobs.put": 6, "blobs.delete": 2, "queue.send": 4, "graph.commit": 60, "model.extract": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """`kind` is the row of the table. `told` goes into the processes, `act` is done from outside.
    `excuse`: it ends or freezes a worker, so that an answer which no store has yet may be lost."""

    kind: str
    name: str
    told: Mapping[str, Any] = field(default_factory=dict)
    act: Callable[[Stack], None] | None = None
    excuse: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    lasting: bool = False


def point(chance: random.Random) -> dict[str, Any]:
    """A boundary, drawn by kind first, so that each is as likely as any other."""
    when = chance.choice(("before", "after"))
    if chance.random() < 0.4:
        plan = chance.choice(("ingest", "ingest", "delete"))
        stage = chance.choice(STAGES[plan])
        many = 3 if plan == "ingest" and STAGES[plan].index(stage) < 6 else 1
        return {"at": f"stage.{plan}.{stage}", "when": when, "nth": chance.randint(1, many)}
    at = chance.choice(sorted(CALLS))
    return {"at": at, "when": when, "nth": chance.randint(1, CALLS[at])}


def named(one: Mapping[str, Any]) -> str:
    return f"{one['when']} {one['at']} #{one['nth']}"


# --- on the embedded stack -----------------------------------------------------------------------


def killed_at_a_point(chance: random.Random) -> Fault:
    at = point(chance)
    return Fault(
        "process killed at a boundary", named(at), {"points": [{**at, "do": "kill"}]}, excuse=True,
        act=lambda stack: end_at_last(stack, "alone"),
    )  # fmt: skip


def end_at_last(stack: Stack, name: str) -> None:
    """A point that this scenario does not pass: the process is killed when all else is done."""
    stack.last_resort = name


def killed_at_any_time(chance: random.Random) -> Fault:
    times = sorted(chance.uniform(0.05, 2.0) for _ in range(chance.choice((1, 1, 2))))

    def act(stack: Stack) -> None:
        start = time.monotonic()
        for moment in times:
            time.sleep(max(0.0, start + moment - time.monotonic()))
            stack.member("alone").send(signal.SIGKILL)

    shown = ", ".join(f"{moment:.2f} s" for moment in times)
    return Fault("process killed at any time", shown, act=act, excuse=True)


def frozen(chance: random.Random) -> Fault:
    at, seconds = point(chance), chance.uniform(2.5, 4.0)
    return Fault(
        "process frozen beyond its lease", f"{named(at)} for {seconds:.1f} s",
        {"points": [{**at, "do": "freeze"}]}, act=lambda stack: thaw(stack, "alone", seconds),
        excuse=True,
    )  # fmt: skip


def thaw(stack: Stack, name: str, seconds: float, patience: float = 20.0) -> None:
    if reached(stack, patience):
        time.sleep(seconds)
    stack.member(name).send(signal.SIGCONT)


def reached(stack: Stack, patience: float = 20.0) -> bool:
    until = time.monotonic() + patience
    while not (stack.marks / "hit").exists():
        if time.monotonic() > until or stack.idle.is_set():
            return (stack.marks / "hit").exists()
        time.sleep(0.01)
    return True


def queue_killed(chance: random.Random) -> Fault:
    """Valkey dies, hangs or forgets at a boundary."""
    at, how = point(chance), chance.choice(("killed", "killed", "frozen"))

    def act(stack: Stack) -> None:
        assert isinstance(stack, Embedded)
        reached(stack)
        if pid := stack.queue_pid():
            signal_queue(pid, how)
        (stack.marks / "go").touch()

    return Fault(f"queue server {how}", named(at), {"points": [{**at, "do": "signal"}]}, act=act)


def signal_queue(pid: int, how: str) -> None:
    import os

    if how == "killed":
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGSTOP)
    time.sleep(3.0)
    os.kill(pid, signal.SIGCONT)


def queue_emptied(chance: random.Random) -> Fault:
    at = point(chance)

    def act(stack: Stack) -> None:
        assert isinstance(stack, Embedded)
        reached(stack)
        stack.empty_queue()
        (stack.marks / "go").touch()

    return Fault("queue emptied", named(at), {"points": [{**at, "do": "signal"}]}, act=act)


def messages_lost_and_doubled(chance: random.Random) -> Fault:
    told = {
        "drop": chance.choice((0.0, 0.2, 0.4)), "double": chance.choice((0.3, 0.6)),
        "seed": chance.random(),
    }  # fmt: skip
    return Fault(
        "messages lost and doubled", f"lost {told['drop']:.0%}, doubled {told['double']:.0%}",
        {"queue": told}, lasting=True,
    )  # fmt: skip


def clock_moved(chance: random.Random) -> Fault:
    """The clock of process and store jumps in mid-work, and the process is killed soon after."""
    jump = chance.choice((-86_400.0, -3600.0, -45.0, 3600.0, 86_400.0))
    at, kills = point(chance), chance.random() < 0.6

    def act(stack: Stack) -> None:
        reached(stack)
        member = stack.member("alone")
        member.send(signal.SIGUSR1)
        time.sleep(chance.uniform(0.0, 0.3))
        if kills:  # its next life has the moved clock from the beginning
            member.faults = {"clock": jump}
            member.lasting = True
            member.send(signal.SIGKILL)
        (stack.marks / "go").touch()

    told = {"clock": 0.0, "jump": jump, "points": [{**at, "do": "signal"}]}
    name = f"{jump:+.0f} s at {named(at)}{', then killed' if kills else ''}"
    return Fault("clock moved", name, told, act=act, excuse=kills)


def slow_stores(chance: random.Random) -> Fault:
    slow = {chance.choice(("vectors", "graph")): chance.uniform(0.05, 0.4), "blobs": 0.1}
    return Fault(
        "slow disk or vector store", ", ".join(f"{k} {v:.2f} s" for k, v in slow.items()),
        {"slow": slow}, lasting=True,
    )  # fmt: skip


EMBEDDED: tuple[tuple[int, Callable[[random.Random], Fault]], ...] = (
    (50, killed_at_a_point),
    (12, killed_at_any_time),
    (8, frozen),
    (6, queue_killed),
    (5, queue_emptied),
    (6, messages_lost_and_doubled),
    (7, clock_moved),
    (3, slow_stores),
)


def drawn(
    seed: str, kinds: tuple[tuple[int, Callable[[random.Random], Fault]], ...]
) -> tuple[Fault, random.Random]:
    chance = random.Random(seed)
    [make] = chance.choices([make for _, make in kinds], [weight for weight, _ in kinds])
    return make(chance), chance
