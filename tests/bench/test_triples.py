"""The bench of triples on a few of them, through the stages that production runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.names import key
from app.rules.embedder import LocalEmbedder
from tests.bench.retrieval import opened
from tests.bench.triples import VARIANTS, fill, load, measure, questions

pytestmark = pytest.mark.shared


async def test_triples_become_relations_that_questions_find(tmp_path: Path) -> None:
    triples = load()
    asked = questions(triples)[:2]
    topics = {topic for one in asked for topic in one.topics}
    kept = [one for one in triples.data.passages if key(one["title"]) in topics][:8]
    assert kept
    few = replace(triples, data=replace(triples.data, passages=kept))
    embedder = LocalEmbedder()
    async with opened(tmp_path, embedder) as (workspace, models):
        await fill(workspace, models, few)
        stats = await workspace.graph.stats()
        assert stats.chunks == len(kept)
        assert stats.relations > 0
        for variant in ("cosine", "subgraph", "asr"):
            assert "pool" in await measure(workspace, models, few, asked, variant)
    await embedder.close()
    assert {"asr", "subgraph", "no path", "weights"} <= VARIANTS.keys()


def test_every_gold_triple_is_a_relation_but_loops() -> None:
    triples = load()
    assert len(triples.ends) == 39_533 - 20
    assert sum(len(ids) for ids in triples.held.values()) == len(triples.ends)
    asked = questions(triples)
    assert len(asked) > 700
    assert all(one.relations <= triples.held.keys() for one in asked)
