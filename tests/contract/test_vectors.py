"""The vector store on every engine: Qdrant Edge, the server adapter against the stand-in, and
against the server that HELIOGRAPH_TEST_QDRANT_URL names, if any."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import math
import os
import random
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.domain import Hit, Kind, Point, Ref, Sparse, Vector, VectorQuery
from app.errors import BadModelOutput, Invalid, Misconfigured, Unavailable
from app.ports import VectorEngine, VectorStore
from app.stores.edge import EdgeEngine, EdgeVectors
from app.stores.qdrant import QdrantEngine, QdrantVectors
from app.stores.vectors import by_kind
from app.terms import AVERAGE_TERMS, document_sparse, query_sparse
from tests import qdrant_standin

DIMENSION = 8


@dataclass(frozen=True)
class Opened:
    """An engine that is open, whichever it is."""

    store: Callable[[str], VectorStore]
    ping: Callable[[], object]
    engine: VectorEngine


Opener = Callable[..., AbstractAsyncContextManager[Opened]]


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with qdrant_standin.running(tmp_path_factory.mktemp("qdrant")) as server:
        yield server.url


@pytest.fixture(params=["edge", "standin", "server"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the same store each time it is called in one test."""
    if request.param == "edge":
        return edge_opener(tmp_path / "vectors")
    if request.param == "standin":
        url: str | None = request.getfixturevalue("standin")
    else:
        url = os.environ.get("HELIOGRAPH_TEST_QDRANT_URL")
    if url is None:
        pytest.skip("HELIOGRAPH_TEST_QDRANT_URL names no Qdrant server")
    return qdrant_opener(url, prefix=f"test-{uuid.uuid4().hex[:12]}")


def edge_opener(folder: Path) -> Opener:
    @asynccontextmanager
    async def open_edge(
        model: str = "model-a", dimension: int = DIMENSION, *, reindex: bool = False
    ) -> AsyncIterator[Opened]:
        async with EdgeEngine.open(folder, model, dimension, reindex=reindex) as engine:
            yield Opened(lambda name: EdgeVectors(engine, name), engine.ping, engine)

    return open_edge


def qdrant_opener(url: str, prefix: str) -> Opener:
    @asynccontextmanager
    async def open_qdrant(
        model: str = "model-a", dimension: int = DIMENSION, *, reindex: bool = False
    ) -> AsyncIterator[Opened]:
        async with QdrantEngine.open(
            url, "", model, dimension, reindex=reindex, prefix=prefix
        ) as engine:
            yield Opened(lambda name: QdrantVectors(engine, name), engine.ping, engine)

    return open_qdrant


@pytest.fixture
async def opened(opener: Opener) -> AsyncIterator[Opened]:
    async with opener() as one:
        yield one


@pytest.fixture
def vectors(opened: Opened) -> VectorStore:
    return opened.store("one")


def axis(*parts: float) -> Vector:
    return (*parts, *[0.0] * (DIMENSION - len(parts)))


UNIT = axis(1)


def point(
    key: str,
    dense: Vector = UNIT,
    text: str = "",
    *,
    kind: Kind = Kind.CHUNK,
    document: str = "",
) -> Point:
    return Point(Ref(kind, key), dense, document_sparse(text, average=10), document)


def dense(vector: Vector, limit: int = 10, **more: object) -> VectorQuery:
    return VectorQuery(Kind.CHUNK, limit, dense=vector, **more)  # type: ignore[arg-type] # fields of the query


def words(text: str, limit: int = 10, **more: object) -> VectorQuery:
    return VectorQuery(Kind.CHUNK, limit, sparse=query_sparse(text), **more)  # type: ignore[arg-type] # fields of the query


async def found(vectors: VectorStore, query: VectorQuery) -> list[str]:
    [hits] = await vectors.search([query])
    return [hit.key for hit in hits]


# --- search --------------------------------------------------------------------------------------


async def test_dense_hits_come_by_cosine(vectors: VectorStore) -> None:
    await vectors.upsert(
        [point("far", axis(0, 3)), point("near", axis(5, 0.1)), point("between", axis(0.2, 0.2))]
    )
    [hits] = await vectors.search([dense(axis(2.0))])
    assert [hit.key for hit in hits] == ["near", "between", "far"]
    assert [hit.score for hit in hits] == pytest.approx([0.9998, 0.7071, 0.0], abs=1e-4)


