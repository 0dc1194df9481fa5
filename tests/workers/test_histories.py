"""Whatever users and workers do in whatever order, what is left is what the survivors say."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain import Ticket
from app.ports import Services
from app.settings import Settings
from migrations import migrate
from tests.servers import Server
from tests.workers.conftest import Rig, opened
from tests.workers.histories import NAMES, PARAGRAPHS, History, ListsOfNames

Steps = Callable[[Services, str], Awaitable[list[Ticket]]]
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


async def sqlite_steps(services: Services, workspace: str) -> list[Ticket]:
    """All that the journal holds, also what is not overdue yet."""
    rows = await services.journal._database.rows(  # type: ignore[attr-defined]
        "select s.id, s.claims from steps s join jobs j on j.id = s.job_id"
        " where j.workspace = :workspace order by s.id",
        {"workspace": workspace},
    )
    return [Ticket(row["id"], row["claims"]) for row in rows]


async def neo4j_steps(services: Services, workspace: str) -> list[Ticket]:
    rows = await services.journal._database.read(  # type: ignore[attr-defined]
        "MATCH (s:Step {workspace: $workspace}) RETURN s.id AS id, s.claims AS claims ORDER BY id",
        workspace=workspace,
    )
    return [Ticket(row["id"], row["claims"]) for row in rows]


async def played(rig: Rig, history: list[Any], open_steps: Steps) -> list[str]:
    rig.queue.sent.clear()
    rig.extractor.inner = ListsOfNames()
    rig.extractor.calls.clear()
    told = History(rig.services, rig.queue, lambda name: open_steps(rig.services, name))
    for what, *details in history:
        await getattr(told, what)(*details)
    await told.drain()
    return await told.faults()


def examples(count: int) -> settings:
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, suppress_health_check=quiet)


@pytest.mark.anyio
@given(history=histories)
@examples(EXAMPLES)
async def test_any_history_ends_like_the_survivors_alone(rig: Rig, history: list[Any]) -> None:
    assert not await played(rig, history, sqlite_steps)


@pytest.fixture
async def remote(tmp_path: Path, neo4j: Server) -> AsyncIterator[Rig]:
    """Neo4j in place of SQLite."""
    await migrate(neo4j.url, user=neo4j.user, password=neo4j.password)
    at = Settings(
        _env_file=None, data_dir=tmp_path, graph_url=neo4j.url, graph_user=neo4j.user,
        graph_password=neo4j.password,
    )  # fmt: skip
    async with opened(at) as rig:
        yield rig


@pytest.mark.server
@pytest.mark.anyio
@given(history=st.lists(moves, min_size=4, max_size=10))
@examples(max(1, EXAMPLES // 12))
async def test_any_history_ends_so_on_neo4j_too(remote: Rig, history: list[Any]) -> None:
    assert not await played(remote, history, neo4j_steps)
