"""The door to a model endpoint: calls wait here for their turn, first come first served.

Of the calls of a model that wait in a process only the first is in the book's queue (and the first
of those that somebody waits for), so that processes take turns and one call asks for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from app.errors import AppError, Overloaded, Unavailable
from app.llm.limits import LEASE, STALE, Book, Call, End, Report, Verdict

log = logging.getLogger("heliograph.llm")

FIRST_POLL = 0.02  # seconds
LONGEST_POLL = 0.1  # while another process may free a slot
LONGEST_NAP = STALE / 3  # a call that waits must be heard of
SHORTEST_PAUSE = 1.0
PATIENCE = 60.0  # seconds that somebody may wait for a turn
BUSY_PATIENCE = (60.0, 5.0)  # of a pause that the server asked for: work, and somebody


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that was let in, and when; or one that must send a harmless call first."""

    call: Call
    at: float
    probe: bool = False


class Gate:
    """One for each endpoint and process. `host` is for messages."""

    def __init__(
        self, book: Book, host: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._book, self._host, self._sleep = book, host, sleep
        self._lanes: defaultdict[tuple[str, bool], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._freed = asyncio.Event()
        self._running: dict[str, Call] = {}
        self._pulse: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[Any]] = set()

    async def enter(self, call: Call) -> Turn:
        """Raises `blameless` errors: where the endpoint is paused for longer than is worth waiting,
        and where somebody would have to wait too long for a turn. Work waits for its turn as long
        as it takes: the queue moves on, since slots are leases."""
        async with self._lanes[call.about, call.urgent]:
            try:
                return await self._turn(call)
            except (asyncio.CancelledError, Overloaded):
                self._errand(self._give_up(call))
                raise

    async def leave(self, call: Call, end: End) -> Report:
        """Also when the caller is cancelled: then in the background."""
        self._running.pop(call.id, None)
        if not self._running and self._pulse is not None:
            self._pulse.cancel()
            self._pulse = None
        jittered = replace(end, jitter=random.uniform(0.75, 1.25))
        return await asyncio.shield(self._errand(self._leave(call, jittered)))

    async def aclose(self) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
        while self._errands:
            await asyncio.wait(self._errands)

    async def _give_up(self, call: Call) -> None:
        await self._book.withdraw(call)
        await self._book.leave(call, End("unknown", used=0))  # it may just have been let in

    async def _leave(self, call: Call, end: End) -> Report:
        try:
            return await self._book.leave(call, end)
        finally:
            self._freed.set()

    async def _turn(self, call: Call) -> Turn:
        began, poll = time.monotonic(), FIRST_POLL
        while True:
            self._freed.clear()
            verdict = await self._book.ask(call)
            if verdict.kind == "go":
                self._hold(call)
                return Turn(call, verdict.at)
            if verdict.kind == "probe":
                return Turn(call, verdict.at, probe=True)
            if verdict.kind in ("busy", "failed"):
                await self._sit_out(call, verdict)
            elif call.urgent and time.monotonic() - began > PATIENCE:
                raise self._too_busy(verdict.seconds or PATIENCE)
            elif verdict.kind == "wait":
                if call.urgent and verdict.seconds > PATIENCE:
                    raise self._too_busy(verdict.seconds)
                await self._sleep(min(verdict.seconds, LONGEST_NAP))
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._freed.wait(), poll * random.uniform(0.75, 1.25))
                poll = min(LONGEST_POLL, poll * 1.5)

    async def _sit_out(self, call: Call, verdict: Verdict) -> None:
        if verdict.kind == "failed":
            raise self.paused(verdict.seconds)
        if verdict.seconds > BUSY_PATIENCE[call.urgent]:
            raise self._too_busy(verdict.seconds)
        await self._sleep(verdict.seconds)

    def paused(self, seconds: float) -> AppError:
        seconds = max(seconds, SHORTEST_PAUSE)
        return Unavailable(
            f"the model server {self._host} fails; calls wait until it answers again",
            code="model_paused", retry_after=seconds, blameless=True,
        )  # fmt: skip

    def _too_busy(self, seconds: float) -> AppError:
        return Overloaded(
            "the model's rate limit is used up for the moment",
            code="model_rate_limit", retry_after=seconds, blameless=True,
        )  # fmt: skip

    def _hold(self, call: Call) -> None:
        self._running[call.id] = call
        if self._pulse is None:
            self._pulse = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Renews the leases of what runs here."""
        while True:
            await asyncio.sleep(LEASE / 3)
            await self._book.renew(list(self._running.values()))

    def _errand(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task
