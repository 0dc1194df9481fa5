"""Mode auto: which mode a question gets, and what is said about it."""

from __future__ import annotations

import pytest

from app.domain import Mode, Question
from app.query import engine
from app.query.auto import CHAINED, COMPARISON, OVERVIEW, PLAIN, WHY, kind_of
from tests.unit.query.library import Library


async def chosen(library: Library, text: str, **options: object) -> dict[str, object]:
    question = Question(text, mode=Mode.AUTO, **options)  # type: ignore[arg-type]
    got = await engine.retrieve(library.workspace, library.models, question)
    told = got.explain["auto"]
    assert isinstance(told, dict)
    assert got.explain["mode"] == told["mode"]
    return told


async def test_a_question_to_a_graph_is_walked_from_its_names(library: Library) -> None:
    told = await chosen(library, "Where was the director of The Silent Harbour born?")
    assert told["mode"] == "mix"
    features = told["features"]
    assert isinstance(features, dict)
    assert features["names"] == ["The Silent Harbour"]
    assert features["trust"] == 1
    assert features["relations"] > 0
    assert told["why"] == WHY[features["kind"]]


async def test_the_choice_finds_what_the_chosen_mode_finds(library: Library) -> None:
    for text in ("What is Lake Inari?", "summarise everything", "rye flour"):
        auto = Question(text, mode=Mode.AUTO)
        got = await engine.retrieve(library.workspace, library.models, auto)
        mix = await engine.retrieve(library.workspace, library.models, Question(text))
        assert got.found.chunks == mix.found.chunks
        assert got.context == mix.context
        assert "auto" not in mix.explain


async def test_without_a_graph_passages_are_searched_alone(empty: Library) -> None:
    from app.domain import Extraction

    await empty.add("a", "a.txt", "the tide was low all morning", extraction=Extraction())
    await empty.index()
    told = await chosen(empty, "When was the tide low?")
    assert told["mode"] == "naive"
    got = await engine.answer(
        empty.workspace, empty.models, Question("tide low morning", mode=Mode.AUTO)
    )
    assert got.mode is Mode.AUTO
    assert got.context.sources
    assert (await chosen(empty, "tide", source_text=False))["mode"] == "mix"


async def test_over_nothing_nothing_is_found(empty: Library) -> None:
    got = await engine.answer(empty.workspace, empty.models, Question("x", mode=Mode.AUTO))
    assert got.notice == engine.NOTHING_FOUND


async def test_filters_hold(library: Library) -> None:
    question = Question("Lake Inari Kuusamo", mode=Mode.AUTO, documents=("town",))
    got = await engine.retrieve(library.workspace, library.models, question)
    assert set(library.documents(got.context.sources)) == {"town"}


async def test_no_model_is_asked_for_the_choice(library: Library) -> None:
    await chosen(library, "What is Lake Inari?")
    assert library.keyworder.asked == 0
    assert library.models.rewriter.asked == []  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Summarise the main topics of the documents.", OVERVIEW),
        ("概括主题", OVERVIEW),
        ("Which film was released first, Aas Ka Panchhi or Phoolwari?", COMPARISON),
        ("Are Medici and Senet both board games?", COMPARISON),
        ("Who is the mother of the director of film Atomised?", CHAINED),
        ("Where did Saw Thanda's husband's father die?", CHAINED),
        ("What is Lake Inari?", PLAIN),
        ("ski or snowboard", PLAIN),
        ("", OVERVIEW),
        ("???", OVERVIEW),
    ],
)
def test_the_wording_tells_what_a_question_asks_for(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_each_kind_has_its_reason() -> None:
    assert {OVERVIEW, COMPARISON, CHAINED, PLAIN} < set(WHY)
