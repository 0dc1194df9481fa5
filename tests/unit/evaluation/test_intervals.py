"""Bootstrap intervals: seeded, paired, and as wide as theory says."""

from __future__ import annotations

import math
import random

import pytest

from app.evaluation.intervals import difference, mean, means


def coins(seed: int, n: int, share: float) -> list[float]:
    drawn = random.Random(seed)
    return [float(drawn.random() < share) for _ in range(n)]


def test_the_same_seed_gives_the_same_interval() -> None:
    figures = coins(1, 50, 0.5)
    assert mean(figures) == mean(figures)
    assert mean(figures, seed=1) != mean(figures, seed=2)


def test_an_interval_is_about_as_wide_as_theory_says() -> None:
    figures = coins(2, 400, 0.5)
    found = mean(figures)
    share = sum(figure for figure in figures) / 400
    half = 1.96 * math.sqrt(share * (1 - share) / 400)
    assert found.value == pytest.approx(share)
    assert found.low == pytest.approx(share - half, abs=0.01)
    assert found.high == pytest.approx(share + half, abs=0.01)


def test_a_slow_bootstrap_finds_the_same() -> None:
    ours, theirs = coins(3, 60, 0.7), coins(4, 60, 0.5)
    drawn = random.Random(5)
    means = []
    for _ in range(2000):
        places = [drawn.randrange(60) for _ in range(60)]
        means.append(sum(ours[n] - theirs[n] for n in places) / 60)
    means.sort()
    found = difference(ours, theirs)
    assert found.low == pytest.approx(means[50], abs=0.04)
    assert found.high == pytest.approx(means[1949], abs=0.04)


def test_a_difference_is_paired() -> None:
    ours = coins(6, 100, 0.5)
    better = [figure + 0.1 for figure in ours]
    found = difference(better, ours)
    assert found[:3] == pytest.approx((0.1, 0.1, 0.1))
    assert found.clear
    assert not difference(ours, ours).clear


def test_many_figures_at_once_are_the_same_as_one_by_one() -> None:
    named = {"a": coins(7, 30, 0.5), "b": coins(8, 40, 0.2), "c": coins(9, 30, 0.9)}
    assert list(means(named)) == ["a", "b", "c"]
    for name, found in means(named).items():
        assert found == pytest.approx(mean(named[name]))


def test_one_question_has_an_interval_without_width() -> None:
    assert mean([0.4])[:3] == (0.4, 0.4, 0.4)


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        difference([1.0], [])
