"""Questions: what one costs, how long it takes, alone, with others, and while documents come in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from tests.bench.performance.client import Connection, Refused, side_by_side
from tests.bench.performance.corpus import Document, documents, questions
from tests.bench.performance.ingest import batches, finish, post
from tests.bench.performance.stacks import Running

MODES = ("naive", "local", "global", "hybrid", "mix", "ppr", "asr", "subgraph", "auto")
CLIENTS = 16
DEFAULT = "auto"
WARM = 5  # questions before, which nobody counts
BUSY = 1000  # documents that come in meanwhile, at most

Figures = dict[str, Any]


def asked(running: Running, mode: str, count: int, clients: int) -> Figures:
    """Context only, no question twice. Raises `Refused` for a mode that the service has not."""
    texts = [f"{one} ({mode} {clients})" for one in questions(count + WARM)]
    asyncio.run(_ask(running, mode, texts[count:], 1))
    with running.measured() as used:
        took = asyncio.run(_ask(running, mode, texts[:count], clients))
    return {
        **quantiles(took), "cpu_ms": 1000 * used.cpu / count, "rate": count / used.wall_s,
        "databases_cpu_ms": 1000 * used.cpu_s["databases"] / count,
        "calls": sum(one["calls"] for one in running.model.stats()["kinds"].values()) / count,
    }  # fmt: skip


def every_mode(
    running: Running, count: int, modes: Sequence[str] = MODES
) -> Iterator[tuple[str, int, Figures]]:
    """Mode, clients at a time, figures."""
    for mode in modes:
        for clients in (1, CLIENTS):
            try:
                yield mode, clients, asked(running, mode, count, clients)
            except Refused as refused:
                print(f"{mode}: left out, {refused}", flush=True)
                break


def while_busy(running: Running, stored: int, count: int, mode: str = DEFAULT) -> Figures:
    """The same questions at rest and while documents come in at full speed."""
    alone = asked(running, mode, count, 1)
    fresh = [*documents(min(BUSY, max(stored, 1)), start=stored)]
    found = asyncio.run(_both(running, mode, count, fresh))
    finish(running, stored + len(fresh), 600)
    return {
        "rest_p50_ms": alone["p50_ms"], "rest_p95_ms": alone["p95_ms"], **quantiles(found),
        "p50_ratio": quantiles(found)["p50_ms"] / alone["p50_ms"],
        "p95_ratio": quantiles(found)["p95_ms"] / alone["p95_ms"], "asked": len(found),
        "documents": len(fresh),
    }  # fmt: skip


async def _both(running: Running, mode: str, count: int, fresh: Sequence[Document]) -> list[float]:
    """Asks until the documents are all in, or the questions are at an end."""
    url, texts = running.service.url, [f"{one} (busy)" for one in questions(count)]

    async def feed(connection: Connection, batch: Sequence[Document]) -> None:
        await post(connection, batch)

    feeding = asyncio.create_task(side_by_side(url, 1, [*batches(fresh)], feed))
    await asyncio.sleep(1.0)
    took = await _ask(running, mode, texts, 1)
    await feeding
    return took


async def _ask(running: Running, mode: str, texts: Sequence[str], clients: int) -> list[float]:
    async def ask(connection: Connection, text: str) -> None:
        body = {"query": text, "mode": mode, "only_context": True}
        await connection.call("POST", "/query", body)

    return await side_by_side(running.service.url, clients, texts, ask)


def quantiles(seconds: Sequence[float]) -> Figures:
    ordered = sorted(seconds)
    return {
        f"p{share}_ms": 1000 * ordered[min(len(ordered) - 1, len(ordered) * share // 100)]
        for share in (50, 95)
    }
