"""A score of relations that needs no training: likeness, and structure that only ever adds.

    score = z(cosine) + 8·prox + 8·chain + 8·pull + 0.5·z(themes) + 8·name

prox = 2^-(hops from the nearer end to a topic), nothing beyond 4; chain = the lesser path weight of
both ends; pull = mean of both ends; name = the surer name of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.query.anchored.distances import Floats
from app.query.anchored.features import PATH, PULL, Features, View


class Constants(NamedTuple):
    """Weights of the terms, as docs/asr.md measures them."""

    prox: float = 8.0
    chain: float = 8.0
    pull: float = 8.0
    themes: float = 0.5
    name: float = 8.0


CONSTANTS = Constants()
_REACH = 4


def parts(view: View, seen: Features) -> dict[str, Floats]:
    """The terms of each relation (relations,), before their weights."""
    head, tail = view.head, view.tail
    near = np.minimum(seen.topic_distance[head], seen.topic_distance[tail]).astype(np.int64)
    table = np.array([*(2.0**-d for d in range(_REACH + 1)), 0.0, 0.0], np.float32)
    weight, pull = seen.P[:, PATH.stop - 1], seen.P[:, PULL]
    return {
        "likeness": seen.X[:, 0],
        "prox": np.asarray(table[near]),
        "chain": np.minimum(weight[head], weight[tail]),
        "pull": (pull[head] + pull[tail]) / 2,
        "themes": seen.X[:, 1],
        "name": np.maximum(view.names[head], view.names[tail]),
    }


def score(view: View, seen: Features, constants: Constants = CONSTANTS) -> Floats:
    """(relations,)"""
    terms = parts(view, seen)
    total = terms["likeness"].astype(np.float64)
    for name, weight in constants._asdict().items():
        total = total + weight * terms[name]
    return total.astype(np.float32)
