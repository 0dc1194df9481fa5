"""The machine above the stages: claim a step, run or divide it, finish it, go on.

The journal is the truth and the queue a hint, so lost, late and double deliveries are harmless.
A claim is a lease that a heartbeat renews; losing it cancels the work, and nothing that a lost
claim does can be finished. The only branch on errors is here: `transient` decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from app.domain import Failure, Opened, State, Status, Step, Ticket, withdrawal_of
from app.errors import AppError
from app.ports import Services
from workers import plans

log = logging.getLogger("heliograph.worker")

MAX_DELAY = 60.0
RESEND_SECONDS = 20.0  # at most, between sending a step again and sending it once more
BEAT = 3.0  # seconds at most until a step hears that its job was cancelled, and spends no more
RENEW_SECONDS = 5.0  # in which each holder of a lease tries to renew it, once the store is back
AGAIN = 0.5  # seconds between tries to keep a lease while the store is away


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a claim lasts without a heartbeat (seconds), and how often a step may be claimed."""

    lease: float = 30.0
    tries: int = 8


async def run_ticket(
    services: Services, ticket: Ticket, terms: Terms, *, leaving: Callable[[], bool] = lambda: False
) -> None:
    """Claim a step and carry it out."""
    step = await services.journal.claim(ticket.step_id, lease=terms.lease, tries=terms.tries)
    await carry_out(services, step, terms, leaving=leaving)


