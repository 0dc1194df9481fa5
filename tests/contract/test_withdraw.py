"""A job that is cancelled or fails leaves the document as it was: what stores do for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.domain import (
    Extraction,
    Failure,
    Job,
    Kind,
    Plan,
    Ref,
    Stale,
    State,
    Stats,
    Status,
    Unread,
    Usage,
    withdrawal_id,
    withdrawal_of,
)
from app.ports import Journal
from tests import make
from tests.contract.conftest import Library

ONE = make.extraction(make.entity("Alpha", "the first"))
TWO = make.extraction(make.entity("Beta", "the second"))
THREE = make.extraction(make.entity("Gamma", "the third"))
WHY = Failure("model_refused", "The model said no.", "index", True)


async def withdraw(library: Library, job_id: str) -> None:
    """What the stage does, and what follows of it."""
    await library.documents.restore("d", job_id)
    await library.graph.retract("d", await library.graph.retired("d", job_id))
    await library.graph.fold("d", job_id, await library.graph.unfolded("d", job_id))
    await library.forget_the_gone()


async def fail(library: Library, journal: Journal, job_id: str) -> Job:
    """End the job; the document's latest one."""
    assert await journal.close(library.name, job_id, State.FAILED, WHY)
    return (await library.documents.get("d")).job


async def test_a_failed_first_upload_is_withdrawn_and_shows_why(
    library: Library, journal: Journal
) -> None:
    job = await library.open("d")
    await library.put("d", job, {"c1": ONE, "c2": TWO})
    await library.graph.fold("d", job, ["c1"])
    latest = await fail(library, journal, job)
    assert (latest.id, latest.plan) == (withdrawal_id(job), Plan.WITHDRAW)
    assert (latest.state, latest.error) == (State.QUEUED, WHY)
    assert (await journal.job(library.name, job)).error == WHY
    for _ in range(2):
        await withdraw(library, latest.id)
    assert await library.graph.stats() == Stats(0, 0, 0, 0)
    assert await library.graph.unindexed() == []
    step = await journal.claim(withdrawal_of(job).step_id, lease=60, tries=3)
    assert step is not None
    assert (await journal.finish(step, next_status=Status.FAILED, lease=60)).job_done
    document = await library.documents.get("d")
    assert (document.status, document.job.state, document.job.error) == (
        Status.FAILED, State.DONE, WHY,
    )  # fmt: skip
    again = await library.reopen("d", Plan.INGEST)
    await library.graph.put_chunks(
        "d", again,
        [make.chunk(id, position=n, text=f"text of {id}") for n, id in enumerate(["c1", "c2"])],
        ["key of c1", "key of c2"],
    )  # fmt: skip
    assert await library.graph.unread("d", again) == [], "what was read was paid for"
    assert await library.graph.unfolded("d", again) == ["c1", "c2"]


@pytest.mark.parametrize("read", ["not", "half", "folded"])
async def test_a_failed_replacement_leaves_the_version_before(
    library: Library, neighbour: Library, journal: Journal, read: str
) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    await library.documents.charge("d", Usage(), ["a warning"])
    job = await library.open("d")
    await library.documents.parsed("d", job, text="t", title="Another")
    await library.documents.charge("d", Usage(), ["another warning"])
    chunks = [
        replace(make.chunk(id, position=n + 5, text=f"text of {id}"), page_end=7)
        for n, id in enumerate(["c2", "c3"])
    ]
    await library.graph.put_chunks("d", job, chunks, ["other key of c2", "key of c3"])
    if read != "not":
        await library.graph.put_extraction("c2", THREE, key="other key of c2")
        await library.graph.put_extraction("c3", THREE, key="key of c3")
        await library.graph.fold("d", job, ["c3", "c2"] if read == "folded" else ["c3"])
    latest = await fail(library, journal, job)
    assert latest.plan is Plan.WITHDRAW
    for _ in range(2):
        await withdraw(library, latest.id)
    await library.graph.put_extraction("c2", THREE, key="other key of c2")  # a late worker
    await neighbour.ingest("d", {"c1": ONE, "c2": TWO})
    assert await library.fingerprint() == await neighbour.fingerprint()
    assert [key for _, key in await library.graph.pending_chunks("d", ["c1", "c2"])] == [
        "key of c1", "key of c2",
    ]  # fmt: skip
    document = await library.documents.get("d")
    assert document.warnings == ("a warning",)
    assert document.version == 1


