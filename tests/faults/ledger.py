"""The scripted model as a cashier: every extraction call is written down, with what was stored when
it came, so that "paid twice" is a count and not an opinion.

A call is *paid twice* if the answer of an earlier one for the same text was stored when it came. It
is *repeated* if there was an earlier call whose answer nobody had stored yet: between a model's
answer and the commit of the store lies a moment in which a kill loses the answer.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.faults.process import digest
from tests.model_answers import input_text, kind_of
from tests.model_server import create_app
from tests.servers import free_port

Stored = Callable[[str], bool]


@dataclass
class Call:
    text: str
    at: float
    stored: bool  # the store held an answer for the text when the call came
    answered: float | None = None


@dataclass
class Ledger:
    """The calls of one schedule."""

    stored: Stored
    calls: list[Call] = field(default_factory=list)

    def arrived(self, text: str) -> Call:
        call = Call(text, time.monotonic(), self.stored(text))
        self.calls.append(call)
        return call

    def paid_twice(self) -> list[Call]:
        return [call for call in self._repeats() if call.stored]

    def repeated(self) -> list[Call]:
        return [call for call in self._repeats() if not call.stored]

    def _repeats(self) -> list[Call]:
        seen: defaultdict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            seen[digest(call.text)].append(call)
        return [call for calls in seen.values() for call in calls[1:]]


def stored_in_sqlite(database: Path, marks: Path) -> Stored:
    """Whether the record holds an answer for a text, or a process said that it did."""

    def look(text: str) -> bool:
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection,
        ):
            found = connection.execute(
                "select 1 from chunks where text = ? and extraction is not null and failed = 0",
                (text,),
            )
            return found.fetchone() is not None
        return False

    return stored_there(look, marks)


def stored_there(look: Stored, marks: Path) -> Stored:
    return lambda text: _reported(marks, text) or look(text)


def _reported(marks: Path, text: str) -> bool:
    file = marks / "stored"
    return file.exists() and digest(text) in file.read_text().splitlines()


class Model:
    """One server for all schedules; each has a path of its own, `/<room>/v1`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._rooms: dict[str, tuple[ASGIApp, Ledger]] = {}

    def open(self, room: str, stored: Stored, *, latency: float) -> Ledger:
        ledger = Ledger(stored)
        self._rooms[room] = (create_app(latency_s=latency), ledger)
        return ledger

    def url(self, room: str) -> str:
        return f"openai+http://127.0.0.1:{self.port}/{room}/v1"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        room, _, rest = str(scope["path"]).lstrip("/").partition("/")
        app, ledger = self._rooms[room]
        scope = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}
        if rest != "v1/chat/completions":
            await app(scope, receive, send)
            return
        body = await _body(receive)
        messages = json.loads(body)["messages"]
        if kind_of(messages) != "extract":
            await app(scope, _again(body, receive), send)
            return
        call = ledger.arrived(input_text(messages))

        async def noted(message: MutableMapping[str, Any]) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                call.answered = time.monotonic()

        await app(scope, _again(body, receive), noted)


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


@contextmanager
def serving() -> Iterator[Model]:
    """The model server in a thread of this process."""
    model = Model(free_port())
    server = uvicorn.Server(
        uvicorn.Config(model, port=model.port, log_level="critical", lifespan="off",
                       timeout_graceful_shutdown=1)
    )  # fmt: skip
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield model
    finally:
        server.should_exit = True
        thread.join(10)
