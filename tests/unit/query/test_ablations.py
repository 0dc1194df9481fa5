"""The switches of the LightRAG paper's ablation: -Low, -High and -Origin, in every mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.domain import Keywords, Kind, Mode, Question
from app.errors import Invalid
from app.query import engine
from app.query.engine import MODES, ONLY_LEVELS, Retrieved
from tests.unit.query.library import Library, ScriptedRewriter, Spy

ASKED = "Where was the director of The Silent Harbour born?"
GRAPH_MODES = {mode for mode in MODES if "source_text" not in ONLY_LEVELS.get(mode, ())}
LEVELLED = [Mode.HYBRID, Mode.MIX, Mode.PPR, Mode.RQ]


async def spied(library: Library, mode: Mode, **switches: Any) -> tuple[Retrieved, Spy]:
    workspace, _, vectors = library.spied()
    models = replace(library.models, rewriter=ScriptedRewriter(["Lake Inari", "Kuusamo"]))
    switches.setdefault("keywords", Keywords(("Lake Inari",), ("directed by",)))
    question = Question(ASKED, mode=mode, **switches)
    return await engine.retrieve(workspace, models, question), vectors


def searched(vectors: Spy) -> set[Kind]:
    """Kinds that were searched for something; a search without vector and terms finds nothing."""
    return {
        query.kind
        for _, [queries], _ in vectors.calls
        for query in queries
        if query.dense or query.sparse.indices
    }


@pytest.mark.parametrize("mode", LEVELLED)
@pytest.mark.parametrize("style", ["walk", "lightrag"])
async def test_without_the_low_level_no_thing_is_looked_up(
    library: Library, mode: Mode, style: str
) -> None:
    got, vectors = await spied(library, mode, low_level=False, mix_style=style)
    assert Kind.ENTITY not in searched(vectors)
    assert Kind.RELATION in searched(vectors)
    assert got.found.names == ()
    assert got.explain.get("links", []) == []
    assert got.explain.get("low", []) == []
    assert got.context.sources


@pytest.mark.parametrize("mode", LEVELLED)
@pytest.mark.parametrize("style", ["walk", "lightrag"])
async def test_without_the_high_level_no_theme_is_looked_up(
    library: Library, mode: Mode, style: str
) -> None:
    got, vectors = await spied(library, mode, high_level=False, mix_style=style)
    assert Kind.RELATION not in searched(vectors)
    assert got.explain.get("facts", {}) == {}
    assert got.explain.get("high", []) == []
    assert got.context.sources


@pytest.mark.parametrize("mode", sorted(GRAPH_MODES))
async def test_without_source_text_the_context_is_the_graphs(library: Library, mode: Mode) -> None:
    whole, _ = await spied(library, mode)
    got, _ = await spied(library, mode, source_text=False)
    assert whole.context.sources
    assert got.context.sources == ()
    assert got.context.entities
    assert got.context.relations
    assert [one.entity.key for one in got.context.entities] == [
        one.entity.key for one in whole.context.entities
    ]


@pytest.mark.parametrize("mode", [Mode.MIX, Mode.PPR])
async def test_without_both_levels_direct_search_is_left(library: Library, mode: Mode) -> None:
    got, vectors = await spied(library, mode, low_level=False, high_level=False)
    assert searched(vectors) == {Kind.CHUNK}
    assert got.context.sources


@pytest.mark.parametrize(("mode", "switches"), ONLY_LEVELS.items())
async def test_a_mode_that_is_left_with_nothing_is_refused(
    library: Library, mode: Mode, switches: tuple[str, ...]
) -> None:
    for asked in (mode, Mode.RQ):
        with pytest.raises(Invalid, match=switches[0]) as caught:
            await spied(
                library, asked, **dict.fromkeys(switches, False),
                **({"rq_base": mode} if asked is Mode.RQ else {}),
            )  # fmt: skip
        assert caught.value.code == "nothing_to_retrieve"


@pytest.mark.parametrize("mode", [Mode.NAIVE, Mode.HYDE])
async def test_levels_mean_nothing_to_modes_without_them(library: Library, mode: Mode) -> None:
    whole, _ = await spied(library, mode)
    without, _ = await spied(library, mode, low_level=False, high_level=False)
    assert without.found.chunks == whole.found.chunks
