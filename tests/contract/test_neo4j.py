"""What only Neo4j has to prove: plans, locks between transactions, the picture in its browser."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import app.stores.neo4j
import migrations
from app.domain import Extraction, Kind
from app.errors import Invalid, Misconfigured, Unavailable
from app.stores.neo4j import Neo4jDocuments, Neo4jGraph, Neo4jNames
from app.stores.neo4j.database import (
    SCHEMA_VERSION,
    Again,
    Database,
    Transaction,
    connect,
    open_database,
)
from app.stores.neo4j.pieces import by_document, in_order
from app.stores.neo4j.walk import HEAVIEST
from migrations import migrate
from tests import make
from tests.contract.conftest import Library
from tests.servers import Server

pytestmark = pytest.mark.server

FILES = sorted((Path(migrations.__file__).parent / "neo4j").glob("*.cypher"))
SCANS = (
    "AllNodesScan",
    "NodeByLabelScan",
    "NodeIndexScan",
    "RelationshipTypeScan",
    "RelationshipIndexScan",
    "AllRelationshipsScan",
)
SMALL_LABELS = (":Migration", ":ApiKey", ":Total")  # read as a whole, on purpose


@pytest.fixture
async def database(neo4j: Server) -> AsyncIterator[Database]:
    await migrate(neo4j.url, user=neo4j.user, password=neo4j.password)
    async with open_database(neo4j.url, neo4j.user, neo4j.password) as opened:
        yield opened


@pytest.fixture
def library(database: Database) -> Library:
    return shelves(database, make.name())


@pytest.fixture
def neighbour(database: Database) -> Library:
    return shelves(database, make.name())


def shelves(database: Database, name: str) -> Library:
    return Library(
        name, Neo4jDocuments(database, name), Neo4jGraph(database, name), Neo4jNames(database, name)
    )  # fmt: skip


# --- opening -------------------------------------------------------------------------------------


async def test_a_server_that_refuses_or_is_away_is_told_apart(neo4j: Server) -> None:
    with pytest.raises(Misconfigured, match="refuses"):
        async with open_database(neo4j.url, neo4j.user, "wrong" + neo4j.password):
            pass
    with pytest.raises(Unavailable):
        async with open_database("bolt://127.0.0.1:1", "neo4j", "any"):
            pass
    with pytest.raises(Misconfigured):
        await migrate(neo4j.url, user=neo4j.user, password="wrong" + neo4j.password)
    with pytest.raises(Unavailable):
        await migrate("bolt://127.0.0.1:1", user="neo4j", password="any")


async def test_a_database_is_chosen_by_its_name(neo4j: Server, database: Database) -> None:
    known = {"user": neo4j.user, "password": neo4j.password}
    assert await migrate(neo4j.url, **known, database="neo4j") == []
    with pytest.raises(Misconfigured, match="no database"):
        await migrate(neo4j.url, **known, database="elsewhere")
    async with open_database(neo4j.url, neo4j.user, neo4j.password, "neo4j") as opened:
        assert await opened.read("CALL db.info() YIELD name RETURN name") == [{"name": "neo4j"}]
        await opened.transaction(lambda tx: tx.run("RETURN 1 AS one"))
    with pytest.raises(Misconfigured, match="no database"):
        async with open_database(neo4j.url, neo4j.user, neo4j.password, "elsewhere"):
            pass


async def test_a_schema_that_is_behind_or_ahead_stops_the_start(
    neo4j: Server, database: Database
) -> None:
    async def opening() -> None:
        async with open_database(neo4j.url, neo4j.user, neo4j.password):
            pass

    await database.write("CREATE (:Migration {number: 9999, checksum: '', name: 'later'})")
    try:
        with pytest.raises(Misconfigured, match="newer"):
            await opening()
        with pytest.raises(Misconfigured, match="newer"):
            await migrate(neo4j.url, user=neo4j.user, password=neo4j.password)
    finally:
        await database.write("MATCH (m:Migration {number: 9999}) DELETE m")
    await database.write("MATCH (m:Migration) DELETE m")
    try:
        with pytest.raises(Misconfigured, match="python -m migrations"):
            await opening()
    finally:
        applied = await asyncio.gather(
            *(migrate(neo4j.url, user=neo4j.user, password=neo4j.password) for _ in range(4))
        )
    assert sorted(applied) == [[], [], [], [file.name for file in FILES]]
    await opening()


def test_the_stores_expect_the_newest_file() -> None:
    assert len(FILES) == SCHEMA_VERSION


async def test_a_ping_tells_the_version(database: Database) -> None:
    assert (await database.ping())[0].isdigit()


async def test_long_metadata_can_be_stored_and_filtered_by(library: Library) -> None:
    long, other = "文" * 9000, "文" * 9000 + "!"
    await library.ingest("d", {}, make.revision(metadata={"abstract": long}))
    await library.ingest("e", {}, make.revision(metadata={"abstract": other}))
    assert await library.documents.matching({"abstract": long}, limit=9) == ["d"]
    assert await library.documents.matching({"abstract": {"gte": "文"}}, limit=9) == ["d", "e"]


async def test_a_lone_surrogate_is_the_callers_error(library: Library) -> None:
    with pytest.raises(Invalid, match="surrogate"):
        await library.open("d", make.revision(name="\ud800"))


async def test_a_crowd_on_the_same_records_uses_up_no_try_of_a_step(database: Database) -> None:
    async def outrun(tx: Transaction) -> None:
        await tx.run("RETURN 1")
        raise Again

    with pytest.raises(Unavailable, match="busy") as refused:
        await database.transaction(outrun)
    assert refused.value.blameless


# --- plans ---------------------------------------------------------------------------------------


def statements() -> Iterator[tuple[str, str]]:
    """Where and text of every statement of the adapter."""
    folder = Path(app.stores.neo4j.__file__).parent
    verbs = ("MATCH ", "OPTIONAL ", "UNWIND ", "MERGE ", "CALL ", "RETURN ")
    for path in sorted(folder.glob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        parts = {id(part) for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
        for node in nodes:
            if id(node) in parts or not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            text = value_of(node, f"app.stores.neo4j.{path.stem}")
            if isinstance(text, str) and text.lstrip().startswith(verbs):
                yield f"{path.name}:{node.lineno}", text
    for kind in (Kind.ENTITY, Kind.RELATION):
        for order in ("chunk", "described", "about")[: 3 if kind is Kind.ENTITY else 2]:
            yield f"{kind} {order}", in_order(kind, cast(Any, order))
            yield f"{kind} {order} by document", by_document(kind, cast(Any, order))


def value_of(node: ast.Constant | ast.JoinedStr, module: str) -> object:
    """None for a template that a function fills in."""
    if isinstance(node, ast.Constant):
        return node.value
    code = compile(ast.Expression(node), module, "eval")
    try:
        return eval(code, vars(importlib.import_module(module)))
    except NameError:
        return None


def operators(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield plan["operatorType"], plan["args"].get("Details", "")
    for child in plan.get("children", []):
        yield from operators(child)


async def test_every_statement_runs_along_an_index(neo4j: Server, database: Database) -> None:
    found = dict(statements())
    assert len(found) > 80
    scans = []
    async with connect(neo4j.url, neo4j.user, neo4j.password) as driver:
        for place, text in found.items():
            summary = (await driver.execute_query(cast(Any, "EXPLAIN " + text))).summary
            scans += [
                (place, name, details)
                for name, details in operators(cast(Any, summary.plan))
                if any(scan in name for scan in SCANS)
                and not details.endswith(SMALL_LABELS)
            ]  # fmt: skip
    assert scans == []


async def test_no_statement_seeks_each_of_a_list_for_each_of_its_rows(
    neo4j: Server, database: Database
) -> None:
    """The planner takes "x = row AND y IN $list" to an index of both: a seek for every two."""
    squared = []
    async with connect(neo4j.url, neo4j.user, neo4j.password) as driver:
        for place, text in statements():
            summary = (await driver.execute_query(cast(Any, "EXPLAIN " + text))).summary
            squared += [
                (place, details)
                for name, details in operators(cast(Any, summary.plan))
                if "IndexSeek" in name and re.search(r" IN \$(?!auto)", details)
            ]
    assert squared == []


async def test_a_long_document_needs_memory_in_proportion(
    neo4j: Server, database: Database, library: Library
) -> None:
    """A list of its entities in every row of a statement makes that squared: 8 MiB a thousand."""
    size = 4000
    await database.write(
        """
        CREATE (d:Document {workspace: $workspace, id: 'long'})
        CREATE (d)-[:HAS_CHUNK]->(c:Chunk {workspace: $workspace, id: 'c', document_id: 'long',
            position: 0, live: true, unindexed: true})
        WITH c UNWIND range(1, $size) AS i
        CREATE (e:Entity {workspace: $workspace, key: 'e' + i, mentions: 1, unindexed: true,
            unprofiled: true})
        CREATE (c)-[:MENTIONS {workspace: $workspace, entity: e.key, chunk: c.id,
            document: 'long'}]->(e)
        CREATE (c)-[:STATES {workspace: $workspace, relation: 'r' + i, source: e.key,
            chunk: c.id, document: 'long'}]->(e)
        CREATE (e)-[:RELATES {workspace: $workspace, key: 'r' + i, source: e.key, target: e.key,
            lightness: -1000, renamed: 1, unindexed: true, unprofiled: true}]->(e)
        """,
        workspace=library.name, size=size,
    )  # fmt: skip
    of_document = [
        text for place, text in statements() if "marks.py" in place and "$document" in text
    ]
    assert len(of_document) == 2
    async with connect(neo4j.url, neo4j.user, neo4j.password) as driver:
        for text in of_document:
            result = await driver.execute_query(
                cast(Any, "PROFILE " + text), workspace=library.name, document="long"
            )
            [record] = result.records
            assert [len(found) for found in record.values()][-2:] == [size, size]
            assert _memory(cast(Any, result.summary.profile)) < 16 << 20


def _memory(profile: dict[str, Any]) -> int:
    return max(
        int(profile["args"].get("GlobalMemory", 0)), *map(_memory, profile.get("children", [])), 0
    )


HUB, HUB_SIZE = "hub", 3000


@pytest.fixture
async def hub(database: Database, library: Library) -> Library:
    """A workspace with an entity that thousands of chunks mention, with as many relations."""
    await database.write(
        """
        CREATE (h:Entity {workspace: $workspace, key: $hub, name: $hub, mentions: $size})
        WITH h UNWIND range(1, $size) AS i
        CREATE (c:Chunk {workspace: $workspace, id: 'c' + i})-[:MENTIONS {
            workspace: $workspace, entity: $hub, chunk: 'c' + i, described: 'c' + i,
            document: 'd' + i, description: 'x'}]->(h)
        CREATE (h)-[:RELATES {workspace: $workspace, key: $hub + '\t' + i, source: $hub,
            target: 't' + i, lightness: -1000}]->(:Entity {workspace: $workspace, key: 't' + i})
        """,
        workspace=library.name, hub=HUB, size=HUB_SIZE,
    )  # fmt: skip
    return library


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (in_order(Kind.ENTITY, "chunk"), 20),
        (in_order(Kind.ENTITY, "described"), 20),
        (by_document(Kind.ENTITY, "chunk"), 2),
        (HEAVIEST, 20),
    ],
)
async def test_a_hub_is_read_only_as_far_as_asked(
    neo4j: Server, hub: Library, text: str, rows: int
) -> None:
    async with connect(neo4j.url, neo4j.user, neo4j.password) as driver:
        result = await driver.execute_query(
            cast(Any, "PROFILE " + text),
            workspace=hub.name, keys=[HUB], after="", limit=20,
            documents=["d7", "d8"] if rows == 2 else None,
        )  # fmt: skip
    [record] = result.records
    assert len(record[1]) == rows
    assert _hits(cast(Any, result.summary.profile)) < HUB_SIZE / 5


def _hits(profile: dict[str, Any]) -> int:
    return int(profile["args"].get("DbHits", 0)) + sum(map(_hits, profile.get("children", [])))


# --- locks ---------------------------------------------------------------------------------------


def about(n: int) -> Extraction:
    """What chunk `n` says: of things that all chunks share, and of some of its own."""
    hubs = [make.entity(f"Hub {i}", f"seen from {n}", aliases=[f"H{i}"]) for i in range(4)]
    own = [make.entity(f"Thing {n}", f"thing of {n}"), make.entity(f"Pair {n // 2}", "shared")]
    relations = [
        make.relation("Hub 0", "Hub 1", f"together in {n}", keywords=["shared"]),
        make.relation(f"Thing {n}", f"Hub {n % 4}", "own"),
    ]
    return make.extraction(*hubs, *own, *relations)


async def test_uploads_and_deletions_side_by_side_end_as_if_one_after_the_other(
    library: Library, neighbour: Library
) -> None:
    async def ingest(where: Library, n: int) -> None:
        await where.ingest(f"d{n}", {f"c{n}-{i}": about(n) for i in range(2)})

    async def forget() -> None:
        for _ in range(6):
            await library.forget_the_gone()
            await library.profile_all()
            await library.index_all()

    await asyncio.gather(*(ingest(library, n) for n in range(6)))
    await asyncio.gather(
        *(library.delete(f"d{n}") for n in range(6)),
        *(ingest(library, n) for n in range(6, 12)),
        forget(),
    )
    await asyncio.gather(*(ingest(library, n) for n in range(2)), forget())
    await library.forget_the_gone()
    for n in (*range(6, 12), *range(2)):
        await ingest(neighbour, n)
    assert await library.fingerprint() == await neighbour.fingerprint()
    assert not [one for one in await library.graph.unindexed() if one.gone]


# --- the picture ---------------------------------------------------------------------------------


async def test_the_browser_shows_documents_chunks_entities_and_relations_by_name(
    library: Library, database: Database
) -> None:
    revision = make.revision(name="handbook.docx")
    await library.ingest("d", {"c": make.extraction(make.relation("Curie", "Radium"))}, revision)
    rows = await database.read(
        """
        MATCH (d:Document)-[:HAS_CHUNK]->(c:Chunk)-[:MENTIONS]->(a:Entity)-[:RELATES]->(b:Entity)
        WHERE d.workspace = $workspace
        RETURN d.name AS document, c.name AS chunk, a.name AS source, b.name AS target
        """,
        workspace=library.name,
    )
    assert rows == [
        {
            "document": "handbook.docx",
            "chunk": "handbook.docx §1",
            "source": "Curie",
            "target": "Radium",
        }
    ]


async def test_every_node_has_its_workspace_and_none_is_left_of_a_deleted_document(
    library: Library, database: Database
) -> None:
    extraction = make.extraction(
        make.entity("Curie", aliases=["Maria"]), make.relation("Curie", "Radium"), about=["Curie"]
    )
    await library.ingest("d", {"c": extraction})
    nameless = await database.read(
        "MATCH (n) WHERE n.workspace IS NULL RETURN DISTINCT labels(n) AS labels"
    )
    assert {row["labels"][0] for row in nameless} <= {"Migration", "SchemaLock", "ApiKey"}
    await library.settle({"radium": "curie"}, blocks={"curie": ["c"], "radium": ["r"]})
    await library.move()
    await library.delete("d")
    await library.forget_the_gone()
    await library.settle()
    await library.move()
    await library.names.tidy("mover")
    left = await database.read(
        "MATCH (n) WHERE n.workspace = $workspace RETURN DISTINCT labels(n) AS labels",
        workspace=library.name,
    )
    # jobs stay readable, and so do steps of the one that is still open here
    assert {row["labels"][0] for row in left} == {"Job", "Step", "Total", "Settlement"}
