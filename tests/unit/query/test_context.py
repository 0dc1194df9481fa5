from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from app.domain import Budget, Context, Hit, Mode, Question
from app.errors import Unavailable
from app.query.context import entity_text, pack, relation_text, source_text
from app.query.engine import retrieve
from app.query.found import Found
from tests.unit.query.library import Library

LONG = " ".join(f"Sentence {n} tells of the harbour of Oulu and its ships." for n in range(60))


async def all_of(library: Library, question: Question, *documents: str) -> Context:
    """Everything of the library packed, chunks of these documents first."""
    graph = library.workspace.graph
    entities = await graph.search("", limit=100)
    relations = await graph.relations_of([one.key for one in entities], per_entity=10)
    ids = sorted(library.chunks, key=lambda id: (*(library.chunks[id] != d for d in documents), id))
    found = Found(
        tuple(Hit(id, 1 / n) for n, id in enumerate(ids, start=1)),
        tuple(Hit(one.key, 1.0) for one in entities),
        tuple(Hit(one.key, 1.0) for one in relations),
    )
    return (await pack(library.workspace, library.models, question, found)).context


@pytest.mark.parametrize("total", [60, 120, 400, 1000, 4000])
@pytest.mark.parametrize(("entities", "relations"), [(0, 0), (50, 80), (6000, 8000)])
async def test_no_budget_is_exceeded(
    growing: Library, total: int, entities: int, relations: int
) -> None:
    await growing.add("long", "Harbour", LONG)
    await growing.index()
    budget = Budget(entities, relations, total)
    packed = await all_of(growing, Question("x", budget=budget), "long")
    count = growing.models.tokenizer.count
    shown = [sum(count(entity_text(one)) for one in packed.entities)]
    shown += [sum(count(relation_text(one)) for one in packed.relations)]
    shown += [sum(count(source_text(one)) for one in packed.sources)]
    assert shown[0] <= entities
    assert shown[1] <= relations
    assert sum(shown) <= packed.tokens <= total
    assert packed.sources or total < 100


@pytest.mark.parametrize("total", [60, 120, 400])
async def test_a_budget_holds_whatever_a_chunk_says_of_its_tokens(
    empty: Library, total: int
) -> None:
    """The setting of the tokenizer may have changed since, or an archive may tell another number:
    the library says a quarter of the characters, which these characters exceed."""
    await empty.add("dense", "Harbour", "".join(map(chr, range(0x4E00, 0x4E00 + 300))))
    await empty.index()
    packed = await all_of(empty, Question("x", budget=Budget(0, 0, total)), "dense")
    count = empty.models.tokenizer.count
    assert sum(count(source_text(one)) for one in packed.sources) <= packed.tokens <= total


async def test_chunks_get_at_least_half_of_a_small_budget(growing: Library) -> None:
    await growing.add("long", "Harbour", LONG)
    await growing.index()
    packed = await all_of(growing, Question("x", budget=Budget(6000, 8000, 400)), "long")
    count = growing.models.tokenizer.count
    assert sum(count(source_text(one)) for one in packed.sources) >= 150
    assert packed.entities


async def test_a_chunk_that_does_not_fit_is_cut_and_keeps_its_offsets(empty: Library) -> None:
    await empty.add("long", "Harbour", LONG)
    await empty.index()
    [source] = (await all_of(empty, Question("x", budget=Budget(0, 0, 120)))).sources
    chunk = source.chunk
    assert chunk.text == LONG[chunk.start : chunk.end]
    assert 0 < len(chunk.text) < len(LONG)


async def test_overlaps_and_equal_texts_are_shown_once(empty: Library) -> None:
    parts = [LONG[:1500], LONG[1200:2800]]
    await empty.add("long", "Harbour", LONG, chunks=parts)
    await empty.add("copy", "Copy", LONG[:1500])
    await empty.index()
    packed = await all_of(empty, Question("x"), "long")
    shown = sorted(
        (s.chunk.start, s.chunk.end) for s in packed.sources if s.chunk.document_id == "long"
    )
    for one, other in pairwise(shown):
        assert one[1] <= other[0]
    texts = [source.chunk.text for source in packed.sources]
    assert len(texts) == len(set(texts))
    for source in packed.sources:
        if source.chunk.document_id == "long":
            assert source.chunk.text == LONG[source.chunk.start : source.chunk.end]


async def test_sources_are_numbered_from_one_and_carry_name_and_date(empty: Library) -> None:
    await empty.add("a", "Harbour", "Ships come to the harbour.", date="2024-05-01")
    await empty.add("b", "Airport", "Planes come to the airport.")
    await empty.index()
    sources = (await all_of(empty, Question("x"), "a")).sources
    assert [source.number for source in sources] == [1, 2]
    assert (sources[0].document_name, sources[0].date) == ("Harbour", "2024-05-01")
    assert sources[1].document_name == "Airport"
    assert len(sources[1].date) == len("2024-05-01")


async def test_counts_are_limited_by_top_k(library: Library) -> None:
    packed = await all_of(library, Question("x", top_k=2, chunk_top_k=3))
    assert len(packed.entities) == 2
    assert len(packed.relations) == 2
    assert len(packed.sources) == 3


async def test_without_source_text_only_the_graph_is_shown(library: Library) -> None:
    packed = await all_of(library, Question("x", source_text=False))
    assert packed.sources == ()
    assert packed.entities


async def test_with_filters_things_are_described_from_matching_documents_only(
    empty: Library,
) -> None:
    await empty.add("old", "Report", "Aino Korhonen is the head of Secret Works in Oulu.")
    await empty.add("new", "News", "Aino Korhonen is the mayor of Kuusamo since 2020.")
    await empty.index()
    packed = await all_of(empty, Question("x", documents=("new",)))
    shown = [entity_text(one) for one in packed.entities]
    shown += [relation_text(one) for one in packed.relations]
    assert any("mayor" in text for text in shown)
    assert not any("Secret" in text or "Oulu" in text for text in shown)
    [person] = [one for one in packed.entities if one.entity.name == "Aino Korhonen"]
    assert "Secret" not in person.entity.profile


async def test_a_reranker_moves_a_passage_up_without_silencing_the_walk(library: Library) -> None:
    class Judge:
        async def scores(self, query: str, texts: list[str]) -> list[float]:
            return [1.0 if "rye" in text else 0.0 for text in texts]

    plain = await all_of(library, Question("x"), "film")
    judge = Judge()
    library.models = replace(library.models, reranker=judge)  # type: ignore[arg-type]
    judged = await all_of(library, Question("x"), "film")
    names = [source.document_name for source in plain.sources]
    moved = [source.document_name for source in judged.sources]
    assert sorted(names) == sorted(moved)
    assert moved.index("Rye bread") <= names.index("Rye bread")
    assert moved.index("The Silent Harbour") <= 1


async def test_a_reranker_that_fails_costs_its_opinion_and_not_the_answer(
    library: Library,
) -> None:
    class Away:
        async def scores(self, query: str, texts: list[str]) -> list[float]:
            raise Unavailable("The rerank endpoint is away.")

    plain = await all_of(library, Question("x"), "film")
    library.models = replace(library.models, reranker=Away())
    assert (await all_of(library, Question("x"), "film")).sources == plain.sources
    seen = await retrieve(
        library.workspace, library.models, Question("Silent Harbour", mode=Mode.NAIVE)
    )
    assert seen.explain["reranked"] == "The rerank endpoint is away."


async def test_nothing_found_makes_an_empty_context(empty: Library) -> None:
    packed = (await pack(empty.workspace, empty.models, Question("x"), Found())).context
    assert packed.empty
    assert packed.tokens == 0
