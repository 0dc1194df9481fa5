"""New vectors beside those in use, on every engine: who sees what amid and after a switch."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.domain import Kind, Point, Ref, VectorQuery
from app.errors import Conflict, Unavailable
from app.stores import qdrant
from app.stores.qdrant import QdrantEngine
from app.terms import query_sparse
from tests.contract import test_vectors
from tests.contract.test_vectors import DIMENSION, Opened, Opener, axis, dense, found, point

opener, standin = test_vectors.opener, test_vectors.standin
TERMS = query_sparse("word")


def made(key: str, digest: str) -> Point:
    return Point(Ref(Kind.CHUNK, key), axis(1), TERMS, "d", digest)


async def test_digests_and_lists_are_of_what_is_stored(opener: Opener) -> None:
    async with opener() as one:
        store = one.store("one")
        await store.upsert([made("a", "1"), made("b", "2"), point("c")])
        await one.store("other").upsert([made("a", "9")])
        refs = [Ref(Kind.CHUNK, key) for key in "abcd"]
        assert await store.digests(refs) == dict(zip(refs, ["1", "2", ""], strict=False))
        assert await store.digests([]) == {}
        listed, after = await store.listed(Kind.CHUNK, limit=2)
        rest, end = await store.listed(Kind.CHUNK, after=after, limit=2)
        assert sorted(listed + rest) == refs[:3]
        assert end == ""


async def test_a_switch_within_a_model_is_seen_by_all_that_are_open(
    opener: Opener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(qdrant, "DRAIN_SECONDS", 0)
    async with opener() as one:
        store = one.store("one")
        await store.upsert([made("old", "1")])
        async with one.engine.beside("model-a", DIMENSION) as beside:
            await beside.store("one").upsert([made("new", "1")])
            assert await found(store, dense(axis(1))) == ["old"]
            await store.upsert([made("later", "1")])
            await beside.hold()
            for call in (store.upsert([made("x", "1")]), store.delete([Ref(Kind.CHUNK, "old")])):
                with pytest.raises(Unavailable) as refused:
                    await call
                assert refused.value.blameless
            assert await found(store, dense(axis(1))) == ["later", "old"]
            await beside.switch()
            assert await found(store, dense(axis(1))) == ["new"]
        await store.upsert([made("after", "1")])
        assert await found(store, VectorQuery(Kind.CHUNK, 5, sparse=TERMS)) == ["after", "new"]
        assert await one.engine.discard() == []
        async with one.engine.beside("model-a", DIMENSION) as beside:  # and once more
            assert await beside.store("one").count(Kind.CHUNK) == 0
            await beside.hold()
            await beside.switch()
        assert await store.count(Kind.CHUNK) == 0
    async with opener() as again:
        assert await again.store("one").count(Kind.CHUNK) == 0


async def test_a_switch_that_is_cancelled_halfway_is_made_or_not_but_not_half(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant, "DRAIN_SECONDS", 0)

    async def switched(one: Opened, pause: int) -> None:
        async with one.engine.beside("model-a", DIMENSION) as beside:
            await beside.store("one").upsert([made("kept", "1"), made("new", "1")])
            await beside.hold()
            switch = asyncio.create_task(beside.switch())
            for _ in range(pause):
                await asyncio.sleep(0)
            switch.cancel()
            await asyncio.wait({switch})

    for pause in range(4):
        async with opener() as one:
            await one.store("one").upsert([made("kept", "1")])
            await switched(one, pause)
            await one.engine.discard()
            await one.store("one").upsert([made(f"after-{pause}", "1")])
            seen = await found(one.store("one"), dense(axis(1)))
        async with opener() as again:
            assert await found(again.store("one"), dense(axis(1))) == seen
            assert f"after-{pause}" in seen


async def test_nothing_is_made_amid_a_deletion_of_what_is_not_in_use(tmp_path: Path) -> None:
    async with test_vectors.edge_opener(tmp_path)() as one:
        async with one.engine.beside("model-a", DIMENSION):
            pass
        discarding = asyncio.create_task(one.engine.discard())
        await asyncio.sleep(0)
        with pytest.raises(Conflict):
            async with one.engine.beside("model-a", DIMENSION):
                pass
        with pytest.raises(Conflict):
            await one.engine.discard()
        assert len(await discarding) == len(Kind)
        async with one.engine.beside("model-a", DIMENSION) as beside:
            await beside.store("one").upsert([made("new", "1")])


async def test_what_is_left_without_a_switch_changes_nothing(opener: Opener) -> None:
    async with opener() as one:
        store = one.store("one")
        await store.upsert([made("old", "1")])
        with pytest.raises(ZeroDivisionError):
            async with one.engine.beside("model-a", DIMENSION) as beside:
                await beside.store("one").upsert([made("new", "1")])
                await beside.hold()
                raise ZeroDivisionError
        await store.upsert([made("more", "1")])  # nobody waits any more
        assert await found(store, dense(axis(1))) == ["more", "old"]
        async with one.engine.beside("model-a", DIMENSION) as beside:
            with pytest.raises(Conflict):
                await beside.switch()
        assert len(await one.engine.discard()) == len(Kind)
        assert await store.count(Kind.CHUNK) == 2


async def test_after_a_switch_to_another_model_the_open_one_reads_and_does_not_write(
    opener: Opener,
) -> None:
    async with opener() as old:
        store = old.store("one")
        await store.upsert([made("old", "1")])
        async with old.engine.beside("model-b", 4) as beside:
            ones = (1.0,) * 4
            await beside.store("one").upsert([Point(Ref(Kind.CHUNK, "new"), ones, TERMS)])
            await beside.hold()
            await beside.switch()
        assert await found(store, dense(axis(1))) == ["old"]
        with pytest.raises(Unavailable, match="another embedding model"):
            await store.upsert([made("x", "1")])
    async with opener("model-b", 4) as new:
        query = VectorQuery(Kind.CHUNK, 5, dense=ones)
        assert await found(new.store("one"), query) == ["new"]


async def test_a_hold_of_a_killed_process_lapses(standin: str) -> None:
    async with QdrantEngine.open(standin, "", "model-a", DIMENSION, prefix="lapse") as engine:
        store = qdrant.QdrantVectors(engine, "one")
        await store.upsert([made("a", "1")])
        target = (await engine.server.aliases())[engine.names[Kind.CHUNK]]
        await engine.server.set_aliases({engine.server.hold_until(1.0): target})
        await store.upsert([made("b", "1")])
        async with engine.beside("model-a", DIMENSION) as beside:
            assert not await beside.hold()
            assert await beside.hold()


async def test_two_that_make_the_same_do_each_other_no_harm(
    standin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant, "DRAIN_SECONDS", 0)
    async with QdrantEngine.open(standin, "", "model-a", DIMENSION, prefix="two") as engine:
        store = qdrant.QdrantVectors(engine, "one")
        await store.upsert([made("old", "1")])
        async with engine.beside("model-a", DIMENSION) as first:
            async with engine.beside("model-a", DIMENSION) as second:
                await second.store("one").upsert([made("new", "1")])
                await first.hold()
                await second.hold()
            with pytest.raises(Unavailable):  # the first one still has writers wait
                await store.upsert([made("x", "1")])
            async with engine.beside("model-a", DIMENSION) as third:
                await first.switch()
                await third.hold()
                for call in (third.store("one").upsert([made("y", "1")]), third.switch()):
                    with pytest.raises(Conflict):
                        await call
        assert await found(store, dense(axis(1))) == ["new"]
        await store.upsert([made("later", "1")])


async def test_searches_fail_at_no_moment_of_a_switch(
    opener: Opener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(qdrant, "DRAIN_SECONDS", 0.2)
    async with opener() as one:
        store, done = one.store("one"), asyncio.Event()
        await store.upsert([made("k", "1")])

        async def ask() -> int:
            asked = 0
            while not done.is_set():
                assert await found(store, dense(axis(1))) == ["k"]
                asked += 1
            return asked

        asking = [asyncio.create_task(ask()) for _ in range(3)]
        for _ in range(3):
            async with one.engine.beside("model-a", DIMENSION) as beside:
                await beside.store("one").upsert([made("k", "1")])
                await beside.hold()
                await beside.switch()
        done.set()
        assert all(await asyncio.gather(*asking))
