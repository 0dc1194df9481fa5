"""A model endpoint that is away pauses work; a text that it cannot take fails its document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.domain import Document, Mode, Question, Status
from app.errors import Unavailable
from app.ports import Services
from app.query import engine
from app.settings import Settings
from app.wiring import embedded_queue, open_services
from tests.model_server import ModelServer, running
from tests.workers.conftest import RecordingQueue, Rig
from workers.runner import Terms, run_ticket, sweep

NOTE = "Ada Lovelace worked with Charles Babbage on the Analytical Engine in London."
OUTAGES = [
    {"status": 503}, {"status": 500, "body": "boom"}, {"raw": "<html>Bad gateway</html>"},
    {"raw": '{"error": {"message": "overloaded"}}'}, {"status": 429},
    {"status": 429, "headers": {"Retry-After": "1"}}, {"delay_s": 60},
]  # fmt: skip


@dataclass
class Outage:
    """A service on a scripted model, with pauses of a tenth of a second in place of a minute."""

    server: ModelServer
    rig: Rig
    services: Services

    async def status(self, document: Document) -> Status:
        return (await self.rig.workspace().documents.get(document.id)).status

    async def work(self, seconds: float, until: Document | None = None) -> None:
        """Be a worker for so long, or until a document is in a final state; then stop."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        running: set[asyncio.Task[None]] = set()
        while loop.time() < end:
            await sweep(self.services, self.rig.terms)
            while self.rig.queue.sent:
                ticket = self.rig.queue.sent.popleft()
                running.add(asyncio.create_task(run_ticket(self.services, ticket, self.rig.terms)))
            await asyncio.sleep(0.03)
            running = {task for task in running if not task.done()}
            if until and await self.status(until) in (Status.READY, Status.FAILED):
                break
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@pytest.fixture
async def outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Outage]:
    for name, value in {
        "app.llm.shared.FIRST_PAUSE": 0.05, "app.llm.shared.LONGEST_PAUSE": 0.1,
        "app.llm.gate.SHORTEST_PAUSE": 0.05, "app.llm.http.FIRST_DELAY": 0.01,
    }.items():  # fmt: skip
        monkeypatch.setattr(name, value)
    async with running() as server:
        url = f"openai+http://{server.host}/v1"
        settings = Settings(
            _env_file=None, data_dir=tmp_path, llm_url=url, llm_model="scripted", embed_url=url,
            embed_model="scripted", llm_timeout=0.3, embed_timeout=0.3,
        )  # fmt: skip
        async with embedded_queue(settings) as wired, open_services(wired) as opened:
            queue = RecordingQueue()
            services = replace(opened, queue=queue)
            rig = Rig(services, queue, services.models.extractor, Terms(lease=30, tries=2))  # type: ignore[arg-type]
            yield Outage(server, rig, services)


@pytest.mark.parametrize("answer", OUTAGES, ids=str)
async def test_an_outage_fails_no_document_however_long_it_is(
    outage: Outage, answer: dict[str, object]
) -> None:
    outage.server.script(reject=[{"contains": "", **answer}])
    documents = [await outage.rig.submit(f"{NOTE} Part {n}.") for n in range(3)]
    await outage.work(2)
    statuses = {await outage.status(document) for document in documents}
    assert statuses == {Status.EXTRACTING}
    failing = outage.server.calls("extract") + outage.server.calls("other")
    assert failing < 120, "a paused endpoint is hardly asked"
    job = await outage.services.journal.job("default", documents[0].job.id)
    assert job.attempts == 0
    outage.server.script(reject=[])
    for document in documents:
        await outage.work(60, until=document)
        assert await outage.status(document) is Status.READY


async def test_an_outage_of_the_embedding_model_fails_no_document(outage: Outage) -> None:
    outage.server.script(embedding=[{"match": "", "status": 503}])
    document = await outage.rig.submit(NOTE)
    await outage.work(2)
    assert await outage.status(document) is Status.INDEXING
    outage.server.state.rules.clear()
    await outage.work(60, until=document)
    assert await outage.status(document) is Status.READY


