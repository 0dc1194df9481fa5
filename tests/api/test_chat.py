"""OpenAI's and Ollama's chat APIs: their clients list models, ask, stream, and are told what is
wrong in their own way."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.api.chat import ChatBody, ChunkStream, sources_for_open_webui
from app.api.conversation import MODELS, question_of
from app.api.events import Event
from app.api.ollama import LineStream
from app.domain import Chunk, Citation, Context, Mode, Question, Scope, Source, Turn, Usage
from app.errors import Invalid, Overloaded, Unavailable
from app.ports import Services
from app.query.engine import Answered
from tests.api.conftest import Site, embedded
from tests.api.test_query import AMBER, ASKED, BASALT, Writer, written_by

OPENAI, OLLAMA = "/v1/chat/completions", "/api/chat"
NEED_A_MODEL = ("heliograph-hyde", "heliograph-rq", "heliograph-bypass")
QUESTION = [{"role": "user", "content": ASKED}]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
async def services(
    tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> AsyncIterator[Services]:
    """One for all tests of this file: they only ask."""
    async with embedded(tmp_path_factory.mktemp("site"), valkey_url) as opened:
        yield opened


@pytest.fixture
async def asked(site: Site) -> Site:
    """A service that knows two documents."""
    if (await site.client.get("/documents/counts")).json()["ready"] < 2:
        await site.add(AMBER, id="amber", name="amber.txt")
        await site.add(BASALT, id="basalt", name="basalt.txt")
    return site


def assert_openai(reply: httpx.Response, status: int, code: str, *words: str) -> dict[str, Any]:
    """The reply is an error as OpenAI's clients read it."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"]
    [(name, error)] = reply.json().items()
    assert name == "error"
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    for word in words:
        assert word in error["message"]
    fault: dict[str, Any] = error
    return fault


