"""Blobs that documents leave behind. Equal bytes are shared: each is looked up before it goes."""

from __future__ import annotations

from collections.abc import Iterable

from app.domain import Revision
from app.errors import NotFound
from app.ports import Workspace


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
        if not key or await workspace.documents.blob_in_use(key):
            continue
        try:
            data = await workspace.blobs.get(key)
        except NotFound:
            continue
        await workspace.blobs.delete([key])
        if await workspace.documents.blob_in_use(key):
            await workspace.blobs.put(data)
