"""Changes to what is stored: one document more, less or other, and a hundred less."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.bench.performance.corpus import Document
from tests.bench.performance.ingest import as_upload, finish
from tests.bench.performance.stacks import Running

LOOK = 0.05  # seconds; each look costs the service about a millisecond
LOOK_SHARE = 0.25  # of the time so far, so that waiting longer does not look more often
PATIENCE = 600.0
ENDED = ("done", "failed", "cancelled")
OTHER = "It was described again, and Marlow Institute took part."

Figures = dict[str, Any]


def added(running: Running, fresh: Sequence[Document]) -> Figures:
    """One document after the other, each waited for."""

    def add(document: Document) -> None:
        reply = running.service.json("POST", "/documents", 202, json=_upload(document))
        _ended(running, reply["documents"][0]["job_id"])

    return _each(running, fresh, add)


def replaced(running: Running, known: Sequence[Document]) -> Figures:
    """The same documents with a sentence more."""
    return added(running, [replace(one, text=f"{one.text} {OTHER}") for one in known])


def deleted(running: Running, known: Sequence[Document]) -> Figures:
    def delete(document: Document) -> None:
        reply = running.service.json("DELETE", f"/documents/{document.id}", 202)
        _ended(running, reply["job_id"])

    return _each(running, known, delete)


def deleted_together(running: Running, known: Sequence[Document]) -> Figures:
    """All in one request; CPU by document."""
    left = running.service.json("GET", "/documents/counts")["ready"] - len(known)
    with running.measured() as used:
        ids = [one.id for one in known]
        reply = running.service.json("POST", "/documents/delete", 202, json={"ids": ids})
        jobs = [one["job_id"] for one in reply["documents"]]
        finish(running, left, PATIENCE)
        for job in jobs:
            _ended(running, job)
    return {**_figures(running, used, len(known)), "wall_s": used.wall_s}


def _each(
    running: Running, some: Sequence[Document], change: Callable[[Document], None]
) -> Figures:
    took = []
    with running.measured() as used:
        for document in some:
            began = time.perf_counter()
            change(document)
            took.append(time.perf_counter() - began)
    took.sort()
    return {**_figures(running, used, len(some)), "p50_ms": 1000 * took[len(took) // 2]}


def _figures(running: Running, used: Any, count: int) -> Figures:
    kinds = running.model.stats()["kinds"]
    return {
        "cpu_ms": 1000 * used.cpu / count,
        "databases_cpu_ms": 1000 * used.cpu_s["databases"] / count,
        "summaries": kinds.get("summary", {}).get("calls", 0) / count,
        "chats": sum(o["calls"] for k, o in kinds.items() if k != "embedding") / count,
        "count": count,
    }  # fmt: skip


def _upload(document: Document) -> dict[str, Any]:
    return {"documents": [as_upload(document)]}


def _ended(running: Running, job: str) -> None:
    began = time.monotonic()
    while (seen := running.service.json("GET", f"/jobs/{job}"))["state"] not in ENDED:
        passed = time.monotonic() - began
        assert passed < PATIENCE, f"{seen}; {running.service.tail()}"
        time.sleep(max(LOOK, LOOK_SHARE * passed))
    assert seen["state"] == "done", seen
