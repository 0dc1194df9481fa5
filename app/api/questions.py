"""What a question may ask for: the bodies of requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.api.fields import Body, FilterBody, Words
from app.domain import Anchoring, Budget, Keywords, Mode, Question, Turn

MAX_QUERY = 8000
MAX_TURNS = 100
MAX_TURN_CHARACTERS = 16_000

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
