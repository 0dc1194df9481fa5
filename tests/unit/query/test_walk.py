from __future__ import annotations

import random
from dataclasses import replace

import pytest

from app.domain import EntityMention, Extraction, Hit, Keywords, Mode, Question, RelationMention
from app.query.bounded import MOST_NODES, READ_MENTIONS
from app.query.engine import retrieve
from app.query.found import Clock
from app.query.walk import mix, ppr
from app.query.weights import final_scores
from tests.unit.query.library import Library


async def found(library: Library, text: str, **options: object) -> list[str]:
    result = await mix(library.workspace, library.models, Question(text, **options), Clock())  # type: ignore[arg-type]
    return library.documents(result.chunks)


async def test_the_walk_follows_names_over_two_hops(library: Library) -> None:
    order = await found(library, "Where was the director of The Silent Harbour born?")
    assert sorted(order[:2]) == ["director", "film"]
    assert order[2] == "town"


async def test_a_question_about_a_rare_title_trusts_the_walk(library: Library) -> None:
    result = await mix(library.workspace, library.models, Question("What is Lake Inari?"), Clock())
    assert result.explain["trust"] == 1
    assert result.names == ("Lake Inari",)


async def test_a_question_that_names_nothing_trusts_direct_search(library: Library) -> None:
    question = Question("summarise everything about flour and sourdough")
    result = await mix(library.workspace, library.models, question, Clock())
    assert result.explain["trust"] == 0
    assert library.documents(result.chunks)[0] == "bread"


async def test_ppr_trusts_the_walk_even_then(library: Library) -> None:
    question = Question("summarise everything about flour and sourdough", mode=Mode.PPR)
    result = await ppr(library.workspace, library.models, question, Clock())
    assert result.explain["walk_weight"] == 1


async def test_lower_case_questions_find_their_names(library: Library) -> None:
    order = await found(library, "where was the director of the silent harbour born?")
    assert sorted(order[:2]) == ["director", "film"]
    assert order[2] == "town"


async def test_explain_tells_links_restart_and_the_heaviest_nodes(library: Library) -> None:
    question = Question("Where was the director of The Silent Harbour born?")
    explain = (await retrieve(library.workspace, library.models, question)).explain
    [link] = explain["links"]  # type: ignore[misc]
    assert link["entity"] == "The Silent Harbour"  # type: ignore[index]
    assert link["weight"] == 1  # type: ignore[index]
    assert 0 < link["idf"] <= 1  # type: ignore[index]
    assert link["about"] == 1  # type: ignore[index]
    assert explain["restart"]["probability"] == 0.1  # type: ignore[index]
    nodes = explain["nodes"]
    assert len(nodes) <= 10  # type: ignore[arg-type]
    assert all(node["from"] for node in nodes)  # type: ignore[attr-defined]


async def test_the_order_of_arrival_plays_no_part(empty: Library) -> None:
    rng = random.Random(5)
    names = [f"{a} {b}" for a in ("Arvo", "Eino", "Toivo") for b in ("Laine", "Salo", "Niemi")]
    texts = {
        name: f"{name} was a Finnish sailor. He sailed with {rng.choice(names)} from Turku."
        for name in names
    }
    question = Question("Who sailed with Eino Salo from Turku?")
    rankings = []
    for order in (names, names[::-1]):
        for name in order:
            await empty.add(name, name, texts[name])
        await empty.index()
        rankings.append((await mix(empty.workspace, empty.models, question, Clock())).chunks)
        for name in order:
            await empty.remove(name)
    assert [hit.key for hit in rankings[0]] == [hit.key for hit in rankings[1]]
    for one, other in zip(*rankings, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-6)


@pytest.mark.parametrize("text", ["?", "What?", "Lake Inari", "x" * 2000, "的", ""])
async def test_any_question_on_an_empty_workspace_finds_nothing(empty: Library, text: str) -> None:
    assert await found(empty, text) == []


