"""Evaluations on every graph store: opened with their job, measured piece by piece, concluded."""

from __future__ import annotations

import pytest

from app.domain import Evaluation, Job, Plan, State
from app.errors import NotFound
from app.ports import Evaluations, Journal
from tests import make
from tests.contract.conftest import Stores


@pytest.fixture
def evaluations(stores: Stores, workspace: str) -> Evaluations:
    return stores.evaluations(workspace)


async def opened(
    evaluations: Evaluations, workspace: str, name: str = "rocks", total: int = 3
) -> str:
    job = Job(make.name("job"), workspace, Plan.EVALUATE, "", stage="prepare")
    await evaluations.open(Evaluation(job.id, name, '{"a": "ä"}', total), job)
    return job.id


async def test_an_evaluation_is_opened_with_its_job(
    evaluations: Evaluations, journal: Journal, workspace: str
) -> None:
    id = await opened(evaluations, workspace)
    found = await evaluations.get(id)
    assert (found.id, found.name, found.request, found.total) == (id, "rocks", '{"a": "ä"}', 3)
    assert (found.measured, found.result) == (0, "")
    assert found.created_at > 0
    job = await journal.job(workspace, id)
    assert (job.plan, job.state, job.stage) == (Plan.EVALUATE, State.QUEUED, "prepare")
    step = await journal.claim(f"{id}.prepare.0", lease=30, tries=3)
    assert step is not None and step.plan is Plan.EVALUATE


async def test_opening_one_again_changes_nothing(evaluations: Evaluations, workspace: str) -> None:
    job = Job(make.name("job"), workspace, Plan.EVALUATE, "", stage="prepare")
    for name in ("first", "second"):
        await evaluations.open(Evaluation(job.id, name, "{}", 1), job)
    assert (await evaluations.get(job.id)).name == "first"
    assert len(await evaluations.page()) == 1


async def test_outcomes_are_kept_by_key_until_there_is_a_result(
    evaluations: Evaluations, workspace: str
) -> None:
    id = await opened(evaluations, workspace)
    await evaluations.put_outcomes(id, {"b": "2", "a": "1"})
    await evaluations.put_outcomes(id, {"b": "two"})
    assert await evaluations.outcomes(id) == ["1", "two"]
    assert (await evaluations.get(id)).measured == 2
    await evaluations.conclude(id, '{"done": true}')
    found = await evaluations.get(id)
    assert (found.result, found.measured) == ('{"done": true}', 3)
    assert await evaluations.outcomes(id) == []
    await evaluations.put_outcomes(id, {"c": "3"})
    await evaluations.conclude(id, "another")
    await evaluations.amend(id, "another", 9)
    assert await evaluations.outcomes(id) == []
    assert await evaluations.get(id) == found


async def test_what_is_asked_may_be_amended(evaluations: Evaluations, workspace: str) -> None:
    id = await opened(evaluations, workspace)
    await evaluations.amend(id, '{"more": 1}', 7)
    found = await evaluations.get(id)
    assert (found.request, found.total) == ('{"more": 1}', 7)


async def test_the_history_is_paged_newest_first(evaluations: Evaluations, workspace: str) -> None:
    ids = [await opened(evaluations, workspace, f"number {n}") for n in range(5)]
    pages, names, after = [], list[str](), ""
    while page := await evaluations.page(after=after, limit=2):
        pages.append(len(page))
        names += [one.name for one in page]
        after = page[-1].id
    assert names == [f"number {n}" for n in reversed(range(5))]
    assert pages == [2, 2, 1]
    [newest, *_] = await evaluations.page(limit=1)
    assert (newest.id, newest.request, newest.result) == (ids[4], "", "")


async def test_a_removed_evaluation_is_gone_with_what_it_measured(
    evaluations: Evaluations, journal: Journal, workspace: str
) -> None:
    id = await opened(evaluations, workspace)
    await evaluations.put_outcomes(id, {"a": "1"})
    assert await evaluations.remove(id)
    assert not await evaluations.remove(id)
    with pytest.raises(NotFound):
        await evaluations.get(id)
    await evaluations.put_outcomes(id, {"b": "2"})
    assert await evaluations.outcomes(id) == []
    await evaluations.conclude(id, "late")
    assert await evaluations.page() == []
    assert (await journal.job(workspace, id)).id == id


async def test_workspaces_do_not_see_each_other(
    stores: Stores, evaluations: Evaluations, workspace: str
) -> None:
    id = await opened(evaluations, workspace)
    await evaluations.put_outcomes(id, {"a": "1"})
    other = stores.evaluations(make.name())
    with pytest.raises(NotFound):
        await other.get(id)
    await other.put_outcomes(id, {"a": "theirs"})
    await other.amend(id, "theirs", 9)
    await other.conclude(id, "theirs")
    assert not await other.remove(id)
    assert await other.outcomes(id) == []
    assert await other.page() == []
    assert await evaluations.outcomes(id) == ["1"]
    assert (await evaluations.get(id)).request == '{"a": "ä"}'
