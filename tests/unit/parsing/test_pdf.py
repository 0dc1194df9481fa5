from __future__ import annotations

import pytest

from app import media
from app.errors import Unparsable
from tests.unit.parsing.made import lines, parsed, pdf

LEFT = [f"The left column says line {n} of its long story" for n in range(1, 13)]
RIGHT = [f"The right column tells line {n} of another tale" for n in range(1, 13)]


async def text(*pages: list[tuple[float, float, float, str]]) -> str:
    return (await parsed(pdf(pages), media.PDF)).text


@pytest.mark.parametrize("across", [False, True])
async def test_columns_are_read_one_after_the_other(across: bool) -> None:
    left = lines(LEFT, left=50, top=700)
    right = lines(RIGHT, left=310, top=700)
    drawn = (
        [one for pair in zip(left, right, strict=True) for one in pair] if across else right + left
    )
    found = await text([(150, 750, 16, "A title across both of the columns"), *drawn])
    places = [found.index(line) for line in LEFT + RIGHT]
    assert places == sorted(places)
    assert found.startswith("A title across")


async def test_a_table_is_read_row_by_row_and_keeps_its_empty_cells() -> None:
    rows = [
        ("Name", "Town", "Age"),
        ("Ann", "Paris", "33"),
        ("Bob", "", "44"),
        ("Cid", "Rome", "55"),
    ]
    drawn = [
        (50 + 150 * column, 700 - 15 * row, 10, cell)
        for column in range(3)
        for row, cells in enumerate(rows)
        for cell in [cells[column]]
        if cell
    ]
    assert "Name | Town | Age\nAnn | Paris | 33\nBob |  | 44\nCid | Rome | 55" in await text(drawn)


async def test_cells_of_a_ruled_table_stay_whole_however_long_they_are() -> None:
    drawn: list[tuple[float, float, float, str]] = []
    for number in range(4):
        top = 700 - 60 * number
        drawn += lines(["The system shall answer", f"question {number} soon"], left=50, top=top)
        words = ["Measured from the arrival of it", "until the last byte has gone,", "on one core"]
        drawn += lines(words, left=250, top=top)
    ruled = [(45, 450, 715 - 60 * number) for number in range(5)]
    found = (await parsed(pdf([drawn], rules=ruled), media.PDF)).text
    assert found.split("\n")[1] == (
        "The system shall answer question 1 soon | "
        "Measured from the arrival of it until the last byte has gone, on one core"
    )
    assert found.count("\n") == 3


async def test_rules_that_part_groups_of_rows_leave_the_rows_apart() -> None:
    drawn = [
        (50 + 100 * column, 700 - 14 * row, 10, f"r{row}c{column}")
        for row in range(12)
        for column in range(4)
    ]
    ruled = [(45, 400, 711 - 42 * number) for number in range(5)]
    found = (await parsed(pdf([drawn], rules=ruled), media.PDF)).text
    assert "r4c0 | r4c1 | r4c2 | r4c3\nr5c0 | r5c1" in found


async def test_numbered_titles_at_the_top_of_pages_are_kept() -> None:
    pages = [
        [(50, 750, 16, f"Section {number}"), *lines(LEFT, left=50, top=700)]
        for number in range(1, 6)
    ]
    result = await parsed(pdf(pages), media.PDF)
    assert [h.text for h in result.headings] == [f"Section {number}" for number in range(1, 6)]


async def test_hyphens_at_line_ends_are_joined_unless_they_belong_to_the_word() -> None:
    found = await text(
        lines(
            [
                "A well-known rule of typography says that a long word may be hyphen-",
                "ated at the end of a line, which leaves us with a question: is well-",
                "known one word or two, and who decides that it is not so in Saxe-",
                "Coburg, where many names are written in their own particular ways.",
            ],
            left=50,
            top=700,
        )
    )
    assert "may be hyphenated at" in found
    assert "is well-known one" in found
    assert "Saxe-Coburg" in found


async def test_running_titles_and_page_numbers_go_and_paragraphs_span_pages() -> None:
    def page(number: int) -> list[tuple[float, float, float, str]]:
        body = lines(
            [f"Line {line} of page {'abcd'[number - 1]} goes on and on, without an end, to"
             for line in ("first", "second", "third", "fourth")],
            left=50, top=700,
        )  # fmt: skip
        return [(50, 780, 9, f"History of Bees   {number}"), *body, (300, 20, 9, str(number))]

    result = await parsed(pdf([page(n) for n in (1, 2, 3, 4)]), media.PDF)
    assert "History of Bees" not in result.text
    assert [number for _, number in result.pages] == [1, 2, 3, 4]
    assert all(result.text[offset:].startswith("Line first") for offset, _ in result.pages)


async def test_line_numbers_in_the_margin_are_no_text() -> None:
    body = lines([f"Testimony goes on here in line {w}" for w in "abcdefgh"], left=90, top=700)
    numbers = [(50, one[1], 10, str(n)) for n, one in enumerate(body, 1)]
    found = await text([*numbers, *body])
    assert not any(char.isdigit() for char in found)


async def test_a_numbered_table_keeps_its_numbers() -> None:
    rows = [(50, f"{n}") for n in range(1, 9)]
    drawn = [(left, 700 - 15 * row, 10, words) for row, (left, words) in enumerate(rows)]
    drawn += [(150, 700 - 15 * row, 10, f"item {row}") for row in range(8)]
    drawn += [(350, 700 - 15 * row, 10, f"{row}.50 EUR") for row in range(8)]
    assert "3 | item 2 | 2.50 EUR" in await text(drawn)


async def test_larger_type_makes_headings_and_metadata_the_title() -> None:
    page = [
        (50, 750, 20, "Chapter One"),
        *lines(["Plain text follows here, line after line of it."] * 5, left=50, top=700),
        (50, 600, 14, "A section"),
        *lines(["And more plain text, again line after line of it."] * 5, left=50, top=570),
    ]
    result = await parsed(pdf([page], title="On Bees"), media.PDF)
    assert [(h.level, h.text) for h in result.headings] == [(1, "Chapter One"), (2, "A section")]
    assert result.title == "On Bees"
    assert (await parsed(pdf([page], title="draft.doc"), media.PDF)).title == "Chapter One"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (pdf([[]]), "empty"),
        (b"%PDF-1.7\nnothing else", "damaged"),
        (pdf([lines(LEFT, left=50, top=700)])[:300], "damaged"),
    ],
)
async def test_a_pdf_without_a_readable_page_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(Unparsable) as caught:
        await parsed(data, media.PDF)
    assert caught.value.code == code


async def test_a_pdf_whose_index_is_lost_is_repaired() -> None:
    data = pdf([lines(LEFT, left=50, top=700)]).replace(b"startxref\n", b"startxref\n9")
    assert LEFT[3] in (await parsed(data, media.PDF)).text
