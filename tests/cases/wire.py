"""A TCP proxy in front of a store or the model: counts exchanges and bytes, and puts faults on it.

An exchange is what the client sends until the server answers, which holds for HTTP/1.1 without
pipelining, for Bolt and for Redis.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CHUNK = 1 << 16


@dataclass
class Fault:
    """What happens to exchanges while it lasts (`until`, monotonic; `left`: so many of them).

    `delay`: answers come so much later. `status`: this HTTP status instead of an exchange. `drop`:
    refuse | reset (before the server sees the request) | after (it is done, the answer is lost) |
    hang (nobody answers)."""

    delay: float = 0.0
    status: int = 0
    body: str = ""
    drop: str = ""
    until: float = float("inf")
    left: float = float("inf")

    def take(self) -> bool:
        """Whether it strikes this exchange."""
        if time.monotonic() > self.until or self.left <= 0:
            return False
        self.left -= 1
        return True


COMMIT = bytes.fromhex("0002b0120000")  # Bolt's, which ends a transaction that is done


@dataclass
class Counts:
    """`trips`: exchanges one after the other; those that overlap are waited for once."""

    exchanges: int = 0
    trips: int = 0
    waiting: int = 0  # exchanges under way
    largest: int = 0  # bytes sent in one exchange
    connections: int = 0


@dataclass
class Proxy:
    """Listens on `port` for as long as `proxies` runs; `target` may change meanwhile.

    `greetings` exchanges at the start of each connection are the protocol's own."""

    name: str
    target: int
    greetings: int = 0
    port: int = 0
    fault: Fault | None = None
    counts: Counts = field(default_factory=Counts)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None

    def cut(self) -> None:
        """End all connections."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.counts.connections += 1
        if self.fault and self.fault.drop == "refuse" and self.fault.take():
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        try:
            await _Exchange(self, reader, writer, there, back).run()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for one in (writer, back):
                self._open.discard(one)
                one.transport.abort()


class _Exchange:
    """One connection, both directions."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
        there: asyncio.StreamReader, back: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        self.proxy, self.reader, self.writer, self.there, self.back = (
            proxy, reader, writer, there, back,
        )  # fmt: skip
        self.asking = self.counted = False
        self.number = self.sent = 0
        self.struck: Fault | None = None

    async def run(self) -> None:
        ways = {asyncio.create_task(self.up()), asyncio.create_task(self.down())}
        done, pending = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*done, *pending, return_exceptions=True)
        self.answered()

    async def up(self) -> None:
        while data := await self.reader.read(CHUNK):
            if not self.asking:
                self.asking, self.sent = True, 0
                self.number += 1
                self.counted = self.number > self.proxy.greetings and data != COMMIT
                if self.counted:
                    self.proxy.counts.exchanges += 1
                    self.proxy.counts.trips += self.proxy.counts.waiting <= 0
                    self.proxy.counts.waiting += 1
                fault = self.proxy.fault
                self.struck = fault if fault and fault.take() else None
            self.sent += len(data)
            self.proxy.counts.largest = max(self.proxy.counts.largest, self.sent)
            if self.struck and not await self.pass_on(self.struck):
                return
            self.back.write(data)
            await self.back.drain()

    async def pass_on(self, fault: Fault) -> bool:
        if fault.status:
            body = fault.body.encode()
            head = f"HTTP/1.1 {fault.status} Fault\r\nContent-Length: {len(body)}\r\n"
            self.writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            await self.writer.drain()
            self.writer.close()
            return False
        if fault.drop == "hang":
            await asyncio.sleep(max(0.0, min(fault.until - time.monotonic(), 3600)))
        return fault.drop not in ("reset", "refuse")

    def answered(self) -> None:
        self.asking = False
        if self.counted:
            self.counted = False
            self.proxy.counts.waiting -= 1

    async def down(self) -> None:
        while data := await self.there.read(CHUNK):
            self.answered()
            if fault := self.struck:
                self.struck = None
                if fault.drop == "after":
                    return
                await asyncio.sleep(fault.delay)
            self.writer.write(data)
            await self.writer.drain()


class Proxies:
    """Proxies by name, in an event loop of their own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def add(self, name: str, target: int, greetings: int = 0) -> Proxy:
        proxy = Proxy(name, target, greetings, _loop=self._loop)

        async def listen() -> asyncio.Server:
            return await asyncio.start_server(proxy.serve, "127.0.0.1", 0)

        server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)
        self._servers.append(server)
        proxy.port = int(server.sockets[0].getsockname()[1])
        return proxy

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def proxies() -> Iterator[Proxies]:
    made = Proxies()
    try:
        yield made
    finally:
        made.close()
