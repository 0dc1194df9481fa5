"""Files that no document refers to go by themselves, a slice at a time."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.upkeep import litter
from app.upkeep.litter import FOLDERS, SLICE, Litter
from tests.workers.conftest import Rig

CURIE = "Marie Curie was a physicist in Paris."


def aged(rig: Rig, *keys: str, seconds: float) -> None:
    store: Any = rig.services.dependencies["blobs"]
    folder = Path(store._store.prefix)
    for key in keys:
        when = time.time() - seconds
        os.utime(folder / key[:2] / key, (when, when))


async def cleared(rig: Rig, begin: int = 0) -> int:
    tidying = Litter(begin)
    return sum([await tidying.clear(rig.workspace()) for _ in range(FOLDERS)])


async def test_what_an_upload_that_died_has_left_goes_after_an_hour(rig: Rig) -> None:
    document = await rig.submit(CURIE, workspace="other")
    await rig.drain()
    blobs = rig.workspace().blobs
    loose = [await blobs.put(f"left {n}".encode()) for n in range(5)]
    young = await blobs.put(b"of an upload that is on its way")
    used = (await rig.workspace("other").documents.get(document.id)).revision
    aged(rig, *loose, used.source, used.text, seconds=litter.YOUNG + 60)
    aged(rig, young, seconds=litter.YOUNG - 60)
    assert await cleared(rig, begin=200) == 5
    assert not any([await blobs.has(key) for key in loose])
    assert all([await blobs.has(key) for key in (young, used.source, used.text)])
    assert await cleared(rig) == 0


async def test_an_upload_that_claims_a_file_at_the_same_moment_keeps_it(rig: Rig) -> None:
    space = rig.workspace()
    key = await space.blobs.put(b"x" * 100)
    aged(rig, key, seconds=litter.YOUNG + 60)
    asked = 0

    class Claimed:
        async def blob_in_use(self, blob_key: str) -> bool:
            nonlocal asked
            asked += 1
            return asked > 2  # after it was looked up, before it was deleted

    documents: Any = Claimed()
    await Litter(int(key[:2], 16)).clear(replace(space, documents=documents))
    assert await space.blobs.get(key) == b"x" * 100


async def test_each_time_a_slice_is_looked_at_however_many_there_are(rig: Rig) -> None:
    space, looked = rig.workspace(), 0
    keys = [f"ab{n:062x}" for n in range(3 * SLICE + 7)]

    class Many:
        async def under(self, start: str, *, after: str = "", limit: int) -> Any:
            left = [key for key in keys if key.startswith(start) and key > after]
            return [(key, 0.0) for key in left[:limit]]

    class Used:
        async def blob_in_use(self, blob_key: str) -> bool:
            nonlocal looked
            looked += 1
            return True

    many: Any = replace(space, blobs=Many(), documents=Used())  # type: ignore[arg-type]
    tidying, counts = Litter(0xAB), []
    for _ in range(5):
        looked = 0
        await tidying.clear(many)
        counts.append(looked)
    assert counts == [SLICE, SLICE, SLICE, 7, 0]
