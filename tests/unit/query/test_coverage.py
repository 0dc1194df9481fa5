from __future__ import annotations

import pytest

from app.domain import Chunk
from app.query.coverage import LONG, coverage
from app.terms import content_terms, query_sparse, residual_sparse


def chunk(id: str, text: str, tokens: int = LONG) -> Chunk:
    return Chunk(id, "document", 0, 0, len(text), text, tokens)


def test_a_passage_with_more_of_the_question_covers_more() -> None:
    found = coverage(
        "Which therapies slow the growth of tumours?",
        [
            chunk("all", "A therapy may slow down how the tumours grow; growth is measured."),
            chunk("some", "Tumours are of many kinds. " * 20),
            chunk("none", "Ovens are hot."),
        ],
    )
    assert found["all"] == pytest.approx(1)
    assert 0 < found["some"] < found["all"]
    assert found["none"] == 0


def test_words_that_stand_together_cover_more_than_scattered_ones() -> None:
    filler = "Nothing of this kind was ever said. " * 40
    found = coverage(
        "zinc nausea dose",
        [
            chunk("together", f"Zinc in a high dose brings nausea. {filler}"),
            chunk("scattered", f"Zinc. {filler} Nausea. {filler} Dose."),
        ],
    )
    assert found["together"] > found["scattered"] > 0


def test_short_passages_are_left_to_direct_search() -> None:
    text = "Zinc in a high dose brings nausea."
    found = coverage("zinc nausea", [chunk("long", text), chunk("short", text, LONG // 8)])
    assert found["short"] == pytest.approx(found["long"] / 64)


@pytest.mark.parametrize(
    ("question", "text", "held"),
    [
        ("therapy", "Therapies exist.", True),
        ("therapies", "One therapy.", True),
        ("art", "An article.", False),
        ("boxes", "A (box).", True),
        ("Köln", "koln", True),
        ("Zürich's trams", "The tram of “Zürich”—a joy", True),
        ("長江大橋", "武漢長江大橋", True),
    ],
)
def test_words_are_found_in_their_forms(question: str, text: str, held: bool) -> None:
    assert (coverage(question, [chunk("it", text)])["it"] > 0) is held


@pytest.mark.parametrize("question", ["", "?", "what is the", "zinc"])
def test_any_question_and_no_passage_give_numbers(question: str) -> None:
    assert coverage(question, []) == {}
    assert coverage(question, [chunk("empty", "")]) == {"empty": 0}


def test_the_rest_of_a_question_is_without_its_names_and_stop_words() -> None:
    text = "Who wrote The Silent Harbour?"
    assert content_terms(text) == ["wrote", "silent", "harbour"]
    assert residual_sparse(text, ["The Silent Harbour"]).indices == query_sparse("wrote").indices
    assert residual_sparse("?", []).indices == ()
