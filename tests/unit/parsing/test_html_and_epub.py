from __future__ import annotations

import pytest

from app import media
from app.errors import Unparsable
from tests.unit.parsing.made import epub, parsed


async def html(text: str) -> str:
    return (await parsed(text.encode(), media.HTML)).text


async def test_the_page_around_the_text_is_left_out() -> None:
    page = (
        "<html><head><title>T</title><style>x{}</style></head><body><nav>Menu</nav>"
        "<header><h1>Head</h1></header><script>alert(1)</script><p>Body <b>bold</b> "
        "<a href=x>link</a></p><div style='display: none'>Hidden</div><aside>Ad</aside>"
        "<footer>Foot</footer></body></html>"
    )
    result = await parsed(page.encode(), media.HTML)
    assert result.text == "Head\n\nBody bold link"
    assert result.title == "T"
    assert [(h.level, h.text) for h in result.headings] == [(1, "Head")]


async def test_lists_tables_and_preformatted_text_keep_their_form() -> None:
    page = (
        "<ul><li>one<li>two <ul><li>inner</ul></ul><p>a<br>b</p>"
        "<table><tr><th>x<th>y<tr><td>1<td>2\n2</table><pre>  def f():\n    pass</pre>"
    )
    assert await html(page) == (
        "- one\n- two\n- inner\n\na\nb\n\nx | y\n1 | 2 2\n\n  def f():\n    pass"
    )


async def test_a_table_that_only_arranges_the_page_is_no_table() -> None:
    page = "<table><tr><td><h2>H</h2><p>text</p><td><ul><li>i</ul></table>"
    assert await html(page) == "H\n\ntext\n\n- i"


async def test_only_the_main_part_is_read_where_the_page_marks_one() -> None:
    main = "<main><h1>Title</h1><p>" + "word " * 60 + "</p></main>"
    assert "around" not in await html(f"<body><div>around</div>{main}</body>")


async def test_line_breaks_between_chinese_characters_are_no_blanks() -> None:
    assert await html("<p>桃园\n  结义 and\nmore</p>") == "桃园结义 and more"


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("gb2312", "gb2312"),
        ("iso-8859-1", "ISO-8859-1"),
        ("shift_jis", "Shift_JIS"),
        ("utf-16", "utf-8"),
    ],
)
async def test_the_encoding_that_a_page_states_is_believed_if_it_works(
    encoding: str, told: str
) -> None:
    words = {"gb2312": "汉", "iso-8859-1": "é", "shift_jis": "漢", "utf-16": "é"}[encoding]
    page = f"<meta charset={told}><p>x {words}</p>"
    assert await html_of(page.encode(encoding)) == f"x {words}"


async def html_of(data: bytes) -> str:
    return (await parsed(data, media.HTML)).text


async def test_broken_markup_is_survived() -> None:
    assert "core" in await html("<div>" * 200 + "core" + "</p>" * 50)


@pytest.mark.parametrize("depth", [250, 260, 1000, 2000])
async def test_nothing_is_lost_in_deep_pages(depth: int) -> None:
    page = "<p>before</p>" + "<div>" * depth + "core" + "</div>" * depth + "<p>after</p>"
    assert (await html(page)).split() == ["before", "core", "after"]


@pytest.mark.parametrize("depth", [3000, 300_000])
async def test_what_is_deeper_than_can_be_read_is_refused_rather_than_cut(depth: int) -> None:
    with pytest.raises(Unparsable) as caught:
        await html("<p>before</p>" + "<div>" * depth + "core" + "<p>after</p>")
    assert caught.value.code == "too_complex"


async def test_entities_do_not_explode_and_nothing_is_fetched() -> None:
    bomb = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'>" + "".join(
        f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)
    )
    chapter = bomb + "]><html><body><p>safe &j; <img src='http://x.invalid/a'/></p></body></html>"
    assert "safe" in await html(chapter)
    book = epub({"a.xhtml": chapter}, order=["a.xhtml"])
    assert "safe" in (await parsed(book, media.EPUB)).text


async def test_chapters_come_in_the_order_of_the_spine() -> None:
    chapters = {
        "b.xhtml": "<html><body><h1>Second</h1><p>two</p></body></html>",
        "a.xhtml": "<html><body><h1>First</h1><p>one</p></body></html>",
    }
    result = await parsed(epub(chapters, order=["a.xhtml", "b.xhtml"]), media.EPUB)
    assert result.text == "First\n\none\n\nSecond\n\ntwo"
    assert result.title == "The Book"


async def test_a_missing_chapter_is_a_warning_and_rights_management_a_refusal() -> None:
    chapters = {"a.xhtml": "<p>one</p>"}
    book = await parsed(epub(chapters, order=["a.xhtml", "gone.xhtml"]), media.EPUB)
    assert book.text == "one"
    assert "gone.xhtml" in book.warnings[0]
    locked = epub(
        chapters,
        order=["a.xhtml"],
        extra={
            "META-INF/encryption.xml": "<e><EncryptionMethod Algorithm="
            "'http://www.w3.org/2001/04/xmlenc#aes128-cbc'/></e>"
        },
    )
    with pytest.raises(Unparsable) as caught:
        await parsed(locked, media.EPUB)
    assert caught.value.code == "encrypted"
