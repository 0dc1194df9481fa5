"""One endpoint: what is tried again, what is not, how long is waited, and what errors mean."""

from __future__ import annotations

import asyncio
import socket
from email.utils import formatdate

import httpx
import pytest

from app.errors import AppError, BadModelOutput, Invalid, Misconfigured, Overloaded, Unavailable
from app.llm.http import PATIENCE, Endpoint, ModelClient, retry_after
from app.llm.limits import Rates
from tests.model_server import ModelServer
from tests.unit.llm.conftest import Clients

BODY = {"model": "scripted", "messages": [{"role": "user", "content": "Hello"}]}
CHAT = "/chat/completions"


def _content(reply: object) -> str:
    assert isinstance(reply, dict)
    return str(reply["choices"][0]["message"]["content"])


async def test_a_server_that_recovers_is_asked_again_with_growing_pauses(
    server: ModelServer, client: Clients, waits: list[float]
) -> None:
    server.script(llm={"other": [{"status": 500}, {"status": 503}, {"status": 502}, "fine"]})
    assert _content(await client().post(CHAT, BODY)) == "fine"
    assert len(waits) == 3
    assert 0.25 <= waits[0] <= 0.5
    assert 1.0 <= waits[2] <= 2.0


async def test_a_server_that_stays_down_is_unavailable_after_all_attempts(
    server: ModelServer, client: Clients
) -> None:
    server.script(llm={"other": [{"status": 500, "body": "boom"}] * 10})
    with pytest.raises(Unavailable) as raised:
        await client(attempts=3).post(CHAT, BODY)
    assert server.calls("other") == 3
    assert raised.value.transient
    assert "boom" not in raised.value.detail


async def test_retry_after_is_obeyed_by_every_caller_of_the_endpoint(
    server: ModelServer, client: Clients, waits: list[float]
) -> None:
    slow_down = {"status": 429, "headers": {"Retry-After": "7"}}
    server.script(llm={"other": [slow_down, "first", "second"]})
    shared = client()
    assert _content(await shared.post(CHAT, BODY)) == "first"
    await shared.post(CHAT, BODY)
    assert len(waits) == 2
    assert all(6 < wait <= 7 for wait in waits)


async def test_a_pause_longer_than_our_patience_is_left_to_the_caller(
    server: ModelServer, client: Clients
) -> None:
    server.script(llm={"other": [{"status": 429, "headers": {"Retry-After": "900"}}]})
    shared = client()
    for _ in range(2):
        with pytest.raises(Overloaded) as raised:
            await shared.post(CHAT, BODY)
        assert raised.value.retry_after
        assert raised.value.retry_after > PATIENCE
    assert server.calls("other") == 1


async def test_a_used_up_quota_is_not_asked_again_and_again(
    server: ModelServer, client: Clients, waits: list[float]
) -> None:
    body = '{"error": {"code": "insufficient_quota"}}'
    server.script(llm={"other": [{"status": 429, "body": body}]})
    with pytest.raises(Overloaded) as raised:
        await client().post(CHAT, BODY)
    assert raised.value.code == "model_quota"
    assert not waits


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    now = 1_700_000_000.0
    assert retry_after("1.5", now) == 1.5
    assert retry_after(formatdate(now + 90, usegmt=True), now) == 90
    assert retry_after(formatdate(now - 90, usegmt=True), now) == 0
    assert retry_after("soon", now) is None
    assert retry_after("", now) is None


@pytest.mark.parametrize(
    ("status", "body", "meaning"),
    [
        (401, "", (Unavailable, "model_auth")),
        (403, "", (Unavailable, "model_auth")),
        (404, '{"error": "model \'x\' not found"}', (Unavailable, "model_not_found")),
        (400, "The model `x` does not exist", (Unavailable, "model_not_found")),
        (400, "This model's maximum context length is 8192 tokens", (Invalid, "context_overflow")),
        (413, "", (Invalid, "context_overflow")),
        (400, '{"error": {"code": "content_filter"}}', (BadModelOutput, "content_filter")),
        (400, "no", (Unavailable, "model_rejected")),
        (302, "", (Unavailable, "model_rejected")),
    ],
)
async def test_what_a_retry_cannot_mend_is_not_retried(
    server: ModelServer,
    client: Clients,
    status: int,
    body: str,
    meaning: tuple[type[AppError], str],
) -> None:
    kind, code = meaning
    server.script(llm={"other": [{"status": status, "body": body}]})
    with pytest.raises(kind) as raised:
        await client().post(CHAT, BODY)
    assert raised.value.code == code
    assert not raised.value.transient
    assert server.calls("other") == 1


async def test_a_page_instead_of_a_completion_is_bad_output(
    server: ModelServer, client: Clients
) -> None:
    server.script(llm={"other": [{"raw": "<html>Sign in</html>"}]})
    with pytest.raises(BadModelOutput):
        await client().post(CHAT, BODY)


async def test_a_server_that_is_not_there_is_unavailable(http: httpx.AsyncClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    endpoint = Endpoint(f"openai+http://127.0.0.1:{port}/v1", attempts=1)
    with pytest.raises(Unavailable) as raised:
        await ModelClient(http, endpoint).post(CHAT, BODY)
    assert raised.value.code == "model_away"
    with pytest.raises(Unavailable):
        await ModelClient(http, endpoint).ping()


async def test_a_server_that_hangs_is_given_up(server: ModelServer, client: Clients) -> None:
    server.script(llm={"other": [{"delay_s": 30, "content": "late"}]})
    with pytest.raises(Unavailable) as raised:
        await client(timeout=0.1, attempts=1).post(CHAT, BODY)
    assert raised.value.code == "model_timeout"


async def test_no_more_calls_run_at_once_than_the_endpoint_allows(
    server: ModelServer, client: Clients
) -> None:
    server.script(latency_s=0.02)
    shared = client(concurrency=3)
    await asyncio.gather(*(shared.post(CHAT, BODY) for _ in range(10)))
    assert server.state.max_parallel == 3


async def test_the_rate_limit_spreads_calls(client: Clients, waits: list[float]) -> None:
    shared = client(rates=Rates(requests=60))
    await asyncio.gather(*(shared.post(CHAT, BODY) for _ in range(14)))
    # Ten seconds' worth may go at once, the others a second apart.
    assert [round(wait) for wait in sorted(waits)] == [1, 2, 3] or len(waits) in (3, 4)
    assert max(waits) <= 4


async def test_the_key_is_sent_and_never_shown(server: ModelServer, client: Clients) -> None:
    server.script(key="secret-key")
    endpoint = client(key="secret-key").endpoint
    await client(key="secret-key").post(CHAT, BODY)
    assert "secret-key" not in repr(endpoint)
    with pytest.raises(Unavailable) as raised:
        await client(key="wrong-key").post(CHAT, BODY)
    assert "wrong-key" not in str(raised.value)


@pytest.mark.parametrize("url", ["openai+ftp://host/v1", "openai+https://", "nonsense"])
def test_a_url_that_is_none_is_misconfigured(url: str) -> None:
    with pytest.raises(Misconfigured):
        _ = Endpoint(url).address


async def test_ping_names_the_version_and_checks_the_key(
    server: ModelServer, client: Clients
) -> None:
    assert await client("ollama").ping() == "0.0.0-scripted"
    assert await client("openai").ping() == "openai"
