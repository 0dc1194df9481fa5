"""What may be asked of a model endpoint at a time, and what is known of its health; here for one
process. `app.llm.shared` keeps the same book for all processes in Redis.

Three limits. A call holds one of the *slots* from its admission to its end. A *request* counts for
a minute from its admission on. *Tokens* count, as estimated, while a call runs, and, as used, for a
minute after its end: servers count at either. So no server that counts over a minute, fixed or
sliding, sees more than its limit. Some count what a call may use, whatever it uses then: once a
server refuses a call, estimates are no more corrected downwards for a time (`STRICT`). Within that,
calls are paced (generic cell rate algorithm, ITU-T I.371): after a quiet time `BURST` seconds'
worth go at once, since some servers divide the minute.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol
from uuid import uuid4

from app.llm.faults import Outcome

BURST = 10.0  # seconds' worth of a limit
UNDER_WAY = 2.0  # seconds that a request may take to reach the server
HEAD_START = 30.0  # seconds: a question waits as if it had come so much earlier
STRICT = 3600.0  # seconds
STALE = 3.0  # a waiting call that has not asked for so long is gone
LEASE = 15.0  # a running call that was not heard of for so long is gone, and a harmless one, too

SUSPECT = 3  # failures in a row after which a harmless call finds out who is at fault
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Rates:
    """In each `period` of seconds; 0 means no limit."""

    requests: int = 0
    tokens: int = 0
    period: float = 60.0


NO_LIMIT = Rates()


@dataclass(frozen=True, slots=True)
class Limits:
    concurrency: int = 8
    rates: Rates = NO_LIMIT

    def share(self, processes: int) -> Limits:
        """Of one of so many."""
        rates = self.rates
        return Limits(
            max(1, self.concurrency // processes),
            replace(
                rates,
                requests=max(1, rates.requests // processes) if rates.requests else 0,
                tokens=max(1, rates.tokens // processes) if rates.tokens else 0,
            ),
        )


USUAL_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt. `about` names what may be paused by itself: a model of the endpoint. `urgent`:
    somebody waits for it. `probes`: can send a harmless call; `probe`: is one."""

    tokens: int = 0
    about: str = ""
    urgent: bool = False
    probes: bool = False
    probe: bool = False
    id: str = field(default_factory=lambda: uuid4().hex)


class Verdict(NamedTuple):
    """go; wait for so many seconds, or for a slot (full); paused for so many seconds, because it
    is busy or failed; or send a harmless call first (probe). `at`: the book's time."""

    kind: Literal["go", "wait", "full", "busy", "failed", "probe"]
    seconds: float = 0.0
    at: float = 0.0


class Report(NamedTuple):
    """After a call that failed. `others_work`: a call succeeded since. `probe`: it is on the caller
    to send a harmless call. `paused`: seconds that the endpoint is paused from now."""

    others_work: bool = False
    probe: bool = False
    paused: float = 0.0


@dataclass(frozen=True, slots=True)
class End:
    """How a call ended. `used`: tokens, if known. `since`: time of the first attempt. `last`: there
    will be no other. `pause`: seconds that the server asked for; `jitter` is about 1."""

    outcome: Outcome
    used: int | None = None
    since: float = 0.0
    last: bool = False
    pause: float = 0.0
    jitter: float = 1.0


class Book(Protocol):
    async def ask(self, call: Call) -> Verdict:
        """Ask again after a wait, within `STALE` seconds, to keep the place in the queue."""
        ...

    async def leave(self, call: Call, end: End) -> Report: ...

    async def withdraw(self, call: Call) -> None:
        """It does not wait any more."""
        ...

    async def renew(self, calls: Iterable[Call]) -> None:
        """They still run."""
        ...


def _pause(level: int, jitter: float) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (level - 1)) * jitter


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    level: int = 0
    until: float = 0.0
    why: Literal["busy", "failed"] = "busy"
    probing: float = 0.0
    worked: float = 0.0


