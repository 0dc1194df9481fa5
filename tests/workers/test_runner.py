"""Jobs survive lost, late and double deliveries, crashes between any two writes, and bad chunks."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.domain import (
    Completion,
    Document,
    Embeddings,
    EntityMention,
    Extraction,
    Failure,
    Kind,
    Opened,
    State,
    Status,
    Step,
    VectorQuery,
)
from app.errors import BadModelOutput, Invalid, NotFound, Unavailable
from app.terms import query_sparse
from app.upkeep import texts
from tests.workers.conftest import Rig
from workers import plans
from workers.runner import Terms, run_ticket, sweep
from workers.stages import parse

CURIE = (
    "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie. "
    "Pierre Curie taught at the University of Paris."
)
BOHR = "Niels Bohr was a physicist in Copenhagen. Niels Bohr met Marie Curie in Brussels."


async def chunk_keys(rig: Rig, words: str, workspace: str = "default") -> list[str]:
    query = VectorQuery(Kind.CHUNK, 10, sparse=query_sparse(words))
    [hits] = await rig.workspace(workspace).vectors.search([query])
    return [hit.key for hit in hits]


async def _settled(rig: Rig, document_id: str) -> Document:
    """The document in a final state, brought there by sweeps alone if need be."""
    for _ in range(300):
        await rig.drain()
        document = await rig.workspace().documents.get(document_id)
        if document.status in (Status.READY, Status.FAILED):
            return document
        await asyncio.sleep(0.05)
        await rig.sweep()
    pytest.fail(f"the document is still {document.status}")


async def test_a_document_becomes_ready_and_can_be_found(rig: Rig) -> None:
    document = await rig.submit(CURIE)
    await rig.drain()
    seen = await rig.workspace().documents.get(document.id)
    assert (seen.status, seen.version, seen.pending) == (Status.READY, 1, None)
    entities = await rig.entities()
    assert {"Marie Curie", "Pierre Curie", "University of Paris"} <= set(entities)
    [chunk] = await rig.workspace().graph.document_chunks(document.id)
    assert await chunk_keys(rig, "polonium") == [chunk.id]
    job = await rig.services.journal.job("default", document.job.id)
    assert (job.state, job.error) == (State.DONE, None)


async def test_every_ticket_delivered_twice_changes_nothing(rig: Rig) -> None:
    document = await rig.submit(CURIE)
    while rig.queue.sent:
        ticket = rig.queue.sent.popleft()
        await asyncio.gather(
            *(run_ticket(rig.services, ticket, rig.terms) for _ in range(3)),
        )
    assert len(rig.extractor.calls) == 1
    assert (await rig.workspace().documents.get(document.id)).status is Status.READY
    assert (await rig.entities())["Marie Curie"] == 1


async def test_a_backlog_is_sent_again_in_turns_and_not_each_time(rig: Rig) -> None:
    """What waits for its turn is no news; what is behind the first of a long backlog is reached."""
    documents = [await rig.submit(CURIE, f"d{n}") for n in range(5)]
    rig.queue.sent.clear()
    database: Any = rig.services.dependencies["graph"]
    await database.write(lambda connection: connection.execute("update steps set overdue_at = 0"))
    sent = [await sweep(rig.services, rig.terms, limit=2) for _ in range(4)]
    assert sent == [2, 2, 1, 0]
    steps = [ticket.step_id for ticket in rig.queue.sent]
    assert sorted(steps) == sorted(f"{one.job.id}.parse.0" for one in documents)
    await rig.drain()
    for one in documents:
        assert (await rig.workspace().documents.get(one.id)).status is Status.READY


async def test_a_lost_message_is_sent_again_by_the_sweep(rig: Rig) -> None:
    document = await rig.submit(CURIE)
    rig.queue.sent.clear()
    assert (await _settled(rig, document.id)).status is Status.READY


@pytest.mark.parametrize("stage", [stage.name for stage in plans.PLANS[plans.Plan.INGEST]][:6])
async def test_a_stage_that_was_cut_off_before_its_end_is_repeated_without_a_trace(
    rig: Rig, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of a stage is done, then the process dies before it can say so."""
    ingest = plans.PLANS[plans.Plan.INGEST]
    died = False

    async def run_and_die(workspace, models, step):  # type: ignore[no-untyped-def]
        nonlocal died
        await original.run(workspace, models, step)
        if not died:
            died = True
            raise asyncio.CancelledError

    original = plans.stage(plans.Plan.INGEST, stage)
    patched = tuple(replace(s, run=run_and_die) if s.name == stage else s for s in ingest)
    monkeypatch.setitem(plans.PLANS, plans.Plan.INGEST, patched)
    document = await rig.submit(CURIE)
    with pytest.raises(asyncio.CancelledError):
        await rig.drain()
    assert died
    seen = await _settled(rig, document.id)
    assert (seen.status, seen.version) == (Status.READY, 1)
    assert len(rig.extractor.calls) == 1, "a chunk was paid for twice"
    assert (await rig.entities())["Marie Curie"] == 1


