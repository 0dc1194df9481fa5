"""`make faults`: break the service by seeded schedules, and count what is lost or paid twice.

Environment: STACK=embedded,neo4j,crowd (many workers, and a rolling restart), SEED=<number>,
RUNS=<number>, ONLY=<seed of one schedule>, PARALLEL=<schedules at a time>, DOCUMENTS=<number, of a
crowd>, JSON=<file>.
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
from tests.faults.crowd import crowds
from tests.faults.runner import Outcome, References, distributed, embedded
from tests.faults.servers import Servers
from tests.servers import Missing

RUNS = {"embedded": 200, "neo4j": 50}


def base() -> int:
    return int(os.environ.get("SEED") or 1)


def seeds(stack: str) -> list[str]:
    if only := os.environ.get("ONLY"):
        return [only]
    runs = int(os.environ.get("RUNS") or RUNS[stack])
    return [f"{stack}-{base()}-{n}" for n in range(runs)]


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


def in_a_crowd() -> Iterator[Outcome]:
    documents = int(os.environ.get("DOCUMENTS") or 500)
    with ledger.serving() as model, Servers.running() as servers:
        yield from crowds(f"crowd-{base()}", documents, model, servers)


STACKS = {"embedded": on_embedded, "neo4j": on_servers, "crowd": in_a_crowd}


def main() -> None:
    """Exit status 1 if a schedule failed."""
    every: dict[str, list[Outcome]] = {}
    for stack in (os.environ.get("STACK") or "embedded,neo4j,crowd").split(","):
        start, outcomes = time.monotonic(), every.setdefault(stack, [])
        try:
            for outcome in STACKS[stack]():
                outcomes.append(outcome)
                report.say(outcome)
        except Missing as missing:
            print(f"{stack} is left out: {missing}")
            continue
        print(f"\n{stack}, {len(outcomes)} schedules in {time.monotonic() - start:.0f} s\n")
        print(report.markdown(outcomes), flush=True)
    if file := os.environ.get("JSON"):
        found = {stack: report.as_json(outcomes) for stack, outcomes in every.items()}
        Path(file).write_text(json.dumps(found, indent=1))
    sys.exit(any(one.wrong for outcomes in every.values() for one in outcomes))


if __name__ == "__main__":
    main()
