"""Modes naive, local, global and hybrid: LightRAG's two levels of retrieval (arXiv 2410.05779).

Low-level keywords find entities, their relations (one hop) and chunks; high-level keywords find
relations, their endpoint entities and chunks. Each keyword has a vector of its own, searched dense
and sparse, and all rankings are fused by place.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.domain import (
    EntityLinks,
    Hit,
    Keywords,
    Kind,
    Question,
    Relation,
    Vector,
    VectorQuery,
    relation_ends,
)
from app.ports import Models, Workspace
from app.query import direct
from app.query.found import Clock, Found
from app.query.keywords import keywords_of
from app.query.links import idf
from app.query.ranking import best_first, fuse, spread, take_turns
from app.query.scope import Scope, scope_of
from app.terms import query_sparse

PER_ENTITY = 16  # relations and chunks of one hit that are read
PER_RELATION = 16
HUB = 48  # chunks of an entity that are read; of a hub, those nearest to the question count anyway
TIED = 0.5  # weight of a chunk's ties to the hits beside its nearness to the question
MOST_CHUNKS = 2000  # candidates that are compared with the question


@dataclass(frozen=True, slots=True)
class Sought:
    """A question prepared for searching: its own vector and one per keyword."""

    question: Question
    scope: Scope
    keywords: Keywords
    vectors: Mapping[str, Vector]
    low: tuple[str, ...]
    high: tuple[str, ...]


async def naive(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    sought = await _sought(workspace, models, replace(question, keyword_source="query"), clock)
    with clock.stage("search"):
        legs = await _chunk_legs(workspace, sought)
    scores = direct.direct_scores(legs, {}, dense_weight=workspace.options.dense_weight)
    return Found(
        chunks=tuple(best_first(scores)),
        likeness=legs.likeness,
        explain={"hits": {"dense": len(legs.chunk_dense), "sparse": len(legs.chunk_sparse)}},
    )


async def local(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    sought = await _sought(workspace, models, question, clock)
    return await _both(workspace, sought, clock, low=True, high=False)


async def global_(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    sought = await _sought(workspace, models, question, clock)
    return await _both(workspace, sought, clock, low=False, high=True)


async def hybrid(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    sought = await _sought(workspace, models, question, clock)
    return await _both(workspace, sought, clock, low=question.low_level, high=question.high_level)


async def hybrid_and_naive(
    workspace: Workspace, models: Models, question: Question, clock: Clock
) -> Found:
    """What the reference calls `mix`: hybrid and naive chunks in turns."""
    graph, plain = await asyncio.gather(
        hybrid(workspace, models, question, clock), naive(workspace, models, question, clock)
    )
    chunks = take_turns([plain.chunks, graph.chunks])
    return replace(graph, chunks=tuple(chunks), likeness=max(graph.likeness, plain.likeness))


# --- preparation ---------------------------------------------------------------------------------


async def _sought(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Sought:
    """Keywords are joined by the question itself, which says what they leave out (recall rises on
    every set); a caller's own keywords stand alone."""
    scope, keywords = await asyncio.gather(
        scope_of(workspace, question), keywords_of(models, question, clock)
    )
    low, high = _searched(question, keywords.low), _searched(question, keywords.high)
    texts = list(dict.fromkeys([question.text, *low, *high]))
    with clock.stage("embed"):
        made = await models.embedder.embed(texts, purpose="query")
    clock.usage += made.usage
    vectors = dict(zip(texts, made.vectors, strict=True))
    return Sought(question, scope, keywords, vectors, low, high)


def _searched(question: Question, keywords: Sequence[str]) -> tuple[str, ...]:
    own = () if keywords and question.keywords is not None else (question.text,)
    return tuple(dict.fromkeys([*keywords, *own]))


