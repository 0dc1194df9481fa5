"""Files that no document refers to: what an upload that died between storing and recording left.

A slice of the store is looked at now and then, so that neither many files nor many workers make it
costly. What is young may be of an upload that is not recorded yet.
"""

from __future__ import annotations

import asyncio
import logging
import time

from app.originals import release
from app.ports import Workspace

log = logging.getLogger("heliograph.blobs")

FOLDERS = 256  # the first two digits of the keys
SLICE = 200  # files
AT_ONCE = 16  # look-ups in the record
YOUNG = 3600.0  # seconds


class Litter:
    """Goes round the store for as long as the process lives. `folder`: where to begin; several
    workers had better not go side by side."""

    def __init__(self, folder: int = 0) -> None:
        self._folder, self._after = folder % FOLDERS, ""

    async def clear(self, workspace: Workspace) -> int:
        """Look at the next slice, of files of all workspaces; how many were deleted."""
        blobs, before = workspace.blobs, time.time() - YOUNG
        page = await blobs.under(f"{self._folder:02x}", after=self._after, limit=SLICE)
        old = [key for key, put_at in page if put_at < before]
        loose: list[str] = []
        for start in range(0, len(old), AT_ONCE):
            keys = old[start : start + AT_ONCE]
            used = await asyncio.gather(*(workspace.documents.blob_in_use(key) for key in keys))
            loose += [key for key, is_used in zip(keys, used, strict=True) if not is_used]
        await release(workspace, loose)
        if loose:
            log.info("blobs.cleared files=%d", len(loose))
        if len(page) < SLICE:
            self._folder, self._after = (self._folder + 1) % FOLDERS, ""
        else:
            self._after = page[-1][0]
        return len(loose)
