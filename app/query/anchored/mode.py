"""Modes `asr` and `subgraph`: relations around the question's topics and its most similar ones,
scored by likeness and structure.

`subgraph` is SubgraphRAG (Li et al., arXiv 2410.20724): likeness and distances from topics. `asr`
is Anchored SubgraphRAG (Sturtzkopf 2026): the relations most like the question are further places
to start from. docs/asr.md says what differs from both, and what each part is worth.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.domain import Hit, Keywords, Kind, Question, Vector, VectorQuery
from app.ports import Models, Trained, Workspace
from app.query import direct, dual
from app.query.anchored import chosen
from app.query.anchored.pool import SPARE, Pool, admit, choose_anchors, reach
from app.query.anchored.scoring import Cosines, Scored, scored
from app.query.anchored.topics import BY_VECTOR, Topic, topics_of
from app.query.found import Clock, Found
from app.query.keywords import keywords_of
from app.query.links import Linked, find_links, typo_queries
from app.query.scope import Scope, scope_of

log = logging.getLogger("heliograph.query")

PER_RELATION = 16  # chunks of a relation that are read
SUPPORT = 2  # times as many relations as are shown speak for passages
EXPLAINED = 40


@dataclass(frozen=True, slots=True)
class Start:
    """What the first searches found: places to start from, and hits by cosine."""

    topics: Sequence[Topic]
    anchors: Mapping[str, float]
    similar: Sequence[Hit]
    dense: Vector
    theme: Vector | None
    likeness: float


async def asr(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    return await _anchored(workspace, models, question, clock)


async def subgraph(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    without = tuple(dict.fromkeys([*question.anchoring.ablate, "anchors", "gate", "gnn"]))
    # Weights are of `asr`: this lacks the anchors that they were trained with.
    scorer = "cosine" if question.anchoring.scorer == "cosine" else "prior"
    plain = replace(question.anchoring, ablate=without, scorer=scorer)
    return await _anchored(workspace, models, replace(question, anchoring=plain), clock)


@dataclass(frozen=True, slots=True)
class Gathered:
    """A question's pool before it is scored."""

    keywords: Keywords
    start: Start
    pool: Pool
    cosines: Cosines


async def gather(
    workspace: Workspace, models: Models, question: Question, clock: Clock
) -> Gathered | None:
    """All that is read before the scoring; None where the pool is empty."""
    scope = await scope_of(workspace, question)
    if scope.empty:
        return None
    keywords = await _keywords(models, question, clock)
    start = await _start(workspace, models, question, keywords=keywords, scope=scope, clock=clock)
    with clock.stage("pool"):
        pool = await _pool(workspace, question, start, scope)
    if not pool.relations:
        return None
    with clock.stage("cosines"):
        return Gathered(keywords, start, pool, await _cosines(workspace, start, pool))


async def _anchored(
    workspace: Workspace, models: Models, question: Question, clock: Clock
) -> Found:
    gathered = await gather(workspace, models, question, clock)
    if gathered is None:
        plain = await dual.naive(workspace, models, question, clock)
        return replace(plain, explain={**plain.explain, "fallback": "naive"})
    scorer, trained = _scorer(models, question, workspace.name)
    with clock.stage("score"):
        result = await asyncio.to_thread(
            scored, gathered.pool, gathered.cosines,
            scorer=scorer,
            without=frozenset(question.anchoring.ablate),
            network=trained.network if trained else None,
        )  # fmt: skip
    with clock.stage("evidence"):
        found = await _found(workspace, question, gathered, result)
    log.info(
        "asr.scored workspace=%s relations=%d anchors=%d topics=%d truncated=%s late=%s scorer=%s",
        workspace.name, len(result.keys), len(gathered.pool.anchors), len(gathered.pool.topics),
        gathered.pool.truncated, gathered.pool.late, scorer,
    )  # fmt: skip
    version = {"weights": trained.version} if trained and scorer == "weights" else {}
    return replace(found, explain={**found.explain, **version})


