"""A made-up knowledge graph of 3,000 relations and questions of two and three hops about it.

Vectors are drawn at random: a relation's is the sum of its type and its ends, a question's that of
the types it asks for, its topic, and noise. Likeness alone cannot tell a gold relation from the
others of its type.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from app.query.anchored.features import View
from scripts.train_asr.examples import Example

RELATIONS, ENTITIES, TYPES, WIDTH = 3000, 1400, 40, 48
ANCHORS, POOL = 16, 500


def questions(count: int, seed: int) -> list[Example]:
    dice = np.random.default_rng(seed)
    ends = dice.integers(0, ENTITIES, (RELATIONS, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    kinds = dice.integers(0, TYPES, len(ends))
    things, types = dice.normal(size=(ENTITIES, WIDTH)), 2 * dice.normal(size=(TYPES, WIDTH))
    vectors = types[kinds] + things[ends[:, 0]] + things[ends[:, 1]]
    near = defaultdict(list)
    for row, (head, tail) in enumerate(ends.tolist()):
        near[head].append((row, tail))
        near[tail].append((row, head))
    made: list[Example] = []
    while len(made) < count:
        topic = int(dice.integers(0, ENTITIES))
        chain = _walk(near, topic, int(dice.integers(2, 4)), dice)
        if not chain:
            continue
        asked = types[kinds[chain]].sum(axis=0) + things[topic]
        asked = asked + 3 * dice.normal(size=WIDTH)
        made.append(
            _example(
                f"q{len(made)}",
                topic,
                chain,
                ends=ends,
                vectors=vectors,
                things=things,
                asked=asked,
            )
        )
    return made


def _walk(
    near: dict[int, list[tuple[int, int]]], topic: int, hops: int, dice: np.random.Generator
) -> list[int]:
    here, seen, rows = topic, {topic}, []
    for _ in range(hops):
        steps = [(row, other) for row, other in near[here] if other not in seen]
        if not steps:
            return []
        row, here = steps[int(dice.integers(0, len(steps)))]
        rows.append(row)
        seen.add(here)
    return rows


def _example(
    id: str, topic: int, chain: list[int], *,
    ends: np.ndarray, vectors: np.ndarray, things: np.ndarray, asked: np.ndarray,
) -> Example:  # fmt: skip
    cosines = _cosine(vectors, asked)
    best = np.argsort(-cosines, kind="stable")
    around = {topic}
    for _ in range(2):
        around |= {int(end) for pair in ends if around & set(pair.tolist()) for end in pair}
    hops = [row for row in range(len(ends)) if set(ends[row].tolist()) <= around]
    rows = np.array(list(dict.fromkeys([*best[:ANCHORS].tolist(), *hops, *best.tolist()]))[:POOL])
    nodes = np.unique(np.concatenate([ends[rows].ravel(), [topic]]))
    places = {int(row): place for place, row in enumerate(rows.tolist())}
    gold = np.array([places.get(row, -1) for row in chain], np.int64)
    names = (nodes == topic).astype(np.float32)
    own = np.arange(len(rows))
    return Example(
        id,
        View(
            np.searchsorted(nodes, ends[rows, 0]), np.searchsorted(nodes, ends[rows, 1]),
            np.flatnonzero(nodes == topic), own < ANCHORS, cosines[rows], cosines[rows],
            _cosine(things[nodes], asked), names,
        ),
        tuple(np.array([row]) for row in gold if row >= 0),
        np.stack([own, own], axis=1), gold,
    )  # fmt: skip


def _cosine(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosine: np.ndarray = (rows @ vector / length).astype(np.float32)
    return cosine
