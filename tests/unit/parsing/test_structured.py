"""CSV, JSON and spreadsheets."""

from __future__ import annotations

import datetime as dt
import io

import openpyxl
import pytest

from app import media
from tests.unit.parsing.made import parsed


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
async def test_csv_rows_name_their_columns_whatever_the_delimiter(delimiter: str) -> None:
    rows = [
        ["name", "town", "note"],
        ["Ann", "Köln", f'says "hi"{delimiter} waves'],
        ["Bo", "", "x"],
    ]
    lines = [delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    result = await parsed("\r\n".join(lines).encode(), media.CSV)
    assert result.text == (
        f'name: Ann | town: Köln | note: says "hi"{delimiter} waves\nname: Bo | note: x'
    ).replace("\t", " ").replace("  ", " ")


async def test_csv_without_a_header_keeps_its_cells() -> None:
    assert (await parsed(b"1,2\n3,4\n", media.CSV)).text == "1 | 2\n3 | 4"


async def test_an_open_quotation_mark_does_not_swallow_the_file() -> None:
    data = b'a,b\n1,"open\n' + b"2,x\n" * 40_000
    result = await parsed(data, media.CSV)
    assert result.text.count("\n") > 30_000
    assert "Quotation" in result.warnings[0]


async def test_json_becomes_paths_and_values() -> None:
    data = b'{"a": {"b": [1, 2.50, null], "c": [{"d": true}, {"e": "x"}]}, "n": 123456789012345678}'
    assert (await parsed(data, media.JSON)).text == (
        "a.b: 1, 2.50\na.c[1].d: yes\na.c[2].e: x\nn: 123456789012345678"
    )


async def test_records_are_paragraphs_in_json_and_json_lines() -> None:
    assert (await parsed(b'[{"a": 1}, {"a": 2}]', media.JSON)).text == "a: 1\n\na: 2"
    assert (await parsed(b'{"a": 1}\n\n{"a": 2}\n', media.JSONL)).text == "a: 1\n\na: 2"


@pytest.mark.parametrize("data", [b'{"a": 1', b"[" * 100_000, b"[1, 2] trailing"])
async def test_what_is_no_json_is_kept_as_text_with_a_warning(data: bytes) -> None:
    result = await parsed(data, media.JSON)
    assert result.text == data.decode()
    assert "not valid JSON" in result.warnings[0]


def workbook(*sheets: tuple[str, list[list[object]]]) -> bytes:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.remove(book.active)
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


async def test_sheets_are_sections_and_rows_name_their_columns() -> None:
    data = workbook(
        (
            "People",
            [["Name", "Born", "Paid"], ["Ann", dt.date(1990, 1, 2), 2.5], ["Bo", None, True]],
        ),
        ("Empty", []),
        (
            "Years",
            [["Region", "2023", "2024"], ["North", 0.1 + 0.2, dt.datetime(2024, 5, 6, 7, 8)]],
        ),
    )
    result = await parsed(data, media.XLSX)
    assert result.text == (
        "People\n\nName: Ann | Born: 1990-01-02 | Paid: 2.5\nName: Bo | Paid: yes\n\n"
        "Years\n\nRegion: North | 2023: 0.3 | 2024: 2024-05-06 07:08:00"
    )
    assert [h.text for h in result.headings] == ["People", "Years"]


async def test_tables_parted_by_blank_rows_have_headers_of_their_own() -> None:
    data = workbook(("S", [["Bees"], [], ["a", "b"], ["1", "2"], [], ["c", "d"], ["3", "4"]]))
    assert (await parsed(data, media.XLSX)).text == "S\n\nBees\na: 1 | b: 2\nc: 3 | d: 4"


async def test_a_huge_sheet_is_cut_with_a_warning() -> None:
    data = workbook(("Wide", [[f"c{n}" for n in range(700)], list(range(700))]))
    result = await parsed(data, media.XLSX)
    assert "c499: 499" in result.text
    assert "c500" not in result.text
    assert "500 columns" in result.warnings[0]
