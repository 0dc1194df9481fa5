"""What a model answered is not asked for again because a store could not take it at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.domain import State, Status
from app.errors import Unavailable
from tests.workers.conftest import Rig
from workers.stages import extract

TEXT = "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie."


class Away:
    """A store whose writes fail for a while."""

    def __init__(self, inner: Any, failures: list[Exception], method: str) -> None:
        self._inner, self._failures, self._method = inner, failures, method

    def __getattr__(self, name: str) -> Any:
        return self._guarded if name == self._method else getattr(self._inner, name)

    async def _guarded(self, *args: Any, **named: Any) -> None:
        if self._failures:
            raise self._failures.pop()
        await getattr(self._inner, self._method)(*args, **named)


@pytest.mark.parametrize(("part", "method"), [("graph", "put_extraction"), ("documents", "charge")])
@pytest.mark.parametrize("code", ["unavailable", "disk_full", "database_busy"])
async def test_an_answer_is_held_until_the_store_takes_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, part: str, method: str, code: str
) -> None:
    monkeypatch.setattr(extract, "HOLD_PAUSE", 0.001)
    failures: list[Exception] = [Unavailable("Away.", code=code) for _ in range(20)]
    workspace = rig.services.workspace

    def named(name: str) -> Any:
        opened = workspace(name)
        return replace(opened, **{part: Away(getattr(opened, part), failures, method)})

    rig.services = replace(rig.services, workspace=named)
    await rig.submit(TEXT, "d")
    await rig.drain()
    assert not failures
    assert len(rig.extractor.calls) == 1
    assert (await rig.workspace().documents.get("d")).status is Status.READY


async def test_what_was_cancelled_is_not_held_any_more(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract, "HOLD_PAUSE", 0.001)
    rig.terms = replace(rig.terms, lease=0.3)
    workspace = rig.services.workspace

    class Never(Away):
        async def _guarded(self, *args: Any, **named: Any) -> None:
            job = (await rig.workspace().documents.get("d")).job
            await rig.services.journal.close("default", job.id, State.CANCELLED)
            raise Unavailable("Away.")

    def named(name: str) -> Any:
        opened = workspace(name)
        return replace(opened, graph=Never(opened.graph, [], "put_extraction"))

    rig.services = replace(rig.services, workspace=named)
    await rig.submit(TEXT, "d")
    async with asyncio.timeout(30):
        await rig.drain()
    assert len(rig.extractor.calls) == 1
