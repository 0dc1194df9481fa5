"""Whatever users and workers do in whatever order, what is left is what the survivors say."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain import Ticket
from app.ports import Services
from tests.workers.conftest import Rig
from tests.workers.histories import NAMES, PARAGRAPHS, History, ListsOfNames

EXAMPLES = int(os.environ.get("HISTORIES", "12"))

documents = st.sampled_from("abc")
texts = st.lists(st.integers(0, len(PARAGRAPHS) - 1), min_size=1, max_size=3, unique=True)
which, calls, after = st.integers(0, 5), st.integers(0, 40), st.booleans()
puts = st.tuples(st.just("put"), documents, texts, st.sampled_from(NAMES))
work = st.tuples(st.just("work"), which, st.integers(1, 14), st.sampled_from([1, 1, 2]))
moves = st.one_of(
    puts, puts, work, work,
    st.tuples(st.just("delete"), documents),
    st.tuples(st.just("cancel"), documents),
    st.tuples(st.just("retry"), documents),
    st.tuples(st.just("crash"), which, calls, after),
    st.tuples(st.just("fail"), which, calls),
    st.tuples(st.just("stall"), which, calls, after),
    st.tuples(st.just("resume"), which),
    st.tuples(st.just("lose"), which),
)  # fmt: skip
histories = st.lists(moves, min_size=4, max_size=24)


async def open_steps(services: Services, workspace: str) -> list[Ticket]:
    """All that the journal holds, also what is not overdue yet."""
    rows = await services.journal._database.rows(  # type: ignore[attr-defined]
        "select s.id, s.claims from steps s join jobs j on j.id = s.job_id"
        " where j.workspace = :workspace order by s.id",
        {"workspace": workspace},
    )
    return [Ticket(row["id"], row["claims"]) for row in rows]


async def played(rig: Rig, history: list[tuple[Any, ...]]) -> list[str]:
    rig.queue.sent.clear()
    rig.extractor.inner = ListsOfNames()
    rig.extractor.calls.clear()
    told = History(rig.services, rig.queue, lambda name: open_steps(rig.services, name))
    for what, *details in history:
        await getattr(told, what)(*details)
    await told.drain()
    return await told.faults()


@pytest.mark.anyio
@given(history=histories)
@settings(
    max_examples=EXAMPLES, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
async def test_any_history_ends_like_the_survivors_alone(
    rig: Rig, history: list[tuple[Any, ...]]
) -> None:
    assert not await played(rig, history)