async def test_what_changed_nothing_visible_ends_at_once(
    library: Library, journal: Journal
) -> None:
    job = await library.open("d")
    await library.put("d", job, {"c1": ONE})
    latest = await fail(library, journal, job)
    assert (latest.id, latest.state, latest.error) == (job, State.FAILED, WHY)


async def test_a_worker_that_goes_on_after_its_job_has_ended_changes_nothing(
    library: Library, journal: Journal
) -> None:
    job = await library.open("d")
    await library.put("d", job, {"c1": ONE})
    await journal.close(library.name, job, State.CANCELLED)
    await library.graph.fold("d", job, ["c1"])
    await library.graph.put_chunks("d", job, [make.chunk("c2")], ["k"])
    await library.documents.parsed("d", job, text="t", title="T")
    await library.documents.publish("d", job)
    assert await library.graph.stats() == Stats(0, 0, 0, 0)
    assert await library.graph.pending_chunks("d", ["c2"]) == []
    document = await library.documents.get("d")
    assert document.live is None and document.pending is not None
    assert document.pending.text == ""


async def test_after_publication_what_it_replaced_is_withdrawn(
    library: Library, neighbour: Library, journal: Journal
) -> None:
    await library.ingest("d", {"c1": ONE})
    job = await library.open("d")
    await library.put("d", job, {"c2": TWO})
    await library.graph.fold("d", job, ["c2"])
    await library.documents.publish("d", job)
    latest = await fail(library, journal, job)
    await withdraw(library, latest.id)
    await neighbour.ingest("d", {"c2": TWO})
    assert await library.fingerprint() == await neighbour.fingerprint()
    again = await library.reopen("d", Plan.INGEST)
    assert await library.graph.retired("d", again) == []


async def test_a_retry_overtakes_a_withdrawal_and_its_late_worker(
    library: Library, neighbour: Library, journal: Journal
) -> None:
    await library.ingest("d", {"c1": ONE})
    job = await library.open("d")
    await library.put("d", job, {"c2": TWO, "c3": THREE})
    await library.graph.fold("d", job, ["c2", "c3"])
    latest = await fail(library, journal, job)
    ids = await library.graph.retired("d", latest.id)
    await library.graph.retract("d", ids[:1])
    again = await library.reopen("d", Plan.INGEST)
    await library.graph.retract("d", ids)
    await library.documents.restore("d", latest.id)
    await library.put("d", again, {"c2": TWO, "c3": THREE})
    await library.graph.fold("d", again, await library.graph.unfolded("d", again))
    await library.graph.retract("d", ids)
    await library.documents.publish("d", again)
    await library.graph.retract("d", await library.graph.retired("d", again))
    await neighbour.ingest("d", {"c2": TWO, "c3": THREE})
    assert await library.fingerprint() == await neighbour.fingerprint()
    assert not [
        one for one in await library.graph.unindexed("d") if one.gone and one.ref.key != "c1"
    ]


async def test_a_point_of_what_was_put_again_and_given_up_is_deleted(
    library: Library, journal: Journal
) -> None:
    await library.ingest("d", {"c1": ONE, "c2": TWO})
    deletion = await library.reopen("d", Plan.DELETE)
    await library.graph.retract("d", await library.graph.retired("d", deletion))
    job = await library.open("d")
    await library.put("d", job, {"c1": ONE})
    gone = {Stale(Ref(Kind.CHUNK, "c1"), gone=True), Stale(Ref(Kind.CHUNK, "c2"), gone=True)}
    assert gone <= set(await library.graph.unindexed())
    latest = await fail(library, journal, job)
    assert latest.plan is Plan.WITHDRAW
    await withdraw(library, latest.id)
    assert await library.graph.unindexed() == []
    other = await library.open("d")
    await library.put("d", other, {"c3": THREE})
    assert await library.graph.pending_chunks("d", ["c1", "c2"]) == []


