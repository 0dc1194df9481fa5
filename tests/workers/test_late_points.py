"""A worker that is overtaken while it embeds leaves no point of what is gone, and none missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from app.domain import Embeddings, Kind, Point, Ref, Stats, Status, VectorQuery
from app.errors import Unavailable
from app.names import key
from app.ports import Embedder
from app.terms import query_sparse
from tests.workers.conftest import Rig
from workers.runner import run_ticket

TEXT = "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie."
OTHER = "Niels Bohr was a physicist in Copenhagen. Niels Bohr met Marie Curie in Brussels."


@dataclass
class Slow:
    """The built-in embedder; what happens during its first call for documents is up to a test."""

    inner: Embedder
    meanwhile: Callable[[], Awaitable[None]] | None = None

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            await happens()
        return await self.inner.embed(texts, purpose=purpose)


async def points(rig: Rig) -> dict[Kind, int]:
    return {kind: await rig.workspace().vectors.count(kind) for kind in Kind}


def slow(rig: Rig, meanwhile: Callable[[], Awaitable[None]]) -> None:
    embedder = Slow(rig.services.models.embedder, meanwhile)
    rig.services = replace(rig.services, models=replace(rig.services.models, embedder=embedder))


def expected(stats: Stats) -> dict[Kind, int]:
    return {
        Kind.CHUNK: stats.chunks, Kind.ENTITY: stats.entities, Kind.RELATION: stats.relations,
        Kind.COMMUNITY: 0,
    }  # fmt: skip


@pytest.mark.parametrize("then", ["gone", "back", "other"])
async def test_a_deletion_while_points_are_embedded(rig: Rig, then: str) -> None:
    async def deleted() -> None:
        await rig.delete("d")
        await rig.drain()
        if then != "gone":
            await rig.submit(TEXT if then == "back" else OTHER, "d")
            await rig.drain()

    slow(rig, deleted)
    await rig.submit(TEXT, "d")
    await rig.drain()
    stats = await rig.workspace().graph.stats()
    assert (stats.documents, bool(stats.chunks)) == ((0, False) if then == "gone" else (1, True))
    assert await points(rig) == expected(stats)
    assert await rig.workspace().graph.unindexed() == []


async def test_evidence_that_comes_while_points_are_deleted(rig: Rig) -> None:
    """The deletion has listed what has no evidence left; another document brings it again, and its
    point, before the deletion gets to work."""
    await rig.submit(TEXT, "d")
    await rig.drain()
    vectors = rig.workspace().vectors
    erase = vectors.delete
    came = False

    async def late(refs: Sequence[Ref]) -> None:
        nonlocal came
        if not came:
            came = True
            await rig.submit(TEXT, "e")
            await rig.drain()
        await erase(refs)

    spaces = rig.services.workspace

    class Late:
        def __getattr__(self, name: str) -> object:
            return late if name == "delete" else getattr(vectors, name)

    rig.services = replace(
        rig.services,
        workspace=lambda name: replace(spaces(name), vectors=Late()),  # type: ignore[arg-type]
    )
    await rig.delete("d")
    await rig.drain()
    stats = await rig.workspace().graph.stats()
    assert came and stats.documents == 1
    assert await points(rig) == expected(stats)
    assert await rig.workspace().graph.unindexed() == []


@pytest.mark.parametrize("killed", [False, True])
async def test_a_late_writer_leaves_no_older_text_over_a_newer_one(rig: Rig, killed: bool) -> None:
    """Two documents about one thing are indexed at once: the first embeds what is known so far,
    the second writes more and marks it, then the first writes. It may even die right after that."""
    inner = rig.workspace().vectors
    entity = Ref(Kind.ENTITY, key("Marie Curie"))
    died = False

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        async def upsert(self, given: Sequence[Point]) -> None:
            nonlocal died
            await inner.upsert(given)
            if late and not died:
                died = True
                raise Unavailable("The process is gone.", retry_after=0.001)

    async def other() -> None:
        nonlocal late
        await rig.submit(OTHER, "other")
        await rig.drain()
        late = killed

    late = False
    workspace = rig.services.workspace
    rig.services = replace(
        rig.services,
        workspace=lambda name: replace(workspace(name), vectors=Dying()),  # type: ignore[arg-type]
    )
    slow(rig, other)
    await rig.submit(TEXT, "d")
    await rig.drain()
    while (await rig.workspace().documents.get("d")).status is not Status.READY:
        await asyncio.sleep(0.01)
        await rig.sweep()
    [curie] = await rig.workspace().graph.entities([entity.key])
    assert curie.indexed == curie.profiled
    assert died == killed
    query = query_sparse("Brussels")  # only in the newer text
    [hits] = await inner.search([VectorQuery(Kind.ENTITY, 5, sparse=query, within=[entity.key])])
    assert [hit.key for hit in hits] == [entity.key]


@pytest.mark.parametrize("then", ["gone", "other"])
async def test_a_writer_that_is_called_off_while_its_points_are_on_their_way(
    rig: Rig, then: str
) -> None:
    """The deletion comes while the vector store writes. The heartbeat ends the step, but what was
    handed to the store arrives there all the same."""
    inner = rig.workspace().vectors
    writing, called_off = asyncio.Event(), asyncio.Event()

    class Writing:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        async def upsert(self, given: Sequence[Point]) -> None:
            if writing.is_set():
                await inner.upsert(given)
                return
            writing.set()
            await asyncio.shield(asyncio.create_task(self._late(given)))

        async def _late(self, given: Sequence[Point]) -> None:
            await called_off.wait()
            await inner.upsert(given)

    workspace = rig.services.workspace
    rig.services = replace(
        rig.services,
        workspace=lambda name: replace(workspace(name), vectors=Writing()),  # type: ignore[arg-type]
    )
    await rig.submit(TEXT, "d")
    terms = replace(rig.terms, lease=0.15)
    work = asyncio.create_task(run_ticket(rig.services, rig.queue.sent.popleft(), terms))
    await writing.wait()
    await rig.delete("d")
    await rig.drain()
    if then == "other":
        await rig.submit(OTHER, "d")
        await rig.drain()
    await asyncio.sleep(0.5)  # several beats
    called_off.set()
    await work
    await asyncio.sleep(0)
    stats = await rig.workspace().graph.stats()
    assert stats.documents == (then == "other")
    assert await points(rig) == expected(stats)
    assert await rig.workspace().graph.unindexed() == []
