"""Questions to modes: everything once, saved at once, gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.domain import Budget, Mode, Question, Usage
from app.errors import BadModelOutput, Invalid, Unavailable
from app.evaluation.inside import question_of
from app.evaluation.metrics import Found
from app.evaluation.questions import Case, Gold, Passage, QuestionSet
from app.evaluation.run import Key, Order, Outcome, countable, measure, partial
from app.evaluation.targets import Ingested, Reply, Retrieval, Told, Variant

CASES = [
    Case(f"q{n}", f"Question {n}?", (Gold("id", f"d{n}"),), answers=(f"answer {n}",))
    for n in range(6)
]
MODES = [Variant.of("naive"), Variant.of("mix:low_level=false")]


@dataclass
class Scripted:
    """A target that finds the document of a question in one mode only."""

    name: str = "scripted"
    asked: list[tuple[str, str]] = field(default_factory=list)
    faults: Mapping[str, Exception] = field(default_factory=dict)
    running: int = 0
    most: int = 0

    async def describe(self) -> Mapping[str, str]:
        return {}

    async def ingest(self, passages: Sequence[Passage], told: Told) -> Ingested:
        return Ingested(0, 0.0)

    async def discard(self) -> None: ...

    async def retrieve(self, question: str, variant: Variant) -> Retrieval:
        self.asked.append((question, variant.label))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if question in self.faults:
            raise self.faults[question]
        number = question.split()[1].rstrip("?")
        right = Found(f"d{number}", "", "text")
        wrong = Found("other", "", "text")
        chunks = (right, wrong) if variant.mode == "mix" else (wrong, right)
        return Retrieval(chunks, tokens=7, usage=Usage(1, 2, 3), ms=4.0)

    async def answer(self, question: str, variant: Variant) -> Reply:
        number = question.split()[1].rstrip("?")
        return Reply(f"It is answer {number}. [1]", usage=Usage(1, 10, 5), ms=8.0)


async def nothing(outcome: Outcome) -> None: ...


async def test_every_question_is_asked_in_every_mode() -> None:
    target, seen = Scripted(), list[tuple[int, int]]()
    order = Order(CASES, MODES, answers=True)
    found = await measure(target, order, nothing, concurrency=2, told=lambda *at: seen.append(at))
    assert len(found) == len(target.asked) == 12
    figures = found[Key("q3", "mix:low_level=false")].figures
    assert figures["mrr"] == 1
    assert found[Key("q3", "naive")].figures["mrr"] == 0.5
    assert figures["context_tokens"] == 7
    assert figures["model_tokens"] == 5
    assert figures["answer_tokens"] == 15
    assert (figures["contains"], figures["exact_match"]) == (1, 0)
    assert target.most == 2
    assert seen[-1] == (12, 12)


async def test_what_is_done_is_not_asked_again() -> None:
    target = Scripted()
    done = await measure(target, Order(CASES[:4], MODES), nothing)
    again = Scripted()
    found = await measure(again, Order(CASES, MODES), nothing, done=done)
    assert len(again.asked) == 4
    assert len(found) == 12


async def test_a_reply_of_a_model_that_is_of_no_use_counts_as_nothing_found() -> None:
    target = Scripted(faults={"Question 2?": BadModelOutput("no keywords")})
    found = await measure(target, Order(CASES, MODES), nothing)
    outcome = found[Key("q2", "naive")]
    assert outcome.error == "no keywords"
    assert outcome.figures["recall@5"] == 0
    assert "ms" not in outcome.figures


async def test_a_server_that_is_away_ends_the_run_and_what_was_saved_stays() -> None:
    saved: list[Outcome] = []

    async def save(outcome: Outcome) -> None:
        saved.append(outcome)

    target = Scripted(faults={"Question 4?": Unavailable("away")})
    with pytest.raises(Unavailable):
        await measure(target, Order(CASES, MODES), save, concurrency=1)
    assert [outcome.key.case for outcome in saved] == [f"q{n}" for n in range(4) for _ in MODES]


async def test_bypass_retrieves_nothing_and_answers() -> None:
    found = await measure(
        Scripted(), Order(CASES[:1], [Variant.of("bypass")], answers=True), nothing
    )
    figures = found[Key("q0", "bypass")].figures
    assert "recall@5" not in figures
    assert figures["contains"] == 1


async def test_only_statements_of_the_corpus_count() -> None:
    found = QuestionSet(
        "set", (Passage("a", "", "Amber is fossil resin."),),
        (Case("q", "?", evidence=("Amber is resin.", "Gold is metal.")), Case("r", "?")),
    )  # fmt: skip
    assert countable(found) == {"q": [frozenset({"amber", "resin"})]}


async def test_a_file_keeps_outcomes_for_the_next_run(tmp_path: Path) -> None:
    path, run = tmp_path / "outcomes.jsonl", {"set": "digest"}
    outcome = Outcome(Key("q", "naive"), {"mrr": 0.5}, "Ja – nein", "")
    async with partial(path, run) as (done, save):
        assert done == {}
        await save(outcome)
    async with partial(path, run) as (done, save):
        assert done == {outcome.key: outcome}
        await save(Outcome(Key("r", "naive"), {}))
    async with partial(path, run) as (done, _):
        assert list(done) == [("q", "naive"), ("r", "naive")]


async def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    path, run = tmp_path / "outcomes.jsonl", {"set": "digest"}
    async with partial(path, run) as (_, save):
        await save(Outcome(Key("q", "naive"), {"mrr": 0.5}))
        await save(Outcome(Key("r", "naive"), {"mrr": 0.5}))
    path.write_bytes(path.read_bytes()[:-9])
    async with partial(path, run) as (done, save):
        assert list(done) == [("q", "naive")]
        await save(Outcome(Key("r", "naive"), {}))
    async with partial(path, run) as (done, _):
        assert list(done) == [("q", "naive"), ("r", "naive")]


async def test_a_file_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    async with partial(path, {"set": "one"}) as (_, save):
        await save(Outcome(Key("q", "naive"), {}))
    with pytest.raises(Invalid, match="is of another run"):
        async with partial(path, {"set": "two"}):
            pass


@pytest.mark.parametrize(
    ("label", "mode", "options"),
    [
        ("mix", "mix", {}),
        (" mix:top_k=5:low_level=false ", "mix", {"top_k": 5, "low_level": False}),
        ("mix:mix_style=lightrag", "mix", {"mix_style": "lightrag"}),
        ("a:b=null", "a", {"b": "null"}),
        ("asr:asr.ablate=gate+:asr.budget=9", "asr", {"asr": {"ablate": ["gate"], "budget": 9}}),
        ("asr:asr.ablate=gate+path", "asr", {"asr": {"ablate": ["gate", "path"]}}),
    ],
)
def test_a_mode_may_have_options(label: str, mode: str, options: dict[str, object]) -> None:
    found = Variant.of(label)
    assert (found.label, found.mode, found.options) == (label.strip(), mode, options)


@pytest.mark.parametrize(
    "label", ["", "mix:", "mix:a", "a b", "mix:a=1,b=2", "m:a.b.c=1", "x" * 300]
)
def test_what_is_no_mode_is_refused(label: str) -> None:
    with pytest.raises(Invalid, match="is no mode"):
        Variant.of(label)


def test_an_option_is_not_given_whole_and_in_parts() -> None:
    with pytest.raises(Invalid, match="asr is given twice"):
        Variant.of("asr:asr=1:asr.budget=2")


def test_options_become_those_of_a_question() -> None:
    label = "rq:rq_base=naive:top_k=5:asr.ablate=gate+:asr.hops_topic=1:budget.total=900"
    question = question_of("Why?", "w", Variant.of(label))
    assert (question.mode, question.rq_base, question.top_k) == (Mode.RQ, Mode.NAIVE, 5)
    assert (question.anchoring.ablate, question.anchoring.hops_topic) == (("gate",), 1)
    assert question.anchoring.anchors == Question("").anchoring.anchors
    assert (question.budget.total, question.budget.entities) == (900, Budget().entities)
    assert (question.text, question.workspace) == ("Why?", "w")


@pytest.mark.parametrize(
    "label",
    ["none", "mix:text=x", "mix:top_k=many", "mix:low_level=1", "rq:rq_base=none", "asr:asr=1",
     "asr:asr.nothing=1", "mix:nothing=1", "mix:top_k.x=1", "mix:workspace=other"],
)  # fmt: skip
def test_what_a_question_cannot_be_asked_with_is_refused(label: str) -> None:
    with pytest.raises(Invalid):
        question_of("Why?", "w", Variant.of(label))
