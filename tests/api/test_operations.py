"""Health, counters, the log line of a request, and the pages."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncIterator, Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import Misconfigured
from app.main import create_app
from app.ports import Services
from app.query.anchored.shelf import Shelf
from app.settings import Settings
from app.telemetry import configure_logging, current
from tests.api.conftest import Site, embedded


@pytest.fixture(scope="module")
async def services(
    tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> AsyncIterator[Services]:
    """One for all tests of this file: they leave no trace."""
    async with embedded(tmp_path_factory.mktemp("site"), valkey_url) as opened:
        yield opened


async def test_ready_names_each_dependency_with_its_version(site: Site) -> None:
    reply = await site.client.get("/readyz")
    assert reply.status_code == 200
    body = reply.json()
    assert body["ready"]
    assert {"graph", "vectors", "queue", "blobs"} <= set(body["dependencies"])
    for dependency in body["dependencies"].values():
        assert dependency["ok"]
        assert dependency["version"]
        assert dependency["latency_ms"] >= 0


async def test_weights_that_cannot_be_used_are_noted_and_hinder_nothing(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "hidden-name.npz").write_bytes(b"not weights")
    deployed = site.app.state.deployment
    models = replace(deployed.services.models, scorers=Shelf(tmp_path))
    services = replace(deployed.services, models=models)
    site.app.state.deployment = replace(deployed, services=services)
    reply = await site.client.get("/readyz")
    assert reply.status_code == 200
    [notice] = reply.json()["notices"]
    assert notice.startswith("asr_weights: ")
    assert "hidden-name" not in notice


async def test_one_dependency_away_is_not_ready_but_alive(site: Site) -> None:
    site.queue.away = True
    reply = await site.client.get("/readyz")
    alive = await site.client.get("/healthz")
    metrics = await site.client.get("/metrics")
    site.queue.away = False
    assert reply.status_code == 503
    body = reply.json()
    assert not body["ready"]
    assert body["dependencies"]["queue"]["error"] == "The queue does not answer."
    assert body["dependencies"]["graph"]["ok"]
    assert (alive.status_code, alive.json()["status"]) == (200, "ok")
    assert "heliograph_queue_depth NaN" in metrics.text


async def test_requests_are_counted_by_template_and_status_only(site: Site) -> None:
    headers = {"X-Workspace": "hidden-name"}
    await site.client.get("/documents/secret-id", headers=headers)
    await site.client.get("/v1/documents/secret-id", headers=headers)
    await site.client.get("/nope/secret-path")
    text = (await site.client.get("/metrics")).text
    counted = 'heliograph_http_requests_total{method="GET",route="%s",status="404"} %d.0'
    assert counted % ("/documents/{document_id}", 2) in text
    assert counted % ("unmatched", 1) in text
    for name in ("hidden-name", "secret-id", "secret-path"):
        assert name not in text


async def test_a_request_has_an_id_that_callers_may_choose(site: Site) -> None:
    reply = await site.client.get("/healthz", headers={"X-Request-ID": "my-id.1"})
    assert reply.headers["x-request-id"] == "my-id.1"
    for bad in ("a b", "x" * 65, "a;b", "é".encode()):
        reply = await site.client.get("/healthz", headers={b"X-Request-ID": bad})
        assert len(reply.headers["x-request-id"]) == 32


async def test_the_page_loads_nothing_from_elsewhere(site: Site) -> None:
    start = await site.client.get("/")
    assert start.headers["location"] == "docs"
    page = await site.client.get("/docs")
    assert "://" not in page.text.replace("http://www.w3.org/2000/svg", "")
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        assert f"static/{name}" in page.text
        asset = await site.client.get(f"/static/{name}")
        assert asset.status_code == 200
        assert len(asset.content) > 100_000
    assert 'url: "openapi.json"' in page.text.replace("'", '"')
    assert (await site.client.get("/openapi.json")).json()["openapi"].startswith("3.1")


@pytest.fixture
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before[0], before[1]
    for name in ("heliograph", "uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).disabled = False


@pytest.mark.usefixtures("_logging_restored")
@pytest.mark.parametrize("form", ["text", "json"])
def test_every_log_line_carries_the_request(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    configure_logging("INFO", form)
    token = current.set("request-7")
    try:
        logging.getLogger("heliograph.x").info("thing.done n=%d", 5)
        logging.getLogger("heliograph.x").debug("not shown")
        logging.getLogger("chatty.library").info("not shown either")
    finally:
        current.reset(token)
    [line] = written.getvalue().splitlines()
    if form == "json":
        fields = json.loads(line)
        assert (fields["id"], fields["message"]) == ("request-7", "thing.done n=5")
        assert fields["level"] == "INFO"
    else:
        assert "[request-7] thing.done n=5" in line


async def test_a_refused_start_is_told_in_one_sentence(site: Site) -> None:
    refused = create_app(Settings(_env_file=None, host="0.0.0.0"), site.services)
    told: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "lifespan.startup"}

    async def send(message: MutableMapping[str, object]) -> None:
        told.append(dict(message))

    with pytest.raises(Misconfigured):
        await refused({"type": "lifespan"}, receive, send)
    [message] = told
    assert message["type"] == "lifespan.startup.failed"
    assert str(message["message"]).startswith("Misconfigured: HELIOGRAPH_HOST is 0.0.0.0")
    assert "Traceback" not in str(message["message"])
