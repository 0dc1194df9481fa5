"""The steps under way in this process, as tasks of our own.

arq only brings tickets. Its job ends when the step is claimed: from then on the journal's lease
holds it. (arq's queue lists a job until it ends, and whoever looks for work reads but the first
hundred entries, so that a fleet once ran a hundred steps at most.) Nor does arq's end touch what is
under way: it cancels what it started when it loses its server, and a model's answer that is on its
way would be lost with it, though paid for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from app.errors import AppError
from app.ports import Services
from workers.runner import Terms, carry_out

log = logging.getLogger("heliograph.worker")

LOOK = 0.05  # seconds at most until it is seen that a ticket led to nothing


class Crew:
    """Runs so many steps at a time as it has `places`."""

    def __init__(self, services: Services, terms: Terms, places: int) -> None:
        self._services, self._terms = services, terms
        self._places = places
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: set[str] = set()
        self._leaving = False

    async def take(self, step_id: str) -> None:
        """Wait for a place and begin the step; returns once it is claimed, or another has it. The
        step goes on when the caller is cancelled. One that is under way here is not begun again:
        its lease may have run out while the store was away, but its holder is alive."""
        await self.vacancy()
        if self._leaving or step_id in self._steps:
            return
        claimed = asyncio.Event()
        task = asyncio.create_task(self._run(step_id, claimed))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        await claimed.wait()

    async def vacancy(self, in_hand: Callable[[], int] = lambda: 0) -> None:
        """Wait until there is a place beside those for the tickets `in_hand`: what is taken too
        early waits here, while other workers look for work."""
        while len(self._tasks) + in_hand() >= self._places:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._changed.wait()

    async def leave(self, patience: float) -> None:
        """End: steps get `patience` seconds to finish, the others are given back."""
        self._leaving = True
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=patience)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()

    async def _run(self, step_id: str, claimed: asyncio.Event) -> None:
        terms = self._terms
        try:
            step = await self._services.journal.claim(step_id, lease=terms.lease, tries=terms.tries)
        except AppError as away:  # the sweep sends it again
            log.warning("step.unclaimed step=%s code=%s", step_id, away.code)
            return
        finally:
            claimed.set()
        await carry_out(
            self._services, step, terms,
            leaving=lambda: self._leaving, under_way=self._under_way,
        )  # fmt: skip

    @contextmanager
    def _under_way(self, step_id: str) -> Iterator[None]:
        self._steps.add(step_id)
        try:
            yield
        finally:
            self._steps.discard(step_id)
