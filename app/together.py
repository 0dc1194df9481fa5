"""Work that is done side by side, and ends with one error where it fails: at once (`together`), or
once all has ended (`outcomes`), where what the others do is paid for and is to be kept. And work
that is done in turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from app.errors import AppError

T = TypeVar("T")


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group. Where all that failed failed as expected, the first `AppError` is raised as it
    is, since it decides about a retry; a bug among them stays a group, which shows all."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except ExceptionGroup as group:
        # Not `except*`: Python before 3.11.4 wraps what is raised there in a group again.
        first = group.exceptions[0]
        if isinstance(first, AppError) and group.split(AppError)[1] is None:
            raise first from None
        raise


async def outcomes(work: Iterable[Coroutine[Any, Any, T]]) -> tuple[list[T], AppError | None]:
    """What all that succeeded gave, in order, and the failure that decides about a retry, if any: a
    lasting one before a passing one, and one with a cause in the work before one without. Bugs are
    raised as a group. A cancellation ends all."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    failures = [one for one in ended if isinstance(one, AppError)]
    bugs = [one for one in ended if isinstance(one, BaseException) and one not in failures]
    if bugs:
        raise BaseExceptionGroup("work side by side", [*bugs, *failures])
    done = [one for one in ended if not isinstance(one, BaseException)]
    return done, min(failures, key=lambda one: (one.transient, one.blameless), default=None)


async def _waited(task: asyncio.Task[Any]) -> None:
    await asyncio.wait({task})


async def to_its_end(
    work: Coroutine[Any, Any, T],
    end: Callable[[asyncio.Task[T]], Awaitable[None]] = _waited,
) -> T:
    """What the work gives. Cancelled, it goes on until `end` returns (which waits for it, unless
    told otherwise), and the cancellation is raised then, whatever came of the work. A cancellation
    of the work alone is an error: nobody here was cancelled."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await end(task)
        if not task.cancelled():
            task.exception()  # heard
        raise
    if task.cancelled():
        raise RuntimeError("work was cancelled from inside")
    return task.result()


class Turns:
    """A lock by name, kept as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
