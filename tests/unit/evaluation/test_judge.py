"""Answers judged in pairs and both orders, and questions thought up: with scripted referees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from app.domain import Compared, Completion, Proposed, Usage
from app.errors import BadModelOutput, Invalid
from app.evaluation import generate
from app.evaluation.judge import CRITERIA, judge, judged_of, pair_of
from app.evaluation.questions import Case, Passage, case_of
from app.evaluation.run import Key, Outcome

PAIR = ("mix", "naive")
CASES = [Case(f"q{n}", "Why?") for n in range(4)]


@dataclass
class Scripted:
    """Prefers what begins with "good", else the first place."""

    model: str = "scripted"
    prompts: Mapping[str, str] = field(default_factory=lambda: {"compare": "abc"})
    asked: list[tuple[str, str]] = field(default_factory=list)
    repeats: bool = False

    async def compare(
        self, question: str, first: str, second: str, criteria: Mapping[str, str]
    ) -> Compared:
        self.asked.append((first, second))
        if "broken" in first:
            raise BadModelOutput("no verdict")
        better = 2 if second.startswith("good") and not first.startswith("good") else 1
        return Compared(dict.fromkeys(criteria, better), Usage(1, 10, 2))

    async def describe(self, samples: Sequence[str]) -> Completion:
        return Completion("about " + " ".join(samples), Usage(1, 5, 5))

    async def propose(
        self, what: Literal["users", "tasks", "questions"], about: Mapping[str, str], count: int
    ) -> Proposed:
        about_whom = "" if self.repeats else f" {about.get('user', '')} {about.get('task', '')}"
        return Proposed(tuple(f"{what}{about_whom} {n}" for n in range(count)), Usage(1, 5, 5))


def answered(mix: Sequence[str], naive: Sequence[str]) -> dict[Key, Outcome]:
    found = {}
    for label, answers in (("mix", mix), ("naive", naive)):
        for case, answer in zip(CASES, answers, strict=True):
            key = Key(case.id, label)
            found[key] = Outcome(key, {}, answer)
    return found


async def nothing(outcome: Outcome) -> None: ...


async def test_only_what_wins_in_both_orders_is_a_win() -> None:
    referee = Scripted()
    outcomes = answered(["good a", "good b", "x", "y"], ["c", "d", "good e", "z"])
    verdicts = await judge(referee, PAIR, CASES, outcomes, nothing)
    assert len(referee.asked) == 8
    found = judged_of(referee, PAIR, list(verdicts.values()))
    overall = found.criteria["overall"]
    assert set(found.criteria) == set(CRITERIA)
    assert (overall.wins, overall.ties, overall.losses) == (0.5, 0.25, 0.25)
    assert overall.margin.value == pytest.approx(0.25)
    assert overall.rate == pytest.approx(0.625)
    assert found.usage == Usage(8, 80, 16)
    json.dumps(found.json())


async def test_equal_answers_are_a_tie_and_cost_nothing() -> None:
    referee = Scripted()
    outcomes = answered(["same  text"] * 4, ["same text"] * 4)
    verdicts = await judge(referee, PAIR, CASES, outcomes, nothing)
    assert referee.asked == []
    assert judged_of(referee, PAIR, list(verdicts.values())).criteria["overall"].ties == 1


async def test_verdicts_that_cannot_be_read_are_counted_and_left_out() -> None:
    referee = Scripted()
    outcomes = answered(["broken", "good", "good", "good"], ["a", "b", "c", "d"])
    verdicts = await judge(referee, PAIR, CASES, outcomes, nothing)
    found = judged_of(referee, PAIR, list(verdicts.values()))
    assert found.unread == len(CRITERIA)
    assert found.criteria["overall"].margin.n == 3


async def test_what_was_judged_is_not_judged_again() -> None:
    referee = Scripted()
    outcomes = answered(["good"] * 4, ["b"] * 4)
    verdicts = await judge(referee, PAIR, CASES[:2], outcomes, nothing)
    await judge(referee, PAIR, CASES, {**outcomes, **verdicts}, nothing)
    assert len(referee.asked) == 8


async def test_only_questions_that_both_answered_are_judged() -> None:
    referee = Scripted()
    outcomes = answered(["good"] * 4, ["b"] * 4)
    del outcomes[Key("q0", "mix")]
    assert len(await judge(referee, PAIR, CASES, outcomes, nothing)) == 3


def test_a_pair_is_of_two_modes_that_are_measured() -> None:
    assert pair_of(" mix , naive", ["naive", "mix"]) == PAIR
    for wrong in ("mix", "mix,mix", "mix,other", ""):
        with pytest.raises(Invalid, match="no pair to judge"):
            pair_of(wrong, ["naive", "mix"])


async def test_questions_are_thought_up_for_users_and_their_tasks(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    written = await generate.generate(
        Scripted(), ["a", "b"], generate.Sizes(2, 3, 4), lambda *at: seen.append(at)
    )
    assert len(written.questions) == 24
    assert written.usage.llm_calls == 1 + 1 + 2 + 6
    assert seen[-1] == (8, 8)
    path = tmp_path / "questions.jsonl"
    generate.write(written, path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert case_of(rows[23]).id == "q024"
    assert rows[0]["user"] and rows[0]["task"]


async def test_questions_that_come_twice_are_asked_once() -> None:
    written = await generate.generate(Scripted(repeats=True), ["a"], generate.Sizes(2, 2, 3))
    assert len(written.questions) == 3
    assert written.repeated == 9


@pytest.mark.parametrize("text", ["5", "5x5", "0x5x5", "5x5x11", "axbxc", "-1x2x3"])
def test_sizes_are_three_small_numbers(text: str) -> None:
    with pytest.raises(Invalid, match="5x5x5"):
        generate.Sizes.of(text)
    assert generate.Sizes.of("2×3x4") == generate.Sizes(2, 3, 4)


def test_samples_are_taken_evenly() -> None:
    passages = [Passage(str(n), "T", "x" * 5000) for n in range(100)]
    samples = generate.samples_of(passages)
    assert len(samples) == generate.SAMPLES
    assert len(samples[0]) == len("T\n") + generate.SAMPLE_CHARACTERS
    assert len(generate.samples_of(passages[:3])) == 3
