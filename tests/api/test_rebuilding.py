"""Graph and vectors made anew, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.domain import Kind, Scope
from app.errors import Conflict
from app.upkeep.reindexing import Reindexing
from tests.api.conftest import Site, assert_problem
from tests.model_server import running

AMBER = "Amber is a fossil resin. Amber is found at the Baltic Sea by Johanna Weber."


async def reindexed(site: Site) -> Any:
    while True:
        seen = (await site.client.get("/admin/reindex")).json()
        if seen["state"] != "running":
            return seen
        await asyncio.sleep(0.02)


async def test_a_rebuild_is_a_job_that_can_be_followed(site: Site) -> None:
    await site.add(AMBER, id="a")
    shown = "/admin/workspaces/default/fingerprint"
    before = (await site.client.get(shown)).json()
    reply = await site.client.post("/admin/workspaces/default/rebuild")
    assert reply.status_code == 202
    job = reply.json()
    assert (job["state"], bool(job["document_id"])) == ("queued", False)
    await site.work()
    assert (await site.client.get(f"/jobs/{job['id']}")).json()["state"] == "done"
    assert (await site.client.get(shown)).json() == before
    headers = await site.key(Scope.ADMIN, "mine")
    reply = await site.client.post("/admin/workspaces/default/rebuild", headers=headers)
    assert_problem(reply, 403, "workspace_forbidden")


async def test_vectors_of_the_same_model_are_made_anew(site: Site) -> None:
    await site.add(AMBER, id="a")
    assert (await site.client.get("/admin/reindex")).json()["state"] == "none"
    store = site.services.workspace("default").vectors
    counts = [await store.count(kind) for kind in Kind]
    reply = await site.client.post("/admin/reindex")
    assert reply.status_code == 202
    assert reply.json()["state"] == "running"
    done = await reindexed(site)
    assert (done["state"], done["detail"]) == ("done", "")
    assert done["embedded"] == done["texts"] == sum(counts)
    assert [await store.count(kind) for kind in Kind] == counts
    assert (await site.client.delete("/admin/reindex")).json() == {"deleted": []}


async def test_vectors_of_another_model_say_what_comes_next(site: Site) -> None:
    await site.add(AMBER, id="a")
    async with running() as model:
        body = {"embed_url": f"openai+http://{model.host}/v1", "embed_model": "another"}
        assert (await site.client.post("/admin/reindex", json=body)).status_code == 202
        done = await reindexed(site)
    assert (done["state"], done["model"]) == ("done", "another")
    assert "Start all processes with the settings of this model" in done["detail"]
    await site.client.post("/admin/reindex")
    ended = await reindexed(site)
    assert (ended["state"], "another embedding model" in ended["detail"]) == ("ended", True)
    found = (await site.client.post("/query/context", json={"query": "amber"})).json()
    assert "Amber" in str(found)


async def test_the_key_of_the_service_goes_to_its_own_url_only(site: Site) -> None:
    async with running() as model:
        model.script(key="theirs")
        body = {"embed_url": f"openai+http://{model.host}/v1", "embed_model": "another"}
        reply = await site.client.post("/admin/reindex", json=body)
        assert reply.status_code >= 400
        reply = await site.client.post("/admin/reindex", json={**body, "embed_key": "theirs"})
        assert reply.status_code == 202
        assert (await reindexed(site))["state"] == "done"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"embed_url": "gopher://x"}, 400),
        ({"embed_url": "openai+http://[::1", "embed_model": "m"}, 400),
        ({"embed_url": "openai+http://127.0.0.1:x", "embed_model": "m"}, 400),
        ({"embed_dimension": 3}, 422),
        ({"model": "x"}, 422),
        ([1], 422),
    ],
)
async def test_what_cannot_be_is_refused(site: Site, body: object, status: int) -> None:
    reply = await site.client.post("/admin/reindex", json=body)
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"].startswith("application/problem+json")


# --- commands ------------------------------------------------------------------------------------


async def test_one_that_is_stopped_before_it_began_is_answered(site: Site) -> None:
    reindexing, embedder = Reindexing(), site.services.models.embedder
    starting = asyncio.create_task(reindexing.start(site.services, nullcontext(embedder)))
    await asyncio.sleep(0)  # its task is made, and has not run
    await reindexing.stop()
    with pytest.raises(Conflict):
        await starting


def test_commands_make_both_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("HELIOGRAPH_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["rebuild", "default"])
    assert (done.exit_code, done.stdout) == (0, "default is rebuilt.\n"), done.output
    refused = CliRunner().invoke(cli, ["rebuild", "no/slashes"])
    assert (refused.exit_code, "cannot be a workspace" in refused.output) == (1, True)
    done = CliRunner().invoke(cli, ["reindex"])
    assert done.exit_code == 0, done.output
    assert "0 were embedded" in done.stdout
    assert CliRunner().invoke(cli, ["reindex", "--discard"]).exit_code == 0
