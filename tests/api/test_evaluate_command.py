"""`heliograph evaluate` from end to end, with and without a model, and the service as a target."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from app.errors import Conflict, Invalid
from app.evaluation.questions import Passage, read_corpus
from app.evaluation.remote import HeliographTarget, heliograph
from app.evaluation.targets import Variant
from tests.api.conftest import BASE, Site
from tests.model_server import running

PASSAGES = [
    ("amber", "Amber", "Amber is fossil resin of old trees. Robert Hooke looked at it in London."),
    ("basalt", "Basalt", "Basalt is a volcanic rock. The Giant's Causeway is made of basalt."),
    ("chalk", "Chalk", "Chalk is a soft white rock. The cliffs of Dover are made of chalk."),
    ("dover", "Dover", "Dover is a town in Kent. Ferries go from Dover to Calais every day."),
]
QUESTIONS = [
    {"id": "q1", "question": "What is Amber?", "answer": "fossil resin",
     "gold_passage_ids": ["amber"], "evidence": ["Amber is resin of trees."]},
    {"id": "q2", "question": "Where do ferries from Dover go?", "answer": "Calais",
     "gold_passage_ids": ["dover"]},
    {"id": "q3", "question": "Who painted the ceiling of Atlantis?", "type": "Null"},
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.upper().startswith("HELIOGRAPH_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "My rocks"
    made.mkdir()
    rows = [{"id": id, "title": title, "text": text} for id, title, text in PASSAGES]
    for name, lines in (("corpus", rows), ("questions", QUESTIONS)):
        text = "\n".join(map(json.dumps, lines))  # type: ignore[arg-type]  # of both kinds
        (made / f"{name}.jsonl").write_text(text)
    return made


def started(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as people start it."""
    command = [sys.executable, "-m", "app.cli", "evaluate", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_modes_are_measured_without_a_server_or_a_model(folder: Path, tmp_path: Path) -> None:
    done = started(folder, "--modes", "naive,mix:top_k=5", "--answers", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "4 documents, stored in" in done.stderr
    assert "naive" in done.stdout
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["modes"]["mix:top_k=5"]["recall@5"] == {"value": 1, "low": 1, "high": 1, "n": 2}
    assert found["modes"]["naive"]["coverage@5"]["n"] == 1
    assert found["modes"]["naive"]["contains"]["n"] == 3
    assert found["set"]["passages"] == 4
    assert str(tmp_path) not in json.dumps(found), "nothing of the machine"
    assert "recall@5" in (tmp_path / "out" / "report.md").read_text()
    # Again: nothing is stored or asked, and another mode comes to what was measured.
    again = started(folder, "--modes", "naive,mix:top_k=5,local", "--answers", "--out", "out")
    assert "4 documents, were there already" in again.stderr
    lines = (tmp_path / "out" / "outcomes.jsonl").read_text().splitlines()
    assert len(lines) == 1 + 3 * 3
    other = started(folder, "--modes", "naive", "--limit", 1, "--answers", "--out", "out")
    assert other.returncode == 1
    assert "is of another run" in other.stderr
    unknown = started(folder, "--modes", "nonsense", "--out", "none")
    assert unknown.stderr.splitlines()[-1].startswith("heliograph: The service answers 422: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--modes", "naive,a b"], "is no mode"),
        (["--modes", "naive", "--against", "mix"], "--against must be one of the modes"),
        (["--modes", "naive", "--judge", "naive,mix"], "is no pair to judge"),
        (["--modes", "naive,mix", "--judge", "naive,mix"], "needs a language model"),
        (["--generate", "5x5"], "5x5x5"),
        (["--generate", "1x1x1", "--modes", "naive"], "needs a language model"),
        (["--workspace", "a b"], "cannot be a workspace"),
        (["--only", "subset"], "no passages with subset true"),
        (["--questions", "nowhere"], "is no folder"),
        (["--url", "ftp://x"], "URL of a service"),
        (["--url", "http://127.0.0.1:1", "--modes", "naive"], "away"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    folder: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.evaluation.remote.TRIES", 1)
    done: Result = CliRunner().invoke(cli, ["evaluate", str(folder), *arguments])
    assert done.exit_code == 1, done.output
    assert done.stderr.splitlines()[-1].startswith("heliograph: ")
    assert said in done.stderr
    assert "Traceback" not in done.output


async def test_a_model_writes_questions_and_judges_answers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    async with running() as server:
        monkeypatch.setenv("HELIOGRAPH_LLM_URL", f"openai+http://{server.host}/v1")
        monkeypatch.setenv("HELIOGRAPH_LLM_MODEL", "scripted")
        done = await asyncio.to_thread(
            started, folder, "--modes", "naive,mix,bypass", "--judge", "mix,bypass",
            "--generate", "1x2x2", "--out", out, "--discard",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert server.calls("questions") == 2
        assert server.calls("compare") == 8
    assert len((out / "questions.jsonl").read_text().splitlines()) == 4
    found = json.loads((out / "result.json").read_text())
    [judged] = found["judged"]
    assert (judged["mode"], judged["against"], judged["model"]) == ("mix", "bypass", "scripted")
    assert judged["criteria"]["overall"]["margin"]["n"] == 4
    assert judged["prompt"]
    assert found["modes"]["bypass"]["answer_calls"]["value"] == 1
    assert "recall@5" not in found["modes"]["mix"]
    assert found["summary"][0].startswith("No question has gold")


# --- the service as a target ---------------------------------------------------------------------


@pytest.fixture
async def worked(site: Site) -> AsyncIterator[Site]:
    """A site whose worker takes what is sent, like a service that runs."""

    async def work() -> None:
        while True:
            await site.work()
            await asyncio.sleep(0.02)

    worker = asyncio.create_task(work())
    yield site
    worker.cancel()
    await asyncio.wait({worker})


def corpus(folder: Path) -> tuple[Passage, ...]:
    return read_corpus(folder)


async def test_documents_go_in_once_and_are_found_by_their_ids(worked: Site, folder: Path) -> None:
    target, seen = HeliographTarget(worked.client), list[tuple[int, int]]()
    stored = await target.ingest(corpus(folder), lambda *at: seen.append(at))
    assert (stored.documents, stored.reused, stored.failed) == (4, False, {})
    assert seen[-1] == (4, 4)
    assert (await target.ingest(corpus(folder), lambda *at: None)).reused
    got = await target.retrieve("What is Amber?", Variant.of("mix"))
    assert got.chunks[0].document_id == "amber"
    assert got.chunks[0].document_name == "Amber"
    assert got.tokens > 0
    assert got.ms > 0
    assert got.entities
    reply = await target.answer("Where do ferries from Dover go?", Variant.of("naive"))
    assert "Calais" in reply.text
    assert not (await target.answer("Qwxyz?", Variant.of("naive"))).found
    assert "heliograph" in await target.describe()


async def test_a_changed_passage_alone_is_stored_again(worked: Site, folder: Path) -> None:
    target = HeliographTarget(worked.client)
    await target.ingest(corpus(folder), lambda *at: None)
    changed = [Passage("amber", "", "Amber is a colour now."), *corpus(folder)[1:]]
    assert not (await target.ingest(changed, lambda *at: None)).reused
    versions = {
        one["id"]: one["version"]
        for one in (await worked.client.get("/documents")).json()["documents"]
    }
    assert versions == {"amber": 2, "basalt": 1, "chalk": 1, "dover": 1}


async def test_a_workspace_with_other_documents_is_left_alone(worked: Site, folder: Path) -> None:
    await worked.client.post("/documents", json={"text": "Mine.", "id": "mine"})
    with pytest.raises(Conflict, match="'mine'"):
        await HeliographTarget(worked.client).ingest(corpus(folder), lambda *at: None)


async def test_what_was_stored_is_discarded(worked: Site, folder: Path) -> None:
    target = HeliographTarget(worked.client)
    await target.ingest(corpus(folder), lambda *at: None)
    await target.discard()
    assert (await worked.client.get("/documents")).json()["documents"] == []


async def test_what_is_no_service_is_told() -> None:
    def other(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>")

    async with httpx.AsyncClient(base_url=BASE, transport=httpx.MockTransport(other)) as client:
        with pytest.raises(Invalid, match="no Heliograph service"):
            await HeliographTarget(client).describe()


async def test_a_server_that_is_busy_is_asked_again() -> None:
    replies = [
        httpx.Response(429, json={}),
        httpx.Response(200, json={"documents": [], "next": None}),
    ]
    replies[0].headers["Retry-After"] = "0"

    def busy(request: httpx.Request) -> httpx.Response:
        return replies.pop(0)

    async with httpx.AsyncClient(base_url=BASE, transport=httpx.MockTransport(busy)) as client:
        await HeliographTarget(client)._held()
    assert replies == []


async def test_an_address_that_is_none_is_refused() -> None:
    for url in ("ftp://host", "nonsense", "http://"):
        with pytest.raises(Invalid, match="URL"):
            async with heliograph(url, "w"):
                pass
