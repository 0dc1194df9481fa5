"""Calls get the next free moment, in one process and over Redis alike."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from app.errors import Unavailable
from app.llm.cache import RedisReplies
from app.llm.limits import BURST, Limiter, LocalLimiter, Rates, RedisLimiter


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_burst_goes_at_once_and_the_rest_evenly_spaced() -> None:
    limiter = LocalLimiter(Rates(requests=60), Clock())
    waits = [await limiter.reserve(0) for _ in range(13)]
    assert waits == [0.0] * 11 + [1.0, 2.0]


async def test_time_gives_calls_back() -> None:
    clock = Clock()
    limiter = LocalLimiter(Rates(requests=60), clock)
    for _ in range(20):
        await limiter.reserve(0)
    clock.now += 60
    assert await limiter.reserve(0) == 0.0


async def test_tokens_count_as_they_were_used_not_as_they_were_reserved() -> None:
    limiter = LocalLimiter(Rates(tokens=6000), Clock())
    await limiter.reserve(5000)  # 50 seconds' worth
    assert await limiter.reserve(0) == pytest.approx(50 - BURST)
    await limiter.settle(-4500)
    assert await limiter.reserve(0) == 0.0


async def test_without_limits_only_a_pause_makes_wait() -> None:
    clock = Clock()
    limiter = LocalLimiter(Rates(), clock)
    assert await limiter.reserve(10**9) == 0.0
    await limiter.pause(30)
    await limiter.pause(5)
    assert await limiter.reserve(1) == 30.0
    clock.now += 31
    assert await limiter.reserve(1) == 0.0


async def test_a_booking_can_be_given_back() -> None:
    limiter = LocalLimiter(Rates(requests=1), Clock())
    await limiter.reserve(0)
    first = await limiter.reserve(0)
    await limiter.cancel(0)
    assert await limiter.reserve(0) == first > 0


@pytest.mark.server
async def test_workers_share_a_limit_through_redis(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as one, Redis.from_url(redis_url) as other:
        await one.flushdb()
        rates = Rates(requests=60, tokens=60_000)
        limiters: list[Limiter] = [
            RedisLimiter(redis, "http://h|key", rates) for redis in (one, other)
        ]
        waits = [await limiters[i % 2].reserve(100) for i in range(14)]
        assert waits[:10] == [0.0] * 10
        assert 1.5 < waits[13] < 3.1
        await limiters[0].cancel(100)
        await limiters[0].settle(30_000)
        assert 20 < await limiters[1].reserve(0) <= 22  # 1.3 + 30 seconds, less the burst
        await limiters[0].pause(90)
        assert 85 < await limiters[1].reserve(0) <= 90
        assert b"key" not in b"".join(await one.keys("*"))
        unlimited = RedisLimiter(other, "http://other", Rates())
        assert await unlimited.reserve(500) == 0.0


@pytest.mark.server
async def test_replies_in_redis_expire(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as redis:
        replies = RedisReplies(redis, ttl=50)
        await replies.put("k", "ünï")
        assert await replies.get("k") == "ünï"
        assert await replies.get("missing") is None
        assert 0 < await redis.ttl("heliograph:reply:k") <= 50


async def test_a_lost_redis_loses_replies_but_stops_calls_that_need_its_limit() -> None:
    async with Redis(host="127.0.0.1", port=1) as redis:
        replies = RedisReplies(redis)
        await replies.put("k", "v")
        assert await replies.get("k") is None
        with pytest.raises(Unavailable):
            await RedisLimiter(redis, "e", Rates(requests=1)).reserve(1)


async def test_without_a_limit_a_lost_redis_stops_no_call() -> None:
    async with Redis(host="127.0.0.1", port=1) as redis:
        limiter = RedisLimiter(redis, "e", Rates())
        assert await limiter.reserve(1) == 0.0
        await limiter.pause(1.0)


async def test_a_redis_lost_after_a_call_does_not_cost_its_result() -> None:
    async with Redis(host="127.0.0.1", port=1) as redis:
        limiter = RedisLimiter(redis, "e", Rates(requests=1, tokens=1000))
        await limiter.settle(10)
        await limiter.cancel(10)
        await limiter.pause(1.0)