async def test_sparse_hits_come_by_bm25(vectors: VectorStore) -> None:
    texts = {
        "rare": "the walrus sleeps",
        "common": "the dog runs and the dog barks",
        "both": "the walrus and the dog",
        "none": "a tree",
    }
    await vectors.upsert([point(key, text=text) for key, text in texts.items()])
    [hits] = await vectors.search([words("walrus dog")])
    assert hits[0].key == "both"
    assert {hit.key for hit in hits} == {"rare", "common", "both"}
    assert dict(hits) == pytest.approx(bm25("walrus dog", texts), rel=1e-4)


def bm25(query: str, texts: dict[str, str]) -> dict[str, float]:
    """The score by definition: sum of idf times the weights of `document_sparse`."""
    documents = {key: document_sparse(text, average=10) for key, text in texts.items()}
    scores: dict[str, float] = {}
    for term in query_sparse(query).indices:
        holders = {
            key: sparse.values[sparse.indices.index(term)]
            for key, sparse in documents.items()
            if term in sparse.indices
        }
        idf = math.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for key, weight in holders.items():
            scores[key] = scores.get(key, 0.0) + idf * weight
    return scores


async def test_many_queries_are_answered_in_their_order(vectors: VectorStore) -> None:
    await vectors.upsert(
        [
            point("c", axis(1), "apple"),
            point("e", axis(1), "apple", kind=Kind.ENTITY),
            point("r", axis(1), "apple", kind=Kind.RELATION),
        ]
    )
    apple = query_sparse("apple")
    answers = await vectors.search(
        [
            VectorQuery(Kind.RELATION, 5, sparse=apple),
            VectorQuery(Kind.CHUNK, 5, dense=axis(1)),
            VectorQuery(Kind.ENTITY, 5, sparse=query_sparse("")),
            VectorQuery(Kind.ENTITY, 5, dense=axis(1)),
            VectorQuery(Kind.CHUNK, 5, sparse=apple),
        ]
    )
    assert [[hit.key for hit in hits] for hits in answers] == [["r"], ["c"], [], ["e"], ["c"]]


async def test_ties_are_broken_by_key_also_at_the_cut(vectors: VectorStore) -> None:
    keys = [f"k{n:02}" for n in range(12)]
    shuffled = random.Random(1).sample(keys, len(keys))
    await vectors.upsert([point(key, axis(1), "same words") for key in shuffled])
    assert await found(vectors, dense(axis(1), 5)) == keys[:5]
    assert await found(vectors, words("words", 5)) == keys[:5]


async def test_within_limits_to_keys(vectors: VectorStore) -> None:
    await vectors.upsert([point(key, axis(1), "word") for key in "abcd"])
    assert await found(vectors, dense(axis(1), within=["d", "b", "unknown"])) == ["b", "d"]
    assert await found(vectors, words("word", within=["c"])) == ["c"]
    assert await found(vectors, words("word", within=[])) == []


async def test_within_takes_a_thousand_keys(vectors: VectorStore) -> None:
    await vectors.upsert([point(f"{n:04}", axis(1, n)) for n in range(1200)])
    even = [f"{n:04}" for n in range(0, 1200, 2)]
    keys = await found(vectors, dense(axis(1), 1000, within=even))
    assert sorted(keys) == even


async def test_all_of_three_thousand_keys_get_their_exact_scores_in_one_call(
    vectors: VectorStore,
) -> None:
    dice = random.Random(7)
    made = {f"{n:04}": tuple(dice.gauss(0, 1) for _ in range(DIMENSION)) for n in range(3300)}
    await vectors.upsert([point(key, vector, "word") for key, vector in made.items()])
    within = dice.sample(sorted(made), 3000)
    wanted = axis(1, 2)
    [hits] = await vectors.search([dense(wanted, 3000, within=within)])
    assert {hit.key for hit in hits} == set(within)
    scores = {key: _cosine(wanted, made[key]) for key in within}
    assert dict(hits) == pytest.approx(scores, abs=1e-5)


def _cosine(one: Vector, other: Vector) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / (math.hypot(*one) * math.hypot(*other))


async def test_a_text_without_a_vector_is_found_by_its_words(vectors: VectorStore) -> None:
    await vectors.upsert([point("a", axis(1), "word"), point("b", (), "word")])
    assert await found(vectors, dense(axis(1))) == ["a"]
    assert await found(vectors, words("word")) == ["a", "b"]


