"""Care for a workspace over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from app.domain import Kind, Scope
from app.settings import Settings
from app.wiring import embedded_queue, open_services
from tests.api.conftest import Site, assert_problem
from tests.workers.conftest import CountingExtractor, RecordingQueue, Rig

FINGERPRINT = "/admin/workspaces/{}/fingerprint"
AMBER = "Amber is a fossil resin. Amber is found at the Baltic Sea by Johanna Weber."
BASALT = "Basalt is a volcanic rock. Johanna Weber found basalt in Iceland."


# --- fingerprint ---------------------------------------------------------------------------------


async def test_a_fingerprint_shows_what_is_stored_and_not_how_it_came(site: Site) -> None:
    empty = (await site.client.get(FINGERPRINT.format("default"))).json()
    assert empty["workspace"] == "default"
    assert {part["count"] for part in empty["parts"].values()} == {0}
    await site.add(AMBER, id="a")
    one = (await site.client.get(FINGERPRINT.format("default"))).json()
    assert one["parts"]["documents"]["count"] == 1
    assert one["parts"]["points"]["count"] > 1
    await site.add(BASALT, id="b")
    both = (await site.client.get(FINGERPRINT.format("default"))).json()
    assert len({empty["fingerprint"], one["fingerprint"], both["fingerprint"]}) == 3
    await site.client.delete("/documents/b")
    await site.work()
    assert (await site.client.get(FINGERPRINT.format("default"))).json() == one


async def test_a_dump_is_a_stream_of_records(site: Site) -> None:
    await site.add(AMBER, id="a")
    reply = await site.client.get(FINGERPRINT.format("default"), params={"dump": True})
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    records = [json.loads(line) for line in reply.text.splitlines()]
    shown = (await site.client.get(FINGERPRINT.format("default"))).json()["parts"]
    counts = {name: sum(one["part"] == name for one in records) for name in shown}
    assert counts == {name: part["count"] for name, part in shown.items()}
    assert all(one["id"] for one in records)


async def test_a_key_of_one_workspace_sees_no_other_fingerprint(site: Site) -> None:
    headers = await site.key(Scope.ADMIN, "mine")
    assert (await site.client.get(FINGERPRINT.format("mine"), headers=headers)).status_code == 200
    reply = await site.client.get(FINGERPRINT.format("yours"), headers=headers)
    assert_problem(reply, 403, "workspace_forbidden", "yours")
    reply = await site.client.get(FINGERPRINT.format("a b"), headers=headers)
    assert_problem(reply, 422, "validation")


# --- backup and restore --------------------------------------------------------------------------


@pytest.mark.parametrize("gzip", [False, True])
async def test_a_backup_is_restored_under_another_name(site: Site, gzip: bool) -> None:
    await site.add(AMBER, id="a")
    await site.add(BASALT)
    backup = await site.client.get("/admin/workspaces/default/backup", params={"gzip": gzip})
    assert backup.status_code == 200
    assert ".tar" in backup.headers["content-disposition"]
    reply = await site.client.post("/admin/workspaces/copy/restore", content=backup.content)
    assert reply.status_code == 201, reply.text
    assert reply.json() == {
        "workspace": "copy", "documents": 2, "chunks": 2, "queued": 0, "vectors": True,
    }  # fmt: skip
    prints = [
        (await site.client.get(FINGERPRINT.format(name))).json()["fingerprint"]
        for name in ("default", "copy")
    ]
    assert prints[0] == prints[1]
    await site.work()
    asked = await site.client.post(
        "/query", json={"query": "Who found basalt?"}, headers={"X-Workspace": "copy"}
    )
    assert "Johanna Weber" in asked.json()["answer"]
    again = await site.client.post("/admin/workspaces/copy/restore", content=backup.content)
    assert_problem(again, 409, "conflict", "has documents")


async def test_what_is_no_archive_is_refused(site: Site) -> None:
    reply = await site.client.post("/admin/workspaces/copy/restore", content=b"nothing" * 1000)
    assert_problem(reply, 400, "invalid", "archive")


# --- check ---------------------------------------------------------------------------------------

CHECK = "/admin/workspaces/default/check"


async def test_a_check_names_differences_and_mends_them_when_asked(site: Site) -> None:
    await site.add(AMBER, id="a")
    sound = (await site.client.post(CHECK)).json()
    assert sound == {"workspace": "default", "differences": [], "remaining": []}
    space = site.services.workspace("default")
    [point], _ = await space.vectors.scroll(Kind.CHUNK)
    await space.vectors.delete([point.ref])
    found = (await site.client.post(CHECK)).json()
    [difference] = found["differences"]
    assert difference["area"] == "vectors"
    assert "is missing" in difference["what"]
    assert found["remaining"] == found["differences"]
    mended = (await site.client.post(CHECK, params={"repair": True})).json()
    assert (mended["differences"], mended["remaining"]) == (found["differences"], [])
    await site.work()
    assert await space.vectors.scroll(Kind.CHUNK) == ([point], "")


# --- commands ------------------------------------------------------------------------------------


@pytest.fixture
def _own_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("HELIOGRAPH_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.usefixtures("_own_data")
def test_the_command_prints_the_hash_and_dumps_the_records(tmp_path: Path) -> None:
    shown = run("fingerprint", "--workspace", "mine", "--dump", "one.ndjson")
    assert shown.exit_code == 0, shown.output
    first, *parts = shown.stdout.splitlines()
    assert first.endswith("  mine")
    assert len(first.split()[0]) == 64
    assert parts
    assert Path("one.ndjson").read_text() == ""
    assert run("fingerprint").stdout == ""
    wrong = run("fingerprint", "--workspace", "a/b")
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)


@pytest.mark.usefixtures("_own_data")
def test_diff_names_what_differs_and_says_so_by_its_status() -> None:
    record = {"part": "relations", "id": "a -- b", "weight": 5000}
    Path("one").write_text(json.dumps(record) + "\n")
    Path("two").write_text(json.dumps({**record, "weight": 6000}) + "\n")
    assert run("diff", "one", "one").exit_code == 0
    found = run("diff", "one", "two")
    assert found.exit_code == 1
    assert found.stdout == "changed relations a -- b: weight 5000 -> 6000\n"
    Path("two").write_text("no json")
    assert "no dump" in run("diff", "one", "two").stderr


@pytest.mark.usefixtures("_own_data")
def test_an_archive_that_is_missing_or_broken_is_one_sentence() -> None:
    assert "no documents" in run("backup", "mine", "mine.tar").stderr
    assert not Path("mine.tar").exists()
    assert "does not exist" in run("restore", "mine.tar").stderr
    Path("mine.tar").write_bytes(b"nothing")
    broken = run("restore", "mine.tar")
    assert (broken.exit_code, broken.stderr.count("\n")) == (1, 1)
    assert "no documents" in run("clone", "mine", "yours").stderr


@pytest.mark.usefixtures("_own_data")
def test_commands_carry_a_workspace_over(tmp_path: Path) -> None:
    asyncio.run(_fill(tmp_path / "data"))
    assert run("backup", "default", "one.tar.gz").exit_code == 0
    told = run("restore", "one.tar.gz", "--workspace", "two")
    assert told.exit_code == 0, told.output
    assert "1 documents and 1 chunks are in two" in told.stdout
    assert run("clone", "two", "three").exit_code == 0
    shown = run("fingerprint").stdout.splitlines()
    hashes = {line.split()[0] for line in shown if not line.startswith(" ")}
    assert len(hashes) == 1
    waiting = run("check")
    assert waiting.exit_code == 1
    assert "waits, and no worker takes it" in waiting.stdout
    asyncio.run(_work(tmp_path / "data"))
    checked = run("check")
    assert (checked.exit_code, checked.stdout) == (0, "No difference.\n")
    asyncio.run(_lose_a_vector(tmp_path / "data"))
    found = run("check", "--workspace", "two")
    assert found.exit_code == 1
    assert "two: vectors: the vector of chunk" in found.stdout
    assert run("check", "--workspace", "two", "--repair").exit_code == 0


@asynccontextmanager
async def _rig(folder: Path) -> AsyncIterator[Rig]:
    settings = Settings(_env_file=None, data_dir=folder)
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        queue = RecordingQueue()
        yield Rig(
            replace(services, queue=queue), queue, CountingExtractor(services.models.extractor)
        )


async def _fill(folder: Path) -> None:
    async with _rig(folder) as rig:
        await rig.submit(AMBER)
        await rig.drain()


async def _work(folder: Path) -> None:
    async with _rig(folder) as rig:
        await rig.sweep()


async def _lose_a_vector(folder: Path) -> None:
    async with _rig(folder) as rig:
        vectors = rig.workspace("two").vectors
        [point], _ = await vectors.scroll(Kind.CHUNK)
        await vectors.delete([point.ref])
