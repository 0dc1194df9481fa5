"""Real files of the kinds people upload; what must be in their text was read off by eye."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app import media
from app.errors import Unparsable
from tests.unit.parsing.made import LIMITS
from workers.parsing import Parsed, parse

SHARED = Path(os.environ.get("HELIOGRAPH_SHARED", "../shared")) / "data"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="HELIOGRAPH_SHARED has no data"),
]

# In this order, each a stretch of the text that must be in one piece.
IN_ORDER = {
    "bilingual.md": ["All human beings are born free", '"Todos los seres humanos nacen libres'],
    "blog.html": [
        "A Case Study for MATH",
        "April 21, 2023",
        "TL;DR:",
        "- Just by tuning the inference parameters like model",
        "Experiment Setup",
        "Experiment Results",
        "For Further Reading",
    ],
    "comments.docx": [
        "Qingyun Wu , Gagan Bansal",
        "Abstract",
        "[Comment by Unknown Author: This is a test comment. 12df-321a]",
        "Introduction",
        "1 | 2 | 3 | 4 | 5 | 6\n7 | 8 | 9 | 10 | 11 | 12",
        "24 | 25 | 26 | 27 | 28 | 29",
        "[Comment by Unknown Author: Yet another comment in the doc. 55yiyi-asd09]",
    ],
    "datasheet-utf-16.html": [
        "SteelJIS: Japanese Steels and Alloys",
        "日本語",
        "C | Si | Mn | P | S | Cr | Mo\n0.39 - 0.46 | 0.2 - 0.35 | 0.65 - 1.1",
    ],
    "encrypted-empty-password.pdf": ["pdf encryption test"],
    "gb18030.html": ["中国制造的领军者3名；\n\n马兴瑞，中国航天科技集团公司总经理", "《梅兰芳》"],
    "handbook.docx": [
        "US Trustee Handbook", "CHAPTER 1\n\nINTRODUCTION", "A.\tPURPOSE", "11 U.S.C. § 321",
    ],
    "japanese-vertical-cmap.pdf": [
        "（あらゆる透明な幽霊の複合体）",
        "（ひかりはたもち、その電燈は失はれ）",
        "宇宙塵をたべ、または空気や塩水を呼吸しながら",
        "みんなのおのおののなかのすべてですから）",
        "記録や歴史、あるひは地史といふものも",
        "青ぞらいっぱいの無色な孔雀が居たとおもひ",
    ],
    "korean-text-with-tables.pdf": [
        "할인점·주유·온라인쇼핑몰 1.5% 빅포인트 적립",
        "할인점 | 이마트, 이마트 트레이더스, 롯데마트, 홈플러스\n주유 | 모든 주유소\n",
        "온라인쇼핑몰 | 삼성카드 쇼핑, G마켓, 옥션, 11번가, 인터파크, 쿠팡, 티몬, 위메프",
        "매월 1일부터 말일까지",
        "커피전문점·제과점·편의점 2% 빅포인트 적립",
        "편의점 | CU, GS25, 세븐일레븐, 미니스톱",
        "에서 확인",
    ],
    "malformed-from-issue-932.pdf": ["2021 3 31"],
    "multicolumn.pdf": [
        "Two-Column Document with Lorem Ipsum",
        "consectetuer adipiscing elit. Ut purus elit",
        "felis. Donec nonummy pellentesque ante. Phasellus adipiscing semper elit.",
        "Quisque ullamcorper placerat ipsum.",
    ],
    "nested-tables.docx": [
        "Header Col 1 | Header Col 2\nLorem ipsum | A link example",
        "a | >b< | c\nd | [e, f; g&t, h] | i",
    ],
    "nics-background-checks-2015-11.pdf": [
        "NICS Firearm Background Checks",
        "November - 2015",
        "Alabama | 18,870 | 23,022 | 22,650 | 859 | 1,178 | 0 | 14 | 15 | 0 | 2,179 | 2,307 | 11 |",
        "Wyoming | 383 | 1,745 | 2,372 | 87 | 104 | 1 |",
        "2,236,457",
        "*Refers to frames, receivers and other firearms",
    ],
    "right_to_left_01.pdf": [
        "تحسين الإنتاجية وحل المشكلات من خلال البرمجة بلغة R وPython",
        "تعتبر البرمجة بلغة R",
        "أن يؤدي أيضًا إلى اتخاذ قرارات أكثر دقة بناءً على",
        "الأداء الشخصي والمهني.",
    ],
    "scan-with-ocr-layer.pdf": [
        "it became too conspicuous and dangerous for use.",
        "The Yankee Lookout.",
        "we must improve our quarters.",
    ],
    "scotus-transcript-p1.pdf": [
        "IN THE SUPREME COURT OF THE UNITED STATES",
        "MICHAEL A. KNOWLES,",
        "ALEXANDRE MIRZAYANCE.",
        "came on for oral argument before the Supreme Court of the United States at 1:01 p.m.",
        "STEVEN E. MERCER, ESQ., Deputy Attorney General, Los Angeles, Cal.",
    ],
    "segments.xlsx": [
        "3.1 Operating segments",
        "In millions of CHF | January–June 2023",
        "Zone NA | Sales (a): 12553 | Underlying Trading operating profit (b): 2713",
    ],
    "senate-expenditures.pdf": [
        "DOCUMENT NO. | DATE POSTED | PAYEE NAME |",
        "BAIN, J MATTHEW |",
        "37,499.96",
        "DHAW20190001 | 05/03/2019 | CITIBANK - TRAVEL CBA CARD | 03/04/2019 | 03/06/2019 | "
        "STAFF TRANSPORTATION AIRFARE FOR E JOHNSON KANSAS CITY TO WASHINGTON DC AND RETURN",
        "DHAW20190070 | 09/09/2019",
    ],
    "small.epub": ["Chapter 1: Test Content", "- A bullet point", "Chapter 2: More Content"],
    "table.pptx": ["A Slide with a Table", "Column 1 | Column 2 | Column 3\nRed | Green | Blue"],
    "utf-16.txt": ["This is a test document to use for unit tests.\n\n    Doylestown, PA 18901"],
    "windows-1252.html": ["My First Heading", "Die schöne Frau", "15,50 €", "L'été était très"],
}  # fmt: skip

ABSENT = {
    "blog.html": ["adsbygoogle", "data-theme", "Edit this page"],
    "scotus-transcript-p1.pdf": ["12", "25"],
    "multicolumn.pdf": ["\ufffe", "\x02"],
    "right_to_left_01.pdf": ["اإل"],
    "scan-with-ocr-layer.pdf": ["SIEGE OF VICKSBURG. 49"],
    "nics-background-checks-2015-11.pdf": ["Page 1 of 205"],
    "small.epub": ["Chapter 1\n\nChapter 2"],
}

REFUSED = {
    "password.pdf": "encrypted",
    "password.xlsx": "encrypted",
    "scan-no-text.pdf": "no_text",
}


async def read(name: str) -> Parsed:
    data = (SHARED / "documents" / name).read_bytes()
    return await parse(data, name, media.media_type_of(name, "", data), limits=LIMITS)


@pytest.mark.parametrize("name", IN_ORDER)
async def test_the_text_comes_out_in_the_order_people_read_it(name: str) -> None:
    text = (await read(name)).text
    place = 0
    for stretch in IN_ORDER[name]:
        found = text.find(stretch, place)
        assert found >= 0, stretch
        place = found + len(stretch)
    for noise in ABSENT.get(name, ()):
        assert noise not in text


@pytest.mark.parametrize("name", REFUSED)
async def test_what_cannot_be_read_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(Unparsable) as caught:
        await read(name)
    assert caught.value.code == REFUSED[name]
    assert caught.value.detail.endswith(".")


def test_every_document_is_covered() -> None:
    names = {path.name for path in (SHARED / "documents").iterdir()} - {"index.json"}
    assert names == {*IN_ORDER, *REFUSED}


async def test_pages_titles_and_headings_of_real_files_are_found() -> None:
    columns = await read("multicolumn.pdf")
    assert [number for _, number in columns.pages] == [1, 2, 3]
    assert columns.title == "Two-Column Document with Lorem Ipsum"
    assert "Abstract" in [heading.text for heading in columns.headings]
    scan = await read("scan-with-ocr-layer.pdf")
    assert [number for _, number in scan.pages] == [1, 2, 3, 4, 5, 6]
    article = await read("comments.docx")
    assert [(h.level, h.text) for h in article.headings][1:3] == [
        (1, "Abstract"),
        (1, "Introduction"),
    ]
    book = await read("small.epub")
    assert book.title == "Test EPUB Document"
    malformed = await read("malformed-from-issue-932.pdf")
    assert any("OCR" in warning for warning in malformed.warnings)


@pytest.mark.parametrize("name", IN_ORDER)
async def test_offsets_of_pages_and_headings_point_at_their_text(name: str) -> None:
    parsed = await read(name)
    assert "\r" not in parsed.text
    assert "\0" not in parsed.text
    assert list(parsed.pages) == sorted(parsed.pages)
    for heading in parsed.headings:
        assert heading.text.split() == parsed.text[heading.start : heading.end].strip("#* ").split()
    for offset, _ in parsed.pages:
        assert not parsed.text[offset].isspace()