def assert_ollama(reply: httpx.Response, status: int, *words: str) -> None:
    """The reply is an error as Ollama's clients read it."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    [(name, error)] = reply.json().items()
    assert name == "error"
    for word in words:
        assert word in error


async def chat(site: Site, path: str = OPENAI, **body: Any) -> httpx.Response:
    messages = body.pop("messages", QUESTION)
    return await site.client.post(
        path, json={"model": "heliograph-mix", "messages": messages, **body}
    )


def chunks_of(reply: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of an OpenAI stream, which ends as it should."""
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in reply.text.split("\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def lines_of(reply: httpx.Response) -> list[dict[str, Any]]:
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert reply.text.endswith("\n")
    return [json.loads(line) for line in reply.text.splitlines()]


# --- models --------------------------------------------------------------------------------------


async def test_each_mode_is_a_model_and_the_first_is_the_default(site: Site) -> None:
    assert list(MODELS) == ["heliograph", *(f"heliograph-{mode}" for mode in Mode)]
    assert MODELS["heliograph"] is Mode.MIX
    for path in ("/v1/models", "/models"):
        listed = (await site.client.get(path)).json()
        assert listed["object"] == "list"
        assert [one["id"] for one in listed["data"]] == list(MODELS)
    for model in listed["data"]:
        assert (model["object"], model["owned_by"]) == ("model", "heliograph")
        assert (await site.client.get(f"/v1/models/{model['id']}")).json() == model


async def test_ollama_lists_and_shows_the_same_models(site: Site) -> None:
    tags = (await site.client.get("/api/tags")).json()["models"]
    assert [one["name"] for one in tags] == [f"{name}:latest" for name in MODELS]
    assert all(one["model"] == one["name"] and len(one["digest"]) == 64 for one in tags)
    assert len({one["digest"] for one in tags}) == len(tags)
    for body in ({"model": "heliograph-ppr"}, {"name": "heliograph-ppr:latest"}):
        shown = (await site.client.post("/api/show", json=body)).json()
        assert shown["capabilities"] == ["completion"]
        assert shown["model_info"]["heliograph.mode"] == "ppr"
    assert (await site.client.get("/api/ps")).json() == {"models": []}
    version = (await site.client.get("/api/version")).json()["version"]
    assert re.fullmatch(r"\d+(\.\d+)*", version)  # Open WebUI compares its numbers
    assert version == (await site.client.get("/healthz")).json()["version"]


async def test_an_unknown_model_is_told_in_the_words_of_the_api(site: Site) -> None:
    for name in ("gpt-4o", "heliograph-telepathy", "Heliograph", "heliograph-mix:latest", ""):
        error = assert_openai(
            await chat(site, model=name), 404, "model_not_found", "heliograph-mix"
        )
        assert error["type"] == "invalid_request_error"
    for path in ("/v1/models/gpt-4o", "/v1/models/a%2Fb", "/models/%00"):
        assert_openai(await site.client.get(path), 404, "model_not_found")
    assert_ollama(await chat(site, OLLAMA, model="llama3"), 404, "llama3", "heliograph-mix")
    assert_ollama(await site.client.post("/api/show", json={"model": "llama3"}), 404, "llama3")
    assert_ollama(await site.client.post("/api/show", json={}), 404)


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [name for name in MODELS if name not in NEED_A_MODEL])
async def test_every_model_answers_with_citations_that_resolve(asked: Site, model: str) -> None:
    reply = await chat(asked, model=model)
    assert reply.status_code == 200, reply.text
    whole = reply.json()
    assert (whole["object"], whole["model"]) == ("chat.completion", model)
    assert whole["id"].startswith("chatcmpl-")
    [choice] = whole["choices"]
    assert (choice["index"], choice["finish_reason"]) == (0, "stop")
    message = choice["message"]
    assert message["role"] == "assistant"
    assert "Johanna Weber" in message["content"]
    marks = {int(mark) for mark in re.findall(r"\[(\d+)\]", message["content"])}
    assert marks == {one["number"] for one in message["citations"]}
    assert marks
    for one in message["citations"]:
        text = (await asked.client.get(f"/documents/{one['document_id']}/text")).text
        assert text[one["start"] : one["end"]] == one["quote"]
    assert "No language model wrote this answer" in message["notice"]
    assert whole["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


async def test_a_chat_gives_the_answer_of_a_query_and_counts_as_one(asked: Site) -> None:
    written_by(asked, Writer("Johanna Weber", " did [1]."))
    answer = (await asked.client.post("/query", json={"query": ASKED})).json()
    whole = (await chat(asked)).json()
    message = whole["choices"][0]["message"]
    assert message["content"] == answer["answer"] == "Johanna Weber did [1]."
    assert message["citations"] == answer["citations"]
    assert message["notice"] is None
    assert whole["usage"] == {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    line = (await chat(asked, OLLAMA, stream=False)).json()
    assert line["message"] == message
    assert (line["done"], line["done_reason"]) == (True, "stop")
    assert (line["prompt_eval_count"], line["eval_count"]) == (100, 20)
    assert line["total_duration"] >= line["eval_duration"] > 0
    assert line["total_duration"] == line["eval_duration"] + line["prompt_eval_duration"]
    metrics = (await asked.client.get("/metrics")).text
    assert 'heliograph_queries_total{mode="mix",outcome="answered"} 3.0' in metrics
    assert 'heliograph_query_tokens_total{kind="prompt"} 300.0' in metrics


async def test_a_streamed_chat_is_chunks_of_one_answer(asked: Site) -> None:
    written_by(asked, Writer("Johanna", " Weber", " did [1]."))
    chunks = chunks_of(await chat(asked, stream=True))
    assert {(one["object"], one["model"]) for one in chunks} == {
        ("chat.completion.chunk", "heliograph-mix")
    }
    assert len({(one["id"], one["created"]) for one in chunks}) == 1
    assert all(len(one["choices"]) == 1 for one in chunks)
    deltas = [one["choices"][0]["delta"] for one in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(one.get("content", "") for one in deltas) == "Johanna Weber did [1]."
    reasons = [one["choices"][0]["finish_reason"] for one in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
    assert deltas[-1]["citations"][0]["document_id"] == "amber"
    assert not any("usage" in one for one in chunks)
    [source] = [one["event"]["data"] for one in chunks if "event" in one]
    assert source["source"]["name"] == "amber.txt"
    assert source["document"] == [deltas[-1]["citations"][0]["quote"]]


async def test_a_stream_counts_tokens_when_asked(asked: Site) -> None:
    written_by(asked, Writer("Johanna Weber did [1]."))
    reply = await chat(asked, stream=True, stream_options={"include_usage": True})
    *_, last, usage = chunks_of(reply)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


async def test_ollama_streams_lines_unless_told_otherwise(asked: Site) -> None:
    written_by(asked, Writer("Johanna", " Weber", " did [1]."))
    for body in ({}, {"stream": True}, {"stream": None}):
        *pieces, last = lines_of(await chat(asked, OLLAMA, **body))
        assert "".join(one["message"]["content"] for one in pieces) == "Johanna Weber did [1]."
        assert not any(one["done"] for one in pieces)
        assert {one["message"]["role"] for one in (*pieces, last)} == {"assistant"}
        assert last["done"]
        assert last["message"]["content"] == ""
        assert last["message"]["citations"][0]["document_id"] == "amber"
        assert last["prompt_eval_count"] == 100


async def test_a_footer_lists_the_sources_if_an_option_asks(asked: Site) -> None:
    written_by(asked, Writer("Johanna Weber did [1]."))
    plain = (await chat(asked)).json()["choices"][0]["message"]
    assert plain["content"] == "Johanna Weber did [1]."
    full = plain["content"] + f"\n\nSources:\n- [1] amber.txt: “{plain['citations'][0]['quote']}”"
    reply = await chat(asked, sources_footer=True)
    assert reply.json()["choices"][0]["message"]["content"] == full
    streamed = chunks_of(await chat(asked, sources_footer=True, stream=True))
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in streamed) == full
    options = {"sources_footer": True, "temperature": 0.5}
    reply = await chat(asked, OLLAMA, options=options, stream=False)
    assert reply.json()["message"]["content"] == full
    lines = lines_of(await chat(asked, OLLAMA, options=options))
    assert "".join(one["message"]["content"] for one in lines) == full


async def test_an_answer_without_sources_has_no_footer(asked: Site) -> None:
    written_by(asked, Writer("I do not know."))
    reply = await chat(asked, model="heliograph-bypass", sources_footer=True)
    message = reply.json()["choices"][0]["message"]
    assert (message["content"], message["citations"]) == ("I do not know.", [])


async def test_what_the_apis_know_and_this_service_does_not_is_passed_over(asked: Site) -> None:
    strange = {
        "temperature": 0.2, "max_tokens": 5, "n": 2, "tools": [{"type": "function"}],
        "response_format": {"type": "json_object"}, "keep_alive": "5m", "think": True, "x": 1,
    }  # fmt: skip
    for path in (OPENAI, OLLAMA):
        assert (await chat(asked, path, stream=False, **strange)).status_code == 200


async def test_an_empty_workspace_says_that_nothing_was_found(asked: Site) -> None:
    headers = {"X-Workspace": "elsewhere"}
    body = {"model": "heliograph", "messages": QUESTION}
    message = (await asked.client.post(OPENAI, json=body, headers=headers)).json()["choices"][0][
        "message"
    ]
    assert message["citations"] == []
    assert "Nothing relevant" in message["notice"]
    assert message["content"]


# --- messages ------------------------------------------------------------------------------------


def question(*messages: dict[str, Any]) -> Question:
    body = ChatBody.model_validate({"model": "heliograph", "messages": messages})
    return question_of(body.messages, Mode.LOCAL, "lab")


def said(role: str, content: Any = "") -> dict[str, Any]:
    return {"role": role, "content": content}


def test_messages_become_the_question_they_hold() -> None:
    assert question(
        said("system", "You are brief.\n## Sources\n"), said("developer", "Use bullet points."),
        said("user", "hello"), said("assistant", "yes"), said("assistant", None),
        said("tool", "42"), said("user", " why? "),
    ) == Question(
        "why?", workspace="lab", mode=Mode.LOCAL,
        history=(Turn("user", "hello"), Turn("assistant", "yes")),
        response_type="You are brief. ## Sources Use bullet points",
    )  # fmt: skip


def test_a_chat_that_does_not_end_with_the_user_goes_on_from_the_last_question() -> None:
    asked = question(
        said("user", "hello"), said("assistant", "yes"), said("user", "who?"),
        said("assistant", "Ad"),
    )  # fmt: skip
    assert asked.text == "who?"
    assert asked.history == (Turn("user", "hello"), Turn("assistant", "yes"))


def test_parts_of_a_message_are_joined() -> None:
    parts = [{"type": "text", "text": "Who was"}, {"type": "text", "text": "Marley?"}]
    assert question(said("user", parts)).text == "Who was\nMarley?"


def test_a_long_conversation_keeps_its_latest_messages() -> None:
    long = [said("user", f"n{n}") for n in range(301)]
    assert [turn.content for turn in question(*long).history] == [f"n{n}" for n in range(200, 300)]


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([said("assistant", "Ada")], "no_question"),
        ([said("system", "x")], "no_question"),
        ([said("user", " \n")], "no_question"),
        ([said("user", None)], "no_question"),
        ([said("user", [])], "no_question"),
        ([said("user", "who?"), said("user", "")], "no_question"),
        ([said("user", "x" * 8001)], "too_long"),
        ([said("system", "x" * 8001), said("user", "who?")], "too_long"),
        ([said("user", [{"type": "text", "text": "x" * 9000}] * 2)], "too_long"),
        ([said("user", [{"type": "image_url", "image_url": {"url": "x"}}])], "unsupported_content"),
        (
            [said("user", [{"type": "input_audio"}]), said("user", "who?")],
            "unsupported_content",
        ),
    ],
)
async def test_messages_without_a_question_that_can_be_read(
    site: Site, messages: list[dict[str, Any]], code: str
) -> None:
    for stream in (False, True):
        error = assert_openai(await chat(site, messages=messages, stream=stream), 400, code)
        assert error["type"] == "invalid_request_error"
        assert_ollama(await chat(site, OLLAMA, messages=messages, stream=stream), 400)
    body = ChatBody.model_validate({"model": "heliograph", "messages": messages})
    with pytest.raises(Invalid):
        question_of(body.messages, Mode.MIX, "lab")


async def test_images_of_ollama_are_refused(site: Site) -> None:
    reply = await chat(site, OLLAMA, messages=[{**said("user", "who?"), "images": ["aGk="]}])
    assert_ollama(reply, 400, "messages.0", "images")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "model"),
        ({"model": "heliograph"}, "messages"),
        ({"model": "heliograph", "messages": []}, "messages"),
        ({"model": "heliograph", "messages": {}}, "messages"),
        ({"model": "heliograph", "messages": [said("king", "x")]}, "messages.0.role"),
        ({"model": "heliograph", "messages": [said("user", 5)]}, "messages.0.content"),
        ({"model": "heliograph", "messages": [said("user", "\ud800")]}, "messages.0.content"),
        ({"model": "heliograph", "messages": [said("user", "x" * 16001)]}, "messages.0.content"),
        ({"model": "heliograph", "messages": [said("user", "x")] * 2001}, "messages"),
        ({"model": 5, "messages": QUESTION}, "model"),
        ({"model": "heliograph", "messages": QUESTION, "stream": "maybe"}, "stream"),
        ([], ""),
    ],
)
async def test_a_body_with_a_wrong_field(site: Site, body: object, field: str) -> None:
    content = json.dumps(body)
    reply = await site.client.post(OPENAI, content=content, headers=JSON)
    error = assert_openai(reply, 400, "validation", field)
    assert (error["param"] or "").startswith(field)
    reply = await site.client.post(OLLAMA, content=content, headers=JSON)
    assert_ollama(reply, 400, field)


