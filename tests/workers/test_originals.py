"""Blobs that an upload and a deletion want at the same moment."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from app.originals import settle
from app.ports import Workspace
from tests.workers.conftest import Rig

TEXT = "Marie Curie was a physicist in Paris."


async def test_a_blob_that_is_claimed_while_an_overtaken_job_deletes_it_is_put_back(
    rig: Rig,
) -> None:
    """The job has looked, and nobody used the bytes; then they are uploaded as a document."""
    space = rig.workspace()

    class Blobs:
        def __getattr__(self, name: str) -> object:
            return getattr(space.blobs, name)

        async def delete(self, keys: Sequence[str]) -> None:
            await rig.submit(TEXT, "other")
            await space.blobs.delete(keys)

    late: Workspace = replace(space, blobs=Blobs())  # type: ignore[arg-type]
    key = await space.blobs.put(TEXT.encode())
    assert key == hashlib.sha256(TEXT.encode()).hexdigest()
    await settle(late, key, TEXT.encode())
    assert await space.documents.blob_in_use(key)
    assert await space.blobs.has(key)
