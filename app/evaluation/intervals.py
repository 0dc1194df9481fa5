"""Means and differences with bootstrap intervals: how far a figure may be off by chance alone.

Questions are drawn again with replacement (Efron 1979), the same draws for both sides of a
difference, so that what is hard for both cancels out. Percentile intervals at 95 %, seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
SEED = 20260
BATCH = 250  # draws at a time: bounded memory for thousands of questions
LOW, HIGH = 2.5, 97.5  # percentiles
DUST = 1e-9  # what rounding leaves


class Interval(NamedTuple):
    """A value, its 95 % interval, and the number of questions behind it."""

    value: float
    low: float
    high: float
    n: int

    @property
    def clear(self) -> bool:
        """Of a difference: whether it is more than chance."""
        return self.low > DUST or self.high < -DUST


def mean(figures: Sequence[float], *, seed: int = SEED, draws: int = DRAWS) -> Interval:
    """Of at least one figure."""
    drawn = _drawn([figures], seed, draws)
    return _interval(_mean(figures), drawn[0], len(figures))


def difference(
    ours: Sequence[float], theirs: Sequence[float], *, seed: int = SEED, draws: int = DRAWS
) -> Interval:
    """Mean of `ours` minus mean of `theirs`, paired: both hold the same questions in one order."""
    if len(ours) != len(theirs):
        raise ValueError("paired figures are of the same questions")
    one, other = _drawn([ours, theirs], seed, draws)
    return _interval(_mean(ours) - _mean(theirs), one - other, len(ours))


def _mean(figures: Sequence[float]) -> float:
    return sum(figures) / len(figures)


def _drawn(sides: Sequence[Sequence[float]], seed: int, draws: int) -> list[NDArray[np.float64]]:
    """For each side its mean in each draw; a draw gives every question a number of copies."""
    n = len(sides[0])
    values = np.array(sides, dtype=np.float64).T
    random = np.random.default_rng(seed)
    means = [
        random.multinomial(n, np.full(n, 1 / n), size=min(BATCH, draws - start)) @ values / n
        for start in range(0, draws, BATCH)
    ]
    return list(np.concatenate(means).T)


def _interval(value: float, drawn: NDArray[np.float64], n: int) -> Interval:
    low, high = np.percentile(drawn, (LOW, HIGH))
    return Interval(value, float(low), float(high), n)