def _scorer(models: Models, question: Question, workspace: str) -> tuple[str, Trained | None]:
    """What is used, which is the prior where there are no weights, whatever was asked for."""
    asked = question.anchoring.scorer
    if asked in ("cosine", "prior") or models.scorers is None:
        return asked if asked == "cosine" else "prior", None
    trained = models.scorers.of(workspace)
    return ("weights" if trained else "prior"), trained


async def _keywords(models: Models, question: Question, clock: Clock) -> Keywords:
    """Only what costs nothing, unless a model is asked for by name."""
    if question.keywords is None and question.keyword_source == "auto":
        return Keywords()
    return await keywords_of(models, question, clock)


# --- places to start from ------------------------------------------------------------------------


async def _start(
    workspace: Workspace, models: Models, question: Question, *, keywords: Keywords,
    scope: Scope, clock: Clock,
) -> Start:  # fmt: skip
    linked = Linked(())
    if question.low_level and "topic" not in question.anchoring.ablate:
        with clock.stage("links"):
            linked = await find_links(workspace.graph, question, keywords.low)
    themes = [", ".join(keywords.high)] if keywords.high and question.high_level else []
    low = [", ".join(keywords.low)] if keywords.low and question.low_level else []
    texts = [question.text, *themes, *low]
    with clock.stage("embed"):
        made = await models.embedder.embed(texts, purpose="query")
    clock.usage += made.usage
    theme = made.vectors[1] if themes else None
    with clock.stage("search"):
        return await _searched(
            workspace, question, linked, scope,
            dense=made.vectors[0], theme=theme, things=made.vectors[-1] if low else None,
        )  # fmt: skip


async def _searched(
    workspace: Workspace, question: Question, linked: Linked, scope: Scope, *,
    dense: Vector, theme: Vector | None, things: Vector | None,
) -> Start:  # fmt: skip
    options = question.anchoring
    wanted = SPARE * options.anchors
    queries = [
        direct.by_meaning(Kind.CHUNK, 1, dense, documents=scope.documents),
        direct.by_meaning(Kind.ENTITY, BY_VECTOR, things or dense, within=scope.entities),
        direct.by_meaning(
            Kind.RELATION, max(options.budget, wanted), dense, within=scope.relations
        ),
        *typo_queries(linked.unmatched, scope.entities),
    ]
    if theme is not None:
        queries.append(direct.by_meaning(Kind.RELATION, wanted, theme, within=scope.relations))
    found = await workspace.vectors.search(queries)
    chunks, things_near, similar = found[:3]
    by_theme = found[-1] if theme is not None else []
    typos = found[3 : 3 + len(linked.unmatched)]
    topics: list[Topic] = []
    if question.low_level and "topic" not in options.ablate:
        topics = topics_of(linked, typos, things_near)
    anchors: Mapping[str, float] = {}
    if "anchors" not in options.ablate and question.high_level:
        anchors = choose_anchors(_highest(similar, by_theme), wanted)
    likeness = chunks[0].score if chunks else 0.0
    return Start(topics, anchors, similar, dense, theme, likeness)


def _highest(one: Sequence[Hit], other: Sequence[Hit]) -> list[Hit]:
    best: dict[str, float] = {}
    for hit in (*one, *other):
        best[hit.key] = max(best.get(hit.key, hit.score), hit.score)
    return sorted((Hit(*item) for item in best.items()), key=lambda hit: (-hit.score, hit.key))


# --- the pool ------------------------------------------------------------------------------------


async def _pool(workspace: Workspace, question: Question, start: Start, scope: Scope) -> Pool:
    """Anchors without evidence (deleted, or of other documents) are none; neither are similar
    relations, where the search could not be narrowed to the matching documents."""
    graph, options = workspace.graph, question.anchoring
    similar = [hit.key for hit in start.similar]
    unsure = similar if scope.documents is not None and scope.relations is None else []
    checked = list(dict.fromkeys([*start.anchors, *unsure]))
    around, asserted = await asyncio.gather(
        reach(
            graph, [topic.key for topic in start.topics], list(start.anchors)[: options.anchors],
            options, documents=scope.documents,
        ),
        graph.relation_chunks(checked, per_relation=1, documents=scope.documents),
    )  # fmt: skip
    held = [key for key in start.anchors if key in asserted][: options.anchors]
    refused = set(checked) - asserted.keys()
    return admit(
        around, start.topics, {key: start.anchors[key] for key in held},
        (key for key in similar if key not in refused), options.budget,
    )  # fmt: skip


