"""One endpoint: what is tried again, what is not, how long is waited, and what errors mean."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from email.utils import formatdate
from time import time

import httpx
import pytest

from app.domain import Prompt
from app.errors import AppError, BadModelOutput, Invalid, Misconfigured, Overloaded, Unavailable
from app.llm.chat import ChatModel
from app.llm.faults import retry_after
from app.llm.http import Endpoint, ModelClient
from app.llm.limits import Limits, Rates
from tests.model_server import ModelServer
from tests.unit.llm.conftest import Clients, Clock, ask, said

BROKEN = {"status": 500, "body": "boom"}


async def _say(client: ModelClient, *, urgent: bool = False, harmless: bool = False) -> str:
    return await client.post(ask(urgent=urgent, harmless=harmless), said)


async def test_a_server_that_recovers_is_asked_again_with_growing_pauses(
    server: ModelServer, client: Clients, waits: list[float]
) -> None:
    server.script(llm={"other": [{"status": 500}, {"status": 503}, {"status": 502}, "fine"]})
    assert await _say(client()) == "fine"
    assert len(waits) == 3
    assert 0.25 <= waits[0] <= 0.5
    assert 1.0 <= waits[2] <= 2.0


async def test_a_server_that_stays_down_is_unavailable_after_all_attempts(
    server: ModelServer, client: Clients
) -> None:
    server.script(llm={"other": [BROKEN] * 10})
    with pytest.raises(Unavailable) as raised:
        await _say(client(attempts=3))
    assert server.calls("other") == 3
    assert raised.value.transient
    assert "boom" not in raised.value.detail


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_obeyed_by_every_caller_of_the_endpoint(
    server: ModelServer, client: Clients, waits: list[float], form: str
) -> None:
    value = "7" if form == "seconds" else formatdate(time() + 8, usegmt=True)
    slow_down = {"status": 429, "headers": {"Retry-After": value}}
    server.script(llm={"other": [slow_down, "first", "second"]})
    shared = client()
    first, second = await asyncio.gather(_say(shared), _say(shared))
    assert {first, second} <= {
        "first",
        "second",
        "This is the answer of a model that knows nothing.",
    }
    assert waits
    assert 4 < waits[0] <= 8


async def test_without_retry_after_a_server_that_asks_to_slow_down_is_left_alone_ever_longer(
    server: ModelServer, client: Clients, waits: list[float]
) -> None:
    server.script(llm={"other": [{"status": 429}, {"status": 429}, {"status": 429}, "fine"]})
    assert await _say(client()) == "fine"
    assert 1.5 <= waits[0] <= 2.5
    assert 6 <= waits[2] <= 10


async def test_a_pause_longer_than_our_patience_is_left_to_the_caller(
    server: ModelServer, client: Clients
) -> None:
    server.script(llm={"other": [{"status": 429, "headers": {"Retry-After": "900"}}]})
    shared = client()
    for _ in range(2):
        with pytest.raises(Overloaded) as raised:
            await _say(shared)
        assert raised.value.blameless
        assert raised.value.retry_after
        assert raised.value.retry_after > 800
    assert server.calls("other") == 1


async def test_somebody_who_waits_hears_of_a_pause_at_once(
    server: ModelServer, client: Clients, waits: list[float]
) -> None:
    server.script(llm={"other": [{"status": 429, "headers": {"Retry-After": "30"}}]})
    with pytest.raises(Overloaded) as raised:
        await _say(client(), urgent=True)
    assert raised.value.retry_after == pytest.approx(30, abs=1)
    assert not waits


async def test_a_used_up_quota_is_not_asked_again_and_again(
    server: ModelServer, client: Clients, waits: list[float]
) -> None:
    body = '{"error": {"code": "insufficient_quota"}}'
    server.script(llm={"other": [{"status": 429, "body": body}]})
    with pytest.raises(Overloaded) as raised:
        await _say(client())
    assert raised.value.blameless
    assert server.calls("other") == 1
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
        await _say(client(), harmless=True)
    assert raised.value.code == code
    assert not raised.value.transient
    assert not raised.value.blameless
    assert server.calls("other") == 1


async def test_a_page_instead_of_a_completion_is_bad_output_if_it_stays(
    server: ModelServer, client: Clients
) -> None:
    page = {"raw": "<html>Sign in</html>"}
    server.script(llm={"other": [page, "fine", *[page] * 4]})
    assert await _say(client()) == "fine"
    with pytest.raises(BadModelOutput):
        await _say(client())


async def test_a_server_that_is_not_there_is_unavailable(http: httpx.AsyncClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    endpoint = Endpoint(f"openai+http://127.0.0.1:{port}/v1", attempts=1)
    with pytest.raises(Unavailable) as raised:
        await _say(ModelClient(http, endpoint))
    assert raised.value.code == "model_away"
    with pytest.raises(Unavailable):
        await ModelClient(http, endpoint).ping()


async def test_a_server_that_hangs_is_given_up_and_the_limit_is_said(
    server: ModelServer, client: Clients
) -> None:
    server.script(llm={"other": [{"delay_s": 30, "content": "late"}]})
    with pytest.raises(Unavailable) as raised:
        await _say(client(timeout=0.1, attempts=1))
    assert raised.value.code == "model_timeout"
    assert "0.1 seconds" in raised.value.detail


async def test_no_more_calls_run_at_once_than_the_endpoint_allows(
    server: ModelServer, client: Clients
) -> None:
    server.script(latency_s=0.02)
    shared = client(concurrency=3)
    await asyncio.gather(*(_say(shared) for _ in range(10)))
    assert server.state.max_parallel == 3


async def test_a_call_that_is_given_up_leaves_its_slot_to_the_next(
    server: ModelServer, client: Clients
) -> None:
    server.script(llm={"other": [{"delay_s": 30, "content": "late"}]})
    shared = client(concurrency=1)
    slow = asyncio.create_task(_say(shared))
    await asyncio.sleep(0.05)
    waiting = asyncio.create_task(_say(shared))
    await asyncio.sleep(0.05)
    slow.cancel()
    assert await waiting


async def test_the_rate_limit_spreads_calls(client: Clients, clock: Clock) -> None:
    shared = client(rates=Rates(requests=60))
    await asyncio.gather(*(_say(shared) for _ in range(14)))
    assert 2.5 < clock.now - 1000 < 4.5, "ten seconds' worth goes at once, the rest a second apart"


# --- who is at fault -----------------------------------------------------------------------------


async def test_an_endpoint_that_fails_harmless_calls_too_is_paused_for_all(
    server: ModelServer, client: Clients
) -> None:
    shared = client()
    server.script(llm={"other": [BROKEN] * 4})
    with pytest.raises(Unavailable) as raised:
        await _say(shared, harmless=True)
    assert (raised.value.code, raised.value.blameless) == ("model_paused", True)
    assert raised.value.retry_after
    asked = server.calls("other")
    assert asked == 4, "three attempts, then the harmless call"
    for urgent in (False, True):
        with pytest.raises(Unavailable) as raised:
            await _say(shared, urgent=urgent, harmless=True)
        assert raised.value.retry_after
    assert server.calls("other") == asked, "a paused endpoint is not asked"


async def test_a_pause_grows_until_one_harmless_call_lets_work_go_on(
    server: ModelServer, client: Clients, clock: Clock
) -> None:
    shared = client()
    server.script(llm={"other": [BROKEN] * 12})
    pauses: list[float] = []
    for _ in range(9):
        with pytest.raises(Unavailable) as raised:
            await _say(shared, harmless=True)
        assert raised.value.retry_after
        pauses.append(raised.value.retry_after)
        clock.now += raised.value.retry_after + 0.01
    assert server.calls("other") == 12, "one call a pause"
    assert pauses[0] < 3 < pauses[2] < 12 < pauses[4]
    assert max(pauses) <= 75
    texts = await asyncio.gather(
        *(_say(shared, harmless=True) for _ in range(4)), return_exceptions=True
    )
    assert any(isinstance(text, str) for text in texts)
    assert await _say(shared, harmless=True)


async def test_a_text_that_fails_while_harmless_calls_work_is_to_blame(
    server: ModelServer, client: Clients
) -> None:
    shared = client()
    server.script(reject=[{"contains": "Zanzibar", **BROKEN}])
    for _ in range(6):
        with pytest.raises(Unavailable) as raised:
            await shared.post(ask("Zanzibar"), said)
        assert (raised.value.code, raised.value.blameless) == ("model_failed", False)
        assert await _say(shared, harmless=True), "the endpoint is not paused for others"


async def test_a_text_that_hangs_while_others_are_answered_is_to_blame(
    server: ModelServer, client: Clients
) -> None:
    shared = client(timeout=0.2, attempts=2)
    server.script(reject=[{"contains": "Zanzibar", "delay_s": 30}])
    with pytest.raises(Unavailable) as raised:
        await shared.post(ask("Zanzibar"), said)
    assert (raised.value.code, raised.value.blameless) == ("model_timeout", False)


async def test_one_model_of_an_endpoint_is_paused_without_the_others(
    server: ModelServer, client: Clients
) -> None:
    shared = client()
    server.script(llm={"other": [BROKEN] * 4})
    with pytest.raises(Unavailable):
        await _say(shared, harmless=True)
    request = ask()
    other = type(request)(request.path, request.body, about="another model")
    assert await shared.post(other, said)


@pytest.mark.parametrize(
    "answer", [{"status": 503}, {"raw": "<html>Bad gateway</html>"}, {"raw": '{"error": "down"}'}]
)
async def test_whatever_an_outage_looks_like_it_is_not_the_texts_fault(
    server: ModelServer, chat: Callable[..., ChatModel], answer: Mapping[str, object]
) -> None:
    server.script(reject=[{"contains": "", **answer}])
    with pytest.raises(Unavailable) as raised:
        await chat().complete(Prompt("# Summarise", "Hello"))
    assert raised.value.blameless
    assert server.calls("summary") == 3


# --- the rest ------------------------------------------------------------------------------------


async def test_the_key_is_sent_and_never_shown(server: ModelServer, client: Clients) -> None:
    server.script(key="secret-key")
    endpoint = client(key="secret-key").endpoint
    await _say(client(key="secret-key"))
    assert "secret-key" not in repr(endpoint)
    with pytest.raises(Unavailable) as raised:
        await _say(client(key="wrong-key"))
    assert "wrong-key" not in str(raised.value)


@pytest.mark.parametrize("url", ["openai+ftp://host/v1", "openai+https://", "nonsense"])
def test_a_url_that_is_none_is_misconfigured(url: str) -> None:
    with pytest.raises(Misconfigured):
        _ = Endpoint(url, limits=Limits()).address


async def test_ping_names_the_version_and_checks_the_key(
    server: ModelServer, client: Clients
) -> None:
    assert await client("ollama").ping() == "0.0.0-scripted"
    assert await client("openai").ping() == "openai"