async def test_what_is_no_json_or_too_much_of_it(site: Site) -> None:
    for content, status, code in (
        (b"{bad", 400, "malformed_json"),
        (b'{"model": "\xff"}', 400, "malformed_body"),
        (b"[" * 100_000, 400, "malformed_body"),
        (b'"' + b"x" * 5_000_000 + b'"', 413, "too_large"),
    ):
        reply = await site.client.post(OPENAI, content=content, headers=JSON)
        assert_openai(reply, status, code)
        assert_ollama(await site.client.post(OLLAMA, content=content, headers=JSON), status)
    form = {"Content-Type": "text/plain"}
    reply = await site.client.post(OPENAI, content=b"x", headers=form)
    assert_openai(reply, 415, "unsupported_content_type")
    assert_ollama(await site.client.post(OLLAMA, content=b"x", headers=form), 415)


async def test_an_address_or_method_that_the_apis_have_and_this_service_does_not(
    site: Site,
) -> None:
    assert_openai(await site.client.get(OPENAI), 405, "method_not_allowed")
    assert_ollama(await site.client.get(OLLAMA), 405)
    assert_ollama(await site.client.post("/api/generate", json={}), 404)
    reply = await site.client.post("/v1/embeddings", json={})
    assert reply.headers["content-type"] == "application/problem+json"


