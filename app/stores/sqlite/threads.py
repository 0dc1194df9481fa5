"""Threads that carry out what the event loop asks of a database.

A hop to an executor and back costs 50 µs and more when many are under way, as much as most
statements. Here a thread takes all that waits (its share of it), and tells the loop once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from sqlite3 import Connection
from typing import TypeVar, cast

Result = TypeVar("Result")


@dataclass(slots=True)
class Order:
    work: Callable[[Connection], object]
    done: asyncio.Future[object]
    durable: bool = False
    result: object = None
    error: BaseException | None = None


class Threads:
    """`run` fills in the results or errors of orders, at most `together` at a time. Orders are
    taken in turn; with one thread they are carried out in turn, too."""

    def __init__(
        self, size: int, name: str, together: int, run: Callable[[Sequence[Order]], None]
    ) -> None:
        self._size, self._together, self._run = size, together, run
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._orders: deque[Order] = deque()
        self._busy = 0

    async def ask(self, work: Callable[[Connection], Result], *, durable: bool = False) -> Result:
        """What the work returns or raises. Once begun it ends, even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        order = Order(work, loop.create_future(), durable)
        with self._lock:
            self._orders.append(order)
            idle = self._busy < self._size
            self._busy += idle
        if idle:
            self._pool.submit(self._serve, loop)
        return cast(Result, await order.done)

    def shutdown(self) -> None:
        """Waits for what was asked."""
        self._pool.shutdown()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while orders := self._take():
            begun = [order for order in orders if not order.done.cancelled()]
            if begun:
                self._run(begun)
                loop.call_soon_threadsafe(_tell, begun)

    def _take(self) -> list[Order]:
        with self._lock:
            share = min(self._together, -(-len(self._orders) // self._size))
            self._busy -= not share
            return [self._orders.popleft() for _ in range(share)]


def _tell(orders: Sequence[Order]) -> None:
    """In the event loop. Whoever asked may have gone."""
    for order in orders:
        if order.done.done():
            continue
        if order.error is not None:
            order.done.set_exception(order.error)
        else:
            order.done.set_result(order.result)
