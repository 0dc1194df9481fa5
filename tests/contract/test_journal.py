"""Jobs as leased steps: each runs once, none is lost, and what comes too late changes nothing.

A lease of 0 seconds has run out at once, so that no test needs to wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from app.domain import FIRST_STAGE, Failure, Job, Opened, Plan, State, Status, Step, Ticket
from app.errors import NotFound
from app.ports import Documents, Journal
from tests import make

LEASE = 60.0


@pytest.fixture
async def job(documents: Documents) -> Job:
    opened = make.job("d")
    await documents.submit("d", make.revision(), opened)
    return opened


async def claim(journal: Journal, step_id: str, *, lease: float = LEASE, tries: int = 5) -> Step:
    step = await journal.claim(step_id, lease=lease, tries=tries)
    assert step is not None
    return step


# --- claiming ------------------------------------------------------------------------------------


async def test_a_claimed_step_says_all_that_its_worker_needs(
    journal: Journal, job: Job, workspace: str
) -> None:
    step = await claim(journal, f"{job.id}.parse.0")
    assert step == Step(
        f"{job.id}.parse.0", job.id, workspace, Plan.INGEST, "d", "parse", (), attempt=1, alone=True
    )
    running = await journal.job(workspace, job.id)
    assert (running.state, running.stage) == (State.RUNNING, "parse")


async def test_a_leased_step_cannot_be_claimed_again(journal: Journal, job: Job) -> None:
    step = await claim(journal, f"{job.id}.parse.0")
    assert await journal.claim(step.id, lease=LEASE, tries=5) is None
    assert await journal.claim("unknown.parse.0", lease=LEASE, tries=5) is None


async def test_of_many_claims_at_once_exactly_one_wins(journal: Journal, job: Job) -> None:
    claims = [journal.claim(f"{job.id}.parse.0", lease=LEASE, tries=5) for _ in range(12)]
    won = [step for step in await asyncio.gather(*claims) if step is not None]
    assert [step.attempt for step in won] == [1]


async def test_a_lost_lease_can_be_claimed_again_and_fences_the_first_claim(
    journal: Journal, job: Job, workspace: str
) -> None:
    lost = await claim(journal, f"{job.id}.parse.0", lease=0)
    held = await claim(journal, lost.id)
    assert (lost.attempt, held.attempt) == (1, 2)
    assert not await journal.renew(lost, lease=LEASE)
    assert await journal.finish(lost, next_stage="extract", lease=LEASE) == Opened()
    assert await journal.release(lost, delay=0, error="late") is None
    assert await journal.renew(held, lease=LEASE)
    assert (await journal.job(workspace, job.id)).stage == "parse"
    assert (await journal.finish(held, next_stage="extract", lease=LEASE)).step is not None


async def test_a_lease_that_ran_out_is_valid_until_another_claim(
    journal: Journal, job: Job
) -> None:
    step = await claim(journal, f"{job.id}.parse.0", lease=0)
    assert await journal.renew(step, lease=LEASE)
    assert await journal.claim(step.id, lease=LEASE, tries=5) is None


async def test_when_all_tries_are_used_up_the_job_fails(
    journal: Journal, job: Job, workspace: str
) -> None:
    step_id = f"{job.id}.parse.0"
    for _ in range(3):
        await claim(journal, step_id, lease=0, tries=3)
    assert await journal.claim(step_id, lease=0, tries=3) is None
    failed = await journal.job(workspace, job.id)
    assert (failed.state, failed.status) == (State.FAILED, Status.FAILED)
    assert failed.error is not None
    assert (failed.error.code, failed.error.stage, failed.error.retryable) == (
        "worker_lost", "parse", True,
    )  # fmt: skip
    assert await journal.claim(step_id, lease=0, tries=99) is None


# --- finishing -----------------------------------------------------------------------------------


async def test_a_worker_goes_straight_through_the_stages(
    journal: Journal, documents: Documents, job: Job, workspace: str
) -> None:
    step = await claim(journal, f"{job.id}.parse.0")
    opened = await journal.finish(
        step, next_stage="extract", next_status=Status.EXTRACTING, lease=LEASE
    )
    assert opened.step is not None and opened.send == () and not opened.job_done
    assert (opened.step.id, opened.step.attempt) == (f"{job.id}.extract.0", 1)
    assert await journal.claim(opened.step.id, lease=LEASE, tries=5) is None
    document = await documents.get("d")
    assert (document.status, document.job.stage) == (Status.EXTRACTING, "extract")
    assert await journal.finish(opened.step, lease=LEASE) == Opened(job_done=True)
    done = await journal.job(workspace, job.id)
    assert (done.state, done.status, done.error) == (State.DONE, Status.READY, None)
    assert (await documents.get("d")).status is Status.READY


async def test_finishing_twice_is_finishing_once(
    journal: Journal, job: Job, workspace: str
) -> None:
    step = await claim(journal, f"{job.id}.parse.0")
    await journal.finish(step, shards=[["a"], ["b"]], lease=LEASE)
    assert await journal.finish(step, shards=[["a"], ["b"]], lease=LEASE) == Opened()
    assert (await journal.job(workspace, job.id)).total == 2


async def test_shards_are_counted_and_the_last_one_opens_the_next_stage(
    journal: Journal, job: Job, workspace: str
) -> None:
    split = await claim(journal, f"{job.id}.parse.0")
    shards = [["a", "b"], ["c"], [], ["d", "e", "f"]]
    opened = await journal.finish(split, shards=shards, lease=LEASE)
    assert opened.step is not None
    assert (opened.step.id, opened.step.shard) == (f"{job.id}.parse.1", ("a", "b"))
    assert opened.send == (Ticket(f"{job.id}.parse.2", 0), Ticket(f"{job.id}.parse.3", 0))
    second, third = [await claim(journal, ticket.step_id) for ticket in opened.send]
    assert (second.shard, third.shard) == (("c",), ("d", "e", "f"))
    for step, done in ((third, 3), (opened.step, 5)):
        assert await journal.finish(step, next_stage="merge", lease=LEASE) == Opened()
        now = await journal.job(workspace, job.id)
        assert (now.stage, now.done, now.total) == ("parse", done, 6)
    last = await journal.finish(second, next_stage="merge", next_status=Status.MERGING, lease=LEASE)
    assert last.step is not None and last.step.id == f"{job.id}.merge.0"
    now = await journal.job(workspace, job.id)
    assert (now.stage, now.status, now.done, now.total) == ("merge", Status.MERGING, 0, 0)


async def test_two_last_shards_at_once_open_the_next_stage_once(journal: Journal, job: Job) -> None:
    split = await claim(journal, f"{job.id}.parse.0")
    opened = await journal.finish(split, shards=[[f"{n}"] for n in range(8)], lease=LEASE)
    assert opened.step is not None
    steps = [opened.step, *[await claim(journal, ticket.step_id) for ticket in opened.send]]
    finished = await asyncio.gather(
        *(journal.finish(step, next_stage="merge", lease=LEASE) for step in steps)
    )
    next_steps = [one.step.id for one in finished if one.step is not None]
    assert next_steps == [f"{job.id}.merge.0"]


async def test_a_stage_is_entered_with_the_shards_that_are_known_of_it(
    journal: Journal, job: Job, workspace: str
) -> None:
    step = await claim(journal, f"{job.id}.parse.0")
    opened = await journal.finish(
        step, next_stage="index", next_status=Status.INDEXING, shards=[["a", "b"], [], ["c"]],
        lease=LEASE,
    )  # fmt: skip
    assert opened.step is not None
    assert (opened.step.id, opened.step.shard) == (f"{job.id}.index.1", ("a", "b"))
    assert not opened.step.alone
    assert opened.send == (Ticket(f"{job.id}.index.2", 0),)
    known = await journal.job(workspace, job.id)
    assert (known.stage, known.status, known.done, known.total) == (
        "index", Status.INDEXING, 0, 3,
    )  # fmt: skip
    other = await claim(journal, f"{job.id}.index.2")
    assert not other.alone
    # While another step is open nothing is entered: whoever finishes last divides it.
    assert await journal.finish(
        other, next_stage="publish", shards=[["x"]], lease=LEASE
    ) == Opened()  # fmt: skip
    last = (await journal.finish(opened.step, next_stage="publish", lease=LEASE)).step
    assert last is not None
    assert (last.id, last.shard, last.alone) == (f"{job.id}.publish.0", (), True)
    known = await journal.job(workspace, job.id)
    assert (known.stage, known.done, known.total) == ("publish", 0, 0)


async def test_one_shard_of_the_next_stage_is_known_to_be_alone_until_it_is_claimed_again(
    journal: Journal, job: Job
) -> None:
    step = await claim(journal, f"{job.id}.parse.0")
    opened = await journal.finish(step, next_stage="index", shards=[["a"]], lease=LEASE)
    assert opened.step is not None and opened.step.alone and not opened.send
    await journal.release(opened.step, delay=0)
    again = await claim(journal, opened.step.id)
    assert (again.shard, again.alone) == (("a",), False)
    assert (await journal.finish(again, lease=LEASE)).job_done


async def test_many_workers_and_double_deliveries_run_each_step_once(
    journal: Journal, documents: Documents
) -> None:
    ran: Counter[str] = Counter()
    tickets: asyncio.Queue[Ticket] = asyncio.Queue()
    jobs = [make.job(f"d{n}") for n in range(3)]
    for one in jobs:
        await documents.submit(one.document_id, make.revision(), one)
    done = 0

    async def worker() -> None:
        nonlocal done
        while done < len(jobs):
            try:
                ticket = tickets.get_nowait()
            except asyncio.QueueEmpty:
                await asyncio.sleep(0.001)
                continue
            step = await journal.claim(ticket.step_id, lease=LEASE, tries=5)
            while step is not None:
                ran[step.id] += 1
                split = step.stage != "index" and not step.shard
                shards = [[f"{n}"] for n in range(4)] if split else []
                after = {"parse": "extract", "extract": "index", "index": ""}[step.stage]
                opened = await journal.finish(
                    step, shards=shards, next_stage="" if split else after, lease=LEASE
                )
                for one in opened.send:
                    tickets.put_nowait(one)
                    tickets.put_nowait(one)
                done += opened.job_done
                step = opened.step

    for one in jobs:
        for _ in range(2):
            tickets.put_nowait(Ticket(f"{one.id}.parse.0", 0))
    await asyncio.gather(*(worker() for _ in range(6)))
    assert set(ran.values()) == {1}
    assert len(ran) == len(jobs) * (2 * 5 + 1)


# --- giving back ---------------------------------------------------------------------------------


async def test_a_step_given_back_with_an_error_counts_a_failed_attempt(
    journal: Journal, job: Job, workspace: str
) -> None:
    step = await claim(journal, f"{job.id}.parse.0", tries=2)
    ticket = await journal.release(step, delay=0, error="model away")
    assert ticket == Ticket(step.id, 1)
    assert await journal.release(step, delay=0, error="model away") is None
    assert await journal.finish(step, lease=LEASE) == Opened()
    again = await claim(journal, step.id, tries=2)
    assert (again.attempt, again.tries) == (2, 2)
    await journal.release(again, delay=0, error="model away")
    assert (await journal.job(workspace, job.id)).attempts == 2
    assert await journal.claim(step.id, lease=LEASE, tries=2) is None
    assert (await journal.job(workspace, job.id)).state is State.FAILED


async def test_a_stopping_worker_uses_up_no_try(journal: Journal, job: Job, workspace: str) -> None:
    step_id = f"{job.id}.parse.0"
    seen: list[Step] = []
    for _ in range(4):
        seen.append(await claim(journal, step_id, tries=1))
        ticket = await journal.release(seen[-1], delay=0)
        assert ticket == Ticket(step_id, len(seen))  # another identity each time
    assert (await journal.job(workspace, job.id)).attempts == 0
    held = await claim(journal, step_id, tries=1)
    assert (held.attempt, held.tries) == (5, 1)
    for step in seen:
        assert await journal.finish(step, lease=LEASE) == Opened()


async def test_a_step_that_waits_cannot_be_claimed_before_its_time(
    journal: Journal, job: Job
) -> None:
    step = await claim(journal, f"{job.id}.parse.0")
    await journal.release(step, delay=60, error="model away")
    assert await journal.claim(step.id, lease=LEASE, tries=5) is None
    assert step.id not in {
        ticket.step_id for ticket in await journal.overdue(limit=10_000, lease=LEASE)
    }


async def test_lost_steps_are_overdue_and_held_or_fresh_ones_are_not(
    journal: Journal, documents: Documents
) -> None:
    jobs = [make.job(f"d{n}") for n in range(4)]
    for one in jobs:
        await documents.submit(one.document_id, make.revision(), one)
    lost, held, waiting, fresh = [f"{one.id}.parse.0" for one in jobs]
    await claim(journal, lost, lease=0)
    await claim(journal, held)
    await journal.release(await claim(journal, waiting), delay=0, error="away")
    overdue = {
        ticket.step_id: ticket for ticket in await journal.overdue(limit=10_000, lease=LEASE)
    }
    assert overdue[lost] == Ticket(lost, 1)
    assert overdue[waiting] == Ticket(waiting, 1)
    assert held not in overdue and fresh not in overdue
    assert len(await journal.overdue(limit=1, lease=LEASE)) == 1


async def test_what_was_sent_again_is_left_alone_for_a_while(
    journal: Journal, documents: Documents
) -> None:
    jobs = [make.job(f"d{n}") for n in range(4)]
    for one in jobs:
        await documents.submit(one.document_id, make.revision(), one)
    steps = [f"{one.id}.parse.0" for one in jobs]
    for step_id in steps:
        await claim(journal, step_id, lease=0)

    async def overdue() -> dict[str, Ticket]:
        found = await journal.overdue(limit=10_000, lease=LEASE)
        return {one.step_id: one for one in found if one.step_id in steps}

    tickets = await overdue()
    assert set(tickets) == set(steps)
    await journal.resent([tickets[steps[0]], tickets[steps[1]], Ticket("gone", 1)], wait=60)
    await journal.resent([Ticket(steps[2], 7)], wait=60)  # of a claim that is not the latest
    assert set(await overdue()) == {steps[2], steps[3]}
    for step_id in steps[:2]:  # it may be claimed all the same, and lost once more
        assert (await claim(journal, step_id, lease=0)).attempt == 2
    assert set(await overdue()) == set(steps)
    await journal.resent(list((await overdue()).values()), wait=0)
    assert set(await overdue()) == set(steps)
    await journal.resent([], wait=60)


@pytest.mark.parametrize("ahead", [3600, 86_400])
async def test_a_time_that_a_clock_wrote_which_was_set_back_since_has_run_out(
    journal: Journal, documents: Documents, ahead: float
) -> None:
    """Seen after the change, a lease ends as much later as the clock was ahead; so does a delay."""
    jobs = [make.job(f"d{n}") for n in range(2)]
    for one in jobs:
        await documents.submit(one.document_id, make.revision(), one)
    leased, waiting = [f"{one.id}.parse.0" for one in jobs]
    await claim(journal, leased, lease=LEASE + ahead)
    await journal.release(await claim(journal, waiting), delay=LEASE + ahead, error="away")
    overdue = {one.step_id for one in await journal.overdue(limit=10_000, lease=LEASE)}
    assert {leased, waiting} <= overdue
    for step_id in (leased, waiting):
        assert (await claim(journal, step_id)).attempt == 2
        assert await journal.claim(step_id, lease=LEASE, tries=5) is None


# --- ending --------------------------------------------------------------------------------------


async def test_cancelling_a_running_job_takes_its_steps_away(
    journal: Journal, documents: Documents, job: Job, workspace: str
) -> None:
    split = await claim(journal, f"{job.id}.parse.0")
    opened = await journal.finish(split, shards=[["a"], ["b"]], lease=0)
    assert opened.step is not None
    assert await journal.close(workspace, job.id, State.CANCELLED)
    assert not await journal.close(workspace, job.id, State.FAILED)
    assert not await journal.renew(opened.step, lease=LEASE)
    assert await journal.finish(opened.step, next_stage="merge", lease=LEASE) == Opened()
    assert await journal.claim(opened.send[0].step_id, lease=LEASE, tries=5) is None
    left = {ticket.step_id for ticket in await journal.overdue(limit=10_000, lease=LEASE)}
    assert not any(step_id.startswith(job.id) for step_id in left)
    document = await documents.get("d")
    assert (document.job.state, document.status) == (State.CANCELLED, Status.FAILED)
    assert document.job.error is not None and document.job.error.code == "cancelled"


async def test_a_failed_job_keeps_the_first_reason(
    journal: Journal, job: Job, workspace: str
) -> None:
    failure = Failure("unparsable", 'it\'s "broken" {x}', "parse", retryable=False)
    assert await journal.close(workspace, job.id, State.FAILED, failure)
    assert not await journal.close(
        workspace, job.id, State.FAILED, Failure("other", "", "", retryable=True)
    )
    assert (await journal.job(workspace, job.id)).error == failure


async def test_an_error_without_a_stage_gets_that_of_the_job(
    journal: Journal, job: Job, workspace: str
) -> None:
    await journal.close(workspace, job.id, State.FAILED, Failure("x", "y", "", retryable=True))
    error = (await journal.job(workspace, job.id)).error
    assert error is not None and error.stage == "parse"


# --- reading -------------------------------------------------------------------------------------


async def test_jobs_are_listed_newest_first(
    journal: Journal, documents: Documents, workspace: str
) -> None:
    jobs = [make.job(f"d{n % 2}") for n in range(5)]
    for one in jobs:
        await documents.submit(one.document_id, make.revision(), one)
    ids = [one.id for one in reversed(jobs)]

    async def listed(**narrowed: object) -> list[str]:
        return [one.id for one in await journal.jobs(workspace, **narrowed)]  # type: ignore[arg-type]

    assert await listed() == ids
    assert await listed(limit=2) == ids[:2]
    assert await listed(after=ids[1], limit=2) == ids[2:4]
    assert await listed(document_id="d0") == ids[0::2]
    assert await listed(state=State.QUEUED) == ids[:2]
    assert await listed(document_id="d0", state=State.CANCELLED) == [ids[2], ids[4]]


async def test_two_workspaces_do_not_see_each_others_jobs(
    journal: Journal, documents: Documents, job: Job, workspace: str
) -> None:
    other = make.name()
    with pytest.raises(NotFound):
        await journal.job(other, job.id)
    with pytest.raises(NotFound):
        await journal.job(workspace, "unknown")
    assert await journal.jobs(other) == []
    assert not await journal.close(other, job.id, State.FAILED)
    assert not await journal.close(workspace, "unknown", State.FAILED)
    assert (await documents.get("d")).status is Status.QUEUED


# --- jobs of the workspace -----------------------------------------------------------------------


def curation(workspace: str) -> Job:
    return make.job("", plan=Plan.CURATE, workspace=workspace)


def first_step(job: Job) -> str:
    return f"{job.id}.{FIRST_STAGE[job.plan]}.0"


async def test_a_job_of_the_workspace_runs_to_its_end_without_a_document(
    journal: Journal, documents: Documents, workspace: str
) -> None:
    job = curation(workspace)
    await journal.open(job)
    assert await documents.counts() == {}
    assert await documents.page(status=Status.QUEUED) == []
    step = await claim(journal, first_step(job))
    assert (step.document_id, step.workspace, step.plan) == ("", workspace, Plan.CURATE)
    assert await journal.renew(step, lease=LEASE)
    ticket = await journal.release(step, delay=0.0, error="once more")
    assert ticket is not None
    step = await claim(journal, ticket.step_id)
    opened = await journal.finish(
        step, next_stage="reprofile", next_status=Status.INDEXING, lease=LEASE
    )
    assert opened.step is not None and opened.step.document_id == ""
    assert (await journal.finish(opened.step, lease=LEASE)).job_done
    done = await journal.job(workspace, job.id)
    assert (done.state, done.status, done.document_id) == (State.DONE, Status.READY, "")
    assert await documents.counts() == {}


async def test_opening_a_job_of_the_workspace_again_changes_nothing(
    journal: Journal, workspace: str
) -> None:
    job = curation(workspace)
    await asyncio.gather(journal.open(job), journal.open(job))
    step = await claim(journal, first_step(job))
    await journal.finish(step, lease=LEASE)
    await journal.open(job)
    assert await journal.claim(step.id, lease=LEASE, tries=3) is None
    assert [one.id for one in await journal.jobs(workspace)] == [job.id]
    assert (await journal.job(workspace, job.id)).state is State.DONE


async def test_jobs_of_the_workspace_and_of_documents_leave_each_other_alone(
    journal: Journal, documents: Documents, workspace: str
) -> None:
    one, other = curation(workspace), curation(workspace)
    await journal.open(one)
    await journal.open(other)
    document_job = make.job("d")
    await documents.submit("d", make.revision(), document_job)
    await documents.submit("d", make.revision(), make.job("d"))
    states = {job.id: job.state for job in await journal.jobs(workspace)}
    assert (states[one.id], states[other.id]) == (State.QUEUED, State.QUEUED)
    assert states[document_job.id] is State.CANCELLED
    assert await documents.counts() == {Status.QUEUED: 1}
    assert await journal.close(workspace, one.id, State.CANCELLED)
    assert (await documents.get("d")).status is Status.QUEUED


async def test_a_step_of_a_workspace_job_that_was_never_sent_is_overdue_like_any_other(
    journal: Journal, workspace: str
) -> None:
    job = curation(workspace)
    await journal.open(job)
    step = await claim(journal, first_step(job), lease=0.0)
    assert step.id in {
        ticket.step_id for ticket in await journal.overdue(limit=10_000, lease=LEASE)
    }
    await journal.close(workspace, job.id, State.CANCELLED)
