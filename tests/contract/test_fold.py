"""Evidence adds up the same in any order, each chunk once, and is taken back exactly."""

from __future__ import annotations

import asyncio
import random

import pytest

from app.domain import Kind, Plan, Ref, Stats, relation_key
from app.names import key
from tests import make
from tests.contract.conftest import Library

CURIE, RADIUM = key("Marie Curie"), key("Radium")
FOUND = relation_key(CURIE, RADIUM)

READINGS = {
    "c01": make.extraction(make.entity(), make.relation(strength=2.5), about=["Radium"]),
    "c02": make.extraction(
        make.entity("marie curie", "born in Warsaw", aliases=["Maria Skłodowska", "Madame Curie"]),
        make.entity("Warsaw", "a city", kind="location"),
        make.relation("Marie Curie", "Warsaw", "born there", keywords=["birth", "origin"]),
    ),
    "c03": make.extraction(
        make.entity("MARIE CURIE", "", kind=""),
        make.entity("Radium", "an element", kind="concept"),
        make.relation("Radium", "Marie Curie", "", keywords=["element", "discovery"], strength=0.1),
    ),
    "c04": make.extraction(
        make.entity("marie curie", "won two Nobel Prizes", kind="other", aliases=["Madame Curie"]),
        make.relation("Marie Curie", "Nobel Prize", "won it twice", strength=9.75),
        about=["Marie Curie"],
    ),
}


async def test_a_folded_chunk_counts_towards_what_it_names(library: Library) -> None:
    await library.ingest("d", {"c1": READINGS["c01"]})
    [curie, radium] = await library.graph.entities([CURIE, RADIUM])
    assert (curie.name, curie.kind, curie.mentions, curie.degree) == ("Marie Curie", "person", 1, 1)
    assert (radium.name, radium.kind, radium.mentions, radium.degree) == ("Radium", "other", 1, 1)
    [found] = await library.graph.relations([FOUND])
    assert (found.source, found.target) == tuple(sorted((CURIE, RADIUM)))
    assert {found.source_name, found.target_name} == {"Marie Curie", "Radium"}
    assert (found.weight, found.mentions, found.keywords) == (2.5, 1, ("discovery",))
    assert await library.graph.stats() == Stats(1, 1, 2, 1)


async def test_the_name_most_often_written_is_shown_and_others_are_aliases(
    library: Library,
) -> None:
    await library.ingest("d", READINGS)
    [curie] = await library.graph.entities([CURIE])
    assert curie.name == "marie curie"
    assert set(curie.aliases) == {"MARIE CURIE", "Marie Curie", "Maria Skłodowska", "Madame Curie"}
    assert curie.aliases[0] == "Madame Curie"  # stated twice


async def test_nothing_is_visible_before_the_fold(library: Library) -> None:
    job = await library.open()
    await library.put("d", job, READINGS)
    assert await library.graph.stats() == Stats(0, 0, 0, 0)
    assert await library.graph.chunks(list(READINGS)) == []
    assert await library.graph.search("", limit=10) == []
    assert await library.graph.document_chunks("d") == []
    assert await library.graph.chunk_links(list(READINGS)) == []
    assert await library.graph.unprofiled() == []
    assert await library.graph.unindexed() == []


@pytest.mark.parametrize("seed", range(4))
async def test_any_order_and_grouping_of_chunks_ends_in_the_same_graph(
    library: Library, neighbour: Library, seed: int
) -> None:
    await library.ingest("d", READINGS)
    shuffled = random.Random(seed).sample(sorted(READINGS), len(READINGS))
    job = await neighbour.open()
    await neighbour.put("d", job, READINGS)
    size = 1 + seed % 3
    for i in range(0, len(shuffled), size):
        await neighbour.graph.fold("d", job, shuffled[i : i + size])
    await neighbour.documents.publish("d", job)
    assert await neighbour.fingerprint() == await library.fingerprint()


async def test_folding_twice_and_at_the_same_time_counts_each_chunk_once(
    library: Library, neighbour: Library
) -> None:
    await library.ingest("d", READINGS)
    job = await neighbour.open()
    ids = await neighbour.put("d", job, READINGS)
    await asyncio.gather(*(neighbour.graph.fold("d", job, ids) for _ in range(3)))
    await neighbour.graph.fold("d", job, [*ids, *ids])
    await neighbour.documents.publish("d", job)
    assert await neighbour.fingerprint() == await library.fingerprint()


async def test_documents_folded_side_by_side_end_as_if_one_after_the_other(
    library: Library, neighbour: Library
) -> None:
    parts = {f"d{n}": {f"{id}-{n}": READINGS[id] for id in READINGS} for n in range(4)}
    for document, readings in parts.items():
        await library.ingest(document, readings)
    await asyncio.gather(*(neighbour.ingest(d, readings) for d, readings in parts.items()))
    assert await neighbour.fingerprint() == await library.fingerprint()