async def carry_out(
    services: Services,
    step: Step | None,
    terms: Terms,
    *,
    leaving: Callable[[], bool] = lambda: False,
    under_way: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Run a claimed step and whatever opens behind it for this worker; no further once it leaves.
    `under_way` is entered with the id of each step."""
    while step is not None:
        with under_way(step.id):
            step = await _run_step(services, step, terms)
        if step is not None and leaving():
            await _give_back(services, step)
            return


async def sweep(services: Services, terms: Terms, *, limit: int = 1000) -> int:
    """Send again what a crash, a lost message or a full queue left lying; returns how many. Most of
    it merely waits for its turn, so it is left alone for a while then, and others get theirs."""
    began = time.monotonic()
    tickets = await services.journal.overdue(limit=limit, lease=terms.lease)
    if tickets and time.monotonic() - began > terms.lease / 3:  # the store was away meanwhile
        await asyncio.sleep(holders_first(terms.lease))
        tickets = await services.journal.overdue(limit=limit, lease=terms.lease)
    if tickets:
        lost = sum(ticket.attempt > 0 for ticket in tickets)
        level = logging.INFO if lost else logging.DEBUG  # the rest may merely wait for its turn
        log.log(level, "sweep.resend steps=%d claimed_before=%d", len(tickets), lost)
        await services.queue.send(tickets)
        wait = min(RESEND_SECONDS, terms.lease * 2 / 3)
        await services.journal.resent(tickets, wait=wait)
    return len(tickets)


def holders_first(lease: float) -> float:
    """Seconds until those whose leases ran out while the store was away have renewed them: taken
    from them, their work would be done twice, and model calls paid for twice."""
    return min(RENEW_SECONDS, lease / 2)


async def _run_step(services: Services, step: Step, terms: Terms) -> Step | None:
    """Run one claimed step; returns the next one if it is already ours."""
    run = _Run(services, step, terms)
    try:
        async with _heartbeat(services, step, terms):
            opened = await run.advance()
    except _LeaseLost:
        log.warning("step.lost step=%s workspace=%s", step.id, step.workspace)
        return None
    except AppError as error:
        await _retry_or_fail(services, run.at, error, terms)
        return None
    except asyncio.CancelledError:  # the worker is stopping: give the step back, uncounted
        await asyncio.shield(_give_back(services, step))
        raise
    except Exception as error:  # a bug: show it on the job, do not run it again
        log.exception("step.bug step=%s workspace=%s", step.id, step.workspace)
        await _fail(
            services, run.at, "internal", f"internal error: {type(error).__name__}", retryable=True
        )
        return None
    log.debug(
        "step.done step=%s workspace=%s document=%s attempt=%d",
        step.id, step.workspace, step.document_id, step.attempt,
    )  # fmt: skip
    if opened.job_done:
        log.info(
            "job.done job=%s plan=%s workspace=%s document=%s",
            step.job_id, step.plan, step.workspace, step.document_id,
        )  # fmt: skip
    await _send(services, opened.send)
    return opened.step


class _Run:
    """One claim: the stage of its step and, where no other step of the job is open, the stages
    after it that need no record. `at`: the step as the stage under way sees it."""

    def __init__(self, services: Services, step: Step, terms: Terms) -> None:
        self._workspace, self._models = services.workspace(step.workspace), services.models
        self._journal, self._lease = services.journal, terms.lease
        self._step = self.at = step

    async def advance(self) -> Opened:
        step = self._step
        stage = plans.stage(step.plan, step.stage)
        if stage.split is not None and not step.shard:
            shards = await stage.split(self._workspace, step)
            if plans.recorded(stage, shards):
                return await self._journal.finish(step, shards=shards, lease=self._lease)
            if shards:
                self.at = replace(step, shard=tuple(shards[0]))
                await stage.run(self._workspace, self._models, self.at)
        else:
            await stage.run(self._workspace, self._models, step)
        return await self._go_on(stage)

    async def _go_on(self, stage: plans.Stage) -> Opened:
        """Stages without work are skipped, but by one of many shards, which cannot know yet."""
        step = self._step
        for later in plans.following(step.plan, step.stage):
            if not step.alone:
                return await self._enter(later, [])
            self.at = replace(step, stage=later.name, shard=())
            shards = [[]] if later.split is None else await later.split(self._workspace, self.at)
            if not shards:
                continue
            if not plans.joined(stage, later, shards):
                return await self._enter(later, shards)
            self.at = replace(self.at, shard=tuple(shards[0]))
            await later.run(self._workspace, self._models, self.at)
        ends = plans.ENDS.get(step.plan, Status.READY)
        return await self._journal.finish(step, next_status=ends, lease=self._lease)

    async def _enter(self, stage: plans.Stage, shards: plans.Shards) -> Opened:
        return await self._journal.finish(
            self._step, next_stage=stage.name, next_status=stage.status, shards=shards,
            lease=self._lease,
        )  # fmt: skip


async def _retry_or_fail(services: Services, step: Step, error: AppError, terms: Terms) -> None:
    if not error.transient or (step.tries >= terms.tries and not error.blameless):
        await _fail(services, step, error.code, error.detail, retryable=error.retryable)
        return
    delay = min(MAX_DELAY, error.retry_after or 2.0**step.tries)
    if error.blameless:  # many steps wait for the same: not all at the same moment
        delay *= random.uniform(1.0, 1.5)
    log.log(
        logging.DEBUG if error.blameless else logging.WARNING,  # an outage tells of itself once
        "step.retry step=%s workspace=%s document=%s code=%s attempt=%d delay=%.0f",
        step.id, step.workspace, step.document_id, error.code, step.attempt, delay,
    )  # fmt: skip
    try:
        ticket = await services.journal.release(
            step, delay=delay, error="" if error.blameless else error.detail
        )
    except AppError as away:  # the store itself is away: the lease runs out, the sweep sends again
        log.warning("step.unreleased step=%s code=%s", step.id, away.code)
        return
    if ticket is not None:
        await _send(services, [ticket], delay=delay)


async def _give_back(services: Services, step: Step) -> None:
    try:
        ticket = await services.journal.release(step, delay=0)
    except AppError as away:  # the lease runs out
        log.warning("step.unreleased step=%s code=%s", step.id, away.code)
        return
    if ticket is not None:
        await _send(services, [ticket])


async def _fail(
    services: Services, step: Step, code: str, message: str, *, retryable: bool
) -> None:
    failure = Failure(code, message, step.stage, retryable)
    try:
        closed = await services.journal.close(step.workspace, step.job_id, State.FAILED, failure)
    except AppError as away:
        log.warning("job.unclosed job=%s code=%s", step.job_id, away.code)
        return
    # A job that was cancelled meanwhile stumbles over what is gone; that is no failure.
    log.log(
        logging.WARNING if closed else logging.INFO,
        "job.%s job=%s workspace=%s document=%s stage=%s code=%s",
        "failed" if closed else "overtaken",
        step.job_id, step.workspace, step.document_id, step.stage, code,
    )  # fmt: skip
    if closed:
        await _send(services, [withdrawal_of(step.job_id)])


async def _send(services: Services, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
    """The queue is a hint: what it does not take now, the sweep sends later."""
    if not tickets:
        return
    try:
        await services.queue.send(tickets, delay=delay)
    except AppError as error:
        log.warning("queue.away tickets=%d code=%s", len(tickets), error.code)


# --- leases --------------------------------------------------------------------------------------


class _LeaseLost(Exception):
    """Another claim has the step, or its job has ended."""


@contextlib.asynccontextmanager
async def _heartbeat(services: Services, step: Step, terms: Terms) -> AsyncIterator[None]:
    """Renew the lease in the background; once lost, cancel the body and raise `_LeaseLost`."""
    body = asyncio.current_task()
    assert body is not None, "steps run inside a task"
    lost = False

    async def beat() -> None:
        nonlocal lost
        pause = min(terms.lease / 3, BEAT)
        while True:
            await asyncio.sleep(pause)
            pause = min(terms.lease / 3, BEAT)
            try:
                held = await services.journal.renew(step, lease=terms.lease)
            except AppError:  # the store is away, perhaps for longer than the lease
                pause = min(pause, AGAIN)  # to be the first when it is back
                continue
            if not held:
                lost = True
                body.cancel()
                return

    pulse = asyncio.create_task(beat())
    try:
        yield
    except asyncio.CancelledError:
        if not lost:
            raise
        body.uncancel()
        raise _LeaseLost from None
    finally:
        pulse.cancel()
        await asyncio.wait({pulse})  # and not `await pulse`, which would also catch our own end