# --- keys ----------------------------------------------------------------------------------------

ROUTES: list[tuple[str, str, object]] = [
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/{model}", None),
    ("POST", OPENAI, {"model": "heliograph", "messages": QUESTION}),
    ("GET", "/api/tags", None),
    ("GET", "/api/ps", None),
    ("GET", "/api/version", None),
    ("POST", "/api/show", {"model": "heliograph"}),
    ("POST", OLLAMA, {"model": "heliograph", "messages": QUESTION}),
]


async def test_the_table_has_every_route(site: Site) -> None:
    served = {
        (method.upper(), path)
        for path, operations in site.app.openapi()["paths"].items()
        for method, operation in operations.items()
        if "chat" in operation["tags"]
    }
    assert served == {(method, path) for method, path, _ in ROUTES}


async def test_keys_and_workspaces_hold_as_everywhere(site: Site) -> None:
    key = await site.key(Scope.READ, "mine")
    wrong = {"Authorization": "Bearer hg_nosuchkey_0123456789"}
    try:
        for method, path, body in ROUTES:
            url = path.replace("{model}", "heliograph")
            for headers, code in (({}, "unauthenticated"), (wrong, "unknown_key")):
                reply = await site.client.request(method, url, json=body, headers=headers)
                assert reply.headers["www-authenticate"] == "Bearer"
                if path.startswith("/api"):
                    assert_ollama(reply, 401, "API key")
                else:
                    error = assert_openai(reply, 401, code, "API key")
                    assert error["type"] == "authentication_error"
            reply = await site.client.request(method, url, json=body, headers=key)
            assert reply.status_code == 200, f"{path} {reply.text}"
            assert "Johanna" not in reply.text
        theirs = {**key, "X-Workspace": "default"}
        body = {"model": "heliograph", "messages": QUESTION}
        reply = await site.client.post(OPENAI, json=body, headers=theirs)
        error = assert_openai(reply, 403, "workspace_forbidden", "default")
        assert error["type"] == "permission_error"
        assert_ollama(await site.client.post(OLLAMA, json=body, headers=theirs), 403, "default")
        several = await site.key(Scope.READ, "mine", "yours")
        assert (await site.client.get("/v1/models", headers=several)).status_code == 200
    finally:
        for one in await site.services.keyring.all():
            await site.services.keyring.revoke(one.id)


