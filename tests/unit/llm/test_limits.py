"""One book of what an endpoint may be asked, in one process and in Redis alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.asyncio import Redis

from app.errors import Overloaded
from app.llm.cache import RedisReplies
from app.llm.gate import Gate
from app.llm.limits import BURST, Book, Call, End, Limits, LocalBook, Rates
from app.llm.shared import RedisBook
from tests.unit.llm.conftest import Clock

OK, FAILED, BUSY = End("ok"), End("failed"), End("busy")
Pass = Callable[[float], Awaitable[None]]
Open = Callable[[Limits], Book]


@pytest.fixture(params=["local", pytest.param("redis", marks=pytest.mark.server)])
async def book(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[Open]:
    """Opens a book; several in Redis of one endpoint are one."""
    if request.param == "local":
        yield lambda limits: LocalBook(limits, clock)
        return
    async with Redis.from_url(request.getfixturevalue("redis_url")) as redis:
        await redis.flushdb()
        yield lambda limits: RedisBook(redis, "http://h|key", limits)
        assert b"h|key" not in b"".join(await redis.keys("*"))


async def _go(book: Book, tokens: int = 0, **told: object) -> Call | None:
    call = Call(tokens, **told)  # type: ignore[arg-type]
    verdict = await book.ask(call)
    if verdict.kind == "go":
        return call
    await book.withdraw(call)
    return None


async def _wait(book: Book, tokens: int = 0) -> float:
    call = Call(tokens)
    verdict = await book.ask(call)
    await book.withdraw(call)
    assert verdict.kind == "wait"
    return verdict.seconds


async def test_so_many_calls_run_at_once(book: Open) -> None:
    one = book(Limits(2))
    first, second = await _go(one), await _go(one)
    assert first
    assert second
    waiting = Call()
    assert (await one.ask(waiting)).kind == "full"
    await one.leave(first, OK)
    assert (await one.ask(waiting)).kind == "go"
    assert await _go(one) is None


async def test_who_came_first_goes_first_and_who_is_waited_for_before_that(book: Open) -> None:
    one = book(Limits(1))
    running = await _go(one)
    assert running
    early, late, urgent = Call(), Call(), Call(urgent=True)
    for call in (early, late, urgent):
        assert (await one.ask(call)).kind == "full"
    await one.leave(running, OK)
    for call in (late, early):
        assert (await one.ask(call)).kind == "full"
    for call in (urgent, early, late):
        assert (await one.ask(call)).kind == "go"
        await one.leave(call, OK)


async def test_a_minute_never_holds_more_requests_than_allowed_not_even_the_first(
    book: Open,
) -> None:
    one = book(Limits(1000, Rates(requests=60)))
    let_in = [await _go(one) for _ in range(30)]
    burst = len([call for call in let_in if call])
    assert BURST <= burst <= BURST + 1
    assert 0 < await _wait(one) <= 1


async def test_over_a_long_time_every_minute_keeps_to_the_limits(clock: Clock) -> None:
    rates = Rates(requests=60, tokens=6000)
    one = LocalBook(Limits(1000, rates), clock)
    came: list[float] = []
    for _ in range(400):
        call = Call(80)
        while (verdict := await one.ask(call)).kind != "go":
            clock.now += max(verdict.seconds, 0.01)
        came.append(clock.now)
        clock.now += 0.3
        await one.leave(call, End("ok", used=80))
    for start in came:
        assert len([t for t in came if start <= t < start + 60]) <= 60
    assert 400 / (came[-1] - came[0]) * 60 > 54, "nine tenths of what is allowed are used"


async def test_tokens_count_as_they_were_used_once_that_is_known(book: Open) -> None:
    one = book(Limits(1000, Rates(tokens=6000)))
    call = await _go(one, 5000)
    assert call
    assert await _go(one, 2000) is None
    await one.leave(call, End("ok", used=500))
    assert await _go(one, 2000)


async def test_once_refused_estimates_are_not_corrected_downwards(book: Open) -> None:
    one = book(Limits(1000, Rates(tokens=6000)))
    call = await _go(one, 100, about="a")
    assert call
    await one.leave(call, End("busy", pause=0.1))
    call = await _go(one, 700)
    assert call
    await one.leave(call, End("ok", used=0))
    assert await _wait(one, 5500) > 50


async def test_a_call_beyond_the_limit_of_tokens_goes_alone(book: Open) -> None:
    one = book(Limits(1000, Rates(tokens=100)))
    call = await _go(one, 1000)
    assert call
    assert await _go(one, 1000) is None


async def test_a_busy_endpoint_is_paused_for_as_long_as_it_asks(book: Open) -> None:
    one = book(Limits())
    call = await _go(one)
    assert call
    report = await one.leave(call, End("busy", pause=30))
    assert report.paused == pytest.approx(30, abs=1)
    verdict = await one.ask(Call(urgent=True))
    assert verdict.kind == "busy"
    assert 28 < verdict.seconds <= 30
    assert (await one.ask(Call(about="another model"))).kind == "go"
    assert (await one.ask(Call(probe=True))).kind == "go"


async def test_one_caller_finds_out_who_is_at_fault(book: Open) -> None:
    one = book(Limits())
    reports = []
    for _ in range(5):
        call = await _go(one, probes=True)
        assert call
        reports.append((await one.leave(call, FAILED)).probe)
    assert reports == [False, False, True, False, False]
    probe = await _go(one, probes=True, probe=True)
    assert probe
    await one.leave(probe, FAILED)
    verdict = await one.ask(Call(probes=True))
    assert verdict.kind == "failed"
    assert 1.5 < verdict.seconds <= 2


async def test_a_failure_among_successes_is_reported_as_that(book: Open) -> None:
    one = book(Limits())
    begun = await one.ask(call := Call(probes=True))
    other = await _go(one)
    assert other
    await asyncio.sleep(0.01)
    if isinstance(one, LocalBook):
        one._clock.now += 1  # type: ignore[attr-defined]
    await one.leave(other, OK)
    report = await one.leave(call, End("failed", since=begun.at, last=True))
    assert report.others_work
    assert not report.probe


# --- several processes ---------------------------------------------------------------------------


@pytest.mark.server
async def test_what_a_killed_process_held_is_free_after_its_lease(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.llm.shared.LEASE", 0.2)
    async with Redis.from_url(redis_url) as redis:
        await redis.flushdb()
        killed, alive = (RedisBook(redis, "e", Limits(2)) for _ in range(2))
        lost, held = await _go(killed), await _go(alive)
        assert lost
        assert held
        assert await _go(alive) is None
        for _ in range(4):
            await asyncio.sleep(0.1)
            await alive.renew([held])
        assert await _go(alive)
        assert await _go(alive) is None, "what is renewed is kept"


@pytest.mark.server
async def test_a_waiting_call_of_a_killed_process_holds_nobody_up_for_long(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.llm.shared.STALE", 0.2)
    async with Redis.from_url(redis_url) as redis:
        await redis.flushdb()
        one = RedisBook(redis, "e", Limits(1))
        running = await _go(one)
        assert running
        assert (await one.ask(Call())).kind == "full"  # and never asks again
        mine = Call()
        assert (await one.ask(mine)).kind == "full"
        await one.leave(running, OK)
        verdicts = [(await one.ask(mine)).kind]
        while verdicts[-1] == "full":
            await asyncio.sleep(0.05)
            verdicts.append((await one.ask(mine)).kind)
        assert verdicts[0] == "full"
        assert verdicts[-1] == "go"


@pytest.mark.server
async def test_processes_take_turns(redis_url: str) -> None:
    """Each has more waiting than the endpoint can take."""
    async with Redis.from_url(redis_url) as redis:
        await redis.flushdb()
        done: list[int] = []

        async def call(gate: Gate, process: int) -> None:
            turn = await gate.enter(Call())
            await asyncio.sleep(0.01)
            done.append(process)
            await gate.leave(turn.call, OK)

        gates = [Gate(RedisBook(redis, "e", Limits(2)), "h") for _ in range(3)]
        async with asyncio.TaskGroup() as tasks:
            for process, gate in enumerate(gates):
                for _ in range(12):
                    tasks.create_task(call(gate, process))
        assert {done[:18].count(process) for process in range(3)} <= set(range(3, 10))
        for gate in gates:
            await gate.aclose()


# --- without Redis -------------------------------------------------------------------------------


async def test_without_redis_each_process_keeps_to_its_share(clock: Clock) -> None:
    async with Redis(host="127.0.0.1", port=1) as redis:
        one = RedisBook(redis, "e", Limits(8, Rates(requests=48)), clock)
        first = await _go(one)
        assert await _go(one)
        assert await _go(one) is None, "a quarter, as long as nobody told how many there are"
        assert first
        await one.leave(first, OK)
        clock.now += 60
        assert await _go(one)


@pytest.mark.server
async def test_a_redis_that_goes_away_is_missed_only_while_it_is_away(
    redis_url: str, clock: Clock
) -> None:
    async with Redis.from_url(redis_url) as redis, Redis(host="127.0.0.1", port=1) as nowhere:
        await redis.flushdb()
        one = RedisBook(redis, "e", Limits(4), clock)
        before = await _go(one)
        assert before
        scripts = one._ask, one._leave
        one._ask, one._leave = (nowhere.register_script(script.script) for script in scripts)
        during = await _go(one)
        assert during
        await one.leave(during, OK)
        await one.leave(before, OK)
        one._ask, one._leave = scripts
        clock.now += 10
        assert [bool(await _go(one)) for _ in range(5)] == [True] * 3 + [False] * 2


async def test_somebody_does_not_wait_for_ever(clock: Clock) -> None:
    gate = Gate(LocalBook(Limits(8, Rates(requests=1)), clock), "h", sleep=clock.sleep)
    await gate.enter(Call())
    clock.now += 3
    with pytest.raises(Overloaded) as raised:
        for _ in range(3):
            await gate.enter(Call(urgent=True))
    assert raised.value.blameless


@pytest.mark.server
async def test_replies_in_redis_expire(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as redis:
        replies = RedisReplies(redis, ttl=50)
        await replies.put("k", "ünï")
        assert await replies.get("k") == "ünï"
        assert await replies.get("missing") is None
        assert 0 < await redis.ttl("heliograph:reply:k") <= 50


async def test_a_lost_redis_loses_replies_only() -> None:
    async with Redis(host="127.0.0.1", port=1) as redis:
        replies = RedisReplies(redis)
        await replies.put("k", "v")
        assert await replies.get("k") is None
