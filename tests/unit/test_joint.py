"""Equal extractions at the same time are one call, which ends when nobody waits for it."""

from __future__ import annotations

import asyncio

import pytest

from app import joint as joint_module
from app.domain import Extraction, Usage
from app.errors import Unavailable
from app.joint import Joint


class Slow:
    """An extractor whose calls end when they are let go."""

    def __init__(self) -> None:
        self.joint = Joint()
        self.gate = asyncio.Event()
        self.calls: list[str] = []
        self.ended: list[str] = []
        self.fault: Exception | None = None

    async def ask(self, text: str, workspace: str = "w") -> Extraction:
        return await self.joint.get((workspace, text), lambda: self.extract(text))

    async def extract(self, text: str) -> Extraction:
        self.calls.append(text)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.ended.append(text)
            raise
        if self.fault:
            raise self.fault
        return Extraction(model="slow", usage=Usage(1, 10, 1))


async def asked(slow: Slow, *texts: str) -> list[asyncio.Task[Extraction]]:
    tasks = [asyncio.create_task(slow.ask(text)) for text in texts]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_equal_requests_share_a_call_that_is_charged_once() -> None:
    slow = Slow()
    tasks = await asked(slow, "a", "a", "b")
    assert slow.calls == ["a", "b"]
    slow.gate.set()
    found = await asyncio.gather(*tasks)
    assert sum(one.usage.llm_calls for one in found) == 2


async def test_a_result_is_there_until_it_can_have_been_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joint_module, "LINGER", 0.02)
    slow = Slow()
    slow.gate.set()
    await slow.ask("a")
    assert (await slow.ask("a")).usage == Usage()
    assert slow.calls == ["a"]
    await asyncio.sleep(0.1)
    assert (await slow.ask("a")).usage.llm_calls == 1
    assert slow.calls == ["a", "a"]


async def test_a_call_goes_on_for_whoever_still_waits() -> None:
    slow = Slow()
    first, second = await asked(slow, "a", "a")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    slow.gate.set()
    assert (await second).usage.llm_calls == 1
    assert slow.calls == ["a"]


async def test_a_call_that_nobody_waits_for_ends() -> None:
    slow = Slow()
    for task in (tasks := await asked(slow, "a", "a")):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
    assert slow.ended == ["a"]
    slow.gate.set()
    assert (await slow.ask("a")).model == "slow"


async def test_an_error_is_everybodys() -> None:
    slow = Slow()
    slow.fault = Unavailable("away")
    tasks = await asked(slow, "a", "a")
    slow.gate.set()
    for task in tasks:
        with pytest.raises(Unavailable):
            await task
    slow.fault = None
    await slow.ask("a")
    assert slow.calls == ["a", "a"], "an error is not remembered"


async def test_workspaces_share_no_call() -> None:
    slow = Slow()
    slow.gate.set()
    for workspace in ("one", "other"):
        assert (await slow.ask("a", workspace)).usage.llm_calls == 1
    assert slow.calls == ["a", "a"]
