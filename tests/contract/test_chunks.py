"""Chunks from put to forgotten: re-use, fences, replacement."""

from __future__ import annotations

from app.domain import Kind, Plan, Ref, Stale, Stats
from app.names import key
from tests import make
from tests.contract.conftest import Library

ONE = make.extraction(make.entity("Alpha", "the first"))
TWO = make.extraction(make.entity("Beta", "the second"))
THREE = make.extraction(make.entity("Gamma", "the third"))


async def keys_of(library: Library) -> set[str]:
    return {entity.key for entity in await library.graph.search("", limit=100)}


async def test_put_chunks_are_unread_then_unfolded_then_neither(library: Library) -> None:
    job = await library.open()
    chunks = [make.chunk("c2", position=0), make.chunk("c1", position=1)]
    for _ in range(2):
        await library.graph.put_chunks("d", job, chunks, ["k2", "k1"])
    assert await library.graph.unread("d", job) == ["c2", "c1"]
    assert await library.graph.unfolded("d", job) == []
    await library.graph.put_extraction("c1", ONE)
    assert await library.graph.unread("d", job) == ["c2"]
    assert await library.graph.unfolded("d", job) == ["c1"]
    await library.graph.fold("d", job, ["c1", "c2", "unknown"])
    assert await library.graph.unfolded("d", job) == []
    assert [chunk.id for chunk in await library.graph.document_chunks("d")] == ["c1"]


async def test_a_chunk_comes_back_as_it_was_put(library: Library) -> None:
    job = await library.open()
    chunk = make.chunk(
        "c", text="„Zeile\n\t\\\"'`${}` 𝒜 文\u0000", headings=["A", "§ 1"], page=3, start=17
    )
    await library.graph.put_chunks("d", job, [chunk], ["k"])
    assert await library.graph.pending_chunks("d", ["c", "unknown"]) == [(chunk, "k")]
    assert await library.graph.pending_chunks("other", ["c"]) == []
    await library.graph.put_extraction("c", ONE)
    await library.graph.fold("d", job, ["c"])
    assert await library.graph.chunks(["c"]) == [chunk]
    assert await library.graph.pending_chunks("d", ["c"]) == [(chunk, "k")]


async def test_chunks_are_paged_by_position(library: Library) -> None:
    await library.ingest("d", {f"c{9 - n}": ONE for n in range(5)})
    first = await library.graph.document_chunks("d", limit=2)
    rest = await library.graph.document_chunks("d", after=first[-1].position, limit=10)
    assert [chunk.id for chunk in [*first, *rest]] == ["c9", "c8", "c7", "c6", "c5"]


async def test_an_extraction_is_kept_whole(library: Library) -> None:
    whole = make.extraction(
        make.entity('A "quoted" {name}', "it's", aliases=["$x", "`y`"]),
        make.relation("A", "B", "d", keywords=["k;", "'; drop table chunks;--"], strength=0.125),
        about=["T"],
    )
    await library.ingest("d", {"c1": whole})
    assert await library.graph.extractions(["key of c1", "unknown"]) == {"key of c1": whole}


async def test_equal_chunks_of_other_documents_lend_their_extraction(library: Library) -> None:
    await library.ingest("a", {"c1": ONE})
    job = await library.open("b")
    await library.graph.put_chunks("b", job, [make.chunk("c2", document_id="b")], ["key of c1"])
    assert await library.graph.unread("b", job) == ["c2"]
    assert await library.graph.extractions(["key of c1"]) == {"key of c1": ONE}


async def test_failed_extractions_are_lent_to_nobody_and_read_again(library: Library) -> None:
    failed = make.extraction(error="no JSON")
    await library.ingest("d", {"c1": failed, "c2": TWO})
    assert await library.graph.extractions(["key of c1"]) == {}
    job = await library.reopen("d", Plan.INGEST)
    chunks = [make.chunk(f"c{n}", position=n) for n in (1, 2)]
    await library.graph.put_chunks("d", job, chunks, ["key of c1", "key of c2"])
    assert await library.graph.unread("d", job) == ["c1"]
    assert await library.graph.unfolded("d", job) == []
    await library.graph.put_extraction("c1", ONE)
    assert await library.graph.unfolded("d", job) == ["c1"]
    await library.graph.fold("d", job, ["c1"])
    assert await keys_of(library) == {key("Alpha"), key("Beta")}
    assert (await library.documents.get("d")).chunks == 2


