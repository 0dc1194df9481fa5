"""`python -m app.cli rebuild`: carries a job of the workspace out in this process.

Workers may share in it, and go on with it should this process die.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.domain import Job, Plan, Ticket, first_ticket
from app.ports import Services
from app.upkeep.jobs import new_job
from workers.runner import Terms, run_ticket, sweep


@dataclass(slots=True)
class _Own:
    """A queue of this process: what is sent is carried out here."""

    tickets: deque[Ticket] = field(default_factory=deque)

    async def send(self, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
        self.tickets.extend(tickets)

    async def depth(self) -> int:
        return len(self.tickets)


async def rebuild(services: Services, workspace: str, terms: Terms) -> Job:
    """The job as it ended, or as others go on with it."""
    queue = _Own()
    here = replace(services, queue=queue)
    job = new_job(workspace, Plan.REBUILD)
    await services.journal.open(job)
    queue.tickets.append(first_ticket(job.id, job.plan))
    while queue.tickets:
        await run_ticket(here, queue.tickets.popleft(), terms)
    await sweep(services, terms)  # what had to wait is left to workers
    return await services.journal.job(workspace, job.id)