async def test_documents_limit_to_chunks_of_these(vectors: VectorStore) -> None:
    await vectors.upsert([point(f"c{n}", axis(1), "word", document=f"d{n % 3}") for n in range(6)])
    assert await found(vectors, dense(axis(1), documents=["d1", "other"])) == ["c1", "c4"]
    assert await found(vectors, words("word", documents=["d0", "d2"])) == ["c0", "c2", "c3", "c5"]
    assert await found(vectors, words("word", documents=[])) == []


async def test_nothing_stored_and_nothing_asked_give_nothing(vectors: VectorStore) -> None:
    assert await vectors.search([]) == []
    assert await vectors.search([dense(axis(1)), words("word"), dense(axis(1), 0)]) == [[], [], []]


async def test_rankings_of_a_thousand_points_are_exact(vectors: VectorStore) -> None:
    chance = random.Random(3)
    stored = {f"p{n}": tuple(chance.gauss(0, 1) for _ in range(DIMENSION)) for n in range(1000)}
    await vectors.upsert([point(key, vector) for key, vector in stored.items()])
    asked = tuple(chance.gauss(0, 1) for _ in range(DIMENSION))
    best = sorted(stored, key=lambda key: -cosine(asked, stored[key]))
    assert await found(vectors, dense(asked, 50)) == best[:50]


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (
        math.hypot(*one) * math.hypot(*other)
    )


# --- writing -------------------------------------------------------------------------------------


async def test_upsert_replaces_and_may_be_repeated(vectors: VectorStore) -> None:
    await vectors.upsert([point("k", axis(1), "old")])
    for _ in range(2):
        await vectors.upsert([point("k", axis(0, 1), "new")])
    assert await vectors.count(Kind.CHUNK) == 1
    assert await vectors.search([dense(axis(0, 1))]) == [[Hit("k", 1.0)]]
    assert await found(vectors, words("old")) == []
    assert await found(vectors, words("new")) == ["k"]


async def test_of_equal_keys_in_one_call_the_last_counts(vectors: VectorStore) -> None:
    await vectors.upsert([point("k", axis(1)), point("k", axis(0, 1))])
    assert await vectors.search([dense(axis(0, 1))]) == [[Hit("k", 1.0)]]


async def test_delete_takes_kinds_apart_and_missing_keys(vectors: VectorStore) -> None:
    await vectors.upsert([point("same", kind=kind) for kind in Kind])
    for _ in range(2):
        await vectors.delete([Ref(Kind.ENTITY, "same"), Ref(Kind.CHUNK, "never stored")])
    left = {kind: await vectors.count(kind) for kind in Kind}
    assert left == {kind: int(kind is not Kind.ENTITY) for kind in Kind}


async def test_no_points_and_no_refs_are_fine(vectors: VectorStore) -> None:
    await vectors.upsert([])
    await vectors.delete([])
    assert await vectors.count(Kind.CHUNK) == 0


async def test_many_large_points_go_through(vectors: VectorStore) -> None:
    sparse = Sparse(tuple(range(1, 2001)), (0.123456789,) * 2000)
    points = [Point(Ref(Kind.CHUNK, str(n)), axis(1), sparse) for n in range(700)]
    await vectors.upsert(points)
    assert await vectors.count(Kind.CHUNK) == 700


async def test_many_writers_and_readers_lose_nothing(vectors: VectorStore) -> None:
    async def write(writer: int) -> None:
        for n in range(10):
            await vectors.upsert([point(f"{writer}-{n}", axis(1), "word")])
            await vectors.search([dense(axis(1)), words("word")])

    await asyncio.gather(*(write(writer) for writer in range(8)))
    assert await vectors.count(Kind.CHUNK) == 80


async def test_odd_keys_are_kept_as_they_are(vectors: VectorStore) -> None:
    keys = ["a\tb", "日本\n", "'; DROP", "", "x" * 5000]
    await vectors.upsert([point(key, kind=Kind.RELATION) for key in keys])
    [hits] = await vectors.search([VectorQuery(Kind.RELATION, 10, dense=axis(1))])
    assert {hit.key for hit in hits} == set(keys)


@pytest.mark.parametrize(
    "bad", [axis(math.nan), axis(math.inf), axis(1, -math.inf), axis(0.0)], ids=str
)
async def test_a_vector_without_direction_is_the_models_fault(
    vectors: VectorStore, bad: Vector
) -> None:
    with pytest.raises(BadModelOutput, match="'culprit'"):
        await vectors.upsert([point("fine"), point("culprit", bad)])
    assert await vectors.count(Kind.CHUNK) == 0
    with pytest.raises(BadModelOutput, match="query"):
        await vectors.search([dense(bad)])


