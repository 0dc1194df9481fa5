"""The table that a run prints, and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.faults.runner import Outcome

COLUMNS = ("fault", "runs", "recovered", "lost", "paid twice", "repeated in the window",
           "longest recovery (s)")  # fmt: skip


def rows(all_outcomes: Sequence[Outcome]) -> list[tuple[object, ...]]:
    outcomes = [one for one in all_outcomes if not one.left_out]
    kinds = list(dict.fromkeys(sorted(one.kind for one in outcomes)))
    table = [(kind, [one for one in outcomes if one.kind == kind]) for kind in kinds]
    return [_row(name, some) for name, some in [*table, ("all", list(outcomes))]]


def _row(name: str, some: Sequence[Outcome]) -> tuple[object, ...]:
    return (
        name, len(some), sum(not one.wrong for one in some), sum(one.lost for one in some),
        sum(one.paid_twice for one in some), sum(one.repeated for one in some),
        f"{max((one.recovery for one in some), default=0.0):.1f}",
    )  # fmt: skip


def markdown(outcomes: Sequence[Outcome]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- |" + " ---: |" * (len(COLUMNS) - 1)]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows(outcomes)]
    return "\n".join(lines)


def as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "table": [dict(zip(COLUMNS, row, strict=True)) for row in rows(outcomes)],
        "schedules": [asdict(one) for one in outcomes],
    }


def say(outcome: Outcome) -> None:
    """A line as it comes, and all that is known of one that failed."""
    mark = "FAILED" if outcome.wrong else "left out" if outcome.left_out else "ok"
    print(
        f"{mark:8} {outcome.seed:16} {outcome.seconds:5.1f} s  {outcome.kind}: {outcome.fault}"
        f"{f' ({outcome.left_out})' if outcome.left_out else ''}",
        flush=True,
    )
    if outcome.stray:
        print(f"         {len(outcome.stray)} stray: {', '.join(outcome.stray)}", flush=True)
    if outcome.wrong:
        print(f"scenario {outcome.scenario}", *outcome.wrong, outcome.tail, sep="\n", flush=True)
