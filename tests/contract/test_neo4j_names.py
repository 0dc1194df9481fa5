"""Names on Neo4j while several transactions are at them: nothing is lost, nothing counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from neo4j import AsyncDriver

from app.domain import Extraction, Placement
from app.folding import document_scope
from app.stores.neo4j.database import Database, connect, open_database
from migrations import migrate
from tests import make
from tests.contract.conftest import Library
from tests.contract.test_neo4j import shelves
from tests.servers import Server

pytestmark = pytest.mark.server


@pytest.fixture
async def database(neo4j: Server) -> AsyncIterator[Database]:
    await migrate(neo4j.url, user=neo4j.user, password=neo4j.password)
    async with open_database(neo4j.url, neo4j.user, neo4j.password) as opened:
        yield opened


@pytest.fixture
async def driver(neo4j: Server) -> AsyncIterator[AsyncDriver]:
    async with connect(neo4j.url, neo4j.user, neo4j.password) as opened:
        yield opened


@pytest.fixture
def library(database: Database) -> Library:
    return shelves(database, make.name())


@pytest.fixture
def neighbour(database: Database) -> Library:
    return shelves(database, make.name())


# --- a fold and a decision that cross ------------------------------------------------------------

# The fold locks entities in the order of their keys, then names: whoever holds the first entity
# stops it after it looked names up, whoever holds a name stops it when it has all entities.
FIRST, MOVED, ELSEWHERE = "aaron", "bell", "cole"


def said() -> Extraction:
    return make.extraction(*(make.entity(name, f"{name} is here") for name in (FIRST, MOVED)))


@asynccontextmanager
async def held(driver: AsyncDriver, workspace: str, label: str, key: str) -> AsyncIterator[None]:
    """Another transaction has a lock on the node meanwhile."""
    async with driver.session() as session, await session.begin_transaction() as transaction:
        await transaction.run(
            "MATCH (n {workspace: $workspace, key: $key}) WHERE $label IN labels(n)"
            " SET n.locked = true",
            workspace=workspace, key=key, label=label,
        )  # fmt: skip
        yield
        await transaction.commit()


async def blocked(driver: AsyncDriver, statement: str) -> None:
    """Until a transaction waits for a lock in a statement that contains the text."""
    with anyio.fail_after(60):
        while True:
            shown = await driver.execute_query(
                "SHOW TRANSACTIONS YIELD status, currentQuery"
                " WHERE status STARTS WITH 'Blocked' AND currentQuery CONTAINS $statement"
                " RETURN currentQuery",
                statement=statement,
            )
            if shown.records:
                return
            await asyncio.sleep(0.02)


async def ready_to_fold(library: Library) -> tuple[str, list[str]]:
    """Entities and names are there from another document; `d` is put and read."""
    alone = {f"c-{name}": make.extraction(make.entity(name)) for name in (FIRST, MOVED)}
    await library.ingest("before", alone)
    await library.settle()
    job = await library.open("d")
    return job, await library.put("d", job, {"c1": said(), "c2": said()})


@pytest.fixture(params=[FIRST, ELSEWHERE])
def target(request: pytest.FixtureRequest) -> str:
    """An entity that there is, and one that there is not."""
    return str(request.param)


async def at(library: Library, key: str) -> int:
    return sum(one.mentions for one in await library.graph.entities([key]))


async def test_a_fold_that_looked_names_up_before_a_decision_looks_again(
    library: Library, driver: AsyncDriver, target: str
) -> None:
    job, ids = await ready_to_fold(library)
    async with asyncio.TaskGroup() as tasks, held(driver, library.name, "Entity", FIRST):
        tasks.create_task(library.graph.fold("d", job, ids))
        await blocked(driver, "MERGE (e:Entity")
        # The decision needs MOVED and the target: of these the fold has none yet.
        decision = tasks.create_task(library.settle({MOVED: target}))
        if target != FIRST:
            assert await decision
            await library.move()
    await library.move()
    assert await at(library, MOVED) == 0
    assert await at(library, target) == (4 if target == FIRST else 3)  # with its own


async def test_a_decision_waits_for_a_fold_that_has_its_entities_and_its_evidence_is_moved(
    library: Library, driver: AsyncDriver, target: str
) -> None:
    job, ids = await ready_to_fold(library)
    async with asyncio.TaskGroup() as tasks, held(driver, library.name, "Name", MOVED):
        tasks.create_task(library.graph.fold("d", job, ids))
        await blocked(driver, "MERGE (n:Name")
        decision = tasks.create_task(library.settle({MOVED: target}))
        await blocked(driver, "ON CREATE SET e.unborn")
        assert await library.names.move("early", limit=9) == 0
    assert decision.result()
    await library.move()
    assert await at(library, MOVED) == 0
    assert await at(library, target) == (4 if target == FIRST else 3)  # with its own


async def test_a_decision_on_what_nobody_has_named_yet_reaches_a_fold_that_names_it_first(
    library: Library, driver: AsyncDriver
) -> None:
    await library.ingest("before", {"c0": make.extraction(make.entity(FIRST))})
    job = await library.open("d")
    ids = await library.put("d", job, {"c1": said()})
    async with asyncio.TaskGroup() as tasks, held(driver, library.name, "Entity", FIRST):
        tasks.create_task(library.graph.fold("d", job, ids))
        await blocked(driver, "MERGE (e:Entity")
        assert await library.settle({MOVED: ELSEWHERE})
        await library.move()
    assert await at(library, MOVED) == 0
    assert await at(library, ELSEWHERE) == 1


async def test_a_decision_waits_for_a_fold_that_names_something_for_the_first_time(
    library: Library, driver: AsyncDriver
) -> None:
    await library.ingest("before", {"c0": make.extraction(make.entity(FIRST))})
    await library.settle()
    job = await library.open("d")
    ids = await library.put("d", job, {"c1": said()})
    async with asyncio.TaskGroup() as tasks, held(driver, library.name, "Name", FIRST):
        tasks.create_task(library.graph.fold("d", job, ids))
        await blocked(driver, "MERGE (n:Name")
        tasks.create_task(library.settle({MOVED: ELSEWHERE}))
        await blocked(driver, "ON CREATE SET e.unborn")
        assert not await library.names.moving()
    await library.move()
    assert await at(library, MOVED) == 0
    assert await at(library, ELSEWHERE) == 1


async def test_a_placement_by_hand_waits_for_the_fold_of_its_document(
    library: Library, driver: AsyncDriver
) -> None:
    job, ids = await ready_to_fold(library)
    placement = Placement(MOVED, document_scope("d"), ELSEWHERE)
    async with asyncio.TaskGroup() as tasks, held(driver, library.name, "Name", MOVED):
        tasks.create_task(library.graph.fold("d", job, ids))
        await blocked(driver, "MERGE (n:Name")
        tasks.create_task(library.names.place([placement]))
        await blocked(driver, "RETURN id")
        assert not await library.names.moving()
    await library.move()
    assert await at(library, MOVED) == 1
    assert await at(library, ELSEWHERE) == 2


async def test_a_decision_leaves_no_entity_that_nobody_mentions(
    library: Library, database: Database
) -> None:
    await library.ingest("d", {"c": said()})
    await library.settle({MOVED: ELSEWHERE})
    rows = await database.read(
        "MATCH (e:Entity) WHERE e.workspace = $workspace AND e.key IS NOT NULL"
        " RETURN e.key AS key ORDER BY key",
        workspace=library.name,
    )
    assert [row["key"] for row in rows] == [FIRST, MOVED]


# --- many at once --------------------------------------------------------------------------------


def of_hubs(n: int) -> Extraction:
    """What document `n` says of names that all share, several of which are to be one thing."""
    hubs = [make.entity(f"Hub {i}", f"seen from {n}", aliases=[f"H{i}"]) for i in range(6)]
    relations = [make.relation(f"Hub {i}", f"Hub {(i + n) % 6}", f"in {n}") for i in range(6)]
    return make.extraction(*hubs, make.entity(f"Own {n}", "own"), *relations)


async def test_folds_decisions_and_movers_side_by_side_end_as_if_one_after_the_other(
    library: Library, neighbour: Library
) -> None:
    async def ingest(n: int) -> None:
        await library.ingest(f"d{n}", {f"c{n}-{i}": of_hubs(n) for i in range(2)})

    async def decide() -> None:
        places = [{"hub 1": "hub 0"}, {"hub 3": "hub 2", "hub 1": "hub 2"}, {"hub 4": "own 1"}]
        for placed in [*places, {"hub 1": "hub 1"}, *places]:
            while not await library.settle(placed):
                pass
            await asyncio.sleep(0.05)

    async def move(worker: int) -> None:
        for _ in range(12):
            await library.move(f"worker {worker}", limit=3)
            await asyncio.sleep(0.02)

    await asyncio.gather(*(ingest(n) for n in range(4)), decide(), move(1))
    await asyncio.gather(
        *(library.delete(f"d{n}") for n in range(2)), *(ingest(n) for n in range(4, 8)),
        decide(), decide(), *(move(n) for n in range(3)),
    )  # fmt: skip
    await asyncio.gather(*(library.move(f"worker {n}", limit=2) for n in range(3)))
    await library.forget_the_gone()
    await neighbour.settle({"hub 1": "hub 2", "hub 3": "hub 2", "hub 4": "own 1"})
    for n in range(2, 8):
        await neighbour.ingest(f"d{n}", {f"c{n}-{i}": of_hubs(n) for i in range(2)})
    assert await library.fingerprint() == await neighbour.fingerprint()
    keys = sorted(f"hub {i}" for i in range(6))
    assert await known_of(library, keys) == await known_of(neighbour, keys)


async def known_of(library: Library, keys: list[str]) -> list[tuple[object, ...]]:
    return [
        (one.key, one.form, one.kind, one.aliases, one.mentions, dict(one.scopes), one.entity)
        for one in await library.names.known(keys)
    ]


async def test_two_movers_share_the_work_and_double_nothing(
    library: Library, neighbour: Library
) -> None:
    for where in (library, neighbour):
        for n in range(3):
            await where.ingest(f"d{n}", {f"c{n}-{i}": of_hubs(n) for i in range(4)})
    placed = {f"hub {i}": "hub 0" for i in range(1, 6)}
    await library.settle(placed)
    await asyncio.gather(*(library.move(f"worker {n}", limit=2) for n in range(4)))
    await library.forget_the_gone()
    await neighbour.settle(placed)
    await neighbour.move(limit=100)
    await neighbour.forget_the_gone()
    assert await library.fingerprint() == await neighbour.fingerprint()
    assert await at(library, "hub 0") == 12


async def test_settlements_at_the_same_moment_take_turns(library: Library) -> None:
    await library.ingest("d", {"c": of_hubs(1)})
    version = await library.names.version()
    taken = await asyncio.gather(
        *(library.settle({"hub 1": f"hub {n}"}, version=version) for n in range(2, 6))
    )
    assert sorted(taken) == [False, False, False, True]
    assert await library.names.version() == version + 1


# --- nodes that vanish ---------------------------------------------------------------------------


@asynccontextmanager
async def vanishing(driver: AsyncDriver, workspace: str, label: str) -> AsyncIterator[None]:
    """Another transaction deletes all nodes of the label; what waits for their locks goes on when
    they are gone."""
    async with driver.session() as session, await session.begin_transaction() as transaction:
        await transaction.run(
            "MATCH (n {workspace: $workspace}) WHERE $label IN labels(n) DETACH DELETE n",
            workspace=workspace, label=label,
        )  # fmt: skip
        yield
        await transaction.commit()


async def test_chunks_whose_tombstones_are_deleted_as_they_are_put_again_are_put(
    library: Library, driver: AsyncDriver
) -> None:
    await library.ingest("d", {"c1": said(), "c2": said()})
    await library.ingest("d", {})
    job = await library.open("d")
    async with asyncio.TaskGroup() as tasks, vanishing(driver, library.name, "Chunk"):
        tasks.create_task(
            library.graph.put_chunks("d", job, [make.chunk("c1"), make.chunk("c2")], ["k", "k"])
        )
        await blocked(driver, "MERGE (c:Chunk")
    assert await library.graph.unread("d", job) == ["c1", "c2"]


@pytest.mark.parametrize(("label", "statement"), [("Entity", "(e:Entity"), ("Name", "(n:Name")])
async def test_what_is_forgotten_as_a_fold_comes_for_it_is_made_anew(
    library: Library, driver: AsyncDriver, label: str, statement: str
) -> None:
    await library.ingest("before", {"c0": said()})
    await library.delete("before")
    job = await library.open("d")
    ids = await library.put("d", job, {"c1": said()})
    async with asyncio.TaskGroup() as tasks, vanishing(driver, library.name, label):
        tasks.create_task(library.graph.fold("d", job, ids))
        await blocked(driver, f"MERGE {statement}")
    assert await at(library, FIRST) == await at(library, MOVED) == 1
    assert [one.mentions for one in await library.names.known([FIRST, MOVED])] == [1, 1]


async def test_a_move_that_ends_as_it_is_asked_for_again_begins_again(
    library: Library, driver: AsyncDriver
) -> None:
    await library.ingest("d", {"c": said()})
    await library.settle({MOVED: FIRST})
    async with asyncio.TaskGroup() as tasks, vanishing(driver, library.name, "Move"):
        await library.settle({MOVED: MOVED, FIRST: MOVED})  # moves of other entities
        tasks.create_task(library.settle({MOVED: FIRST, FIRST: FIRST}))
        await blocked(driver, "MERGE (m:Move")
    assert await library.names.moving()
    await library.move()
    assert await at(library, FIRST) == 1
    assert await at(library, MOVED) == 0


async def test_a_document_that_is_removed_as_it_is_uploaded_again_is_there(
    library: Library, driver: AsyncDriver
) -> None:
    await library.open("d")
    async with asyncio.TaskGroup() as tasks, vanishing(driver, library.name, "Document"):
        uploaded = tasks.create_task(library.open("d"))
        await blocked(driver, "MERGE (d:Document")
    assert (await library.documents.get("d")).job.id == uploaded.result()