async def test_another_dimension_is_refused_with_the_way_out(vectors: VectorStore) -> None:
    for call in (
        lambda: vectors.upsert([Point(Ref(Kind.CHUNK, "k"), (1.0, 2.0), Sparse((), ()))]),
        lambda: vectors.search([dense((1.0, 2.0))]),
    ):
        with pytest.raises(Invalid, match=r"model-a.*app\.cli reindex"):
            await call()


async def test_a_query_has_one_kind_of_vector(vectors: VectorStore) -> None:
    for query in (
        VectorQuery(Kind.CHUNK, 5),
        VectorQuery(Kind.CHUNK, 5, dense=axis(1), sparse=query_sparse("x")),
    ):
        with pytest.raises(Invalid):
            await vectors.search([query])


# --- workspaces ----------------------------------------------------------------------------------


async def test_two_workspaces_do_not_see_each_other(opened: Opened) -> None:
    one, other = opened.store("one"), opened.store("other")
    await one.upsert([point("k", axis(1), "word", document="d")])
    await other.upsert([point("k", axis(0, 1), "thing", document="d")])
    assert await one.search([dense(axis(1))]) == [[Hit("k", 1.0)]]
    for query in (words("word"), words("word", within=["k"]), words("word", documents=["d"])):
        assert await found(one, query) == ["k"]
        assert await found(other, query) == []
    await other.delete([Ref(Kind.CHUNK, "k")])
    assert [await one.count(Kind.CHUNK), await other.count(Kind.CHUNK)] == [1, 0]


async def test_another_workspace_moves_no_score(opened: Opened) -> None:
    one, other = opened.store("one"), opened.store("other")
    await one.upsert([point("a", axis(1, 0.3), "walrus dog"), point("b", axis(1), "dog dog")])
    queries = [words("walrus dog"), dense(axis(1, 1)), words("dog", within=["b"])]
    before = await one.search(queries)
    await other.upsert([point(f"x{n}", axis(1, 1), "walrus walrus") for n in range(50)])
    assert await one.search(queries) == before


async def test_another_workspace_is_kept_out_after_reopening_and_while_it_gets_its_first_points(
    opener: Opener,
) -> None:
    query = dense(axis(1))
    async with opener() as first:
        one, other = first.store("one"), first.store("other")
        await one.upsert([point("k", axis(1))])
        found, *_ = await asyncio.gather(
            asyncio.gather(*(one.search([query]) for _ in range(20))),
            *(other.upsert([point(f"x{n}", axis(1))]) for n in range(20)),
        )
        assert found == [[[Hit("k", 1.0)]]] * 20
    async with opener() as second:
        assert await second.store("one").search([query]) == [[Hit("k", 1.0)]]


async def test_deleted_and_replaced_texts_move_no_score(vectors: VectorStore) -> None:
    kept = [point("a", text="walrus dog"), point("b", text="dog dog")]
    await vectors.upsert(kept)
    before = await vectors.search([words("walrus dog")])
    others = [point(f"x{n}", text="walrus") for n in range(20)]
    await vectors.upsert(others)
    await vectors.upsert([point("a", text="cat"), *others])
    await vectors.delete([one.ref for one in others])
    await vectors.upsert(kept)
    assert await vectors.search([words("walrus dog")]) == before


# --- opening -------------------------------------------------------------------------------------


async def test_what_was_stored_is_there_after_reopening(opener: Opener) -> None:
    async with opener() as first:
        await first.store("one").upsert([point("k", axis(1), "word", document="d")])
    async with opener() as second:
        assert await found(second.store("one"), words("word", documents=["d"])) == ["k"]


async def test_ping_gives_a_version(opened: Opened) -> None:
    name, version = (await opened.ping()).split()  # type: ignore[misc] # a coroutine of either engine
    assert name in {"qdrant", "qdrant-edge"}
    assert version[0].isdigit()