async def test_the_first_extraction_of_a_chunk_stands(library: Library) -> None:
    job = await library.open()
    ids = await library.put("d", job, {"c1": make.extraction(error="cut off")})
    await library.graph.put_extraction("c1", ONE)
    await library.graph.put_extraction("c1", TWO)
    await library.graph.put_extraction("c1", make.extraction(error="late"))
    await library.graph.fold("d", job, ids)
    assert await keys_of(library) == {key("Alpha")}


async def test_an_extraction_for_an_unknown_or_retracted_chunk_is_dropped(library: Library) -> None:
    await library.graph.put_extraction("nobody", ONE)
    await library.ingest("d", {"c1": make.extraction(error="cut off")})
    job = await library.reopen("d", Plan.DELETE)
    await library.graph.retract("d", ["c1"])
    await library.graph.put_extraction("c1", ONE)
    assert await library.graph.unfolded("d", job) == []


async def test_a_new_extraction_key_means_read_and_fold_again(library: Library) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    job = await library.reopen("d", Plan.INGEST)
    chunks = [make.chunk(f"c{n}", position=n) for n in (1, 2)]
    await library.graph.put_chunks("d", job, chunks, ["another", "key of c2"])
    assert await library.graph.unread("d", job) == ["c1"]
    assert await keys_of(library) == {key("Alpha"), key("Beta")}  # until there is something better
    await library.graph.put_extraction("c1", THREE)
    assert await library.graph.unfolded("d", job) == ["c1"]
    await library.graph.fold("d", job, ["c1"])
    assert await keys_of(library) == {key("Beta"), key("Gamma")}
    assert await library.graph.stats() == Stats(1, 2, 2, 0)


async def test_a_new_version_shows_beside_the_old_until_that_is_retired(library: Library) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    job = await library.open("d")
    ids = await library.put("d", job, {"c2": TWO, "c3": THREE})
    assert await library.graph.unread("d", job) == []
    assert await library.graph.unfolded("d", job) == ["c3"]  # what did not change costs nothing
    assert await keys_of(library) == {key("Alpha"), key("Beta")}
    assert await library.graph.retired("d", job) == ["c1"]
    await library.graph.fold("d", job, ids)
    assert await keys_of(library) == {key("Alpha"), key("Beta"), key("Gamma")}
    await library.graph.retract("d", await library.graph.retired("d", job))
    assert await keys_of(library) == {key("Beta"), key("Gamma")}
    assert [chunk.id for chunk in await library.graph.document_chunks("d")] == ["c2", "c3"]


async def test_replacing_ends_as_if_only_the_new_version_had_come(
    library: Library, neighbour: Library
) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    await library.ingest("d", {"c2": TWO, "c3": THREE})
    await library.forget_the_gone()
    await neighbour.ingest("d", {"c2": TWO, "c3": THREE})
    assert await library.fingerprint() == await neighbour.fingerprint()


async def test_a_version_that_never_came_to_an_end_leaves_nothing_behind(
    library: Library, neighbour: Library
) -> None:
    await library.ingest("d", {"c1": ONE})
    half = await library.open("d")
    await library.put("d", half, {"c2": TWO, "c4": TWO})
    await library.graph.fold("d", half, ["c2"])
    await library.ingest("d", {"c1": ONE, "c3": THREE})
    await library.forget_the_gone()
    await neighbour.ingest("d", {"c1": ONE, "c3": THREE})
    assert await library.fingerprint() == await neighbour.fingerprint()
    assert await library.graph.pending_chunks("d", ["c2", "c4"]) == []