async def test_a_single_passage_without_facts_is_found(empty: Library) -> None:
    await empty.add("one", "note.txt", "ovens are hot", extraction=Extraction())
    await empty.index()
    assert await found(empty, "Are ovens hot?") == ["one"]


async def test_a_question_of_hubs_only_gives_numbers(empty: Library) -> None:
    for n in range(12):
        await empty.add(
            f"d{n}", f"note-{n}.txt", f"In Helsinki we met again on day {n} of Helsinki."
        )
    await empty.index()
    result = await mix(empty.workspace, empty.models, Question("Helsinki?"), Clock())
    assert result.explain["trust"] == 0
    assert len(result.chunks) == 12
    assert all(hit.score == hit.score for hit in result.chunks)


async def test_late_links_find_what_a_later_document_is_about(empty: Library) -> None:
    await empty.add("life", "Eino Salo", "Eino Salo was a journalist from Turku.")
    await empty.add("other", "Toivo Niemi", "Toivo Niemi was a painter from Oulu.")
    await empty.index()
    question = "What is the occupation of Eino Salo?"
    before = await found(empty, question)
    await empty.add("job", "Journalist", "A journalist gathers news and writes about it.")
    await empty.index()
    assert (await found(empty, question))[:2] == ["life", "job"]
    await empty.remove("job")
    assert await found(empty, question) == before


async def test_an_alias_of_a_subject_leads_to_the_passage_about_it(empty: Library) -> None:
    await empty.add(
        "life", "doc.txt",
        "George James Rankin (1887 – 1957) was an Australian soldier. He served in Turkey.",
    )  # fmt: skip
    await empty.add("noise", "noise.txt", "The soldier market of Oulu sells soldier soup.")
    await empty.index()
    assert (await found(empty, "When was George Rankin a soldier?"))[0] == "life"


async def test_typos_in_names_are_forgiven(library: Library) -> None:
    question = Question("Where was Aino Korhonnen born?")
    result = await mix(library.workspace, library.models, question, Clock())
    [link] = result.explain["links"]  # type: ignore[misc]
    assert link["entity"] == "Aino Korhonen"  # type: ignore[index]
    assert 0.6 <= link["weight"] < 1  # type: ignore[index]


# --- switches ------------------------------------------------------------------------------------


async def test_without_the_low_level_no_name_is_looked_up(library: Library) -> None:
    question = Question("What is Lake Inari?", low_level=False)
    result = await mix(library.workspace, library.models, question, Clock())
    assert result.names == ()
    assert result.explain["links"] == []


async def test_without_the_high_level_no_relation_is_searched(library: Library) -> None:
    workspace, _, vectors = library.spied()
    question = Question("What is Lake Inari?", high_level=False)
    result = await mix(workspace, library.models, question, Clock())
    assert result.explain["hits"]["relation_dense"] == 0  # type: ignore[index]
    assert library.documents(result.chunks)[0] == "lake"
    first = next(args[0] for name, args, _ in vectors.calls if name == "search")
    assert {query.kind.value for query in first} == {"chunk"}


async def test_mix_asks_for_keywords_only_when_unsure_and_a_model_gives_them(
    library: Library,
) -> None:
    unsure, sure = "where does the ice come late in the year?", "What is Lake Inari?"
    library.keyworder.found = Keywords(("Lake Inari",), ("freezing",))
    await found(library, unsure)
    assert library.keyworder.asked == 0
    library.keyworder.by_model = True
    await found(library, sure)
    assert library.keyworder.asked == 0
    assert (await found(library, unsure))[0] == "lake"
    assert library.keyworder.asked == 1
    await found(library, unsure, keyword_source="query")
    assert library.keyworder.asked == 1
    await found(library, sure, keyword_source="model")
    assert library.keyworder.asked == 2


async def test_the_callers_keywords_are_names_without_a_call(library: Library) -> None:
    library.keyworder.by_model = True
    order = await found(library, "tell me more", keywords=Keywords(("Rye bread",)))
    assert order[0] == "bread"
    assert library.keyworder.asked == 0


# --- bounds --------------------------------------------------------------------------------------