async def _cosines(workspace: Workspace, start: Start, pool: Pool) -> Cosines:
    """Of all that is in the pool: ids go out, scores come back."""
    known = {hit.key: hit.score for hit in start.similar}
    missing = [key for key in pool.relations if key not in known]
    queries = [
        _within(Kind.RELATION, missing, start.dense),
        _within(Kind.ENTITY, pool.entities, start.dense),
    ]
    if start.theme is not None:
        queries.append(_within(Kind.RELATION, pool.relations, start.theme))
    rest, entities, *themes = await workspace.vectors.search(queries)
    relations = {**known, **{hit.key: hit.score for hit in rest}}
    return Cosines(
        relations,
        {hit.key: hit.score for hit in themes[0]} if themes else relations,
        {hit.key: hit.score for hit in entities},
    )


def _within(kind: Kind, keys: Sequence[str], vector: Vector) -> VectorQuery:
    return direct.by_meaning(kind, max(1, len(keys)), vector, within=keys)


# --- what is shown -------------------------------------------------------------------------------


async def _found(
    workspace: Workspace, question: Question, gathered: Gathered, scored: Scored
) -> Found:
    start, pool = gathered.start, gathered.pool
    kept = chosen.keep(scored.ends, scored.scores, scored.topics, question.top_k)
    speaking = chosen.keep(scored.ends, scored.scores, (), SUPPORT * question.top_k)
    rows = list(dict.fromkeys([*kept.all, *speaking.rows]))
    keys = [scored.keys[row] for row in rows]
    asserted = await workspace.graph.relation_chunks(
        keys, per_relation=PER_RELATION, documents=question.documents
    )
    candidates = sorted({chunk for chunks in asserted.values() for chunk in chunks})
    [near] = await workspace.vectors.search([_within(Kind.CHUNK, candidates, start.dense)])
    level = chosen.stretched(scored.scores)
    order = [
        row
        for row in chosen.by_chain(kept, scored.ends, scored.scores, scored.topics)
        if scored.keys[row] in asserted
    ]
    by_row = {row: level[row] for row in order}
    entities = chosen.entity_scores(order, scored.ends, by_row)
    return Found(
        chunks=tuple(
            chosen.chunk_hits(
                {scored.keys[row]: level[row] for row in rows}, asserted,
                {hit.key: hit.score for hit in near},
            )
        ),
        entities=tuple(
            Hit(scored.entities[row], score)
            for row, score in sorted(entities.items(), key=lambda item: (-item[1], item[0]))
        ),
        relations=tuple(Hit(scored.keys[row], level[row]) for row in order),
        keywords=gathered.keywords,
        names=tuple(topic.name for topic in pool.topics if topic.score),
        likeness=start.likeness,
        explain=_explain(pool, scored, order, bridges=kept.bridges),
    )  # fmt: skip


def _explain(
    pool: Pool, scored: Scored, order: Sequence[int], *, bridges: Sequence[int]
) -> dict[str, object]:
    shown = order[:EXPLAINED]
    return {
        "topics": [
            {"name": one.name, "entity": one.key, "how": one.how, "score": round(one.score, 3)}
            for one in pool.topics
        ],
        "anchors": [
            {"relation": key.replace("\t", " -- "), "cosine": round(cosine, 4)}
            for key, cosine in pool.anchors.items()
        ],
        "pool": {
            "relations": len(pool.relations),
            "entities": len(scored.entities),
            "met": dict(pool.met),
            "truncated": pool.truncated,
            "deadline": pool.late,
        },
        "scorer": scored.scorer,
        "relations": [
            {**told, "bridge": row in bridges}
            for row, told in zip(shown, scored.explain(shown), strict=True)
        ],
    }
