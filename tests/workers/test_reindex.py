"""New vectors for everything, of another model or the same, while the service works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest

from app.domain import Embeddings, Kind, Point, Ref, Sparse, Status, Ticket, VectorQuery
from app.errors import Conflict, Invalid, Misconfigured
from app.ports import Embedder, Services
from app.settings import Settings
from app.terms import query_sparse
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump
from app.upkeep.reindex import reindex
from app.upkeep.reindexing import Reindexing
from app.wiring import embedded_queue, open_services
from tests import qdrant_standin
from tests.model_server import running
from tests.workers.conftest import CountingExtractor, RecordingQueue, Rig
from workers.runner import run_ticket

TEXT = "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie."
MORE = "Niels Bohr worked in Copenhagen. Niels Bohr met Marie Curie at the Solvay Conference."
LATER = "Lise Meitner was born in Vienna. Lise Meitner met Niels Bohr in Copenhagen."


@asynccontextmanager
async def rigged(settings: Settings) -> AsyncIterator[Rig]:
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        queue = RecordingQueue()
        extractor = CountingExtractor(services.models.extractor)
        models = replace(services.models, extractor=extractor)
        yield Rig(replace(services, queue=queue, models=models), queue, extractor)


@pytest.fixture(params=["edge", "qdrant"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Embedded stores, with vectors in a folder or on a server."""
    if request.param == "edge":
        return Settings(_env_file=None, data_dir=tmp_path / "data")
    server = request.getfixturevalue("standin")
    return Settings(_env_file=None, data_dir=tmp_path / "data", vector_url=server)


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[str]:
    with qdrant_standin.running(tmp_path / "qdrant") as server:
        yield server.url


async def lines(services: Services, name: str = "default") -> list[str]:
    return [line async for line in dump(services.workspace(name))]


async def assert_as_fresh(rig: Rig, folder: Path, *texts: tuple[str, str]) -> None:
    """As if the documents had just come, and nothing else ever happened."""
    async with rigged(Settings(_env_file=None, data_dir=folder)) as fresh:
        for document, text in texts:
            await fresh.submit(text, document)
            await fresh.drain()
        assert list(difference(await lines(fresh.services), await lines(rig.services))) == []


@dataclass
class Meanwhile:
    """An embedder that has something else happen between its first calls."""

    inner: Embedder
    events: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    texts: int = 0

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        made = await self.inner.embed(texts, purpose=purpose)
        self.texts += len(texts)
        if self.events:
            await self.events.pop(0)()
        return made


# --- another model -------------------------------------------------------------------------------


async def test_another_embedding_model_is_refused_until_everything_is_embedded_anew(
    settings: Settings, tmp_path: Path
) -> None:
    async with rigged(settings) as rig:
        for workspace in ("one", "two"):
            await rig.submit(TEXT, "d", workspace=workspace)
        await rig.drain()
        vectors = rig.workspace("one").vectors
        before = {kind: await vectors.count(kind) for kind in Kind}
    async with running() as model:
        changes = {"embed_url": f"openai+http://{model.host}/v1", "embed_model": "another"}
        other = Settings(**{**settings.model_dump(), **changes, "_env_file": None})
        with pytest.raises(Misconfigured, match="reindex"):
            async with rigged(other):
                pass
        async with (
            embedded_queue(other) as wired,
            open_services(wired, reindex=True) as services,
        ):
            done = await reindex(services, services.models.embedder)
            assert (done.stage, done.embedded) == ("done", 2 * sum(before.values()))
        async with rigged(other) as rig:
            two = rig.workspace("two")
            assert {kind: await two.vectors.count(kind) for kind in Kind} == before
            made = await rig.services.models.embedder.embed(["polonium"], purpose="query")
            [hits] = await two.vectors.search([VectorQuery(Kind.CHUNK, 5, dense=made.vectors[0])])
            assert len(hits) == 1
        assert model.calls("extract") == 0
    with pytest.raises(Misconfigured, match="reindex"):
        async with rigged(settings):
            pass


