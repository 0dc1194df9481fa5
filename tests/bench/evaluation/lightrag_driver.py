"""Measures `lightrag-hku`: builds its index of one store and asks it the questions.

Runs in an environment of its own (`make evaluate` makes it), where this repository lies on the
path; `reference.py` starts it. The model is the replaying one and the vectors are those of the
built-in encoder, called inside the process: the framework without its HTTP client. Its rewriting of
all files after each document and each query is held back until the end, since that is quadratic in
the size of the store: good for building a store to retrieve from, no measurement of its speed.

    python -m tests.bench.evaluation.lightrag_driver order.json result.json
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.rules.embedder import LocalEmbedder
from tests.bench.evaluation.grounds import Store
from tests.bench.evaluation.vectors import RememberedEmbedder
from tests.bench.replay.answers import Replay
from tests.bench.replay.recordings import library

MODES = ("naive", "local", "global", "hybrid", "mix")
WHOLE = 2048  # tokens: as in filling.py
Messages = Sequence[Mapping[str, str]]


async def measured(order: Mapping[str, Any]) -> dict[str, Any]:
    """`order`: store, folder, vectors (file), questions [[id, text], …], modes."""
    from lightrag import LightRAG
    from lightrag.utils import EmbeddingFunc

    store = Store(**order["store"])
    replay = Replay(library([store.set], recorded=store.recorded))
    embedder = RememberedEmbedder(LocalEmbedder(), Path(order["vectors"]))

    async def complete(
        prompt: str, system_prompt: str | None = None,
        history_messages: Messages | None = None, **_: Any,
    ) -> str:  # fmt: skip
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        said = [*system, *(history_messages or []), {"role": "user", "content": prompt}]
        return await replay.answer([{**one} for one in said])

    async def embed(texts: list[str], **_: Any) -> np.ndarray[Any, Any]:
        made = await embedder.embed(texts, purpose="document")
        return np.array(made.vectors, dtype=np.float32)

    options: dict[str, Any] = {}
    if store.set == "graphrag-bench-medical":
        options["chunk_token_size"] = WHOLE
    rag = LightRAG(
        working_dir=order["folder"], llm_model_func=complete, llm_model_name="replay",
        embedding_func=EmbeddingFunc(
            embedding_dim=embedder.dimension, max_token_size=8192, func=embed
        ),
        **options,
    )  # fmt: skip
    await rag.initialize_storages()
    began = time.perf_counter()
    if not (Path(order["folder"]) / "complete").exists():
        await _ingested(rag, store)
        (Path(order["folder"]) / "complete").touch()
    built = {"seconds": round(time.perf_counter() - began, 1), "asked": dict(replay.asked)}
    graph = rag.chunk_entity_relation_graph._graph
    built |= {"entities": graph.number_of_nodes(), "relations": graph.number_of_edges()}
    print(f"lightrag {store.key}: {built}", flush=True)
    asked = await _asked(rag, replay, order)
    return {"version": _version(), "built": built, **asked}


async def _ingested(rag: Any, store: Store) -> None:
    async def held_back(*_: Any, **__: Any) -> bool:
        return True

    held = rag._index_storages()
    for one in held:
        one.index_done_callback = held_back
    passages = store.load().passages
    await rag.ainsert(
        [f"{p.title}\n{p.text}" if p.title else p.text for p in passages],
        ids=[p.id for p in passages], file_paths=[f"{p.id}.txt" for p in passages],
    )  # fmt: skip
    for one in held:
        del one.index_done_callback
    await rag._insert_done()
    counts = {str(k): v for k, v in (await rag.doc_status.get_status_counts()).items()}
    assert counts.get("processed", 0) == len(passages), counts


async def _asked(rag: Any, replay: Replay, order: Mapping[str, Any]) -> dict[str, Any]:
    from lightrag import QueryParam

    async def held_back() -> None:
        return None

    rag._query_done = held_back
    texts: dict[str, str] = {}
    found: dict[str, dict[str, Any]] = {}
    for mode in order["modes"]:
        rows = found[mode] = {}
        for id, question in order["questions"]:
            calls, began = replay.asked.total(), time.perf_counter()
            reply = await rag.aquery_data(question, QueryParam(mode=mode, enable_rerank=False))
            ms = 1000 * (time.perf_counter() - began)
            data = reply.get("data") or {}
            chunks = data.get("chunks", [])
            texts |= {one["chunk_id"]: one["content"] for one in chunks}
            rows[id] = {
                "chunks": [[_document(one), one["chunk_id"]] for one in chunks],
                "tokens": _tokens(replay, data), "ms": round(ms, 1),
                "calls": replay.asked.total() - calls,
            }  # fmt: skip
        print(f"lightrag {mode}: {len(rows)} questions", flush=True)
    return {"found": found, "texts": texts}


def _document(chunk: Mapping[str, Any]) -> str:
    return str(chunk["file_path"]).removesuffix(".txt")


def _tokens(replay: Replay, data: Mapping[str, Any]) -> int:
    """Of the context, about: the fields that its prompt shows, as JSON."""
    shown = [
        [{key: one[key] for key in keys} for one in data.get(kind, [])]
        for kind, keys in (
            ("entities", ("entity_name", "entity_type", "description")),
            ("relationships", ("src_id", "tgt_id", "keywords", "description")),
            ("chunks", ("content",)),
        )
    ]
    return replay.tokenizer.count(json.dumps(shown, ensure_ascii=False))


def _version() -> str:
    from importlib.metadata import version

    return version("lightrag-hku")


def main(order: str, result: str) -> None:
    for name in ("lightrag", "nano-vectordb"):
        logging.getLogger(name).setLevel(logging.ERROR)
    found = asyncio.run(measured(json.loads(Path(order).read_text())))
    Path(result).write_text(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
