"""Evaluations as jobs: on both stores, through restarts and cancellations, beside other work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from app.domain import Embeddings, Evaluation, Job, Plan, State, Usage
from app.evaluation.generate import Sizes
from app.evaluation.orders import Request
from app.ports import Embedder
from app.settings import Settings
from app.upkeep.jobs import new_job
from tests import make
from tests.model_server import ModelServer, running
from tests.servers import Server
from tests.workers.conftest import Rig, opened
from workers.runner import run_ticket

TEXTS = {
    "amber": "Amber is fossil resin of old trees. Robert Hooke looked at it in London.",
    "basalt": "Basalt is a volcanic rock. The Giant's Causeway is made of basalt.",
    "dover": "Dover is a town in Kent. Ferries go from Dover to Calais every day.",
}
QUESTIONS: Sequence[dict[str, Any]] = [
    {"id": "q1", "question": "What is Amber?", "gold_passage_ids": ["amber"],
     "answers": ["fossil resin"], "evidence": ["Amber is resin.", "Nobody covers such things."]},
    {"id": "q2", "question": "Where do ferries from Dover go?", "gold_passage_ids": ["dover"],
     "answers": ["Calais"]},
    {"id": "q3", "question": "What is the Giant's Causeway made of?",
     "gold_quotes": ["made of basalt"]},
    {"id": "q4", "question": "Who sank Atlantis?", "unanswerable": True},
]  # fmt: skip


@pytest.fixture(params=["sqlite", pytest.param("neo4j", marks=pytest.mark.server)])
async def any_rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """On either graph store."""
    settings = Settings(_env_file=None, data_dir=tmp_path)
    if request.param == "neo4j":
        server: Server = request.getfixturevalue("neo4j")
        settings = Settings(
            _env_file=None, data_dir=tmp_path, graph_url=server.url, graph_user=server.user,
            graph_password=server.password,
        )  # fmt: skip
        from migrations import migrate

        await migrate(server.url, user=server.user, password=server.password)
    async with opened(settings) as rig:
        yield rig


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with running() as server:
        yield server


@pytest.fixture
async def model_rig(model: ModelServer, tmp_path: Path) -> AsyncIterator[Rig]:
    settings = Settings(
        _env_file=None, data_dir=tmp_path, llm_url=f"openai+http://{model.host}/v1",
        llm_model="scripted",
    )  # fmt: skip
    async with opened(settings) as rig:
        yield rig


async def fill(rig: Rig, workspace: str) -> None:
    for id, text in TEXTS.items():
        await rig.submit(text, id, f"{id.capitalize()}.txt", workspace=workspace)
    await rig.drain()


async def order(rig: Rig, workspace: str, request: Request) -> Job:
    job = new_job(workspace, Plan.EVALUATE)
    made = Evaluation(job.id, "rocks", request.line(), request.total)
    await rig.workspace(workspace).evaluations.open(made, job)
    await rig.queue.send([rig.first(job)])
    return job


async def result_of(rig: Rig, workspace: str, job: Job) -> dict[str, Any]:
    found = await rig.workspace(workspace).evaluations.get(job.id)
    assert found.result, await rig.services.journal.job(workspace, job.id)
    result: dict[str, Any] = json.loads(found.result)
    return result


async def test_every_question_is_measured_in_every_mode(any_rig: Rig) -> None:
    rig, workspace = any_rig, make.name()
    await fill(rig, workspace)
    job = await order(rig, workspace, Request(["naive", "mix:top_k=5"], QUESTIONS, answers=True))
    await rig.drain()
    ended = await rig.services.journal.job(workspace, job.id)
    assert (ended.state, ended.error) == (State.DONE, None)
    result = await result_of(rig, workspace, job)
    assert result["modes"]["mix:top_k=5"]["recall@5"] == {"value": 1, "low": 1, "high": 1, "n": 3}
    assert result["modes"]["naive"]["coverage@5"] == {"value": 1, "low": 1, "high": 1, "n": 1}
    assert result["modes"]["naive"]["contains"]["n"] == 3
    assert result["comparisons"][0]["against"] == "naive"
    assert len(result["questions"]) == 4
    assert result["set"] == {"questions": 4, "generated": False, "documents": 3}
    assert result["summary"]
    assert await rig.workspace(workspace).evaluations.outcomes(job.id) == []


async def test_at_most_two_steps_of_it_run_at_a_time(rig: Rig) -> None:
    """So that ingestion finds free places, however many questions there are."""
    await fill(rig, "default")
    many = [{**QUESTIONS[0], "id": f"q{n}"} for n in range(40)]
    job = await order(rig, "default", Request(["naive"], many))
    await run_ticket(rig.services, rig.queue.sent.popleft(), rig.terms)
    assert len(rig.queue.sent) == 1, "one lane was carried out at once, the other one waits"
    half = await rig.services.journal.job("default", job.id)
    assert (half.stage, half.done, half.total) == ("measure", 20, 40)
    assert (await rig.workspace().evaluations.get(job.id)).measured == 20
    await rig.drain()
    assert (await rig.services.journal.job("default", job.id)).state is State.DONE


@dataclass
class Halting:
    """The embedder, with its texts noted; it hangs at a text once `left` are made."""

    inner: Embedder
    left: int
    texts: list[str] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        if not self.left:
            self.reached.set()
            await asyncio.Event().wait()
        self.left -= 1
        self.texts += texts
        return await self.inner.embed(texts, purpose=purpose)


async def test_a_restart_asks_no_question_again(rig: Rig) -> None:
    await fill(rig, "default")
    halting = Halting(rig.services.models.embedder, 3)
    services = replace(rig.services, models=replace(rig.services.models, embedder=halting))
    many = [{**QUESTIONS[0], "id": f"q{n}", "question": f"What is {n}?"} for n in range(10)]
    job = await order(rig, "default", Request(["naive"], many))
    worker = asyncio.create_task(run_ticket(services, rig.queue.sent.popleft(), rig.terms))
    await halting.reached.wait()
    worker.cancel()
    await asyncio.wait({worker})
    kept = (await rig.workspace().evaluations.get(job.id)).measured
    assert kept == len(halting.texts) == 3
    halting.left = 1000
    while rig.queue.sent:
        await run_ticket(services, rig.queue.sent.popleft(), rig.terms)
    assert len((await result_of(rig, "default", job))["questions"]) == 10
    assert sorted(halting.texts) == sorted(row["question"] for row in many)


async def test_a_cancelled_one_stops_and_keeps_what_it_had(rig: Rig) -> None:
    await fill(rig, "default")
    job = await order(rig, "default", Request(["naive"], QUESTIONS))
    await run_ticket(rig.services, rig.queue.sent.popleft(), rig.terms)
    assert await rig.services.journal.close("default", job.id, State.CANCELLED)
    await rig.drain()
    found = await rig.workspace().evaluations.get(job.id)
    assert (found.measured, found.result) == (2, "")
    assert (await rig.services.journal.job("default", job.id)).state is State.CANCELLED


async def test_one_that_was_deleted_amid_its_work_leaves_nothing(rig: Rig) -> None:
    await fill(rig, "default")
    job = await order(rig, "default", Request(["naive"], QUESTIONS))
    await run_ticket(rig.services, rig.queue.sent.popleft(), rig.terms)
    await rig.workspace().evaluations.remove(job.id)
    await rig.drain()
    assert await rig.workspace().evaluations.page() == []
    ended = await rig.services.journal.job("default", job.id)
    assert ended.error is not None and ended.error.code == "not_found"


async def test_a_model_writes_questions_and_judges_answers(
    model_rig: Rig, model: ModelServer
) -> None:
    rig = model_rig
    await fill(rig, "default")
    request = Request(
        ["naive", "bypass"], answers=True, pairs=[("naive", "bypass")], generate=Sizes(1, 2, 2)
    )
    job = await order(rig, "default", request)
    assert request.total == 12
    await rig.drain()
    result = await result_of(rig, "default", job)
    assert result["set"]["generated"]
    assert len(result["questions"]) == 4
    [judged] = result["judged"]
    assert judged["criteria"]["overall"]["margin"]["n"] == 4
    assert judged["usage"]["llm_calls"] == model.calls("compare") == 8
    found = await rig.workspace().evaluations.get(job.id)
    assert (found.measured, found.total) == (12, 12)


async def test_without_a_model_questions_cannot_be_written(rig: Rig) -> None:
    await fill(rig, "default")
    job = await order(rig, "default", Request(["naive"], generate=Sizes(1, 1, 1)))
    await rig.drain()
    ended = await rig.services.journal.job("default", job.id)
    assert ended.error is not None and ended.error.code == "no_model"


async def test_a_mode_that_a_later_version_has_not_fails_with_a_sentence(rig: Rig) -> None:
    await fill(rig, "default")
    for label, said in (("nonsense", "no mode nonsense"), ("mix:text=x", "no option")):
        job = await order(rig, "default", Request([label], QUESTIONS))
        await rig.drain()
        ended = await rig.services.journal.job("default", job.id)
        assert ended.error is not None and said in ended.error.message


async def test_it_costs_the_documents_nothing(rig: Rig) -> None:
    await fill(rig, "default")
    await order(rig, "default", Request(["naive", "mix"], QUESTIONS))
    await rig.drain()
    for document in await rig.workspace().documents.page():
        assert (document.version, document.usage) == (1, Usage())
