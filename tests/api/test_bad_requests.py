"""Wrong input of each kind gets a problem that names the fault; nothing is stored or logged as a
bug."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.ports import Services
from tests.api.conftest import Site, assert_problem, embedded

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
async def services(
    tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> AsyncIterator[Services]:
    """One for all tests of this file: what they ask for leaves no trace."""
    async with embedded(tmp_path_factory.mktemp("site"), valkey_url) as opened:
        yield opened


@pytest.fixture(autouse=True)
async def _nothing_is_stored_or_a_bug(
    site: Site, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[None]:
    with caplog.at_level(logging.INFO, logger="heliograph"):
        yield
    counts = (await site.client.get("/documents/counts")).json()
    assert sum(counts.values()) == 0
    assert not site.queue.sent
    assert [record for record in caplog.records if record.exc_info] == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "body.query", "required"),
        ({"query": ""}, "body.query", "at least 1 character"),
        ({"query": " \n\t\u3000"}, "body.query", "at least 1 character"),
        ({"query": 5}, "body.query", "string"),
        ({"query": "x" * 8001}, "body.query", "8000"),
        ({"query": "\ud800"}, "body.query", "unicode"),
        ({"query": "x", "mode": "telepathy"}, "body.mode", "'mix'"),
        ({"query": "x", "top_k": -1}, "body.top_k", "greater than or equal to 1"),
        ({"query": "x", "top_k": 0}, "body.top_k", "greater than or equal to 1"),
        ({"query": "x", "top_k": 10**12}, "body.top_k", "200"),
        ({"query": "x", "top_k": "many"}, "body.top_k", "integer"),
        ({"query": "x", "chunk_top_k": 201}, "body.chunk_top_k", "200"),
        ({"query": "x", "budget": {"total": -5}}, "body.budget.total", "greater"),
        ({"query": "x", "topk": 5}, "body.topk", "not permitted"),
        ({"query": "x", "keywords": {"low": [""]}}, "body.keywords.low.0", "at least 1"),
        ({"query": "x", "keyword_source": "dice"}, "body.keyword_source", "'query'"),
        ({"query": "x", "mix_style": "dry"}, "body.mix_style", "'walk'"),
        (
            {"query": "x", "conversation": [{"role": "system", "content": "obey"}]},
            "body.conversation.0.role",
            "'user'",
        ),
        ({"query": "x", "filters": {"a": {"b": 1}}}, "body.filters", "a: a range"),
        ({"query": "x", "filters": {"a": {}}}, "body.filters", "a: a range"),
        ({"query": "x", "filters": {"a": []}}, "body.filters", "a: a list"),
        ({"query": "x", "filters": {"a": [[1]]}}, "body.filters", "a: a string"),
        ({"query": "x", "filters": {"a": None}}, "body.filters", "a: a string"),
        ({"query": "x", "filters": {"a": 10**30}}, "body.filters", "64 bits"),
        ({"query": "x", "filters": {"a": float("nan")}}, "body.filters", "a: a string"),
        ({"query": "x", "filters": {"\ud800": 1}}, "body.filters", ""),
        ([], "body", "dictionary"),
        ("x", "body", "dictionary"),
    ],
)
async def test_a_question_with_a_wrong_field(
    site: Site, body: object, field: str, words: str
) -> None:
    for path in ("/query", "/query/context", "/v1/query"):
        reply = await site.client.post(path, content=json.dumps(body), headers=JSON)
        problem = assert_problem(reply, 422, "validation", field)
        assert problem["errors"][0]["field"].startswith(field)
        assert words in problem["errors"][0]["message"]


@pytest.mark.parametrize("path", ["/query", "/documents", "/documents/estimate", "/admin/keys"])
@pytest.mark.parametrize(
    "content", [b"{bad", b"", b'{"query": "x"', b"\xff\xfe\x00", b'{"a": "\\x"}', b"[" * 100_000]
)
async def test_a_body_that_is_not_json(site: Site, path: str, content: bytes) -> None:
    reply = await site.client.post(path, content=content, headers=JSON)
    assert reply.status_code in (400, 422), reply.text
    assert reply.json()["code"] in ("malformed_json", "malformed_body", "validation")
    assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "content",
    [b'{"query": "\xff"}', b"[" * 100_000, b'{"query": "x", "top_k": ' + b"9" * 5000 + b"}"],
)
async def test_a_body_beyond_json_names_json(site: Site, content: bytes) -> None:
    for path in ("/query", "/documents/delete"):
        reply = await site.client.post(path, content=content, headers=JSON)
        assert_problem(reply, 400, "malformed_body", "JSON")


@pytest.mark.parametrize("path", ["/query", "/query/context", "/documents/delete", "/admin/keys"])
async def test_a_body_of_another_content_type(site: Site, path: str) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/xml"):
        reply = await site.client.post(path, content=b"query=x", headers={"Content-Type": kind})
        assert_problem(reply, 415, "unsupported_content_type", kind)
    assert_problem(await site.client.post(path), 415, "unsupported_content_type")


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        ({"text": ""}, 422, "validation", "body.text"),
        ({"text": " \n "}, 400, "empty", "blank"),
        ({"text": 5}, 422, "validation", "body.text"),
        ({"name": "a.txt"}, 422, "validation", "body.text"),
        ({"text": "a", "colour": "red"}, 422, "validation", "body.colour"),
        ({"documents": []}, 422, "validation", "body.documents"),
        ({"documents": [{"text": "a"}, {"text": " "}]}, 400, "empty", "body.documents.1"),
        ({"documents": [{"text": "a"}, {}]}, 422, "validation", "body.documents.1.text"),
        (
            {"documents": [{"text": "a", "id": "q"}, {"text": "b", "id": "q"}]},
            400, "same_id", "q",
        ),
        ({"text": "a", "id": ""}, 422, "validation", "body.id"),
        ({"text": "a", "id": " a"}, 422, "validation", "blanks"),
        ({"text": "a", "id": "a\u0000b"}, 422, "validation", "control"),
        ({"text": "a", "id": "x" * 129}, 422, "validation", "128"),
        ({"text": "a", "id": "counts"}, 422, "validation", "reserved"),
        ({"text": "a", "id": ".."}, 422, "validation", "reserved"),
        ({"text": "a", "name": "n" * 1025}, 422, "validation", "body.name"),
        ({"text": "a", "date": "yesterday"}, 422, "validation", "2024-05-31"),
        ({"text": "a", "date": "2024-02-30"}, 422, "validation", "body.date"),
        ({"text": "a", "metadata": {"date": "soon"}}, 422, "validation", "body.metadata.date"),
        ({"text": "a", "metadata": {"date": 1843}}, 422, "validation", "body.metadata.date"),
        ({"text": "a", "metadata": {"a": {"b": 1}}}, 422, "validation", "nothing nested"),
        ({"text": "a", "metadata": {"a": None}}, 422, "validation", "body.metadata"),
        ({"text": "a", "metadata": {"a": ["x" * 2000]}}, 422, "validation", "1024"),
        ({"text": "a", "metadata": {"": 1}}, 422, "validation", "field name"),
        ({"text": "a", "metadata": {"name": "b"}}, 422, "validation", "name of its own"),
        ({"text": "a", "metadata": {str(n): n for n in range(65)}}, 422, "validation", "64"),
        ([], 422, "validation", "body"),
    ],
)  # fmt: skip
async def test_a_text_with_a_fault(
    site: Site, body: Any, status: int, code: str, words: str
) -> None:
    for path in ("/documents", "/documents/estimate"):
        reply = await site.client.post(path, json=body)
        assert_problem(reply, status, code, words)


Files = list[tuple[str, tuple[str, bytes]]]


@pytest.mark.parametrize(
    ("files", "fields", "status", "code", "words"),
    [
        ([("files", ("a.txt", b""))], {}, 400, "empty", "a.txt"),
        ([("files", ("a.png", PNG))], {}, 415, "unsupported_type", "a.png"),
        ([("files", ("a.txt", PNG))], {}, 415, "unsupported_type", "a.txt"),
        ([("files", ("a.bin", bytes(range(256))))], {}, 415, "unsupported_type", "a.bin"),
        ([("files", ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"))], {}, 415,
         "unsupported_type", "old.doc"),
        ([("files", ("a.txt", b"x")), ("files", ("b.png", PNG))], {}, 415, "unsupported_type",
         "b.png"),
        ([("file", ("a.txt", b"x"))], {}, 400, "unknown_field", "files"),
        ([("files", ("a.txt", b"x"))], {"colour": "red"}, 400, "unknown_field", "colour"),
        ([("files", ("a.txt", b"x"))], {"metadata": "{"}, 422, "validation", "body.metadata"),
        ([("files", ("a.txt", b"x"))], {"metadata": "[]"}, 422, "validation", "body.metadata"),
        ([("files", ("a.txt", b"x"))], {"metadata": '{"a": {}}'}, 422, "validation", "nested"),
        ([("files", ("a.txt", b"x"))], {"date": "soon"}, 422, "validation", "body.date"),
        ([("files", ("a.txt", b"x"))], {"id": " a"}, 422, "validation", "body.id"),
        ([("files", ("a.txt", b"x"))], {"id": ["a", "b"]}, 400, "ids_do_not_match", "2 ids"),
        ([("files", ("a.txt", b"x")), ("files", ("b.txt", b"y"))], {"id": ["a", "a"]}, 400,
         "same_id", "a"),
    ],
)  # fmt: skip
async def test_a_form_with_a_fault(
    site: Site, *, files: Files, fields: dict[str, Any], status: int, code: str, words: str
) -> None:
    for path in ("/documents", "/documents/estimate"):
        reply = await site.client.post(path, files=files, data=fields)
        assert_problem(reply, status, code, words)


async def test_a_form_without_a_file(site: Site) -> None:
    reply = await site.client.post("/documents", files={"date": (None, b"2024-01-01")})
    assert_problem(reply, 400, "no_files", "files")


FIRST = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nabc\r\n'


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (FIRST + FIRST[:-3], "multipart/form-data; boundary=x"),
        (FIRST, "multipart/form-data; boundary=x"),
        (b"zzz", "multipart/form-data"),
        (b"zzz", "multipart/form-data; boundary=x"),
        (b"", "multipart/form-data; boundary=x"),
        (FIRST.replace(b' name="files";', b"") + b"--x--\r\n", "multipart/form-data; boundary=x"),
    ],
)
async def test_a_form_that_breaks_off_or_cannot_be_read(
    site: Site, content: bytes, kind: str
) -> None:
    reply = await site.client.post("/documents", content=content, headers={"Content-Type": kind})
    assert_problem(reply, 400, "malformed_body")


async def test_text_as_a_body_of_its_own(site: Site) -> None:
    reply = await site.client.post(
        "/documents", content=b"Amber.", headers={"Content-Type": "text/plain"}
    )
    assert_problem(reply, 415, "unsupported_content_type", "multipart/form-data", "text/plain")


# --- sizes ---------------------------------------------------------------------------------------


async def test_an_upload_over_the_limit_is_refused(site_of: Callable[..., Site]) -> None:
    site = site_of(max_upload_bytes=2000)
    reply = await site.client.post("/documents", json={"text": "x" * 2001})
    assert_problem(reply, 413, "too_large", "2,000")
    files = [("files", (f"{n}.txt", b"x" * 700)) for n in range(3)]
    assert_problem(await site.client.post("/documents", files=files), 413, "too_large", "2,000")


async def test_a_body_that_says_it_is_too_long_is_not_read(site_of: Callable[..., Site]) -> None:
    site = site_of(max_upload_bytes=2000)
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield bytes(1000)

    headers = {"Content-Length": str(10**9), "Content-Type": "multipart/form-data; boundary=x"}
    reply = await site.client.post("/documents", content=endless(), headers=headers)
    assert_problem(reply, 413, "too_large")
    assert read <= 1


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json"])
async def test_an_endless_body_is_cut_at_the_limit(site_of: Callable[..., Site], kind: str) -> None:
    site = site_of(max_upload_bytes=2000)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield FIRST[:-2]
        while True:
            sent += 65_536
            yield bytes(65_536)

    headers = {"Content-Type": kind}
    reply = await site.client.post("/documents", content=endless(), headers=headers)
    assert_problem(reply, 413, "too_large")
    assert sent < 3 * 2**20


async def test_a_question_is_no_way_around_the_limits(site: Site) -> None:
    reply = await site.client.post("/query", content=b" " * (5 * 2**20), headers=JSON)
    assert_problem(reply, 413, "too_large")


async def test_more_documents_than_allowed(site_of: Callable[..., Site]) -> None:
    site = site_of(max_documents_per_request=2)
    texts = [{"text": f"number {n}"} for n in range(3)]
    reply = await site.client.post("/documents", json={"documents": texts})
    assert_problem(reply, 413, "too_large", "3 documents")
    files = [("files", (f"{n}.txt", b"x")) for n in range(3)]
    reply = await site.client.post("/documents", files=files)
    assert_problem(reply, 400, "malformed_body", "Too many files")


# --- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/documents/nope", "/documents/nope/text", "/documents/nope/chunks",
        "/documents/nope/original", "/documents/nope/events", "/documents/a%2Fb",
        "/documents/%00", "/documents/%F0%9F%8C%9E", "/jobs/nope", "/jobs/nope/events",
        "/graph/entities/nope", "/graph/subgraph?entity=nope",
        "/graph/relation?source=nope&target=nil",
    ],
)  # fmt: skip
async def test_something_that_is_not_there(site: Site, path: str) -> None:
    assert_problem(await site.client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/documents?limit=0", "query.limit"),
        ("/documents?limit=501", "query.limit"),
        ("/documents?status=asleep", "query.status"),
        ("/documents?filters={", "query.filters"),
        ("/documents?filters=[]", "query.filters"),
        ('/documents?filters={"a":{}}', "query.filters"),
        ("/jobs?state=asleep", "query.state"),
        ("/graph/subgraph", "query.entity"),
        ("/graph/subgraph?entity=x&depth=9", "query.depth"),
        ("/graph/subgraph?entity=x&limit=99999", "query.limit"),
        ("/graph/entities?limit=-1", "query.limit"),
    ],
)
async def test_a_wrong_parameter(site: Site, path: str, field: str) -> None:
    assert_problem(await site.client.get(path), 422, "validation", field)


@pytest.mark.parametrize("cursor", ["%00", "zzz!", "a", "4pyT4pyT4pyT"])
async def test_a_made_up_cursor_gives_a_problem_or_an_empty_page(site: Site, cursor: str) -> None:
    for path in ("/documents", "/jobs", "/graph/entities"):
        reply = await site.client.get(f"{path}?cursor={cursor}")
        if reply.status_code != 200:
            assert_problem(reply, 400, "bad_cursor")


async def test_an_unknown_address_or_method(site: Site) -> None:
    assert_problem(await site.client.get("/nope"), 404, "no_such_route", "/docs")
    assert_problem(await site.client.get("/v1"), 404, "no_such_route")
    reply = await site.client.put("/query", json={})
    assert_problem(reply, 405, "method_not_allowed", "PUT")
    assert reply.headers["allow"] == "POST"


# --- what is not the caller's fault --------------------------------------------------------------


async def test_a_bug_is_logged_once_with_the_request_id_and_shows_nothing(
    site_of: Callable[..., Site], site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        async def depth(self) -> int:
            raise ZeroDivisionError("secret detail")

    other = site_of()
    deployed = other.app.state.deployment
    broken = replace(deployed.services, queue=Broken())
    other.app.state.deployment = replace(deployed, services=broken)
    reply = await other.client.get("/metrics", headers={"X-Request-ID": "mine-1"})
    problem = assert_problem(reply, 500, "internal")
    assert problem["request_id"] == "mine-1"
    assert "secret detail" not in reply.text
    bugs = [record for record in caplog.records if record.exc_info]
    assert [record.getMessage() for record in bugs] == ["request.bug method=GET route=/metrics"]
    caplog.clear()


async def test_what_passes_says_when_to_come_back(site: Site) -> None:
    from app.errors import Overloaded, Unavailable

    class Away:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def __call__(self, name: str) -> Any:
            raise self.error

    deployed = site.app.state.deployment
    for error, status, code, seconds in (
        (Unavailable("The graph store does not answer."), 503, "unavailable", "5"),
        (Overloaded("Too many questions.", retry_after=12.2), 429, "overloaded", "13"),
    ):
        away = replace(deployed.services, workspace=Away(error))
        site.app.state.deployment = replace(deployed, services=away)
        reply: httpx.Response = await site.client.get("/documents/counts")
        assert_problem(reply, status, code, error.detail)
        assert reply.headers["retry-after"] == seconds
    site.app.state.deployment = deployed


async def test_validation_does_not_echo_what_was_sent(site: Site) -> None:
    reply = await site.client.post("/query", json={"query": "x", "top_k": "s3cr3t-value"})
    assert "s3cr3t" not in reply.text
