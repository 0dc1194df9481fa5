"""Figures against hand-made cases and slow, literal code."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.evaluation import metrics
from app.evaluation.metrics import Coverable, Found, content_words
from app.evaluation.questions import Case, Gold

UNITS = st.lists(st.frozensets(st.integers(0, 4), max_size=5), max_size=12)


def rank(*units: Sequence[int]) -> list[frozenset[int]]:
    return [frozenset(unit) for unit in units]


def test_recall_counts_each_gold_once() -> None:
    ranking = rank([0], [], [0], [1])
    assert metrics.recall(ranking, 3, 2) == pytest.approx(1 / 3)
    assert metrics.recall(ranking, 3, 10) == pytest.approx(2 / 3)
    assert metrics.recall([], 3, 10) == 0


def test_all_gold_needs_every_one() -> None:
    ranking = rank([0], [], [1], [2])
    assert metrics.all_gold(ranking, 3, 4) == 1
    assert metrics.all_gold(ranking, 3, 3) == 0


def test_reciprocal_rank_is_of_the_first_gold() -> None:
    assert metrics.reciprocal_rank(rank([], [], [1], [0])) == pytest.approx(1 / 3)
    assert metrics.reciprocal_rank(rank([], [])) == 0


def test_ndcg_by_hand() -> None:
    ranking = rank([], [0], [], [1])
    gained = 1 / math.log2(3) + 1 / math.log2(5)
    assert metrics.ndcg(ranking, 2) == pytest.approx(gained / (1 + 1 / math.log2(3)))
    assert metrics.ndcg(rank([0], [1]), 2) == 1
    assert metrics.ndcg(rank(*[[n] for n in range(20)]), 20, k=10) == 1


@given(UNITS, st.integers(1, 12))
def test_figures_equal_slow_reference_code(units: list[frozenset[int]], k: int) -> None:
    golds = 5
    found = [n for n in range(golds) if any(n in unit for unit in units[:k])]
    assert metrics.recall(units, golds, k) == pytest.approx(len(found) / golds)
    assert metrics.all_gold(units, golds, k) == (len(found) == golds)
    first = [place for place, unit in enumerate(units) if unit]
    assert metrics.reciprocal_rank(units) == (1 / (first[0] + 1) if first else 0)
    gain = 0.0
    for place in range(min(k, len(units))):
        new = [n for n in units[place] if not any(n in unit for unit in units[:place])]
        gain += len(new) / math.log2(place + 2)
    best = sum(1 / math.log2(place + 2) for place in range(min(golds, k)))
    assert metrics.ndcg(units, golds, k) == pytest.approx(min(1, gain / best))


def test_chunks_of_one_document_are_one_unit() -> None:
    chunks = [Found("a", "A", "x"), Found("a", "A", "y"), Found("b", "B", "z")]
    ranking = metrics.ranking_of(chunks, [Gold("id", "b"), Gold("name", "A")])
    assert ranking == rank([1], [0])


def test_a_quote_is_found_in_the_chunk_that_has_it() -> None:
    chunks = [Found("a", "A", "Nothing."), Found("a", "A", "Marley was\n dead: to begin with.")]
    ranking = metrics.ranking_of(chunks, [Gold("quote", "marley was dead")])
    assert ranking == rank([], [0])


def test_a_statement_is_covered_by_four_fifths_of_its_content_words() -> None:
    statement = content_words("The miller sold his red barn to a farmer.")
    assert statement == {"miller", "sold", "red", "barn", "farmer"}
    assert metrics.coverage(["A farmer: the miller sold him a barn."], [statement], 5) == 1
    assert metrics.coverage(["The miller sold a barn.", ""], [statement], 5) == 0
    assert metrics.coverage(["", "", "red barn farmer miller sold"], [statement], 2) == 0


def test_no_words_are_put_together_from_two_chunks() -> None:
    statement = content_words("miller sold red barn farmer")
    assert metrics.coverage(["miller sold red", "barn farmer"], [statement], 5) == 0


def test_only_statements_that_the_corpus_covers_count() -> None:
    case = Case("q", "?", evidence=("Cats eat fish.", "Dogs fly planes."))
    coverable = Coverable(case.evidence, ["A cat may eat a fish.", "Dogs bark."])
    assert coverable.of(case) == [content_words("Cats eat fish.")]


def test_a_statement_of_stop_words_alone_keeps_them() -> None:
    assert content_words("who is it") == {"who", "is", "it"}


def test_triples_count_as_pairs_of_names_in_either_direction() -> None:
    case = Case("q", "?", triples=(("Paris", "capital of", "France"), ("Lyon", "in", "France")))
    found = metrics.retrieval_figures(case, [], [("the France", "city", "Paris")], [])
    assert found["triple_recall@10"] == 0.5


@pytest.mark.parametrize(
    ("answer", "accepted", "exact", "score"),
    [
        ("The Eiffel Tower!", ["Eiffel tower"], 1, 1),
        ("journalist [1]", ["poet", "journalist"], 1, 1),
        ("He was a journalist.", ["journalist"], 0, 0.5),
        ("no", ["yes"], 0, 0),
        ("", ["yes"], 0, 0),
        ("the", ["a"], 1, 1),
        ("red red blue", ["red blue blue"], 0, 2 / 3),
    ],
)
def test_answers_are_compared_as_squad_does(
    answer: str, accepted: list[str], exact: float, score: float
) -> None:
    assert metrics.exact_match(answer, accepted) == exact
    assert metrics.f1(answer, accepted) == pytest.approx(score)


def test_a_long_answer_contains_the_accepted_one_as_whole_words() -> None:
    assert metrics.contains_answer("It lies in New York, they say.", ["new york"]) == 1
    assert metrics.contains_answer("It lies in New Yorkshire.", ["new york"]) == 0


@pytest.mark.parametrize(
    ("answer", "found", "right"),
    [
        ("The documents don’t mention it... nothing relevant was found.", True, 1),
        ("Insufficient information", True, 1),
        ("Whatever", False, 1),
        ("They played chess.", True, 0),
    ],
)
def test_what_cannot_be_answered_is_answered_by_saying_so(
    answer: str, found: bool, right: float
) -> None:
    case = Case("q", "?", unanswerable=True)
    figures = metrics.answer_figures(case, answer, found=found)
    assert {figure for figure in figures.values()} == {right}


def test_a_server_that_finds_nothing_answers_nothing() -> None:
    case = Case("q", "?", answers=("nothing",))
    assert metrics.answer_figures(case, "nothing", found=False)["f1"] == 0


def test_a_question_without_gold_has_no_figures() -> None:
    assert metrics.retrieval_figures(Case("q", "?"), [Found("a", "", "x")], [], []) == {}
    assert metrics.answer_figures(Case("q", "?"), "x") == {}