@pytest.mark.parametrize(("model", "dimension"), [("model-b", DIMENSION), ("model-a", 4)])
async def test_another_model_is_refused_until_reindexed(
    opener: Opener, model: str, dimension: int
) -> None:
    async with opener() as old:
        await old.store("one").upsert([point("k")])
    with pytest.raises(Misconfigured, match=r"app\.cli reindex"):
        async with opener(model, dimension):
            pass
    ones = (1.0,) * dimension
    async with (
        opener(model, dimension, reindex=True) as new,
        new.engine.beside(model, dimension) as beside,
    ):
        assert await beside.store("one").count(Kind.CHUNK) == 0
        await beside.store("one").upsert([Point(Ref(Kind.CHUNK, "k2"), ones, Sparse((), ()))])
    async with opener() as old:  # not switched yet: the old vectors still serve
        assert await old.store("one").count(Kind.CHUNK) == 1
    async with (
        opener(model, dimension, reindex=True) as new,
        new.engine.beside(model, dimension) as beside,
    ):
        assert await beside.store("one").count(Kind.CHUNK) == 1  # what was made is kept
        await beside.hold()
        await beside.switch()
    async with opener(model, dimension) as new:
        assert await found(new.store("one"), VectorQuery(Kind.CHUNK, 5, dense=ones)) == ["k2"]
        await new.engine.discard()
    with pytest.raises(Misconfigured, match=r"app\.cli reindex"):
        async with opener():
            pass
    async with (  # the old ones are gone, not just hidden
        opener(model, dimension, reindex=True) as again,
        again.engine.beside("model-a", DIMENSION) as beside,
    ):
        assert await beside.store("one").count(Kind.CHUNK) == 0


async def test_models_whose_names_look_alike_are_told_apart(opener: Opener) -> None:
    async with opener("Org/Model_1"):
        pass
    with pytest.raises(Misconfigured):
        async with opener("org-model-1"):
            pass


async def test_a_closed_store_is_unavailable(opener: Opener) -> None:
    async with opener() as one:
        store = one.store("one")
    if isinstance(store, EdgeVectors):
        with pytest.raises(Unavailable):
            await store.count(Kind.CHUNK)


