from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.domain import Context, Mode, Question, Turn, Usage
from app.errors import BadModelOutput, Invalid, Unavailable
from app.query import engine
from app.query.absence import SENTENCES
from app.query.engine import Answered
from tests.unit.query.library import Library, ScriptedAnswerer, open_libraries

ASKED = Question("Where was the director of The Silent Harbour born?")


async def answered(library: Library, question: Question = ASKED, **options: bool) -> Answered:
    return await engine.answer(library.workspace, library.models, question, **options)


async def test_an_answer_carries_checked_citations_and_its_cost(library: Library) -> None:
    library.answerer.pieces = ("She was born ", "in Kuusamo in 1920 [1", "]. More [9].")
    result = await answered(library)
    assert result.answer == "She was born in Kuusamo in 1920 [1]. More."
    [citation] = result.citations
    source = result.context.sources[0]
    assert (citation.number, citation.chunk_id) == (1, source.chunk.id)
    assert citation.quote == "She was born in Kuusamo in 1920."
    assert result.model == "scripted"
    assert result.usage == Usage(1, 100, 10)
    assert result.timings_ms["total"] >= result.timings_ms["answer"]
    assert result.explain == {}
    assert result.notice == ""


@pytest.mark.parametrize("pieces", [(), ("",), (" \n", "")])
async def test_a_model_that_writes_nothing_is_not_taken_for_nothing_found(
    library: Library, pieces: tuple[str, ...]
) -> None:
    library.answerer.pieces = pieces
    with pytest.raises(BadModelOutput, match="no answer"):
        await answered(library)


async def test_a_long_question_is_answered_for_the_names_that_are_known(library: Library) -> None:
    library.answerer.pieces = ("In Kuusamo [1].",)
    strangers = ", ".join(f"Name{n}" for n in range(300))
    text = f"Who of these directed The Silent Harbour: {strangers}, Aino Korhonen?"
    assert (await answered(library, Question(text))).citations


async def test_explain_names_dropped_marks_and_unsourced_sentences(library: Library) -> None:
    library.answerer.pieces = (
        "She was born in Kuusamo [2]. It is a very nice town indeed. So [9].",
    )
    explain = (await answered(library, explain=True)).explain
    assert explain["dropped_marks"] == ["[9]"]
    assert explain["unsourced"] == ["It is a very nice town indeed."]
    assert explain["trust"] == 1
    assert explain["cut_by_budget"] == {
        "entities": 0, "relations": 0, "chunks": 0, "shortened": 0, "themes": 0,
    }  # fmt: skip


async def test_only_the_context_costs_no_answer(library: Library) -> None:
    result = await answered(library, only_context=True)
    assert result.answer == ""
    assert result.citations == ()
    assert result.context.sources
    assert library.answerer.seen == []
    assert result.usage == Usage()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Which chess opening suits beginners?", "en"),
        ("Welche Eröffnung ist für den Anfang im Schach die beste?", "de"),
    ],
)
async def test_nothing_relevant_is_said_without_a_model_call(
    library: Library, text: str, language: str
) -> None:
    result = await answered(library, Question(text))
    assert result.answer == SENTENCES[language]
    assert result.notice == engine.NOTHING_FOUND
    assert result.model is None
    assert result.citations == ()
    assert result.context.empty
    assert library.answerer.seen == []


async def test_the_context_alone_is_shown_whatever_it_is_worth(library: Library) -> None:
    question = Question("Which chess opening suits beginners?")
    result = await answered(library, question, only_context=True)
    assert result.context.sources
    assert not (await engine.retrieve(library.workspace, library.models, question)).relevant


async def test_an_answerer_without_a_model_judges_for_itself(library: Library) -> None:
    library.answerer.model = None
    library.answerer.pieces = ("The documents say nothing about this.",)
    result = await answered(library)
    assert result.answer == "The documents say nothing about this."
    assert result.notice == engine.NOTHING_FOUND
    assert result.citations == ()
    library.answerer.pieces = ("She was born in Kuusamo in 1920. [2]",)
    assert (await answered(library)).notice == ""


async def test_rules_that_quote_nothing_found_nothing(library: Library) -> None:
    library.answerer.pieces, library.answerer.model = ("  ",), None
    result = await answered(library)
    assert result.answer == SENTENCES["en"]
    assert result.notice == engine.NOTHING_FOUND


