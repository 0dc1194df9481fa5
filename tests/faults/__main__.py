"""`make faults`: break the service by seeded schedules, and count what is lost or paid twice.

Environment: STACK=embedded|neo4j, SEED=<number>, RUNS=<number>, ONLY=<seed of one schedule>,
PARALLEL=<schedules at a time>, JSON=<file>.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults import ledger, report
from tests.faults.runner import Outcome, References, distributed, embedded
from tests.faults.servers import Servers

RUNS = {"embedded": 200, "neo4j": 50}


def seeds(stack: str) -> list[str]:
    if only := os.environ.get("ONLY"):
        return [only]
    base = int(os.environ.get("SEED") or 1)
    runs = int(os.environ.get("RUNS") or RUNS[stack])
    return [f"{stack}-{base}-{n}" for n in range(runs)]


def on_embedded() -> Iterator[Outcome]:
    with ledger.serving() as model:
        references = References(model)
        with ThreadPoolExecutor(int(os.environ.get("PARALLEL") or 2)) as pool:
            yield from pool.map(lambda seed: embedded(seed, model, references), seeds("embedded"))


def on_servers() -> Iterator[Outcome]:
    with ledger.serving() as model, Servers.running() as servers:
        references = References(model)
        for seed in seeds("neo4j"):
            yield distributed(seed, model, references, servers)


STACKS = {"embedded": on_embedded, "neo4j": on_servers}


def main() -> None:
    stack = os.environ.get("STACK") or "embedded"
    start, outcomes = time.monotonic(), []
    for outcome in STACKS[stack]():
        outcomes.append(outcome)
        mark = "FAILED" if outcome.wrong else "left" if outcome.left_out else "ok"
        print(
            f"{mark:6} {outcome.seed:16} {outcome.seconds:5.1f} s  {outcome.kind}: {outcome.fault}",
            flush=True,
        )
        if outcome.wrong:
            print(report.failure(outcome), flush=True)
    print(f"\n{stack}, {len(outcomes)} schedules in {time.monotonic() - start:.0f} s\n")
    print(report.markdown(outcomes))
    if file := os.environ.get("JSON"):
        Path(file).write_text(json.dumps(report.as_json(outcomes), indent=1))
    sys.exit(any(one.wrong for one in outcomes))


if __name__ == "__main__":
    main()
