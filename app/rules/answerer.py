"""Answers without a language model: the sentences of the passages that fit the question best."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from app.domain import Completion, Context, Prompt, Question, Usage, Vector
from app.errors import Unavailable
from app.ports import Embedder
from app.recent import Recent
from app.rules.evidence import (
    EMBEDDED,
    MAX_SENTENCES,
    PASSAGES,
    W_COSINE,
    Asked,
    Candidate,
    asked,
    chosen,
    cosine,
    names_a_time,
    scored,
    title_of,
)
from app.rules.lexicon import english
from app.rules.sentences import Piece, pieces, stems
from app.rules.wording import Wording, wording

# Nothing is relevant below both. Tuned on 449 questions to their own corpora (0.2 % refused) and on
# 290 to corpora about something else (90 % refused). Questions that a corpus could answer, but does
# not, look like answerable ones to any such measure.
MIN_SUM, MIN_COSINE = 0.525, 0.45
REMEMBERED_SENTENCES, REMEMBERED_CHUNKS = 4096, 256
_YES_NO = re.compile(
    r"^(?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|should|may|must)\b"
    r"|^(?:ist|sind|war|waren|hat|haben|kann|est-ce|es|son|è|sono)\b|吗[？?]?$|是否",
    re.IGNORECASE,
)
_LIST = re.compile(r"\b(?:list|bullet|liste|lista)|列表", re.IGNORECASE)
_SHORT = re.compile(
    r"\b(?:short|single|brief|one sentence|kurz|court|corto|breve)\b|简短", re.IGNORECASE
)
_COMPARISON = re.compile(
    r"\bor\b|\bboth\b|\bsame\b|\bcompare|\bdifference\b|还是|\boder\b|\bou\b", re.IGNORECASE
)
_FIRST_WORD = re.compile(r"\W*(\w+)")


@dataclass(frozen=True, slots=True)
class Relevance:
    """How well the best sentence fits: share of the question's words, cosine of the meanings."""

    lexical: float
    cosine: float
    general: bool = False  # the question names nothing that a passage could lack ("summarise this")

    @property
    def enough(self) -> bool:
        return (
            self.general
            or self.lexical + max(0.0, self.cosine) >= MIN_SUM
            or self.cosine >= MIN_COSINE
        )


@dataclass(frozen=True, slots=True)
class _Ranked:
    candidates: list[Candidate]
    vectors: dict[str, Vector]
    relevance: Relevance
    usage: Usage


