"""Documents over HTTP: in, followed, read, replaced, retried, cancelled, deleted."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.api.uploads import content_disposition, file_name
from app.domain import FIRST_STAGE, Failure, Job, Plan, State
from tests.api.conftest import BASE, Site, assert_problem

TWENTY = b"0123456789\n....ABCDE"
TEXT = "Amber is a fossil resin. Amber is found at the Baltic Sea by Johanna Weber."


async def post(site: Site, **request: Any) -> list[dict[str, Any]]:
    reply = await site.client.post("/documents", **request)
    assert reply.status_code == 202, reply.text
    documents: list[dict[str, Any]] = reply.json()["documents"]
    return documents


async def shown(site: Site, document_id: str) -> dict[str, Any]:
    reply = await site.client.get(f"/documents/{document_id}")
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def test_a_text_becomes_a_ready_document(site: Site) -> None:
    [accepted] = await post(
        site, json={"text": TEXT, "name": "amber.txt", "metadata": {"year": 1843, "tags": ["a"]}}
    )
    assert accepted["status"] == "queued"
    job_id = accepted["job_id"]
    assert [ticket.step_id for ticket in site.queue.sent] == [
        f"{job_id}.{FIRST_STAGE[Plan.INGEST]}.0"
    ]
    before = await shown(site, accepted["id"])
    assert (before["version"], before["chunks"], before["job_id"]) == (0, 0, job_id)
    await site.work()
    after = await shown(site, accepted["id"])
    assert after["status"] == "ready"
    assert after["error"] is None
    assert (after["version"], after["chunks"]) == (1, 1)
    assert after["media_type"] == "text/plain"
    assert after["size"] == len(TEXT)
    assert after["metadata"] == {"year": 1843, "tags": ["a"]}
    assert after["date"] == after["created_at"][:10]
    job = (await site.client.get(f"/jobs/{job_id}")).json()
    assert (job["state"], job["kind"], job["document_id"]) == ("done", "ingest", accepted["id"])


async def test_chunks_are_slices_of_the_text(site: Site) -> None:
    text = "\n\n".join(f"# Part {n}\nAmber {n} 🌞 lies at the Baltic Sea. " * 40 for n in range(40))
    document = await site.add(text, name="parts.md")
    reply = await site.client.get(f"/documents/{document['id']}/text")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    parsed = reply.text
    chunks: list[dict[str, Any]] = []
    cursor = None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = await site.client.get(f"/documents/{document['id']}/chunks", params=params)
        chunks += page.json()["chunks"]
        cursor = page.json()["next"]
        if cursor is None:
            break
    assert len(chunks) > 5
    assert [chunk["position"] for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert parsed[chunk["start"] : chunk["end"]] == chunk["text"]
        assert chunk["entities"]


async def test_several_files_are_taken_with_ids_metadata_and_date(site: Site) -> None:
    files = [("files", ("a.txt", b"Amber is resin.")), ("files", ("b.md", b"# Basalt\nA rock."))]
    fields = {"id": ["one", "docs/two.md"], "metadata": '{"author": "me"}', "date": "2020-05-01"}
    accepted = await post(site, files=files, data=fields)
    assert [(one["id"], one["name"]) for one in accepted] == [
        ("one", "a.txt"),
        ("docs/two.md", "b.md"),
    ]
    two = await shown(site, "docs%2Ftwo.md")
    assert (two["id"], two["media_type"]) == ("docs/two.md", "text/markdown")
    assert (two["metadata"], two["date"]) == ({"author": "me"}, "2020-05-01")


@pytest.mark.parametrize("own_id", ["docs/a.md", "a b", "ünï/🌞", "a%2Fb", "a?b#c", "x" * 128])
async def test_an_id_may_hold_what_paths_cannot(site: Site, own_id: str) -> None:
    from urllib.parse import quote

    await post(site, json={"text": TEXT, "id": own_id})
    path = f"/documents/{quote(own_id, safe='')}"
    assert (await site.client.get(path)).json()["id"] == own_id
    assert (await site.client.get("/v1" + path)).json()["id"] == own_id
    reply = await site.client.get(f"{path}/original")
    assert reply.text == TEXT


async def test_the_same_bytes_are_one_document_and_one_job(site: Site) -> None:
    [first] = await post(site, json={"text": TEXT, "name": "a.txt"})
    [again] = await post(site, json={"text": TEXT, "name": "a.txt"})
    assert again == first
    [as_file] = await post(site, files=[("files", ("a.txt", TEXT.encode()))])
    assert as_file == first
    await site.work()
    [later] = await post(site, json={"text": TEXT, "name": "a.txt"})
    assert (later["job_id"], later["status"]) == (first["job_id"], "ready")
    assert not site.queue.sent
    assert (await site.client.get("/documents/counts")).json()["ready"] == 1


async def test_equal_texts_in_one_request_are_one_document(site: Site) -> None:
    texts = [{"text": TEXT, "name": name} for name in ("a.txt", "b.txt")]
    accepted = await post(site, json={"documents": texts})
    assert len(accepted) == 1


async def test_new_content_under_the_same_id_replaces_when_it_is_ready(site: Site) -> None:
    await site.add(TEXT, id="stone")
    [accepted] = await post(site, json={"text": "Basalt is a volcanic rock.", "id": "stone"})
    waiting = await shown(site, "stone")
    assert (waiting["version"], waiting["replacing"]) == (1, True)
    assert (await site.client.get("/documents/stone/text")).text.strip() == TEXT
    await site.work()
    ready = await shown(site, "stone")
    assert (ready["version"], ready["replacing"]) == (2, False)
    assert ready["job_id"] == accepted["job_id"]
    assert "Basalt" in (await site.client.get("/documents/stone/text")).text


async def test_a_repeat_with_the_same_idempotency_key_does_nothing_anew(site: Site) -> None:
    headers = {"Idempotency-Key": "order-1"}
    body = {"text": TEXT, "id": "stone"}
    [first] = await post(site, json=body, headers=headers)
    await site.work()
    await site.add("Basalt is a volcanic rock.", id="stone")
    [repeat] = await post(site, json=body, headers=headers)
    assert repeat["job_id"] == first["job_id"]
    assert "Basalt" in (await site.client.get("/documents/stone/text")).text
    assert not site.queue.sent
    [other] = await post(site, json=body, headers={"Idempotency-Key": "order-2"})
    assert other["job_id"] != first["job_id"]


async def test_a_repeat_of_what_was_deleted_since_is_a_new_upload(site: Site) -> None:
    headers, body = {"Idempotency-Key": "order-1"}, {"text": TEXT, "id": "stone"}
    [first] = await post(site, json=body, headers=headers)
    await site.work()
    await site.client.delete("/documents/stone")
    await site.work()
    [again] = await post(site, json=body, headers=headers)
    assert again["job_id"] != first["job_id"]
    await site.work()
    assert (await shown(site, "stone"))["status"] == "ready"


async def test_repeats_at_the_same_moment_as_other_uploads_are_one_job(site: Site) -> None:
    headers, body = {"Idempotency-Key": "order-1"}, {"text": TEXT, "id": "stone"}
    uploads = [
        post(site, json=body, headers=headers)
        if n % 2
        else post(site, json={"text": f"Basalt number {n} is a volcanic rock.", "id": "stone"})
        for n in range(12)
    ]
    accepted = [one["job_id"] for [one] in await asyncio.gather(*uploads)]
    assert len(set(accepted[1::2])) == 1
    assert len(set(accepted)) == 7


def stored(site: Site) -> list[str]:
    folder = site.settings.data_dir / "blobs"
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


async def test_an_upload_that_another_overtakes_leaves_no_bytes(site: Site) -> None:
    for n in range(4):
        await post(site, json={"text": f"Basalt number {n} is a rock.", "id": "stone"})
    assert stored(site) == [hashlib.sha256(b"Basalt number 3 is a rock.").hexdigest()]
    await site.work()
    await post(site, json={"text": "Never read.", "id": "stone"})
    await post(site, json={"text": TEXT, "id": "stone"})
    await site.work()
    await site.client.delete("/documents/stone")
    await site.work()
    assert stored(site) == []


async def test_bytes_that_others_share_survive_being_overtaken(site: Site) -> None:
    await post(site, json={"text": TEXT, "id": "one"})
    await post(site, json={"text": TEXT, "id": "two"})
    await post(site, json={"text": "Basalt is a volcanic rock.", "id": "two"})
    await site.work()
    assert (await site.client.get("/documents/one/original")).text == TEXT


async def test_without_a_queue_the_document_is_still_taken(site: Site) -> None:
    site.queue.away = True
    [accepted] = await post(site, json={"text": TEXT})
    site.queue.away = False
    assert (await shown(site, accepted["id"]))["status"] == "queued"
    assert not site.queue.sent


# --- lists ---------------------------------------------------------------------------------------


async def test_lists_go_page_by_page_and_filter(site: Site) -> None:
    texts = [
        {"text": f"Stone number {n}.", "id": f"s{n}", "metadata": {"n": n, "even": n % 2 == 0}}
        for n in range(7)
    ]
    await post(site, json={"documents": texts})

    async def ids(**params: Any) -> list[str]:
        found: list[str] = []
        while True:
            body = (await site.client.get("/documents", params={"limit": 2, **params})).json()
            found += [one["id"] for one in body["documents"]]
            if body["next"] is None:
                return found
            params["cursor"] = body["next"]

    assert await ids() == [f"s{n}" for n in range(7)]
    assert await ids(status="ready") == []
    assert await ids(status="queued") == [f"s{n}" for n in range(7)]
    assert await ids(filters='{"even": true}') == ["s0", "s2", "s4", "s6"]
    assert await ids(filters='{"n": {"gte": 2, "lt": 4}}') == ["s2", "s3"]
    assert await ids(filters='{"document_id": ["s1", "s5"]}') == ["s1", "s5"]
    counts = (await site.client.get("/documents/counts")).json()
    assert counts["queued"] == 7
    assert sum(counts.values()) == 7


async def test_jobs_are_listed_newest_first(site: Site) -> None:
    for n in range(3):
        await post(site, json={"text": f"Stone number {n}.", "id": f"s{n}"})
    first = (await site.client.get("/jobs", params={"limit": 2})).json()
    rest = (await site.client.get("/jobs", params={"cursor": first["next"]})).json()
    listed = [job["document_id"] for job in first["jobs"] + rest["jobs"]]
    assert sorted(listed) == ["s0", "s1", "s2"]
    assert rest["next"] is None
    only = (await site.client.get("/jobs", params={"document_id": "s1"})).json()["jobs"]
    assert [job["document_id"] for job in only] == ["s1"]
    done = (await site.client.get("/jobs", params={"state": "done"})).json()["jobs"]
    assert done == []


# --- dates and names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"date": "1843-12-19"}, "1843-12-19"),
        ({"date": "2024-05-31T14:00:00+02:00"}, "2024-05-31T12:00:00Z"),
        ({"date": "2024-05-31T12:00:00"}, "2024-05-31T12:00:00Z"),
        ({"metadata": {"date": "1843-12-19"}}, "1843-12-19"),
        ({"date": "2000-01-01", "metadata": {"date": "1843-12-19"}}, "2000-01-01"),
    ],
)
async def test_a_date_is_kept_in_its_usual_form(
    site: Site, given: dict[str, Any], kept: str
) -> None:
    await post(site, json={"text": TEXT, "id": "amber", **given})
    assert (await shown(site, "amber"))["date"] == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("amber.txt", "amber.txt"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\Users\\me\\amber.txt", "amber.txt"),
        ("琥珀 🌞 — ämber.txt", "琥珀 🌞 — ämber.txt"),
        ("a\x00b\u2028c\r\n.txt", "abc.txt"),
        ("x" * 5000 + ".txt", "x" * 1020 + ".txt"),
        ("..", ".."),
        ("/", ""),
    ],
)
def test_a_file_name_is_its_last_part_without_control_characters(given: str, kept: str) -> None:
    assert file_name(given) == kept


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a.txt", "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"),
        (
            'a"b;c%.txt',
            "attachment; filename=\"a_b_c_.txt\"; filename*=UTF-8''a%22b%3Bc%25.txt",
        ),
        ("é/ü.txt", "attachment; filename=\"_.txt\"; filename*=UTF-8''%C3%BC.txt"),
        ("", "attachment; filename=\"document\"; filename*=UTF-8''document"),
    ],
)
def test_a_download_is_named_safely(name: str, header: str) -> None:
    assert content_disposition(name) == header


def test_a_long_name_is_cut_for_download_between_characters() -> None:
    from urllib.parse import unquote

    header = content_disposition("琥" * 400 + ".txt")
    shown = unquote(header.partition("UTF-8''")[2])
    assert len(shown.encode()) <= 255
    assert shown.startswith("琥琥")
    assert shown.endswith("琥.txt")


async def test_the_original_comes_back_as_it_went_in_and_inert(site: Site) -> None:
    data = "<html><script>alert(1)</script>Ämber</html>".encode("latin-1")
    [accepted] = await post(site, files=[("files", ('b"ö.html', data))])
    reply = await site.client.get(f"/documents/{accepted['id']}/original")
    assert reply.content == data
    assert reply.headers["content-type"].startswith("text/html")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in reply.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("wanted", "part", "told"),
    [
        ("bytes=0-4", b"01234", "bytes 0-4/20"), ("bytes=15-", b"ABCDE", "bytes 15-19/20"),
        ("bytes=-3", b"CDE", "bytes 17-19/20"), ("BYTES=19-99999", b"E", "bytes 19-19/20"),
        ("bytes=-99", TWENTY, "bytes 0-19/20"), ("", None, None),
        ("bytes=5-2", None, None), ("bytes=a-b", None, None), ("bytes=-", None, None),
        ("bytes=0-1,3-4", None, None), ("lines=1-2", None, None),
    ],
)  # fmt: skip
async def test_a_range_of_an_original_can_be_asked_for(
    site: Site, wanted: str, part: bytes | None, told: str | None
) -> None:
    data = TWENTY
    [accepted] = await post(site, files=[("files", ("a.txt", data))])
    url = f"/documents/{accepted['id']}/original"
    reply = await site.client.get(url, headers={"Range": wanted})
    assert reply.status_code == (200 if told is None else 206)
    assert reply.content == (data if part is None else part)
    assert reply.headers.get("content-range") == told
    assert reply.headers["content-length"] == str(len(reply.content))
    assert reply.headers["accept-ranges"] == "bytes"
    other = await site.client.get(url, headers={"Range": "bytes=0-1", "If-Range": '"old"'})
    assert (other.status_code, other.content) == (200, data)
    same = {"Range": "bytes=0-1", "If-Range": reply.headers["etag"]}
    assert (await site.client.get(url, headers=same)).status_code == 206


async def test_a_range_beyond_the_file_is_said(site: Site) -> None:
    [accepted] = await post(site, json={"text": TEXT})
    await site.work()
    for wanted in ("bytes=99999-", "bytes=-0", f"bytes={10**17}-{10**17}"):
        for what in ("text", "original"):
            url = f"/documents/{accepted['id']}/{what}"
            reply = await site.client.get(url, headers={"Range": wanted})
            assert_problem(reply, 416, "range_not_satisfiable", "bytes")


@pytest.mark.parametrize("what", ["text", "original"])
async def test_long_files_are_sent_without_being_held(site: Site, what: str) -> None:
    """Several at a time, which together would not fit."""
    await site.add(TEXT, id="long")
    workspace = site.services.workspace("default")
    with tempfile.TemporaryFile() as file:
        for _ in range(64):
            file.write(bytes(2**20))
        key = await workspace.blobs.put_file(file)

    class Long:
        def __getattr__(self, name: str) -> Any:
            return getattr(workspace.documents, name)

        async def get(self, document_id: str) -> Any:
            document = await workspace.documents.get(document_id)
            assert document.live
            return replace(document, live=replace(document.live, source=key, text=key))

    spaces: Any = lambda name: replace(workspace, documents=Long())  # noqa: E731
    deployed = site.app.state.deployment
    services = replace(deployed.services, workspace=spaces)
    site.app.state.deployment = replace(deployed, services=services)
    url, seen = f"{BASE}/documents/long/{what}", 0

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: Any) -> None:
        nonlocal seen
        seen += len(message.get("body", b""))

    scope = {
        "type": "http", "method": "GET", "path": httpx.URL(url).path, "headers": [],
        "query_string": b"", "http_version": "1.1", "scheme": "http", "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080), "root_path": "", "state": {}, "asgi": {"version": "3.0"},
        "raw_path": httpx.URL(url).raw_path,
    }  # fmt: skip
    scope["headers"] = [(b"host", b"127.0.0.1:8080")]
    tracemalloc.start()
    try:
        await asyncio.gather(*(site.app(dict(scope), receive, send) for _ in range(3)))
        assert seen == 3 * 64 * 2**20
        assert tracemalloc.get_traced_memory()[1] < 24 * 2**20
    finally:
        tracemalloc.stop()


async def test_text_that_was_not_parsed_yet_is_a_conflict(site: Site) -> None:
    [accepted] = await post(site, json={"text": TEXT})
    reply = await site.client.get(f"/documents/{accepted['id']}/text")
    assert_problem(reply, 409, "not_parsed")


# --- cancel, retry, delete -----------------------------------------------------------------------


async def test_a_cancelled_document_can_be_tried_again(site: Site) -> None:
    [accepted] = await post(site, json={"text": TEXT, "id": "amber"})
    reply = await site.client.post("/documents/amber/cancel")
    assert reply.status_code == 200
    body = reply.json()
    assert body["status"] == "failed"
    assert (body["error"]["code"], body["error"]["retryable"]) == ("cancelled", True)
    await site.work()
    assert (await shown(site, "amber"))["version"] == 0
    assert_problem(await site.client.post("/documents/amber/cancel"), 409, "job_ended")
    reply = await site.client.post("/documents/amber/retry")
    assert reply.status_code == 202
    assert reply.json()["job_id"] != accepted["job_id"]
    await site.work()
    assert (await shown(site, "amber"))["status"] == "ready"
    assert_problem(await site.client.post("/documents/amber/retry"), 409, "not_failed", "ready")


async def test_a_job_can_be_cancelled_by_its_id(site: Site) -> None:
    [accepted] = await post(site, json={"text": TEXT})
    reply = await site.client.post(f"/jobs/{accepted['job_id']}/cancel")
    assert (reply.status_code, reply.json()["state"]) == (200, "cancelled")
    reply = await site.client.post(f"/jobs/{accepted['job_id']}/cancel")
    assert_problem(reply, 409, "job_ended")


async def test_a_failure_is_shown_and_retried(site: Site) -> None:
    [accepted] = await post(site, json={"text": TEXT, "id": "amber"})
    failure = Failure("scanned", "The pages hold no text.", "parse", retryable=False)
    await site.services.journal.close("default", accepted["job_id"], State.FAILED, failure)
    body = await shown(site, "amber")
    assert body["status"] == "failed"
    assert body["error"] == {
        "code": "scanned", "message": "The pages hold no text.", "stage": "parse",
        "retryable": False,
    }  # fmt: skip
    assert (await site.client.post("/documents/amber/retry")).status_code == 202


async def test_a_deleted_document_is_gone_when_its_job_is_done(site: Site) -> None:
    await site.add(TEXT, id="amber")
    reply = await site.client.delete("/documents/amber")
    assert reply.status_code == 202
    job_id = reply.json()["job_id"]
    assert (await shown(site, "amber"))["status"] == "deleting"
    again = await site.client.delete("/documents/amber")
    assert again.json()["job_id"] == job_id
    await site.work()
    assert_problem(await site.client.get("/documents/amber"), 404, "not_found")
    job = (await site.client.get(f"/jobs/{job_id}")).json()
    assert (job["state"], job["kind"]) == ("done", "delete")
    assert (await site.client.get("/graph/stats")).json()["entities"] == 0


async def test_several_are_deleted_and_missing_ones_are_named(site: Site) -> None:
    await post(site, json={"documents": [{"text": f"Stone {n}.", "id": f"s{n}"} for n in (1, 2)]})
    reply = await site.client.post("/documents/delete", json={"ids": ["s1", "nope", "s2"]})
    assert reply.status_code == 202
    entries = reply.json()["documents"]
    assert [(one["id"], one["error"]) for one in entries] == [
        ("s1", None),
        ("nope", "not_found"),
        ("s2", None),
    ]
    await site.work()
    assert (await site.client.get("/documents")).json()["documents"] == []


# --- estimates -----------------------------------------------------------------------------------


async def test_an_estimate_stores_nothing_and_counts(site_of: Callable[..., Site]) -> None:
    site = site_of(
        llm_url="openai+http://127.0.0.1:1/v1",
        llm_model="m",
        llm_prompt_price=1.0,
        llm_completion_price=2.0,
    )
    text = "Amber is a fossil resin. " * 2000
    reply = await site.client.post("/documents/estimate", json={"text": text, "name": "a.txt"})
    assert reply.status_code == 200, reply.text
    body = reply.json()
    tokens = site.services.models.tokenizer.count(text)
    [entry] = body["documents"]
    assert (entry["tokens"], entry["basis"]) == (tokens, "text")
    assert 0 <= entry["chunks"] - tokens / 1100 <= 1
    assert body["llm_calls"] == body["chunks"]
    assert body["prompt_tokens"] > tokens
    expected = (body["prompt_tokens"] + 2 * body["completion_tokens"]) / 1e6
    assert body["cost"] == pytest.approx(expected, abs=1e-6)
    assert sum((await site.client.get("/documents/counts")).json().values()) == 0


async def test_without_a_model_an_estimate_has_no_calls(site: Site) -> None:
    body = (await site.client.post("/documents/estimate", json={"text": TEXT})).json()
    assert (body["llm_calls"], body["prompt_tokens"], body["cost"]) == (0, 0, 0)
    assert body["chunks"] == 1


# --- through the journal -------------------------------------------------------------------------


async def test_a_store_that_fails_in_the_middle_still_starts_what_it_took(
    site: Site,
) -> None:
    from app.errors import Unavailable

    deployed = site.app.state.deployment
    workspace_of = deployed.services.workspace

    class Blobs:
        def __init__(self, inner: Any) -> None:
            self.inner, self.left = inner, 8

        async def put(self, data: bytes) -> str:
            self.left -= 1
            if self.left < 0:
                raise Unavailable("The blob store does not answer.")
            key: str = await self.inner.put(data)
            return key

        async def has(self, key: str) -> bool:
            there: bool = await self.inner.has(key)
            return there

    space = workspace_of("default")
    broken = replace(space, blobs=Blobs(space.blobs))
    services = replace(deployed.services, workspace=lambda name: broken)
    site.app.state.deployment = replace(deployed, services=services)
    texts = [{"text": f"Stone number {n}.", "id": f"s{n:02}"} for n in range(12)]
    reply = await site.client.post("/documents", json={"documents": texts})
    assert_problem(reply, 503, "unavailable", "blob store")
    assert reply.headers["retry-after"]
    site.app.state.deployment = deployed
    assert len(site.queue.sent) == 8
    accepted = await post(site, json={"documents": texts})
    assert len(accepted) == 12
    assert len(site.queue.sent) == 12


async def test_every_source_is_the_hash_of_its_bytes(site: Site) -> None:
    [accepted] = await post(site, json={"text": TEXT})
    document = await site.services.workspace("default").documents.get(accepted["id"])
    assert document.revision.source == hashlib.sha256(TEXT.encode()).hexdigest()
    job: Job = document.job
    assert (job.plan, job.workspace, len(job.id)) == (Plan.INGEST, "default", 32)
