"""Changes of the embedded vectors share flushes, and none returns before its own is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from app.domain import Kind
from app.errors import Unavailable
from app.stores.edge_flushes import Flushes


class Disk:
    """Flushes that end when they are let go."""

    def __init__(self) -> None:
        self.begun: list[set[Kind]] = []
        self.gate = asyncio.Event()
        self.fault: Exception | None = None

    async def flush(self, kinds: Collection[Kind]) -> None:
        self.begun.append(set(kinds))
        await self.gate.wait()
        if self.fault:
            raise self.fault


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_changes_while_a_flush_runs_is_covered_by_the_next_one_together() -> None:
    disk = Disk()
    flushes = Flushes(disk.flush)
    first = asyncio.create_task(flushes.cover({Kind.CHUNK}))
    await settled()
    later = [asyncio.create_task(flushes.cover({kind})) for kind in (Kind.ENTITY, Kind.RELATION)]
    await settled()
    assert disk.begun == [{Kind.CHUNK}]
    assert not first.done()
    disk.gate.set()
    await asyncio.gather(first, *later)
    assert disk.begun == [{Kind.CHUNK}, {Kind.ENTITY, Kind.RELATION}]


async def test_an_error_of_a_flush_is_raised_by_all_that_waited_for_it_and_by_no_other() -> None:
    disk = Disk()
    disk.fault = Unavailable("The disk is full.")
    flushes = Flushes(disk.flush)
    disk.gate.set()
    failed = await asyncio.gather(
        flushes.cover({Kind.CHUNK}), flushes.cover({Kind.ENTITY}), return_exceptions=True
    )
    assert failed == [disk.fault, disk.fault]
    disk.fault = None
    await flushes.cover({Kind.CHUNK})


async def test_whoever_stops_waiting_takes_no_flush_from_the_others() -> None:
    disk = Disk()
    flushes = Flushes(disk.flush)
    one, other = (asyncio.create_task(flushes.cover({Kind.CHUNK})) for _ in range(2))
    await settled()
    one.cancel()
    await settled()
    disk.gate.set()
    await other
    with pytest.raises(asyncio.CancelledError):
        await one
