"""How work that is done side by side fails."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import Unavailable
from app.together import together


async def _fail(error: Exception) -> None:
    raise error


async def test_what_fails_as_expected_is_raised_as_it_is() -> None:
    """The runner decides by its class; in a group it would pass for a bug and not be retried."""
    first = Unavailable("away")
    with pytest.raises(Unavailable) as caught:
        async with together() as tasks:
            tasks.create_task(_fail(first))
            tasks.create_task(_fail(Unavailable("away, too")))
    assert caught.value is first


async def test_a_bug_beside_an_expected_failure_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with together() as tasks:
            tasks.create_task(_fail(Unavailable("away")))
            tasks.create_task(_fail(ZeroDivisionError("a bug")))
    assert {type(error) for error in caught.value.exceptions} == {Unavailable, ZeroDivisionError}


async def test_a_cancellation_stays_one() -> None:
    async def work() -> None:
        async with together() as tasks:
            tasks.create_task(asyncio.sleep(60))

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
