"""What goes wrong, drawn by a seed: where a process dies, or what is done to what around it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.faults.proxy import Mode
from tests.faults.servers import Distributed, Servers
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
    members: tuple[str, ...] = ("alone",)
    disk_mb: int = 0  # size of the disk that the stores are on; 0: that of the machine


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


def killed_with_a_usual_lease(chance: random.Random) -> Fault:
    """With the settings that a service has by itself, to see how long recovery takes then."""
    one = killed_at_a_point(chance)
    usual = {"HELIOGRAPH_LEASE_SECONDS": "30"}
    return replace(one, kind="process killed at a boundary, lease of 30 s", settings=usual)


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


def disk_full(chance: random.Random) -> Fault:
    """All stores are on a small disk, which is full for a while: database, originals and vectors
    take no write, and a write through a memory map ends the process."""
    at, seconds = point(chance), chance.uniform(2.0, 8.0)

    def act(stack: Stack) -> None:
        reached(stack)
        with filled(stack.folder / "data"):
            (stack.marks / "go").touch()
            time.sleep(seconds)

    return Fault(
        "disk full", f"{named(at)} for {seconds:.1f} s", {"points": [{**at, "do": "signal"}]},
        act=act, disk_mb=DISK_MB,
    )  # fmt: skip


DISK_MB = 1024


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """The rest of the disk is taken."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        step = 1 << 24
        while step >= 4096:  # others write meanwhile, so it goes on until nothing fits
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), step)
            except OSError:
                step >>= 1
        try:
            yield
        finally:
            filler.unlink()


EMBEDDED: tuple[tuple[int, Callable[[random.Random], Fault]], ...] = (
    (50, killed_at_a_point),
    (3, killed_with_a_usual_lease),
    (12, killed_at_any_time),
    (8, frozen),
    (6, queue_killed),
    (5, queue_emptied),
    (6, messages_lost_and_doubled),
    (7, clock_moved),
    (3, slow_stores),
    (5, disk_full),
)


# --- on servers ----------------------------------------------------------------------------------


def role_of(at: Mapping[str, Any]) -> tuple[str, ...]:
    """The processes that may pass the point."""
    if at["at"] in ("documents.submit", "documents.reopen"):
        return ("api",)
    return WORKERS if at["at"] not in ("blobs.put", "queue.send", "graph.commit") else EVERYONE


WORKERS = ("worker-0", "worker-1")
EVERYONE = ("api", *WORKERS)


def one_killed_at_a_point(chance: random.Random) -> Fault:
    at = point(chance)
    roles = role_of(at)
    return Fault(
        "worker or API killed at a boundary", named(at), {"points": [{**at, "do": "kill"}]},
        act=lambda stack: end_at_last(stack, roles[-1]), excuse=True, members=roles,
    )  # fmt: skip


def some_killed_at_any_time(chance: random.Random) -> Fault:
    victims = chance.sample(EVERYONE, chance.randint(1, 3))
    moments = sorted(chance.uniform(0.1, 3.0) for _ in victims)

    def act(stack: Stack) -> None:
        start = time.monotonic()
        for victim, moment in zip(victims, moments, strict=True):
            time.sleep(max(0.0, start + moment - time.monotonic()))
            stack.member(victim).send(signal.SIGKILL)

    shown = ", ".join(f"{v} {m:.1f} s" for v, m in zip(victims, moments, strict=True))
    return Fault("workers and API killed at any time", shown, act=act, excuse=True)


def zombie(chance: random.Random) -> Fault:
    """A worker sleeps beyond its lease, the other one takes over, and then it wakes up."""
    at, seconds = point(chance), chance.uniform(3.0, 6.0)

    def act(stack: Stack) -> None:
        if reached(stack):
            time.sleep(seconds)
        for name in WORKERS:
            stack.member(name).send(signal.SIGCONT)

    return Fault(
        "worker frozen beyond its lease", f"{named(at)} for {seconds:.1f} s",
        {"points": [{**at, "do": "freeze"}]}, act=act, excuse=True, members=WORKERS,
    )  # fmt: skip


