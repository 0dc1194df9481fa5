"""A TCP proxy that fails like a network: it refuses, cuts, or passes a request on and loses the
answer, so that a write is applied and nobody is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

BLOCK = 65_536


class Mode(Enum):
    PASS = "pass"
    CUT = "cut"  # no new connections, the old ones are closed
    LOSE = "lose"  # requests go through; instead of the answer the connection is closed
    SILENT = "silent"  # requests go through; the connection stays open and never answers again


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._mode = Mode.PASS
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def set(self, mode: Mode) -> None:
        asyncio.run_coroutine_threadsafe(self._set(mode), self._loop).result(10)

    async def _set(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.CUT:
            for writer in self._open:
                writer.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.CUT:
            writer.close()
            return
        try:
            back, forth = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        both = {writer, forth}
        self._open |= both
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._requests(reader, forth))
                tasks.create_task(self._answers(back, writer))
        except* OSError:
            pass
        finally:
            self._open -= both
            for one in both:
                one.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(BLOCK):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # one side that ends, ends both

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(BLOCK):
            if self._mode is Mode.LOSE:
                raise ConnectionResetError
            if self._mode is Mode.SILENT:
                await self._swallow(reader)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(BLOCK):
            pass
        await asyncio.Event().wait()  # the client hears nothing, not even the end

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)

    def stop(self) -> None:
        async def cancel_all() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(cancel_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@contextmanager
def proxy(url: str) -> Iterator[tuple[Proxy, str]]:
    """In front of a server on this host; yields it and the URL that leads through it."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    host, _, port = place.rpartition(":")
    one = Proxy(host, int(port))
    one.start()
    try:
        yield one, f"{scheme}://127.0.0.1:{one.port}{slash}{path}"
    finally:
        one.stop()