async def test_chunks_that_the_same_job_puts_no_more_are_dropped_or_retired(
    library: Library,
) -> None:
    await library.ingest("d", {"c1": ONE})
    job = await library.open("d")
    await library.put("d", job, {"c1": ONE, "c2": TWO})
    await library.put("d", job, {"c3": THREE})
    assert await library.graph.unfolded("d", job) == ["c3"]
    assert await library.graph.retired("d", job) == ["c1"]


async def test_a_job_that_was_overtaken_changes_nothing(library: Library) -> None:
    old = await library.open("d")
    await library.put("d", old, {"c1": ONE})
    new = await library.open("d")
    await library.put("d", new, {"c2": TWO})
    await library.graph.put_chunks("d", old, [make.chunk("c3")], ["k"])
    await library.graph.fold("d", old, ["c1", "c2", "c3"])
    assert await library.graph.retired("d", old) == []
    assert await library.graph.stats() == Stats(0, 0, 0, 0)
    assert await library.graph.unfolded("d", new) == ["c2"]


async def test_a_late_deleter_does_not_take_what_a_later_upload_keeps(library: Library) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    deletion = await library.reopen("d", Plan.DELETE)
    ids = await library.graph.retired("d", deletion)
    job = await library.open("d")
    await library.put("d", job, {"c1": ONE, "c2": TWO})
    await library.graph.retract("d", ids)
    await library.documents.remove("d", deletion)
    assert await keys_of(library) == {key("Alpha"), key("Beta")}
    assert (await library.documents.get("d")).job.id == job


async def test_retracted_chunks_that_are_put_again_come_back_without_being_read(
    library: Library, neighbour: Library
) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    await library.reopen("d", Plan.DELETE)
    await library.graph.retract("d", ["c1"])
    job = await library.open("d")
    chunks = [make.chunk(f"c{n}", position=n - 1, text=f"text of c{n}") for n in (1, 2)]
    await library.graph.put_chunks("d", job, chunks, ["key of c1", "key of c2"])
    assert await library.graph.unread("d", job) == []
    assert await library.graph.unfolded("d", job) == ["c1"]
    await library.graph.fold("d", job, ["c1", "c2"])
    await library.documents.publish("d", job)
    await neighbour.ingest("d", {"c1": ONE, "c2": TWO})
    assert await library.fingerprint() == await neighbour.fingerprint()


async def test_an_ingest_that_is_repeated_keeps_the_chunks_of_the_last(library: Library) -> None:
    await library.ingest("d", {"c1": ONE})
    job = await library.reopen("d", Plan.INGEST)
    assert await library.graph.retired("d", job) == []
    half = await library.open("d")
    await library.put("d", half, {"c1": ONE, "c2": TWO})
    again = await library.reopen("d", Plan.INGEST)
    assert await library.graph.unfolded("d", again) == ["c2"]
    assert await library.graph.retired("d", again) == []


async def test_a_deletion_retires_all_chunks(library: Library) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    job = await library.reopen("d", Plan.DELETE)
    assert await library.graph.retired("d", job) == ["c1", "c2"]
    await library.graph.retract("d", ["c1"])
    assert await library.graph.retired("d", job) == ["c2"]


async def test_a_tombstone_waits_for_its_point_to_be_deleted(library: Library) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    await library.reopen("d", Plan.DELETE)
    await library.graph.retract("d", ["c1"])
    tombstone = Stale(Ref(Kind.CHUNK, "c1"), gone=True)
    assert tombstone in await library.graph.unindexed("d")
    assert tombstone in await library.graph.unindexed()
    await library.graph.forget([Ref(Kind.CHUNK, "c1"), Ref(Kind.CHUNK, "c2")])
    left = await library.graph.unindexed("d")
    assert tombstone not in left
    assert Stale(Ref(Kind.CHUNK, "c2"), gone=False) in left  # visible: only its point is gone
    assert [chunk.id for chunk in await library.graph.chunks(["c1", "c2"])] == ["c2"]
