"""Means and differences with bootstrap intervals: how far a figure may be off by chance alone.

Questions are drawn again with replacement (Efron 1979), the same draws for both sides of a
difference, so that what is hard for both cancels out. Percentile intervals at 95 %, seeded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
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


def means(
    named: Mapping[str, Sequence[float]], *, seed: int = SEED, draws: int = DRAWS
) -> dict[str, Interval]:
    """Of each list, which is not empty. Lists of one length share their draws."""
    lengths: defaultdict[int, list[str]] = defaultdict(list)
    for name, figures in named.items():
        lengths[len(figures)].append(name)
    found: dict[str, Interval] = {}
    for n, names in lengths.items():
        drawn = _drawn([named[name] for name in names], seed, draws)
        for name, column in zip(names, drawn, strict=True):
            low, high = np.percentile(column, (LOW, HIGH))
            found[name] = Interval(sum(named[name]) / n, float(low), float(high), n)
    return {name: found[name] for name in named}


def mean(figures: Sequence[float], *, seed: int = SEED, draws: int = DRAWS) -> Interval:
    return means({"": figures}, seed=seed, draws=draws)[""]


def difference(
    ours: Sequence[float], theirs: Sequence[float], *, seed: int = SEED, draws: int = DRAWS
) -> Interval:
    """Mean of `ours` minus mean of `theirs`, paired: both hold the same questions in one order."""
    gaps = [one - other for one, other in zip(ours, theirs, strict=True)]
    return mean(gaps, seed=seed, draws=draws)


def _drawn(lists: Sequence[Sequence[float]], seed: int, draws: int) -> list[NDArray[np.float64]]:
    """For each list its mean in each draw; a draw gives every question a number of copies."""
    n = len(lists[0])
    values = np.array(lists, dtype=np.float64).T
    random = np.random.default_rng(seed)
    drawn = [
        random.multinomial(n, np.full(n, 1 / n), size=min(BATCH, draws - start)) @ values / n
        for start in range(0, draws, BATCH)
    ]
    return list(np.concatenate(drawn).T)
