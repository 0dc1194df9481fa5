"""Floors of passage recall, with the built-in extractor and encoder, on the stores of production.

Minutes, not seconds: each set is embedded anew. `python -m tests.bench.retrieval` prints the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from app.ports import Models, Workspace
from app.rules.embedder import LocalEmbedder
from tests.bench.retrieval import Data, Score, evaluate, ingest, load, opened

pytestmark = [pytest.mark.slow, pytest.mark.shared]


@asynccontextmanager
async def ingested(
    folder: Path, data: Data, *, titles: bool = True
) -> AsyncIterator[tuple[Workspace, Models]]:
    embedder = LocalEmbedder()
    async with opened(folder, embedder) as (workspace, models):
        await ingest(workspace, models, data, titles=titles)
        yield workspace, models
    await embedder.close()


class Floor(NamedTuple):
    """Percent; `lower` is r@5 of the questions in lower case. `slack`: how far `mix` may fall below
    words or vectors alone, where these find nearly all by themselves."""

    name: str
    limit: int | None
    r5: float
    all8: float
    lower: float
    slack: float = 0


@pytest.mark.parametrize(
    "floor",
    [
        Floor("2wiki-101", None, 97, 96, lower=95),
        Floor("hotpotqa-train", None, 94, 94, lower=94),
        Floor("musique-train", None, 73, 58, lower=67),
        Floor("popqa", 200, 84, 72, lower=82),
        Floor("lihua-world", None, 90, 88, lower=89, slack=1),
        Floor("graphrag-bench-medical", 300, 84, 79, lower=84, slack=1),
        Floor("graphrag-bench-novel", 200, 80, 76, lower=80, slack=1),
    ],
    ids=lambda floor: floor.name,
)
async def test_mix_keeps_its_recall(tmp_path: Path, shared_dir: Path, floor: Floor) -> None:
    data = load(floor.name)
    async with ingested(tmp_path, data) as (workspace, models):
        scores = {
            mode: await evaluate(workspace, models, data, mode, limit=floor.limit)
            for mode in ("dense", "bm25", "mix")
        }
        lower = await evaluate(workspace, models, data, "mix", limit=floor.limit, lower=True)
    mix = scores["mix"]
    assert mix.r5 >= floor.r5, mix
    assert mix.all8 >= floor.all8, mix
    best = max(scores["bm25"].r5, scores["dense"].r5) - floor.slack
    assert mix.r5 >= best, mix
    assert lower.r5 >= max(floor.lower, best), lower


@pytest.mark.parametrize(
    ("name", "limit", "r5"),
    [
        ("2wiki-101", None, 91),
        ("hotpotqa-train", None, 91),
        ("popqa", 200, 81),
        ("musique-train", None, 62),
    ],
)
async def test_mix_keeps_its_recall_without_titles(
    tmp_path: Path, shared_dir: Path, name: str, limit: int | None, r5: float
) -> None:
    data = load(name)
    async with ingested(tmp_path, data, titles=False) as (workspace, models):
        score: Score = await evaluate(workspace, models, data, "mix", limit=limit)
    assert score.r5 >= r5, score


async def test_a_passage_about_a_common_word_moves_no_other(
    tmp_path: Path, shared_dir: Path
) -> None:
    whole = load("2wiki-101")
    data = Data(whole.passages[:300], whole.questions[:15], whole.gold[:15])
    async with ingested(tmp_path, data) as (workspace, models):
        before = await evaluate(workspace, models, data, "mix")
        text = "A film is a work of visual art. A film tells stories by moving images."
        film = {"id": "film", "title": "Film", "text": text}
        await ingest(workspace, models, Data([film], [], []))
        more = Data([*data.passages, film], data.questions, data.gold)
        after = await evaluate(workspace, models, more, "mix")
    assert abs(after.r5 - before.r5) < 0.01, (before, after)
