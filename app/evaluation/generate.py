"""Questions for documents that have none, as the LightRAG paper makes them (arXiv 2410.05779, §4.1,
after arXiv 2404.16130): a model names users of the collection, tasks of each user, and questions of
each task; 5 × 5 × 5 by default.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.domain import Usage
from app.errors import Invalid
from app.evaluation.questions import Passage
from app.evaluation.targets import Told
from app.names import key
from app.ports import Referee

SAMPLES = 24  # pieces of documents that the description is made from
SAMPLE_CHARACTERS = 1500
MOST = 10  # users, tasks and questions each
NO_MODEL = (
    "Writing questions needs a language model: set HELIOGRAPH_LLM_URL and HELIOGRAPH_LLM_MODEL."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with whom it stands for."""

    id: str
    question: str
    user: str
    task: str


@dataclass(frozen=True, slots=True)
class Written:
    questions: tuple[Asked, ...]
    description: str
    repeated: int  # questions that were there already
    usage: Usage


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many of each: users, tasks of a user, questions of a task."""

    users: int = 5
    tasks: int = 5
    questions: int = 5

    @classmethod
    def of(cls, text: str) -> Sizes:
        """`5x5x5`. Raises `Invalid`."""
        parts = text.replace("×", "x").split("x")
        if len(parts) != 3 or not all(part.isdecimal() and 0 < int(part) <= MOST for part in parts):
            raise Invalid(f"Write users x tasks x questions as 5x5x5, each from 1 to {MOST}.")
        return cls(*map(int, parts))


def samples_of(passages: Sequence[Passage]) -> list[str]:
    """Beginnings of documents, taken evenly."""
    step = max(1, len(passages) / SAMPLES)
    taken = [passages[int(n * step)] for n in range(min(SAMPLES, len(passages)))]
    return [f"{one.title}\n{one.text[:SAMPLE_CHARACTERS]}".strip() for one in taken]


async def generate(
    referee: Referee, samples: Sequence[str], sizes: Sizes, told: Told | None = None
) -> Written:
    """1 + 1 + users + users × tasks calls, one after the other: the sizes bound them."""
    described = await referee.describe(samples)
    usage, about = described.usage, {"description": described.text}
    users = await referee.propose("users", about, sizes.users)
    usage += users.usage
    total = len(users.lines) * (1 + sizes.tasks)
    done, repeated = 0, 0
    found: dict[str, Asked] = {}
    for user in users.lines:
        tasks = await referee.propose("tasks", {**about, "user": user}, sizes.tasks)
        usage += tasks.usage
        done += 1 + sizes.tasks - len(tasks.lines)
        for task in tasks.lines:
            asked = {**about, "user": user, "task": task}
            proposed = await referee.propose("questions", asked, sizes.questions)
            usage += proposed.usage
            done += 1
            for line in proposed.lines:
                id = f"q{len(found) + 1:03}"
                first = found.setdefault(key(line) or line, Asked(id, line, user, task))
                repeated += first.id != id
            if told:
                told(done, total)
    return Written(tuple(found.values()), described.text, repeated, usage)


def write(written: Written, path: Path) -> None:
    """As `questions.jsonl`."""
    lines = [
        {"id": one.id, "question": one.question, "user": one.user, "task": one.task}
        for one in written.questions
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
