"""Markdown as its reader sees it, and what hostile Markdown costs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app import media
from tests.unit.parsing.made import LIMITS, parsed
from workers.parsing import parse

SHARED = Path(os.environ.get("HELIOGRAPH_SHARED", "../shared")) / "data"


async def text_of(markdown: str) -> str:
    return (await parsed(markdown.encode(), media.MARKDOWN)).text


async def test_headings_of_both_kinds_are_found_with_their_words_only() -> None:
    result = await parsed(
        b"Intro\n=====\n\n## Two *parts* ##\n\n```\n# no heading\n```\n\nNext\n---\n\n"
        b"- item\n---\n\n#hashtag\n\n### [Link](http://x.y) ![](a.png)\n",
        media.MARKDOWN,
    )
    assert result.text == (
        "Intro\n\nTwo parts\n\n```\n# no heading\n```\n\nNext\n\n- item\n\n#hashtag\n\nLink"
    )
    assert [(h.level, h.text) for h in result.headings] == [
        (1, "Intro"), (2, "Two parts"), (2, "Next"), (3, "Link"),
    ]  # fmt: skip
    assert all(result.text[h.start : h.end] == h.text for h in result.headings)
    assert result.title == "Intro"


async def test_a_paragraph_right_above_a_rule_is_no_heading() -> None:
    result = await parsed(b"It ends here\nand nowhere else.\n---\nMore\n", media.MARKDOWN)
    assert result.headings == ()
    assert result.text == "It ends here\nand nowhere else.\n\nMore"


async def test_front_matter_gives_the_title_and_no_heading() -> None:
    result = await parsed(b"---\ntitle: 'Bees'\ntags: x\n---\n\n# Other\n", media.MARKDOWN)
    assert result.title == "Bees"
    assert result.text == "title: 'Bees'\ntags: x\n\nOther"
    assert [h.text for h in result.headings] == ["Other"]


async def test_a_rule_at_the_top_opens_no_front_matter() -> None:
    assert await text_of("---\n\n*One*\n\n---\n\nTwo\n") == "One\n\nTwo"


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("a [link](http://x.y \"t\") here", "a link here"),
        ("a [link][1], [1], [bare]\n\n[1]: http://x.y 'T'\n[bare]: <u>", "a link, 1, bare"),
        ("[Speech](u_(v)) and <https://x.y/z>", "Speech and https://x.y/z"),
        ("left [](http://x.y) right", "left right"),
        ("an ![old map](m.png) of it", "an old map of it"),
        ("![](00_header/flag.png)\n\nText", "Text"),
        ("![cover-v5-optimized](c) ![image](i) ![flag.png](f)\n\nText", "Text"),
        ("[![Build](https://img.shields.io/b)](u) [![Map of it](m)](u)", "Map of it"),
        ("**We the *People*** of __it__, ~~so~~ a_b_c", "We the People of it, so a_b_c"),
        ("`code **x**` and ``a ` b``", "code **x** and a ` b"),
        ("AT&amp;T &lt;b&gt; \\*x\\*", "AT&T <b> *x*"),
        ("H<sub>2</sub>O <b>bold</b><br>next <!-- no -->end", "H2O bold\nnext end"),
        ("**「重要」**的事，**注意：**请看", "「重要」的事，注意：请看"),
        ("see [[Page]] and [[Page#Part|the part]]![[x.png]]", "see Page and the part"),
        ("costs $5 or $6, *or* $a_1*b*c \\{x\\}$", "costs $5 or $6, or $a_1*b*c \\{x\\}$"),
        ("> [!NOTE]\n> Mind *this*", "Note:\nMind this"),
        ("one\\\ntwo  \nthree\nfour", "one\ntwo\nthree\nfour"),
    ],
)  # fmt: skip
async def test_marks_vanish_and_words_stay(markdown: str, text: str) -> None:
    assert await text_of(markdown) == text


async def test_lists_keep_their_shape() -> None:
    assert await text_of(
        "Before:\n* one\n    * nested\n    * [x] task\n* two\n  goes on\n\nthen\n\n"
        "3) three\n\n   more\n\n       code\n4) four\n5)\n"
    ) == (
        "Before:\n\n- one\n  - nested\n  - [x] task\n- two\n  goes on\n\nthen\n\n"
        "3) three\n\n   more\n       code\n\n4) four"
    )  # fmt: skip


async def test_a_list_that_begins_with_a_list_keeps_both_markers() -> None:
    assert await text_of("- 1. a\n  2. b\n-\n- # c\n") == "- 1. a\n  2. b\n\n- c"


async def test_code_stays_as_it_is() -> None:
    code = "```python\ndef f():\n\n    return '*x*'  # [a](b)\n```"
    assert await text_of(f"Text\n{code}\n") == f"Text\n\n{code}"
    assert await text_of("Text\n\n    $ make **run**\n\n      deeper\n") == (
        "Text\n\n    $ make **run**\n\n      deeper"
    )


async def test_rows_of_tables_are_lines() -> None:
    assert await text_of("| Name | [Town](u) |\n|:--|--:|\n| *Ann* | a\\|b\n| Bo | Ulm |\n") == (
        "Name | Town\nAnn | a|b\nBo | Ulm"
    )


async def test_html_blocks_give_their_text_headings_rows_and_items() -> None:
    result = await parsed(
        b'<h1 align="center">Project <em>X</em></h1>\n<p align=center>\n  <a href="u">\n'
        b'  <img alt="Badge" src="https://img.shields.io/x"></a> <img src=a.png alt="Its plan">\n'
        b"  Tag<br>line</p>\n\n<table><tr><th>A</th><th>B</th></tr>\n"
        b"<tr><td>c</td><td><b>d</b></td></tr></table>\n\n"
        b"<details><summary>More</summary>\n\n*inside*\n\n</details>\n\n<script>x()</script>\n\n"
        b"<ul><li>one</li><li><p>two</p></li></ul>\n\n<pre>\n  keep\n    this\n</pre>\n",
        media.MARKDOWN,
    )
    assert result.text == (
        "Project X\n\nIts plan Tag\nline\n\nA | B\nc | d\n\nMore\n\ninside\n\n- one\n- two\n\n"
        "  keep\n    this"
    )
    assert [(h.level, h.text) for h in result.headings] == [(1, "Project X")]
    assert result.title == "Project X"


@pytest.mark.parametrize("unit", ["- ", "> ", ">" * 60 + "a\n", "[", "![", "[a](", "<div>", "*a_ "])
async def test_nesting_without_end_is_read_to_its_end(unit: str) -> None:
    """In a child, as all that is large: it would be stopped, were it not linear."""
    hostile = "Start\n\n" + unit * (100_000 // len(unit)) + "\n\nEnd\n"
    assert (await text_of(hostile)).endswith("End")


async def test_what_is_nested_too_deep_is_told() -> None:
    lists = "".join("  " * depth + f"- item {depth}\n" for depth in range(30))
    result = await parsed(lists.encode(), media.MARKDOWN)
    assert "item 18" in result.text
    assert "nested too deep" in result.warnings[0]
    assert (await parsed(lists[:200].encode(), media.MARKDOWN)).warnings == ()


async def test_large_and_small_files_are_read_alike() -> None:
    """The small ones in this process, the large ones in a child."""
    small = "# Title\n\nSome *words* with [a link](http://x.y).\n\n"
    text = await text_of(small)
    assert await text_of(small * 2000) == "\n\n".join([text] * 2000)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="HELIOGRAPH_SHARED has no data")
async def test_a_real_document_loses_its_addresses_and_keeps_its_words() -> None:
    data = (SHARED / "texts" / "us-constitution.md").read_bytes()
    result = await parse(data, "us-constitution.md", media.MARKDOWN, limits=LIMITS)
    assert result.title == "United States Constitution"
    for noise in ("](", "http", "**", "#", ".png", "|:"):
        assert noise not in result.text
    assert "\n\nAmendments\n\n1. I First Amendment\n\nCongress shall make no law" in result.text
    assert "\nMaryland | James McHenry |  | Roger Sherman\n" in result.text
    assert (3, "15. XV Fifteenth Amendment") in [(h.level, h.text) for h in result.headings]
