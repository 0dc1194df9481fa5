"""From a pool and its cosines to a score per relation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from app.domain import relation_ends
from app.query.anchored import prior
from app.query.anchored.distances import Floats
from app.query.anchored.features import PATH, Features, View, features
from app.query.anchored.network import Network
from app.query.anchored.pool import Pool
from app.query.anchored.topics import name_scores


@dataclass(frozen=True, slots=True)
class Cosines:
    """To the question, and of relations also to the themes (else the same), by key."""

    relations: Mapping[str, float]
    themes: Mapping[str, float]
    entities: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores in the order of the pool's relations; higher is better. `scorer`: what gave them."""

    keys: Sequence[str]
    ends: Sequence[tuple[int, int]]
    entities: Sequence[str]
    topics: Sequence[int]
    scores: Sequence[float]
    scorer: str
    view: View
    seen: Features
    gates: Floats | None = None  # of messages, in the order of `seen.around`

    def explain(self, rows: Sequence[int]) -> list[dict[str, object]]:
        """Why these relations have their scores, and their ranks by cosine alone."""
        terms = prior.parts(self.view, self.seen)
        return [self._explain(row, terms) for row in rows]

    def _explain(self, row: int, terms: Mapping[str, Floats]) -> dict[str, object]:
        ends = list(self.ends[row])
        told: dict[str, object] = {
            "relation": self.keys[row].replace("\t", " -- "),
            "score": round(self.scores[row], 4),
            "parts": {name: round(float(values[row]), 4) for name, values in terms.items()},
            "topic_distance": [int(self.seen.topic_distance[end]) for end in ends],
            "on_path": bool(self.seen.P[ends, PATH.start].all()),
            "rank_by_cosine": 1 + int((self.view.relation > self.view.relation[row]).sum()),
        }
        if self.gates is not None:
            own = self.gates[self.seen.around.edge == row]
            told["gates"] = [round(float(gate), 3) for gate in own]
        return told


def view_of(pool: Pool, cosines: Cosines) -> tuple[View, list[str]]:
    """The pool as arrays, and its entities in the order of their rows."""
    entities = pool.entities
    rows = {key: row for row, key in enumerate(entities)}
    ends = [relation_ends(key) for key in pool.relations]
    names = name_scores(pool.topics)
    return View(
        head=np.array([rows[head] for head, _ in ends], np.int64),
        tail=np.array([rows[tail] for _, tail in ends], np.int64),
        topics=np.array([rows[topic.key] for topic in pool.topics], np.int64),
        anchors=np.array([key in pool.anchors for key in pool.relations], np.bool_),
        relation=_values(pool.relations, cosines.relations),
        themes=_values(pool.relations, cosines.themes),
        entity=_values(entities, cosines.entities),
        names=np.array([names.get(key, 0.0) for key in entities], np.float32),
    ), entities


def scored(
    pool: Pool, cosines: Cosines, *, scorer: str, without: Collection[str] = (),
    network: Network | None = None,
) -> Scored:  # fmt: skip
    """`scorer`: prior, cosine, or weights, which need the network."""
    view, entities = view_of(pool, cosines)
    gates = None
    with _one_thread().limit(limits=1, user_api="blas"):  # more only wait for each other here
        seen = features(view, without=without)
        if scorer == "weights" and network is not None:
            whole = replace(network, gate="gate" not in without, gnn="gnn" not in without)
            scores = whole.scores(view, seen)
            gates = whole.gates(seen) if whole.gnn and whole.gate else None
        else:
            scores = seen.X[:, 0] if scorer == "cosine" else prior.score(view, seen)
    return Scored(
        pool.relations,
        list(zip(view.head.tolist(), view.tail.tolist(), strict=True)),
        entities,
        view.topics.tolist(),
        scores.tolist(),
        scorer,
        view,
        seen,
        gates,
    )


@cache
def _one_thread() -> ThreadpoolController:
    return ThreadpoolController()


def _values(keys: Sequence[str], known: Mapping[str, float]) -> Floats:
    """What has no vector is as unlike the question as the least like of the rest."""
    lowest = min((known[key] for key in keys if key in known), default=0.0)
    return np.array([known.get(key, lowest) for key in keys], np.float32)
