"""A workspace as one stream: documents with their chunks and what these say, rulings on names,
profiles, vectors and blobs. What follows from that (evidence, counts) is not in it, nor are keys.

It goes on while the service works: a document that changed while it was written is written again,
and the manifest names what is void.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from app.domain import Document, Kind, Plan, Point, Ref, Status
from app.errors import NotFound
from app.holdings import HeldChunk, HeldEntity, HeldRelation
from app.originals import blobs_of
from app.paging import pages
from app.ports import Embedder, Workspace
from app.upkeep import communities, container
from app.upkeep.forms import Json, point_json, revision_json

log = logging.getLogger("heliograph.backup")

PAGE = 64  # records a member
DOCUMENTS = 50
IN_MEMORY = 2**23  # bytes of a blob; beyond, it lies on the disk
TRIES = 5  # for a document that changes all the time


async def backup(workspace: Workspace, embedder: Embedder, *, now: float) -> AsyncIterator[bytes]:
    """Bytes of the archive, with a page or a blob in memory at a time."""
    writer = container.Writer()
    yield writer.json(
        container.HEADER,
        {
            "format": container.FORMAT, "workspace": workspace.name, "created_at": now,
            "embedding": {"model": embedder.model, "dimension": embedder.dimension},
        },
    )  # fmt: skip
    before = await communities.versions(workspace)
    async for piece in _names(workspace, writer):
        yield piece
    documents = _Documents(workspace, writer)
    async for piece in documents.pieces():
        yield piece
    async for piece in _graph(workspace, writer):
        yield piece
    missing = sorted(documents.missing)
    if division := await communities.division_json(workspace):
        yield writer.json(communities.DIVISION, division)
        async for page in communities.in_pages(workspace, before):
            yield writer.page("communities", page)
    yield writer.end(void=documents.void, documents=documents.count, missing=missing)
    log.info("workspace.backed_up workspace=%s documents=%d", workspace.name, documents.count)


async def _names(workspace: Workspace, writer: container.Writer) -> AsyncIterator[bytes]:
    async for rulings in pages(workspace.archive.rulings, lambda one: one.place, PAGE):
        yield writer.page("rulings", [one._asdict() for one in rulings])
    async for placed in pages(workspace.archive.placements, lambda one: one.placement.place, PAGE):
        yield writer.page(
            "placements", [{**one.placement._asdict(), "by_hand": one.by_hand} for one in placed]
        )


# --- documents -----------------------------------------------------------------------------------


class _Documents:
    def __init__(self, workspace: Workspace, writer: container.Writer) -> None:
        self._workspace, self._writer = workspace, writer
        self._blobs: set[str] = set()  # written, by the first half of their keys
        self._number = 0
        self.void: list[int] = []
        self.missing: set[str] = set()
        self.count = 0

    async def pieces(self) -> AsyncIterator[bytes]:
        async for page in pages(self._workspace.documents.page, lambda one: one.id, DOCUMENTS):
            for document in page:
                async for piece in self._settled(document):
                    yield piece

    async def _settled(self, document: Document) -> AsyncIterator[bytes]:
        """The document as it was at one moment; what was written of others is void."""
        for attempt in range(TRIES):
            if document.job.plan is Plan.DELETE and not document.job.state.final:
                return  # on its way out
            async for piece in self._document(document):
                yield piece
            try:
                now = await self._workspace.documents.get(document.id)
            except NotFound:
                self.void.append(self._number)
                return
            if _same(document, now) or attempt == TRIES - 1:
                self.count += 1
                return
            self.void.append(self._number)
            document = now

    async def _document(self, document: Document) -> AsyncIterator[bytes]:
        for key in (*blobs_of(document.live), *blobs_of(document.pending)):
            if key[:32] not in self._blobs:
                async for piece in self._blob(key):
                    yield piece
        self._number += 1
        dates = await self._workspace.archive.dates([document.id])
        yield self._writer.json(
            f"documents/{self._number:08}.json",
            _document_json(document, dates.get(document.id, "")),
        )
        text = await self._text(document)
        read = partial(self._workspace.archive.chunks, document_id=document.id)
        async for page in pages(read, lambda one: one.chunk.id, PAGE):
            if kept := [held for held in page if held.extraction and not held.gone]:
                records = await self._chunks(kept, text)
                yield self._writer.page(f"chunks/{self._number:08}", records)

    async def _blob(self, key: str) -> AsyncIterator[bytes]:
        """By way of a file: it may be deleted while it is read, and its entry must be whole."""
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as file:
            try:
                async for piece in self._workspace.blobs.pieces(key):
                    await asyncio.to_thread(file.write, piece)
            except NotFound:
                self.missing.add(key)  # `check` says so
                return
            self._blobs.add(key[:32])
            for piece in self._writer.file(f"blobs/{key}", file):
                yield piece

    async def _text(self, document: Document) -> str | None:
        """What visible chunks must be a part of: while a replacement is merged, those of both
        revisions are visible. "" where no revision is, None where there is no doubt."""
        if document.live is None:
            return ""
        if document.pending is None:
            return None
        with suppress(NotFound):
            return (await self._workspace.blobs.get(document.live.text)).decode()
        return None

    async def _chunks(self, page: Sequence[HeldChunk], text: str | None) -> list[Json]:
        refs = [Ref(Kind.CHUNK, held.chunk.id) for held in page if held.indexed]
        points = {point.ref.key: point for point in await self._workspace.vectors.read(refs)}
        return [
            _chunk_json(
                held, points.get(held.chunk.id),
                live=held.live and (text is None or _part(held, text)),
            )
            for held in page
        ]  # fmt: skip


def _part(held: HeldChunk, text: str) -> bool:
    chunk = held.chunk
    return bool(chunk.text) and text[chunk.start : chunk.end] == chunk.text


def _same(before: Document, after: Document) -> bool:
    """Nothing happened to its chunks in between: they change with jobs only."""
    return before.version == after.version and before.job.id == after.job.id and (
        after.job.state.final or after.status is before.status
    )  # fmt: skip


def _document_json(document: Document, date: str) -> Json:
    job = document.job
    return {
        "id": document.id, "version": document.version, "live": revision_json(document.live),
        "pending": revision_json(document.pending), "date": date,
        "warnings": list(document.warnings), "usage": asdict(document.usage),
        "created_at": document.created_at, "updated_at": document.updated_at,
        "state": job.state, "error": asdict(job.error) if job.error else None,
        "failed": job.status is Status.FAILED,
    }  # fmt: skip


def _chunk_json(held: HeldChunk, point: Point | None, *, live: bool) -> Json:
    return {
        "chunk": asdict(held.chunk), "live": live, "key": held.extraction_key,
        "extraction": asdict(held.extraction) if held.extraction else None,
        "point": point_json(point),
    }  # fmt: skip


# --- profiles and vectors ------------------------------------------------------------------------


async def _graph(workspace: Workspace, writer: container.Writer) -> AsyncIterator[bytes]:
    """Of what is up to date; the rest is made anew after a restore."""
    async for entities in pages(workspace.archive.entities, lambda one: one.key, PAGE):
        if lines := await _profiles(workspace, Kind.ENTITY, entities):
            yield writer.page("entities", lines)
    async for relations in pages(workspace.archive.relations, lambda one: one.key, PAGE):
        if lines := await _profiles(workspace, Kind.RELATION, relations):
            yield writer.page("relations", lines)


async def _profiles(
    workspace: Workspace, kind: Kind, page: Iterable[HeldEntity | HeldRelation]
) -> list[Json]:
    fresh = [
        held for held in page if held.mentions and held.progress.profiled >= held.progress.revision
    ]
    refs = [Ref(kind, held.key) for held in fresh]
    points = {point.ref.key: point for point in await workspace.vectors.read(refs)}
    lines: list[Json] = []
    for held in fresh:
        progress = held.progress
        current = progress.indexed >= progress.profiled
        lines.append(
            {
                "key": held.key, "mentions": held.mentions, "described": held.described,
                "profile": held.profile, "covered": progress.covered, "digest": progress.digest,
                "point": point_json(points.get(held.key)) if current else None,
            }
        )  # fmt: skip
    return lines