class LocalBook:
    """For one process."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._running: dict[str, int] = {}  # tokens reserved
        self._requests: deque[float] = deque()  # until when each counts
        self._spent: deque[tuple[float, int]] = deque()
        self._sum = 0  # of tokens that count
        self._strict = 0.0  # until when
        self._next = [0.0, 0.0]  # when a request and a token would be on time
        self._waiting: dict[str, tuple[float, int]] = {}  # since when, and for how many tokens
        self._circuits: dict[str, _Circuit] = {}

    async def ask(self, call: Call) -> Verdict:
        now = self._clock()
        shut = self._shut(call, now)
        if shut is not None:
            self._waiting.pop(call.id, None)
            return shut
        self._forget(now)
        since = now - (HEAD_START if call.urgent else 0.0)
        mine = self._waiting.setdefault(call.id, (since, call.tokens))
        ahead = [one for one in self._waiting.values() if one < mine]
        wait = max(
            self._request_wait(len(ahead), now),
            self._token_wait(call.tokens, sum(tokens for _, tokens in ahead), now),
        )
        if wait > 0:
            return Verdict("wait", wait, now)
        if len(self._running) + len(ahead) >= self._limits.concurrency:
            return Verdict("full", at=now)
        self._admit(call, now)
        return Verdict("go", at=now)

    async def leave(self, call: Call, end: End) -> Report:
        now = self._clock()
        reserved = self._running.pop(call.id, None)
        rates = self._limits.rates
        if end.outcome == "busy":
            self._strict = now + STRICT
        if rates.tokens and reserved is not None:
            used = reserved if end.used is None else end.used
            used = max(used, reserved) if self._strict > now else used
            self._spent.append((now + rates.period, used))
            self._sum += used - reserved
            self._next[1] += (used - reserved) * rates.period / rates.tokens
        return self._note(call, end, now)

    async def withdraw(self, call: Call) -> None:
        self._waiting.pop(call.id, None)

    async def renew(self, calls: Iterable[Call]) -> None:
        for call in calls:  # the others need no lease: what runs in this process ends in it
            if call.probe:
                self._circuits.setdefault(call.about, _Circuit()).probing = self._clock() + LEASE

    def _admit(self, call: Call, now: float) -> None:
        rates = self._limits.rates
        del self._waiting[call.id]
        self._running[call.id] = call.tokens
        if rates.requests:
            self._requests.append(now + rates.period + UNDER_WAY)
            self._next[0] = max(self._next[0], now) + rates.period / rates.requests
        if rates.tokens:
            self._sum += call.tokens
            self._next[1] = max(self._next[1], now) + call.tokens * rates.period / rates.tokens

    def _forget(self, now: float) -> None:
        while self._requests and self._requests[0] <= now:
            self._requests.popleft()
        while self._spent and self._spent[0][0] <= now:
            self._sum -= self._spent.popleft()[1]

    def _request_wait(self, ahead: int, now: float) -> float:
        limit = self._limits.rates.requests
        if not limit:
            return 0.0
        over = len(self._requests) + ahead + 1 - limit
        wait = self._requests[min(over, len(self._requests)) - 1] - now if over > 0 else 0.0
        return max(wait, self._next[0] - BURST * self._limits.rates.period / 60 - now)

    def _token_wait(self, tokens: int, ahead: int, now: float) -> float:
        limit = self._limits.rates.tokens
        if not limit:
            return 0.0
        wait = self._next[1] - BURST * self._limits.rates.period / 60 - now
        over = self._sum + ahead + tokens - limit
        if over <= 0 or not (self._sum or ahead):  # one call beyond the limit goes alone
            return wait
        for until, spent in self._spent:
            over -= spent
            if over <= 0:
                return max(wait, until - now)
        return max(wait, 1.0)  # calls that run hold the rest

    # --- health

    def _shut(self, call: Call, now: float) -> Verdict | None:
        known = self._circuits.get(call.about)
        if known is None or call.probe:
            return None
        if known.until > now:
            return Verdict(known.why, known.until - now, now)
        if not known.level or known.why == "busy" or not call.probes:
            return None
        if known.probing > now:
            return Verdict("failed", min(FIRST_PAUSE, known.probing - now), now)
        known.probing = now + LEASE
        return Verdict("probe", at=now)

    def _note(self, call: Call, end: End, now: float) -> Report:
        known = self._circuits.setdefault(call.about, _Circuit())
        if call.probe:
            known.probing = 0.0
        if end.outcome == "ok":
            known.worked, known.failures = now, 0
            if known.until <= now or known.why == "failed":
                known.level, known.until = 0, 0.0
        elif end.outcome == "busy" or (end.outcome == "failed" and call.probe):
            if known.until <= now:
                known.level += 1
                known.why = end.outcome
                known.until = now + (end.pause or _pause(known.level, end.jitter))
            known.until = max(known.until, now + end.pause)
        elif end.outcome == "failed":
            known.failures += 1
            works = known.worked > end.since
            suspect = call.probes and not works and known.until <= now and known.probing <= now
            suspect = suspect and (end.last or known.failures >= SUSPECT)
            if suspect:
                known.probing = now + LEASE
            return Report(works, suspect, max(0.0, known.until - now))
        return Report(known.worked > end.since, paused=max(0.0, known.until - now))
