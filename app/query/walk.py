"""Modes `mix` and `ppr`: direct search, and a walk from the names in the question over entities and
passages, weighed by a trust computed for each question.

Passages *about* an entity count ten times those that mention it, and a passage hands its mass on
mostly to entities in statements that resemble the question. `ppr` is the same walk, always trusted
(after HippoRAG, Gutiérrez et al. 2024).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from app.domain import (
    Hit,
    Keywords,
    Kind,
    Question,
    Sparse,
    Vector,
    relation_ends,
)
from app.ports import Models, Workspace
from app.query import direct
from app.query.bounded import (
    READ_ABOUT,
    READ_MENTIONS,
    Around,
    Vicinity,
    read_vicinity,
    subjects,
)
from app.query.coverage import coverage
from app.query.found import Clock, Found
from app.query.iteration import RESTART, Settled, settle
from app.query.keywords import keywords_of
from app.query.links import Link, Linked, find_links, nearest_spelling, typo_queries
from app.query.ranking import best_first, spread
from app.query.scope import Scope, scope_of
from app.query.weights import Start, final_scores, restart, trust
from app.terms import query_sparse, residual_sparse

ASK_BELOW = 0.5  # trust below which a model may name what the question does not
FACTS = 5
FACT_CANDIDATES = 10
FACT_SPARSE = 0.5
PER_RELATION = 16
SHOWN = 10
COVERAGE = 1.5  # of a passage that holds all of the question, beside (1 − κ)·d / max d
COVERED = 16  # passages whose texts are looked at for coverage
NOTHING_MEANT: tuple[Vector, Sparse] = ((), direct.NO_TERMS)


async def mix(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    return await _walked(workspace, models, question, clock, trusted=False)


async def ppr(workspace: Workspace, models: Models, question: Question, clock: Clock) -> Found:
    return await _walked(workspace, models, question, clock, trusted=True)


async def _walked(
    workspace: Workspace, models: Models, question: Question, clock: Clock, *, trusted: bool
) -> Found:
    scope = await scope_of(workspace, question)
    if scope.empty:
        return Found()
    keywords = question.keywords or Keywords()
    if question.keyword_source == "model":
        keywords = await keywords_of(models, question, clock)
    start = await _start(workspace, models, question, keywords=keywords, scope=scope, clock=clock)
    kappa = trust(start)
    asks = question.keyword_source == "auto" and models.keyworder.by_model
    if kappa < ASK_BELOW and asks and question.keywords is None:
        keywords = await keywords_of(models, question, clock)
        start = await _start(
            workspace, models, question, keywords=keywords, scope=scope, clock=clock
        )
        kappa = trust(start)
    weight = 1.0 if trusted else kappa
    entities, passages = restart(start, weight)
    # Without the high level, statements that resemble the question steer nothing.
    meant = (start.dense, query_sparse(question.text)) if question.high_level else NOTHING_MEANT
    around = Around(
        start.direct, start.residual,
        [link.entity.key for link in start.links], _fact_entities(start.facts),
        start.known, *meant, scope.documents, start.passages,
    )  # fmt: skip
    with clock.stage("subgraph"):
        near = await read_vicinity(workspace, around)
    with clock.stage("walk"):
        entities = {key: mass for key, mass in entities.items() if key in near.entities}
        settled = settle(near.ties, entities, passages)
        chunks = final_scores(
            settled.passages, start.direct, weight,
            subjects=subjects(near, settled.entities), residual=start.residual,
        )  # fmt: skip
    if weight < 1:
        with clock.stage("coverage"):
            chunks = await _by_coverage(workspace, question.text, chunks, near, weight)
    return Found(
        chunks=tuple(chunks),
        entities=tuple(_shown_entities(start, settled)),
        relations=tuple(best_first(near.facts)),
        keywords=keywords,
        names=tuple(link.name for link in start.links),
        likeness=start.legs.likeness,
        explain=_explain(
            start, near, settled, kappa=kappa, weight=weight, entities=entities, passages=passages
        ),
    )


# --- the first round -----------------------------------------------------------------------------


async def _start(
    workspace: Workspace, models: Models, question: Question, *, keywords: Keywords,
    scope: Scope, clock: Clock,
) -> Start:  # fmt: skip
    graph = workspace.graph
    with clock.stage("links"):
        linked, stats = await asyncio.gather(_linked(workspace, question, keywords), graph.stats())
    high = keywords.high if question.high_level else ()
    with clock.stage("embed"):
        made = await models.embedder.embed([question.text, *high], purpose="query")
    clock.usage += made.usage
    dense, *themes = made.vectors
    with clock.stage("search"):
        legs, candidates = await _search(
            workspace, question, linked, dense=dense, themes=themes, scope=scope
        )
    close = await _near_names(workspace, linked, candidates)
    links = linked.links + tuple(link for link in close if link not in linked.links)
    facts = _facts(legs)
    keys = list(dict.fromkeys([*(link.entity.key for link in links), *_ends(facts)]))
    with clock.stage("evidence"):
        asserted, rows = await asyncio.gather(
            graph.relation_chunks(
                legs.relation_keys(), per_relation=PER_RELATION, documents=scope.documents
            ),
            graph.entity_links(
                keys, chunks=READ_MENTIONS, about=READ_ABOUT, documents=scope.documents
            ),
        )
    known = {row.key: row for row in rows if row.chunks or row.about}
    return Start(
        tuple(link for link in links if link.entity.key in known),
        legs,
        direct.direct_scores(legs, asserted, dense_weight=workspace.options.dense_weight),
        {key: facts[key] for key in [key for key in facts if asserted.get(key)][:FACTS]},
        known,
        dense,
        stats.chunks,
        direct.residual_scores(legs),
    )


async def _linked(workspace: Workspace, question: Question, keywords: Keywords) -> Linked:
    if not question.low_level:
        return Linked(())
    return await find_links(workspace.graph, question, keywords.low)


async def _search(
    workspace: Workspace, question: Question, linked: Linked, *, dense: Vector,
    themes: Sequence[Vector], scope: Scope,
) -> tuple[direct.Legs, list[list[Hit]]]:  # fmt: skip
    sparse = query_sparse(question.text)
    rest = residual_sparse(question.text, (link.name for link in linked.links))
    queries = direct.chunk_queries(dense, sparse, scope)
    queries.append(direct.residual_query(rest, scope))
    if question.high_level:
        queries += direct.relation_queries(dense, sparse, scope)
        queries += [
            direct.by_meaning(Kind.RELATION, direct.RELATION_LEG, theme, within=scope.relations)
            for theme in themes
        ]
    typos = typo_queries(linked.unmatched, scope.entities)
    found = await workspace.vectors.search([*queries, *typos])
    own, candidates = found[: len(queries)], found[len(queries) :]
    if not question.high_level:
        return direct.Legs(*own), candidates
    relations = _highest([own[3], *own[5:]])
    return direct.Legs(own[0], own[1], own[2], relations, own[4]), candidates


def _highest(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    best: dict[str, float] = {}
    for hit in (hit for ranking in rankings for hit in ranking):
        best[hit.key] = max(best.get(hit.key, hit.score), hit.score)
    return best_first(best)[: direct.RELATION_LEG]


async def _near_names(
    workspace: Workspace, linked: Linked, candidates: Sequence[Sequence[Hit]]
) -> list[Link]:
    close = {
        name: spelling
        for name, hits in zip(linked.unmatched, candidates, strict=True)
        if (spelling := nearest_spelling(name, [hit.key for hit in hits]))
    }
    if not close:
        return []
    rows = await workspace.graph.entities(sorted({key for key, _ in close.values()}))
    entities = {row.key: row for row in rows}
    return [
        Link(name, entities[key], score) for name, (key, score) in close.items() if key in entities
    ]


def _facts(legs: direct.Legs) -> dict[str, float]:
    """The relations most like the question, best first."""
    scores = spread(legs.relation_dense, direct.RELATION_LEG)
    for key, score in spread(legs.relation_sparse, direct.RELATION_LEG).items():
        scores[key] = scores.get(key, 0.0) + FACT_SPARSE * score
    return dict(best_first(scores)[:FACT_CANDIDATES])


def _ends(facts: Mapping[str, float]) -> list[str]:
    return list(dict.fromkeys(end for key in facts for end in relation_ends(key)))


def _fact_entities(facts: Mapping[str, float]) -> list[str]:
    return _ends(facts)[:10]


async def _by_coverage(
    workspace: Workspace, text: str, chunks: Sequence[Hit], near: Vicinity, weight: float
) -> list[Hit]:
    """Where no name leads, long passages by what they hold of the question: the first few only,
    most of which have been read."""
    first = [hit.key for hit in chunks[:COVERED]]
    unread = [key for key in first if key not in near.texts]
    texts = {**near.texts, **{one.id: one for one in await workspace.graph.chunks(unread)}}
    covered = coverage(text, [texts[key] for key in first if key in texts])
    return best_first(
        {hit.key: hit.score + COVERAGE * (1 - weight) * covered.get(hit.key, 0.0) for hit in chunks}
    )


# --- what is shown ------------------------------------------------------------------------------


def _shown_entities(start: Start, settled: Settled) -> list[Hit]:
    """Links first, then those with most mass; scores are mass."""
    named = {link.entity.key for link in start.links}
    most = max(settled.entities.values(), default=0.0) or 1.0
    hits = best_first({key: mass / most for key, mass in settled.entities.items()})
    return [*(h for h in hits if h.key in named), *(h for h in hits if h.key not in named)]


# --- explain -------------------------------------------------------------------------------------


def _explain(
    start: Start, near: Vicinity, settled: Settled, *, kappa: float, weight: float,
    entities: Mapping[str, float], passages: Mapping[str, float],
) -> dict[str, object]:  # fmt: skip
    links = [
        {
            "name": link.name,
            "entity": link.entity.name,
            "weight": round(link.weight, 3),
            "idf": round(start.rarity(link), 3),
            "about": len(start.known[link.entity.key].about),
        }
        for link in start.links
    ]
    nodes = [("entity", *hit) for hit in best_first(settled.entities)[:SHOWN]]
    nodes += [("chunk", *hit) for hit in best_first(settled.passages)[:SHOWN]]
    brought = {**settled.brought_passages, **settled.brought_entities}
    return {
        "links": links,
        "trust": round(kappa, 4),
        "walk_weight": round(weight, 4),
        "restart": {
            "probability": RESTART,
            "entities": {key: round(mass, 4) for key, mass in sorted(entities.items())},
            "chunks": {key: round(mass, 4) for key, mass in sorted(passages.items())},
        },
        "facts": {key.replace("\t", " -- "): round(s, 4) for key, s in start.facts.items()},
        "hits": _counts(start.legs),
        "subgraph": {
            "chunks": len(near.passages),
            "entities": len(near.entities),
            "ties": len(near.ties),
            "late_links": near.late,
            "facts": len(near.facts),
        },
        "nodes": [
            {"kind": kind, "key": key, "mass": round(mass, 5), "from": brought.get(key, "")}
            for kind, key, mass in sorted(nodes, key=lambda node: (-node[2], node[1]))[:SHOWN]
        ],
    }


def _counts(legs: direct.Legs) -> dict[str, int]:
    return {
        "chunk_dense": len(legs.chunk_dense),
        "chunk_sparse": len(legs.chunk_sparse),
        "chunk_residual": len(legs.chunk_residual),
        "relation_dense": len(legs.relation_dense),
        "relation_sparse": len(legs.relation_sparse),
    }
