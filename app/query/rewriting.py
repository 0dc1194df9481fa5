"""Modes `hyde` and `rq`: a model first turns the question into what is easier to search for.

`hyde` (Gao et al. 2022, arXiv 2212.10496) searches chunks by the mean of the vectors of N passages
that the model made up and of the question's own: v = [f(q) + Σ f(d_i)] / (N + 1). By vector alone,
as the paper has it.

`rq` (after RQ-RAG, Chan et al. 2024, arXiv 2404.00610) has the model rewrite, decompose or
disambiguate the question. The question and each query are retrieved by a base mode, and the
rankings fused: by steep reciprocal ranks, or, where queries needed earlier answers and got them
all, by the sum of their scores (`docs/measurements.md`).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.domain import Hit, Kind, Mode, Question, Vector, VectorQuery
from app.errors import Invalid, NoModel
from app.ports import Models, Rewriter, Workspace
from app.query import direct, dual, walk
from app.query.found import Clock, Found
from app.query.ranking import best_first, fuse, take_turns
from app.together import together

BASES: Mapping[Mode, Callable[[Workspace, Models, Question, Clock], Awaitable[Found]]] = {
    Mode.NAIVE: dual.naive,
    Mode.LOCAL: dual.local,
    Mode.GLOBAL: dual.global_,
    Mode.HYBRID: dual.hybrid,
    Mode.MIX: walk.mix,
    Mode.PPR: walk.ppr,
}
STEEP = 5  # k of the reciprocal ranks: what one query finds first must not drown
BRIDGE_CHUNKS = 5  # that a short answer is looked for in
SHOWN = 5
_REFERENCE = re.compile(r"#(\d)")


@dataclass(frozen=True, slots=True)
class Leg:
    """What one query found. `text` is what was searched for, with the answers of earlier ones."""

    text: str
    found: Found
    answer: str = ""


async def hyde(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    """Raises `NoModel`."""
    rewriter = _rewriter(models, question.mode)
    if await _nothing_stored(workspace, question):
        return Found()
    with clock.stage("passages"):
        made = await rewriter.passages(question, count=question.hyde_passages)
    clock.usage += made.usage
    with clock.stage("embed"):
        own, written = await asyncio.gather(
            models.embedder.embed([question.text], purpose="query"),
            models.embedder.embed(made.texts, purpose="document"),
        )
    clock.usage += own.usage + written.usage
    [asked] = own.vectors
    limit = max(direct.CHUNK_LEG, question.chunk_top_k)
    with clock.stage("search"):
        hits, nearest = await workspace.vectors.search(
            [
                _by_meaning(limit, mean([asked, *written.vectors]), question),
                _by_meaning(1, asked, question),
            ]
        )
    return Found(
        chunks=tuple(hits),
        # Of the question itself: what was made up about it is near to anything on its subject.
        likeness=nearest[0].score if nearest else 0.0,
        explain={"passages": list(made.texts), "hits": {"dense": len(hits)}},
    )


async def rq(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    """Raises `NoModel`."""
    rewriter = _rewriter(models, question.mode)
    if question.rq_base not in BASES:
        raise Invalid(f"Mode rq cannot retrieve by mode {question.rq_base}.")
    if await _nothing_stored(workspace, question):
        return Found()
    with clock.stage("queries"):
        made = await rewriter.queries(question, sequential=question.rq_sequential)
    clock.usage += made.usage
    with clock.stage("legs"):
        legs = await _legs(workspace, models, question, made.texts, rewriter=rewriter, clock=clock)
    founds = [leg.found for leg in legs]
    return Found(
        chunks=tuple(fused(legs, made.texts)),
        entities=tuple(take_turns([found.entities for found in founds])),
        relations=tuple(take_turns([found.relations for found in founds])),
        keywords=founds[0].keywords,
        names=tuple(dict.fromkeys(name for found in founds for name in found.names)),
        likeness=max(found.likeness for found in founds),
        explain={
            "rewriting": {
                "kind": made.kind.value,
                "base": question.rq_base.value,
                "queries": [_explained(leg) for leg in legs],
            }
        },
    )


def _rewriter(models: Models, mode: Mode) -> Rewriter:
    if models.rewriter is None:
        raise NoModel(
            f"Mode {mode} has a language model rewrite the question, and none is configured. Set "
            "HELIOGRAPH_LLM_URL, or choose another mode."
        )
    return models.rewriter


async def _nothing_stored(workspace: Workspace, question: Question) -> bool:
    """Then no model need be asked."""
    if question.documents is not None and not question.documents:
        return True
    return not (await workspace.graph.stats()).chunks


# --- hyde ----------------------------------------------------------------------------------------


def mean(vectors: Sequence[Vector]) -> Vector:
    """At unit length; of those that have a direction. () where none has."""
    known = [vector for vector in vectors if any(vector)]
    total = [math.fsum(column) for column in zip(*known, strict=True)]
    length = math.hypot(*total)
    return tuple(value / length for value in total) if length else ()


def _by_meaning(limit: int, vector: Vector, question: Question) -> VectorQuery:
    return direct.by_meaning(Kind.CHUNK, limit, vector, documents=question.documents)


# --- rq ------------------------------------------------------------------------------------------


async def _legs(
    workspace: Workspace, models: Models, question: Question, texts: Sequence[str], *,
    rewriter: Rewriter, clock: Clock,
) -> list[Leg]:  # fmt: skip
    """The question's own first, then those of its queries, in order. A query that names the answer
    of an earlier one waits for it; the others go out together. So there are no more rounds than
    queries."""
    source = "query" if question.keyword_source == "auto" else question.keyword_source
    own = replace(question, keyword_source=source)
    if not question.rq_sequential:
        texts = [_filled(text, len(texts) + 1, {}) for text in texts]
    waiting = dict(enumerate(texts, start=1))
    done: dict[int, Leg] = {}
    ready = {0: question.text}
    while ready or waiting:
        for number, text in list(waiting.items()):
            if all(int(one) in done for one in _needed(text, number)):
                ready[number] = _filled(waiting.pop(number), number, done)
        wanted = {int(one) for number, text in waiting.items() for one in _needed(text, number)}
        async with together() as tasks:
            made = {
                number: tasks.create_task(
                    _leg(
                        workspace, models, own if not number else _sub(own, text),
                        rewriter=rewriter if number in wanted else None, clock=clock,
                    )
                )
                for number, text in ready.items()
            }  # fmt: skip
        done.update({number: task.result() for number, task in made.items()})
        ready = {}
    return [done[number] for number in sorted(done)]


def _sub(question: Question, text: str) -> Question:
    """A query stands alone; the caller's keywords were meant for the whole question."""
    return replace(question, text=text, history=(), keywords=None)


