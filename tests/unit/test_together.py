"""How work that is done side by side fails."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import Unavailable
from app.together import Turns, outcomes, together


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


async def _give(value: int) -> int:
    await asyncio.sleep(0.01 * value)
    return value


async def test_what_succeeds_beside_a_failure_is_kept() -> None:
    done, failure = await outcomes([_give(2), _fail(Unavailable("away")), _give(1)])  # type: ignore[list-item]
    assert done == [2, 1]
    assert isinstance(failure, Unavailable)
    assert await outcomes([_give(1)]) == ([1], None)


async def test_of_several_failures_the_one_that_is_most_to_blame_decides() -> None:
    paused = Unavailable("paused", blameless=True)
    failed = Unavailable("failed")
    lasting = Unavailable("no key", transient=False)
    _, failure = await outcomes([_fail(paused), _fail(failed)])
    assert failure is failed
    _, failure = await outcomes([_fail(paused), _fail(failed), _fail(lasting)])
    assert failure is lasting


async def test_a_bug_beside_other_outcomes_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await outcomes([_give(1), _fail(Unavailable("away")), _fail(ZeroDivisionError("a bug"))])  # type: ignore[list-item]
    assert {type(error) for error in caught.value.exceptions} == {Unavailable, ZeroDivisionError}


async def test_a_cancellation_ends_all_of_it() -> None:
    ended = False

    async def last() -> None:
        nonlocal ended
        try:
            await asyncio.sleep(60)
        finally:
            ended = True

    task = asyncio.create_task(outcomes([last()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended


async def test_turns_are_taken_by_name() -> None:
    turns = Turns()
    async with turns.of("w"):
        assert turns.of("w").locked()
        assert not turns.of("other").locked()
    assert not turns.of("w").locked()
