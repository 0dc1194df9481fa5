"""The walk itself: mass moves between passages and entities until most of it has settled.

x ← restart·r + (1 − restart)·T·x, from x = r, with the columns of T normalised: personalised
PageRank by power iteration on a bounded bipartite graph. Pure; nodes are sorted first, so the
order in which a store returns things plays no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESTART = 0.1
ROUNDS = 20

Floats = NDArray[np.float64]


class Tie(NamedTuple):
    """A passage and an entity; weights of the way down to the entity and up to the passage."""

    passage: str
    entity: str
    down: float
    up: float


@dataclass(frozen=True, slots=True)
class Settled:
    """Mass by passage id and entity key. `brought`: per node, the neighbour that most of its last
    inflow came from (passages for entities and the other way round)."""

    passages: Mapping[str, float]
    entities: Mapping[str, float]
    brought_passages: Mapping[str, str]
    brought_entities: Mapping[str, str]


def settle(
    ties: Sequence[Tie],
    entity_restart: Mapping[str, float],
    passage_restart: Mapping[str, float],
    *,
    rounds: int = ROUNDS,
    restart: float = RESTART,
) -> Settled:
    """Mass after so many rounds; its sum is at most 1. Restart weights are normalised together."""
    ties = sorted(ties)
    passages = sorted({tie.passage for tie in ties} | set(passage_restart))
    entities = sorted({tie.entity for tie in ties} | set(entity_restart))
    place = {key: i for i, key in enumerate(passages)}
    spot = {key: i for i, key in enumerate(entities)}
    rows = np.array([place[tie.passage] for tie in ties], dtype=np.intp)
    columns = np.array([spot[tie.entity] for tie in ties], dtype=np.intp)
    down = _normalised(np.array([tie.down for tie in ties]), rows, len(passages))
    up = _normalised(np.array([tie.up for tie in ties]), columns, len(entities))
    start_p, start_e = _restart(passage_restart, passages, entity_restart, entities)
    mass_p, mass_e = start_p, start_e
    flow_down, flow_up = np.zeros(len(ties)), np.zeros(len(ties))
    for _ in range(rounds):
        flow_down, flow_up = down * mass_p[rows], up * mass_e[columns]
        mass_p = restart * start_p + (1 - restart) * _gathered(rows, flow_up, len(passages))
        mass_e = restart * start_e + (1 - restart) * _gathered(columns, flow_down, len(entities))
    return Settled(
        dict(zip(passages, mass_p.tolist(), strict=True)),
        dict(zip(entities, mass_e.tolist(), strict=True)),
        _carriers(((tie.passage, tie.entity) for tie in ties), flow_up.tolist()),
        _carriers(((tie.entity, tie.passage) for tie in ties), flow_down.tolist()),
    )


def _normalised(weights: Floats, group: NDArray[np.intp], size: int) -> Floats:
    """Weights divided by the sum of their group; 0 where a group has none."""
    if not len(weights):
        return np.zeros(0)
    sums = np.bincount(group, weights=weights, minlength=size)[group]
    return np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)


def _gathered(group: NDArray[np.intp], flow: Floats, size: int) -> Floats:
    return np.bincount(group, weights=flow, minlength=size).astype(np.float64)


def _restart(
    of_passages: Mapping[str, float],
    passages: Sequence[str],
    of_entities: Mapping[str, float],
    entities: Sequence[str],
) -> tuple[Floats, Floats]:
    start_p = np.array([of_passages.get(key, 0.0) for key in passages], dtype=np.float64)
    start_e = np.array([of_entities.get(key, 0.0) for key in entities], dtype=np.float64)
    whole = float(start_p.sum() + start_e.sum())
    return (start_p / whole, start_e / whole) if whole > 0 else (start_p, start_e)


def _carriers(ends: Iterable[tuple[str, str]], flows: Sequence[float]) -> dict[str, str]:
    best: dict[str, tuple[float, str]] = {}
    for (node, source), flow in zip(ends, flows, strict=True):
        if flow > best.get(node, (0.0, ""))[0]:
            best[node] = (flow, source)
    return {node: source for node, (_, source) in best.items()}
