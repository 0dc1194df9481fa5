"""Equal model calls that are asked for at the same time are one call.

A job that was cancelled and begun again asks for chunks whose calls are still on their way, until
the worker of the first one learns of its end; deletions of a batch all find what they shared to be
summarised anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import replace
from typing import Any, TypeVar

from app.domain import Completion, Extraction, Usage

LINGER = 5.0  # seconds that a result is there for others after the last who waited has it

Result = TypeVar("Result", Extraction, Completion)


class Joint:
    """A call ends when nobody waits for it any more; one of those who wait is charged. A result is
    there for whoever asks while it is being stored, an error is not."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, asyncio.Task[Any]] = {}
        self._waiting: Counter[asyncio.Task[Any]] = Counter()
        self._charged: set[asyncio.Task[Any]] = set()

    async def get(
        self, asked: Hashable, begin: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Result:
        """`asked` begins with the workspace: nothing is shared between two."""
        call = self._calls.get(asked)
        if call is None:
            call = self._calls[asked] = asyncio.create_task(begin())
        self._waiting[call] += 1
        try:
            found: Result = await asyncio.shield(call)
            if call in self._charged:
                return replace(found, usage=Usage())
            self._charged.add(call)
            return found
        finally:
            self._leave(asked, call)

    def _leave(self, asked: Hashable, call: asyncio.Task[Any]) -> None:
        self._waiting[call] -= 1
        if self._waiting[call]:
            return
        del self._waiting[call]
        if call.done() and not call.cancelled() and call.exception() is None:
            asyncio.get_running_loop().call_later(LINGER, self._forget, asked, call)
            return
        self._forget(asked, call)
        call.cancel()

    def _forget(self, asked: Hashable, call: asyncio.Task[Any]) -> None:
        if self._calls.get(asked) is call and not self._waiting[call]:
            del self._calls[asked]
        if not self._waiting[call]:
            del self._waiting[call]
            self._charged.discard(call)
