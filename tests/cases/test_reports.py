"""Every case of the shared file, on the whole service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.record import Case, load
from tests.cases.runner import Runner, ordered, running, stacks_of

pytestmark = [pytest.mark.shared, pytest.mark.cases]

SHARED = Path(os.environ.get("HELIOGRAPH_SHARED") or Path(__file__).parents[3] / "shared")
REPORTS = SHARED / "cases" / "reports.jsonl"


def runs() -> list[tuple[Case, str]]:
    cases = load(REPORTS) if REPORTS.is_file() else []
    stack = os.environ.get("STACK") or "embedded"
    return ordered([(case, where) for case in cases for where in stacks_of(case, stack)])


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with running() as made:
        yield made


@pytest.mark.parametrize(
    ("case", "stack"), [pytest.param(*one, id=f"{one[0].id}-{one[1]}") for one in runs()]
)
def test_the_service_survives(case: Case, stack: str, runner: Runner, shared_dir: Path) -> None:
    result = runner.run(case, stack)
    if result.left_out:
        pytest.skip(result.why)
    assert result.passed, result.why
