"""Blobs that documents leave behind. Equal bytes are shared: each is looked up before it goes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from contextlib import suppress

from app.domain import Revision
from app.errors import NotFound
from app.ports import Workspace

IN_MEMORY = 2**23  # bytes of a file that is about to go; beyond, it lies on the disk


def blobs_of(revision: Revision | None) -> list[str]:
    if revision is None:
        return []
    return [key for key in (revision.source, revision.text) if key]


async def settle(workspace: Workspace, key: str, data: bytes) -> None:
    """For whoever stored a blob and then recorded it: a deletion that looked in between has taken
    it, and a job that was overtaken recorded nothing."""
    if not await workspace.documents.blob_in_use(key):
        await release(workspace, [key])
    elif not await workspace.blobs.has(key):
        await workspace.blobs.put(data)


async def release(workspace: Workspace, keys: Iterable[str]) -> None:
    """Delete blobs that no revision refers to any more. One that an upload claims at the same
    moment is put back."""
    for key in dict.fromkeys(keys):
        if key and not await workspace.documents.blob_in_use(key):
            with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as kept, suppress(NotFound):
                async for piece in workspace.blobs.pieces(key):
                    await asyncio.to_thread(kept.write, piece)
                await workspace.blobs.delete([key])
                if await workspace.documents.blob_in_use(key):
                    await workspace.blobs.put_file(kept)