async def test_retracting_is_the_inverse_of_folding(library: Library, neighbour: Library) -> None:
    await library.ingest("a", {"c01": READINGS["c01"], "c02": READINGS["c02"]})
    await library.ingest("b", {"c03": READINGS["c03"], "c04": READINGS["c04"]})
    await library.delete("a")
    await library.forget_the_gone()
    await neighbour.ingest("b", {"c03": READINGS["c03"], "c04": READINGS["c04"]})
    assert await library.fingerprint() == await neighbour.fingerprint()


async def test_strengths_leave_no_dust_behind(library: Library) -> None:
    for n in range(10):
        await library.ingest(f"d{n}", {f"c{n}": make.extraction(make.relation(strength=0.1))})
    for n in range(1, 10):
        await library.delete(f"d{n}")
    [found] = await library.graph.relations([FOUND])
    assert found.weight == 0.1


async def test_retracting_twice_takes_evidence_back_once(library: Library) -> None:
    await library.ingest("a", {"c01": READINGS["c01"]})
    await library.ingest("b", {"c02": READINGS["c02"]})
    job = await library.reopen("a", Plan.DELETE)
    for _ in range(2):
        await library.graph.retract("a", ["c01"])
    [curie] = await library.graph.entities([CURIE])
    assert curie.mentions == 1
    assert await library.graph.retired("a", job) == []
    assert await library.graph.stats() == Stats(2, 1, 2, 1)


async def test_what_lost_all_evidence_is_invisible_at_once_and_gone_when_forgotten(
    library: Library,
) -> None:
    await library.ingest("d", {"c01": READINGS["c01"]})
    await library.profile_all()
    await library.delete("d")
    assert await library.graph.entities([CURIE, RADIUM]) == []
    assert await library.graph.relations([FOUND]) == []
    assert await library.graph.find([CURIE]) == {}
    assert await library.graph.search("", limit=10) == []
    assert await library.graph.stats() == Stats(0, 0, 0, 0)
    gone = [
        Ref(Kind.CHUNK, "c01"), Ref(Kind.ENTITY, CURIE), Ref(Kind.ENTITY, RADIUM),
        Ref(Kind.RELATION, FOUND),
    ]  # fmt: skip
    assert [one.ref for one in await library.graph.unindexed() if one.gone] == gone
    await library.graph.forget(gone)
    await library.graph.forget(gone)
    assert await library.graph.unindexed() == []


async def test_what_comes_back_after_losing_all_evidence_starts_afresh(library: Library) -> None:
    await library.ingest("a", {"c01": READINGS["c01"]})
    await library.profile_all()
    await library.index_all()
    await library.delete("a")
    await library.ingest("b", {"c02": READINGS["c02"]})
    [curie] = await library.graph.entities([CURIE])
    assert (curie.name, curie.mentions, curie.degree) == ("marie curie", 1, 1)
    assert curie.profile == "" and curie.digest == ""
    assert Ref(Kind.ENTITY, CURIE) in await library.graph.unprofiled("b")


async def test_a_relation_whose_ends_were_forgotten_can_come_back(library: Library) -> None:
    await library.ingest("a", {"c01": READINGS["c01"]})
    await library.delete("a")
    await library.graph.forget([Ref(Kind.ENTITY, CURIE), Ref(Kind.ENTITY, RADIUM)])
    await library.ingest("b", {"c9": READINGS["c01"]})
    [found] = await library.graph.relations([FOUND])
    assert found.mentions == 1
    assert [one.key for one in await library.graph.relations_of([CURIE], per_entity=5)] == [FOUND]


async def test_aliases_are_found_while_someone_states_them(library: Library) -> None:
    await library.ingest("a", {"c02": READINGS["c02"]})
    await library.ingest("b", {"c04": READINGS["c04"]})
    madame, maria = key("Madame Curie"), key("Maria Skłodowska")
    found = await library.graph.find([madame, maria, "nobody"])
    assert {name: entity.key for name, entity in found.items()} == {madame: CURIE, maria: CURIE}
    await library.delete("a")
    found = await library.graph.find([madame, maria])
    assert list(found) == [madame]


async def test_a_chunk_without_entities_and_one_that_failed_become_visible_too(
    library: Library,
) -> None:
    readings = {"c1": make.extraction(), "c2": make.extraction(error="no JSON")}
    await library.ingest("d", readings)
    assert [chunk.id for chunk in await library.graph.chunks(["c1", "c2"])] == ["c1", "c2"]
    assert await library.graph.stats() == Stats(1, 2, 0, 0)


async def test_self_loops_are_no_relations(library: Library) -> None:
    loop = make.relation("Radium", "radium")
    await library.ingest("d", {"c1": make.extraction(make.entity("Radium"), loop)})
    assert await library.graph.stats() == Stats(1, 1, 1, 0)
