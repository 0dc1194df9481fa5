"""`lightrag-hku` on the same documents and the same model, by turns with the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.performance.bound import bound
from tests.bench.performance.corpus import Document, documents, questions
from tests.bench.performance.ingest import calls
from tests.bench.performance.model import DIM
from tests.bench.performance.stacks import scripted_model
from tests.model_answers import tokens
from tests.system.stack import ROOT, clean_environment

REQUIREMENTS = Path(__file__).with_name("requirements-reference.txt")
CACHE = ROOT / ".cache" / "performance"
MODES = ("naive", "local", "global", "hybrid", "mix")
EXTRA = 5_000_000

Figures = dict[str, Any]


def measured(
    size: int, chat_ms: float, *, queries: int = 0, changed: int = 0, at_once: int = 0
) -> Figures:
    """One run in a fresh folder: `version`, `ingest`, and if asked for `query`, `add one` and
    `delete one`. `at_once` 0: its own default of model calls at a time."""
    found = [*documents(size)]
    with (
        tempfile.TemporaryDirectory(prefix="reference-") as name, scripted_model(chat_ms) as model
    ):  # fmt: skip
        folder = Path(name)
        order, result = folder / "order.json", folder / "result.json"
        told = {
            "folder": str(folder / "rag"), "model": model.url, "dimension": DIM,
            "documents": _rows(found), "fresh": _rows([*documents(changed, EXTRA)]),
            "questions": questions(queries), "modes": MODES if queries else (),
            "at_once": at_once,
        }  # fmt: skip
        order.write_text(json.dumps(told), encoding="utf-8")
        _run([_python(), "-m", "tests.bench.performance.lightrag_driver", order, result], folder)
        answer: Figures = json.loads(result.read_text(encoding="utf-8"))
        kinds = answer.pop("kinds")
        answer["ingest"] |= calls(kinds, size, sum(tokens(one.text) for one in found))
        alone = bound(model, found, {k: v for k, v in kinds.items() if k != "embedding"})
    wall = answer["ingest"]["wall_s"]
    answer["ingest"] |= {"bound_s": alone["wall_s"], "over_bound": wall / alone["wall_s"]}
    return answer


def _run(command: Sequence[Any], folder: Path) -> None:
    environment = {
        **clean_environment(), "TIKTOKEN_CACHE_DIR": str(ROOT / "app" / "data" / "tiktoken")
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=log, stderr=log, check=False
        )
    if done.returncode:
        raise RuntimeError((folder / "log").read_text(errors="replace")[-3000:])


def _rows(found: Sequence[Document]) -> list[tuple[str, str]]:
    return [(one.id, f"{one.title}\n{one.text}") for one in found]


def _python() -> Path:
    """Of an environment of its own, made once."""
    python = CACHE / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        install = [python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS]
        subprocess.run(install, check=True, env={**os.environ})
    return python
