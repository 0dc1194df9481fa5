"""The fingerprint on every store: one input, one hash; one difference, one line of the diff."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain import (
    Clustering,
    Extraction,
    Kind,
    Options,
    Plan,
    Point,
    Ref,
    Revision,
    Ruling,
    State,
    Step,
)
from app.llm.tokens import TiktokenTokenizer
from app.ports import Journal, VectorStore, Workspace
from app.resolution.settlement import Settlement
from app.rules.reporter import RuleReporter
from app.stores.edge import EdgeEngine, EdgeVectors
from app.stores.qdrant import QdrantEngine, QdrantVectors
from app.terms import document_sparse
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump, fingerprint
from tests import make, qdrant_standin
from tests.contract.conftest import Library, Stores, open_stores
from tests.servers import Server
from tests.unit.query.library import HashedWords
from workers.stages import cluster, index, report

Told = Mapping[str, Extraction]

CURIE = {
    "c1": make.extraction(
        make.entity(aliases=["M. Curie"]), make.entity("Radium", "an element", kind="substance"),
        make.relation(), about=["Marie Curie"],
    ),
    "c2": make.extraction(make.entity("Paris", "a city", kind="place")),
}  # fmt: skip
NOBEL = {
    "n1": make.extraction(
        make.entity("Marie Curie", "a laureate"), make.entity("Nobel Prize", "a prize"),
        make.relation("Marie Curie", "Nobel Prize", "she won it", keywords=["award"]),
        make.relation("Radium", "Marie Curie", "it made her known", keywords=["fame"], strength=2),
    )
}  # fmt: skip
OTHER = {"o1": make.extraction(make.entity("marie curie", "another spelling"))}
REVISIONS = {
    name: Revision(f"{name}.txt", "text/plain", 11, f"{name} source", {"year": 1903}, "1903", name)
    for name in ("curie", "nobel", "other")
}


@dataclass
class Shelf:
    """A workspace that is filled by hand, and the worker's indexing on top."""

    library: Library
    workspace: Workspace
    journal: Journal

    async def add(
        self, document_id: str, told: Told, *, revision: str = "", settled: bool = True
    ) -> None:
        job_id = await self.library.ingest(document_id, told, REVISIONS[revision or document_id])
        await self.journal.close(self.workspace.name, job_id, State.DONE)
        if settled:
            await self.settle()

    async def delete(self, document_id: str) -> None:
        await self.library.delete(document_id)
        await self.settle()

    async def settle(self) -> None:
        await self.library.profile_all()
        stale = await self.workspace.graph.unindexed()
        models: Any = SimpleNamespace(embedder=HashedWords())
        gone = [one.ref for one in stale if one.gone]
        await self.workspace.vectors.delete(gone)
        await self.workspace.graph.forget(gone)
        await index.write(self.workspace, models, [one.ref for one in stale if not one.gone])

    async def divide(self) -> None:
        """Into communities, with reports by rules."""
        tokenizer = TiktokenTokenizer()
        reporter = RuleReporter(tokenizer)
        models: Any = SimpleNamespace(
            tokenizer=tokenizer, reporter=reporter, plain_reporter=reporter
        )
        step = Step("s", "job", self.workspace.name, Plan.COMMUNITIES, "", "cluster", (), 1)
        await self.workspace.communities.begin("job", Clustering(levels=2, size=2))
        await cluster.run(self.workspace, models, step)
        for shard in await report.due(self.workspace, step):
            await report.run(self.workspace, models, replace(step, shard=tuple(shard)))
        await self.settle()

    async def lines(self) -> list[str]:
        return [line async for line in dump(self.workspace)]


def shelf_of(stores: Stores, vectors: VectorStore, name: str) -> Shelf:
    blobs: Any = None  # nothing here reads originals
    bound = {
        "name": name, "documents": stores.documents(name), "graph": stores.graph(name),
        "vectors": vectors, "blobs": blobs, "options": Options(), "archive": stores.archive(name),
        "names": stores.names(name), "evaluations": stores.evaluations(name),
        "communities": stores.communities(name),
    }  # fmt: skip
    workspace = Workspace(**bound)  # type: ignore[arg-type]  # of as many types as fields
    return Shelf(Library.of(stores, name), workspace, stores.journal)


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with qdrant_standin.running(tmp_path_factory.mktemp("qdrant")) as server:
        yield server.url


@asynccontextmanager
async def open_vectors(kind: str, folder: Path, url: str) -> AsyncIterator[Any]:
    model, dimension = HashedWords.model, HashedWords.dimension
    if kind == "edge":
        async with EdgeEngine.open(folder / "vectors", model, dimension) as engine:
            yield lambda name: EdgeVectors(engine, name)
    else:
        async with QdrantEngine.open(url, "", model, dimension, prefix=make.name()) as server:
            yield lambda name: QdrantVectors(server, name)


