"""Each question to each mode, a few at a time; what is done is saved at once and not done again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, NamedTuple

from app.errors import BadModelOutput, Invalid
from app.evaluation.metrics import Coverable, answer_figures, retrieval_figures
from app.evaluation.questions import Case, QuestionSet, in_windows
from app.evaluation.targets import Retrieval, Target, Told, Variant
from app.together import together

FORMAT = 1
NOTHING_RETRIEVED = frozenset({"bypass"})  # modes that only answer


class Key(NamedTuple):
    case: str  # id
    mode: str  # label of the variant


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one question came to in one mode. `error`: why a model's reply could not be used; the
    figures are then those of nothing found."""

    key: Key
    figures: Mapping[str, float]
    answer: str = ""
    error: str = ""

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of(cls, line: str) -> Outcome:
        """Raises ValueError, TypeError or KeyError for what `line` did not write."""
        read = json.loads(line)
        figures = {name: float(value) for name, value in read["figures"].items()}
        return cls(Key(*read["key"]), figures, read["answer"], read["error"])


Save = Callable[[Outcome], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be measured. `statements`: of each case (id) those that count (`countable`)."""

    cases: Sequence[Case]
    variants: Sequence[Variant]
    answers: bool = False
    statements: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)


def countable(found: QuestionSet) -> dict[str, list[frozenset[str]]]:
    """The statements of each case that some passage, or part of a long one, covers."""
    wanted = [one for case in found.cases for one in case.evidence]
    coverable = Coverable(wanted, in_windows(found.passages))
    return {case.id: coverable.of(case) for case in found.cases if case.evidence}


async def measure(
    target: Target, order: Order, save: Save, *,
    done: Mapping[Key, Outcome] | None = None, concurrency: int = 4, told: Told | None = None,
) -> dict[Key, Outcome]:  # fmt: skip
    """Outcomes of all questions in all modes. The modes of a question run one after the other, so
    that each meets the same load; `concurrency` questions run side by side."""
    outcomes = dict(done or {})
    total, turn = len(order.cases) * len(order.variants), asyncio.Semaphore(concurrency)
    wanted = [Key(case.id, one.label) for case in order.cases for one in order.variants]
    finished = sum(key in outcomes for key in wanted)

    async def ask(case: Case) -> None:
        nonlocal finished
        async with turn:
            for variant in order.variants:
                key = Key(case.id, variant.label)
                if key not in outcomes:
                    outcomes[key] = await measure_one(target, case, variant, order)
                    await save(outcomes[key])
                    finished += 1
                    if told:
                        told(finished, total)

    async with together() as tasks:
        for case in order.cases:
            tasks.create_task(ask(case))
    return {key: outcomes[key] for key in wanted}


async def measure_one(target: Target, case: Case, variant: Variant, order: Order) -> Outcome:
    """One question in one mode. What a model wrote that cannot be used counts as nothing found;
    every other error is raised."""
    key = Key(case.id, variant.label)
    statements = order.statements.get(case.id, ())
    figures: dict[str, float] = {}
    answer = error = ""
    if variant.mode not in NOTHING_RETRIEVED:
        got = Retrieval()
        try:
            got = await target.retrieve(case.question, variant)
        except BadModelOutput as failed:
            error = failed.detail
        figures |= retrieval_figures(case, got.chunks, got.triples, statements)
        if not error:
            figures |= _costs(got)
    if order.answers:
        try:
            reply = await target.answer(case.question, variant)
        except BadModelOutput as failed:
            error = failed.detail
            figures |= answer_figures(replace(case, unanswerable=False), "")
        else:
            answer = reply.text
            figures |= answer_figures(case, reply.text, found=reply.found)
            used = reply.usage
            figures["answer_calls"] = used.llm_calls
            figures["answer_tokens"] = used.prompt_tokens + used.completion_tokens
            figures["answer_ms"] = reply.ms
    return Outcome(key, figures, answer, error)


def _costs(got: Retrieval) -> dict[str, float]:
    used = got.usage
    return {
        "context_tokens": got.tokens,
        "model_calls": used.llm_calls,
        "model_tokens": used.prompt_tokens + used.completion_tokens,
        "ms": got.ms,
    }


# --- a file that a second run goes on with -------------------------------------------------------


@asynccontextmanager
async def partial(
    path: Path, run: Mapping[str, object]
) -> AsyncIterator[tuple[dict[Key, Outcome], Save]]:
    """Outcomes of an earlier run of the same kind (`run` tells which), and where to save more.
    Raises `Invalid` if the file is of another run."""
    head = json.dumps({"format": FORMAT, **run}, sort_keys=True)
    done, whole = _earlier(path, head)
    with path.open("a", encoding="utf-8") as file:
        if not whole:
            file.truncate(0)
            file.write(head + "\n")
            for outcome in done.values():
                file.write(outcome.line() + "\n")
            file.flush()

        async def save(outcome: Outcome) -> None:
            _append(file, outcome)

        yield done, save


def _append(file: IO[str], outcome: Outcome) -> None:
    file.write(outcome.line() + "\n")
    file.flush()


def _earlier(path: Path, head: str) -> tuple[dict[Key, Outcome], bool]:
    """What is in the file, and whether it is sound up to its end."""
    if not path.exists() or not path.stat().st_size:
        return {}, False
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    if lines[0] != head:
        raise Invalid(
            f"{path.name} is of another run (other documents, questions, modes or server): choose "
            "another --out, or delete it."
        )
    done: dict[Key, Outcome] = {}
    for line in lines[1:-1]:
        try:
            outcome = Outcome.of(line)
        except (ValueError, TypeError, KeyError):
            return done, False
        done[outcome.key] = outcome
    return done, not lines[-1]
