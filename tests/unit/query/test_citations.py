from __future__ import annotations

import pytest

from app.domain import Chunk, Source
from app.query.citations import Stream, best_quote, check, sentences

INARI = (
    "Lake Inari is the largest lake in Sápmi. It covers 1,040 square kilometres, as shown in [7]. "
    "Its outflow is the Paatsjoki River, which runs to the Barents Sea."
)
OULU = "Oulu is a city at the Gulf of Bothnia. It was founded in 1605 by King Charles IX."


def source(number: int, text: str, start: int = 0) -> Source:
    chunk = Chunk(f"c{number}", f"d{number}", 0, start, start + len(text), text, 30, page=2)
    return Source(number, chunk, f"Document {number}", "2024-05-01", 0.5)


SOURCES = (source(1, INARI, start=500), source(2, OULU))


@pytest.mark.parametrize(
    ("answer", "text", "numbers"),
    [
        ("It is large [1].", "It is large [1].", [1]),
        ("Both are north [1][2].", "Both are north [1][2].", [1, 2]),
        ("Both are north [1, 2].", "Both are north [1][2].", [1, 2]),
        ("Both are north [1-2].", "Both are north [1][2].", [1, 2]),
        ("Both are north [1–2].", "Both are north [1][2].", [1, 2]),
        ("Both are north [1 and 2].", "Both are north [1][2].", [1, 2]),
        ("两者都在北方【1】【2】。", "两者都在北方[1][2]。", [1, 2]),
        ("两者都在北方［1，2］。", "两者都在北方[1][2]。", [1, 2]),
        ("It is large [Source 1].", "It is large [1].", [1]),
        ("It is large [^1].", "It is large [1].", [1]),
        ("It is large 【1†source】.", "It is large [1].", [1]),
        ("It is large [9].", "It is large.", []),
        ("It is large [1, 9].", "It is large [1].", [1]),
        ("It is large [0].", "It is large.", []),
        ("It is large [1-999].", "It is large [1].", [1]),
        ("No marks at all.", "No marks at all.", []),
        ("A list [a] and [b c] stay.", "A list [a] and [b c] stay.", []),
        ("", "", []),
    ],
)
def test_every_mark_of_a_checked_answer_resolves(
    answer: str, text: str, numbers: list[int]
) -> None:
    checked = check(answer, SOURCES)
    assert checked.text == text
    assert [citation.number for citation in checked.citations] == numbers


def test_marks_that_resolve_to_nothing_are_reported() -> None:
    checked = check("Large [9]. Cold [1, 8]. Deep [1].", SOURCES)
    assert checked.dropped == ("[9]", "[1, 8]")


def test_a_quote_is_the_slice_of_the_parsed_text_that_supports_the_sentence() -> None:
    parsed = "x" * 500 + INARI
    checked = check("The outflow of the lake is the river Paatsjoki [1].", SOURCES)
    [citation] = checked.citations
    assert citation.quote.startswith("Its outflow is the Paatsjoki River")
    assert parsed[citation.start : citation.end] == citation.quote
    assert (citation.document_id, citation.document_name, citation.page) == ("d1", "Document 1", 2)
    assert 0 < citation.score < 1


def test_a_quoted_sentence_is_cited_exactly() -> None:
    checked = check("It was founded in 1605 by King Charles IX. [2]", SOURCES)
    [citation] = checked.citations
    assert citation.quote == "It was founded in 1605 by King Charles IX."
    assert citation.score == 1


def test_each_mark_gets_the_quote_of_its_own_sentence() -> None:
    checked = check("Oulu lies at the Gulf of Bothnia [2]. It was founded in 1605 [2].", SOURCES)
    assert [c.quote for c in checked.citations] == [
        "Oulu is a city at the Gulf of Bothnia.",
        "It was founded in 1605 by King Charles IX.",
    ]


def test_the_same_quote_is_cited_once() -> None:
    checked = check("Founded in 1605 [2]. King Charles IX founded it [2].", SOURCES)
    assert len(checked.citations) == 1


def test_brackets_inside_quoted_text_are_no_marks() -> None:
    checked = check("It covers 1,040 square kilometres, as shown in [7]. [1]", SOURCES)
    assert checked.text == "It covers 1,040 square kilometres, as shown in [7]. [1]"
    assert [citation.number for citation in checked.citations] == [1]
    assert checked.dropped == ()


def test_an_answer_in_another_language_still_gets_a_quote() -> None:
    start, end, score = best_quote("Ein See im Norden.", OULU)
    assert OULU[start:end] == "Oulu is a city at the Gulf of Bothnia."
    assert score < 0.5


@pytest.mark.parametrize("text", ["", "   ", "word", "。" * 50, "\n\n\n", "a" * 5000])
def test_any_chunk_text_has_a_quote_within_it(text: str) -> None:
    start, end, score = best_quote("Some claim about a lake.", text)
    assert 0 <= start <= end <= len(text)
    assert 0 <= score <= 1


def test_sentences_without_a_source_are_named() -> None:
    answer = (
        "## Summary\nThese are the facts:\n- Lake Inari is the largest lake [1].\n"
        "- It is surely also the most beautiful one. Oulu is a city. [2]\n"
    )
    assert check(answer, SOURCES).unsourced == ("It is surely also the most beautiful one.",)


def test_a_mark_behind_closing_quotation_marks_is_a_source() -> None:
    answer = "Passages follow:\n\n'Oulu lies in the north of Finland.' [2]"
    assert check(answer, SOURCES).unsourced == ()


def test_a_chinese_sentence_without_a_source_is_named() -> None:
    assert check("奥卢是芬兰的一座城市[2]。它是世界上最美丽的城市之一。", SOURCES).unsourced == (
        "它是世界上最美丽的城市之一。",
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "answer",
    [
        "It is large [1, 2], cold [9] and deep【1】. See [7] or [x].",
        "It covers 1,040 square kilometres, as shown in [7]. [1]",
        "An open bracket [ at the end [1",
        "Trailing blanks  ",
    ],
)
def test_a_stream_shows_what_the_checked_answer_says(answer: str, size: int) -> None:
    stream = Stream(SOURCES)
    pieces = [stream.feed(answer[i : i + size]) for i in range(0, len(answer), size)]
    shown = "".join([*pieces, stream.end()])
    assert shown == check(answer, SOURCES).text


def test_a_stream_does_not_wait_for_a_bracket_that_never_closes() -> None:
    stream = Stream(SOURCES)
    assert stream.feed("see [" + "x" * 100) != ""


def test_lines_of_wrapped_prose_are_one_sentence_and_other_lines_are_not() -> None:
    wrapped = (
        "Let it also be borne in mind that Scrooge had not bestowed one thought\n"
        "on Marley since his last mention of his partner that afternoon. And then."
    )
    assert [one.text.strip() for one in sentences(wrapped)][1:] == ["And then."]
    for lines in (
        "STAVE ONE\nMarley was dead",
        "- one item of the list that is long enough to wrap\n- another item",
        "x | a table row that is long enough to be wrapped by far\ny | z",
        "Ann: I shall be there at seven and bring the cake we talked about\nBob: fine",
    ):
        assert len(sentences(lines)) == 2, lines
