"""Measures `lightrag-hku` in a process of its own environment: its library with its own OpenAI
binding, its default file stores, and all of its defaults but the model endpoint.

`reference.py` starts it, with this repository on the path and an order: folder, model (URL),
dimension, documents and fresh documents ([id, text] each), questions, modes, and optionally
`at_once`, model calls at a time.

    python -m tests.bench.performance.lightrag_driver order.json result.json
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.performance.processes import SERVICE, Meter, Used

CLIENTS = 16
Rows = Sequence[Sequence[str]]


async def measured(order: Mapping[str, Any]) -> dict[str, Any]:
    began, cpu = time.perf_counter(), time.process_time()
    rag = _opened(order)
    await rag.initialize_storages()
    found: dict[str, Any] = {
        "version": f"lightrag-hku {version('lightrag-hku')}",
        "start": {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu},
    }
    documents: Rows = order["documents"]
    with _meter() as used:
        await _insert(rag, documents)
    found["ingest"] = _costs(used, len(documents))
    found["kinds"] = await asyncio.to_thread(_kinds, order["model"])
    counts = {str(k): v for k, v in (await rag.doc_status.get_status_counts()).items()}
    assert counts.get("processed", 0) == len(documents), counts
    found["query"] = {
        f"{mode} {clients}": await _asked(rag, order["questions"], mode, clients)
        for mode in order["modes"]
        for clients in (1, CLIENTS)
    }
    fresh: Rows = order["fresh"]
    if fresh:
        with _meter() as used:
            for one in fresh:
                await _insert(rag, [one])
        found["add one"] = _costs(used, len(fresh))
        with _meter() as used:
            for id, _ in fresh:
                await rag.adelete_by_doc_id(id)
        found["delete one"] = _costs(used, len(fresh))
    await rag.finalize_storages()
    return found


def _kinds(model: str) -> Any:
    with urllib.request.urlopen(f"{model}/stats") as reply:
        return json.loads(reply.read())["kinds"]


def _opened(order: Mapping[str, Any]) -> Any:
    from lightrag import LightRAG
    from lightrag.llm.openai import openai_complete_if_cache, openai_embed
    from lightrag.utils import EmbeddingFunc

    for name in ("lightrag", "httpx", "nano-vectordb", "openai"):
        logging.getLogger(name).setLevel(logging.ERROR)
    url = f"{order['model']}/v1"
    os.environ.update(OPENAI_API_KEY="none", OPENAI_API_BASE=url)

    async def complete(
        prompt: str, system_prompt: str | None = None,
        history_messages: Sequence[Mapping[str, str]] = (), **options: Any,
    ) -> Any:  # fmt: skip
        return await openai_complete_if_cache(
            "scripted", prompt, system_prompt=system_prompt, base_url=url, api_key="none",
            history_messages=[*history_messages], **options,
        )  # fmt: skip

    async def embed(texts: list[str]) -> Any:
        return await openai_embed.func(
            texts, model="scripted-embedding", base_url=url, api_key="none"
        )

    options = {"llm_model_max_async": order["at_once"]} if order.get("at_once") else {}
    return LightRAG(
        working_dir=order["folder"], llm_model_func=complete, llm_model_name="scripted",
        embedding_func=EmbeddingFunc(
            embedding_dim=order["dimension"], max_token_size=8192, func=embed
        ),
        **options,
    )  # fmt: skip


async def _insert(rag: Any, documents: Rows) -> None:
    ids, texts = [id for id, _ in documents], [text for _, text in documents]
    await rag.ainsert(texts, ids=ids, file_paths=[f"{id}.txt" for id in ids])


async def _asked(rag: Any, questions: Sequence[str], mode: str, clients: int) -> dict[str, Any]:
    from lightrag import QueryParam

    took: list[float] = []
    left = iter([f"{one} ({mode} {clients})" for one in questions])

    async def client() -> None:
        for question in left:
            began = time.perf_counter()
            options = QueryParam(mode=mode, only_need_context=True, enable_rerank=False)
            await rag.aquery(question, options)
            took.append(time.perf_counter() - began)

    with _meter() as used:
        await asyncio.gather(*(client() for _ in range(clients)))
    took.sort()
    return {
        "cpu_ms": 1000 * used.cpu / len(took), "rate": len(took) / used.wall_s,
        "p50_ms": 1000 * took[len(took) // 2], "p95_ms": 1000 * took[len(took) * 95 // 100],
    }  # fmt: skip


def _meter() -> Meter:
    return Meter({SERVICE: [os.getpid()]})


def _costs(used: Used, count: int) -> dict[str, Any]:
    return {
        "cpu_ms": 1000 * used.cpu / count, "wall_s": used.wall_s, "documents": count,
        "service_mib": used.peak_mib[SERVICE], "process_mib": used.largest_mib,
    }  # fmt: skip


def main(order: str, result: str) -> None:
    found = asyncio.run(measured(json.loads(Path(order).read_text(encoding="utf-8"))))
    Path(result).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
