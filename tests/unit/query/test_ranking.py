from __future__ import annotations

import random

import pytest

from app.domain import Hit
from app.query.ranking import best_first, fuse, spread, standardised, take_turns


def test_what_several_rankings_place_high_comes_first() -> None:
    assert [hit.key for hit in fuse([["a", "b", "c"], ["b", "d"]])] == ["b", "a", "d", "c"]


def test_ties_are_broken_by_key_and_not_by_order_of_input() -> None:
    items = [(key, 1.0) for key in "dcba"]
    random.Random(1).shuffle(items)
    assert [hit.key for hit in best_first(dict(items))] == ["a", "b", "c", "d"]
    assert [hit.key for hit in fuse([["b"], ["a"]])] == ["a", "b"]


def test_a_full_ranking_is_stretched_between_its_first_and_last() -> None:
    hits = [Hit("a", 0.9), Hit("b", 0.7), Hit("c", 0.5), Hit("d", 0.4)]
    assert spread(hits, 3) == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.0})


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ([], {}),
        ([Hit("a", 3.0)], {"a": 1.0}),
        ([Hit("a", 4.0), Hit("b", 2.0)], {"a": 1.0, "b": 0.5}),
        ([Hit("a", 0.0), Hit("b", 0.0)], {"a": 1.0, "b": 1.0}),
        ([Hit("a", -0.1), Hit("b", -0.3)], {"a": 1.0, "b": 0.0}),
    ],
)
def test_a_short_ranking_is_stretched_from_zero(
    hits: list[Hit], expected: dict[str, float]
) -> None:
    assert spread(hits, 50) == pytest.approx(expected)


def test_scores_that_do_not_vary_have_no_deviation() -> None:
    assert standardised({"a": 2.0, "b": 2.0}) == {"a": 0.0, "b": 0.0}
    assert standardised({"a": 2.0}) == {"a": 0.0}
    assert standardised({}) == {}
    assert standardised({"a": 1.0, "b": 3.0}) == pytest.approx({"a": -1.0, "b": 1.0})


def test_rankings_take_turns_without_repeats() -> None:
    one = [Hit("a", 9), Hit("b", 8), Hit("c", 7)]
    other = [Hit("b", 5), Hit("d", 4)]
    hits = take_turns([one, other])
    assert [hit.key for hit in hits] == ["a", "b", "d", "c"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
