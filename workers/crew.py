"""The steps under way in this process, as tasks of our own.

arq cancels what it started when it loses its server, and a model's answer that is on its way would
be lost with it, though paid for. It only waits for these tasks; they end by themselves, or when the
process stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from app.domain import Ticket
from app.ports import Services
from workers.runner import Terms, run_ticket


class Crew:
    def __init__(self, services: Services, terms: Terms) -> None:
        self._services, self._terms = services, terms
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: set[str] = set()
        self._leaving = False

    async def take(self, step_id: str) -> None:
        """Carry out the step; goes on when the caller is cancelled. One that is under way here is
        not begun again: its lease may have run out while the store was away, but its holder is
        alive."""
        if self._leaving or step_id in self._steps:
            return
        task = asyncio.create_task(self._run(step_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def leave(self, patience: float) -> None:
        """End: steps get `patience` seconds to finish, the others are given back."""
        self._leaving = True
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=patience)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _run(self, step_id: str) -> None:
        await run_ticket(
            self._services, Ticket(step_id, 0), self._terms,
            leaving=lambda: self._leaving, under_way=self._under_way,
        )  # fmt: skip

    @contextmanager
    def _under_way(self, step_id: str) -> Iterator[None]:
        self._steps.add(step_id)
        try:
            yield
        finally:
            self._steps.discard(step_id)
