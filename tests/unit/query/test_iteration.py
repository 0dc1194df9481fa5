from __future__ import annotations

import math
import random

import numpy as np
import pytest

from app.query.iteration import Tie, settle


def dense_reference(
    ties: list[Tie], entities: dict[str, float], passages: dict[str, float], rounds: int
) -> dict[str, float]:
    """The same walk as plain matrices over one list of nodes."""
    nodes = sorted(
        {("p", t.passage) for t in ties} | {("e", t.entity) for t in ties}
        | {("p", key) for key in passages} | {("e", key) for key in entities}
    )  # fmt: skip
    place = {node: i for i, node in enumerate(nodes)}
    matrix = np.zeros((len(nodes), len(nodes)))
    for tie in ties:
        passage, entity = place["p", tie.passage], place["e", tie.entity]
        matrix[entity, passage] += tie.down
        matrix[passage, entity] += tie.up
    for column in range(len(nodes)):
        if matrix[:, column].sum() > 0:
            matrix[:, column] /= matrix[:, column].sum()
    start = np.zeros(len(nodes))
    for key, mass in entities.items():
        start[place["e", key]] = mass
    for key, mass in passages.items():
        start[place["p", key]] = mass
    start /= start.sum()
    mass = start.copy()
    for _ in range(rounds):
        mass = 0.1 * start + 0.9 * matrix @ mass
    return {key: float(mass[place["p", key]]) for kind, key in nodes if kind == "p"}


def random_ties(seed: int, passages: int, entities: int, ties: int) -> list[Tie]:
    rng = random.Random(seed)
    pairs = {(rng.randrange(passages), rng.randrange(entities)) for _ in range(ties)}
    return [
        Tie(f"p{p}", f"e{e}", rng.random(), rng.choice((0.0, 1.0, 10.0)) * rng.random())
        for p, e in sorted(pairs)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_walk_equals_a_dense_reference(seed: int) -> None:
    ties = random_ties(seed, 40, 30, 160)
    entities, passages = {"e1": 0.7, "e2": 0.3, "alone": 0.2}, {"p3": 0.4}
    settled = settle(ties, entities, passages)
    reference = dense_reference(ties, entities, passages, rounds=20)
    assert settled.passages == pytest.approx(reference, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_mass_is_never_created(seed: int) -> None:
    settled = settle(random_ties(seed, 30, 30, 90), {"e1": 3.0}, {"p1": 2.0})
    masses = [*settled.passages.values(), *settled.entities.values()]
    assert sum(masses) <= 1 + 1e-9
    assert all(mass >= 0 for mass in masses)


def test_the_order_of_ties_plays_no_part() -> None:
    ties = random_ties(7, 50, 40, 300)
    shuffled = random.Random(3).sample(ties, len(ties))
    one, other = settle(ties, {"e1": 1.0}, {}), settle(shuffled, {"e1": 1.0}, {})
    assert one.passages == other.passages
    assert list(one.passages) == list(other.passages)


@pytest.mark.parametrize(
    ("ties", "entities", "passages"),
    [
        ([], {}, {}),
        ([], {"e": 1.0}, {}),
        ([], {}, {"p": 1.0}),
        ([Tie("p", "e", 0.0, 0.0)], {"e": 1.0}, {"p": 1.0}),
        ([Tie("p", "e", 1.0, 1.0)], {}, {}),
        ([Tie("p", "e", 1.0, 1.0)], {"e": 0.0}, {"p": 0.0}),
    ],
)
def test_degenerate_graphs_give_numbers(
    ties: list[Tie], entities: dict[str, float], passages: dict[str, float]
) -> None:
    settled = settle(ties, entities, passages)
    masses = [*settled.passages.values(), *settled.entities.values()]
    assert all(math.isfinite(mass) for mass in masses)


def test_a_passage_about_the_start_outweighs_one_that_mentions_it() -> None:
    ties = [Tie("about", "e", 1.0, 10.0), Tie("mention", "e", 1.0, 1.0)]
    settled = settle(ties, {"e": 1.0}, {})
    assert settled.passages["about"] > 5 * settled.passages["mention"]


def test_a_late_link_leads_to_the_entity_but_not_back() -> None:
    ties = [
        Tie("biography", "person", 1.0, 10.0),
        Tie("biography", "journalist", 1.0, 0.0),
        Tie("profession", "journalist", 1.0, 10.0),
    ]
    forward = settle(ties, {"person": 1.0}, {})
    assert forward.passages["profession"] > 0
    assert forward.brought_passages["profession"] == "journalist"
    backward = settle(ties, {"journalist": 1.0}, {})
    assert backward.passages["biography"] == 0