def _needed(text: str, number: int) -> list[str]:
    """References to earlier queries; others mean nothing."""
    return [one for one in _REFERENCE.findall(text) if 0 < int(one) < number]


def _filled(text: str, number: int, done: Mapping[int, Leg]) -> str:
    def answer(match: re.Match[str]) -> str:
        earlier = done.get(int(match[1])) if 0 < int(match[1]) < number else None
        return earlier.answer if earlier else ""

    return " ".join(_REFERENCE.sub(answer, text).split())


async def _leg(
    workspace: Workspace, models: Models, question: Question, *,
    rewriter: Rewriter | None, clock: Clock,
) -> Leg:  # fmt: skip
    """With a rewriter, the query is answered in a few words too."""
    own = Clock()  # what goes on side by side would be added up as if it went on in turn
    try:
        found = await BASES[question.rq_base](workspace, models, question, own)
        if rewriter is None or not found.chunks:
            return Leg(question.text, found)
        keys = [hit.key for hit in found.chunks[:BRIDGE_CHUNKS]]
        chunks = {chunk.id: chunk.text for chunk in await workspace.graph.chunks(keys)}
        said = await rewriter.short_answer(
            question.text, [chunks[key] for key in keys if key in chunks]
        )
        own.usage += said.usage
        return Leg(question.text, found, said.text)
    finally:
        clock.usage += own.usage


def fused(legs: Sequence[Leg], texts: Sequence[str]) -> list[Hit]:
    """Of the question and its queries, which read `texts` before answers were filled in."""
    rankings = [leg.found.chunks for leg in legs]
    needed = {int(one) for n, text in enumerate(texts, start=1) for one in _needed(text, n)}
    if not needed or not all(legs[number].answer for number in needed):
        return fuse([[hit.key for hit in hits] for hits in rankings], k=STEEP)
    scores: defaultdict[str, float] = defaultdict(float)
    for hits in rankings:
        top = hits[0].score if hits and hits[0].score > 0 else 1.0
        for hit in hits:
            scores[hit.key] += hit.score / top
    return best_first(scores)


def _explained(leg: Leg) -> dict[str, object]:
    shown: dict[str, object] = {
        "query": leg.text,
        "chunks": [hit.key for hit in leg.found.chunks[:SHOWN]],
    }
    return {**shown, "answer": leg.answer} if leg.answer else shown
