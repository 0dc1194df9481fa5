"""What the computing half of `asr` takes, vectors and graph being in memory.

    python -m tests.bench.asr_latency [--runs 200]

Pools of random graphs, 16 anchors, 4 topics, network of width 32 and 64, one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from app.query.anchored import prior
from app.query.anchored.features import View, features
from app.query.anchored.network import Network, shapes

SIZES = (1000, 3000)


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of this thread on a processor: median and 95th percentile."""

    p50: float
    p95: float

    def __str__(self) -> str:
        return f"{self.p50:6.1f} / {self.p95:6.1f} ms"


def pool(relations: int, seed: int = 1) -> View:
    """Nearly as many entities as relations; a tenth of the ends are at one of ten hubs."""
    dice = np.random.default_rng(seed)
    nodes = relations - relations // 30
    ends = dice.integers(0, nodes, (relations, 2))
    hubs = dice.random((relations, 2)) < 0.1
    ends[hubs] = dice.integers(0, 10, hubs.sum())
    return View(
        head=ends[:, 0], tail=ends[:, 1], topics=np.arange(4),
        anchors=np.arange(relations) < 16,
        relation=dice.uniform(-0.2, 0.9, relations).astype(np.float32),
        themes=dice.uniform(-0.2, 0.9, relations).astype(np.float32),
        entity=dice.uniform(-0.2, 0.9, nodes).astype(np.float32),
        names=(np.arange(nodes) < 4).astype(np.float32),
    )  # fmt: skip


def network(width: int) -> Network:
    dice = np.random.default_rng(width)
    return Network(
        {
            name: dice.normal(0, 0.2, shape).astype(np.float32)
            for name, shape in shapes(width).items()
        }
    )


def timed(work: Callable[[], object], runs: int) -> Spent:
    spent = []
    for _ in range(runs):
        begin = time.thread_time()
        work()
        spent.append(1000 * (time.thread_time() - begin))
    return Spent(statistics.median(spent), statistics.quantiles(spent, n=20)[-1])


def measure(relations: int, runs: int) -> dict[str, Spent]:
    view = pool(relations)
    seen = features(view)
    small, large = network(32), network(64)
    with threadpool_limits(1, user_api="blas"):
        return {
            "features": timed(lambda: features(view), runs),
            "prior": timed(lambda: prior.score(view, seen), runs),
            "network 32": timed(lambda: small.scores(view, seen), runs),
            "network 64": timed(lambda: large.scores(view, seen), runs),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    for relations in SIZES:
        for name, spent in measure(relations, options.runs).items():
            print(f"{relations:5} relations  {name:11} {spent}")


if __name__ == "__main__":
    main()
