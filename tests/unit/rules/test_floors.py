"""Quality floors of the built-in models on the evaluation data."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.rules.embedder import LocalEmbedder
from tests.bench import extraction as bench

pytestmark = [pytest.mark.slow, pytest.mark.shared]


@pytest.mark.parametrize(
    ("name", "soft", "pairs"),
    [
        ("musique-train", 82, 45),
        ("graphrag-bench-medical", 38, 24),
        ("covid-review-lightrag", 39, 20),
        ("christmas-carol", 37, 30),
    ],
)
def test_extraction_agrees_with_models(
    shared_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str, soft: float, pairs: float
) -> None:
    monkeypatch.setenv("HELIOGRAPH_SHARED", str(shared_dir))
    score = bench.measure(bench.rows(name))
    assert score.soft >= soft, str(score)
    assert score.pairs >= pairs, str(score)


@pytest.mark.parametrize(
    ("name", "recall"), [("2wiki-101", 94), ("hotpotqa-train", 84), ("musique-train", 56)]
)
def test_a_walk_over_the_graph_finds_the_passages(
    shared_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str, recall: float
) -> None:
    monkeypatch.setenv("HELIOGRAPH_SHARED", str(shared_dir))
    assert bench.walk_recall(name) >= recall


def test_chinese_names_are_found(shared_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_SHARED", str(shared_dir))
    assert bench.chinese_recall() >= 68


@pytest.mark.parametrize(
    ("name", "share"),
    [("popqa", 93), ("hotpotqa-train", 86), ("musique-train", 80), ("lihua-world", 60)],
)
async def test_answers_hold_the_gold_string(
    shared_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str, share: float
) -> None:
    monkeypatch.setenv("HELIOGRAPH_SHARED", str(shared_dir))
    whole, _, count = await bench.answered(name, LocalEmbedder())
    assert count > 40
    assert whole >= share
