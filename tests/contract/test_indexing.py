"""Profiles and vectors follow the evidence: what is stale, what covers it, what comes too late."""

from __future__ import annotations

from app.domain import Kind, Mark, Plan, Profile, Ref, Stale, relation_key
from app.names import key
from tests import make
from tests.contract.conftest import Library

CURIE, RADIUM = key("Marie Curie"), key("Radium")
FOUND = relation_key(CURIE, RADIUM)
CURIE_REF, RADIUM_REF = Ref(Kind.ENTITY, CURIE), Ref(Kind.ENTITY, RADIUM)
FOUND_REF = Ref(Kind.RELATION, FOUND)
READING = make.extraction(make.entity(), make.entity("Radium", "an element"), make.relation())
OTHER = make.extraction(make.entity("Marie Curie", "a chemist"), make.entity("Paris", "a city"))


async def revision_of(library: Library, ref: Ref) -> int:
    [evidence] = await library.graph.evidence([ref])
    return evidence.revision


async def test_new_evidence_makes_profiles_stale_and_a_profile_ends_that(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    stale = [CURIE_REF, RADIUM_REF, FOUND_REF]
    assert await library.graph.unprofiled("d") == stale
    assert await library.graph.unprofiled() == stale
    revision = await revision_of(library, CURIE_REF)
    for _ in range(2):
        await library.graph.put_profiles([Profile(CURIE_REF, "physicist", revision, covered=1)])
    assert await library.graph.unprofiled("d") == [RADIUM_REF, FOUND_REF]
    [curie] = await library.graph.entities([CURIE])
    assert (curie.profile, curie.profiled) == ("physicist", curie.revision)
    [evidence] = await library.graph.evidence([CURIE_REF])
    assert (evidence.profile, evidence.covered) == ("physicist", 1)
    await library.ingest("e", {"c2": OTHER})
    assert CURIE_REF in await library.graph.unprofiled("d")
    assert RADIUM_REF not in await library.graph.unprofiled("e")


async def test_a_profile_made_while_evidence_arrived_is_kept_but_stays_stale(
    library: Library,
) -> None:
    await library.ingest("d", {"c1": READING})
    read_at = await revision_of(library, CURIE_REF)
    await library.ingest("e", {"c2": OTHER})
    await library.graph.put_profiles([Profile(CURIE_REF, "early", read_at)])
    [curie] = await library.graph.entities([CURIE])
    assert curie.profile == "early"
    assert CURIE_REF in await library.graph.unprofiled("e")


async def test_an_older_revision_never_replaces_a_newer_profile(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    early = await revision_of(library, CURIE_REF)
    await library.ingest("e", {"c2": OTHER})
    late = await revision_of(library, CURIE_REF)
    await library.graph.put_profiles([Profile(CURIE_REF, "late", late, covered=2)])
    await library.graph.put_profiles([Profile(CURIE_REF, "early", early, covered=1)])
    [evidence] = await library.graph.evidence([CURIE_REF])
    assert (evidence.profile, evidence.covered) == ("late", 2)


async def test_a_profile_read_before_evidence_was_taken_back_is_refused(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.ingest("e", {"c2": OTHER})
    await library.graph.put_profiles(
        [Profile(CURIE_REF, "kept", await revision_of(library, CURIE_REF), covered=2)]
    )
    await library.ingest("f", {"c3": OTHER})
    read_at = await revision_of(library, CURIE_REF)
    await library.delete("d")
    await library.graph.put_profiles([Profile(CURIE_REF, "says what went", read_at, covered=3)])
    [evidence] = await library.graph.evidence([CURIE_REF])
    assert evidence.profile == "kept"
    assert evidence.covered == 0  # to be made from scratch
    assert CURIE_REF in await library.graph.unprofiled("e")


async def test_a_profile_from_the_future_or_of_nothing_is_refused(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.graph.put_profiles(
        [Profile(CURIE_REF, "future", 99), Profile(Ref(Kind.ENTITY, "nobody"), "x", 1)]
    )
    [curie] = await library.graph.entities([CURIE])
    assert curie.profile == ""
    assert await library.graph.entities(["nobody"]) == []


async def test_the_index_waits_for_the_profile(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    chunk = Stale(Ref(Kind.CHUNK, "c1"), gone=False)
    assert await library.graph.unindexed("d") == [chunk]
    await library.profile_all()
    refs = [CURIE_REF, RADIUM_REF, FOUND_REF]
    stale = [chunk, *(Stale(ref, gone=False) for ref in refs)]
    assert await library.graph.unindexed("d") == stale
    assert await library.graph.unindexed() == stale
    await library.index_all("d")
    assert await library.graph.unindexed("d") == []
    assert await library.graph.unindexed() == []
    [curie] = await library.graph.entities([CURIE])
    assert (curie.indexed, curie.digest) == (curie.profiled, "digest Marie Curie")


async def test_a_mark_that_comes_late_does_not_hide_a_newer_profile(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.profile_all()
    [early] = await library.graph.entities([CURIE])
    await library.ingest("e", {"c2": OTHER})
    await library.profile_all()
    mark = Mark(CURIE_REF, early.profiled, "early")
    await library.graph.mark_indexed([mark])
    assert Stale(CURIE_REF, gone=False) in await library.graph.unindexed("d")
    [now] = await library.graph.entities([CURIE])
    await library.graph.mark_indexed([Mark(CURIE_REF, now.profiled, "now")])
    await library.graph.mark_indexed([mark])
    [marked] = await library.graph.entities([CURIE])
    assert (marked.indexed, marked.digest) == (now.profiled, "now")


async def test_a_mark_beyond_the_profile_is_ignored(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.profile_all()
    await library.graph.mark_indexed([Mark(CURIE_REF, 99, "x"), Mark(Ref(Kind.CHUNK, "no"), 0, "")])
    assert Stale(CURIE_REF, gone=False) in await library.graph.unindexed()


async def test_only_what_a_document_supports_is_its_business(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.ingest("e", {"c2": OTHER})
    paris = Ref(Kind.ENTITY, key("Paris"))
    assert await library.graph.unprofiled("e") == [CURIE_REF, paris]
    assert await library.graph.unprofiled("unknown") == []
    await library.profile_all()
    assert [one.ref for one in await library.graph.unindexed("e")] == [
        Ref(Kind.CHUNK, "c2"), CURIE_REF, paris,
    ]  # fmt: skip


async def test_evidence_that_another_document_lost_is_found_in_the_whole_workspace(
    library: Library,
) -> None:
    await library.ingest("d", {"c1": READING})
    await library.ingest("e", {"c2": OTHER})
    await library.profile_all()
    await library.index_all()
    await library.delete("e")
    assert await library.graph.unprofiled() == [CURIE_REF]
    gone = {one.ref for one in await library.graph.unindexed() if one.gone}
    assert gone == {Ref(Kind.CHUNK, "c2"), Ref(Kind.ENTITY, key("Paris"))}


async def test_a_new_name_of_an_end_makes_the_relations_vector_stale(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.profile_all()
    await library.index_all()
    respelt = make.extraction(make.entity("RADIUM", "an element"))
    await library.ingest("e", {"c2": respelt, "c3": respelt})
    [found] = await library.graph.relations([FOUND])
    assert {found.source_name, found.target_name} == {"Marie Curie", "RADIUM"}
    assert FOUND_REF not in await library.graph.unprofiled()  # its evidence is what it was
    assert Stale(FOUND_REF, gone=False) in await library.graph.unindexed("e")
    assert Stale(FOUND_REF, gone=False) in await library.graph.unindexed()


async def test_a_profile_made_while_an_end_was_renamed_covers_the_relation(
    library: Library,
) -> None:
    await library.ingest("d", {"c1": READING})
    read_at = await revision_of(library, FOUND_REF)
    respelt = make.extraction(make.entity("RADIUM", "an element"))
    await library.ingest("e", {"c2": respelt, "c3": respelt})
    await library.graph.put_profiles([Profile(FOUND_REF, "it was found", read_at)])
    assert FOUND_REF not in await library.graph.unprofiled()
    assert Stale(FOUND_REF, gone=False) in await library.graph.unindexed("e")


async def test_a_deleted_point_of_something_alive_is_made_again(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.profile_all()
    await library.index_all()
    await library.graph.forget([CURIE_REF, FOUND_REF, Ref(Kind.CHUNK, "c1")])
    [curie] = await library.graph.entities([CURIE])
    assert (curie.mentions, curie.indexed, curie.digest) == (1, 0, "")
    stale = [Stale(ref, gone=False) for ref in (Ref(Kind.CHUNK, "c1"), CURIE_REF, FOUND_REF)]
    assert await library.graph.unindexed() == stale


async def test_a_chunk_that_is_read_again_is_indexed_again(library: Library) -> None:
    await library.ingest("d", {"c1": READING})
    await library.profile_all()
    await library.index_all()
    job = await library.reopen("d", Plan.INGEST)
    await library.graph.put_chunks("d", job, [make.chunk("c1")], ["another title"])
    await library.graph.put_extraction("c1", READING)
    await library.graph.fold("d", job, ["c1"])
    assert Stale(Ref(Kind.CHUNK, "c1"), gone=False) in await library.graph.unindexed("d")