async def test_the_number_of_calls_does_not_depend_on_top_k_or_size(growing: Library) -> None:
    question = Question("Where was the director of The Silent Harbour born?")
    counts = []
    for top_k in (1, 100):
        workspace, graph, vectors = growing.spied()
        await retrieve(workspace, growing.models, replace(question, top_k=top_k, chunk_top_k=top_k))
        counts.append((graph.counts, vectors.counts))
    for n in range(60):
        text = f"Person {n} Virtanen met Aino Korhonen in Kuusamo and sailed to Turku."
        await growing.add(f"x{n}", f"Person {n} Virtanen", text)
    await growing.index()
    workspace, graph, vectors = growing.spied()
    await retrieve(workspace, growing.models, question)
    counts.append((graph.counts, vectors.counts))
    assert counts[0] == counts[1] == counts[2]
    assert sum(counts[0][0].values()) <= 16
    assert sum(counts[0][1].values()) <= 2


async def test_hubs_are_not_read_beyond_their_cap(empty: Library) -> None:
    hub = Extraction((EntityMention("Turku", "location", "A city."),))
    for n in range(70):
        await empty.add(f"d{n}", f"note-{n}.txt", f"on day {n} nothing happened", extraction=hub)
    await empty.index()
    workspace, graph, _ = empty.spied()
    result = await mix(workspace, empty.models, Question("What happened in Turku?"), Clock())
    read = [kwargs["chunks"] for name, _, kwargs in graph.calls if name == "entity_links"]
    assert read
    assert max(read) <= READ_MENTIONS + 1
    subgraph = result.explain["subgraph"]
    assert subgraph["chunks"] + subgraph["entities"] <= MOST_NODES  # type: ignore[index]


# --- filters -------------------------------------------------------------------------------------


async def test_filters_hold_through_the_walk(library: Library) -> None:
    question = "Where was the director of The Silent Harbour born?"
    order = await found(library, question, documents=("film", "town"))
    assert set(order) <= {"film", "town"}
    result = await mix(
        library.workspace, library.models, Question(question, documents=("town", "lake")), Clock()
    )
    assert result.explain["links"] == []
    names = {hit.key for hit in result.entities}
    assert "the silent harbour" not in names
    assert "aino korhonen" not in names


async def test_no_matching_document_finds_nothing(library: Library) -> None:
    assert await found(library, "What is Lake Inari?", documents=()) == []


# --- the final score -----------------------------------------------------------------------------


def test_full_trust_ranks_by_mass_and_none_by_direct_score() -> None:
    mass, direct = {"a": 0.4, "b": 0.2}, {"b": 0.9, "c": 0.5}
    plain = {"subjects": {}, "residual": {"c": 1.0}}
    assert [hit.key for hit in final_scores(mass, direct, 1.0, **plain)] == ["a", "b", "c"]
    untrusted = final_scores(mass, direct, 0.0, **plain)
    assert [hit.key for hit in untrusted] == ["b", "c", "a"]
    assert untrusted[0] == Hit("b", pytest.approx(0.25 * 0.5 + 1 + 1e-6))


def test_what_a_passage_is_about_and_what_else_is_asked_decide_between_equals() -> None:
    mass = {"a": 0.2, "b": 0.2, "c": 0.2}
    ranked = final_scores(mass, {}, 1.0, subjects={"b": 0.5}, residual={"c": 0.4, "b": 0.0})
    assert [hit.key for hit in ranked] == ["b", "c", "a"]


async def test_facts_lead_where_no_name_does(empty: Library) -> None:
    said = Extraction(
        (EntityMention("Zinc", "concept", ""), EntityMention("Nausea", "concept", "")),
        (RelationMention("Zinc", "Nausea", "too much zinc upsets the stomach", ("side effect",)),),
    )
    await empty.add("zinc", "a.txt", "It is known from many studies.", extraction=said)
    await empty.add("iron", "b.txt", "Iron is found in meat.", extraction=Extraction())
    await empty.index()
    assert (await found(empty, "what upsets the stomach?"))[0] == "zinc"
