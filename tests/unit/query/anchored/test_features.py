from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.query.anchored import prior
from app.query.anchored.distances import both_ways, distances
from app.query.anchored.features import P_NAMES, PATH, S_NAMES, X_NAMES, View, features, schema
from tests.unit.query.anchored.views import random_view, slow


def shapes(seed: int) -> dict[str, int]:
    """Sparse and dense pools, without topics, anchors or relations, of one node or many."""
    nodes = (1, 3, 8, 20, 45)[seed % 5]
    relations = (0, 1, 6, 25, 40, 90)[seed % 6]
    return {
        "nodes": nodes, "relations": relations, "topics": (seed // 2) % 4,
        "anchors": (seed // 3) % 5 * 2,
    }  # fmt: skip


@pytest.mark.parametrize("group", range(10))
def test_features_equal_the_slow_reference_on_random_graphs(group: int) -> None:
    for seed in range(20 * group, 20 * group + 20):
        view = random_view(seed, **shapes(seed))
        seen = features(view)
        for fast, obvious in zip((seen.P, seen.S, seen.X), slow(view), strict=True):
            expected = np.array(obvious, np.float64).reshape(fast.shape)
            np.testing.assert_allclose(fast, expected, atol=1e-5, err_msg=f"seed {seed}")


def test_features_of_three_thousand_relations_equal_the_reference() -> None:
    view = random_view(1, relations=3000, nodes=1500, topics=3, anchors=16)
    seen = features(view)
    for fast, obvious in zip((seen.P, seen.S, seen.X), slow(view), strict=True):
        np.testing.assert_allclose(fast, np.array(obvious), atol=1e-4)


def test_distances_of_more_than_64_sources_use_several_words() -> None:
    view = random_view(5, relations=120, nodes=150, topics=0, anchors=0)
    around = both_ways(view.head, view.tail, view.nodes)
    many = distances(around, np.arange(150))
    for source in (0, 63, 64, 127, 128, 149):
        np.testing.assert_array_equal(many[source], distances(around, np.array([source]))[0])


def test_names_are_those_of_the_columns() -> None:
    seen = features(random_view(3))
    widths = (seen.P.shape[1], seen.S.shape[1], seen.X.shape[1])
    assert widths == (len(P_NAMES), len(S_NAMES), len(X_NAMES)) == (26, 4, 5)
    assert len(schema()) == 16


# --- invariants ----------------------------------------------------------------------------------

seeds = st.integers(0, 10_000)


def permuted(view: View, rows: np.ndarray, nodes: np.ndarray) -> View:
    """Relations in the order of `rows`; node v becomes nodes[v]."""
    back = np.argsort(nodes)
    return View(
        head=nodes[view.head[rows]], tail=nodes[view.tail[rows]],
        topics=np.sort(nodes[view.topics]), anchors=view.anchors[rows],
        relation=view.relation[rows], themes=view.themes[rows],
        entity=view.entity[back], names=view.names[back],
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_permuting_relations_and_entities_permutes_what_is_computed(seed: int) -> None:
    view = random_view(seed, **shapes(seed))
    dice = np.random.default_rng(seed)
    rows, nodes = dice.permutation(len(view.head)), dice.permutation(view.nodes)
    other = permuted(view, rows, nodes)
    one, two = features(view), features(other)
    np.testing.assert_allclose(two.P[nodes], one.P, atol=1e-6)
    np.testing.assert_allclose(two.S[nodes], one.S, atol=1e-5)
    scores = prior.score(view, one)
    np.testing.assert_allclose(prior.score(other, two), scores[rows], atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_a_component_without_topics_or_anchors_changes_no_structure(seed: int) -> None:
    view = random_view(seed, **shapes(seed))
    more = random_view(seed + 1, relations=9, nodes=6, topics=0, anchors=0)
    both = View(
        np.concatenate([view.head, more.head + view.nodes]),
        np.concatenate([view.tail, more.tail + view.nodes]),
        view.topics, np.concatenate([view.anchors, more.anchors]),
        np.concatenate([view.relation, more.relation]),
        np.concatenate([view.themes, more.themes]),
        np.concatenate([view.entity, more.entity]), np.concatenate([view.names, more.names]),
    )  # fmt: skip
    np.testing.assert_allclose(features(both).P[: view.nodes], features(view).P, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(-1, 1), st.floats(-1, 1))
def test_everything_is_finite_and_the_same_each_time(seed: int, one: float, other: float) -> None:
    view = random_view(seed, **shapes(seed))
    flat = replace(view, relation=np.full_like(view.relation, one), entity=view.entity * other)
    for its in (view, flat):
        seen, again = features(its), features(its)
        for name in ("P", "S", "X"):
            assert np.isfinite(getattr(seen, name)).all()
            assert getattr(seen, name).tobytes() == getattr(again, name).tobytes()
        scores = prior.score(its, seen)
        assert np.isfinite(scores).all()
        assert scores.tobytes() == prior.score(its, again).tobytes()


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_a_relation_on_a_path_never_ranks_below_an_equal_one_off_it(seed: int) -> None:
    """Structure only ever adds: with likeness alike, more of any term is never worse."""
    view = random_view(seed, **{**shapes(seed), "topics": 2, "anchors": 3})
    level = replace(
        view, relation=np.full_like(view.relation, 0.5), themes=np.full_like(view.themes, 0.5),
        names=np.zeros_like(view.names),
    )  # fmt: skip
    seen = features(level)
    terms, scores = prior.parts(level, seen), prior.score(level, seen)
    ends = np.stack([level.head, level.tail])
    on = seen.P[ends, PATH.start].all(axis=0)
    for row in np.flatnonzero(on):
        for off in np.flatnonzero(~on):
            if all(terms[name][off] <= terms[name][row] for name in ("prox", "pull")):
                assert scores[off] <= scores[row] + 1e-5


def test_ablations_leave_their_columns_empty() -> None:
    view = random_view(7, relations=60, topics=2, anchors=6)
    whole = features(view)
    assert whole.P[:, :11].any()
    assert whole.P[:, 11:20].any()
    none = features(view, without={"anchors"})
    assert not none.P[:, 11:20].any()
    assert not none.X[:, 4].any()
    np.testing.assert_array_equal(none.P[:, :11], whole.P[:, :11])
    assert not features(view, without={"path"}).P[:, PATH].any()
    lost = features(view, without={"topic"})
    assert not lost.P[:, :11].any()
    assert not lost.S[:, 2].any()
