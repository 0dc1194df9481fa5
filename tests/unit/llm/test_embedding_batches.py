"""Texts of several documents share calls, and each gets its own vectors and share of the cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from app.domain import Vector
from app.errors import Unavailable
from app.llm.embedding_batches import Batches

FULL = 4


class Model:
    """Calls that end when they are let go; a vector is the length of its text."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate = asyncio.Event()
        self.fault: Exception | None = None
        self.batches = Batches(self.call, lambda texts: min(FULL, len(texts)), lambda: 2)

    async def call(self, texts: Sequence[str]) -> tuple[list[Vector], int]:
        self.calls.append([*texts])
        await self.gate.wait()
        if self.fault:
            raise self.fault
        return [(float(len(text)),) for text in texts], 10 * sum(map(len, texts))


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_texts_that_come_while_a_call_is_under_way_share_the_next_one() -> None:
    model = Model()
    asked = [asyncio.create_task(model.batches.embed([text])) for text in ("a", "bb", "ccc")]
    await settled()
    assert model.calls == [["a"]]
    model.gate.set()
    made = await asyncio.gather(*asked)
    assert model.calls == [["a"], ["bb", "ccc"]]
    assert made == [([(1.0,)], 10), ([(2.0,)], 20), ([(3.0,)], 30)]


async def test_a_full_batch_does_not_wait_but_for_its_place() -> None:
    model = Model()
    asked = asyncio.create_task(model.batches.embed([c * 2 for c in "abcdefghij"]))
    await settled()
    assert [len(call) for call in model.calls] == [FULL, FULL]
    model.gate.set()
    vectors, tokens = await asked
    assert (len(vectors), tokens) == (10, 200)


async def test_an_error_is_raised_by_all_whose_texts_were_in_the_call() -> None:
    model = Model()
    model.fault = Unavailable("The model is away.")
    model.gate.set()
    with pytest.raises(Unavailable):
        await model.batches.embed(["a", "b"])
    model.fault = None
    assert (await model.batches.embed(["a"]))[0] == [(1.0,)]


async def test_texts_that_nobody_waits_for_any_more_are_not_sent() -> None:
    model = Model()
    first = asyncio.create_task(model.batches.embed(["a"]))
    await settled()
    gone, kept = (asyncio.create_task(model.batches.embed([text])) for text in ("b", "c"))
    await settled()
    gone.cancel()
    await settled()
    model.gate.set()
    await asyncio.gather(first, kept)
    assert model.calls == [["a"], ["c"]]
