"""From a question to an answer, counted and logged: what `/query` and the chat APIs share."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from app.api.deps import Deployment
from app.domain import Mode, Question
from app.errors import AppError
from app.ports import Workspace
from app.query import engine
from app.query.engine import Answered
from app.telemetry import Metrics

log = logging.getLogger("heliograph.api")

NO_MODEL = (
    "No language model wrote this answer: its sentences are quoted from the documents. "
    "Set HELIOGRAPH_LLM_URL to have answers written."
)
NOTHING_FOUND = "Nothing relevant was found in the documents of this workspace."


async def answer(
    workspace: Workspace, deployed: Deployment, question: Question, *,
    only_context: bool = False, explain: bool = False,
) -> Answered:  # fmt: skip
    """Raises what the engine raises."""
    try:
        answered = await engine.answer(
            workspace, deployed.services.models, question,
            only_context=only_context, explain=explain,
        )  # fmt: skip
    except AppError:
        _count_failure(question.mode, deployed.metrics)
        raise
    _count(answered, deployed.metrics, only_context=only_context)
    return answered


async def stream(
    workspace: Workspace, deployed: Deployment, question: Question, *, explain: bool = False
) -> AsyncGenerator[engine.Event, None]:
    """The engine's events."""
    events = engine.stream(workspace, deployed.services.models, question, explain=explain)
    async with aclosing(events):
        async for event in events:
            match event.data:
                case Answered():
                    _count(event.data, deployed.metrics)
                case AppError():
                    _count_failure(question.mode, deployed.metrics)
                    log.warning("query.failed code=%s", event.data.code)
            yield event


def found(answered: Answered, *, only_context: bool = False) -> bool:
    if only_context:
        return not answered.context.empty
    return answered.notice != engine.NOTHING_FOUND


def notice(answered: Answered, *, only_context: bool = False) -> str | None:
    """What the reader should know about the answer."""
    if not found(answered, only_context=only_context):
        return NOTHING_FOUND
    unwritten = answered.model is None and not only_context
    return " ".join(filter(None, [answered.hint, NO_MODEL if unwritten else ""])) or None


def _count(answered: Answered, metrics: Metrics, *, only_context: bool = False) -> None:
    outcome = "answered" if found(answered, only_context=only_context) else "nothing_found"
    metrics.queries.labels(answered.mode, outcome).inc()
    metrics.tokens.labels("prompt").inc(answered.usage.prompt_tokens)
    metrics.tokens.labels("completion").inc(answered.usage.completion_tokens)
    for stage, spent in answered.timings_ms.items():
        metrics.stages.labels(answered.mode, stage).observe(spent / 1000)
    if answered.pool:
        metrics.count_pool(answered.mode, answered.pool)


def _count_failure(mode: Mode, metrics: Metrics) -> None:
    metrics.queries.labels(mode, "failed").inc()
