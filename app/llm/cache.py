"""A keyworder that remembers: the same question under the same model and prompt is asked once.

What is remembered may be lost at any time. Replies that could not be used are never kept.
"""

from __future__ import annotations

import hashlib
import json
import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.domain import Keywords, Question
from app.llm.roles import LlmKeyworder

log = logging.getLogger("heliograph.llm")

TTL = 86_400.0  # seconds


class RedisReplies:
    """Shared by all processes. Without Redis nothing is remembered, and nothing else happens."""

    def __init__(self, redis: Redis, *, ttl: float = TTL) -> None:
        self._redis, self._ttl = redis, ttl

    async def get(self, key: str) -> str | None:
        try:
            found = await self._redis.get(f"heliograph:reply:{key}")
        except RedisError as error:
            log.warning("cache.away error=%s", type(error).__name__)
            return None
        return found.decode() if isinstance(found, bytes) else found

    async def put(self, key: str, reply: str) -> None:
        try:
            await self._redis.set(f"heliograph:reply:{key}", reply, ex=int(self._ttl))
        except RedisError as error:
            log.warning("cache.away error=%s", type(error).__name__)


class CachedKeyworder:
    """Port `Keyworder`. A reply is used again in the question's own workspace only."""

    by_model = True

    def __init__(self, keyworder: LlmKeyworder, replies: RedisReplies) -> None:
        self._keyworder, self._replies = keyworder, replies

    async def keywords(self, question: Question) -> Keywords:
        key = self._key(question)
        known = _decoded(await self._replies.get(key))
        if known is not None:
            return known
        found = await self._keyworder.keywords(question)
        if found.low or found.high:
            await self._replies.put(key, json.dumps([found.low, found.high], ensure_ascii=False))
        return found

    def _key(self, question: Question) -> str:
        parts = [question.workspace, self._keyworder.version, question.text]
        parts += [f"{turn.role}\x1e{turn.content}" for turn in self._keyworder.read_turns(question)]
        return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()


def _decoded(reply: str | None) -> Keywords | None:
    try:
        low, high = json.loads(reply or "")
        return Keywords(tuple(map(str, low)), tuple(map(str, high)))
    except (ValueError, TypeError):
        return None