async def test_an_upload_that_overtakes_a_deletion_is_a_first_one(
    library: Library, journal: Journal
) -> None:
    old, new = make.revision("old"), make.revision("new")
    await library.ingest("d", {"c1": ONE, "c2": TWO}, old)
    deletion = await library.reopen("d", Plan.DELETE)
    await library.graph.retract("d", ["c1"])
    job = make.job("d")
    document = await library.documents.submit("d", new, job)
    assert (document.live, document.version, document.superseded) == (None, 0, (old,))
    assert (await library.graph.stats()).documents == 0
    await library.put("d", job.id, {"c2": TWO})
    latest = await fail(library, journal, job.id)
    await library.graph.retract("d", ["c1", "c2"])  # the deletion's late worker
    await withdraw(library, latest.id)
    assert await library.graph.stats() == Stats(0, 0, 0, 0)
    assert (await library.documents.get("d")).job.id != deletion


async def test_an_extraction_for_another_key_is_not_taken(library: Library) -> None:
    job = await library.open("d")
    await library.graph.put_chunks("d", job, [make.chunk("c1")], ["new key"])
    await library.graph.put_extraction("c1", Extraction(error="late"), key="old key")
    assert await library.graph.unread("d", job) == ["c1"]
    await library.graph.put_extraction("c1", ONE, key="new key")
    assert await library.graph.unread("d", job) == []


async def test_how_chunks_were_read_is_told_and_failed_ones_are_read_again(
    library: Library, neighbour: Library, journal: Journal
) -> None:
    bad, empty = Extraction(error="no reply"), Extraction(about=("T",))
    job = await library.ingest("d", {"c1": ONE, "c2": bad, "c3": empty, "c4": bad})
    readings = await library.graph.readings("d", job)
    assert (readings.chunks, readings.empty) == (4, ("c3",))
    assert readings.failed == (Unread("c2", 1, "no reply"), Unread("c4", 3, "no reply"))
    assert await library.graph.failed("d") == {"c2": "no reply", "c4": "no reply"}
    again = make.job("d")
    await library.documents.reopen("d", again, again=["c1", "c2", "unknown"])
    assert await library.graph.unread("d", again.id) == ["c2"]
    assert len(await library.graph.document_chunks("d")) == 4, "visible meanwhile"
    latest = await fail(library, journal, again.id)
    await withdraw(library, latest.id)
    assert list(await library.graph.failed("d")) == ["c2", "c4"]
    third = make.job("d")
    await library.documents.reopen("d", third, again=["c2"])
    await library.graph.put_extraction("c2", TWO)
    await library.graph.fold("d", third.id, await library.graph.unfolded("d", third.id))
    await library.documents.publish("d", third.id)
    assert await library.graph.retired("d", third.id) == []
    assert (await library.documents.get("d")).version == 1
    await neighbour.ingest("d", {"c1": ONE, "c2": TWO, "c3": empty, "c4": bad})
    assert await library.fingerprint() == await neighbour.fingerprint()


async def test_warnings_are_exchanged_by_the_latest_job_only(library: Library) -> None:
    job = await library.ingest("d", {"c1": ONE})
    await library.documents.charge("d", Usage(), ["a", "b"])
    latest = await library.reopen("d", Plan.INGEST)
    for _ in range(2):
        await library.documents.note("d", latest, without=["a"], add=["c", "b"])
        await library.documents.note("d", job, without=["b"], add=["z"])
    assert set((await library.documents.get("d")).warnings) == {"b", "c"}
