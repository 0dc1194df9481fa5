"""Chunks to evidence: each chunk is read once by the extractor, and what it says is stored at once.

A chunk that another one of the workspace equals (same text, headings, title, model and prompt) is
not read again. A chunk whose reply cannot be used costs that chunk, not the document.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from app.domain import Chunk, Extraction, Step, Usage
from app.errors import AppError, BadModelOutput, Invalid
from app.ports import Models, Workspace
from app.subjects import about, naming_title, title_of
from app.together import outcomes
from workers.shards import shards

log = logging.getLogger("heliograph.extract")

HOLD_SECONDS = 300.0
HOLD_PAUSE = 1.0


async def unread(workspace: Workspace, step: Step) -> list[list[str]]:
    ids = await workspace.graph.unread(step.document_id, step.job_id)
    return shards(ids, workspace.options.chunks_per_step)


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    document = await workspace.documents.get(step.document_id)
    names = (document.coming.name, document.coming.title)
    groups: defaultdict[str, list[Chunk]] = defaultdict(list)
    for chunk, key in await workspace.graph.pending_chunks(step.document_id, step.shard):
        groups[key].append(chunk)
    known = await workspace.graph.extractions(list(groups))
    for key, extraction in known.items():
        await _store(workspace, key, groups.pop(key), replace(extraction, usage=Usage()))
    reader = _Reader(workspace, models, title_of(*names), naming_title(*names))
    try:
        # A call under way is paid for, whatever becomes of its neighbours: all end first.
        _, failure = await outcomes(reader.read(*group) for group in groups.items())
    finally:
        charge = workspace.documents.charge
        await asyncio.shield(_through(lambda: charge(step.document_id, reader.usage)))
    if failure is not None:
        raise failure
    log.info(
        "chunks.extracted workspace=%s document=%s chunks=%d reused=%d failed=%d dropped=%d",
        workspace.name, step.document_id, len(step.shard), len(known), reader.failed,
        reader.dropped,
    )  # fmt: skip


class _Reader:
    """Reads the chunks of one step side by side and adds up what that cost."""

    def __init__(self, workspace: Workspace, models: Models, title: str, naming: str) -> None:
        self._workspace, self._models, self._title = workspace, models, title
        self._naming = naming
        self.usage = Usage()
        self.failed = 0
        self.dropped = 0

    async def read(self, key: str, chunks: Sequence[Chunk]) -> None:
        first = chunks[0]
        try:
            extraction = await self._models.joint.get(
                (self._workspace.name, key),
                lambda: self._models.extractor.extract(self._title, first.headings, first.text),
            )
        except (BadModelOutput, Invalid) as error:
            await _store(self._workspace, key, chunks, Extraction(error=error.detail))
            self.failed += len(chunks)
            return
        self.usage += extraction.usage
        self.dropped += extraction.dropped
        named = about(extraction, self._naming, first.headings, first.text)
        await _store(self._workspace, key, chunks, named)


async def _store(
    workspace: Workspace, key: str, chunks: Sequence[Chunk], extraction: Extraction
) -> None:
    for chunk in chunks:
        await _through(partial(workspace.graph.put_extraction, chunk.id, extraction, key=key))


async def _through(write: Callable[[], Awaitable[None]]) -> None:
    """What a model answered is paid for: it is held until a store that is away, or whose disk is
    full, takes it. Another worker that claims the step meanwhile ends this."""
    until = time.monotonic() + HOLD_SECONDS
    while True:
        try:
            return await write()
        except AppError as away:
            if not away.transient or time.monotonic() > until:
                raise
            log.warning("extraction.held code=%s", away.code)
        await asyncio.sleep(HOLD_PAUSE)
