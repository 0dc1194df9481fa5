"""Bytes to text to chunks: the original is parsed in a limited child and cut into windows."""

from __future__ import annotations

import asyncio
import hashlib
import logging

from app.domain import Chunk, Step, Usage, chunk_id
from app.originals import settle
from app.ports import Models, Workspace
from app.subjects import title_of
from workers.chunking import Window, chunks
from workers.parsing import Limits, Parsed, parse

log = logging.getLogger("heliograph.parse")


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    document = await workspace.documents.get(step.document_id)
    revision = document.pending
    if revision is None:  # published by an earlier run of this job
        return
    data = await workspace.blobs.get(revision.source)
    limits = Limits(workspace.options.parse_seconds, workspace.options.parse_memory_mb)
    parsed = await parse(data, revision.name, revision.media_type, limits=limits)
    data = parsed.text.encode()
    text = await workspace.blobs.put(data)
    await workspace.documents.parsed(document.id, step.job_id, text=text, title=parsed.title)
    await settle(workspace, text, data)
    if parsed.warnings:
        await workspace.documents.charge(document.id, Usage(), parsed.warnings)
    # In a thread: half a second for each megabyte, in which heartbeats and questions must go on.
    made = await asyncio.to_thread(_cut, workspace, models, document.id, parsed)
    title = title_of(revision.name, parsed.title)
    keys = [extraction_key(models.extractor.version, title, chunk) for chunk in made]
    await workspace.graph.put_chunks(document.id, step.job_id, made, keys)
    log.info(
        "document.parsed workspace=%s document=%s media_type=%s characters=%d chunks=%d",
        workspace.name, document.id, revision.media_type, len(parsed.text), len(made),
    )  # fmt: skip


def _cut(workspace: Workspace, models: Models, document_id: str, parsed: Parsed) -> list[Chunk]:
    windows = chunks(
        parsed, models.tokenizer,
        size=workspace.options.chunk_tokens, overlap=workspace.options.chunk_overlap,
    )  # fmt: skip
    return [
        _chunk(document_id, position, window, parsed.text)
        for position, window in enumerate(windows)
    ]


def _chunk(document_id: str, position: int, window: Window, text: str) -> Chunk:
    body = text[window.start : window.end]
    return Chunk(
        chunk_id(
            document_id, start=window.start, page=window.page,
            headings=window.headings, text=body,
        ),
        document_id, position,
        window.start, window.end, body, window.tokens, window.headings,
        window.page, window.page_end,
    )  # fmt: skip


def extraction_key(version: str, title: str, chunk: Chunk) -> str:
    """Equal for chunks that an extractor would be shown alike."""
    seen = "\x1f".join((version, title, *chunk.headings, chunk.text))
    return hashlib.sha256(seen.encode()).hexdigest()
