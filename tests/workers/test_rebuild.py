"""A graph folded anew from what was read: damaged ones, ones of before, one in use meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from neo4j import AsyncGraphDatabase

from app.domain import Completion, Job, Kind, Placement, Plan, Ref, Ruling, State, Usage
from app.folding import document_scope
from app.ports import Services, Workspace
from app.settings import Settings
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump
from app.upkeep.jobs import new_job
from app.wiring import embedded_queue, open_services
from migrations import migrate
from tests import make
from tests.servers import Server
from tests.workers.conftest import CountingExtractor, RecordingQueue, Rig
from workers.rebuild import rebuild

CURIE = (
    "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie. "
    "Marie Curie won the Nobel Prize in Physics in 1903."
)
TEXTS = {
    "a": CURIE,
    "b": "Paris is the capital of France. Mme. Marie Curie taught at the University of Paris.",
    "c": "The World Health Organization (WHO) is in Geneva. WHO was founded in 1948.",
    "d": "Geneva is a city. The World Health Organisation met Marie Curie in Geneva.",
}
DAMAGES = {
    "tallies": "update entities set names_tally = '{}', kinds_tally = '{\"x\": 9}', name = 'x'",
    "counters": "update entities set mentions = 7, degree = 0, described = 9, abouts = 3",
    "profiles": "update entities set profile = 'nonsense'",
    "entities": "delete from entities where seq % 2 = 0",
    "relations": "delete from relations",
    "weights": "update relations set weight = 1, keywords_tally = '{}', keywords = '[]'",
    "mentions": "delete from mentions where chunk % 2 = 0",
    "evidence": "update mentions set description = 'nonsense', aliases = '[\"nobody\"]'",
    "assertions": "delete from assertions",
    "aliases": "delete from aliases",
    "names": "delete from names",
    "facts": "update names set tally = '{\"forms\":{\"y\":3},\"kinds\":{},\"scopes\":{},"
    "\"aliases\":{}}', mentions = 3, facts = 'y'",
    "placements": "delete from placements",
    "places": "insert into placements (workspace, key, scope, entity, name, by_hand) values"
    " ('default', 'paris', '', 'geneva', '', 0), ('default', 'nothing', '', 'geneva', '', 0)",
    "pairs": "delete from pairs",
    "blocks": "delete from blocks",
    "totals": "update totals set entities = 999, chunks = 0",
    "before names": "update mentions set surfaces = '[]'; delete from names; delete from blocks;"
    " delete from pairs; delete from placements",
}  # fmt: skip


async def fill(rig: Rig, name: str = "default") -> None:
    for document, text in TEXTS.items():
        await rig.submit(text, document, workspace=name)
    await rig.drain()


def damage(folder: Path, script: str) -> None:
    with sqlite3.connect(folder / "graph.db") as connection:
        connection.executescript(script)
    connection.close()


async def lines(services: Services, name: str) -> list[str]:
    return [line async for line in dump(services.workspace(name))]


async def rebuilt(rig: Rig, name: str = "default") -> Job:
    job = await rebuild(rig.services, name, rig.terms)
    assert job.state is State.DONE, job.error
    return job


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_damaged_graph_is_that_of_a_fresh_ingestion_afterwards(
    rig: Rig, tmp_path: Path, what: str
) -> None:
    await fill(rig)
    wanted = await lines(rig.services, "default")
    calls = len(rig.extractor.calls)
    damage(tmp_path, DAMAGES[what])
    await rebuilt(rig)
    assert list(difference(wanted, await lines(rig.services, "default"))) == []
    assert len(rig.extractor.calls) == calls
    assert await rig.workspace().graph.stats() == await rig.workspace().archive.counted()
    assert await rig.workspace().graph.unindexed() == []


async def test_a_whole_graph_stays_as_it_is(rig: Rig) -> None:
    await fill(rig)
    wanted = await lines(rig.services, "default")
    before = await rig.workspace().graph.search("", limit=100)
    await rebuilt(rig)
    assert list(difference(wanted, await lines(rig.services, "default"))) == []
    after = {one.key: one for one in await rig.workspace().graph.search("", limit=100)}
    assert {one.key for one in before} == after.keys()


async def test_what_people_said_stays(rig: Rig, tmp_path: Path) -> None:
    await fill(rig)
    names = rig.workspace().names
    await names.rule([Ruling("marie curie", "pierre curie", True, "user", "a test", 5.0)])
    await names.place([Placement("paris", document_scope("b"), "paris texas", "Paris, Texas")])
    job = new_job("default", Plan.CURATE)
    await rig.services.journal.open(job)
    await rig.queue.send([Rig.first(job)])
    await rig.drain()
    wanted = await lines(rig.services, "default")
    damage(tmp_path, "delete from mentions where chunk % 2 = 0; delete from names")
    await rebuilt(rig)
    assert list(difference(wanted, await lines(rig.services, "default"))) == []
    assert len(await names.placed()) == 1


async def test_questions_and_uploads_go_on_between_its_steps(rig: Rig, tmp_path: Path) -> None:
    await fill(rig, "other")
    await rig.submit(CURIE + " She wrote.", "e", workspace="other")
    await rig.drain()
    await rig.delete("c", "other")
    await rig.drain()
    await fill(rig)
    damage(
        tmp_path,
        "update entities set mentions = mentions + 5 where workspace = 'default';"
        " delete from relations where workspace = 'default'",
    )
    job = new_job("default", Plan.REBUILD)
    await rig.services.journal.open(job)
    await rig.queue.send([Rig.first(job)])
    await rig.submit(CURIE + " She wrote.", "e")
    await rig.delete("c")
    await rig.drain()  # steps of all three, as they come
    assert (await rig.services.journal.job("default", job.id)).state is State.DONE
    found = await lines(rig.services, "default")
    assert list(difference(await lines(rig.services, "other"), found)) == []


async def test_one_that_was_killed_is_gone_on_with(rig: Rig, tmp_path: Path) -> None:
    await fill(rig)
    wanted = await lines(rig.services, "default")
    damage(tmp_path, "delete from mentions where chunk % 2 = 0; delete from relations")
    job = new_job("default", Plan.REBUILD)
    await rig.services.journal.open(job)
    step = await rig.services.journal.claim(f"{job.id}.refold.0", lease=0.0, tries=9)
    assert step is not None  # whoever had it is dead, half-way through its work
    ids = [held.chunk.id for held in await rig.workspace().archive.chunks(limit=2)]
    await rig.workspace().archive.refold(ids)
    await rig.sweep()
    assert (await rig.services.journal.job("default", job.id)).state is State.DONE
    assert list(difference(wanted, await lines(rig.services, "default"))) == []


# --- summaries -----------------------------------------------------------------------------------


class Summariser:
    """A model that writes summaries, counted."""

    by_model = True

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Completion:
        self.calls.append(name)
        return Completion(f"All about {name}.", Usage(llm_calls=1))


@pytest.fixture
async def summarised(rig: Rig) -> AsyncIterator[tuple[Rig, Summariser]]:
    summariser = Summariser()
    models = replace(rig.services.models, profiler=summariser)

    def workspace(name: str) -> Workspace:
        space = rig.workspace(name)
        return replace(space, options=replace(space.options, summary_threshold=10))

    yield (
        replace(rig, services=replace(rig.services, models=models, workspace=workspace)),
        summariser,
    )


@pytest.mark.parametrize(
    "script",
    [
        "update entities set mentions = 9, degree = 9; delete from names; delete from relations",
        "delete from mentions where chunk % 2 = 0",
        "update mentions set surfaces = '[]'",
    ],
)
async def test_no_summary_is_paid_for_twice(
    summarised: tuple[Rig, Summariser], tmp_path: Path, script: str
) -> None:
    rig, summariser = summarised
    await fill(rig)
    [before] = await rig.workspace().graph.evidence([Ref(Kind.ENTITY, "marie curie")])
    assert before.covered
    assert summariser.calls
    paid = [name for name in summariser.calls if " → " not in name]
    damage(tmp_path, script)
    await rebuilt(rig)
    [after] = await rig.workspace().graph.evidence([Ref(Kind.ENTITY, "marie curie")])
    assert (after.profile, after.covered) == (before.profile, before.covered)
    assert [name for name in summariser.calls if " → " not in name] == paid


# --- on Neo4j ------------------------------------------------------------------------------------

# `$w` is the workspace.
ON_NEO4J = {
    "tallies": "MATCH (e:Entity {workspace: $w}) SET e.names_tally = '{\"x\":9}', e.name = 'x',"
    " e.mentions = 7, e.degree = 0, e.profile = 'nonsense'",
    "entities": "MATCH (e:Entity {workspace: $w}) WHERE size(e.key) % 2 = 0 DETACH DELETE e",
    "relations": "MATCH ()-[r:RELATES {workspace: $w}]->() DELETE r",
    "weights": "MATCH ()-[r:RELATES {workspace: $w}]->() SET r.keywords_tally = '{}', r.weight = 1,"
    " r.lightness = -1000",
    "evidence": "MATCH (:Chunk {workspace: $w})-[m:MENTIONS]->() SET m.description = 'nonsense'",
    "assertions": "MATCH (:Chunk {workspace: $w})-[s:STATES]->() DELETE s",
    "aliases": "MATCH (a:Alias {workspace: $w}) DETACH DELETE a",
    "before names": "MATCH (:Chunk {workspace: $w})-[m:MENTIONS]->() REMOVE m.surfaces, m.names"
    " WITH DISTINCT 1 AS one MATCH (n:Name|Pair|Posting|Placement {workspace: $w})"
    " DETACH DELETE n",
    "places": "MERGE (p:Placement {workspace: $w, key: 'paris', scope: ''}) SET p.entity ="
    " 'geneva', p.whole = 'geneva', p.shown = ''",
    "totals": "MATCH (t:Total {workspace: $w}) SET t.entities = 999, t.chunks = 0",
}  # fmt: skip


@pytest.fixture
async def remote(tmp_path: Path, neo4j: Server) -> AsyncIterator[Rig]:
    await migrate(neo4j.url, user=neo4j.user, password=neo4j.password)
    settings = Settings(
        _env_file=None, data_dir=tmp_path / "remote", graph_url=neo4j.url, graph_user=neo4j.user,
        graph_password=neo4j.password,
    )  # fmt: skip
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        queue, extractor = RecordingQueue(), CountingExtractor(services.models.extractor)
        models = replace(services.models, extractor=extractor)
        yield Rig(replace(services, queue=queue, models=models), queue, extractor)


@pytest.mark.server
async def test_damaged_graphs_on_neo4j_are_those_of_a_fresh_ingestion_afterwards(
    remote: Rig, neo4j: Server
) -> None:
    name = make.name()
    await fill(remote, name)
    wanted = await lines(remote.services, name)
    calls = len(remote.extractor.calls)
    async with AsyncGraphDatabase.driver(neo4j.url, auth=(neo4j.user, neo4j.password)) as driver:
        for what, query in ON_NEO4J.items():
            await driver.execute_query(query, w=name)
            await rebuilt(remote, name)
            assert list(difference(wanted, await lines(remote.services, name))) == [], what
            graph, archive = remote.workspace(name).graph, remote.workspace(name).archive
            assert await graph.stats() == await archive.counted(), what
    assert len(remote.extractor.calls) == calls


async def beside_uploads(rig: Rig, name: str) -> None:
    """A rebuild in one process, and documents that come, change and go in another."""
    await rig.submit(TEXTS["c"] + " Geneva is in Switzerland.", "c", workspace=name)
    await rig.submit(CURIE + " She wrote.", "e", workspace=name)
    await rig.delete("b", name)
    await asyncio.gather(rig.drain(), rebuild(rig.services, name, rig.terms))
    while any(not job.state.final for job in await rig.services.journal.jobs(name, limit=100)):
        await rig.sweep()
        await asyncio.sleep(0.2)


async def as_fresh(rig: Rig, name: str) -> list[str]:
    texts = {**TEXTS, "c": TEXTS["c"] + " Geneva is in Switzerland.", "e": CURIE + " She wrote."}
    del texts["b"]
    for document, text in texts.items():
        await rig.submit(text, document, workspace=name)
    await rig.drain()
    return await lines(rig.services, name)


async def test_a_rebuild_beside_uploads_ends_as_if_there_were_none(
    rig: Rig, tmp_path: Path
) -> None:
    await fill(rig)
    damage(tmp_path, "delete from mentions where chunk % 2 = 0; delete from names")
    await beside_uploads(rig, "default")
    wanted = await as_fresh(rig, "other")
    assert list(difference(wanted, await lines(rig.services, "default"))) == []


@pytest.mark.server
async def test_a_rebuild_on_neo4j_beside_uploads_ends_as_if_there_were_none(
    remote: Rig, neo4j: Server
) -> None:
    name = make.name()
    await fill(remote, name)
    async with AsyncGraphDatabase.driver(neo4j.url, auth=(neo4j.user, neo4j.password)) as driver:
        for what in ("evidence", "before names"):
            await driver.execute_query(ON_NEO4J[what], w=name)
    await beside_uploads(remote, name)
    wanted = await as_fresh(remote, make.name())
    assert list(difference(wanted, await lines(remote.services, name))) == []
