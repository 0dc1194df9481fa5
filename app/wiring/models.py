"""Models by the scheme of their URL: rules and the built-in embedder, or servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from app.errors import Invalid, Misconfigured
from app.llm.tokens import TiktokenTokenizer
from app.ports import Embedder, Models, Pingable, Reranker, Tokenizer
from app.query.anchored.shelf import Shelf
from app.settings import Settings

if TYPE_CHECKING:
    import httpx
    from redis.asyncio import Redis

    from app.llm.http import ModelClient

REDIS_SECONDS = 5.0  # each model call asks Redis first; one that hangs must not hang them all
RERANK_SECONDS = 20.0  # somebody waits, and there is an answer without it


async def open_models(
    stack: AsyncExitStack, settings: Settings
) -> tuple[Models, Mapping[str, Pingable]]:
    """The roles, and the endpoints behind them by name."""
    tokenizer = TiktokenTokenizer(settings.tokenizer)
    servers = _Servers(stack, settings)
    embedder = await _embedder(servers, settings, tokenizer)
    reranker = await _reranker(servers, settings, tokenizer)
    if settings.llm_url.startswith("offline:"):
        models = _by_rules(embedder, reranker, tokenizer)
    else:
        models = await _by_model(servers, settings, embedder, reranker, tokenizer)
    place = Path(settings.asr_weights) if settings.asr_weights else None
    return replace(models, scorers=Shelf(place)), servers.found


def _by_rules(embedder: Embedder, reranker: Reranker | None, tokenizer: Tokenizer) -> Models:
    from app.rules.answerer import RuleAnswerer
    from app.rules.extractor import RuleExtractor
    from app.rules.keyworder import RuleKeyworder
    from app.rules.profiler import RuleProfiler
    from app.rules.reporter import RuleReporter

    reporter = RuleReporter(tokenizer)
    return Models(
        RuleExtractor(), RuleProfiler(tokenizer), RuleKeyworder(), RuleAnswerer(embedder),
        embedder, reranker, tokenizer, reporter, reporter,
    )  # fmt: skip


async def _by_model(
    servers: _Servers, settings: Settings, embedder: Embedder, reranker: Reranker | None,
    tokenizer: Tokenizer,
) -> Models:  # fmt: skip
    from app.llm.cache import CachedKeyworder, CachedRewriter, RedisReplies
    from app.llm.chat import ChatModel, Price
    from app.llm.extraction import LlmExtractor
    from app.llm.judge import LlmJudge
    from app.llm.referee import LlmReferee
    from app.llm.reporter import LlmReporter
    from app.llm.rewriter import LlmRewriter
    from app.llm.roles import LlmAnswerer, LlmKeyworder, LlmProfiler
    from app.prompts import Prompts
    from app.rules.reporter import RuleReporter

    client = await servers.client("llm")
    prompts = Prompts(Path(settings.prompts_dir) if settings.prompts_dir else None)
    options = settings.options
    replies = RedisReplies(await servers.redis())

    def chat(model: str, *, urgent: bool = False) -> ChatModel:
        return ChatModel(
            client, model or settings.llm_model, tokenizer,
            price=Price(settings.llm_prompt_price, settings.llm_completion_price),
            form=settings.llm_format, context_tokens=settings.llm_context_tokens, urgent=urgent,
        )  # fmt: skip

    return Models(
        LlmExtractor(chat(settings.extract_model), prompts, options),
        LlmProfiler(chat(settings.profile_model), prompts, language=options.language),
        CachedKeyworder(
            LlmKeyworder(chat(settings.keyword_model, urgent=True), prompts),
            replies,
        ),
        LlmAnswerer(chat(settings.answer_model, urgent=True), prompts),
        embedder, reranker, tokenizer,
        LlmReporter(
            chat(settings.report_model), chat(settings.keyword_model, urgent=True), prompts,
            language=options.language,
        ),
        RuleReporter(tokenizer),
        LlmJudge(chat(settings.judge_model), prompts) if settings.judge_model else None,
        CachedRewriter(
            LlmRewriter(chat(settings.rewrite_model, urgent=True), prompts), replies
        ),
        LlmReferee(chat(settings.judge_model or settings.answer_model), prompts),
    )  # fmt: skip


async def _embedder(servers: _Servers, settings: Settings, tokenizer: Tokenizer) -> Embedder:
    if settings.embed_url.startswith("offline:"):
        from app.rules.embedder import LocalEmbedder

        return LocalEmbedder()
    from app.llm.embedding import LlmEmbedder

    embedder = LlmEmbedder(
        await servers.client("embed"), settings.embed_model, tokenizer,
        dimension=settings.embed_dimension, batch=settings.embed_batch,
        price=settings.embed_price,
    )  # fmt: skip
    await embedder.probe()
    return embedder


@asynccontextmanager
async def open_embedder(
    settings: Settings, changes: Mapping[str, object]
) -> AsyncIterator[Embedder]:
    """The embedder that the settings would name with these changes. Raises `Invalid`."""
    try:
        changed = Settings(_env_file=None, **{**settings.model_dump(), **changes})
    except ValidationError as error:
        said = "; ".join(str(one["msg"]).removeprefix("Value error, ") for one in error.errors())
        raise Invalid(f"These settings cannot be: {said}") from None
    async with AsyncExitStack() as stack:
        tokenizer = TiktokenTokenizer(changed.tokenizer)
        try:
            embedder = await _embedder(_Servers(stack, changed), changed, tokenizer)
        except Misconfigured as error:
            raise Invalid(error.detail) from error
        yield embedder


async def _reranker(servers: _Servers, settings: Settings, tokenizer: Tokenizer) -> Reranker | None:
    if not settings.rerank_url:
        return None
    from app.llm.http import Endpoint, ModelClient
    from app.llm.rerank import LlmReranker

    key = settings.rerank_key.get_secret_value()
    endpoint = Endpoint(settings.rerank_url, key, timeout=RERANK_SECONDS)
    client = ModelClient(await servers.http(), endpoint)
    return LlmReranker(client, settings.rerank_model, tokenizer)


class _Servers:
    """What the models share: one HTTP client, one connection to Redis, opened when needed."""

    def __init__(self, stack: AsyncExitStack, settings: Settings) -> None:
        self.stack, self.settings = stack, settings
        self.found: dict[str, Pingable] = {}
        self._http: httpx.AsyncClient | None = None
        self._redis: Redis | None = None

    async def client(self, role: Literal["llm", "embed"]) -> ModelClient:
        """Of the role's endpoint; its limits hold for all processes together."""
        from app.llm.gate import Gate
        from app.llm.http import Endpoint, ModelClient
        from app.llm.limits import Limits, Rates
        from app.llm.shared import RedisBook

        def setting(name: str) -> Any:
            return getattr(self.settings, f"{role}_{name}")

        rates = Rates(setting("requests_per_minute"), setting("tokens_per_minute"))
        endpoint = Endpoint(
            setting("url"), setting("key").get_secret_value(),
            limits=Limits(setting("concurrency"), rates), timeout=setting("timeout"),
        )  # fmt: skip
        book = RedisBook(await self.redis(), f"{role} {endpoint.url}", endpoint.limits)
        gate = Gate(book, endpoint.host)
        self.stack.push_async_callback(gate.aclose)
        client = ModelClient(await self.http(), endpoint, gate=gate)
        self.found[role] = client
        return client

    async def http(self) -> httpx.AsyncClient:
        if self._http is None:
            from app.llm.http import open_http

            self._http = await self.stack.enter_async_context(open_http())
        return self._http

    async def redis(self) -> Redis:
        if self._redis is None:
            from redis.asyncio import Redis

            self._redis = Redis.from_url(
                self.settings.queue_url,
                socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS,
            )  # fmt: skip
            self.stack.push_async_callback(self._redis.aclose)
        return self._redis
