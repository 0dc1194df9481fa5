"""Documents: submitting, replacing, filtering, removing, and the fences of their jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.domain import Failure, Metadata, Plan, State, Status, Usage
from app.errors import Conflict, Invalid, NotFound
from app.ports import Documents, Journal
from tests import make
from tests.contract.conftest import Library, Stores

ONE = make.extraction(make.entity("Alpha", "the first"))


async def finish(journal: Journal, job_id: str, first_stage: str = "parse") -> None:
    step = await journal.claim(f"{job_id}.{first_stage}.0", lease=60, tries=3)
    assert step is not None
    assert (await journal.finish(step, lease=60)).job_done


# --- submitting ----------------------------------------------------------------------------------


async def test_a_submitted_document_is_pending_with_a_queued_job(
    documents: Documents, journal: Journal, workspace: str
) -> None:
    revision = make.revision(metadata={"tags": ["a", "b"], "year": 2024, "ok": True, "x": 0.5})
    job = make.job("d")
    document = await documents.submit("d", revision, job)
    assert (document.id, document.version, document.live) == ("d", 0, None)
    assert document.pending == revision
    assert (document.status, document.job.id, document.chunks) == (Status.QUEUED, job.id, 0)
    assert document == await documents.get("d")
    stored = await journal.job(workspace, job.id)
    assert stored == document.job
    assert (stored.state, stored.workspace, stored.document_id) == (State.QUEUED, workspace, "d")
    assert stored.created_at > 0
    step = await journal.claim(f"{job.id}.parse.0", lease=60, tries=3)
    assert step is not None and step.shard == ()


async def test_an_unknown_document_is_not_found(documents: Documents) -> None:
    with pytest.raises(NotFound):
        await documents.get("nobody")
    with pytest.raises(NotFound):
        await documents.reopen("nobody", make.job("nobody"))
    assert await documents.many(["nobody"]) == []


async def test_submitting_with_the_same_job_twice_is_submitting_once(documents: Documents) -> None:
    revision, job = make.revision(), make.job("d")
    first = await documents.submit("d", revision, job)
    assert await documents.submit("d", revision, job) == first


async def test_a_job_that_others_followed_is_not_opened_again(
    library: Library, stores: Stores
) -> None:
    first, second = make.job("d"), make.job("d")
    await library.documents.submit("d", make.revision("one"), first)
    await library.documents.submit("d", make.revision("two"), second)
    seen = await library.documents.submit("d", make.revision("one"), first)
    assert (seen.job.id, seen.coming.source) == (second.id, "two")
    await library.delete("d")
    with pytest.raises(Conflict):
        await library.documents.submit("d", make.revision("one"), first)
    assert await library.documents.many(["d"]) == []
    assert await library.documents.counts() == {}


async def test_a_submission_names_the_coming_revision_that_it_pushed_aside(
    library: Library,
) -> None:
    one, two = make.revision("one"), make.revision("two")
    assert (await library.documents.submit("d", one, make.job("d"))).superseded == ()
    seen = await library.documents.submit("d", two, make.job("d"))
    assert seen.superseded == (one,)
    assert (await library.documents.submit("d", two, make.job("d"))).superseded == ()
    assert (await library.documents.get("d")).superseded == ()
    await library.ingest("e", {"c1": ONE}, one)
    assert (await library.documents.submit("e", two, make.job("e"))).superseded == ()


async def test_the_same_revision_is_not_queued_again_while_its_job_runs(
    documents: Documents, journal: Journal, workspace: str
) -> None:
    revision, job = make.revision(metadata={"b": 1, "a": ["x"]}), make.job("d")
    await documents.submit("d", revision, job)
    same = make.revision(revision.source, metadata={"a": ["x"], "b": 1})
    assert (await documents.submit("d", same, make.job("d"))).job.id == job.id
    assert len(await journal.jobs(workspace)) == 1


@pytest.mark.parametrize(
    "change",
    [{"source": "other"}, {"name": "x"}, {"metadata": {"a": 2}}, {"date": "2024-01-01"}],
    ids=str,
)
async def test_any_difference_is_a_new_revision(
    documents: Documents, change: dict[str, Any]
) -> None:
    base: dict[str, Any] = {"source": "source", "metadata": {"a": 1}}
    await documents.submit("d", make.revision(**base), make.job("d"))
    job = make.job("d")
    document = await documents.submit("d", make.revision(**{**base, **change}), job)
    assert document.job.id == job.id
    assert document.pending == make.revision(**{**base, **change})


async def test_what_is_live_already_is_not_queued_again(library: Library, stores: Stores) -> None:
    revision = make.revision()
    job = await library.ingest("d", {"c1": ONE}, revision)
    await finish(stores.journal, job)
    document = await library.documents.submit("d", revision, make.job("d"))
    assert (document.job.id, document.status, document.pending) == (job, Status.READY, None)


async def test_a_failed_document_can_be_submitted_again(library: Library, stores: Stores) -> None:
    revision, job = make.revision(), make.job("d")
    await library.documents.submit("d", revision, job)
    failure = Failure("unparsable", "no text", "parse", retryable=False)
    assert await stores.journal.close(library.name, job.id, State.FAILED, failure)
    failed = await library.documents.get("d")
    assert (failed.status, failed.job.error) == (Status.FAILED, failure)
    again = make.job("d")
    assert (await library.documents.submit("d", revision, again)).job.id == again.id


async def test_a_new_upload_cancels_the_running_job(
    documents: Documents, journal: Journal, workspace: str
) -> None:
    old, new = make.job("d"), make.job("d")
    await documents.submit("d", make.revision(), old)
    step = await journal.claim(f"{old.id}.parse.0", lease=60, tries=3)
    assert step is not None
    document = await documents.submit("d", make.revision(), new)
    assert (document.job.id, document.status) == (new.id, Status.QUEUED)
    cancelled = await journal.job(workspace, old.id)
    assert cancelled.state is State.CANCELLED
    assert cancelled.error is not None and cancelled.error.code == "cancelled"
    assert not await journal.renew(step, lease=60)
    assert (await journal.finish(step, next_stage="extract", lease=60)).step is None


async def test_uploads_at_the_same_moment_leave_one_running_job(
    documents: Documents, journal: Journal, workspace: str
) -> None:
    jobs = [make.job("d") for _ in range(6)]
    await asyncio.gather(*(documents.submit("d", make.revision(), job) for job in jobs))
    states = [job.state for job in await journal.jobs(workspace)]
    assert sorted(states) == [State.CANCELLED] * 5 + [State.QUEUED]
    assert (await documents.get("d")).job.state is State.QUEUED


async def test_reopening_keeps_what_is_stored_and_cancels_the_running_job(
    documents: Documents, journal: Journal, workspace: str
) -> None:
    first, deletion = make.job("d"), make.job("d", plan=Plan.DELETE)
    await documents.submit("d", make.revision("s"), first)
    for _ in range(2):
        document = await documents.reopen("d", deletion)
    assert (document.job.id, document.status) == (deletion.id, Status.DELETING)
    assert document.pending is not None and document.pending.source == "s"
    assert (await journal.job(workspace, first.id)).state is State.CANCELLED
    step = await journal.claim(f"{deletion.id}.retract.0", lease=60, tries=3)
    assert step is not None and step.plan is Plan.DELETE


async def test_after_a_broken_deletion_everything_is_read_again(library: Library) -> None:
    revision = make.revision(metadata={"a": 1})
    await library.ingest("d", {"c1": ONE}, revision)
    await library.reopen("d", Plan.DELETE)
    await library.graph.retract("d", ["c1"])
    job = make.job("d")
    document = await library.documents.submit("d", revision, job)
    assert (document.job.id, document.pending) == (job.id, revision)
    await library.reopen("d", Plan.DELETE)
    await library.documents.publish("d", (await library.documents.get("d")).job.id)
    await library.reopen("d", Plan.INGEST)
    assert (await library.documents.get("d")).pending == revision
    assert await library.documents.matching({"a": 1}, limit=5) == ["d"]


# --- the life of a revision ----------------------------------------------------------------------


async def test_parsing_publishing_and_replacing(documents: Documents) -> None:
    first, second = make.job("d"), make.job("d")
    await documents.submit("d", make.revision("one", metadata={"v": 1}), first)
    for _ in range(2):
        await documents.parsed("d", first.id, text="text one", title="Title")
    assert (await documents.get("d")).live is None
    for _ in range(2):
        await documents.publish("d", first.id)
    document = await documents.get("d")
    assert document.live is not None and document.pending is None
    assert (document.version, document.live.text, document.live.title) == (1, "text one", "Title")
    await documents.submit("d", make.revision("two", metadata={"v": 2}), second)
    document = await documents.get("d")
    assert (document.version, document.revision.source, document.coming.source) == (1, "one", "two")
    assert await documents.matching({"v": 1}, limit=5) == ["d"]
    assert await documents.matching({"v": 2}, limit=5) == []
    await documents.publish("d", second.id)
    document = await documents.get("d")
    assert (document.version, document.revision.source, document.pending) == (2, "two", None)
    assert await documents.matching({"v": 1}, limit=5) == []
    assert await documents.matching({"v": 2}, limit=5) == ["d"]


async def test_a_revision_that_was_seen_but_never_published_counts_as_a_version(
    library: Library,
) -> None:
    """What it alone supported is to be profiled and indexed anew, as after any replacement."""
    first = await library.open(revision=make.revision("one"))
    seen = await library.put("d", first, {"c1": make.extraction(make.entity())})
    await library.graph.fold("d", first, seen)
    await library.ingest("d", {"c2": make.extraction(make.entity())}, make.revision("two"))
    assert (await library.documents.get("d")).version == 2
    await library.ingest("d", {"c3": make.extraction(make.entity())}, make.revision("three"))
    assert (await library.documents.get("d")).version == 3


@pytest.mark.parametrize("folded", [(), ("c1",)])
async def test_a_revision_that_nobody_saw_or_that_is_kept_counts_as_none(
    library: Library, folded: tuple[str, ...]
) -> None:
    reading = {"c1": make.extraction(make.entity())}
    first = await library.open(revision=make.revision("one"))
    await library.put("d", first, reading)
    await library.graph.fold("d", first, folded)
    await library.ingest("d", reading, make.revision("two"))
    assert (await library.documents.get("d")).version == 1


async def test_an_overtaken_job_changes_nothing(documents: Documents) -> None:
    old, new = make.job("d"), make.job("d")
    await documents.submit("d", make.revision("one"), old)
    await documents.submit("d", make.revision("two"), new)
    before = await documents.get("d")
    await documents.parsed("d", old.id, text="text", title="t")
    await documents.publish("d", old.id)
    await documents.remove("d", old.id)
    await documents.publish("nobody", old.id)
    assert await documents.get("d") == before


async def test_usage_adds_up_and_warnings_are_kept_once(documents: Documents) -> None:
    job = make.job("d")
    await documents.submit("d", make.revision(), job)
    await documents.charge("d", Usage(1, 100, 20, 0.25), ["page 2 is empty", "page 2 is empty"])
    await documents.charge("d", Usage(2, 1, 1, 0.5), ["page 2 is empty", "page 3 is empty"])
    await documents.charge("nobody", Usage(1, 1, 1, 1.0))
    document = await documents.get("d")
    assert document.usage == Usage(3, 101, 21, 0.75)
    assert document.warnings == ("page 2 is empty", "page 3 is empty")
    await documents.parsed("d", job.id, text="t", title="")
    document = await documents.get("d")
    assert (document.warnings, document.usage.llm_calls) == ((), 3)


async def test_charges_at_the_same_moment_all_count(documents: Documents) -> None:
    await documents.submit("d", make.revision(), make.job("d"))
    await asyncio.gather(*(documents.charge("d", Usage(1, 2, 3, 0.5), [f"w{n}"]) for n in range(8)))
    document = await documents.get("d")
    assert document.usage == Usage(8, 16, 24, 4.0)
    assert len(document.warnings) == 8


async def test_a_removed_document_is_gone_but_its_jobs_can_be_read(
    library: Library, stores: Stores
) -> None:
    ingest = await library.ingest("d", {"c1": ONE}, make.revision(metadata={"a": 1}))
    deletion = await library.reopen("d", Plan.DELETE)
    with pytest.raises(Conflict):
        await library.documents.remove("d", deletion)
    await library.graph.retract("d", ["c1"])
    for _ in range(2):
        await library.documents.remove("d", deletion)
    with pytest.raises(NotFound):
        await library.documents.get("d")
    assert await library.documents.page() == []
    assert await library.documents.counts() == {}
    assert await library.documents.matching({"a": 1}, limit=5) == []
    assert await library.documents.matching({}, limit=5) == []
    assert (await stores.journal.job(library.name, ingest)).document_id == "d"
    await finish(stores.journal, deletion, "retract")
    assert (await stores.journal.job(library.name, deletion)).state is State.DONE


async def test_a_removed_document_can_come_back(library: Library) -> None:
    await library.ingest("d", {"c1": ONE})
    await library.delete("d")
    await library.ingest("d", {"c1": ONE}, make.revision("again"))
    document = await library.documents.get("d")
    assert (document.version, document.chunks, document.revision.source) == (1, 1, "again")
    assert (await library.graph.stats()).chunks == 1


async def test_a_blob_is_in_use_while_any_revision_anywhere_has_it(
    library: Library, neighbour: Library
) -> None:
    blob, text = make.name("blob"), make.name("text")
    documents = library.documents
    assert not await documents.blob_in_use(blob)
    job = await library.open("d", make.revision(blob))
    assert await documents.blob_in_use(blob) and await neighbour.documents.blob_in_use(blob)
    await documents.parsed("d", job, text=text, title="")
    assert await documents.blob_in_use(text)
    await documents.publish("d", job)
    assert await documents.blob_in_use(blob) and await documents.blob_in_use(text)
    await neighbour.ingest("e", {}, make.revision(blob))
    await library.ingest("d", {}, make.revision())
    assert await documents.blob_in_use(blob) and not await documents.blob_in_use(text)
    await neighbour.delete("e")
    assert not await documents.blob_in_use(blob)


# --- lists and filters ---------------------------------------------------------------------------


async def test_documents_are_paged_in_the_order_of_ids_and_by_status(
    library: Library, stores: Stores
) -> None:
    for id in ("d3", "d1", "d2"):
        await finish(stores.journal, await library.ingest(id, {}))
    await library.open("d0")
    page = library.documents.page
    assert [one.id for one in await page(limit=2)] == ["d0", "d1"]
    assert [one.id for one in await page(after="d1")] == ["d2", "d3"]
    assert [one.id for one in await page(status=Status.READY, limit=2)] == ["d1", "d2"]
    assert [one.id for one in await page(status=Status.READY, after="d2")] == ["d3"]
    assert [one.id for one in await page(status=Status.FAILED)] == []
    assert await library.documents.counts() == {Status.READY: 3, Status.QUEUED: 1}
    assert [one.id for one in await library.documents.many(["d3", "no", "d0", "d3"])] == [
        "d3",
        "d0",
    ]


SHELF: dict[str, Metadata] = {
    "d1": {"author": "Curie", "year": 1898, "tags": ["radium", "polonium"], "done": True},
    "d2": {"author": "Bohr", "year": 1913.5, "tags": ["atom"], "done": False},
    "d3": {"author": "curie", "year": "1898", "tags": "radium", "done": "true"},
    "d4": {"author": 'O\'Neil "{$x}" 文', "year": -1, "marks": [1, 2.5, True, "x"], "tags": []},
    "d5": {},
}
DATES = {"d1": "1898-07-18", "d2": "1913-07-01T10:00:00Z", "d3": "2024-01-01"}


@pytest.fixture
async def shelf(library: Library) -> Library:
    for id, metadata in SHELF.items():
        revision = make.revision(name=f"{id}.txt", metadata=metadata, date=DATES.get(id, ""))
        await library.ingest(id, {}, revision)
    return library


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({}, "d1 d2 d3 d4 d5"),
        ({"author": "Curie"}, "d1"),
        ({"author": ["Curie", "Bohr", "nobody"]}, "d1 d2"),
        ({"author": []}, ""),
        ({"author": 'O\'Neil "{$x}" 文'}, "d4"),
        ({"year": 1898}, "d1"),
        ({"year": 1898.0}, "d1"),
        ({"year": "1898"}, "d3"),
        ({"year": [1898, "1898", -1]}, "d1 d3 d4"),
        ({"year": {"gte": 1898}}, "d1 d2"),
        ({"year": {"gt": 1898, "lt": 2000}}, "d2"),
        ({"year": {"lte": -1}}, "d4"),
        ({"year": {"gte": "1"}}, "d3"),
        ({"year": 10**30}, ""),
        ({"tags": "radium"}, "d1 d3"),
        ({"tags": ["polonium", "atom"]}, "d1 d2"),
        ({"tags": {"gte": "b"}}, "d1 d3"),
        ({"done": True}, "d1"),
        ({"done": False}, "d2"),
        ({"done": 1}, ""),
        ({"done": "true"}, "d3"),
        ({"marks": 2.5}, "d4"),
        ({"marks": True}, "d4"),
        ({"marks": 0}, ""),
        ({"marks": {"gt": 1, "lt": 2.5}}, ""),  # no single element lies between
        ({"author": "Curie", "year": 1898, "tags": "polonium"}, "d1"),
        ({"author": "Curie", "year": 1913.5}, ""),
        ({"document_id": ["d2", "d5"]}, "d2 d5"),
        ({"name": "d3.txt"}, "d3"),
        ({"date": {"gte": "1900-01-01", "lt": "2025-01-01"}}, "d2 d3"),
        ({"date": {"gte": "2026-01-01"}}, "d4 d5"),  # the time of upload
        ({"unknown": "x"}, ""),
        ({"author') or 1=1 --": "x"}, ""),
        ({"year} DETACH DELETE n //": 1}, ""),
    ],
    ids=str,
)
async def test_filters(shelf: Library, filters: dict[str, Any], ids: str) -> None:
    expected = ids.split()
    assert await shelf.documents.matching(filters, limit=50) == expected
    assert [one.id for one in await shelf.documents.page(filters=filters)] == expected
    assert await shelf.documents.matching(filters, limit=1) == expected[:1]
    behind = await shelf.documents.page(filters=filters, after="d2")
    assert [one.id for one in behind] == [id for id in expected if id > "d2"]


@pytest.mark.parametrize("condition", [{}, {"like": 1}, {"gte": 1, "lt": "2"}, {"gte": True}])
async def test_a_range_that_is_none_is_refused(documents: Documents, condition: Any) -> None:
    with pytest.raises(Invalid):
        await documents.matching({"year": condition}, limit=5)
    with pytest.raises(Invalid):
        await documents.page(filters={"year": condition})


async def test_pages_show_pending_documents_that_queries_do_not_match(library: Library) -> None:
    await library.open("d", make.revision(metadata={"a": 1}))
    filters = {"a": 1}
    assert [one.id for one in await library.documents.page(filters=filters)] == ["d"]
    assert await library.documents.matching(filters, limit=5) == []
    assert await library.documents.matching({}, limit=5) == []
    queued = await library.documents.page(filters=filters, status=Status.QUEUED)
    assert [one.id for one in queued] == ["d"]


# --- workspaces ----------------------------------------------------------------------------------


async def test_two_workspaces_do_not_see_or_touch_each_other(
    library: Library, neighbour: Library
) -> None:
    job = await library.ingest("d", {"c1": ONE}, make.revision(metadata={"a": 1}))
    before = await library.documents.get("d")
    other = neighbour.documents
    with pytest.raises(NotFound):
        await other.get("d")
    with pytest.raises(NotFound):
        await other.reopen("d", make.job("d"))
    assert await other.page() == await other.many(["d"]) == []
    assert await other.counts() == {}
    assert await other.matching({"a": 1}, limit=5) == await other.matching({}, limit=5) == []
    await other.parsed("d", job, text="x", title="x")
    await other.charge("d", Usage(1), ["x"])
    await other.publish("d", job)
    await other.remove("d", job)
    await neighbour.ingest("d", {"c1": ONE}, make.revision(metadata={"a": 2}))
    await neighbour.delete("d")
    assert await library.documents.get("d") == before
    assert await library.documents.matching({"a": 1}, limit=5) == ["d"]