def answers_lost(chance: random.Random) -> Fault:
    """Writes are applied, and the answer never comes."""
    at, name = point(chance), chance.choice(("neo4j", "neo4j", "redis", "qdrant"))
    mode, seconds = chance.choice((Mode.LOSE, Mode.LOSE, Mode.SILENT)), chance.uniform(0.3, 2.0)
    return away_at(
        f"{name}: answers of applied writes lost", f"{named(at)}, {mode.value} {seconds:.1f} s",
        at, lambda servers: network(servers, name, mode, seconds),
    )  # fmt: skip


def cut_off(chance: random.Random) -> Fault:
    at, name = point(chance), chance.choice(("neo4j", "redis", "qdrant"))
    seconds = chance.uniform(1.0, 8.0)
    return away_at(
        f"{name} out of reach", f"{named(at)} for {seconds:.1f} s", at,
        lambda servers: network(servers, name, Mode.CUT, seconds),
    )  # fmt: skip


def server_killed(chance: random.Random) -> Fault:
    at, name = point(chance), chance.choice(("redis", "redis", "qdrant"))
    return away_at(
        f"{name} killed and restarted",
        named(at),
        at,
        lambda servers: restart(servers, name, signal.SIGKILL, 0.5),
    )


def neo4j_ended(chance: random.Random) -> Fault:
    at, sign = point(chance), chance.choice((signal.SIGKILL, signal.SIGTERM))
    how = "killed" if sign is signal.SIGKILL else "stopped"
    return away_at(
        f"neo4j {how} and restarted",
        named(at),
        at,
        lambda servers: restart(servers, "neo4j", sign, 1.0),
    )


def redis_emptied(chance: random.Random) -> Fault:
    at = point(chance)
    return away_at("redis emptied", named(at), at, lambda servers: servers.empty_redis())


def away_at(kind: str, name: str, at: Mapping[str, Any], act: Callable[[Servers], None]) -> Fault:
    """The task at the point waits until the fault has begun, or is over where it blocks."""

    def acting(stack: Stack) -> None:
        assert isinstance(stack, Distributed)
        reached(stack)
        threading.Timer(0.2, (stack.marks / "go").touch).start()
        act(stack.servers)

    return Fault(kind, name, {"points": [{**at, "do": "signal"}]}, act=acting, members=role_of(at))


def network(servers: Servers, name: str, mode: Mode, seconds: float) -> None:
    servers.proxies[name].set(mode)
    time.sleep(seconds)
    servers.proxies[name].set(Mode.PASS)


def restart(servers: Servers, name: str, sign: signal.Signals, seconds: float) -> None:
    servers.daemon(name).end(sign)
    time.sleep(seconds)
    servers.daemon(name).start()


def messages(chance: random.Random) -> Fault:
    return replace(messages_lost_and_doubled(chance), members=EVERYONE)


def clocks_apart(chance: random.Random) -> Fault:
    """One worker's clock is off, and another one is killed: leases are of the store's time."""
    off = chance.choice((-86_400.0, -3600.0, 3600.0, 86_400.0))
    victim, moment = chance.choice(WORKERS), chance.uniform(0.3, 2.0)

    def act(stack: Stack) -> None:
        time.sleep(moment)
        stack.member(victim).send(signal.SIGKILL)

    return Fault(
        "a worker's clock is wrong", f"{off:+.0f} s, and {victim} killed after {moment:.1f} s",
        {"clock": off}, act=act, excuse=True, lasting=True, members=("worker-0",),
    )  # fmt: skip


SERVERS: tuple[tuple[int, Callable[[random.Random], Fault]], ...] = (
    (26, one_killed_at_a_point),
    (10, some_killed_at_any_time),
    (10, zombie),
    (16, answers_lost),
    (10, cut_off),
    (8, server_killed),
    (5, neo4j_ended),
    (6, redis_emptied),
    (4, messages),
    (5, clocks_apart),
)


def drawn(
    seed: str, kinds: tuple[tuple[int, Callable[[random.Random], Fault]], ...]
) -> tuple[Fault, random.Random]:
    chance = random.Random(seed)
    [make] = chance.choices([make for _, make in kinds], [weight for weight, _ in kinds])
    return make(chance), chance