async def test_without_any_key_the_one_that_clients_must_send_means_nothing(site: Site) -> None:
    key = {"Authorization": "Bearer unused"}
    for method, path, body in ROUTES:
        url = path.replace("{model}", "heliograph")
        reply = await site.client.request(method, url, json=body, headers=key)
        assert reply.status_code == 200, f"{path} {reply.text}"
        foreign = {**key, "Origin": "https://evil.example"}
        reply = await site.client.request(method, url, json=body, headers=foreign)
        assert reply.status_code == 403
        assert set(reply.json()) == {"error"}
    async with site.stranger(base_url="http://192.0.2.7:8080") as client:
        assert_openai(await client.get("/v1/models", headers=key), 403, "keys_required")
    assert (await site.client.get("/documents", headers=key)).status_code == 401


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_store_that_is_away_is_a_status_even_for_a_stream(
    asked: Site, stream: bool
) -> None:
    class Away:
        def __call__(self, name: str) -> Any:
            workspace = services.workspace(name)
            return replace(workspace, vectors=NoVectors())

    class NoVectors:
        def __getattr__(self, name: str) -> Any:
            raise Unavailable("The vector store does not answer.")

    deployed = asked.app.state.deployment
    services = deployed.services
    asked.app.state.deployment = replace(deployed, services=replace(services, workspace=Away()))
    reply = await chat(asked, stream=stream)
    error = assert_openai(reply, 503, "unavailable", "vector store")
    assert error["type"] == "server_error"
    assert reply.headers["retry-after"] == "5"
    assert_ollama(await chat(asked, OLLAMA, stream=stream), 503, "vector store")


async def test_a_model_that_is_busy_is_a_status_without_a_stream(asked: Site) -> None:
    written_by(asked, Writer("Johanna", fault=Overloaded("The model is busy.", retry_after=7)))
    reply = await chat(asked)
    assert assert_openai(reply, 429, "overloaded", "busy")["type"] == "rate_limit_error"
    assert reply.headers["retry-after"] == "7"
    assert_ollama(await chat(asked, OLLAMA, stream=False), 429, "busy")


async def test_a_fault_in_mid_stream_is_the_last_thing_said(
    asked: Site, caplog: pytest.LogCaptureFixture
) -> None:
    written_by(asked, Writer("Johanna", fault=Unavailable("The model does not answer.")))
    chunks = chunks_of(await chat(asked, stream=True))
    assert chunks[-1] == {
        "error": {
            "message": "The model does not answer.", "type": "server_error", "param": None,
            "code": "unavailable",
        }
    }  # fmt: skip
    assert "Johanna" in json.dumps(chunks[:-1])
    lines = lines_of(await chat(asked, OLLAMA))
    assert lines[-1] == {"error": "The model does not answer."}
    assert [record for record in caplog.records if record.exc_info] == []
    metrics = (await asked.client.get("/metrics")).text
    assert 'heliograph_queries_total{mode="mix",outcome="failed"} 2.0' in metrics