def _queries(
    sought: Sought, kind: Kind, texts: Sequence[str], within: Sequence[str] | None
) -> list[VectorQuery]:
    limit = max(sought.question.top_k, 10)
    return [
        query
        for text in texts
        for query in (
            direct.by_meaning(kind, limit, sought.vectors[text], within=within),
            VectorQuery(kind, limit, sparse=query_sparse(text), within=within),
        )
    ]


async def _chunk_legs(workspace: Workspace, sought: Sought) -> direct.Legs:
    if sought.scope.empty:
        return direct.Legs()
    dense, sparse = await workspace.vectors.search(_chunk_queries(sought))
    return direct.Legs(dense, sparse)


def _chunk_queries(sought: Sought) -> list[VectorQuery]:
    text = sought.question.text
    return direct.chunk_queries(sought.vectors[text], query_sparse(text), sought.scope)


# --- two levels ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """What one level found: its hits, what hangs on them, and how strongly each chunk is tied."""

    entities: Sequence[Hit]
    relations: Sequence[Hit]
    chunks: Mapping[str, float]


async def _both(
    workspace: Workspace, sought: Sought, clock: Clock, *, low: bool, high: bool
) -> Found:
    if sought.scope.empty or not (low or high):
        return Found(keywords=sought.keywords)
    own = _chunk_queries(sought)
    things = _queries(sought, Kind.ENTITY, sought.low, sought.scope.entities) if low else []
    themes = _queries(sought, Kind.RELATION, sought.high, sought.scope.relations) if high else []
    with clock.stage("search"):
        found = await workspace.vectors.search([*own, *things, *themes])
    legs = direct.Legs(found[0], found[1])
    entity_hits = _by_place(found[2 : 2 + len(things)])
    relation_hits = _by_place(found[2 + len(things) :])
    with clock.stage("neighbours"):
        levels = await _levels(workspace, sought, legs, entity_hits, relation_hits)
    candidates = sorted({chunk for level in levels for chunk in level.chunks})[:MOST_CHUNKS]
    with clock.stage("rank"):
        nearest = await _nearest(workspace, sought, candidates)
    rankings = [_ranked_chunks(level, nearest) for level in levels]
    return Found(
        chunks=tuple(take_turns(rankings) if len(rankings) > 1 else rankings[0]),
        entities=tuple(_merged([level.entities for level in levels])),
        relations=tuple(_merged([level.relations for level in levels])),
        keywords=sought.keywords,
        likeness=legs.likeness,
        explain={
            "low": list(sought.low) if low else [],
            "high": list(sought.high) if high else [],
            "hits": {
                "entities": len(entity_hits),
                "relations": len(relation_hits),
                "chunks": len(candidates),
            },
        },
    )