@pytest.fixture(params=["edge", "standin"])
async def vectors(request: pytest.FixtureRequest, tmp_path: Path, standin: str) -> Any:
    async with open_vectors(request.param, tmp_path, standin) as opened:
        yield opened


@pytest.fixture
async def shelf(stores: Stores, vectors: Any) -> Shelf:
    name = make.name()
    return shelf_of(stores, vectors(name), name)


@pytest.fixture
async def another(stores: Stores, vectors: Any) -> Shelf:
    """Of another name, in the same stores."""
    name = make.name()
    return shelf_of(stores, vectors(name), name)


async def assert_equal(one: Shelf, other: Shelf) -> None:
    assert list(difference(await one.lines(), await other.lines())) == []
    assert (await fingerprint(one.workspace)).hash == (await fingerprint(other.workspace)).hash


# --- equal ----------------------------------------------------------------------------------------


async def test_an_empty_workspace_has_a_fingerprint(shelf: Shelf, another: Shelf) -> None:
    await assert_equal(shelf, another)
    found = await fingerprint(shelf.workspace)
    assert all(part.count == 0 for part in found.parts.values())


async def test_the_order_of_arrival_does_not_show(shelf: Shelf, another: Shelf) -> None:
    for name, told in (("curie", CURIE), ("nobel", NOBEL), ("other", OTHER)):
        await shelf.add(name, told)
    for name, told in (("other", OTHER), ("nobel", NOBEL), ("curie", CURIE)):
        await another.add(name, told, settled=False)
    await another.settle()
    ruling = Ruling("marie curie", "nobel prize", False, "user", "not one thing", 1.0)
    await shelf.workspace.names.rule([ruling])
    await another.workspace.names.rule([ruling._replace(at=2.0)])
    for one in (shelf, another):
        await one.divide()
    await assert_equal(shelf, another)
    parts = (await fingerprint(shelf.workspace)).parts
    assert all(part.count for part in parts.values())


async def test_what_was_added_and_deleted_does_not_show(shelf: Shelf, another: Shelf) -> None:
    await shelf.add("nobel", NOBEL)
    await another.add("curie", CURIE)
    await another.add("nobel", NOBEL)
    await another.add("other", OTHER)
    await another.delete("curie")
    await another.delete("other")
    await assert_equal(shelf, another)


async def test_a_replaced_version_does_not_show(shelf: Shelf, another: Shelf) -> None:
    await shelf.add("curie", {"k1": CURIE["c1"]})
    await another.add("curie", OTHER, revision="other")
    await another.add("curie", {"k1": CURIE["c1"]})
    await assert_equal(shelf, another)


async def test_which_of_its_names_is_an_entity_s_key_does_not_show(
    shelf: Shelf, another: Shelf
) -> None:
    told = {"s1": make.extraction(
        make.entity("Madame Curie", "a teacher"), make.entity("Laboratory", "a room"),
        make.relation("Madame Curie", "Laboratory", "she worked there"),
    )}  # fmt: skip
    for one, key in ((shelf, "marie curie"), (another, "madame curie")):
        for name, said in (("curie", CURIE), ("other", told)):
            await one.add(name, said, settled=False)
        placed = {"marie curie": key, "madame curie": key}
        await one.library.settle(placed)
        await one.library.move()
        await one.settle()
        [entity] = await one.workspace.graph.entities(list(placed))
        assert entity.key == key
    await assert_equal(shelf, another)
    parts = (await fingerprint(shelf.workspace)).parts
    await another.library.settle()
    await another.workspace.names.settle(
        Settlement(await another.workspace.names.version(), placed={"marie curie": "marie curie"})
    )
    await another.library.move()
    await another.settle()
    assert (await fingerprint(another.workspace)).parts["mentions"] != parts["mentions"]


async def test_a_cancelled_replacement_does_not_show(shelf: Shelf, another: Shelf) -> None:
    await shelf.add("curie", CURIE)
    await another.add("curie", CURIE)
    job_id = await another.library.open("curie", REVISIONS["other"])
    await another.journal.close(another.workspace.name, job_id, State.CANCELLED)
    await assert_equal(shelf, another)


@pytest.mark.server
async def test_stores_agree(tmp_path: Path, neo4j: Server, standin: str) -> None:
    """All four pairs of a graph store and a vector store."""
    hashes = set()
    texts: list[list[str]] = []
    for backend in ("sqlite", "neo4j"):
        async with open_stores(backend, tmp_path, neo4j) as stores:
            for kind in ("edge", "standin"):
                async with open_vectors(kind, tmp_path / backend, standin) as vectors:
                    name = make.name()
                    shelf = shelf_of(stores, vectors(name), name)
                    await shelf.add("curie", CURIE)
                    await shelf.add("other", OTHER)
                    await shelf.add("nobel", NOBEL)
                    await shelf.delete("other")
                    hashes.add((await fingerprint(shelf.workspace)).hash)
                    texts.append(await shelf.lines())
    for lines in texts[1:]:
        assert list(difference(texts[0], lines)) == []
    assert len(hashes) == 1