async def test_a_bug_shows_nothing_in_either_shape(
    asked: Site, caplog: pytest.LogCaptureFixture
) -> None:
    written_by(asked, Writer("Johanna", fault=ZeroDivisionError("secret detail")))
    for stream in (False, True):
        one, other = await chat(asked, stream=stream), await chat(asked, OLLAMA, stream=stream)
        assert "secret" not in one.text + other.text
        if stream:
            assert chunks_of(one)[-1]["error"]["code"] == "internal"
            assert list(lines_of(other)[-1]) == ["error"]
        else:
            assert assert_openai(one, 500, "internal")["type"] == "server_error"
            assert_ollama(other, 500)
    bugs = [record.getMessage() for record in caplog.records if record.exc_info]
    assert bugs == [
        "request.bug method=POST route=/chat/completions",
        "request.bug method=POST route=/api/chat",
        "stream.bug",
        "stream.bug",
    ]
    caplog.clear()


class Endless(Writer):
    """Writes until it is stopped, and then knows it."""

    stopped = False

    async def answer(self, question: Question, context: Context) -> AsyncIterator[str | Usage]:
        try:
            while True:
                yield "amber "
                await asyncio.sleep(0)
        finally:
            self.stopped = True


@pytest.mark.parametrize("path", [OPENAI, OLLAMA])
async def test_a_client_that_leaves_ends_the_call_of_the_model(asked: Site, path: str) -> None:
    writer = Endless()
    written_by(asked, writer)
    body = json.dumps({"model": "heliograph-mix", "messages": QUESTION, "stream": True}).encode()
    gone = asyncio.Event()
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if b"amber" in message.get("body", b""):
            gone.set()

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": headers, "server": ("127.0.0.1", 8080),
        "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    await asked.app(scope, receive, send)
    assert gone.is_set()
    assert writer.stopped


async def test_no_message_is_logged(asked: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="heliograph"):
        await chat(asked)
        await chat(asked, OLLAMA)
    lines = "\n".join(record.getMessage() for record in caplog.records)
    assert "route=/chat/completions" in lines
    assert "workspace=default" in lines
    assert "amber" not in lines.lower()
    assert "Johanna" not in lines


# --- on the wire ---------------------------------------------------------------------------------


async def nothing() -> Any:
    for event in ():
        yield event


def test_no_character_of_an_answer_can_end_its_line() -> None:
    text = "a\nb\r\u2028\u2029\x85c"
    event = Event("line", {"text": text})
    for stream in (ChunkStream(nothing()), LineStream(nothing(), "heliograph")):
        [line] = stream.encode(event, 1).decode().splitlines()[:1]
        assert json.loads(line.removeprefix("data: ")) == {"text": text}
    assert ChunkStream(nothing()).encode(event, 1).endswith(b"}\n\n")


def test_silence_is_filled_with_what_clients_pass_over() -> None:
    assert ChunkStream(nothing()).still_here.startswith(b":")
    still_here = json.loads(LineStream(nothing(), "heliograph").still_here)
    assert still_here["message"] == {"role": "assistant", "content": ""}
    assert not still_here["done"]


def test_open_webui_finds_the_source_behind_each_mark() -> None:
    """It takes `[n]` for the n-th source, and sources of the same id for one."""
    sources = tuple(
        Source(n, Chunk(f"c{n}", "d", n, 0, 9, f"text {n}", 2, page=n), "d.pdf", "", 1.0)
        for n in (1, 2, 3)
    )
    cited = [Citation(2, "d", "d.pdf", "c2", 2, 0, 1, quote, 1.0) for quote in ("one", "two")]
    answered = Answered(
        "x [2]", Mode.MIX, "m", tuple(cited), Context(sources=sources), {}, Usage(), {}
    )
    shown = sources_for_open_webui(answered)
    assert [one["document"] for one in shown] == [["text 1"], ["one", "two"]]
    assert [one["source"]["name"] for one in shown] == ["d.pdf, page 1", "d.pdf, page 2"]
    assert [{meta["source"] for meta in one["metadata"]} for one in shown] == [{"c1"}, {"c2"}]
    assert all(len(one["metadata"]) == len(one["document"]) for one in shown)
    assert sources_for_open_webui(replace(answered, citations=())) == []