async def test_a_short_document_is_shown_in_every_status_with_few_records_in_the_journal(
    rig: Rig,
) -> None:
    entered: list[tuple[str, Status]] = []

    class Journal:
        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        async def finish(self, step: Step, **named: Any) -> Opened:
            opened = await journal.finish(step, **named)
            job = await journal.job(step.workspace, step.job_id)
            entered.append((job.stage, job.status))
            return opened

    journal = rig.services.journal
    rig.services = replace(rig.services, journal=Journal())  # type: ignore[arg-type]
    document = await rig.submit(CURIE)
    await rig.drain()
    assert (await rig.workspace().documents.get(document.id)).status is Status.READY
    assert entered == [
        ("extract", Status.EXTRACTING), ("merge", Status.MERGING), ("index", Status.INDEXING),
        ("publish", Status.INDEXING), ("publish", Status.READY),
    ]  # fmt: skip


@pytest.mark.parametrize("stage", ["resolve", "profile"])
async def test_what_fails_is_named_though_it_has_no_record_of_its_own(
    rig: Rig, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest = plans.PLANS[plans.Plan.INGEST]

    async def fail(*_: Any) -> None:
        raise Invalid("No.")

    patched = tuple(replace(s, run=fail) if s.name == stage else s for s in ingest)
    monkeypatch.setitem(plans.PLANS, plans.Plan.INGEST, patched)
    document = await rig.submit(CURIE)
    await rig.drain()
    seen = await rig.workspace().documents.get(document.id)
    assert seen.status is Status.FAILED
    assert seen.job.error is not None and seen.job.error.stage == stage


async def test_a_passing_fault_is_retried_and_a_lasting_one_fails_with_its_reason(rig: Rig) -> None:
    rig.extractor.fault = Unavailable("The model endpoint is away.", retry_after=0.01)
    document = await rig.submit(CURIE)
    seen = await _settled(rig, document.id)
    assert seen.status is Status.FAILED
    assert seen.job.error == Failure(
        "unavailable", "The model endpoint is away.", "extract", retryable=True
    )


async def test_a_bug_fails_the_job_and_is_not_run_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.extractor.fault = ZeroDivisionError("secret words of the document")
    document = await rig.submit(CURIE)
    await rig.drain()
    seen = await rig.workspace().documents.get(document.id)
    assert seen.job.error is not None
    assert (seen.status, seen.job.error.code) == (Status.FAILED, "internal")
    assert "secret" not in seen.job.error.message
    assert not rig.queue.sent


async def test_one_bad_chunk_costs_one_chunk(rig: Rig) -> None:
    rig.extractor.bad = "Zanzibar"
    filler = "The harbour of Genoa is old. Ships from Genoa went to Constantinople. " * 150
    document = await rig.submit(f"{CURIE}\n\n{filler}\n\nZanzibar is far. {BOHR}")
    await rig.drain()
    seen = await rig.workspace().documents.get(document.id)
    assert seen.status is Status.READY
    assert len(seen.warnings) == 1
    assert "The reply is not what was asked for" in seen.warnings[0]
    assert "Marie Curie" in await rig.entities()


async def test_equal_text_is_read_once(rig: Rig) -> None:
    one = await rig.submit(CURIE, "a")
    await rig.drain()
    other = await rig.submit(CURIE, "b")
    await rig.drain()
    assert len(rig.extractor.calls) == 1
    assert one.id != other.id
    assert (await rig.entities())["Marie Curie"] == 2


async def test_a_replacement_shows_the_old_version_until_the_new_one_is_ready(rig: Rig) -> None:
    await rig.submit(CURIE, "d")
    await rig.drain()
    rig.extractor.fault = Unavailable("away", retry_after=0.01)
    await rig.submit(BOHR, "d")
    await rig.drain()
    between = await rig.workspace().documents.get("d")
    assert (between.version, between.live is not None) == (1, True)
    assert await chunk_keys(rig, "polonium"), "the old version is not found any more"
    assert "Niels Bohr" not in await rig.entities()
    rig.extractor.fault = None
    after = await _settled(rig, "d")
    assert after.version == 2
    entities = await rig.entities()
    assert "Niels Bohr" in entities
    assert "Pierre Curie" not in entities
    assert not await chunk_keys(rig, "polonium")


async def test_a_deletion_takes_back_what_only_it_supported(rig: Rig) -> None:
    await rig.submit(CURIE, "a")
    await rig.submit(BOHR, "b")
    await rig.drain()
    before = await rig.entities()
    assert before["Marie Curie"] == 2
    job = await rig.delete("a")
    await rig.drain()
    assert (await rig.services.journal.job("default", job.id)).state is State.DONE
    entities = await rig.entities()
    assert entities["Marie Curie"] == 1
    assert "Pierre Curie" not in entities
    with pytest.raises(NotFound):
        await rig.workspace().documents.get("a")
    vectors = rig.workspace().vectors
    assert await vectors.count(Kind.ENTITY) == len(entities)
    assert await vectors.count(Kind.CHUNK) == 1


async def test_shared_bytes_outlive_the_deletion_of_one_of_their_documents(rig: Rig) -> None:
    one = await rig.submit(CURIE, "a")
    await rig.submit(CURIE, "b")
    await rig.drain()
    await rig.delete("a")
    await rig.drain()
    assert one.pending is not None
    blobs = rig.workspace().blobs
    assert (await blobs.get(one.pending.source)).decode() == CURIE
    await rig.delete("b")
    await rig.drain()
    with pytest.raises(NotFound):
        await blobs.get(one.pending.source)


async def test_a_cancelled_job_leaves_nothing_visible(rig: Rig) -> None:
    document = await rig.submit(CURIE)
    closed = await rig.services.journal.close(
        "default", document.job.id, State.CANCELLED,
        Failure("cancelled", "Cancelled on request.", "parse", retryable=True),
    )  # fmt: skip
    await rig.drain()
    assert closed
    assert await rig.entities() == {}
    assert (await rig.workspace().documents.get(document.id)).status is Status.FAILED


async def test_workspaces_do_not_see_each_other(rig: Rig) -> None:
    await rig.submit(CURIE, "a", workspace="one")
    await rig.submit(BOHR, "a", workspace="two")
    await rig.drain()
    assert "Niels Bohr" not in await rig.entities("one")
    assert "Pierre Curie" not in await rig.entities("two")
    assert not await chunk_keys(rig, "polonium", "two")


async def test_a_heartbeat_keeps_a_long_step(rig: Rig) -> None:
    rig.terms = Terms(lease=0.3, tries=3)
    slow = copy.copy(rig.extractor)

    async def extract(title, headings, text):  # type: ignore[no-untyped-def]
        await asyncio.sleep(1.0)
        return await rig.extractor.inner.extract(title, headings, text)  # type: ignore[attr-defined]

    slow.extract = extract  # type: ignore[method-assign]
    rig.services = replace(rig.services, models=replace(rig.services.models, extractor=slow))
    document = await rig.submit(CURIE)
    await asyncio.gather(rig.drain(), _sweep_meanwhile(rig))
    assert (await rig.workspace().documents.get(document.id)).status is Status.READY
    job = await rig.services.journal.job("default", document.job.id)
    assert job.attempts == 0


async def _sweep_meanwhile(rig: Rig) -> None:
    for _ in range(8):
        await asyncio.sleep(0.1)
        overdue = await rig.services.journal.overdue(limit=10, lease=30)
        assert not overdue, "the lease ran out under the step"


async def test_an_unreadable_reply_everywhere_still_ends_in_a_warning(rig: Rig) -> None:
    rig.extractor.fault = BadModelOutput("Not JSON.")
    document = await rig.submit(CURIE)
    await rig.drain()
    seen = await rig.workspace().documents.get(document.id)
    assert seen.status is Status.READY
    assert seen.warnings


@pytest.mark.parametrize("nothing", [(), (0.0,) * 512])
async def test_a_text_that_the_model_cannot_embed_is_found_by_its_words(
    rig: Rig, nothing: tuple[float, ...]
) -> None:
    class Partial:
        """No text makes the built-in encoder fail."""

        model, dimension = rig.services.models.embedder.model, 512

        async def embed(self, texts, *, purpose):  # type: ignore[no-untyped-def]
            made = await rig.services.models.embedder.embed(texts, purpose=purpose)
            return Embeddings(
                [
                    nothing if "Pierre" in text else vector
                    for text, vector in zip(texts, made.vectors, strict=True)
                ]
            )

    models = replace(rig.services.models, embedder=Partial())
    document = await rig.submit(CURIE)
    worker = replace(rig.services, models=models)
    while rig.queue.sent:
        await run_ticket(worker, rig.queue.sent.popleft(), rig.terms)
    seen = await rig.workspace().documents.get(document.id)
    assert seen.status is Status.READY
    assert "have no vector" in seen.warnings[0]
    assert await chunk_keys(rig, "polonium")


async def test_a_text_that_is_parsed_for_an_overtaken_job_is_not_kept(rig: Rig) -> None:
    """The document is replaced while its first version is parsed."""
    await rig.submit(CURIE, "d", name="a.md")
    first = rig.queue.sent.popleft()
    blobs = rig.workspace().blobs
    overtaken = False

    class Blobs:
        def __getattr__(self, name: str) -> object:
            return getattr(blobs, name)

        async def get(self, key: str) -> bytes:
            nonlocal overtaken
            data = await blobs.get(key)
            if not overtaken:
                overtaken = True
                await rig.submit(BOHR, "d", name="a.md")
            return data

    spaces = rig.services.workspace
    slow = replace(
        rig.services,
        workspace=lambda name: replace(spaces(name), blobs=Blobs()),  # type: ignore[arg-type]
    )
    await run_ticket(slow, first, Terms())
    assert overtaken
    # Plain text is its own parsed text; the original goes with it, since nobody refers to either.
    assert not await blobs.has(hashlib.sha256(CURIE.encode()).hexdigest())
    await rig.drain()
    assert await blobs.has(hashlib.sha256(BOHR.encode()).hexdigest())
    await rig.delete("d")
    await rig.drain()
    assert not await blobs.has(hashlib.sha256(BOHR.encode()).hexdigest())


async def test_the_loop_goes_on_while_a_document_is_cut_and_its_words_are_counted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take seconds for a book; heartbeats and, in a lone process, questions share the loop."""
    loop = threading.get_ident()
    seen: dict[str, int] = {}

    def watched(module: object, name: str) -> None:
        original = getattr(module, name)

        def run(*args: object, **named: object) -> object:
            seen[name] = threading.get_ident()
            return original(*args, **named)

        monkeypatch.setattr(module, name, run)

    watched(parse, "chunks")
    watched(texts, "document_sparse")
    await rig.submit(CURIE)
    await rig.drain()
    assert seen.keys() == {"chunks", "document_sparse"}
    assert loop not in seen.values()


async def test_a_stop_is_heard_while_a_heartbeat_ends(rig: Rig) -> None:
    """Else the worker would carry the whole document to its end first."""
    ending = asyncio.Event()

    class Journal:
        def __getattr__(self, name: str) -> object:
            return getattr(rig.services.journal, name)

        async def renew(self, step: Step, *, lease: float) -> bool:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ending.set()
                await asyncio.sleep(0.05)
                raise
            return True

    class Slow:
        version = rig.extractor.version
        by_model = False

        async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
            await asyncio.sleep(0.1)
            return await rig.extractor.extract(title, headings, text)

    services = replace(
        rig.services,
        journal=Journal(),  # type: ignore[arg-type]
        models=replace(rig.services.models, extractor=Slow()),
    )
    document = await rig.submit(CURIE)
    work = asyncio.create_task(run_ticket(services, rig.queue.sent.popleft(), Terms(lease=0.06)))
    await ending.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (await rig.workspace().documents.get(document.id)).status is not Status.READY
    assert (await _settled(rig, document.id)).status is Status.READY


class Hub:
    """Says of each text that it is about the hub."""

    version = "hub"
    by_model = False

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        return Extraction((EntityMention("Hub", "organization", text),), model="test")


class CountingProfiler:
    """Plays a model that summarises."""

    by_model = True

    def __init__(self) -> None:
        self.names: list[str] = []

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Completion:
        self.names.append(name)
        return Completion(f"{name}: {len(descriptions)} facts")


async def test_documents_deleted_together_have_what_they_shared_summarised_once(rig: Rig) -> None:
    profiler = CountingProfiler()
    rig.services = replace(rig.services, models=replace(rig.services.models, profiler=profiler))
    rig.extractor.inner = Hub()
    for n in range(30):
        await rig.submit(f"Fact number {n} of the hub. " * 24, f"d{n:02}")
        await rig.drain()
    profiler.names.clear()
    for n in range(20):
        await rig.delete(f"d{n:02}")
    tickets = list(rig.queue.sent)
    rig.queue.sent.clear()
    await asyncio.gather(*(run_ticket(rig.services, one, rig.terms) for one in tickets))
    for _ in range(100):
        left = await rig.workspace().documents.page(limit=50)
        if len(left) == 10:
            break
        await asyncio.sleep(0.1)
        await rig.sweep()
    assert len(left) == 10
    assert profiler.names == ["Hub"]
    [hub] = await rig.workspace().graph.search("hub", limit=5)
    assert hub.profile == "Hub: 10 facts"
