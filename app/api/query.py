"""Questions: answered whole, as a stream, or only with the context for an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints

from app.api import answering, problems
from app.api.deps import Deployed, Deployment, JsonOnly, Readable
from app.api.events import CONTENT, Event, EventStream
from app.api.fields import Body, FilterBody, Words
from app.api.problems import responses
from app.api.schemas import UsageBody
from app.domain import Anchoring, Budget, Citation, Context, Keywords, Mode, Question, Turn
from app.errors import AppError, Invalid
from app.ports import Workspace
from app.query.engine import Answered

router = APIRouter(tags=["query"])

MAX_QUERY = 8000
MAX_TURNS = 100
MAX_TURN_CHARACTERS = 16_000
MAX_MATCHES = 100_000  # documents that filters may leave

QueryText = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY)
]
_DEFAULT = Question("")
_BUDGET = Budget()
_ANCHORING = Anchoring()


class TurnBody(Body):
    """An earlier message of the conversation."""

    role: Literal["user", "assistant"] = Field(description="Who said it.")
    content: Annotated[str, Field(max_length=MAX_TURN_CHARACTERS)] = Field(
        description="What was said."
    )


class KeywordsBody(Body):
    """Keywords of the caller."""

    low: list[Words] = Field(
        default_factory=list, max_length=50, description="Things: names, terms.",
        examples=[["Scrooge", "Marley"]],
    )  # fmt: skip
    high: list[Words] = Field(
        default_factory=list, max_length=50, description="Themes.", examples=[["greed", "remorse"]]
    )


class BudgetBody(Body):
    """Token limits of the context."""

    entities: int = Field(_BUDGET.entities, ge=0, le=200_000, description="For entities.")
    relations: int = Field(_BUDGET.relations, ge=0, le=200_000, description="For relations.")
    total: int = Field(
        _BUDGET.total, ge=1, le=500_000, description="For all; chunks take what the others leave."
    )


class AnchoringBody(Body):
    """Modes asr and subgraph: which relations are gathered, and what scores them."""

    anchors: int = Field(
        _ANCHORING.anchors, ge=0, le=64,
        description="Relations most like the question that are further places to start from.",
    )  # fmt: skip
    hops_topic: int = Field(
        _ANCHORING.hops_topic, ge=0, le=3,
        description="How many relations away from the entities of the question to look.",
    )  # fmt: skip
    hops_anchor: int = Field(
        _ANCHORING.hops_anchor, ge=0, le=2, description="The same, from the ends of anchors."
    )
    budget: int = Field(_ANCHORING.budget, ge=1, le=3000, description="Relations that are scored.")
    scorer: Literal["auto", "prior", "weights", "cosine"] = Field(
        "auto",
        description="What scores them: `weights` a trained network, `prior` a fixed formula, "
        "`cosine` likeness alone; `auto` takes weights where there are usable ones, else the "
        "prior. The explanation says what was used.",
    )
    deadline_ms: int = Field(
        _ANCHORING.deadline_ms, ge=1, le=10_000,
        description="Time for reading the graph; what has not arrived by then is left out.",
    )  # fmt: skip
    ablate: list[Literal["anchors", "gate", "gnn", "path", "topic"]] = Field(
        default_factory=list, max_length=5,
        description="Parts of the method to leave out, for measurements: only with `only_context` "
        "or `explain`.",
    )  # fmt: skip


class QuestionBody(Body):
    """A question and how to answer it."""

    query: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY)
    ] = Field(description="The question.", examples=["What was Scrooge's partner called?"])
    mode: Mode = Field(
        Mode.MIX,
        description="How to retrieve. `auto` chooses by the question and by what is stored, and "
        "tells so in `explain.auto`. `hyde`, `rq` and `bypass` take a language model: without one "
        "the answer is 422 with the code `no_model`.",
    )
    top_k: int = Field(
        _DEFAULT.top_k, ge=1, le=200, description="Entities and relations to retrieve."
    )
    chunk_top_k: int = Field(_DEFAULT.chunk_top_k, ge=1, le=200, description="Chunks to retrieve.")
    budget: BudgetBody = Field(
        default_factory=BudgetBody, description="How long the context may be, in tokens."
    )
    filters: FilterBody | None = Field(
        None, description="Only evidence of documents that meet these conditions is used."
    )
    conversation: list[TurnBody] = Field(
        default_factory=list, max_length=MAX_TURNS, description="Earlier messages, oldest first."
    )
    keywords: KeywordsBody | None = Field(
        None, description="Your own keywords; then no model is asked for them."
    )
    keyword_source: Literal["auto", "model", "query"] = Field(
        "auto", description="Where keywords come from: `query` uses the question's own vector."
    )
    response_type: str = Field(
        "", max_length=200, description="Form of the answer.",
        examples=["Bullet points"],
    )  # fmt: skip
    language: str = Field(
        "", max_length=40,
        description="Language of the answer; empty follows the question.", examples=["English"],
    )  # fmt: skip
    mix_style: Literal["walk", "lightrag"] = Field(
        "walk", description="Mode mix: the default walk, or hybrid plus naive as LightRAG has it."
    )
    asr: AnchoringBody = Field(
        default_factory=AnchoringBody, description="Options of modes asr and subgraph."
    )
    hyde_passages: int = Field(
        _DEFAULT.hyde_passages, ge=1, le=8,
        description="Mode hyde: passages that the model writes, in one call; their vectors and "
        "that of the question are averaged.",
    )  # fmt: skip
    rq_base: Literal["naive", "local", "global", "hybrid", "mix", "ppr"] = Field(
        "mix",
        description="Mode rq: how the question and each query made of it are retrieved, without "
        "a call for keywords unless `keyword_source` is `model`.",
    )
    rq_sequential: bool = Field(
        False,
        description="Mode rq: a query may need the answer to an earlier one, which a model then "
        "looks for in what that one found: at most three calls more.",
    )
    low_level: bool = Field(
        True,
        description="Find things: false leaves out what low-level keywords and the question's "
        "names find (LightRAG's ablation -Low). No effect in modes without levels; 400 "
        "`nothing_to_retrieve` where nothing is left.",
    )
    high_level: bool = Field(
        True,
        description="Find themes: false leaves out what high-level keywords and the question find "
        "among relations (-High). As `low_level` otherwise.",
    )
    source_text: bool = Field(
        True,
        description="Put chunks into the context: false leaves entities and relations (-Origin), "
        "and answers without citations.",
    )
    community_search: Literal["level", "nearest"] = Field(
        "level",
        description="Mode community: put the question to all reports of a level, the best rated "
        "first, or, which is cheaper, to those nearest to it, of any level.",
    )
    community_level: int = Field(
        _DEFAULT.community_level, ge=0, le=10,
        description="Mode community: the level. 0 is the coarsest; communities above it that are "
        "divided no further belong to it.",
    )  # fmt: skip
    only_context: bool = Field(False, description="Stop before the answer and return the context.")
    explain: bool = Field(False, description="Tell how the context and answer came about.")
    stream: bool = Field(False, description="Answer as server-sent events.")

    def question(self, workspace: str, documents: tuple[str, ...] | None) -> Question:
        history = [Turn(turn.role, turn.content) for turn in self.conversation]
        # Chat clients send the question again as the last message.
        if history and history[-1] == Turn("user", self.query):
            history.pop()
        return Question(
            text=self.query,
            workspace=workspace,
            mode=self.mode,
            top_k=self.top_k,
            chunk_top_k=self.chunk_top_k,
            budget=Budget(self.budget.entities, self.budget.relations, self.budget.total),
            documents=documents,
            history=tuple(history),
            keywords=Keywords(tuple(self.keywords.low), tuple(self.keywords.high))
            if self.keywords
            else None,
            keyword_source=self.keyword_source,
            response_type=self.response_type.strip(),
            language=self.language.strip(),
            low_level=self.low_level,
            high_level=self.high_level,
            source_text=self.source_text,
            mix_style=self.mix_style,
            hyde_passages=self.hyde_passages,
            rq_base=Mode(self.rq_base),
            rq_sequential=self.rq_sequential,
            anchoring=Anchoring(
                anchors=self.asr.anchors,
                hops_topic=self.asr.hops_topic,
                hops_anchor=self.asr.hops_anchor,
                budget=self.asr.budget,
                scorer=self.asr.scorer,
                ablate=tuple(dict.fromkeys(self.asr.ablate)),
                deadline_ms=self.asr.deadline_ms,
            ),
            community_search=self.community_search,
            community_level=self.community_level,
        )


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