@pytest.mark.parametrize("answer", [OUTAGES[1], OUTAGES[-1]], ids=str)
@pytest.mark.parametrize("company", [False, True], ids=["alone", "beside others"])
async def test_a_text_that_the_model_cannot_take_fails_its_document_only(
    outage: Outage, answer: dict[str, object], company: bool
) -> None:
    outage.server.script(reject=[{"contains": "Zanzibar", **answer}])
    others = [await outage.rig.submit(f"{NOTE} Part {n}.") for n in range(3 if company else 0)]
    bad = await outage.rig.submit("Zanzibar is an island near Africa.")
    await outage.work(60, until=bad)
    seen = await outage.rig.workspace().documents.get(bad.id)
    assert seen.status is Status.FAILED
    assert seen.job.error is not None
    assert seen.job.error.retryable
    assert seen.job.error.code in ("model_failed", "model_timeout")
    for other in others:
        await outage.work(60, until=other)
        assert await outage.status(other) is Status.READY


@pytest.mark.parametrize(("status", "code"), [(401, "model_auth"), (404, "model_not_found")])
async def test_settings_that_cannot_work_fail_at_once(
    outage: Outage, status: int, code: str
) -> None:
    outage.server.script(reject=[{"contains": "", "status": status}])
    document = await outage.rig.submit(NOTE)
    await outage.work(30, until=document)
    seen = await outage.rig.workspace().documents.get(document.id)
    assert seen.job.error is not None
    assert (seen.status, seen.job.error.code) == (Status.FAILED, code)
    assert outage.server.calls("extract") == 1


async def test_a_question_amid_an_outage_is_told_at_once_when_to_come_again(
    outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await outage.rig.submit(NOTE)
    await outage.work(60, until=document)
    for name in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(f"app.llm.shared.{name}", 30.0)
    outage.server.script(reject=[{"contains": "", "status": 503}])
    await outage.rig.submit(f"{NOTE} Again.")
    await outage.work(2)
    asked = len(outage.server.state.requests)
    question = Question("Who worked with Charles Babbage?", mode=Mode.MIX)
    with pytest.raises(Unavailable) as raised:
        await engine.answer(outage.rig.workspace(), outage.services.models, question)
    assert raised.value.code == "model_paused"
    assert 15 < (raised.value.retry_after or 0) <= 38
    chat = [one for one in outage.server.state.requests if one["kind"] != "embedding"]
    assert len(outage.server.state.requests) - asked <= 4, "nothing but tries to embed the question"
    assert chat[-1]["kind"] == "other", "the harmless call was the last"


async def test_neighbours_of_a_chunk_that_fails_are_not_paid_for_twice(outage: Outage) -> None:
    paragraph = "Person{0} Smith met Person{0} Jones in the old harbour of Genoa. "
    outage.server.script(
        latency_s=0.1,
        llm={"extract_match": {"contains": "Person3 ", "always": [{"status": 500}] * 6}},
    )
    text = "\n\n".join(paragraph.format(n) * 60 for n in range(8))
    document = await outage.rig.submit(text)
    await outage.work(60, until=document)
    assert await outage.status(document) is Status.READY
    bodies = [str(body["messages"]) for body in outage.server.bodies("extract")]
    chunks = await outage.rig.workspace().graph.document_chunks(document.id)
    assert len(chunks) > 4
    assert len(bodies) == len(chunks) + 6
    usage = (await outage.rig.workspace().documents.get(document.id)).usage
    assert usage.llm_calls == len(chunks) + outage.server.calls("summary")


async def test_what_embedding_costs_is_charged_to_the_document(outage: Outage) -> None:
    document = await outage.rig.submit(NOTE)
    await outage.work(30, until=document)
    usage = (await outage.rig.workspace().documents.get(document.id)).usage
    kinds = outage.server.state.kinds
    probe = 3  # tokens, when the service asked for the dimension
    told = sum(kinds[kind]["prompt_tokens"] for kind in ("extract", "embedding")) - probe
    assert usage.llm_calls == kinds["extract"]["calls"] == 1
    assert usage.prompt_tokens == told
