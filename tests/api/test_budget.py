"""Uploads wait where their bytes would be too many at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.api.budget import Budget
from tests.api.conftest import Site


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Holder:
    def __init__(self, budget: Budget, amount: int, log: list[int]) -> None:
        self.release = asyncio.Event()
        self.task = asyncio.create_task(self._run(budget, amount, log))

    async def _run(self, budget: Budget, amount: int, log: list[int]) -> None:
        async with budget.hold(amount):
            log.append(amount)
            await self.release.wait()


async def test_what_fits_goes_ahead_and_the_rest_waits_its_turn() -> None:
    budget, log = Budget(10), list[int]()
    holders = [Holder(budget, amount, log) for amount in (6, 3, 8, 1)]
    await settle()
    assert log == [6, 3], "8 does not fit, and 1 does not pass it"
    holders[0].release.set()
    await settle()
    assert log == [6, 3]
    holders[1].release.set()
    await settle()
    assert log == [6, 3, 8, 1]
    for holder in holders:
        holder.release.set()
        await holder.task


async def test_more_than_the_whole_is_taken_for_the_whole() -> None:
    budget, log = Budget(10), list[int]()
    large = Holder(budget, 1000, log)
    small = Holder(budget, 1, log)
    await settle()
    assert log == [1000]
    large.release.set()
    small.release.set()
    await asyncio.gather(large.task, small.task)


async def test_errors_and_waiters_that_give_up_leave_nothing_taken() -> None:
    budget, log = Budget(10), list[int]()
    first = Holder(budget, 10, log)
    gone, last = Holder(budget, 5, log), Holder(budget, 10, log)
    await settle()
    gone.task.cancel()
    await asyncio.gather(gone.task, return_exceptions=True)
    first.release.set()
    last.release.set()
    await asyncio.gather(first.task, last.task)
    with pytest.raises(ZeroDivisionError):
        async with budget.hold(10):
            raise ZeroDivisionError
    async with asyncio.timeout(30), budget.hold(10):
        pass
    assert log == [10, 10]


async def test_uploads_that_do_not_fit_together_are_all_taken(site: Site) -> None:
    site.app.state.deployment = replace(site.app.state.deployment, uploads=Budget(100))
    texts = [f"Person{n} wrote to the mayor of Town{n} about the harbour. " * 3 for n in range(4)]
    forms = (
        site.client.post("/documents", files=[("files", (f"{n}.txt", text.encode()))])
        for n, text in enumerate(texts)
    )
    bodies = (site.client.post("/documents", json={"text": f"{text} Yes."}) for text in texts)
    refused = site.client.post("/documents", files=[("files", ("empty.txt", b""))])
    replies = await asyncio.gather(*forms, refused, *bodies)
    assert [reply.status_code for reply in replies] == [*[202] * 4, 400, *[202] * 4]
