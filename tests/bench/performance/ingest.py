"""Ingestion: what a document costs beside its model calls, and how near the wall clock comes to
those calls alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench.performance.bound import bound
from tests.bench.performance.client import Connection, connections
from tests.bench.performance.corpus import Document, documents
from tests.bench.performance.processes import DATABASES, SERVICE, Used
from tests.bench.performance.stacks import Running, Stacks, scripted_model
from tests.model_answers import tokens

TOGETHER = 100  # documents in a request
LOOK = 0.1  # seconds between looks whether all is done
LOOK_SHARE = 0.02  # of the time so far: counting documents is work too
SECONDS_EACH = 5.0  # patience, by document

Figures = dict[str, Any]


def ingestion(stacks: Stacks, size: int, chat_ms: float) -> Figures:
    """One run on fresh stores."""
    found = [*documents(size)]
    with scripted_model(chat_ms) as model, stacks.fresh(model) as running:
        with running.measured() as used:
            ingest(running, found)
        figures = costs(used, len(found))
        figures["chunks"] = chunks = running.service.json("GET", "/graph/stats")["chunks"]
        kinds = model.stats()["kinds"]
        figures |= calls(kinds, chunks, sum(tokens(one.text) for one in found))
        alone = bound(model, found, kinds)
    figures |= {
        "bound_s": alone["wall_s"], "over_bound": used.wall_s / alone["wall_s"],
        "calls_alone_cpu_ms": 1000 * alone["cpu_s"] / size,
    }  # fmt: skip
    return figures


def ingest(running: Running, found: Sequence[Document]) -> None:
    """Returns when all are ready. Raises `AssertionError` if one failed."""
    before = running.service.json("GET", "/documents/counts").get("ready", 0)
    asyncio.run(_posted(running.service.url, found))
    finish(running, before + len(found), SECONDS_EACH * len(found) + 60)


async def _posted(url: str, found: Sequence[Document]) -> None:
    async with connections(url, 1) as (connection,):
        for batch in batches(found):
            await post(connection, batch)


def batches(found: Sequence[Document]) -> Iterator[Sequence[Document]]:
    for n in range(0, len(found), TOGETHER):
        yield found[n : n + TOGETHER]


async def post(connection: Connection, batch: Sequence[Document]) -> None:
    await connection.call("POST", "/documents", {"documents": [*map(as_upload, batch)]})


def as_upload(document: Document) -> dict[str, str]:
    return {"id": document.id, "name": document.title, "text": document.text}


def finish(running: Running, ready: int, patience: float) -> None:
    """Wait until so many documents are ready."""
    began = time.monotonic()
    while True:
        counts = running.service.json("GET", "/documents/counts")
        assert not counts.get("failed"), f"{counts}: {_failures(running)}; {running.service.tail()}"
        if counts.get("ready", 0) == ready == sum(counts.values()):
            return
        passed = time.monotonic() - began
        assert passed < patience, f"still busy: {counts}; {running.service.tail()}"
        time.sleep(max(LOOK, min(2.0, LOOK_SHARE * passed)))


def _failures(running: Running) -> list[object]:
    query = {"status": "failed", "limit": 3}
    found = running.service.json("GET", "/documents", params=query)["documents"]
    return [one["error"] for one in found]


def costs(used: Used, count: int) -> Figures:
    """CPU by document; memory in MiB."""
    each = 1000 / count
    return {
        "documents": count, "wall_s": used.wall_s, "cpu_ms": each * used.cpu,
        "service_cpu_ms": each * used.cpu_s[SERVICE],
        "databases_cpu_ms": each * used.cpu_s[DATABASES],
        "service_mib": used.peak_mib[SERVICE], "process_mib": used.largest_mib,
        "databases_mib": used.peak_mib[DATABASES],
    }  # fmt: skip


def calls(kinds: Mapping[str, Mapping[str, int]], chunks: int, text_tokens: int) -> Figures:
    """Of the model, by chunk. Overhead: prompt tokens of reading a chunk beside its text."""
    chats = {kind: one for kind, one in kinds.items() if kind != "embedding"}
    made = sum(one["calls"] for one in chats.values())
    prompts = sum(one["prompt_tokens"] for one in chats.values())
    embedding = kinds.get("embedding", {"calls": 0, "items": 0})
    return {
        "calls": made / chunks, "summaries": chats.get("summary", {}).get("calls", 0) / chunks,
        "prompt_tokens": prompts / chunks, "overhead_tokens": (prompts - text_tokens) / chunks,
        "embedding_calls": embedding["calls"] / chunks, "embedded": embedding["items"] / chunks,
    }  # fmt: skip
