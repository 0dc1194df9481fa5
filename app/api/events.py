"""Server-sent events: streamed as they come, kept alive in between, ended with the client."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import anyio
import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api import problems
from app.errors import AppError

log = logging.getLogger("heliograph.api")

KEEP_ALIVE = 15.0  # seconds; proxies commonly cut silent connections after 30 or 60
MEDIA_TYPE = "text/event-stream"
# OpenAPI 3.1 has no word for "each event is"; readers of 3.2 and test tools take it so.
CONTENT: dict[str, Any] = {
    MEDIA_TYPE: {
        "schema": {
            "type": "object",
            "description": "One server-sent event.",
            "required": ["event", "id", "data"],
            "properties": {
                "event": {"type": "string", "description": "Its name."},
                "id": {"type": "string", "description": "Its number in the stream, from 1."},
                "data": {"type": "string", "description": "JSON, on one line."},
            },
        }
    }
}
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Event(NamedTuple):
    name: str
    data: Any


class EventStream(Response):
    """Sends `events`, numbered from 1. Errors become an `error` event that holds the problem.

    Other APIs have other streams of JSON: they say how an event is written (`encode`), what is sent
    first (`hello`) and what in silence (`still_here`)."""

    media_type = MEDIA_TYPE
    hello = b": hello\n\n"
    still_here = b": still here\n\n"

    def __init__(
        self,
        events: AsyncGenerator[Event, None],
        status_code: int = 200,
        *,
        keep_alive: float = KEEP_ALIVE,
    ) -> None:
        super().__init__(status_code=status_code, headers=HEADERS)
        # The body is open-ended; Response counted an empty one.
        self.raw_headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        self._events = events
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        async with anyio.create_task_group() as group:
            lock = anyio.Lock()

            async def write(data: bytes) -> None:
                async with lock:
                    await send({"type": "http.response.body", "body": data, "more_body": True})

            async def until_gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            async def stay_alive() -> None:
                while True:
                    await anyio.sleep(self._keep_alive)
                    await write(self.still_here)

            group.start_soon(until_gone)
            group.start_soon(stay_alive)
            await write(self.hello)  # headers reach the client before the first event
            await self._write_events(write)
            async with lock:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            group.cancel_scope.cancel()

    async def _write_events(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        number = 0
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    number += 1
                    await write(self.encode(event, number))
        except AppError as error:
            await write(self.encode(Event("error", problems.of_error(error)), number + 1))
        except Exception:
            log.exception("stream.bug")
            await write(self.encode(Event("error", problems.internal()), number + 1))

    def encode(self, event: Event, number: int) -> bytes:
        return b"event: %s\nid: %d\ndata: %s\n\n" % (
            event.name.encode(), number, one_line(event.data),
        )  # fmt: skip


# JSON leaves these as they are, but many clients take them for ends of lines.
_LINE_ENDS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def one_line(data: Any) -> bytes:
    """As JSON without anything that a client may take for the end of a line."""
    encoded = orjson.dumps(data)
    for plain, escaped in _LINE_ENDS:
        encoded = encoded.replace(plain, escaped)
    return encoded
