from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain import (
    Anchoring,
    EntityMention,
    Extraction,
    Hit,
    Job,
    Keywords,
    Mode,
    Plan,
    Question,
    RelationMention,
    relation_key,
)
from app.query.anchored.mode import asr, subgraph
from app.query.anchored.pool import Reach, admit, choose_anchors, reach
from app.query.anchored.topics import Topic, topics_of
from app.query.engine import retrieve
from app.query.found import Clock, Found
from app.query.links import Linked
from tests import make
from tests.unit.query.library import Library, open_libraries

BORN = "Where was the director of The Silent Harbour born?"


async def ask(library: Library, text: str, mode: Any = asr, **options: Any) -> Found:
    result: Found = await mode(
        library.workspace, library.models, Question(text, **options), Clock()
    )
    return result


def said(*pairs: str) -> Extraction:
    """Relations `a-b`, described by both names."""
    ends = [pair.split("-") for pair in pairs]
    names = dict.fromkeys(name for pair in ends for name in pair)
    return Extraction(
        tuple(EntityMention(name, "other", "") for name in names),
        tuple(RelationMention(a, b, f"{a} knows {b}") for a, b in ends),
    )


# --- what is found -------------------------------------------------------------------------------


async def test_a_chain_of_two_hops_is_found_and_shown_along_it(library: Library) -> None:
    found = await ask(library, BORN)
    assert set(library.documents(found.chunks)[:2]) == {"film", "director"}
    shown = [hit.key for hit in found.relations]
    first = relation_key("silent harbour", "aino korhonen")
    second = relation_key("aino korhonen", "kuusamo")
    assert shown.index(first) < shown.index(second)
    assert found.names[0] == "The Silent Harbour"


async def test_subgraph_has_no_anchors(library: Library) -> None:
    found = await ask(library, BORN, subgraph)
    assert found.explain["anchors"] == []
    assert found.explain["pool"]["met"].keys() <= {"topic_hop_1", "topic_hop_2", "similar"}  # type: ignore[index]
    assert library.documents(found.chunks)[0] in {"film", "director"}


async def test_each_relation_is_explained(library: Library) -> None:
    explain: Any = (await ask(library, BORN)).explain
    assert explain["topics"][0]["how"] == "name"
    assert explain["scorer"] == "prior"
    for one in explain["relations"]:
        assert one["parts"].keys() == {"likeness", "prox", "chain", "pull", "themes", "name"}
        assert 1 <= one["rank_by_cosine"] <= explain["pool"]["relations"]
    assert explain["relations"][0]["topic_distance"].count(0) >= 1


async def test_without_relations_passages_are_searched_instead(empty: Library) -> None:
    await empty.add("one", "note.txt", "ovens are hot", extraction=Extraction())
    await empty.index()
    found = await ask(empty, "Are ovens hot?")
    assert empty.documents(found.chunks) == ["one"]
    assert found.explain["fallback"] == "naive"


async def test_no_keyword_call_is_needed(library: Library) -> None:
    library.keyworder.by_model = True
    await ask(library, BORN)
    assert library.keyworder.asked == 0
    library.keyworder.found = Keywords(("The Silent Harbour",), ("birthplace",))
    await ask(library, BORN, keyword_source="model")
    assert library.keyworder.asked == 1


async def test_a_scorer_of_likeness_alone_ranks_by_cosine(library: Library) -> None:
    found = await ask(library, BORN, anchoring=Anchoring(scorer="cosine"))
    explain: Any = found.explain
    assert explain["scorer"] == "cosine"
    best = max(explain["relations"], key=lambda one: one["score"])
    assert best["rank_by_cosine"] == 1


async def test_a_text_without_a_word_finds_nothing_and_does_not_fail(library: Library) -> None:
    assert (await ask(library, "???")).chunks == ()


# --- what may be found ---------------------------------------------------------------------------


async def test_filters_hold(library: Library) -> None:
    found = await ask(library, BORN, documents=("film", "town"))
    assert set(library.documents(found.chunks)) <= {"film", "town"}
    born = relation_key("aino korhonen", "kuusamo")
    assert born not in {hit.key for hit in found.relations}
    assert (await ask(library, BORN, documents=())).chunks == ()


async def test_filters_hold_where_searches_cannot_be_narrowed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.query.scope.MOST_KEYS", 1)
    found = await ask(library, BORN, documents=("film", "town"))
    assert set(library.documents(found.chunks)) <= {"film", "town"}
    shown: Any = found.explain
    asserted = await library.workspace.graph.relation_chunks(
        [one["relation"].replace(" -- ", "\t") for one in (*shown["anchors"], *shown["relations"])],
        per_relation=1, documents=("film", "town"),
    )  # fmt: skip
    assert len(asserted) >= len(shown["relations"])


async def test_deleted_documents_are_gone_even_before_their_vectors(growing: Library) -> None:
    """Between the retraction and the index step, points of relations without evidence are left."""
    graph = growing.workspace.graph
    chunks = [id for id, document in growing.chunks.items() if document == "director"]
    assert "director" in growing.documents((await ask(growing, BORN)).chunks)
    job = Job(make.name("job"), growing.workspace.name, Plan.DELETE, "director")
    await growing.workspace.documents.reopen("director", job)
    await graph.retract("director", chunks)
    found = await ask(growing, BORN)
    assert "director" not in growing.documents(found.chunks)
    born = relation_key("aino korhonen", "kuusamo")
    assert born not in {hit.key for hit in found.relations}
    shown: Any = found.explain
    assert born.replace("\t", " -- ") not in {one["relation"] for one in shown["anchors"]}


