"""Headings of plain text: found where they are beyond doubt, and the text stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app import media
from tests.unit.parsing.made import LIMITS, parsed
from workers.parsing import parse

SHARED = Path(os.environ.get("HELIOGRAPH_SHARED", "../shared")) / "data"


async def headings(text: str) -> list[tuple[int, str]]:
    result = await parsed(text.encode(), media.TEXT)
    assert result.text == text
    assert all(h.text.split() == text[h.start : h.end].split() for h in result.headings)
    return [(heading.level, heading.text) for heading in result.headings]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("STAVE ONE", 2),
        ("CHAPTER I.", 2),
        ("  Chapter 12: The Return", 2),
        ("CHAPTER 1. Loomings.", 2),
        ("CHAPTER XLII. The Whiteness of the Whale", 2),
        ("Chapter Twenty-One", 2),
        ("Book the First--Recalled to Life", 1),
        ("PART TWO", 1),
        ("Act II", 1),
        ("SCENE IV. Elsinore", 3),
        ("Kapitel 3", 2),
        ("CHAPITRE PREMIER", 2),
        ("Capítulo II", 2),
        ("Глава 5", 2),
        ("第一回 宴桃园豪杰三结义 斩黄巾英雄首立功", 2),
        ("　　第十二章", 2),
        ("第３節　方法", 3),
        ("제1장 총칙", 2),
        ("PREFACE", 2),
        ("Epilogue", 2),
        ("楔子", 2),
    ],
)
async def test_a_line_that_names_a_chapter_is_a_heading(line: str, level: int) -> None:
    [(found, text)] = await headings(f"Something before.\n\n{line}\n\nSomething after.\n")
    assert (found, text) == (level, " ".join(line.split()))


@pytest.mark.parametrize(
    "line",
    [
        "CHAPTER I. Down the Hole ........ 3",
        "STAVE ONE--MARLEY'S GHOST            3",
        "Part one of the plan failed.",
        "Chapter 3 tells how he came home,",
        "Act I saw none of it",
        "Letter I wrote",
        "chapter one",
        "Section Alpha",
        "Introduction to the matter",
        "第一部分内容是这样的",
        "第二章里说，他来了。",
        "第三条 国家保护",
        "第一回，他没有来；",
        "CHAPTER I " + "x" * 100,
    ],
)
async def test_a_line_that_might_be_a_sentence_or_an_entry_is_none(line: str) -> None:
    assert await headings(f"Something before.\n\n{line}\n\nSomething after.\n") == []


async def test_a_line_within_a_paragraph_or_a_list_is_none() -> None:
    assert (
        await headings("Before\nCHAPTER I.\nafter it\nand on.\n\nCHAPTER I.\nCHAPTER II.\nx") == []
    )


async def test_a_bare_heading_takes_in_its_title() -> None:
    text = (
        "CHAPTER I.\nDown the Rabbit-Hole\n\nAlice\n\nCHAPTER II\n\n\nTHE POOL\n\nText\n\n"
        "PART THREE\n\nCHAPTER I.\nCHAPTER II.\n\nEnd"
    )
    assert await headings(text) == [
        (2, "CHAPTER I. Down the Rabbit-Hole"), (2, "CHAPTER II THE POOL"), (1, "PART THREE"),
    ]  # fmt: skip


async def test_two_headings_in_a_row_stay_two() -> None:
    assert await headings("PART ONE\n\nCHAPTER I\n\nText") == [(1, "PART ONE"), (2, "CHAPTER I")]


async def test_blank_lines_without_end_take_linear_time() -> None:
    text = (" " * 50_000 + "\n") * 4 + "CHAPTER I\n" + "\n" * 200_000 + "x"
    assert await headings(text) == [(2, "CHAPTER I")]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="HELIOGRAPH_SHARED has no data")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "a-christmas-carol.txt",
            [
                "PREFACE", "STAVE ONE", "STAVE TWO", "STAVE THREE",
                "STAVE FOUR THE LAST OF THE SPIRITS", "STAVE FIVE",
            ],
        ),
        (
            "three-kingdoms-chapters-1-5.txt",
            [
                "第一回 宴桃园豪杰三结义 斩黄巾英雄首立功", "第二回 张翼德怒鞭督邮 何国舅谋诛宦竖",
                "第三回 议温明董卓叱丁原 馈金珠李肃说吕布", "第四回 废汉帝陈留践位 谋董贼孟德献刀",
                "第五回 发矫诏诸镇应曹公 破关兵三英战吕布",
            ],
        ),
    ],
)  # fmt: skip
async def test_chapters_of_real_books_are_found(name: str, expected: list[str]) -> None:
    data = (SHARED / "texts" / name).read_bytes()
    result = await parse(data, name, media.TEXT, limits=LIMITS)
    found = [heading.text for heading in result.headings if heading.level == 2]
    assert found == expected
