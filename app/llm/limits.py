"""Requests and tokens a minute, as one queue: each call gets the next free moment.

The generic cell rate algorithm (ITU-T I.371): one number per limit, the moment at which the next
call would be on time. Being one number, workers on many hosts can share it through Redis.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.errors import Unavailable

log = logging.getLogger("heliograph.llm")

BURST = 10.0  # seconds' worth of a limit that may be used at once after a quiet time


@dataclass(frozen=True, slots=True)
class Rates:
    """Per minute; 0 means no limit."""

    requests: int = 0
    tokens: int = 0

    def seconds(self, tokens: int) -> tuple[float, float]:
        """How long one request with so many tokens takes of either limit."""
        return (
            60 / self.requests if self.requests else 0.0,
            60 * tokens / self.tokens if self.tokens else 0.0,
        )


NO_LIMIT = Rates()


class Limiter(Protocol):
    async def reserve(self, tokens: int) -> float:
        """Books a call; seconds to wait before it."""
        ...

    async def settle(self, surplus: int) -> None:
        """Books tokens that a call used beyond (or, negative, below) what was reserved."""
        ...

    async def cancel(self, tokens: int) -> None:
        """Gives a booking back."""
        ...

    async def pause(self, seconds: float) -> None:
        """Lets nobody call for so long: the server asked for it."""
        ...


class LocalLimiter:
    """For one process."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates, self._clock = rates, clock
        self._next = [0.0, 0.0]  # of requests and of tokens
        self._paused_until = 0.0

    async def reserve(self, tokens: int) -> float:
        now = self._clock()
        wait = max(0.0, self._paused_until - now)
        for index, cost in enumerate(self._rates.seconds(tokens)):
            wait = max(wait, self._next[index] - BURST - now)
            self._next[index] = max(self._next[index], now) + cost
        return wait

    async def settle(self, surplus: int) -> None:
        self._next[1] += self._rates.seconds(surplus)[1]

    async def cancel(self, tokens: int) -> None:
        for index, cost in enumerate(self._rates.seconds(tokens)):
            self._next[index] -= cost

    async def pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self._clock() + seconds)


# KEYS: requests, tokens, pause. ARGV: cost of each in seconds, burst. Answers the wait in ms.
_RESERVE = """
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local wait = math.max(0, tonumber(redis.call('GET', KEYS[3]) or '0') - now)
for i = 1, 2 do
  local cost = tonumber(ARGV[i])
  local free = tonumber(redis.call('GET', KEYS[i]) or '0')
  wait = math.max(wait, free - tonumber(ARGV[3]) - now)
  if cost ~= 0 then
    local at = math.max(free, now) + cost
    redis.call('SET', KEYS[i], string.format('%.6f', at), 'EX', math.ceil(at - now) + 60)
  end
end
return math.ceil(wait * 1000)
"""
# KEYS as above. ARGV: seconds to add to requests and to tokens.
_ADD = """
for i = 1, 2 do
  local free = redis.call('GET', KEYS[i])
  if free then
    redis.call('SET', KEYS[i], string.format('%.6f', tonumber(free) + tonumber(ARGV[i])), 'KEEPTTL')
  end
end
return 0
"""
_PAUSE = """
local t = redis.call('TIME')
local until_ = t[1] + t[2] / 1000000 + tonumber(ARGV[1])
if until_ > tonumber(redis.call('GET', KEYS[3]) or '0') then
  redis.call('SET', KEYS[3], string.format('%.6f', until_), 'EX', math.ceil(tonumber(ARGV[1])) + 1)
end
return 0
"""


class RedisLimiter:
    """For all workers of an endpoint. `endpoint`: what identifies it; only a hash is stored.

    Without Redis only calls that have a limit to keep are refused (`Unavailable`)."""

    def __init__(self, redis: Redis, endpoint: str, rates: Rates) -> None:
        self._redis, self._rates = redis, rates
        place = hashlib.sha256(endpoint.encode()).hexdigest()[:16]
        self._keys = [
            f"heliograph:rate:{{{place}}}:{what}" for what in ("calls", "tokens", "pause")
        ]

    async def reserve(self, tokens: int) -> float:
        requests, spent = self._rates.seconds(tokens)
        try:
            return await self._run(_RESERVE, requests, spent, BURST) / 1000
        except RedisError as error:
            if self._rates != NO_LIMIT:
                raise Unavailable("the queue that shares the model's rate limit is away") from error
            log.warning("limit.away error=%s", type(error).__name__)
            return 0.0

    async def settle(self, surplus: int) -> None:
        if self._rates.tokens:
            await self._note(_ADD, 0, self._rates.seconds(surplus)[1])

    async def cancel(self, tokens: int) -> None:
        requests, spent = self._rates.seconds(tokens)
        await self._note(_ADD, -requests, -spent)

    async def pause(self, seconds: float) -> None:
        await self._note(_PAUSE, seconds)

    async def _note(self, script: str, *arguments: float) -> None:
        """What comes after a call must not cost its result, nor hide why it failed."""
        try:
            await self._run(script, *arguments)
        except RedisError as error:
            log.warning("limit.away error=%s", type(error).__name__)

    async def _run(self, script: str, *arguments: float) -> int:
        call = self._redis.eval(script, len(self._keys), *self._keys, *map(str, arguments))
        return cast(int, await cast(Awaitable[object], call))
