"""Damage of each kind, done by hand on each store: check names it, repair mends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.domain import Kind, Plan, Point, Ref, State, Status
from app.ports import Services
from app.settings import Settings
from app.upkeep.check import check, repair
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump
from app.wiring import embedded_queue, open_services
from tests import make
from tests.contract.conftest import BACKENDS
from tests.servers import Server
from tests.workers.conftest import CountingExtractor, RecordingQueue, Rig

CURIE = (
    "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie. "
    "Marie Curie won the Nobel Prize in Physics in 1903."
)
PARIS = "Paris is the capital of France. Marie Curie taught at the University of Paris."

Run = Callable[..., Awaitable[None]]


@dataclass
class Site:
    """A filled workspace, and a way past its adapters: SQL or Cypher by the backend."""

    rig: Rig
    name: str
    backend: str
    run: Run

    @property
    def services(self) -> Services:
        return self.rig.services

    @property
    def space(self) -> Any:
        return self.rig.workspace(self.name)

    async def harm(self, sqlite: str, neo4j: str) -> None:
        await self.run(sqlite if self.backend == "sqlite" else neo4j, w=self.name)

    async def check(self) -> list[str]:
        return [str(one) for one in await check(self.services, self.space, wait=0)]

    async def repaired(self, *words: str) -> None:
        """Check says all of the words, and after a repair nothing any more."""
        found = await check(self.services, self.space, wait=0)
        text = "\n".join(map(str, found))
        assert found
        for word in words:
            assert word in text, text
        await repair(self.services, self.space, found)
        await self.rig.drain()
        assert await self.check() == []

    async def lines(self) -> list[str]:
        return [line async for line in dump(self.space)]


@asynccontextmanager
async def services_of(
    backend: str, folder: Path, server: Server | None
) -> AsyncIterator[tuple[Services, Run]]:
    settings = Settings(_env_file=None, data_dir=folder)
    if server is not None:
        from migrations import migrate

        await migrate(server.url, user=server.user, password=server.password)
        settings = settings.model_copy(
            update={
                "graph_url": server.url, "graph_user": server.user,
                "graph_password": type(settings.graph_password)(server.password),
            }
        )  # fmt: skip
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        database: Any = services.dependencies["graph"]

        async def on_sqlite(sql: str, **bound: Any) -> None:
            await database.write(lambda connection: connection.execute(sql, bound).rowcount)

        async def on_neo4j(query: Any, **bound: Any) -> None:
            await database.write(query, **bound)

        yield services, on_sqlite if backend == "sqlite" else on_neo4j


@pytest.fixture(params=BACKENDS)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    backend = str(request.param)
    server = request.getfixturevalue("neo4j") if backend == "neo4j" else None
    async with services_of(backend, tmp_path, server) as (services, run):
        queue, extractor = RecordingQueue(), CountingExtractor(services.models.extractor)
        models = replace(services.models, extractor=extractor)
        rig = Rig(replace(services, queue=queue, models=models), queue, extractor)
        name = make.name()
        await rig.submit(CURIE, "curie", workspace=name)
        await rig.submit(PARIS, "paris", workspace=name)
        await rig.drain()
        yield Site(rig, name, backend, run)


async def test_a_sound_workspace_has_no_difference(site: Site) -> None:
    assert await site.check() == []


GRAPH = {
    "a lost mention": (
        "delete from mentions where entity in"
        " (select seq from entities where workspace = :w and key = 'paris')",
        "MATCH (e:Entity {workspace: $w, key: 'paris'})<-[m:MENTIONS]-() DELETE m",
        ("other evidence than what it says",),
    ),
    "a changed strength": (
        "update assertions set strength = 1 where relation in"
        " (select seq from relations where workspace = :w)",
        "MATCH ()-[s:STATES]->() WHERE s.workspace = $w SET s.strength = 1",
        ("other evidence than what it says", "weight"),
    ),
    "a wrong count": (
        "update entities set mentions = mentions + 5 where workspace = :w and key = 'paris'",
        "MATCH (e:Entity {workspace: $w, key: 'paris'}) SET e.mentions = e.mentions + 5",
        ("entity paris is not what its evidence says: mentions",),
    ),
    "a wrong degree": (
        "update entities set degree = 77 where workspace = :w and key = 'paris'",
        "MATCH (e:Entity {workspace: $w, key: 'paris'}) SET e.degree = 77",
        ("degree",),
    ),
    "a wrong name": (
        "update entities set name = 'Rome', names_tally = '{\"Rome\":9}'"
        " where workspace = :w and key = 'paris'",
        "MATCH (e:Entity {workspace: $w, key: 'paris'}) SET e.name = 'Rome',"
        " e.names_tally = '{\"Rome\":9}'",
        ("names, name",),
    ),
    "a wrong weight": (
        "update relations set weight = weight + 1, keywords_tally = '{\"x\":1}'"
        " where workspace = :w",
        "MATCH ()-[r:RELATES]->() WHERE r.workspace = $w"
        " SET r.lightness = r.lightness - 1, r.keywords_tally = '{\"x\":1}'",
        ("weight, tally",),
    ),
    "a strange alias": (
        "insert into aliases select :w, 'lutetia', seq, 1 from entities"
        " where workspace = :w and key = 'paris'",
        "MATCH (e:Entity {workspace: $w, key: 'paris'})"
        " CREATE (:Alias {workspace: $w, key: 'lutetia', name: 'lutetia'})"
        "-[:NAMES {count: 1}]->(e)",
        ("aliases",),
    ),
    "a name that counts twice": (
        "update names set mentions = mentions * 2 where workspace = :w and key = 'paris'",
        "MATCH (n:Name {workspace: $w, key: 'paris'}) SET n.mentions = n.mentions * 2",
        ("the name paris is not what mentions say",),
    ),
    "a name that nobody uses": (
        "insert into names (workspace, key, tally, mentions, facts, revision) values"
        ' (:w, \'lutetia\', \'{"forms":{"Lutetia":1},"kinds":{},"scopes":{},"aliases":{}}\','
        " 1, 'x', 1)",
        "CREATE (:Name {workspace: $w, key: 'lutetia', name: 'Lutetia', mentions: 1, facts: 'x',"
        ' tally: \'{"forms":{"Lutetia":1},"kinds":{},"scopes":{},"aliases":{}}\','
        " revision: 1, settled: 0, blocks: [], open: true})",
        ("the name lutetia is not what mentions say",),
    ),
    "wrong totals": (
        "update totals set entities = entities + 3 where workspace = :w",
        "MATCH (t:Total {workspace: $w}) SET t.entities = 99",
        ("totals",),
    ),
}


@pytest.mark.parametrize("kind", GRAPH)
async def test_damage_of_the_graph_is_mended(site: Site, kind: str) -> None:
    before = await site.lines()
    sqlite, neo4j, words = GRAPH[kind]
    await site.harm(sqlite, neo4j)
    await site.repaired(*words)
    assert list(difference(before, await site.lines())) == []
    assert len(site.rig.extractor.calls) == 2


async def test_damage_of_vectors_is_mended(site: Site) -> None:
    before = await site.lines()
    vectors = site.space.vectors
    chunks, _ = await vectors.scroll(Kind.CHUNK)
    entities, _ = await vectors.scroll(Kind.ENTITY)
    one, other = entities[:2]
    await vectors.delete([chunks[0].ref])
    await vectors.upsert(
        [
            replace(one, sparse=other.sparse, dense=other.dense),
            Point(Ref(Kind.ENTITY, "nobody"), one.dense, one.sparse),
            Point(Ref(Kind.CHUNK, "nothing"), one.dense, one.sparse, "curie"),
        ]
    )
    await site.repaired(
        f"the vector of chunk {chunks[0].ref.key} is missing",
        f"the vector of entity {one.ref.key} is of another text",
        "a vector of entity nobody, which is not there",
        "a vector of chunk nothing, which is not there",
    )
    assert list(difference(before, await site.lines())) == []


async def test_what_is_behind_with_nobody_at_work_gets_a_job(site: Site) -> None:
    before = await site.lines()
    points, _ = await site.space.vectors.scroll(Kind.ENTITY)
    await site.space.graph.forget([point.ref for point in points])
    await site.repaired("vectors are behind, and no job works on it")
    assert list(difference(before, await site.lines())) == []


async def test_blobs_are_missed_and_swept(site: Site) -> None:
    blobs = site.space.blobs
    orphan = await blobs.put(b"nobody's " + site.name.encode())
    assert await site.check() == []  # it may be of an upload in progress
    found = await check(site.services, site.space, wait=0, young=-60)
    [mine] = [one for one in found if orphan in one.what]
    await repair(site.services, site.space, [mine])
    assert not await blobs.has(orphan)
    document = await site.space.documents.get("curie")
    await blobs.delete([document.live.text])
    gone = "\n".join(await site.check())
    assert "the original of document curie is gone" in gone
    assert "the text of document curie is gone" in gone
    assert "upload" in gone


async def test_jobs_without_steps_and_steps_without_jobs_are_mended(site: Site) -> None:
    await site.rig.submit("Radium is an element.", "radium", workspace=site.name)
    site.rig.queue.sent.clear()
    document = await site.space.documents.get("radium")
    await site.harm(
        f"delete from steps where job_id = '{document.job.id}' and :w <> ''",
        f"MATCH (:Job {{id: '{document.job.id}'}})-[:HAS_STEP]->(s) WHERE $w <> '' DETACH DELETE s",
    )
    await site.repaired(f"job {document.job.id} has not ended and has no step")
    assert (await site.space.documents.get("radium")).status is Status.READY
    ended = (await site.space.documents.get("curie")).job.id
    await site.harm(
        "insert into steps (id, job_id, stage, shard, ready_at, overdue_at) select"
        f" '{ended}.parse.9', '{ended}', 'parse', '[]', 1e12, 1e12 where :w <> ''",
        f"MATCH (j:Job {{id: '{ended}'}}) WHERE $w <> ''"
        f" CREATE (j)-[:HAS_STEP]->(:Step {{id: '{ended}.parse.9', stage: 'parse', shard: [],"
        " claims: 0, tries: 0, leased: false, ready_at: 9999999999999,"
        " overdue_at: 9999999999999, name: 'parse', workspace: $w})",
    )
    await site.repaired(f"job {ended} has ended and has steps")


async def test_a_document_that_lost_its_job_gets_one(site: Site) -> None:
    before = await site.lines()
    job = (await site.space.documents.get("curie")).job.id
    await site.harm(
        f"delete from jobs where id = '{job}' and workspace = :w",
        f"MATCH (j:Job {{id: '{job}', workspace: $w}}) DETACH DELETE j",
    )
    await site.repaired("document curie has no job")
    assert (await site.space.documents.get("curie")).status is Status.READY
    assert list(difference(before, await site.lines())) == []


async def test_a_step_that_no_worker_takes_is_sent_again(site: Site) -> None:
    await site.rig.submit("Radium is an element.", "radium", workspace=site.name)
    site.rig.queue.sent.clear()
    await site.harm(
        "update steps set ready_at = 1, overdue_at = 1 where job_id in"
        " (select id from jobs where workspace = :w)",
        "MATCH (s:Step {workspace: $w}) SET s.ready_at = 1, s.overdue_at = 1",
    )
    await site.repaired("waits, and no worker takes it")
    job = await site.services.journal.jobs(site.name, document_id="radium")
    assert (job[0].plan, job[0].state) == (Plan.INGEST, State.DONE)


async def test_repairs_beside_work_change_nothing_that_is_sound(site: Site) -> None:
    """Whatever a look takes for damage while workers write, mending it does no harm."""
    undisturbed = Site(site.rig, make.name(), site.backend, site.run)
    texts = {f"d{n}": f"{CURIE} Person {n} met Marie Curie in Paris in 19{n:02}." for n in range(6)}
    for one in (undisturbed, site):
        for id, text in texts.items():
            await one.rig.submit(text, id, workspace=one.name)
        if one is undisturbed:
            await one.rig.submit(CURIE, "curie", workspace=one.name)
            await one.rig.submit(PARIS, "paris", workspace=one.name)
            await one.rig.drain()
    await site.rig.delete("d3", site.name)
    await undisturbed.rig.delete("d3", undisturbed.name)

    async def mend() -> None:
        while not worker.done():
            found = await check(site.services, site.space, wait=0)
            await repair(site.services, site.space, found)

    worker = asyncio.create_task(site.rig.drain())
    await mend()
    await worker
    await site.rig.drain()
    assert await site.check() == []
    assert list(difference(await undisturbed.lines(), await site.lines())) == []
