"""Jobs that this process carries out itself: held by a lease, left to a worker should it die."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from app.domain import FIRST_STAGE, Job, Plan, State, Step, Ticket
from app.errors import AppError, Conflict
from app.ports import Services

log = logging.getLogger("heliograph.upkeep")

LEASE = 30.0  # seconds without a heartbeat until a worker goes on; what workers give too
TRIES = 1_000_000  # claims: nothing here is given up for having been claimed before


def new_job(workspace: str, plan: Plan, document_id: str = "") -> Job:
    return Job(uuid.uuid4().hex, workspace, plan, document_id, stage=FIRST_STAGE[plan])


async def claimed(services: Services, job: Job) -> Step:
    step = await services.journal.claim(f"{job.id}.{job.stage}.0", lease=LEASE, tries=TRIES)
    if step is None:
        raise Conflict("Another process has taken over what is being restored.")
    return step


@asynccontextmanager
async def held(services: Services, step: Step) -> AsyncIterator[None]:
    """Keep the lease. Losing it changes nothing here: whoever took over does the same."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            with suppress(AppError):
                await services.journal.renew(step, lease=LEASE)

    pulse = asyncio.create_task(beat())
    try:
        yield
    finally:
        pulse.cancel()
        await asyncio.wait({pulse})


@asynccontextmanager
async def workspace_job(services: Services, name: str) -> AsyncIterator[None]:
    """A job that a worker goes on with afterwards: it settles names, and makes profiles and vectors
    that the archive had none of."""
    job = new_job(name, Plan.CURATE)
    await services.journal.open(job)
    step = await claimed(services, job)
    async with held(services, step):
        try:
            yield
        except BaseException:
            with suppress(AppError):
                await asyncio.shield(services.journal.close(name, job.id, State.CANCELLED))
            raise
        ticket = await services.journal.release(step, delay=0)
    await send(services, [ticket] if ticket else [])


async def send(services: Services, tickets: Sequence[Ticket]) -> None:
    """The queue is a hint: what it does not take now, a worker finds later."""
    try:
        if tickets:
            await services.queue.send(tickets)
    except AppError as error:
        log.warning("queue.away tickets=%d code=%s", len(tickets), error.code)
