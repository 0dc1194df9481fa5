"""The bound: the model calls of a run alone, so many at a time, with nothing around them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import orjson

from tests.bench.performance.client import Connection, side_by_side
from tests.bench.performance.corpus import Document
from tests.bench.performance.stacks import AT_ONCE, ScriptedModel

EMBEDDED = 64  # texts in a call


def bound(
    model: ScriptedModel, documents: Sequence[Document], kinds: Mapping[str, Mapping[str, int]]
) -> dict[str, float]:
    """Make as many chat calls as a run made, about its documents, and as many embeddings in full
    batches beside them. Returns `wall_s` and the CPU seconds of this client, `cpu_s`."""
    chats = [_chat(one) for one in documents]
    wanted = sum(one["calls"] for kind, one in kinds.items() if kind != "embedding")
    chats = [chats[n % len(chats)] for n in range(wanted)]
    texts = kinds.get("embedding", {}).get("items", 0)
    batches = [
        orjson.dumps({"input": [documents[(n + i) % len(documents)].text for i in range(EMBEDDED)]})
        for n in range(0, texts, EMBEDDED)
    ]
    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(_made(model.url, chats, batches))
    return {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


async def _made(url: str, chats: Sequence[bytes], batches: Sequence[bytes]) -> None:
    async def chat(connection: Connection, body: bytes) -> None:
        await connection.call("POST", "/v1/chat/completions", body)

    async def embed(connection: Connection, body: bytes) -> None:
        await connection.call("POST", "/v1/embeddings", body)

    await asyncio.gather(
        side_by_side(url, AT_ONCE, chats, chat), side_by_side(url, 1, batches, embed)
    )


def _chat(document: Document) -> bytes:
    user = f"---Input Text---\n```\n{document.title}\n{document.text}\n```"
    system = {"role": "system", "content": "# Extract"}
    return orjson.dumps({"messages": [system, {"role": "user", "content": user}]})