async def test_a_stream_ends_with_what_the_whole_answer_says(library: Library) -> None:
    library.answerer.pieces = ("Born in ", "Kuusamo [", "2, 9", "] and so on [7].")
    events = [event async for event in engine.stream(library.workspace, library.models, ASKED)]
    kinds = [event.kind for event in events]
    assert kinds[0] == "context"
    assert kinds[-1] == "done"
    assert set(kinds[1:-1]) == {"token"}
    assert isinstance(events[0].data, Context)
    whole = await answered(library)
    done = events[-1].data
    assert isinstance(done, Answered)
    assert done.answer == whole.answer == "Born in Kuusamo [2] and so on."
    assert "".join(str(event.data) for event in events[1:-1]) == whole.answer
    assert done.citations == whole.citations


async def test_an_error_ends_a_stream_as_its_last_event(library: Library) -> None:
    class Failing(ScriptedAnswerer):
        async def answer(self, question, context):  # type: ignore[no-untyped-def, override]
            yield "Born in "
            raise Unavailable("The model server is away.")

    library.models = replace(library.models, answerer=Failing())
    events = [event async for event in engine.stream(library.workspace, library.models, ASKED)]
    assert events[-1].kind == "error"
    assert isinstance(events[-1].data, Unavailable)
    with pytest.raises(Unavailable):
        await answered(library)


async def test_nothing_found_is_streamed_too(library: Library) -> None:
    question = Question("Which chess opening suits beginners?")
    events = [event async for event in engine.stream(library.workspace, library.models, question)]
    assert [event.kind for event in events] == ["context", "token", "done"]
    assert events[1].data == SENTENCES["en"]


async def test_bypass_asks_the_model_with_the_history_and_nothing_else(library: Library) -> None:
    workspace, graph, vectors = library.spied()
    history = (Turn("user", "Hello"), Turn("assistant", "Hi"))
    question = Question("Tell me a joke", mode=Mode.BYPASS, history=history, language="German")
    result = await engine.answer(workspace, library.models, question)
    assert result.answer == "Plain answer [1]."
    assert result.citations == ()
    [prompt] = library.answerer.prompts
    assert (prompt.user, prompt.history) == ("Tell me a joke", history)
    assert "German" in prompt.system
    assert graph.calls == vectors.calls == []
    assert result.usage == Usage(1, 10, 5)


async def test_bypass_without_a_model_is_a_clear_error(library: Library) -> None:
    library.answerer.model = None
    question = Question("Tell me a joke", mode=Mode.BYPASS)
    with pytest.raises(Invalid) as caught:
        await answered(library, question)
    assert caught.value.code == "no_model"
    events = [event async for event in engine.stream(library.workspace, library.models, question)]
    assert [event.kind for event in events] == ["error"]


async def test_a_follow_up_is_retrieved_with_what_it_refers_to(library: Library) -> None:
    history = (Turn("user", "Who is Aino Korhonen?"), Turn("assistant", "A director."))
    question = Question("Where was she born?", history=history)
    result = await answered(library, question, explain=True)
    assert result.explain["query"] == "Who is Aino Korhonen?\nWhere was she born?"
    assert library.documents(result.context.sources)[0] == "director"


async def test_workspaces_do_not_see_each_other(tmp_path: Path) -> None:
    async with open_libraries(tmp_path, "one", "two") as [one, two]:
        await one.add("secret", "Aino Korhonen", "Aino Korhonen was born in Kuusamo in 1920.")
        await one.index()
        await two.add("other", "Lake Inari", "Lake Inari is the largest lake in Sápmi.")
        await two.index()
        for mode in engine.MODES:
            question = Question("Where was Aino Korhonen born?", mode=mode)
            got = await engine.retrieve(two.workspace, two.models, question)
            assert "Aino" not in str(got.context)
            assert {two.chunks[hit.key] for hit in got.found.chunks} <= {"other"}


async def test_a_client_that_leaves_ends_the_answer_at_once(library: Library) -> None:
    """Not whenever the garbage collector comes by: the model's slot is free again."""
    ended: list[bool] = []

    class Endless(ScriptedAnswerer):
        async def answer(self, question, context):  # type: ignore[no-untyped-def]
            try:
                while True:
                    yield "and so on "
            finally:
                ended.append(True)

    library.models = replace(library.models, answerer=Endless())
    events = engine.stream(library.workspace, library.models, ASKED)
    async for event in events:
        if event.kind == "token":
            break
    assert not ended
    await events.aclose()
    assert ended
