"""Communities on the evaluation data: how long they take, and what one more document costs.

    python -m tests.bench.communities --set 2wiki-101

Ingests a set with the built-in models but for its last passages, divides it, writes all reports by
rules, then adds the passages that were left out one by one. A report counts as a model call where a
model would write it, so that calls are told without one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.domain import Clustering, Fact, Plan, Reported, Step
from app.ports import Models, Workspace
from app.rules.embedder import LocalEmbedder
from app.terms import terms
from tests.bench.retrieval import SETS, WORKSPACE, ingest, load, opened
from workers.stages import cluster, index, report

LEFT_OUT = 5  # passages that come later, one by one


class _Counting:
    """Rules in the role of a model."""

    by_model = True

    def __init__(self, rules: Any) -> None:
        self._rules = rules
        self.calls = 0

    async def report(self, facts: Sequence[Fact]) -> Reported:
        self.calls += 1
        made: Reported = await self._rules.report(facts)
        return made


async def refresh(workspace: Workspace, models: Models, clustering: Clustering) -> str:
    reporter: Any = models.reporter
    step = Step("bench", "bench", WORKSPACE, Plan.COMMUNITIES, "", "cluster", (), 1)
    await workspace.communities.begin("bench", clustering)
    before = reporter.calls
    times = [time.perf_counter()]
    await cluster.run(workspace, models, step)
    times.append(time.perf_counter())
    due = await report.due(workspace, step)
    for shard in due:
        await report.run(workspace, models, replace(step, shard=tuple(shard)))
    times.append(time.perf_counter())
    for shard in await index.of_workspace(workspace, step):
        await index.run(workspace, models, replace(step, shard=tuple(shard)))
    times.append(time.perf_counter())
    spent = [later - earlier for earlier, later in itertools.pairwise(times)]
    return (
        f"divide {spent[0]:6.2f} s   reports {sum(map(len, due)):5} in {spent[1]:6.2f} s   "
        f"vectors {spent[2]:6.2f} s   model calls {reporter.calls - before}"
    )


async def main() -> None:
    options = _arguments()
    data = load(options.set)
    passages = data.passages[: options.limit]
    kept, later = passages[:-LEFT_OUT], passages[-LEFT_OUT:]
    clustering = Clustering(size=options.size)
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder), LocalEmbedder()) as (workspace, plain):
            models = replace(plain, reporter=_Counting(plain.plain_reporter))
            begin = time.perf_counter()
            await ingest(workspace, models, replace(data, passages=kept))
            stats = await workspace.graph.stats()
            print(f"{options.set}: {stats}, ingested in {time.perf_counter() - begin:.0f} s")
            print("built      ", await refresh(workspace, models, clustering))
            print("levels     ", await workspace.communities.levels())
            print("unchanged  ", await refresh(workspace, models, clustering))
            for passage in later:
                await ingest(workspace, models, replace(data, passages=[passage]))
                words = len(list(terms(passage["text"])))
                print(f"+1 ({words:3} w) ", await refresh(workspace, models, clustering))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, default="2wiki-101")
    parser.add_argument("--limit", type=int, help="so many passages")
    parser.add_argument("--size", type=int, default=Clustering().size)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