# --- the folder ----------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from pathlib import Path
from typing import Any
from app.domain import Kind, Point, Ref, Sparse
from app.stores.edge import EdgeEngine, EdgeVectors
async def main():
    async with EdgeEngine.open(Path(sys.argv[1]), "model-a", 8) as engine:
        store = EdgeVectors(engine, "one")
        await store.upsert([Point(Ref(Kind.CHUNK, "k"), (1.0,) * 8, Sparse((), ()))])
        print("ready", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_a_second_process_is_refused_and_a_killed_one_loses_nothing(tmp_path: Path) -> None:
    open_edge = edge_opener(tmp_path)
    with holding(tmp_path) as process:
        with pytest.raises(Misconfigured, match="in use by another process"):
            async with open_edge():
                pass
        process.kill()
        process.wait()
    async with open_edge() as after:
        assert await after.store("one").count(Kind.CHUNK) == 1


def holding(folder: Path) -> subprocess.Popen[str]:
    """A process that has stored a point and keeps the folder open."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


async def test_a_start_that_was_killed_half_way_is_repaired(tmp_path: Path) -> None:
    async with EdgeEngine.open(tmp_path, "model-a", DIMENSION):
        pass
    shard = shard_folder(tmp_path, "entities")
    shard.rename(shard.with_name(f"{shard.name}.new"))
    async with edge_opener(tmp_path)() as after:
        await after.store("one").upsert([point("k", kind=Kind.ENTITY)])
        assert await after.store("one").count(Kind.ENTITY) == 1


def shard_folder(folder: Path, name: str) -> Path:
    [shard] = folder.glob(f"*_{name}__*")
    return shard


@pytest.mark.parametrize("manifest", ["", "[]", '{"model": "x"}', json.dumps({"dimension": 3})])
async def test_a_damaged_manifest_is_named(tmp_path: Path, manifest: str) -> None:
    write(tmp_path / "manifest.json", manifest)
    with pytest.raises(Misconfigured, match=r"manifest\.json"):
        async with edge_opener(tmp_path)():
            pass


def write(file: Path, text: str) -> None:
    file.write_text(text)


# --- the server ----------------------------------------------------------------------------------


async def test_many_starters_at_once_make_one_set_of_collections(standin: str) -> None:
    async def start(n: int) -> None:
        async with qdrant_opener(standin, "race")() as one:
            await one.store("one").upsert([point(f"k{n}")])

    await asyncio.gather(*(start(n) for n in range(6)))
    async with qdrant_opener(standin, "race")() as one:
        assert await one.store("one").count(Kind.CHUNK) == 6


async def test_a_server_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with qdrant_standin.running(tmp_path) as server:
        async with qdrant_opener(server.url, "p")() as one:
            store = one.store("one")
            await store.upsert([point("k")])
            server.process.kill()
            server.process.wait()
            for call in (
                lambda: store.upsert([point("k")]),
                lambda: store.search([dense(axis(1)), words("x")]),
                lambda: store.delete([Ref(Kind.CHUNK, "k")]),
                lambda: store.count(Kind.CHUNK),
                one.ping,
            ):
                with pytest.raises(Unavailable):
                    await call()  # type: ignore[misc] # coroutines of several types
    with pytest.raises(Unavailable):
        async with qdrant_opener(server.url, "p")():
            pass


async def test_a_restarted_server_serves_the_same_client_again(tmp_path: Path) -> None:
    with qdrant_standin.running(tmp_path) as server:
        port = int(server.url.rsplit(":", 1)[1])
        async with qdrant_opener(server.url, "p")() as one:
            await one.store("one").upsert([point("k")])
            server.process.kill()
            server.process.wait()
            with qdrant_standin.running(tmp_path, port=port):
                assert await one.store("one").count(Kind.CHUNK) == 1


async def test_the_key_is_sent_and_a_wrong_one_refused_at_start(tmp_path: Path) -> None:
    with qdrant_standin.running(tmp_path, api_key="secret") as server:
        async with QdrantEngine.open(server.url, "secret", "model-a", DIMENSION) as engine:
            assert await QdrantVectors(engine, "one").count(Kind.CHUNK) == 0
        with pytest.raises(Misconfigured, match="HELIOGRAPH_VECTOR_KEY"):
            async with QdrantEngine.open(server.url, "wrong", "model-a", DIMENSION):
                pass


async def test_a_lost_collection_says_what_to_do(standin: str) -> None:
    async with QdrantEngine.open(standin, "", "model-a", DIMENSION, prefix="lost") as engine:
        aliases = await engine.server.aliases()
        await engine.server.drop(aliases[engine.names[Kind.CHUNK]])
        with pytest.raises(Unavailable, match=r"app\.cli reindex"):
            await QdrantVectors(engine, "one").upsert([point("k")])


@pytest.mark.parametrize(("own_version", "warnings"), [("1.20.9", 0), ("1.17.1", 1), ("dev", 1)])
async def test_a_server_of_another_minor_version_is_only_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, own_version: str, warnings: int
) -> None:
    with (
        qdrant_standin.running(tmp_path, own_version=own_version) as server,
        caplog.at_level(logging.WARNING, logger="heliograph.vectors"),
    ):
        async with qdrant_opener(server.url, "p")() as one:
            assert await one.store("one").count(Kind.CHUNK) == 0
    assert len(caplog.records) == warnings


def test_no_batch_comes_near_what_a_server_refuses() -> None:
    long = tuple(1 / (n + 3) for n in range(4096))
    sparse = Sparse(tuple(2**32 - n for n in range(1, 1200)), (0.123456789012345,) * 1199)
    points = [Point(Ref(Kind.CHUNK, f"{n}"), long, sparse, "d" * 200) for n in range(400)]
    batches = [batch for _, batch in by_kind(points)]
    assert sorted(one.ref.key for batch in batches for one in batch) == sorted(map(str, range(400)))
    sizes = [len(json.dumps([[one.dense, one.sparse] for one in batch])) for batch in batches]
    assert max(sizes) < 16_000_000


# --- real questions ------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "floor"), [("2wiki-101", 0.70), ("hotpotqa-train", 0.77), ("lihua-world", 0.88)]
)
async def test_words_find_the_passages_of_real_questions(
    tmp_path: Path, shared_dir: Path, name: str, floor: float
) -> None:
    """Recall among the first five; the floors are the measured values less two questions."""
    passages = [
        row
        for row in rows(shared_dir / "data" / name / "corpus.jsonl.gz")
        if row.get("subset101", True)
    ]
    questions = [
        row
        for row in rows(shared_dir / "data" / name / "questions.jsonl.gz")
        if row["gold_passage_ids"]
    ]
    average = AVERAGE_TERMS[Kind.CHUNK]
    points = [
        Point(
            Ref(Kind.CHUNK, row["id"]),
            UNIT,
            document_sparse(f"{row['title']}\n{row['text']}", average=average),
        )
        for row in passages
    ]
    async with edge_opener(tmp_path)() as opened:
        store = opened.store("one")
        await store.upsert(points)
        answers = await store.search([words(row["question"], 5) for row in questions])
    recalls = [
        len({hit.key for hit in hits} & set(row["gold_passage_ids"]))
        / len(set(row["gold_passage_ids"]))
        for hits, row in zip(answers, questions, strict=True)
    ]
    assert sum(recalls) / len(recalls) >= floor


def rows(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
