from __future__ import annotations

import pytest

from app.domain import Keywords, Mode, Question
from app.query import dual
from app.query.engine import MODES, retrieve
from app.query.found import Clock, Found
from tests.unit.query.library import Library

ASKED = "Which director was born in Kuusamo?"


async def found(library: Library, mode: Mode, text: str = ASKED, **options: object) -> Found:
    question = Question(text, mode=mode, **options)  # type: ignore[arg-type]
    return await MODES[mode](library.workspace, library.models, question, Clock())


async def test_naive_finds_chunks_by_the_question_alone(library: Library) -> None:
    result = await found(library, Mode.NAIVE, "ski resort town")
    assert library.documents(result.chunks)[0] == "town"
    assert result.entities == result.relations == ()
    assert library.keyworder.asked == 0


async def test_local_goes_from_things_to_their_relations_and_chunks(library: Library) -> None:
    result = await found(library, Mode.LOCAL, "who?", keywords=Keywords(low=("Aino Korhonen",)))
    assert result.entities[0].key == "aino korhonen"
    assert any("aino korhonen" in hit.key for hit in result.relations)
    assert set(library.documents(result.chunks)[:2]) == {"director", "film"}


async def test_global_goes_from_themes_to_their_ends_and_chunks(library: Library) -> None:
    result = await found(library, Mode.GLOBAL, "who?", keywords=Keywords(high=("directed by",)))
    assert {"aino korhonen", "silent harbour"} <= {hit.key for hit in result.entities[:3]}
    assert library.documents(result.chunks)[0] == "film"


async def test_hybrid_holds_what_both_levels_find(library: Library) -> None:
    given = Keywords(("Lake Inari",), ("directed by",))
    result = await found(library, Mode.HYBRID, "who?", keywords=given)
    assert set(library.documents(result.chunks)[:2]) == {"lake", "film"}


async def test_keywords_are_asked_for_once_and_joined_by_the_question(library: Library) -> None:
    library.keyworder.found = Keywords(("Lake Inari",), ("directed by",))
    result = await found(library, Mode.HYBRID)
    assert library.keyworder.asked == 1
    assert result.explain["low"] == ["Lake Inari", ASKED]
    assert result.explain["high"] == ["directed by", ASKED]
    assert library.embedder.asked == [[ASKED, "Lake Inari", "directed by"]]


@pytest.mark.parametrize("switch", ["low_level", "high_level"])
async def test_a_level_of_hybrid_can_be_switched_off(library: Library, switch: str) -> None:
    given = Keywords(("Lake Inari",), ("directed by",))
    result = await found(library, Mode.HYBRID, "who?", keywords=given, **{switch: False})
    assert result.explain["low" if switch == "low_level" else "high"] == []
    first = library.documents(result.chunks)[0]
    assert first == ("film" if switch == "low_level" else "lake")


async def test_keywords_each_have_a_vector_of_their_own(library: Library) -> None:
    await found(library, Mode.HYBRID, keywords=Keywords(("Kuusamo", "Oulu"), ("birth",)))
    assert library.embedder.asked == [[ASKED, "Kuusamo", "Oulu", "birth"]]
    assert library.keyworder.asked == 0


async def test_the_questions_own_vector_replaces_keywords_on_request(library: Library) -> None:
    result = await found(library, Mode.HYBRID, keyword_source="query")
    assert library.keyworder.asked == 0
    assert library.embedder.asked == [[ASKED]]
    assert result.explain["low"] == [ASKED]


async def test_the_references_mix_is_hybrid_and_naive_in_turns(library: Library) -> None:
    given = Keywords(("Lake Inari",), ("freezing",))
    question = Question("rye flour", mode=Mode.MIX, mix_style="lightrag", keywords=given)
    got = await retrieve(library.workspace, library.models, question)
    order = library.documents(got.found.chunks)
    assert order[0] == "bread"  # naive
    assert "lake" in order[:4]  # local, by its keyword


@pytest.mark.parametrize("mode", [Mode.NAIVE, Mode.LOCAL, Mode.GLOBAL, Mode.HYBRID])
async def test_calls_do_not_depend_on_top_k(library: Library, mode: Mode) -> None:
    counts = []
    for top_k in (1, 100):
        workspace, graph, vectors = library.spied()
        question = Question(ASKED, mode=mode, top_k=top_k, chunk_top_k=top_k)
        await retrieve(workspace, library.models, question)
        counts.append((graph.counts, vectors.counts))
    assert counts[0] == counts[1]
    assert sum(counts[0][1].values()) <= 2


@pytest.mark.parametrize("mode", list(MODES))
async def test_filters_hold_in_every_mode(library: Library, mode: Mode) -> None:
    question = Question(ASKED, mode=mode, documents=("town", "bread"))
    got = await retrieve(library.workspace, library.models, question)
    assert set(library.documents(got.found.chunks)) <= {"town", "bread"}
    for key in (hit.key for hit in got.found.entities):
        rows = await library.workspace.graph.entity_links(
            [key], chunks=5, about=5, documents=("town", "bread")
        )
        assert rows
    context = got.context
    assert set(library.documents(context.sources)) <= {"town", "bread"}
    texts = [one.text for one in context.entities] + [one.text for one in context.relations]
    assert not any("Aino" in text or "Silent" in text for text in texts)


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("text", ["?", "Lake Inari", "🎉"])
async def test_an_empty_workspace_is_no_error_in_any_mode(
    empty: Library, mode: Mode, text: str
) -> None:
    got = await retrieve(empty.workspace, empty.models, Question(text, mode=mode))
    assert got.context.empty
    assert not got.relevant


async def test_of_a_hub_the_chunks_nearest_to_the_question_are_taken(empty: Library) -> None:
    for n in range(70):
        await empty.add(f"d{n}", f"note-{n}.txt", f"On day {n} the weather in Helsinki was fine.")
    await empty.add("key", "note.txt", "In Helsinki the zeppelin landed beside the cathedral.")
    await empty.index()
    question = Question("zeppelin cathedral", mode=Mode.LOCAL, keywords=Keywords(("Helsinki",)))
    result = await dual.local(empty.workspace, empty.models, question, Clock())
    assert empty.documents(result.chunks)[0] == "key"
