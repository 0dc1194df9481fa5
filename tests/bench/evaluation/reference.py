"""What others reach on the same ground: `lightrag-hku` run here, and published retrievals.

Results stand in the records beside those of the service, so that the page can be made without the
reference. They are made again when `make evaluate` is told to (`REFERENCE=1`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.evaluation.metrics import Found
from app.evaluation.questions import Case
from app.rules.extractor import MODEL as EXTRACTOR
from tests.bench.evaluation.filling import Stores
from tests.bench.evaluation.grounds import Ground, Store, shared
from tests.bench.evaluation.lightrag_driver import MODES
from tests.bench.evaluation.records import Outcome, Record, ranks_of
from tests.bench.extraction import rows
from tests.system.stack import ROOT, clean_environment

PREFIX, PUBLISHED = "lightrag-hku ", "published "
REQUIREMENTS = Path(__file__).with_name("requirements-reference.txt")
Statements = Mapping[str, Sequence[frozenset[str]]]


class Reference:
    """`lightrag-hku` in an environment of its own, in the cache of the evaluation."""

    def __init__(self, stores: Stores, folder: Path) -> None:
        self._stores, self._folder = stores, folder

    def asked(self, store: Store, questions: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """Its answer to all questions in all modes; the index is built if it is not there."""
        index = self._folder / "lightrag" / store.key
        index.mkdir(parents=True, exist_ok=True)
        order, result = self._folder / "order.json", self._folder / "result.json"
        told = {
            "store": asdict(store), "folder": str(index), "vectors": str(self._stores.vectors),
            "questions": list(questions), "modes": MODES,
        }  # fmt: skip
        order.write_text(json.dumps(told))
        environment = {
            **clean_environment(), "HELIOGRAPH_SHARED": str(shared().parent),
            "TIKTOKEN_CACHE_DIR": str(ROOT / "app" / "data" / "tiktoken"),
        }  # fmt: skip
        with (index / "log").open("ab") as log:
            subprocess.run(
                [self._python(), "-m", "tests.bench.evaluation.lightrag_driver", order, result],
                cwd=index, env=environment, stdout=log, stderr=log, check=True,
            )  # fmt: skip
        found: dict[str, Any] = json.loads(result.read_text())
        return found

    def _python(self) -> Path:
        python = self._folder / "venv" / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
            install = [python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS]
            subprocess.run(install, check=True, env={**os.environ})
        return python


def lightrag(
    reference: Reference, store: Store, grounds: Sequence[tuple[Ground, Record, Statements]],
    places: Sequence[int],
) -> None:  # fmt: skip
    """Ask the questions at these places, in the form of each ground, and note the ranks."""
    questions = [
        (f"{ground.key}/{case.id}", case.question)
        for ground, _, _ in grounds
        for case in _at(ground, places)
    ]
    reply = reference.asked(store, questions)
    for ground, record, statements in grounds:
        for mode, rows_ in reply["found"].items():
            outcome = Outcome(
                [None] * len(record.questions), f"lightrag-hku {reply['version']}",
                notes={**_kept(reply["built"]), "extractor": EXTRACTOR},
            )  # fmt: skip
            for place in places:
                case = ground.load().cases[place]
                row = rows_[f"{ground.key}/{case.id}"]
                found = [Found(doc, "", reply["texts"][chunk]) for doc, chunk in row["chunks"]]
                outcome.ranks[place] = ranks_of(case, found, statements[case.id])
                outcome.tokens += row["tokens"] / len(places)
                outcome.calls += row["calls"] / len(places)
                outcome.ms += row["ms"] / len(places)
            record.systems[f"{PREFIX}{mode}"] = outcome


def _at(ground: Ground, places: Sequence[int]) -> list[Case]:
    cases = ground.load().cases
    return [cases[place] for place in places]


def _kept(built: Mapping[str, Any]) -> dict[str, Any]:
    return {name: built[name] for name in ("entities", "relations")}


def published(record: Record) -> None:
    """What other systems returned for the questions of 2wiki-101: up to eight passages each."""
    by_id = {row["id"]: row for row in rows("2wiki-101", "questions")}
    cited = "23b3a1bef64338faf9f35c521a20465dbd09419f"  # fast-graphrag, benchmarks/results
    for place, question in enumerate(record.questions):
        row = by_id[question]
        for system, ids in row["published_retrieval"].items():
            empty = Outcome([None] * len(record.questions), cited)
            outcome = record.systems.setdefault(f"{PUBLISHED}{system}", empty)
            outcome.ranks[place] = [
                ids.index(gold) + 1 if gold in ids else 0 for gold in row["gold_passage_ids"]
            ]
