"""A model judges answers in pairs, by the four criteria of the LightRAG paper (arXiv 2410.05779),
each pair in both orders, since models prefer a place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.domain import Usage
from app.errors import BadModelOutput, Invalid
from app.evaluation.intervals import SEED, Interval, mean
from app.evaluation.questions import Case
from app.evaluation.run import Key, Outcome, Save
from app.evaluation.targets import Told
from app.ports import Referee
from app.together import together

CRITERIA: Mapping[str, str] = {
    "comprehensiveness": "how fully the answer covers all sides and details of the question",
    "diversity": "how rich it is in different views and insights",
    "empowerment": "how well it lets the reader understand the matter and judge for themselves",
    "overall": "which answer is better on the whole, all three together",
}
ORDERS = (1, 2)  # in the second one the answers have changed places
NO_MODEL = (
    "Judging answers needs a language model: set HELIOGRAPH_LLM_URL and HELIOGRAPH_LLM_MODEL "
    "(HELIOGRAPH_JUDGE_MODEL names another one for it)."
)


@dataclass(frozen=True, slots=True)
class Tally:
    """On one criterion: shares of questions won in both orders, lost in both, and the rest (ties).
    `rate`: share of verdicts won, ties counting half, as the paper reports. `margin`: verdicts won
    minus lost."""

    wins: float
    ties: float
    losses: float
    rate: float
    margin: Interval


@dataclass(frozen=True, slots=True)
class Judged:
    """All verdicts on `mode` against `against`. `unread`: verdicts that no reply gave."""

    mode: str
    against: str
    model: str
    prompt: str
    criteria: Mapping[str, Tally]
    unread: int
    usage: Usage

    def json(self) -> dict[str, Any]:
        found = asdict(self)
        for name, tally in self.criteria.items():
            found["criteria"][name]["margin"] = tally.margin._asdict()
        return found


def label(pair: tuple[str, str], referee: Referee) -> str:
    """Of the outcomes that hold the verdicts on a pair: another model or prompt judges anew."""
    return f"judged {pair[0]} | {pair[1]} | {referee.model} {referee.prompts['compare']}"


def pair_of(text: str, labels: Sequence[str]) -> tuple[str, str]:
    """`mix,naive` as two of the modes that are measured. Raises `Invalid`."""
    one, comma, other = (part.strip() for part in text.partition(","))
    if not comma or one == other or not {one, other} <= set(labels):
        raise Invalid(
            f"{text[:80]!r} is no pair to judge: name two of the modes, as in {labels[0]},"
            f"{labels[-1]}."
        )
    return one, other


async def judge(
    referee: Referee, pair: tuple[str, str], cases: Sequence[Case],
    outcomes: Mapping[Key, Outcome], save: Save, *,
    concurrency: int = 4, told: Told | None = None,
) -> dict[Key, Outcome]:  # fmt: skip
    """Verdicts on all questions that both modes answered; what `outcomes` has of them is kept."""
    found: dict[Key, Outcome] = {}
    turn = asyncio.Semaphore(concurrency)
    both = [case for case in cases if all(Key(case.id, one) in outcomes for one in pair)]

    async def ask(case: Case) -> None:
        key = Key(case.id, label(pair, referee))
        async with turn:
            if key not in outcomes:
                one, other = (outcomes[Key(case.id, mode)].answer for mode in pair)
                found[key] = await judge_one(referee, key, case.question, one, other)
                await save(found[key])
            else:
                found[key] = outcomes[key]
        if told:
            told(len(found), len(both))

    async with together() as tasks:
        for case in both:
            tasks.create_task(ask(case))
    return found


async def judge_one(referee: Referee, key: Key, question: str, one: str, other: str) -> Outcome:
    """Verdicts as figures `<criterion>/<order>`: 1 where `one` is better, -1, or 0. Equal answers
    are a tie, and nobody is asked."""
    if " ".join(one.split()) == " ".join(other.split()):
        ties = {f"{name}/{order}": 0.0 for name in CRITERIA for order in ORDERS}
        return Outcome(key, ties)
    figures: dict[str, float] = {}
    usage, error = Usage(), ""
    for order in ORDERS:
        pair = (one, other) if order == ORDERS[0] else (other, one)
        try:
            said = await referee.compare(question, *pair, CRITERIA)
        except BadModelOutput as failed:
            error = failed.detail
            continue
        usage += said.usage
        for name, better in said.better.items():
            sign = {0: 0.0, 1: 1.0, 2: -1.0}[better] * (1 if order == ORDERS[0] else -1)
            figures[f"{name}/{order}"] = sign
    figures["calls"] = usage.llm_calls
    figures["prompt_tokens"] = usage.prompt_tokens
    figures["completion_tokens"] = usage.completion_tokens
    figures["cost"] = usage.cost
    return Outcome(key, figures, error=error)


def judged_of(
    referee: Referee, pair: tuple[str, str], verdicts: Sequence[Outcome], *, seed: int = SEED
) -> Judged:
    """The tally of one pair. Only questions with a verdict in both orders count."""
    tallies: dict[str, Tally] = {}
    unread = 0
    for name in CRITERIA:
        scores = []
        for one in verdicts:
            given = [one.figures.get(f"{name}/{order}") for order in ORDERS]
            unread += given.count(None)
            both = [value for value in given if value is not None]
            if len(both) == len(ORDERS):
                scores.append(sum(both))
        if scores:
            tallies[name] = _tally(scores, seed)
    return Judged(
        *pair, referee.model, referee.prompts["compare"], tallies, unread, _usage(verdicts)
    )


def _tally(scores: Sequence[float], seed: int) -> Tally:
    """Of the sums over both orders, from -2 to 2."""
    n = len(scores)
    wins, losses = sum(score == 2 for score in scores), sum(score == -2 for score in scores)
    margin = mean([score / 2 for score in scores], seed=seed)
    return Tally(wins / n, (n - wins - losses) / n, losses / n, (1 + margin.value) / 2, margin)


def _usage(verdicts: Sequence[Outcome]) -> Usage:
    def total(name: str) -> float:
        return sum(one.figures[name] for one in verdicts if name in one.figures)

    return Usage(
        int(total("calls")), int(total("prompt_tokens")), int(total("completion_tokens")),
        total("cost"),
    )  # fmt: skip
