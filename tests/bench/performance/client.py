"""A cheap HTTP client, since what measures runs on the cores that it measures: connections kept
alive, requests written by hand, replies that tell their length or come in pieces."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

LIMIT = 2**26  # bytes of one line


class Refused(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:300]}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str

    @classmethod
    async def open(cls, url: str) -> Connection:
        host = urlsplit(url).netloc
        name, _, port = host.partition(":")
        reader, writer = await asyncio.open_connection(name, int(port), limit=LIMIT)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(reader, writer, host)

    async def call(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of the reply. Raises `Refused`."""
        sent = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
        )
        self.writer.write(head.encode() + sent)
        status, text = await self._reply()
        if not 200 <= status < 300:
            raise Refused(status, text.decode(errors="replace"))
        return orjson.loads(text) if text else None

    async def _reply(self) -> tuple[int, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split(" ", 2)[1])
        if "transfer-encoding: chunked" in head:
            return status, await self._pieces()
        length = head.partition("content-length:")[2].partition("\r\n")[0].strip()
        return status, await self.reader.readexactly(int(length or 0))

    async def _pieces(self) -> bytes:
        found = []
        while size := int(await self.reader.readline(), 16):
            found.append((await self.reader.readexactly(size + 2))[:-2])
        await self.reader.readline()
        return b"".join(found)


class Send(Protocol):
    async def __call__(self, connection: Connection, item: Any) -> None: ...


@asynccontextmanager
async def connections(url: str, count: int) -> AsyncIterator[list[Connection]]:
    opened = [await Connection.open(url) for _ in range(count)]
    try:
        yield opened
    finally:
        for one in opened:
            one.writer.close()
            with suppress(OSError):
                await one.writer.wait_closed()


async def side_by_side(url: str, clients: int, items: Sequence[Any], send: Send) -> list[float]:
    """Send all items, so many at a time; seconds each took, in the order of their ends."""
    left, took = iter(items), []

    async def client(connection: Connection) -> None:
        for item in left:
            began = time.perf_counter()
            await send(connection, item)
            took.append(time.perf_counter() - began)

    async with connections(url, clients) as opened:
        await asyncio.gather(*map(client, opened))
    return took
