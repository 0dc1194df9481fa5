"""Changes of the embedded vectors made durable together.

A flush (10 ms of CPU, for one point as for a thousand) costs several times what it makes durable,
so changes that end while one runs share the next. Measured, with 25 points a document: 12.1 ms of
CPU an upsert with a flush of its own, 1.9 without. The engine also keeps the interpreter lock
while it flushes, so nothing else runs in the process meanwhile: another reason to rest in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection

from app.domain import Kind

REST = 4.0  # times the length of a flush until the next may begin: more changes come together
LONGEST = 1.0  # seconds of that rest at most


class Flushes:
    """Of one event loop. A change that follows a rest is flushed at once."""

    def __init__(self, flush: Callable[[Collection[Kind]], Awaitable[None]]) -> None:
        self._flush = flush
        self._kinds: set[Kind] = set()  # changed since the last flush began
        self._coming: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._rested = 0.0

    async def cover(self, kinds: Collection[Kind]) -> None:
        """Return when what was changed before this call is on the disk. Raises what the flush
        raises."""
        self._kinds.update(kinds)
        if self._coming is None:
            self._coming = asyncio.create_task(self._round(self._running))
            self._coming.add_done_callback(_heard)
        await asyncio.shield(self._coming)

    async def _round(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        await asyncio.sleep(self._rested - time.monotonic())
        self._running, self._coming = self._coming, None
        kinds, self._kinds = self._kinds, set()
        began = time.monotonic()
        try:
            await self._flush(kinds)
        finally:
            ended = time.monotonic()
            self._rested = ended + min(LONGEST, REST * (ended - began))


def _heard(task: asyncio.Task[None]) -> None:
    """Nobody may be left to hear of an error: a caller can be cancelled."""
    if not task.cancelled():
        task.exception()
