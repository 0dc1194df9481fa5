"""What the scorers see of a pool: structure (P), likeness per entity (S) and per relation (X).

After Anchored SubgraphRAG (Sturtzkopf 2026) and SubgraphRAG (Li et al., arXiv 2410.20724), without
raw embeddings: only likenesses standardised within the pool and the shape of the graph, so that one
set of weights fits every encoder, dimension and language.

P (nodes, 26), the graph alone: topic flag; two rounds of mean aggregation of it along edges, two
against them (directional distance encoding); one-hot distance to the nearest topic 0, 1, 2, 3, 4,
>= 5; shares of anchor ends at those distances; on a shortest topic-anchor path, weight of the
anchor ends for which it is, pull of anchor ends; neighbour of a topic, of an anchor end; one-hot
degree 1, 2-3, 4-7, >= 8.
S (nodes, 4): z(cosine), z(best cosine of a relation of it), topic flag, name score.
X (relations, 5): z(cosine), z(cosine to the themes), z(cosine) of both ends, anchor flag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.query.anchored.distances import (
    BEYOND,
    FURTHEST,
    Floats,
    Incoming,
    Indices,
    both_ways,
    distances,
    mean_over,
)

LONGEST_PATH = 4
TEMPERATURE = 0.05  # of the softmax over anchor ends
DEGREES = (1, 2, 4, 8)  # lower bounds of the bins
_DISTANCES = ("0", "1", "2", "3", "4", "5+")
P_NAMES = (
    "topic", "dde_out_1", "dde_out_2", "dde_in_1", "dde_in_2",
    *(f"topic_distance_{bin}" for bin in _DISTANCES),
    *(f"anchor_distance_{bin}" for bin in _DISTANCES),
    "on_path", "path_weight", "pull", "near_topic", "near_anchor",
    *(f"degree_{bound}" for bound in DEGREES),
)  # fmt: skip
S_NAMES = ("entity", "best_relation", "topic", "name")
X_NAMES = ("relation", "themes", "head", "tail", "anchor")
TOPIC = slice(0, 11)  # columns of P by what they need
ANCHOR = slice(11, 17)
PATH = slice(17, 19)
PULL = 19
NEAR_TOPIC, NEAR_ANCHOR = 20, 21
_SMALL = 1e-6


def schema() -> str:
    """Hash of names, order, clamps and bins: weights of another one do not fit."""
    parts = (P_NAMES, S_NAMES, X_NAMES, FURTHEST, LONGEST_PATH, TEMPERATURE, DEGREES, "z 1e-6")
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class View:
    """A pool as arrays. `head` and `tail` (relations,) are rows of entities; `relation`, `themes`
    (relations,) and `entity` (nodes,) are cosines to the question; `names` (nodes,) is how surely
    the question names each; `topics` are rows, each once; `anchors` (relations,) are flags."""

    head: Indices
    tail: Indices
    topics: Indices
    anchors: NDArray[np.bool_]
    relation: Floats
    themes: Floats
    entity: Floats
    names: Floats

    @property
    def nodes(self) -> int:
        return len(self.entity)


@dataclass(frozen=True, slots=True)
class Features:
    """`topic_distance` (nodes,) is 6 beyond 5 hops; P, S and X as above."""

    P: Floats
    S: Floats
    X: Floats
    topic_distance: NDArray[np.int8]
    around: Incoming


def features(view: View, *, without: Collection[str] = ()) -> Features:
    """`without`: any of `anchors`, `topic`, `path`, whose columns are then 0."""
    around = both_ways(view.head, view.tail, view.nodes)
    ends, weights = (
        (np.zeros(0, np.int64), np.zeros(0, np.float32))
        if "anchors" in without
        else _anchor_ends(view)
    )
    topics = view.topics[:0] if "topic" in without else view.topics
    far = distances(around, np.concatenate([topics, ends]))
    to_topic, to_anchor = far[: len(topics)], far[len(topics) :]
    nearest = to_topic.min(axis=0, initial=BEYOND)
    P = np.zeros((view.nodes, len(P_NAMES)), np.float32)
    if "topic" not in without:
        P[topics, 0] = 1
        P[:, 1:5] = _dde(P[:, 0], view)
        P[np.arange(view.nodes), 5 + np.minimum(nearest, FURTHEST)] = 1
        P[:, NEAR_TOPIC] = _next_to(topics, view)
    if len(ends):
        P[:, ANCHOR] = _shares(to_anchor)
        P[:, PULL] = weights @ _halved(to_anchor)
        P[:, NEAR_ANCHOR] = _next_to(ends, view)
        if "path" not in without:
            P[:, PATH] = _paths(to_topic, to_anchor, weights, ends)
    P[:, 22:] = _degree_bins(view)
    anchors = np.zeros_like(view.anchors) if "anchors" in without else view.anchors
    flags = np.zeros(view.nodes, np.float32) if "topic" in without else P[:, 0]
    S = _likeness(view, flags)
    X = np.stack(
        [
            standardised(view.relation), standardised(view.themes),
            S[view.head, 0], S[view.tail, 0], anchors.astype(np.float32),
        ],
        axis=1,
    )  # fmt: skip
    return Features(P, S, X, nearest, around)


def standardised(values: Floats) -> Floats:
    """(v - mean) / (deviation + 1e-6)."""
    if not len(values):
        return values.astype(np.float32)
    exact = values.astype(np.float64)
    scaled: Floats = ((exact - exact.mean()) / (exact.std() + _SMALL)).astype(np.float32)
    return scaled


def _anchor_ends(view: View) -> tuple[Indices, Floats]:
    """Ends of anchors, each once, and the softmax of the best cosine of each."""
    rows = np.flatnonzero(view.anchors)
    ends = np.unique(np.concatenate([view.head[rows], view.tail[rows]]))
    best = np.full(view.nodes, -np.inf)
    np.maximum.at(best, view.head[rows], view.relation[rows])
    np.maximum.at(best, view.tail[rows], view.relation[rows])
    if not len(ends):
        return ends, np.zeros(0, np.float32)
    heat = np.exp((best[ends] - best[ends].max()) / TEMPERATURE)
    return ends, (heat / heat.sum()).astype(np.float32)


def _dde(flag: Floats, view: View) -> Floats:
    once = mean_over(flag, view.head, view.tail)
    back = mean_over(flag, view.tail, view.head)
    return np.stack(
        [
            once, mean_over(once, view.head, view.tail),
            back, mean_over(back, view.tail, view.head),
        ],
        axis=1,
    )  # fmt: skip


def _shares(to_anchor: NDArray[np.int8]) -> Floats:
    clamped = np.minimum(to_anchor, FURTHEST)
    bins = [(clamped == bin).mean(axis=0) for bin in range(FURTHEST + 1)]
    return np.stack(bins, axis=1).astype(np.float32)


def _halved(distance: NDArray[np.int8]) -> Floats:
    """2^-distance, nothing beyond 5 hops."""
    table = np.array([*(2.0**-d for d in range(FURTHEST + 1)), 0.0], np.float32)
    return np.asarray(table[distance])


def _paths(
    to_topic: NDArray[np.int8], to_anchor: NDArray[np.int8], weights: Floats, ends: Indices
) -> Floats:
    """Whether each node is on a shortest path of at most 4 hops, and the weight of the anchor ends
    for which it is: D(topic, v) + D(v, anchor) = D(topic, anchor)."""
    on = np.zeros(to_anchor.shape, np.bool_)
    for row in to_topic:
        whole = row[ends]
        close = whole <= LONGEST_PATH
        on[close] |= row[None, :] + to_anchor[close] == whole[close, None]
    return np.stack([on.any(axis=0).astype(np.float32), weights @ on.astype(np.float32)], axis=1)


def _next_to(nodes: Indices, view: View) -> Floats:
    flag = np.zeros(view.nodes, np.bool_)
    flag[nodes] = True
    near = np.zeros(view.nodes, np.float32)
    near[view.tail[flag[view.head]]] = 1
    near[view.head[flag[view.tail]]] = 1
    return near


def _degree_bins(view: View) -> Floats:
    degree = np.bincount(np.concatenate([view.head, view.tail]), minlength=view.nodes)
    bins = np.zeros((view.nodes, len(DEGREES)), np.float32)
    bin = np.searchsorted(DEGREES, degree, side="right") - 1
    some = np.flatnonzero(degree)
    bins[some, bin[some]] = 1
    return bins


def _likeness(view: View, flags: Floats) -> Floats:
    lowest = float(view.relation.min(initial=0.0))
    best = np.full(view.nodes, lowest, np.float32)
    np.maximum.at(best, view.head, view.relation)
    np.maximum.at(best, view.tail, view.relation)
    columns = [standardised(view.entity), standardised(best), flags, view.names]
    return np.stack(columns, axis=1).astype(np.float32)
