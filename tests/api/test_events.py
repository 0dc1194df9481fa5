"""Server-sent events: format, keep-alive, errors, and the end with the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from app.api.events import Event, EventStream
from app.domain import FIRST_STAGE, Plan
from app.errors import Overloaded
from tests.api.conftest import Site

TEXT = "Amber is a fossil resin. Amber is found at the Baltic Sea."


def parse(text: str) -> list[tuple[str, int, Any]]:
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] not in ":")
        if fields:
            events.append((fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return events


async def sent_by(stream: EventStream, *, leave_after: int | None = None) -> list[bytes]:
    """What the stream sends to a client that goes after so many pieces, or stays."""
    sent: list[bytes] = []
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            assert headers[b"content-type"].startswith(b"text/event-stream")
            assert b"content-length" not in headers
            return
        sent.append(message["body"])
        if leave_after is not None and len(sent) >= leave_after:
            gone.set()

    await stream({"type": "http"}, receive, send)
    return sent


async def test_events_are_numbered_and_data_is_one_line() -> None:
    async def events() -> AsyncGenerator[Event, None]:
        yield Event("token", {"text": "a\nb\r\n\u2028\u2029\x85c"})
        yield Event("done", {})

    sent = await sent_by(EventStream(events()))
    text = b"".join(sent).decode()
    assert parse(text) == [("token", 1, {"text": "a\nb\r\n\u2028\u2029\x85c"}), ("done", 2, {})]
    assert sent[0].startswith(b":")
    assert sent[-1] == b""


async def test_a_silent_stream_is_kept_alive_and_ends_with_the_client() -> None:
    closed = False

    async def events() -> AsyncGenerator[Event, None]:
        nonlocal closed
        try:
            await asyncio.Event().wait()
            yield Event("never", {})
        finally:
            closed = True

    sent = await sent_by(EventStream(events(), keep_alive=0.01), leave_after=4)
    assert all(piece.startswith(b":") for piece in sent)
    assert closed


async def test_an_error_is_the_last_event_and_a_problem() -> None:
    async def overloaded() -> AsyncGenerator[Event, None]:
        yield Event("token", {"text": "a"})
        raise Overloaded("Too many questions.")

    async def broken() -> AsyncGenerator[Event, None]:
        yield Event("token", {"text": "a"})
        raise ZeroDivisionError("secret detail")

    for events, code in ((overloaded(), "overloaded"), (broken(), "internal")):
        text = b"".join(await sent_by(EventStream(events))).decode()
        name, number, problem = parse(text)[-1]
        assert (name, number, problem["code"]) == ("error", 2, code)
        assert "secret" not in text


async def test_a_documents_progress_is_followed_to_its_end(site: Site) -> None:
    reply = await site.client.post("/documents", json={"text": TEXT, "id": "amber"})
    job_id = reply.json()["documents"][0]["job_id"]

    async def follow(path: str) -> list[tuple[str, int, Any]]:
        reply = await site.client.get(path)
        assert reply.headers["content-type"].startswith("text/event-stream")
        return parse(reply.text)

    following = [
        asyncio.create_task(follow(path))
        for path in ("/documents/amber/events", f"/jobs/{job_id}/events")
    ]
    await asyncio.sleep(0.3)
    await site.work()
    for events in await asyncio.gather(*following):
        assert events[0][0] == "progress"
        assert events[0][2]["stage"] == FIRST_STAGE[Plan.INGEST]
        assert events[-1][0] == "done"
        assert (events[-1][2]["id"], events[-1][2]["state"]) == (job_id, "done")
        assert [number for _, number, _ in events] == list(range(1, len(events) + 1))
    [(name, _, body)] = await follow(f"/jobs/{job_id}/events")
    assert (name, body["state"]) == ("done", "done")
    assert (body["stage"], body["done"], body["total"]) == ("done", 1, 1)
    document = (await site.client.get("/documents/amber")).json()
    assert document["progress"] == {"stage": "done", "done": 1, "total": 1}


async def test_following_stops_when_the_client_goes(site: Site) -> None:
    await site.client.post("/documents", json={"text": TEXT, "id": "amber"})
    task = asyncio.create_task(site.client.get("/documents/amber/events"))
    await asyncio.sleep(0.2)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert (await site.client.get("/documents/amber")).json()["status"] == "queued"
