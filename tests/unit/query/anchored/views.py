"""Random pools for the tests, and the features as slow and obvious Python computes them."""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from collections.abc import Sequence

import numpy as np

from app.query.anchored.features import View

NEVER = 99


def random_view(
    seed: int, *, relations: int = 40, nodes: int = 20, topics: int = 2, anchors: int = 4
) -> View:
    """Multi-edges and self-loops included; some nodes may have no relation."""
    dice = random.Random(seed)
    chosen = set(dice.sample(range(relations), min(anchors, relations)))
    return View(
        head=np.array([dice.randrange(nodes) for _ in range(relations)], np.int64),
        tail=np.array([dice.randrange(nodes) for _ in range(relations)], np.int64),
        topics=np.array(sorted(dice.sample(range(nodes), min(topics, nodes))), np.int64),
        anchors=np.array([row in chosen for row in range(relations)], np.bool_),
        relation=_cosines(dice, relations),
        themes=_cosines(dice, relations),
        entity=_cosines(dice, nodes),
        names=np.array([dice.choice([0.0, 0.0, 0.3, 1.0]) for _ in range(nodes)], np.float32),
    )


def _cosines(dice: random.Random, count: int) -> np.ndarray:
    return np.array([dice.uniform(-1, 1) for _ in range(count)], np.float32)


def slow(view: View) -> tuple[list[list[float]], list[list[float]], list[list[float]]]:
    """P, S and X row by row."""
    edges = list(zip(view.head.tolist(), view.tail.tolist(), strict=True))
    topics, n = view.topics.tolist(), view.nodes
    near = [set() for _ in range(n)]
    for head, tail in edges:
        near[head].add(tail)
        near[tail].add(head)
    best: dict[int, float] = {}
    for row, ends in enumerate(edges):
        if view.anchors[row]:
            for end in ends:
                best[end] = max(best.get(end, -9.0), float(view.relation[row]))
    ends = sorted(best)
    heat = {a: math.exp((best[a] - max(best.values())) / 0.05) for a in ends}
    share = {a: heat[a] / sum(heat.values()) for a in ends}
    far = {v: _hops(near, v) for v in {*topics, *ends}}
    flag = [1.0 if v in topics else 0.0 for v in range(n)]
    out1 = _means(flag, [(h, t) for h, t in edges])
    out2 = _means(out1, [(h, t) for h, t in edges])
    in1 = _means(flag, [(t, h) for h, t in edges])
    in2 = _means(in1, [(t, h) for h, t in edges])
    degree = [sum((h == v) + (t == v) for h, t in edges) for v in range(n)]
    P = []
    for v in range(n):
        to_topic = min((far[t][v] for t in topics), default=NEVER)
        on = [a for a in ends if any(_on_path(far, t, v, a) for t in topics)]
        P.append(
            [
                flag[v], out1[v], out2[v], in1[v], in2[v],
                *(float(min(to_topic, 5) == bin) for bin in range(6)),
                *(
                    sum(min(far[a][v], 5) == bin for a in ends) / max(1, len(ends))
                    for bin in range(6)
                ),
                float(bool(on)), sum(share[a] for a in on),
                sum(share[a] * 2.0 ** -far[a][v] for a in ends if far[a][v] <= 5),
                float(any(u in topics for u in near[v])), float(any(u in ends for u in near[v])),
                float(degree[v] == 1), float(2 <= degree[v] <= 3), float(4 <= degree[v] <= 7),
                float(degree[v] >= 8),
            ]
        )  # fmt: skip
    lowest = min([0.0, *view.relation.tolist()])
    incident = [
        max([lowest, *(float(view.relation[i]) for i, its in enumerate(edges) if v in its)])
        for v in range(n)
    ]
    entity, relation = _z(view.entity.tolist()), _z(view.relation.tolist())
    themes, strongest = _z(view.themes.tolist()), _z(incident)
    S = [[entity[v], strongest[v], flag[v], float(view.names[v])] for v in range(n)]
    X = [
        [relation[i], themes[i], entity[h], entity[t], float(view.anchors[i])]
        for i, (h, t) in enumerate(edges)
    ]
    return P, S, X


def _hops(near: Sequence[set[int]], source: int) -> list[int]:
    found = [NEVER] * len(near)
    found[source] = 0
    waiting = deque([source])
    while waiting:
        here = waiting.popleft()
        for other in near[here]:
            if found[other] == NEVER:
                found[other] = found[here] + 1
                waiting.append(other)
    return [hops if hops <= 5 else NEVER for hops in found]


def _on_path(far: dict[int, list[int]], topic: int, node: int, anchor: int) -> bool:
    whole = far[topic][anchor]
    return whole <= 4 and far[topic][node] + far[anchor][node] == whole


def _means(values: Sequence[float], edges: Sequence[tuple[int, int]]) -> list[float]:
    into: list[list[float]] = [[] for _ in values]
    for sender, receiver in edges:
        into[receiver].append(values[sender])
    return [sum(its) / len(its) if its else 0.0 for its in into]


def _z(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    mean, deviation = statistics.fmean(values), statistics.pstdev(values)
    return [(value - mean) / (deviation + 1e-6) for value in values]
