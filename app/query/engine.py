"""From a question to a checked answer: retrieve, pack, answer, cite; whole or as a stream."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, NamedTuple

from app.domain import Citation, Context, Mode, Prompt, Question, Usage
from app.errors import AppError, BadModelOutput, Invalid, NoModel
from app.ports import Models, Workspace
from app.query import (
    absence,
    auto,
    citations,
    communities,
    context,
    dual,
    rewriting,
    walk,
)
from app.query.anchored import mode as anchored
from app.query.found import Clock, Found
from app.query.keywords import standing_alone
from app.query.relevance import is_relevant

log = logging.getLogger("heliograph.query")

Retriever = Callable[[Workspace, Models, Question, Clock], Awaitable[Found]]

MODES: Mapping[Mode, Retriever] = {
    Mode.NAIVE: dual.naive,
    Mode.LOCAL: dual.local,
    Mode.GLOBAL: dual.global_,
    Mode.HYBRID: dual.hybrid,
    Mode.MIX: walk.mix,
    Mode.PPR: walk.ppr,
    Mode.HYDE: rewriting.hyde,
    Mode.RQ: rewriting.rq,
    Mode.SUBGRAPH: anchored.subgraph,
    Mode.ASR: anchored.asr,
    Mode.COMMUNITY: communities.community,
}

# Switches of which a mode needs one at least. Direct search is left to `mix` and `ppr` without any.
ONLY_LEVELS: Mapping[Mode, tuple[str, ...]] = {
    Mode.NAIVE: ("source_text",),
    Mode.HYDE: ("source_text",),
    Mode.LOCAL: ("low_level",),
    Mode.GLOBAL: ("high_level",),
    Mode.HYBRID: ("low_level", "high_level"),
}

NOTHING_FOUND = "nothing_found"


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a question found: everything ranked (`found`), and what fits the budget (`context`).
    Not `relevant`: no language model should be asked to answer from it."""

    found: Found
    context: Context
    relevant: bool
    explain: Mapping[str, object]
    usage: Usage
    timings_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answered:
    """`model` is None when no language model wrote the answer. `notice` is empty or says why there
    is no answer (`nothing_found`), `hint` what else the reader should know."""

    answer: str
    mode: Mode
    model: str | None
    citations: tuple[Citation, ...]
    context: Context
    explain: Mapping[str, object]
    usage: Usage
    timings_ms: Mapping[str, float]
    notice: str = ""
    hint: str = ""
    pool: Mapping[str, object] = field(default_factory=dict)  # of `asr` and `subgraph`


class Event(NamedTuple):
    """One event of a stream: the context, a piece of the answer, the whole answer, or an error."""

    kind: Literal["context", "token", "done", "error"]
    data: Context | str | Answered | AppError


async def retrieve(workspace: Workspace, models: Models, question: Question) -> Retrieved:
    """The context for a question; no answering model is called."""
    return await _retrieve(workspace, models, question, Clock())


async def answer(
    workspace: Workspace, models: Models, question: Question, *,
    only_context: bool = False, explain: bool = False,
) -> Answered:  # fmt: skip
    """Raises `NoModel` for modes that take a language model where there is none."""
    run = _Run(workspace, models, question, only_context=only_context, explain=explain)
    async for _ in run.events():
        pass
    return run.answered()


async def stream(
    workspace: Workspace, models: Models, question: Question, *, explain: bool = False
) -> AsyncGenerator[Event, None]:
    """context, token…, done; or error as the last event, whenever an expected error occurs."""
    run = _Run(workspace, models, question, only_context=False, explain=explain)
    try:
        async with aclosing(run.events()) as events:  # a client that leaves ends the model call
            async for event in events:
                yield event
    except AppError as error:
        yield Event("error", error)
        return
    yield Event("done", run.answered())


