"""Texts of several documents in one call to the embedding model.

A call costs 2 ms of CPU beside its texts (HTTP, and two round trips to the book of limits), and a
short document has a third of a batch. What comes while calls are under way waits until they make a
full batch or one of the calls ends: with a model that answers at once 1.4 -> 0.7 calls a document.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain import Vector


@dataclass(slots=True)
class _Order:
    """What one caller waits for. One future for all of its texts: one for each cost more than the
    rest of this module."""

    texts: Sequence[str]
    made: list[Vector]
    missing: int
    tokens: float = 0.0
    done: asyncio.Future[None] = field(default_factory=asyncio.Future)

    def take(self, place: int, vector: Vector, tokens: float) -> None:
        self.made[place] = vector
        self.tokens += tokens
        self.missing -= 1
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class _Wanted(NamedTuple):
    order: _Order
    place: int

    @property
    def text(self) -> str:
        return self.order.texts[self.place]


class Batches:
    """`call` gives the vectors of a batch and its tokens; `fitting` says how many of the texts, at
    least one, go into one call; `width` how many calls there may be at a time."""

    def __init__(
        self,
        call: Callable[[Sequence[str]], Awaitable[tuple[list[Vector], int]]],
        fitting: Callable[[Sequence[str]], int],
        width: Callable[[], int],
    ) -> None:
        self._call, self._fitting, self._width = call, fitting, width
        self._waiting: deque[_Wanted] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def embed(self, texts: Sequence[str]) -> tuple[list[Vector], int]:
        """Vectors, and the share of these texts in the tokens of their calls. Raises what one of
        the calls raises."""
        if not texts:
            return [], 0
        order = _Order(texts, [()] * len(texts), len(texts))
        self._waiting.extend(_Wanted(order, place) for place in range(len(texts)))
        self._start()
        await order.done
        return order.made, round(order.tokens)

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._width():
            texts = [one.text for one in self._waiting]
            count = self._fitting(texts)
            if self._running and count == len(texts):  # it may become fuller
                return
            batch = [self._waiting.popleft() for _ in range(count)]
            # Whoever wanted the others has gone.
            batch = [one for one in batch if not one.order.done.done()]
            if batch:
                task = asyncio.create_task(self._run(batch))
                self._running.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _run(self, batch: Sequence[_Wanted]) -> None:
        try:
            vectors, tokens = await self._call([one.text for one in batch])
        except asyncio.CancelledError:
            for one in batch:
                one.order.done.cancel()
            raise
        except Exception as error:
            for one in batch:
                if not one.order.done.done():
                    one.order.done.set_exception(error)
            return
        characters = sum(len(one.text) for one in batch) or 1
        for one, vector in zip(batch, vectors, strict=True):
            one.order.take(one.place, vector, tokens * len(one.text) / characters)
