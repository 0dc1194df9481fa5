"""The book of `app.llm.limits` in Redis: one for all processes that use an endpoint.

Each call is asked for in one round trip and left in another. Time is that of the server. Slots are
leases: what a killed process held is free after `LEASE` seconds.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, cast
from uuid import uuid4

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from app.llm import scripts
from app.llm.limits import (
    BURST,
    FIRST_PAUSE,
    HEAD_START,
    LEASE,
    LONGEST_PAUSE,
    STALE,
    STRICT,
    SUSPECT,
    UNDER_WAY,
    Call,
    End,
    Limits,
    LocalBook,
    Report,
    Verdict,
)

log = logging.getLogger("heliograph.llm")

KEPT = 3600  # seconds that the keys of an endpoint outlive its last call
AWAY = 5.0  # seconds until a Redis that did not answer is asked again
UNKNOWN_PROCESSES = 4  # that share an endpoint, as long as Redis has not told
PEER_SECONDS = 60.0


class RedisBook:
    """`endpoint`: what identifies it; only a hash is stored. While Redis is away, each process
    keeps to its share of the limits."""

    def __init__(
        self,
        redis: Redis,
        endpoint: str,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._clock = limits, clock
        place = hashlib.sha256(endpoint.encode()).hexdigest()[:16]
        self._base = f"heliograph:model:{{{place}}}:"
        self._keys = [self._base + name for name in scripts.NAMES]
        self._process = uuid4().hex
        self._ask, self._leave, self._renew, self._withdraw = (
            redis.register_script(text)
            for text in (scripts.ASK, scripts.LEAVE, scripts.RENEW, scripts.WITHDRAW)
        )
        self._processes = UNKNOWN_PROCESSES
        self._alone: LocalBook | None = None
        self._away_until = 0.0
        self._local: set[str] = set()  # calls let in without Redis

    async def ask(self, call: Call) -> Verdict:
        rates = self._limits.rates
        said = await self._run(
            self._ask,
            call.about,
            call.id, call.tokens, call.urgent, call.probes, call.probe, self._process,
            self._limits.concurrency, rates.requests, rates.tokens, rates.period,
            BURST * rates.period / 60, UNDER_WAY, HEAD_START, STALE, LEASE,
            FIRST_PAUSE, PEER_SECONDS, KEPT,
        )  # fmt: skip
        if said is None:
            verdict = await self._book().ask(call)
            if verdict.kind == "go":
                self._local.add(call.id)
            return verdict
        kind, seconds, at, processes = (_text(one) for one in cast(list[bytes | str], said))
        self._alone, self._processes = None, int(processes)
        return Verdict(cast(Any, kind), float(seconds), float(at))

    async def leave(self, call: Call, end: End) -> Report:
        """What comes after a call must not cost its result: without Redis nothing is reported."""
        if call.id in self._local:
            self._local.discard(call.id)
            if self._alone is not None:
                return await self._alone.leave(call, end)
        rates = self._limits.rates
        said = await self._run(
            self._leave,
            call.about,
            call.id, -1 if end.used is None else end.used, end.outcome, call.probes, call.probe,
            end.since, end.last, end.pause, end.jitter, rates.tokens, rates.period,
            SUSPECT, LEASE, FIRST_PAUSE, LONGEST_PAUSE, STRICT, KEPT,
        )  # fmt: skip
        if said is None:
            return Report()
        works, probe, paused = cast(list[int], said)
        return Report(bool(works), bool(probe), paused / 1000)

    async def renew(self, calls: Iterable[Call]) -> None:
        by_model: defaultdict[str, list[Call]] = defaultdict(list)
        for call in calls:
            by_model[call.about].append(call)
        for about, some in by_model.items():
            probes = any(call.probe for call in some)
            ids = [call.id for call in some]
            await self._run(self._renew, about, self._limits.rates.period, LEASE, probes, *ids)

    async def withdraw(self, call: Call) -> None:
        if self._alone is not None:
            await self._alone.withdraw(call)
        await self._run(self._withdraw, call.about, call.id)

    def _book(self) -> LocalBook:
        if self._alone is None:
            self._alone = LocalBook(self._limits.share(max(1, self._processes)))
        return self._alone

    async def _run(
        self, script: AsyncScript, about: str, *arguments: float | str | bool
    ) -> object | None:
        """None: Redis is away."""
        if self._clock() < self._away_until:
            return None
        circuit = self._base + "circuit:" + hashlib.sha256(about.encode()).hexdigest()[:16]
        plain = [int(one) if isinstance(one, bool) else one for one in arguments]
        try:
            return cast(object, await script([*self._keys, circuit], plain))
        except (RedisError, OSError) as error:
            self._away_until = self._clock() + AWAY
            log.warning("limit.away error=%s", type(error).__name__)
            return None


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
