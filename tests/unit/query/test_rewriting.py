"""Modes that have a model rewrite the question first: hyde and rq."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain import (
    Hit,
    Keywords,
    Kind,
    Mode,
    Question,
    Ref,
    Turn,
    Usage,
)
from app.errors import Invalid, NoModel, Unavailable
from app.query import engine
from app.query.found import Clock, Found
from app.query.rewriting import BASES, Leg, fused, mean
from tests.unit.query.library import REWRITTEN, Library, ScriptedRewriter, open_libraries

ASKED = "Where was the director of The Silent Harbour born?"
ONE = REWRITTEN


async def found(
    library: Library, rewriter: ScriptedRewriter, mode: Mode, text: str = ASKED, **options: object
) -> tuple[Found, Clock]:
    clock = Clock()
    question = Question(text, mode=mode, **options)  # type: ignore[arg-type]
    models = replace(library.models, rewriter=rewriter)
    return await engine.MODES[mode](library.workspace, models, question, clock), clock


# --- hyde ----------------------------------------------------------------------------------------


async def test_the_passages_a_model_made_up_find_the_chunk(library: Library) -> None:
    text = "where do people go skiing?"
    written = ScriptedRewriter(["Kuusamo is a ski resort town in Finland."])
    result, clock = await found(library, written, Mode.HYDE, text)
    assert library.documents(result.chunks)[0] == "town"
    assert result.explain["passages"] == written.texts
    assert clock.usage == ONE
    assert result.entities == result.relations == ()


async def test_the_vectors_of_passages_and_question_are_averaged(library: Library) -> None:
    texts = ["one lake", "another film"]
    rewriter = ScriptedRewriter(texts)
    result, _ = await found(library, rewriter, Mode.HYDE, "freezing ice")
    embed = library.embedder.embed
    vectors = [
        *(await embed(["freezing ice"], purpose="query")).vectors,
        *(await embed(texts, purpose="document")).vectors,
    ]
    whole = [sum(column) / 3 for column in zip(*vectors, strict=True)]
    length = math.hypot(*whole)
    assert mean(vectors) == pytest.approx([value / length for value in whole])
    points = await library.workspace.vectors.read(
        [Ref(Kind.CHUNK, hit.key) for hit in result.chunks]
    )
    scores = {hit.key: hit.score for hit in result.chunks}
    for point in points:
        cosine = sum(a * b for a, b in zip(point.dense, mean(vectors), strict=True))
        assert scores[point.ref.key] == pytest.approx(cosine, abs=1e-5)


def test_vectors_without_direction_do_not_count() -> None:
    assert mean([(1.0, 0.0), (), (0.0, 0.0), (0.0, 1.0)]) == pytest.approx([0.5**0.5] * 2)
    assert mean([(), (0.0, 0.0)]) == ()


async def test_so_many_passages_are_written_as_asked_for(library: Library) -> None:
    rewriter = ScriptedRewriter([f"text {n}" for n in range(8)])
    result, _ = await found(library, rewriter, Mode.HYDE, hyde_passages=5)
    assert len(result.explain["passages"]) == 5  # type: ignore[arg-type]


async def test_without_a_usable_passage_the_question_itself_retrieves(library: Library) -> None:
    result, clock = await found(library, ScriptedRewriter(), Mode.HYDE, "ski resort town")
    assert library.documents(result.chunks)[0] == "town"
    assert clock.usage == ONE


async def test_what_was_made_up_does_not_make_a_stranger_relevant(library: Library) -> None:
    text = "Which chess opening suits beginners?"
    fiction = "Aino Korhonen is a Finnish film director born in Kuusamo in 1920."
    models = replace(library.models, rewriter=ScriptedRewriter([fiction]))
    got = await engine.retrieve(library.workspace, models, Question(text, mode=Mode.HYDE))
    assert got.found.chunks
    assert got.found.likeness < got.found.chunks[0].score
    assert not got.relevant


# --- rq ------------------------------------------------------------------------------------------


async def test_each_query_is_retrieved_and_the_rankings_fused(library: Library) -> None:
    rewriter = ScriptedRewriter(["Lake Inari", "Kuusamo"])
    result, clock = await found(library, rewriter, Mode.RQ, "Which is in the north?")
    assert {"lake", "town"} <= set(library.documents(result.chunks)[:4])
    rewriting = result.explain["rewriting"]
    assert isinstance(rewriting, dict)
    assert rewriting["kind"] == "decompose"
    assert rewriting["base"] == "mix"
    assert [leg["query"] for leg in rewriting["queries"]] == [
        "Which is in the north?", "Lake Inari", "Kuusamo",
    ]  # fmt: skip
    assert clock.usage == ONE
    assert {"Lake Inari", "Kuusamo"} <= set(result.names)
    assert len({hit.key for hit in result.chunks}) == len(result.chunks)


async def test_a_question_that_needs_no_query_is_retrieved_as_it_is(library: Library) -> None:
    for text in (ASKED, "lake"):
        result, _ = await found(library, ScriptedRewriter(), Mode.RQ, text)
        question = Question(text, keyword_source="query")
        plain = await BASES[Mode.MIX](library.workspace, library.models, question, Clock())
        assert [hit.key for hit in result.chunks] == [hit.key for hit in plain.chunks]


@pytest.mark.parametrize("base", BASES)
async def test_any_mode_that_retrieves_can_be_the_base(library: Library, base: Mode) -> None:
    rewriter = ScriptedRewriter(["Lake Inari freezing"])
    result, _ = await found(library, rewriter, Mode.RQ, "rye flour", rq_base=base)
    assert "lake" in library.documents(result.chunks)[:3]
    assert library.keyworder.asked == 0


@pytest.mark.parametrize("base", [Mode.RQ, Mode.HYDE, Mode.BYPASS])
async def test_a_mode_that_asks_a_model_cannot_be_the_base(library: Library, base: Mode) -> None:
    with pytest.raises(Invalid, match=base.value):
        await found(library, ScriptedRewriter(), Mode.RQ, rq_base=base)


async def test_keywords_are_asked_for_only_on_request(library: Library) -> None:
    library.keyworder.by_model = True
    rewriter = ScriptedRewriter(["Lake Inari"])
    await found(library, rewriter, Mode.RQ, "rye?")
    assert library.keyworder.asked == 0
    await found(library, rewriter, Mode.RQ, "rye?", keyword_source="model")
    assert library.keyworder.asked == 2
    library.keyworder.asked = 0
    await found(library, rewriter, Mode.RQ, "rye?", keywords=Keywords(("Kuusamo",)))
    assert library.keyworder.asked == 0


async def test_a_query_may_need_what_an_earlier_one_finds(library: Library) -> None:
    rewriter = ScriptedRewriter(
        ["Who directed The Silent Harbour?", "Where was #1 born?", "What is #2 known for? #9 #3"],
        answers=["Aino Korhonen", "Kuusamo"],
    )
    result, clock = await found(library, rewriter, Mode.RQ, rq_sequential=True)
    rewriting = result.explain["rewriting"]
    assert isinstance(rewriting, dict)
    asked = [leg["query"] for leg in rewriting["queries"]]
    assert asked[1:] == [
        "Who directed The Silent Harbour?",
        "Where was Aino Korhonen born?",
        "What is Kuusamo known for?",
    ]
    assert [leg.get("answer") for leg in rewriting["queries"]] == [
        None, "Aino Korhonen", "Kuusamo", None,
    ]  # fmt: skip
    assert clock.usage == Usage(3, 30, 15)
    assert any("Aino Korhonen" in text for text in rewriter.shown[0])
    assert len(rewriter.shown[0]) <= 5


async def test_without_sequence_references_are_left_out(library: Library) -> None:
    rewriter = ScriptedRewriter(["Where was #1 born?", "Kuusamo"])
    result, clock = await found(library, rewriter, Mode.RQ)
    rewriting = result.explain["rewriting"]
    assert isinstance(rewriting, dict)
    assert [leg["query"] for leg in rewriting["queries"][1:]] == ["Where was born?", "Kuusamo"]
    assert clock.usage == ONE


def test_rankings_are_summed_where_each_needed_answer_was_found() -> None:
    def leg(answer: str, *hits: tuple[str, float]) -> Leg:
        return Leg("q", Found(chunks=tuple(Hit(*hit) for hit in hits)), answer)

    own = leg("", ("a", 1.0), ("b", 0.9), ("c", 0.8))
    first = leg("Ada", ("b", 2.0), ("a", 0.2))
    second = leg("", ("b", 0.5), ("c", 0.4))
    texts = ["Who?", "Where was #1 born?"]
    summed = fused([own, first, second], texts)
    assert [hit.key for hit in summed] == ["b", "c", "a"]
    assert summed[0].score == pytest.approx(0.9 + 1.0 + 1.0)
    ranks = fused([own, replace(first, answer=""), second], texts)
    assert ranks == fused([own, first, second], ["Who?", "Where?"])
    assert ranks[0].score == pytest.approx(1 / 7 + 1 / 6 + 1 / 6)
    assert fused([leg("x"), leg("x"), leg("")], texts) == []


@pytest.mark.parametrize("texts", [["#1", "#2 #1", "#1 #2 #3 #4"], ["#4", "#3", "#2", "#1"]])
async def test_references_in_a_circle_end(library: Library, texts: list[str]) -> None:
    rewriter = ScriptedRewriter(texts, answers=["", "", "", ""])
    result, _ = await found(library, rewriter, Mode.RQ, rq_sequential=True)
    assert result.chunks


async def test_rounds_of_reads_do_not_grow_with_the_hits(library: Library) -> None:
    counted = []
    for top_k in (1, 100):
        workspace, graph, vectors = library.spied()
        models = replace(library.models, rewriter=ScriptedRewriter(["Lake Inari", "Kuusamo"]))
        question = Question(ASKED, mode=Mode.RQ, top_k=top_k)
        await engine.MODES[Mode.RQ](workspace, models, question, Clock())
        counted.append((graph.counts, vectors.counts))
    assert counted[0] == counted[1]


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [Mode.HYDE, Mode.RQ])
async def test_without_a_language_model_the_mode_is_refused(library: Library, mode: Mode) -> None:
    models = replace(library.models, rewriter=None)
    with pytest.raises(NoModel, match="language model") as caught:
        await engine.answer(library.workspace, models, Question(ASKED, mode=mode))
    assert (caught.value.status, caught.value.code) == (422, "no_model")


@pytest.mark.parametrize("mode", [Mode.HYDE, Mode.RQ])
async def test_a_model_that_is_away_is_said(library: Library, mode: Mode) -> None:
    rewriter = ScriptedRewriter(fault=Unavailable("The model does not answer."))
    with pytest.raises(Unavailable):
        await found(library, rewriter, mode)


@pytest.mark.parametrize("mode", [Mode.HYDE, Mode.RQ])
async def test_filters_hold(library: Library, mode: Mode) -> None:
    rewriter = ScriptedRewriter(["Lake Inari freezing", "Aino Korhonen film"])
    result, _ = await found(library, rewriter, mode, documents=("town",))
    assert set(library.documents(result.chunks)) == {"town"}
    nothing = ScriptedRewriter(["x"])
    result, _ = await found(library, nothing, mode, documents=())
    assert result.chunks == ()
    assert nothing.asked == []


@pytest.mark.parametrize("mode", [Mode.HYDE, Mode.RQ])
async def test_over_nothing_no_model_is_asked(empty: Library, mode: Mode) -> None:
    rewriter = ScriptedRewriter(["x"])
    result, _ = await found(empty, rewriter, mode)
    assert (result.chunks, rewriter.asked) == ((), [])


@pytest.mark.parametrize("mode", [Mode.HYDE, Mode.RQ])
async def test_workspaces_stay_apart(tmp_path: Path, mode: Mode) -> None:
    async with open_libraries(tmp_path, "one", "two") as [one, two]:
        for library, place in ((one, "Oulu"), (two, "Turku")):
            await library.add("d", "Ferry", f"The ferry leaves from {place} at noon.")
            await library.index()
        rewriter = ScriptedRewriter(["The ferry leaves from Turku.", "Turku"])
        result, _ = await found(one, rewriter, mode, "Where does the ferry leave?")
        assert {hit.key for hit in result.chunks} <= set(one.chunks)


@pytest.mark.parametrize("mode", [Mode.HYDE, Mode.RQ])
async def test_a_follow_up_is_read_after_what_came_before(library: Library, mode: Mode) -> None:
    rewriter = ScriptedRewriter(["x"])
    question = Question("And she?", mode=mode, history=(Turn("user", "Who is Aino Korhonen?"),))
    models = replace(library.models, rewriter=rewriter)
    await engine.retrieve(library.workspace, models, question)
    assert rewriter.asked[0][1] == "Who is Aino Korhonen?\nAnd she?"


@pytest.mark.parametrize("mode", [Mode.HYDE, Mode.RQ])
async def test_an_answer_counts_the_call_that_rewrote_its_question(
    library: Library, mode: Mode
) -> None:
    models = replace(library.models, rewriter=ScriptedRewriter(["Aino Korhonen"]))
    got = await engine.answer(library.workspace, models, Question(ASKED, mode=mode), explain=True)
    assert got.usage == ONE + Usage(1, 100, 10)
    assert got.mode is mode
    assert got.explain["mode"] == mode.value
