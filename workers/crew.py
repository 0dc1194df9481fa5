"""The steps under way in this process, as tasks of our own.

arq cancels what it started when it loses its server, and a model's answer that is on its way would
be lost with it, though paid for. It only waits for these tasks; they end by themselves, or when the
process stops.
"""

from __future__ import annotations

import asyncio

from app.domain import Ticket
from app.ports import Services
from workers.runner import Terms, run_ticket


class Crew:
    def __init__(self, services: Services, terms: Terms) -> None:
        self._services, self._terms = services, terms
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving = False

    async def take(self, step_id: str) -> None:
        """Carry out the step; goes on when the caller is cancelled."""
        if self._leaving:
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
            self._services, Ticket(step_id, 0), self._terms, leaving=lambda: self._leaving
        )