class RuleAnswerer:
    """The port `Answerer`, played by rules: it quotes, and never writes a sentence about them."""

    model = None

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._sentences: Recent[str, Vector] = Recent(REMEMBERED_SENTENCES)
        self._pieces: Recent[str, list[Piece]] = Recent(REMEMBERED_CHUNKS)

    async def answer(
        self, question: Question, context: Context
    ) -> AsyncGenerator[str | Usage, None]:
        """Lines with `[n]` marks; none where nothing fits the question. Every sentence before a
        mark is a slice of that source's chunk; what stands before it in brackets is its document's
        title."""
        said = wording(question.text, question.language)
        ranked = await self._ranked(question, context)
        if not ranked.candidates and not context.sources:
            for piece in _of_graph(context, said):
                yield piece
        elif ranked.relevance.enough:
            picked = _picked(question, ranked)
            yield said.evidence if _YES_NO.search(question.text.strip()) else said.passages
            apart = asked(question.text).when
            bullets = bool(_LIST.search(question.response_type))
            for line in _lines(picked, said, bullets=bullets, apart=apart):
                yield line
        yield ranked.usage

    async def relevance(self, question: Question, context: Context) -> Relevance:
        """Whether the context has anything to say; zeros without sources."""
        return (await self._ranked(question, context)).relevance

    async def complete(self, prompt: Prompt) -> Completion:
        raise Unavailable(
            "This needs a language model and none is configured. Set HELIOGRAPH_LLM_URL, or choose "
            "another mode."
        )

    async def _ranked(self, question: Question, context: Context) -> _Ranked:
        candidates = await asyncio.to_thread(self._candidates, question, context)
        near = candidates[:EMBEDDED]
        vectors, usage = await self._vectors([candidate.embedded for candidate in near])
        made = await self._embedder.embed([question.text], purpose="query")
        [own] = made.vectors
        likeness = [cosine(own, vectors[candidate.embedded]) for candidate in near]
        rescored = [
            replace(candidate, score=candidate.score + W_COSINE * max(0.0, like))
            for candidate, like in zip(near, likeness, strict=True)
        ]
        rescored.sort(key=lambda c: (-c.score, c.rank, c.place))
        relevance = Relevance(
            max((candidate.lexical for candidate in candidates), default=0.0),
            max(likeness, default=0.0),
            general=bool(candidates) and not (stems(question.text) - _general()),
        )
        return _Ranked(rescored, vectors, relevance, usage + made.usage)

    def _candidates(self, question: Question, context: Context) -> list[Candidate]:
        wanted = asked(question.text)
        found: list[Candidate] = []
        for rank, source in enumerate(context.sources[:PASSAGES]):
            text = source.chunk.text
            own = self._pieces.get(text)
            if own is None:
                own = pieces(text)
                self._pieces.put(text, own)
            found += [Candidate(source, piece, place, rank) for place, piece in enumerate(own)]
        return scored(wanted, found)

    async def _vectors(self, texts: Sequence[str]) -> tuple[dict[str, Vector], Usage]:
        usage = Usage()
        found = {text: known for text in texts if (known := self._sentences.get(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            made = await self._embedder.embed(missing, purpose="document")
            usage = made.usage
            for text, vector in zip(missing, made.vectors, strict=True):
                self._sentences.put(text, vector)
                found[text] = vector
        return found, usage


@cache
def _general() -> frozenset[str]:
    lists = english()
    return stems(" ".join([*lists["general"], *lists["instruction"]]))


def _picked(question: Question, ranked: _Ranked) -> list[Candidate]:
    wanted = asked(question.text)
    most = 1 if _SHORT.search(question.response_type) else MAX_SENTENCES
    candidates = [c for c in ranked.candidates if not c.piece.heading] or ranked.candidates
    picked = chosen(candidates, ranked.vectors, sentences=most)
    if wanted.when:
        picked.sort(key=lambda candidate: not names_a_time(candidate.text))
    if len(wanted.names) > 1 and most > 1 and _COMPARISON.search(question.text):
        picked = _one_for_each(wanted, candidates, picked)
    return picked


def _one_for_each(
    wanted: Asked, candidates: Sequence[Candidate], picked: Sequence[Candidate]
) -> list[Candidate]:
    """A comparison shows the best sentence about each name, then the others."""
    first: list[Candidate] = []
    for name in wanted.names:
        about = next((c for c in candidates if name <= c.piece.stems), None)
        if about is not None and about not in first:
            first.append(about)
    return [*first, *(c for c in picked if c not in first)][: max(MAX_SENTENCES, len(first))]


def _lines(picked: Sequence[Candidate], said: Wording, *, bullets: bool, apart: bool) -> list[str]:
    """The sentences in order of score, neighbours of one passage together in the text's order; the
    first one by itself if it stands `apart`."""
    groups: list[list[Candidate]] = []
    for candidate in picked:
        open_groups = groups[1:] if apart else groups
        group = next((g for g in open_groups if any(_beside(candidate, o) for o in g)), None)
        if group is None or bullets:
            groups.append([candidate])
        else:
            group.append(candidate)
    lines = []
    for group in groups:
        ordered = sorted(group, key=lambda candidate: candidate.place)
        parts = [_quoted(candidate, said, first=not n) for n, candidate in enumerate(ordered)]
        lines.append(("\n- " if bullets else "\n\n") + " ".join(parts))
    return lines


def _beside(one: Candidate, other: Candidate) -> bool:
    return one.source.number == other.source.number and abs(one.place - other.place) == 1


def _quoted(candidate: Candidate, said: Wording, *, first: bool) -> str:
    text = " ".join(candidate.text.split())  # lines of the document are no lines of the answer
    opening = _FIRST_WORD.match(text)
    title = title_of(candidate.source)
    refers = opening is not None and (
        opening.group(1).lower() in said.pronouns or text[:1] in said.pronouns
    )
    lead = f"({title}) " if first and refers and title else ""
    return f"{lead}{text} [{candidate.source.number}]"


def _of_graph(context: Context, said: Wording) -> list[str]:
    """Without passages: what the graph says, which nothing can be cited for."""
    texts = [
        item.text
        for items in (context.themes, context.entities, context.relations)
        for item in items
    ]
    texts = [text for text in texts if text.strip()]
    return [said.passages, *(f"\n\n{text}" for text in texts[:MAX_SENTENCES])] if texts else []