async def test_workspaces_do_not_see_each_other(tmp_path: Path) -> None:
    async with open_libraries(tmp_path, "one", "two") as [one, two]:
        await one.add("a", "Alpha", "", extraction=said("Alpha-Beta"), chunks=[""])
        await two.add("b", "Alpha", "", extraction=said("Alpha-Gamma"), chunks=[""])
        await one.index()
        await two.index()
        found = await ask(one, "Whom does Alpha know?")
        assert [hit.key for hit in found.relations] == [relation_key("alpha", "beta")]


# --- bounds --------------------------------------------------------------------------------------


async def test_the_number_of_calls_is_constant(growing: Library) -> None:
    counts = []
    for top_k in (1, 100):
        workspace, graph, vectors = growing.spied()
        question = Question(BORN, top_k=top_k)
        await asr(workspace, growing.models, question, Clock())
        counts.append((graph.counts, vectors.counts))
    for n in range(40):
        text = f"Person {n} Virtanen met Aino Korhonen in Kuusamo and sailed to Turku."
        await growing.add(f"x{n}", f"Person {n} Virtanen", text)
    await growing.index()
    workspace, graph, vectors = growing.spied()
    await asr(workspace, growing.models, Question(BORN), Clock())
    counts.append((graph.counts, vectors.counts))
    assert counts[0] == counts[1] == counts[2]
    graph_calls, vector_calls = counts[0]
    assert graph_calls == {"find": 2, "heaviest": 2, "relation_chunks": 2}
    assert vector_calls == {"search": 3}


async def test_the_budget_holds_and_says_so(growing: Library) -> None:
    found = await ask(growing, BORN, anchoring=Anchoring(budget=2, anchors=1))
    explain: Any = found.explain
    assert explain["pool"]["relations"] == 2
    assert explain["pool"]["truncated"]


async def test_a_deadline_cuts_the_pool_to_what_arrived(library: Library) -> None:
    class Slow:
        """A graph whose neighbours take their time."""

        def __getattr__(self, name: str) -> Any:
            return getattr(library.workspace.graph, name)

        async def heaviest(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(60)

    graph: Any = Slow()
    workspace = replace(library.workspace, graph=graph)
    question = Question(BORN, anchoring=Anchoring(deadline_ms=20))
    found = await asr(workspace, library.models, question, Clock())
    explain: Any = found.explain
    assert explain["pool"]["deadline"]
    assert explain["pool"]["met"].keys() <= {"anchors", "similar"}
    assert found.chunks


async def test_a_hub_is_read_to_its_cap(empty: Library) -> None:
    for n in range(6):
        pairs = [f"Hub-Rim {n}x{m}" for m in range(20)]
        await empty.add(f"d{n}", f"part {n}", "", extraction=said(*pairs), chunks=[""])
    found = await reach(empty.workspace.graph, ["hub"], [], Anchoring(hops_topic=1), documents=None)
    assert [len(level) for level in found.topic_hops] == [48]
    assert found.truncated


# --- topics, anchors, admission ------------------------------------------------------------------


def test_names_come_before_spellings_before_vectors_and_each_once() -> None:
    linked = Linked((), ("Aino Korhonnen",))
    candidates = [[Hit("aino korhonen", 3.0), Hit("kuusamo", 1.0)]]
    nearest = [Hit("aino korhonen", 0.9), Hit("inari", 0.5), Hit("turku", 0.4)]
    found = topics_of(linked, candidates, nearest)
    assert [(one.key, one.how) for one in found] == [
        ("aino korhonen", "spelling"), ("inari", "vector"), ("turku", "vector"),
    ]  # fmt: skip
    assert found[0].score > 0.6
    assert found[1].score == 0


def test_one_hub_does_not_take_all_anchors() -> None:
    hits = [Hit(f"hub\trim {n}", 1 - n / 100) for n in range(20)] + [Hit("a\tb", 0.1)]
    assert list(choose_anchors(hits, 16)) == [*(f"hub\trim {n}" for n in range(6)), "a\tb"]
    assert list(choose_anchors(hits, 2)) == ["hub\trim 0", "hub\trim 1"]


def test_relations_are_admitted_in_order_until_the_budget_is_full() -> None:
    met = Reach([["a\tb"], ["b\tc"]], [["x\ty", "a\tb"]])
    topics = [Topic("a", "A", "name", 1.0), Topic("lost", "Lost", "name", 1.0)]
    pool = admit(met, topics, {"p\tq": 0.9}, ["s\tt", "a\tb"], 10)
    assert pool.relations == ("p\tq", "a\tb", "b\tc", "x\ty", "s\tt")
    assert [topic.key for topic in pool.topics] == ["a"]
    assert not pool.truncated
    assert admit(met, topics, {"p\tq": 0.9}, ["s\tt"], 4).truncated is False
    assert admit(met, topics, {"p\tq": 0.9}, [], 3).truncated is True


# --- the rest of the service ---------------------------------------------------------------------


async def test_the_context_holds_relations_and_their_passages(library: Library) -> None:
    question = Question(BORN, mode=Mode.ASR)
    got = await retrieve(library.workspace, library.models, question)
    assert got.relevant
    assert got.context.relations
    assert {source.chunk.document_id for source in got.context.sources} >= {"film", "director"}
    assert got.timings_ms.keys() >= {"links", "search", "pool", "cosines", "score", "evidence"}


def test_no_training_code_is_loaded_at_run_time() -> None:
    code = (
        "import sys, app.query.engine, app.query.anchored.scoring\n"
        "bad = {'jax', 'jaxlib', 'torch', 'scipy', 'sklearn', 'scripts'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {bad}' if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
