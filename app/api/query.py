"""Questions: answered whole, as a stream, or only with the context for an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api import answering, problems
from app.api.deps import Deployed, Deployment, JsonOnly, Readable
from app.api.events import CONTENT, Event, EventStream
from app.api.problems import responses
from app.api.questions import QuestionBody
from app.api.schemas import UsageBody
from app.domain import Citation, Context, Mode, Question
from app.errors import AppError, Invalid
from app.ports import Workspace
from app.query.engine import Answered

router = APIRouter(tags=["query"])

MAX_MATCHES = 100_000  # documents that filters may leave


class CitationBody(BaseModel):
    """Where a statement of the answer stands: `quote` is the slice `[start:end]` of the text."""

    number: int = Field(description="The `[n]` in the answer.")
    document_id: str = Field(description="The document.")
    document_name: str = Field(description="Its name.")
    chunk_id: str = Field(description="The chunk.")
    page: int | None = Field(description="Page, from 1; null without pages.")
    start: int = Field(description="First character in the parsed text.")
    end: int = Field(description="Behind the last character.")
    quote: str = Field(description="The text there.")
    score: float = Field(description="Relevance of the chunk.")

    @classmethod
    def of(cls, citation: Citation) -> CitationBody:
        return cls(
            number=citation.number,
            document_id=citation.document_id,
            document_name=citation.document_name,
            chunk_id=citation.chunk_id,
            page=citation.page,
            start=citation.start,
            end=citation.end,
            quote=citation.quote,
            score=citation.score,
        )


class ContextEntityBody(BaseModel):
    id: str = Field(description="Id of the entity.")
    name: str = Field(description="Its name.")
    type: str = Field(description="Its type.")
    text: str = Field(description="Its profile, or what the filtered documents say of it.")
    score: float = Field(description="Relevance.")


class ContextRelationBody(BaseModel):
    source: str = Field(description="Name of one entity.")
    target: str = Field(description="Name of the other.")
    keywords: list[str] = Field(description="Its themes.")
    text: str = Field(description="Its profile, or what the filtered documents say of it.")
    score: float = Field(description="Relevance.")


class ContextThemeBody(BaseModel):
    community_id: str | None = Field(
        description="Community whose report says it; null: it is what documents say of a relation."
    )
    title: str = Field(description="Title of the report, or the relation.")
    text: str = Field(description="What it says to the question.")
    score: float = Field(description="How much it helps to answer, 0 to 100.")


class ContextChunkBody(BaseModel):
    number: int = Field(description="Its number in the context and in `[n]` marks.")
    chunk_id: str = Field(description="The chunk.")
    document_id: str = Field(description="Its document.")
    document_name: str = Field(description="Name of the document.")
    date: str = Field(description="Date of the document.")
    page: int | None = Field(description="Page, from 1; null without pages.")
    text: str = Field(description="The text.")
    start: int = Field(description="First character in the parsed text.")
    end: int = Field(description="Behind the last character.")
    score: float = Field(description="Relevance.")


class ContextBody(BaseModel):
    """What an answer is made from, best first."""

    entities: list[ContextEntityBody] = Field(description="Things.")
    relations: list[ContextRelationBody] = Field(description="What holds between them.")
    chunks: list[ContextChunkBody] = Field(description="Pieces of documents.")
    themes: list[ContextThemeBody] = Field(
        description="Mode community: points of reports; the pieces of documents stand behind them."
    )
    tokens: int = Field(description="Length of the whole context in tokens.")

    @classmethod
    def of(cls, context: Context) -> ContextBody:
        return cls(
            entities=[
                ContextEntityBody(
                    id=one.entity.key, name=one.entity.name, type=one.entity.kind,
                    text=one.text, score=one.score,
                )
                for one in context.entities
            ],
            relations=[
                ContextRelationBody(
                    source=one.relation.source_name, target=one.relation.target_name,
                    keywords=list(one.relation.keywords), text=one.text, score=one.score,
                )
                for one in context.relations
            ],
            chunks=[
                ContextChunkBody(
                    number=one.number, chunk_id=one.chunk.id, document_id=one.chunk.document_id,
                    document_name=one.document_name, date=one.date, page=one.chunk.page,
                    text=one.chunk.text, start=one.chunk.start, end=one.chunk.end, score=one.score,
                )
                for one in context.sources
            ],
            themes=[
                ContextThemeBody(
                    community_id=one.community or None, title=one.title, text=one.text,
                    score=one.score,
                )
                for one in context.themes
            ],
            tokens=context.tokens,
        )  # fmt: skip


class AnswerBody(BaseModel):
    """An answer with its evidence."""

    answer: str = Field(description="The answer, with `[n]` marks; empty with `only_context`.")
    mode: Mode = Field(description="Mode that was asked for.")
    model: str | None = Field(description="Model that wrote it; null: none did.")
    notice: str | None = Field(description="What the reader should know about the answer.")
    found: bool = Field(description="False: nothing relevant is stored, and no model was asked.")
    citations: list[CitationBody] = Field(description="Every `[n]` of the answer, checked.")
    context: ContextBody | None = Field(description="With `only_context` or `explain`.")
    explain: dict[str, Any] | None = Field(description="With `explain`: how it came about.")
    usage: UsageBody = Field(description="Model usage of this question.")
    timings_ms: dict[str, float] = Field(description="Milliseconds by part, and in `total`.")

    @classmethod
    def of(cls, answered: Answered, body: QuestionBody) -> AnswerBody:
        return cls(
            answer=answered.answer,
            mode=answered.mode,
            model=answered.model,
            notice=answering.notice(answered, only_context=body.only_context),
            found=answering.found(answered, only_context=body.only_context),
            citations=[CitationBody.of(one) for one in answered.citations],
            context=ContextBody.of(answered.context) if body.only_context or body.explain else None,
            explain=dict(answered.explain) if body.explain else None,
            usage=UsageBody.of(answered.usage),
            timings_ms=dict(answered.timings_ms),
        )


_ERRORS = (400, 401, 403, 413, 415, 422, 429, 502, 503)


@router.post(
    "/query",
    summary="Ask a question",
    response_model=AnswerBody,
    dependencies=[JsonOnly],
    responses={
        200: {
            "description": "The answer; with `stream`, events `context`, `token` (many), then "
            "`done` (the whole answer) or `error` (a problem).",
            "content": CONTENT,
        },
        **responses(*_ERRORS),
    },
)
async def ask(body: QuestionBody, workspace: Readable, deployed: Deployed) -> Any:
    """Retrieves what fits the question, answers from it and cites it. When nothing relevant is
    stored it says so and asks no model."""
    question = await _question(body, workspace)
    if body.stream and not body.only_context:
        return EventStream(_events(body, question, workspace, deployed))
    return await _answered(body, question, workspace, deployed)


@router.post(
    "/query/context",
    summary="Get the context for a question",
    dependencies=[JsonOnly],
    responses=responses(*_ERRORS),
)
async def context(body: QuestionBody, workspace: Readable, deployed: Deployed) -> AnswerBody:
    """As `POST /query` with `only_context`: retrieval without an answer."""
    body = body.model_copy(update={"only_context": True})
    question = await _question(body, workspace)
    return await _answered(body, question, workspace, deployed)


async def _question(body: QuestionBody, workspace: Workspace) -> Question:
    if body.asr.ablate and not (body.only_context or body.explain):
        raise Invalid(
            "asr.ablate is for measurements: set only_context or explain as well.",
            code="ablation",
        )
    if not body.filters:
        return body.question(workspace.name, None)
    found = await workspace.documents.matching(body.filters, limit=MAX_MATCHES + 1)
    if len(found) > MAX_MATCHES:
        raise Invalid(
            f"More than {MAX_MATCHES:,} documents meet these filters; narrow them.",
            code="filters_too_wide",
        )
    return body.question(workspace.name, tuple(found))


async def _answered(
    body: QuestionBody, question: Question, workspace: Workspace, deployed: Deployment
) -> AnswerBody:
    answered = await answering.answer(
        workspace, deployed, question, only_context=body.only_context, explain=body.explain
    )
    return AnswerBody.of(answered, body)


async def _events(
    body: QuestionBody, question: Question, workspace: Workspace, deployed: Deployment
) -> AsyncGenerator[Event, None]:
    events = answering.stream(workspace, deployed, question, explain=body.explain)
    async with aclosing(events):
        async for event in events:
            match event.data:
                case Context():
                    yield Event("context", ContextBody.of(event.data).model_dump(mode="json"))
                case str():
                    yield Event("token", {"text": event.data})
                case Answered():
                    whole = AnswerBody.of(event.data, body)
                    yield Event("done", whole.model_dump(mode="json"))
                case AppError():
                    yield Event("error", problems.of_error(event.data))