async def test_the_service_goes_on_with_its_model_until_it_is_started_with_the_new_one(
    settings: Settings, tmp_path: Path
) -> None:
    async with running() as model:
        changes = {"embed_url": f"openai+http://{model.host}/v1", "embed_model": "another"}
        async with rigged(settings) as rig:
            await rig.submit(TEXT, "a")
            await rig.drain()
            async with rig.services.embedder(changes) as embedder:
                await reindex(rig.services, embedder)
            assert (await keys(rig, TEXT)) == ["a"]
            await rig.submit(MORE, "b")
            await rig.drain()  # its vectors wait, and use up none of its tries
            waiting = await rig.workspace().documents.get("b")
            assert waiting.status is Status.INDEXING
            assert (await keys(rig, TEXT)) == ["a"]
        other = Settings(**{**settings.model_dump(), **changes, "_env_file": None})
        async with rigged(other) as rig:
            await until_idle(rig)
            assert (await rig.workspace().documents.get("b")).status is Status.READY
            assert await keys(rig, MORE) == ["b", "a"]
            assert model.calls("extract") == 0


async def keys(rig: Rig, text: str) -> list[str]:
    """Documents whose chunks a question finds, best first."""
    query = VectorQuery(Kind.CHUNK, 5, sparse=query_sparse(text))
    [hits] = await rig.workspace().vectors.search([query])
    chunks = {
        chunk.id: chunk.document_id
        for chunk in await rig.workspace().graph.chunks([hit.key for hit in hits])
    }
    return [chunks[hit.key] for hit in hits if hit.key in chunks]


async def until_idle(rig: Rig) -> None:
    """Steps that were held wait for some seconds."""
    await rig.sweep()
    while await open_jobs(rig):
        await asyncio.sleep(0.5)
        await rig.sweep()


async def open_jobs(rig: Rig) -> bool:
    jobs = await rig.services.journal.jobs("default", limit=100)
    return any(not job.state.final for job in jobs)


# --- while the service works ---------------------------------------------------------------------


async def test_questions_miss_nothing_and_documents_that_come_meanwhile_are_in_the_new(
    settings: Settings, tmp_path: Path
) -> None:
    async with rigged(settings) as rig:
        await rig.submit(TEXT, "a")
        await rig.submit(LATER, "gone")
        await rig.drain()

        async def ingest() -> None:
            await rig.submit(MORE, "b")
            await rig.drain()

        async def replace_and_delete() -> None:
            await rig.submit(TEXT + " She wrote.", "a")
            await rig.delete("gone")
            await rig.drain()

        done = asyncio.Event()

        async def ask() -> int:
            asked = 0
            while not done.is_set():
                assert "a" in await keys(rig, TEXT)
                asked += 1
                await asyncio.sleep(0.01)
            return asked

        asking = asyncio.create_task(ask())
        embedder = Meanwhile(rig.services.models.embedder, [ingest, replace_and_delete])
        await reindex(rig.services, embedder)
        done.set()
        assert await asking > 0
        assert embedder.events == []
        await until_idle(rig)
        assert await rig.workspace().graph.unindexed() == []
        await assert_as_fresh(rig, tmp_path / "fresh", ("a", TEXT + " She wrote."), ("b", MORE))


async def test_who_writes_waits_for_the_last_pass_and_misses_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    async with rigged(settings) as rig:
        await rig.submit(TEXT, "a")
        await rig.drain()
        embedder = rig.services.models.embedder
        async with rig.services.vectors.beside(embedder.model, embedder.dimension) as beside:
            await beside.hold()
            await rig.submit(MORE, "b")
            await rig.drain()
            held = await rig.workspace().documents.get("b")
            assert (held.status, held.job.attempts) == (Status.INDEXING, 0)
            assert await rig.workspace().vectors.count(Kind.CHUNK) == 1
        await until_idle(rig)
        await assert_as_fresh(rig, tmp_path / "fresh", ("a", TEXT), ("b", MORE))


