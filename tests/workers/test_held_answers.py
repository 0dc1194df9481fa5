"""What a model answered is not asked for again because a store could not take it at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.domain import State, Status
from app.errors import Unavailable
from tests.workers.conftest import Rig
from workers.crew import Crew
from workers.runner import sweep
from workers.stages import extract

TEXT = "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie."


class Away:
    """A store whose writes fail for a while."""

    def __init__(self, inner: Any, failures: list[Exception], method: str) -> None:
        self._inner, self._failures, self._method = inner, failures, method

    def __getattr__(self, name: str) -> Any:
        return self._guarded if name == self._method else getattr(self._inner, name)

    async def _guarded(self, *args: Any, **named: Any) -> None:
        if self._failures:
            raise self._failures.pop()
        await getattr(self._inner, self._method)(*args, **named)


@pytest.mark.parametrize(("part", "method"), [("graph", "put_extraction"), ("documents", "charge")])
@pytest.mark.parametrize("code", ["unavailable", "disk_full", "database_busy"])
async def test_an_answer_is_held_until_the_store_takes_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, part: str, method: str, code: str
) -> None:
    monkeypatch.setattr(extract, "HOLD_PAUSE", 0.001)
    failures: list[Exception] = [Unavailable("Away.", code=code) for _ in range(20)]
    workspace = rig.services.workspace

    def named(name: str) -> Any:
        opened = workspace(name)
        return replace(opened, **{part: Away(getattr(opened, part), failures, method)})

    rig.services = replace(rig.services, workspace=named)
    await rig.submit(TEXT, "d")
    await rig.drain()
    assert not failures
    assert len(rig.extractor.calls) == 1
    assert (await rig.workspace().documents.get("d")).status is Status.READY


async def test_holders_of_leases_come_first_when_the_store_answers_late(rig: Rig) -> None:
    """A store that is away for less than its client tries again raises nothing: the sweep's own
    question just takes as long, and every lease has run out by its answer."""
    rig.terms = replace(rig.terms, lease=0.6)
    await rig.submit(TEXT, "d")
    [ticket] = rig.queue.sent
    step = await rig.services.journal.claim(ticket.step_id, lease=0.6, tries=5)
    assert step is not None
    journal = rig.services.journal

    class Late(Away):
        async def _guarded(self, *args: Any, **named: Any) -> Any:
            if self._failures:
                self._failures.pop()
                await asyncio.sleep(1.0)
                asyncio.get_running_loop().call_later(0.1, lambda: renewals.append(renew()))
            return await getattr(self._inner, self._method)(*args, **named)

    def renew() -> asyncio.Task[Any]:
        return asyncio.ensure_future(journal.renew(step, lease=0.6))

    renewals: list[asyncio.Task[Any]] = []
    rig.services = replace(rig.services, journal=Late(journal, [Unavailable("")], "overdue"))
    assert await sweep(rig.services, rig.terms) == 0
    assert renewals and await renewals[0]


async def test_what_was_cancelled_is_not_held_any_more(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract, "HOLD_PAUSE", 0.001)
    rig.terms = replace(rig.terms, lease=0.3)
    workspace = rig.services.workspace

    class Never(Away):
        async def _guarded(self, *args: Any, **named: Any) -> None:
            job = (await rig.workspace().documents.get("d")).job
            await rig.services.journal.close("default", job.id, State.CANCELLED)
            raise Unavailable("Away.")

    def named(name: str) -> Any:
        opened = workspace(name)
        return replace(opened, graph=Never(opened.graph, [], "put_extraction"))

    rig.services = replace(rig.services, workspace=named)
    await rig.submit(TEXT, "d")
    async with asyncio.timeout(30):
        await rig.drain()
    assert len(rig.extractor.calls) == 1


class Full:
    """A store whose writes fail as long as its disk is full."""

    def __init__(self, inner: Any, disk: dict[str, bool], method: str) -> None:
        self._inner, self._disk, self._method = inner, disk, method

    def __getattr__(self, name: str) -> Any:
        return self._guarded if name == self._method else getattr(self._inner, name)

    async def _guarded(self, *args: Any, **named: Any) -> Any:
        if self._disk["full"]:
            raise Unavailable("The disk is full.", code="disk_full", blameless=True)
        return await getattr(self._inner, self._method)(*args, **named)


async def test_a_lease_that_ran_out_while_writes_failed_does_not_double_the_step(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads went on, so the sweep saw the lease run out; the answer was in memory all the time."""
    monkeypatch.setattr(extract, "HOLD_PAUSE", 0.01)
    disk, workspace, journal = {"full": True}, rig.services.workspace, rig.services.journal

    def named(name: str) -> Any:
        opened = workspace(name)
        return replace(opened, graph=Full(opened.graph, disk, "put_extraction"))

    full: Any = Full(journal, disk, "renew")
    rig.services = replace(rig.services, workspace=named, journal=full)
    terms = replace(rig.terms, lease=0.3)
    crew = Crew(rig.services, terms, places=8)
    await rig.submit(TEXT, "d")

    async def swept() -> None:
        await sweep(rig.services, terms)
        while rig.queue.sent:
            taken.append(asyncio.create_task(crew.take(rig.queue.sent.popleft().step_id)))
        await asyncio.sleep(0.05)

    taken: list[asyncio.Task[None]] = []
    for _ in range(20):  # well beyond the lease
        await swept()
    disk["full"] = False
    while not (await rig.workspace().documents.get("d")).job.state.final:
        await swept()
    await asyncio.gather(*taken)
    assert (await rig.workspace().documents.get("d")).status is Status.READY
    assert len(rig.extractor.calls) == 1
