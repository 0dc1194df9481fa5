"""Roles that remember: the same question under the same model and prompt is asked once.

What is remembered may be lost at any time. Replies that could not be used are never kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.domain import Completion, Keywords, Passages, Queries, Question, Rewriting, Turn
from app.llm.rewriter import LlmRewriter
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
        return _key(self._keyworder.version, question, self._keyworder.read_turns(question))


class CachedRewriter:
    """Port `Rewriter`. A reply is used again in the question's own workspace only; a short answer,
    which depends on what is stored, never is."""

    def __init__(self, rewriter: LlmRewriter, replies: RedisReplies) -> None:
        self._rewriter, self._replies = rewriter, replies

    async def passages(self, question: Question, *, count: int) -> Passages:
        key = self._key("hyde", question, str(count))
        if (known := _texts(await self._replies.get(key))) is not None:
            return Passages(known)
        made = await self._rewriter.passages(question, count=count)
        if made.texts:
            await self._replies.put(key, json.dumps(made.texts, ensure_ascii=False))
        return made

    async def queries(self, question: Question, *, sequential: bool) -> Queries:
        key = self._key("decompose", question, str(sequential))
        if (known := _queries(await self._replies.get(key))) is not None:
            return known
        made = await self._rewriter.queries(question, sequential=sequential)
        if made.readable:
            reply = [made.kind.value, *made.texts]
            await self._replies.put(key, json.dumps(reply, ensure_ascii=False))
        return made

    async def short_answer(self, query: str, texts: Sequence[str]) -> Completion:
        return await self._rewriter.short_answer(query, texts)

    def _key(self, prompt: str, question: Question, how: str) -> str:
        version = f"{self._rewriter.version(prompt)}:{how}"
        return _key(version, question, self._rewriter.read_turns(question))


def _key(version: str, question: Question, turns: Sequence[Turn]) -> str:
    parts = [question.workspace, version, question.text]
    parts += [f"{turn.role}\x1e{turn.content}" for turn in turns]
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()


def _decoded(reply: str | None) -> Keywords | None:
    try:
        low, high = json.loads(reply or "")
        return Keywords(tuple(map(str, low)), tuple(map(str, high)))
    except (ValueError, TypeError):
        return None


def _texts(reply: str | None) -> tuple[str, ...] | None:
    try:
        return tuple(map(str, json.loads(reply or "")))
    except (ValueError, TypeError):
        return None


def _queries(reply: str | None) -> Queries | None:
    try:
        kind, *texts = _texts(reply) or ()
        return Queries(Rewriting(kind), tuple(texts))
    except ValueError:
        return None
