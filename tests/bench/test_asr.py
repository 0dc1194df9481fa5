"""Floors of `asr`: what it finds, what it costs, and that a hub does not make it dear."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.domain import EntityMention, Extraction, Question, RelationMention
from app.query.anchored.mode import asr
from app.query.found import Clock, Found
from app.rules.embedder import LocalEmbedder
from tests.bench.asr_latency import measure
from tests.bench.retrieval import evaluate, ingest, load, opened
from tests.unit.query.library import Library, open_libraries

pytestmark = pytest.mark.slow

TOGETHER = 1000


def test_computing_grows_no_faster_than_the_pool() -> None:
    one, three = measure(1000, 60), measure(3000, 60)
    for name in one:
        assert three[name].p50 <= 5 * one[name].p50 + 1, name


@pytest.mark.shared
async def test_structure_finds_more_passages_than_likeness(tmp_path: Path) -> None:
    """Recall@5 of the prior on 2wiki-101, built-in encoder and extractor."""
    data, embedder = load("2wiki-101"), LocalEmbedder()
    async with opened(tmp_path, embedder) as (workspace, models):
        await ingest(workspace, models, data)
        found = {
            mode: (await evaluate(workspace, models, data, mode)).r5
            for mode in ("dense", "subgraph", "asr")
        }
    await embedder.close()
    assert found["asr"] >= found["dense"] + 20
    assert found["asr"] >= found["subgraph"] - 1
    assert found["asr"] >= 72


async def hub_of(library: Library, relations: int) -> None:
    for start in range(0, relations, TOGETHER):
        ends = [f"Rim {n}" for n in range(start, min(start + TOGETHER, relations))]
        said = Extraction(
            tuple(EntityMention(name, "other", "") for name in ["Hub", *ends]),
            tuple(RelationMention("Hub", end, f"Hub holds {end}", ("holds",)) for end in ends),
        )
        text = f"part {start}"
        await library.add(f"d{start}", text, text, extraction=said)
    await library.index()


async def asked(library: Library) -> tuple[Found, float]:
    """What is found, and the least milliseconds of five tries."""
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        question = Question("What does Hub hold at Rim 7?")
        found = await asr(library.workspace, library.models, question, Clock())
        spent.append(1000 * (time.perf_counter() - begin))
    return found, min(spent)


async def test_a_hub_of_fifty_thousand_relations_is_bounded(tmp_path: Path) -> None:
    """The vector search looks at every relation; all else is as for a hub of two thousand."""
    took = {}
    for relations in (2_000, 50_000):
        folder = tmp_path / str(relations)
        folder.mkdir()
        async with open_libraries(folder, "test") as [library]:
            await hub_of(library, relations)
            found, took[relations] = await asked(library)
            explain = found.explain
            assert explain["pool"]["relations"] <= 1000  # type: ignore[index]
            assert found.chunks
    assert took[50_000] <= 5 * took[2_000] + 50
