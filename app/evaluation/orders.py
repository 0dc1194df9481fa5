"""What a job of the service is to measure, as it is stored: JSON, versioned with the format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.evaluation.generate import Sizes
from app.evaluation.intervals import SEED
from app.evaluation.metrics import content_words
from app.evaluation.questions import Case, case_of
from app.evaluation.run import Order
from app.evaluation.targets import Variant

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Request:
    """`questions` are rows as in questions.jsonl; `generate`: a model is to write them first.
    `covered`: the statements that some chunk covers, None while that is not known."""

    modes: Sequence[str]
    questions: Sequence[Mapping[str, Any]] = ()
    against: str = ""
    answers: bool = False
    pairs: Sequence[tuple[str, str]] = ()
    generate: Sizes | None = None
    seed: int = SEED
    covered: Sequence[str] | None = None

    def line(self) -> str:
        sizes = self.generate
        return json.dumps(
            {
                "format": FORMAT, "modes": list(self.modes), "questions": list(self.questions),
                "against": self.against, "answers": self.answers,
                "pairs": [list(pair) for pair in self.pairs],
                "generate": sizes and [sizes.users, sizes.tasks, sizes.questions],
                "seed": self.seed, "covered": self.covered and list(self.covered),
            },
            ensure_ascii=False,
        )  # fmt: skip

    @classmethod
    def of(cls, line: str) -> Request:
        read = json.loads(line)
        return cls(
            modes=read["modes"], questions=read["questions"], against=read["against"],
            answers=read["answers"], pairs=[(one, other) for one, other in read["pairs"]],
            generate=Sizes(*read["generate"]) if read["generate"] else None,
            seed=read["seed"], covered=read["covered"],
        )  # fmt: skip

    @property
    def total(self) -> int:
        """Outcomes: one for each question in each mode, and for each pair of modes."""
        asked = len(self.questions)
        if not asked and self.generate:
            asked = self.generate.users * self.generate.tasks * self.generate.questions
        return asked * (len(self.modes) + len(self.pairs))

    def cases(self) -> list[Case]:
        return [case_of(row) for row in self.questions]

    def order(self) -> Order:
        """For `run.measure`."""
        cases, covered = self.cases(), set(self.covered or ())
        statements = {
            case.id: [content_words(one) for one in case.evidence if one in covered]
            for case in cases
            if case.evidence
        }
        return Order(cases, [Variant.of(one) for one in self.modes], self.answers, statements)