class _Run:
    """One question on its way; collects what the answer is made from."""

    def __init__(
        self, workspace: Workspace, models: Models, question: Question, *,
        only_context: bool, explain: bool,
    ) -> None:  # fmt: skip
        self._workspace, self._models, self._question = workspace, models, question
        self._only_context, self._explains = only_context, explain
        self._clock = Clock()
        self._context = Context()
        self._explain: Mapping[str, object] = {}
        self._pieces: list[str] = []
        self._model: str | None = None
        self._notice = self._hint = ""

    async def events(self) -> AsyncGenerator[Event, None]:
        if self._question.mode is Mode.BYPASS:
            async with aclosing(self._bypass()) as events:
                async for event in events:
                    yield event
            return
        got = await _retrieve(self._workspace, self._models, self._question, self._clock)
        # An answerer without a model judges each sentence, and costs nothing to ask.
        speaks = got.relevant or self._models.answerer.model is None
        shown = got.context if speaks or self._only_context else Context()
        self._context, self._explain, self._hint = shown, got.explain, got.found.hint
        yield Event("context", shown)
        if self._only_context:
            return
        if not shown.empty:
            async with aclosing(self._written()) as events:
                async for event in events:
                    yield event
        if not any(piece.strip() for piece in self._pieces):
            self._model, self._notice = None, NOTHING_FOUND
            self._pieces = [absence.nothing_found(self._question)]
            yield Event("token", self._pieces[0])

    async def _written(self) -> AsyncGenerator[Event, None]:
        self._model = self._models.answerer.model
        marks = citations.Stream(self._context.sources)
        with self._clock.stage("answer"):
            answer = self._models.answerer.answer(self._question, self._context)
            async with aclosing(answer):
                async for piece in answer:
                    if isinstance(piece, Usage):
                        self._clock.usage += piece
                        continue
                    self._pieces.append(piece)
                    if text := marks.feed(piece):
                        yield Event("token", text)
            if text := marks.end():
                yield Event("token", text)
        if self._model is not None and not any(piece.strip() for piece in self._pieces):
            raise BadModelOutput(
                "The model wrote no answer. Ask again, or use only_context to see what was found.",
                code="empty_answer",
            )

    async def _bypass(self) -> AsyncGenerator[Event, None]:
        model = self._models.answerer.model
        if model is None:
            raise NoModel(
                "Mode bypass asks a language model without retrieval, and none is configured. Set "
                "HELIOGRAPH_LLM_URL, or choose another mode."
            )
        prompt = Prompt(_instruction(self._question), self._question.text, self._question.history)
        with self._clock.stage("answer"):
            completion = await self._models.answerer.complete(prompt)
        self._model = model
        self._clock.usage += completion.usage
        self._pieces = [completion.text]
        yield Event("token", completion.text)

    def answered(self) -> Answered:
        text = "".join(self._pieces)
        if self._question.mode is Mode.BYPASS:
            checked = citations.Checked(text.strip(), (), (), ())
        else:
            checked = citations.check(text, self._context.sources)
        explain: dict[str, object] = {}
        if self._pieces and self._model is None and not checked.citations and self._context.sources:
            self._notice = NOTHING_FOUND  # sentences of documents always have a mark
        if self._explains:
            explain = dict(self._explain)
            explain["dropped_marks"] = list(checked.dropped)
            explain["unsourced"] = [] if self._notice else list(checked.unsourced)
        timings = self._clock.read()
        log.info(
            "query.answered workspace=%s mode=%s sources=%d citations=%d dropped=%d calls=%d "
            "ms=%.0f",
            self._workspace.name, self._question.mode, len(self._context.sources),
            len(checked.citations), len(checked.dropped), self._clock.usage.llm_calls,
            timings["total"],
        )  # fmt: skip
        return Answered(
            checked.text, self._question.mode, self._model, checked.citations, self._context,
            explain, self._clock.usage, timings, self._notice, self._hint,
            self._pool(),
        )  # fmt: skip

    def _pool(self) -> Mapping[str, object]:
        pool = self._explain.get("pool")
        return {**pool, "scorer": self._explain["scorer"]} if isinstance(pool, dict) else {}


def _instruction(question: Question) -> str:
    wishes = [
        f"Answer in this language: {question.language}." if question.language else "",
        f"Form of the answer: {question.response_type}." if question.response_type else "",
    ]
    return " ".join(wish for wish in wishes if wish)


def _check_levels(question: Question) -> None:
    """Ablations that leave a mode nothing to retrieve with are a mistake of the caller."""
    mode = question.rq_base if question.mode is Mode.RQ else question.mode
    without = [name for name in ONLY_LEVELS.get(mode, ()) if not getattr(question, name)]
    if without and len(without) == len(ONLY_LEVELS[mode]):
        raise Invalid(
            f"Mode {mode} has nothing left to retrieve with when {' and '.join(without)} "
            f"{'is' if len(without) == 1 else 'are'} false. Choose another mode, or leave it on.",
            code="nothing_to_retrieve",
        )


async def _retrieve(
    workspace: Workspace, models: Models, question: Question, clock: Clock
) -> Retrieved:
    if question.mode is Mode.BYPASS:
        raise Invalid("Mode bypass retrieves nothing.", code="no_context")
    asked = replace(question, text=standing_alone(question))
    choice: auto.Choice | None = None
    if asked.mode is Mode.AUTO:
        with clock.stage("choose"):
            choice = await auto.choose(workspace, asked)
        asked = replace(asked, mode=choice.mode)
    _check_levels(asked)
    retriever = MODES[asked.mode]
    if asked.mode is Mode.MIX and asked.mix_style == "lightrag":
        retriever = dual.hybrid_and_naive
    with clock.stage("retrieve"):
        found = await retriever(workspace, models, asked, clock)
    with clock.stage("pack"):
        packed = await context.pack(workspace, models, asked, found)
    relevant = is_relevant(asked, found, packed.context)
    explain: dict[str, object] = {
        "mode": asked.mode.value,
        "query": asked.text,
        "keywords": {"low": list(found.keywords.low), "high": list(found.keywords.high)},
        **({"auto": choice.explained(found)} if choice else {}),
        **found.explain,
        "cut_by_budget": asdict(packed.cut),
        "tokens": packed.context.tokens,
        "reranked": packed.reranked,
        "relevant": relevant,
    }
    return Retrieved(found, packed.context, relevant, explain, clock.usage, clock.read())