def _by_place(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Fused by place, and scored by it: what hangs on the first hit counts most."""
    fused = fuse([hit.key for hit in hits] for hits in rankings)
    return [Hit(hit.key, 1 / place) for place, hit in enumerate(fused, start=1)]


def _merged(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    return list(rankings[0]) if len(rankings) == 1 else take_turns(rankings)


async def _levels(
    workspace: Workspace, sought: Sought, legs: direct.Legs,
    entity_hits: Sequence[Hit], relation_hits: Sequence[Hit],
) -> list[Level]:  # fmt: skip
    """Reads everything that hangs on the hits of both levels in one round."""
    graph, documents = workspace.graph, sought.scope.documents
    top = sought.question.top_k
    entity_keys = [hit.key for hit in entity_hits[: 2 * top if documents else top]]
    relation_keys = [hit.key for hit in relation_hits[: 2 * top if documents else top]]
    ends = list(dict.fromkeys(end for key in relation_keys for end in relation_ends(key)))
    near = sorted({hit.key for hit in (*legs.chunk_dense, *legs.chunk_sparse)})
    rows, around, asserted, links, stats = await asyncio.gather(
        graph.entity_links(sorted({*entity_keys, *ends}), chunks=HUB, about=4, documents=documents),
        graph.relations_of(entity_keys, per_entity=PER_ENTITY, documents=documents),
        graph.relation_chunks(relation_keys, per_relation=PER_RELATION, documents=documents),
        graph.chunk_links(near),
        graph.stats(),
    )
    known = {row.key: row for row in rows if row.chunks or row.about}
    ties = {link.chunk_id: link for link in links}
    levels = []
    if entity_hits:
        hits = [hit for hit in entity_hits if hit.key in known][:top]
        mentioned = {chunk: link.entities for chunk, link in ties.items()}
        levels.append(_low(hits, known, around, mentioned, passages=stats.chunks, top=top))
    if relation_hits:
        hits = [hit for hit in relation_hits if asserted.get(hit.key)][:top]
        stated = {chunk: link.relations for chunk, link in ties.items()}
        levels.append(_high(hits, asserted, known, stated))
    return levels or [Level((), (), {})]


def _low(
    hits: Sequence[Hit], known: Mapping[str, EntityLinks], around: Sequence[Relation],
    mentioned: Mapping[str, Sequence[str]], *, passages: int, top: int,
) -> Level:  # fmt: skip
    """Relations by the relevance of both ends, then weight. A chunk is tied by every hit that it
    mentions; what everything mentions ties little."""
    relevance = {hit.key: hit.score for hit in hits}
    relations = {
        one.key: relevance.get(one.source, 0.0) + relevance.get(one.target, 0.0) for one in around
    }
    weight = {one.key: one.weight for one in around}
    order = sorted(relations, key=lambda key: (-relations[key], -weight[key], key))
    chunks: defaultdict[str, float] = defaultdict(float)
    for hit in hits:
        row = known[hit.key]
        worth = hit.score * idf(row.mentions, passages)
        nearby = (chunk for chunk, keys in mentioned.items() if hit.key in keys)
        for chunk in {*row.chunks, *row.about, *nearby}:
            chunks[chunk] += worth
    return Level(hits, [Hit(key, relations[key]) for key in order[:top]], chunks)


def _high(
    hits: Sequence[Hit], asserted: Mapping[str, Sequence[str]], known: Mapping[str, EntityLinks],
    stated: Mapping[str, Sequence[str]],
) -> Level:  # fmt: skip
    entities: defaultdict[str, float] = defaultdict(float)
    chunks: defaultdict[str, float] = defaultdict(float)
    for hit in hits:
        for end in relation_ends(hit.key):
            if end in known:
                entities[end] += hit.score
        nearby = (chunk for chunk, keys in stated.items() if hit.key in keys)
        for chunk in {*asserted[hit.key], *nearby}:
            chunks[chunk] += hit.score
    return Level(best_first(entities), hits, chunks)


# --- chunks of the hits, nearest to the question first -------------------------------------------


async def _nearest(
    workspace: Workspace, sought: Sought, candidates: Sequence[str]
) -> dict[str, float]:
    """Likeness in [0, 1] of each candidate to the question, dense and sparse."""
    if not candidates:
        return {}
    text, limit = sought.question.text, len(candidates)
    dense, sparse = await workspace.vectors.search(
        [
            direct.by_meaning(Kind.CHUNK, limit, sought.vectors[text], within=candidates),
            VectorQuery(Kind.CHUNK, limit, sparse=query_sparse(text), within=candidates),
        ]
    )
    weight = workspace.options.dense_weight
    scores = dict(spread(sparse, limit))
    for key, score in spread(dense, limit).items():
        scores[key] = scores.get(key, 0.0) + weight * score
    return {key: score / (1 + weight) for key, score in scores.items()}


def _ranked_chunks(level: Level, nearest: Mapping[str, float]) -> list[Hit]:
    """Nearness to the question, and half as much how strongly the hits speak for a chunk."""
    most = max(level.chunks.values(), default=0.0) or 1.0
    return best_first(
        {key: TIED * tie / most + nearest.get(key, 0.0) for key, tie in level.chunks.items()}
    )