# --- different ------------------------------------------------------------------------------------


def but(told: Told, chunk: str, **changes: Any) -> Told:
    """The same with another first entity or relation of a chunk."""
    extraction = told[chunk]
    if entity := changes.get("entity"):
        first, *rest = extraction.entities
        changed = replace(extraction, entities=(replace(first, **entity), *rest))
    else:
        one, *others = extraction.relations
        changed = replace(extraction, relations=(replace(one, **changes["relation"]), *others))
    return {**told, chunk: changed}


@pytest.mark.parametrize(
    ("told", "named"),
    [
        (but(CURIE, "c1", entity={"description": "a chemist"}), "mentions"),
        (but(CURIE, "c1", entity={"kind": "chemist"}), "entities"),
        (but(CURIE, "c1", entity={"aliases": ("Madame",)}), "aliases"),
        (but(CURIE, "c1", relation={"strength": 6.0}), "weight"),
        (but(CURIE, "c1", relation={"keywords": ("find",)}), "tally"),
        ({**CURIE, "c3": make.extraction()}, "extra chunks curie#2"),
        ({"c1": CURIE["c1"]}, "missing chunks curie#1"),
    ],
)
async def test_what_a_chunk_says_shows(
    shelf: Shelf, another: Shelf, told: Told, named: str
) -> None:
    await shelf.add("curie", CURIE)
    await another.add("curie", told)
    one, other = await fingerprint(shelf.workspace), await fingerprint(another.workspace)
    assert one.hash != other.hash
    assert named in "\n".join(difference(await shelf.lines(), await another.lines()))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "x.txt"), ("media_type", "text/html"), ("source", "other source"),
        ("metadata", {"year": 1904}), ("date", "1904"), ("title", "x"), ("text", "other text"),
    ],
)  # fmt: skip
async def test_what_a_document_is_shows(
    shelf: Shelf, another: Shelf, field: str, value: Any
) -> None:
    await shelf.library.ingest("d", {}, REVISIONS["curie"])
    await another.library.ingest("d", {}, replace(REVISIONS["curie"], **{field: value}))
    [line] = difference(await shelf.lines(), await another.lines())
    assert line.startswith("changed documents d: ")
    assert field in line


async def test_a_lost_a_strange_and_a_changed_point_show(shelf: Shelf) -> None:
    await shelf.add("curie", CURIE)
    before = await shelf.lines()
    entity = Ref(Kind.ENTITY, "marie curie")
    points, _ = await shelf.workspace.vectors.scroll(Kind.ENTITY)
    [kept] = [point for point in points if point.ref == entity]
    changed = replace(kept, dense=tuple(reversed(kept.dense)))
    strange = Point(Ref(Kind.CHUNK, "nobody"), kept.dense, kept.sparse, "d")
    await shelf.workspace.vectors.upsert([changed, strange])
    await shelf.workspace.vectors.delete([Ref(Kind.CHUNK, "c2")])
    found = list(difference(before, await shelf.lines()))
    assert [line.partition(":")[0] for line in found] == [
        "extra points chunk ?nobody",
        "missing points chunk curie#1",
        "changed points entity marie curie",
    ]
    assert "dense" in found[2]
    await shelf.workspace.vectors.upsert([kept])
    await shelf.workspace.vectors.delete([strange.ref])
    assert list(difference(before, await shelf.lines())) == ["missing points chunk curie#1"]


# --- points, as they are read --------------------------------------------------------------------


def point(key: str, text: str) -> Point:
    dense = (0.6, 0.8, *[0.0] * (HashedWords.dimension - 2))
    return Point(Ref(Kind.CHUNK, key), dense, document_sparse(text, average=10), "d")


async def test_stored_points_are_read_by_reference_and_page_by_page(vectors: Any) -> None:
    here, neighbour = vectors(make.name()), vectors(make.name())
    points = [point(f"k{n}", f"words {n}") for n in range(5)]
    await here.upsert([*points, replace(point("bare", "words only"), dense=())])
    await neighbour.upsert([point("k1", "of another workspace")])
    [found] = await here.read([Ref(Kind.CHUNK, "k3"), Ref(Kind.CHUNK, "none")])
    assert (found.ref, found.document_id) == (points[3].ref, "d")
    assert found.dense == pytest.approx(points[3].dense)
    assert dict(zip(*found.sparse, strict=True)) == pytest.approx(
        dict(zip(*points[3].sparse, strict=True))
    )
    seen, after, more = [], "", True
    while more:
        page, after = await here.scroll(Kind.CHUNK, after=after, limit=2)
        seen += page
        more = bool(after)
    assert sorted(one.ref.key for one in seen) == ["bare", "k0", "k1", "k2", "k3", "k4"]
    assert [one.dense for one in seen if one.ref.key == "bare"] == [()]
    assert await here.scroll(Kind.ENTITY) == ([], "")
    assert await here.read([]) == []
