"""Stores for an evaluation, filled in one go and kept between runs.

The stages are those of production, and so are the records: an original, a job that is done, chunks,
evidence, vectors. Only their order differs: each document is parsed, read and folded, then names
are decided and vectors made once for all. That is ten times faster than document by document, and
the fingerprint of the store is the same (tests/bench/test_evaluation.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path

from app.api import ingestion
from app.api.uploads import Upload
from app.domain import Plan, Status, Step, first_ticket
from app.evaluation.questions import Passage
from app.ports import Models, Services, Workspace
from app.settings import Settings
from app.upkeep.reindex import reindex
from app.wiring import embedded_queue, open_services
from app.wiring.stores import open_graph
from migrations import migrate_sqlite
from tests.bench.evaluation.vectors import RememberedEmbedder
from workers.stages import extract, index, merge, parse, profile, publish, resolve

WORKSPACE = "default"
LEASE = 86_400.0  # seconds; nobody else works on a store that is being filled
AT_ONCE = 64
TEXT = "text/plain"
DATE = "2026-01-01"
# What the content of a store depends on. The rest (queries, API) may change without a new one.
INDEXING = (
    "app/data", "app/rules", "app/resolution", "app/stores", "app/llm", "app/folding.py",
    "app/indexed.py", "app/names.py", "app/subjects.py", "app/terms.py", "app/words.py",
    "migrations", "workers/stages", "workers/parsing", "workers/chunking.py",
)  # fmt: skip


def name_of(passage: Passage) -> str:
    """Documents without a title are files, whose name says nothing."""
    return passage.title or f"{passage.id.lower()}.txt"


def fingerprint_of(root: Path, parts: Iterable[str] = INDEXING) -> str:
    """Of the code that decides what a store holds."""
    digest = hashlib.sha256()
    for part in parts:
        path = root / part
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            if "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


async def fill(
    settings: Settings, passages: Sequence[Passage], *, vectors: Path | None = None
) -> float:
    """Store all in the embedded stores that the settings name; seconds that it took. `vectors` is
    a file that keeps vectors by text."""
    begin = time.perf_counter()
    await asyncio.to_thread(settings.data_dir.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(migrate_sqlite, settings.data_dir / "graph.db")
    async with embedded_queue(settings) as queued, open_services(queued) as services:
        workspace, models = services.workspace(WORKSPACE), services.models
        if vectors is not None:
            models = replace(models, embedder=RememberedEmbedder(models.embedder, vectors))
        steps: list[Step] = []
        for start in range(0, len(passages), AT_ONCE):
            part = passages[start : start + AT_ONCE]
            steps += await _submitted(services, workspace, part)
            for step in steps[start:]:
                await _read(workspace, models, step)
        whole = Step("fill", "fill", WORKSPACE, Plan.INGEST, "", "index", (), 1)
        await resolve.run(workspace, models, whole)
        for run, split in ((profile.run, profile.of_workspace), (index.run, index.of_workspace)):
            for shard in await split(workspace, whole):
                await run(workspace, models, replace(whole, shard=tuple(shard)))
        for step in steps:
            await publish.run(workspace, models, replace(step, shard=("",)))
            await services.journal.finish(step, next_status=Status.READY, lease=LEASE)
    return time.perf_counter() - begin


async def encode_again(settings: Settings, *, vectors: Path) -> float:
    """Vectors of the encoder that the settings name for a store that has those of another; seconds
    that it took. No model decides on names here, so the rest of a store is the same with any."""
    begin = time.perf_counter()
    async with embedded_queue(settings) as queued, open_services(queued, reindex=True) as services:
        with closing(RememberedEmbedder(services.models.embedder, vectors)) as embedder:
            await reindex(services, embedder)
    return time.perf_counter() - begin


async def chunks_of(settings: Settings, documents: Sequence[str]) -> list[tuple[str, str]]:
    """Document and text of each chunk, as the service cut them."""
    async with AsyncExitStack() as stack:
        graph = (await open_graph(stack, settings)).graph(WORKSPACE)
        found: list[tuple[str, str]] = []
        for id in documents:
            after = -1
            while page := await graph.document_chunks(id, after=after):
                found += [(id, chunk.text) for chunk in page]
                after = page[-1].position
        return found


async def _submitted(
    services: Services, workspace: Workspace, passages: Sequence[Passage]
) -> list[Step]:
    uploads = [_upload(passage) for passage in passages]
    accepted = await ingestion.store(services, workspace, uploads, key="", now=time.time())
    steps = []
    for one in accepted:
        ticket = first_ticket(one.job_id, Plan.INGEST)
        step = await services.journal.claim(ticket.step_id, lease=LEASE, tries=8)
        assert step is not None, "somebody else works on this store"
        steps.append(step)
    return steps


def _upload(passage: Passage) -> Upload:
    data = passage.text.encode()
    return Upload(
        id=passage.id, name=name_of(passage), media_type=TEXT, data=data,
        source=hashlib.sha256(data).hexdigest(), metadata={}, date=DATE,
    )  # fmt: skip


async def _read(workspace: Workspace, models: Models, step: Step) -> None:
    await parse.run(workspace, models, step)
    for shard in await extract.unread(workspace, step):
        await extract.run(workspace, models, replace(step, shard=tuple(shard)))
    await merge.run(workspace, models, step)