# --- ended early ---------------------------------------------------------------------------------


class Died(Exception):
    pass


async def dies() -> None:
    raise Died


async def test_one_that_ends_early_marks_nothing_and_the_next_goes_on_with_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.upkeep.reindex.BATCH", 4)
    async with rigged(settings) as rig:
        await rig.submit(TEXT, "a")
        await rig.drain()
        await rig.submit(MORE, "b")
        while not await rig.workspace().graph.unindexed():  # up to the step that would index it
            ticket = rig.queue.sent.popleft()
            await one_stage(rig, ticket.step_id)
        stale = await rig.workspace().graph.unindexed()
        before = await rig.workspace().archive.entities(limit=100)
        embedder = Meanwhile(rig.services.models.embedder, [nothing, dies])
        with pytest.raises(Died):
            await reindex(rig.services, embedder)
        assert await rig.workspace().graph.unindexed() == stale
        assert await rig.workspace().archive.entities(limit=100) == before
        assert await keys(rig, TEXT) == ["a"]
        again = Meanwhile(rig.services.models.embedder)
        done = await reindex(rig.services, again)
        assert embedder.texts == 8
        assert again.texts == done.texts - 4  # what the first one had written is not made again
        await until_idle(rig)
        await assert_as_fresh(rig, tmp_path / "fresh", ("a", TEXT), ("b", MORE))


async def nothing() -> None:
    return


async def one_stage(rig: Rig, step_id: str) -> None:
    """Only as far as the next step is somebody else's."""
    await run_ticket(rig.services, Ticket(step_id, 0), rig.terms, leaving=lambda: True)


async def test_vectors_that_were_damaged_are_whole_afterwards(
    settings: Settings, tmp_path: Path
) -> None:
    async with rigged(settings) as rig:
        await rig.submit(TEXT, "a")
        await rig.drain()
        vectors = rig.workspace().vectors
        stray = Point(Ref(Kind.ENTITY, "nobody"), (), Sparse((1,), (1.0,)))
        await vectors.upsert([stray])
        await vectors.delete([Ref(Kind.ENTITY, "marie curie")])
        await reindex(rig.services, rig.services.models.embedder)
        await assert_as_fresh(rig, tmp_path / "fresh", ("a", TEXT))


# --- in the background ---------------------------------------------------------------------------


def lent(embedder: Embedder) -> AbstractAsyncContextManager[Embedder]:
    @asynccontextmanager
    async def lend() -> AsyncIterator[Embedder]:
        yield embedder

    return lend()


async def test_a_process_makes_one_at_a_time_and_can_stop_it(rig: Rig) -> None:
    await rig.submit(TEXT, "a")
    await rig.drain()
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    reindexing = Reindexing()
    slow = Meanwhile(rig.services.models.embedder, [hang])
    await reindexing.start(rig.services, lent(slow))
    await begun.wait()
    with pytest.raises(Conflict):
        await reindexing.start(rig.services, lent(slow))
    with pytest.raises(Conflict):
        await rig.services.vectors.discard()
    await reindexing.stop()
    assert (reindexing.running, reindexing.error) == (False, "It was stopped.")
    assert len(await rig.services.vectors.discard()) == len(Kind)
    assert await keys(rig, TEXT) == ["a"]


async def test_an_embedder_that_cannot_be_is_said_at_once(rig: Rig) -> None:
    reindexing = Reindexing()
    for changes in ({"embed_url": "gopher://x"}, {"embed_url": "openai+http://127.0.0.1:9/v1"}):
        with pytest.raises(Invalid, match=r"EMBED_(URL|MODEL)"):
            await reindexing.start(rig.services, rig.services.embedder(changes))
        assert not reindexing.running
