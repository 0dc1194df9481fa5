"""Floors of entity resolution on labelled pairs and on whole graphs.

`python -m tests.bench.resolution` prints the figures; the encoder's cosines only help the middle
band, so the merge band keeps its floors without them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.resolution import load, replay, report, with_cosines, without_ties

pytestmark = [pytest.mark.slow, pytest.mark.shared]


@pytest.mark.parametrize("bare", [True, False], ids=["names alone", "with ties"])
def test_the_merge_band_is_right_without_an_encoder(shared_dir: Path, bare: bool) -> None:
    pairs = load(shared_dir / "data" / "entity-pairs" / "pairs.jsonl")
    found = report(without_ties(pairs) if bare else pairs)
    assert found.merge.precision >= 0.86, found
    assert found.merge.recall >= 0.47, found
    assert found.differing.precision >= 0.95, found
    assert found.vetoed <= 0.03, found
    assert found.asked <= 0.25, found
    assert found.homonyms[0] >= 8, found
    assert found.merge.recall > 5 * found.exact.recall
    assert found.merge.precision > found.keys.precision > found.exact.precision


async def test_a_judge_finds_most_of_the_rest_with_an_encoder(shared_dir: Path) -> None:
    pairs = load(shared_dir / "data" / "entity-pairs" / "pairs.jsonl")
    found = report(await with_cosines(pairs))
    assert found.merge.precision >= 0.86, found
    assert found.differing.precision >= 0.95, found
    assert found.judged.recall >= 0.80, found
    assert found.judged.precision >= 0.90, found
    assert found.asked <= 0.25, found


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("graphrag-bench-medical", 150, 210), ("covid-review-lightrag", 40, 60)],
)
def test_whole_graphs_keep_small_clusters(
    shared_dir: Path, name: str, least: int, most: int
) -> None:
    found = replay(shared_dir / "data" / name)
    assert least <= found.merged <= most, found
    assert found.largest <= 10
    assert found.inner == 0
    assert found.split == 0
    assert found.candidates <= 20
