"""How many bytes of uploads one process holds at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HELD_BYTES = 256 * 2**20


class Budget:
    """Whoever finds it spent waits, in order of arrival: else many large uploads at once would end
    the process for its memory, and all of them with it. More than the whole is taken for the
    whole."""

    def __init__(self, size: int = HELD_BYTES) -> None:
        self._size = self._left = size
        self._turn = asyncio.Lock()  # its holder is the one that waits for bytes
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, amount: int) -> AsyncIterator[None]:
        amount = min(amount, self._size)
        async with self._turn:
            while self._left < amount:
                self._freed.clear()
                await self._freed.wait()
            self._left -= amount
        try:
            yield
        finally:
            self._left += amount
            self._freed.set()
