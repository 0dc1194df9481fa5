"""Roles: what the service needs a mind for; a language model or rules may play each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, Protocol

from app.domain import (
    Asked,
    Compared,
    Completion,
    Context,
    Embeddings,
    Extraction,
    Fact,
    Judgement,
    KeyPoints,
    Keywords,
    Passages,
    Prompt,
    Proposed,
    Queries,
    Question,
    Report,
    Reported,
    Usage,
)


class Extractor(Protocol):
    @property
    def by_model(self) -> bool: ...

    @property
    def version(self) -> str:
        """Model and prompt version: part of every extraction key."""
        ...

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction: ...


class Profiler(Protocol):
    @property
    def by_model(self) -> bool: ...

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Completion:
        """A text of at most `limit` tokens that says what the descriptions say."""
        ...


class Keyworder(Protocol):
    @property
    def by_model(self) -> bool: ...

    async def keywords(self, question: Question) -> Keywords: ...


class Rewriter(Protocol):
    """Turns a question into what is easier to search for. A reply that cannot be used gives
    nothing; the question itself then retrieves."""

    async def passages(self, question: Question, *, count: int) -> Passages:
        """At most so many texts as a document that answers might hold."""
        ...

    async def queries(self, question: Question, *, sequential: bool) -> Queries:
        """At most a handful. `sequential`: they may name the answers of earlier ones."""
        ...

    async def short_answer(self, query: str, texts: Sequence[str]) -> Completion:
        """A few words from the texts; "" where they do not tell."""
        ...


class Answerer(Protocol):
    @property
    def model(self) -> str | None:
        """None: no language model writes the answers."""
        ...

    def answer(self, question: Question, context: Context) -> AsyncGenerator[str | Usage, None]:
        """Pieces of text with `[n]` marks of context sources; usage once, at the end. No text: the
        sources do not tell."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """For bypass and rewriting; `Unavailable` without a model."""
        ...


class Embedder(Protocol):
    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        """Unit vectors, one per text. A document's text that the model cannot embed, even alone
        and in another form, gets the empty vector: it is to be left out, with a warning."""
        ...


class Reranker(Protocol):
    async def scores(self, query: str, texts: Sequence[str]) -> list[float]: ...


class Trained(Protocol):
    """Weights that score relations for mode `asr`; `version` identifies them."""

    @property
    def version(self) -> str: ...

    @property
    def network(self) -> Any:
        """`app.query.anchored.network.Network`"""
        ...


class Scorers(Protocol):
    def of(self, workspace: str) -> Trained | None:
        """None: no usable ones; a formula scores instead."""
        ...

    def notices(self) -> list[str]:
        """Files that cannot be used, and why; names no workspace."""
        ...


class Judge(Protocol):
    async def judge(self, asked: Sequence[Asked]) -> Judgement:
        """Whether the two names of each pair mean one thing."""
        ...


class Referee(Protocol):
    """Compares answers and thinks up questions, for evaluations."""

    @property
    def model(self) -> str: ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """Name to digest of each prompt that it uses: part of every record."""
        ...

    async def compare(
        self, question: str, first: str, second: str, criteria: Mapping[str, str]
    ) -> Compared:
        """`criteria`: name to what it means."""
        ...

    async def describe(self, samples: Sequence[str]) -> Completion:
        """What a collection is about, told from pieces of it."""
        ...

    async def propose(
        self, what: Literal["users", "tasks", "questions"], about: Mapping[str, str], count: int
    ) -> Proposed:
        """Users of the collection (`about`: its `description`), tasks of a `user`, or questions
        for a `task` of a `user`."""
        ...


class Reporter(Protocol):
    @property
    def by_model(self) -> bool: ...

    async def report(self, facts: Sequence[Fact]) -> Reported:
        """On a community, from what is known of its members, most central first. `BadModelOutput`
        or `Invalid` where the model refuses."""
        ...

    async def points(self, question: Question, reports: Sequence[Report]) -> KeyPoints:
        """What in these reports helps to answer; none that scores 0."""
        ...


class Tokenizer(Protocol):
    def count(self, text: str) -> int: ...

    def cut(self, text: str, limit: int) -> str:
        """The longest prefix of at most `limit` tokens that ends at a character boundary."""
        ...

    def offsets(self, text: str) -> Sequence[int]:
        """Start offset (in characters) of every token; lets callers cut by tokens exactly."""
        ...
