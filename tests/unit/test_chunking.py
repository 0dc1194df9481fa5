from __future__ import annotations

import os
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from app import media
from app.llm.tokens import TiktokenTokenizer
from workers.chunking import Window, chunks
from workers.graphemes import is_boundary
from workers.parsing import Heading, Limits, Parsed, parse

SHARED = Path(os.environ.get("HELIOGRAPH_SHARED", "../shared")) / "data"


@cache
def tokenizer() -> TiktokenTokenizer:
    return TiktokenTokenizer()


def cut(
    text: str, *, size: int = 20, overlap: int = 0, headings: tuple[Heading, ...] = ()
) -> list[str]:
    windows = chunks(Parsed(text, headings=headings), tokenizer(), size=size, overlap=overlap)
    return [text[window.start : window.end] for window in windows]


def check(parsed: Parsed, windows: list[Window], size: int, overlap: int) -> None:
    """All that a list of windows promises."""
    text = parsed.text
    covered = 0
    for before, window in zip([None, *windows], windows, strict=False):
        chunk = text[window.start : window.end]
        assert chunk
        assert chunk == chunk.strip()
        assert window.tokens == tokenizer().count(chunk) <= size
        assert not text[covered : window.start].strip(), "text is left out"
        assert window.end > covered, "a window adds nothing"
        if before is not None:
            assert window.start > before.start
            assert tokenizer().count(text[window.start : before.end]) <= overlap
        covered = window.end
    assert not text[covered:].strip(), "the end is left out"


# --- where it cuts -------------------------------------------------------------------------------


def test_a_text_that_fits_is_one_window_without_the_blanks_around_it() -> None:
    assert cut("  \n One. Two.\n\nThree.\n ") == ["One. Two.\n\nThree."]
    assert cut(" \n\t ") == []
    assert cut("") == []


def test_a_cut_falls_between_paragraphs_before_it_falls_between_sentences() -> None:
    first = "Bees live in hives. They make honey. Some sting."
    second = "Ants live in hills. They carry leaves. Some fly away."
    assert cut(f"{first}\n\n{second}") == [first, second]


def test_a_paragraph_that_is_too_long_is_cut_between_sentences() -> None:
    sentences = [f"Sentence number {n} is about bees." for n in range(6)]
    assert all(chunk.endswith(".") for chunk in cut(" ".join(sentences)))


@pytest.mark.parametrize("ending", ["。", "！", "？", "；", "。」"])
def test_chinese_and_japanese_sentences_end_windows(ending: str) -> None:
    text = f"刘备与关羽张飞在桃园结义{ending}" * 8
    assert all(chunk.endswith(ending) for chunk in cut(text))


def test_a_sentence_that_is_too_long_is_cut_between_words() -> None:
    words = [f"word{n}" for n in range(60)]
    assert " ".join(cut(" ".join(words))).split() == words


def test_a_heading_begins_a_window_and_is_not_repeated_into() -> None:
    body = "Bees live in hives and they make honey."
    text = f"{body}\n\nAnts\n\nAnts live in hills and they carry leaves."
    start = text.index("Ants")
    parsed = Parsed(text, headings=(Heading(start, start + 4, 1, "Ants"),))
    windows = chunks(parsed, tokenizer(), size=20, overlap=8)
    assert [text[w.start : w.end] for w in windows][:1] == [body]
    assert windows[1].start == start
    assert [w.headings for w in windows] == [(), ("Ants",)]


def test_headings_in_a_row_stay_together() -> None:
    text = (
        "Bees live in hives and make honey for us.\n\nPart\n\nChapter\n\nAnts carry leaves all day."
    )
    part, chapter = text.index("Part"), text.index("Chapter")
    headings = (Heading(part, part + 4, 1, "Part"), Heading(chapter, chapter + 7, 2, "Chapter"))
    assert cut(text, size=18, headings=headings)[1].startswith("Part\n\nChapter")


def test_the_path_holds_the_headings_in_force_and_no_closed_ones() -> None:
    text, headings = "", []
    for words, level in (("A", 1), ("A one", 2), ("A one deep", 3), ("A two", 2), ("B", 1)):
        headings.append(Heading(len(text), len(text) + len(words), level, words))
        text += f"{words}\n\nSome words about {words} that fill the window up.\n\n"
    windows = chunks(Parsed(text, headings=tuple(headings)), tokenizer(), size=16, overlap=0)
    assert [window.headings for window in windows] == [
        ("A",), ("A", "A one"), ("A", "A one", "A one deep"), ("A", "A two"), ("B",),
    ]  # fmt: skip


def test_pages_are_those_of_the_first_and_last_character() -> None:
    pages = ["One page of words here. " * 3, "Another page of words. " * 3, "The last page. " * 3]
    text = "\n\n".join(page.strip() for page in pages)
    starts = tuple((text.index(page.strip()), n) for n, page in enumerate(pages, 1))
    windows = chunks(Parsed(text, pages=starts), tokenizer(), size=24, overlap=0)
    for window in windows:
        inside = [n for start, n in starts if start <= window.start]
        assert window.page == inside[-1]
        assert window.page_end == [n for start, n in starts if start < window.end][-1]
    assert (windows[0].page, windows[-1].page_end) == (1, 3)
    assert chunks(Parsed("x"), tokenizer(), size=9, overlap=0)[0].page is None


def test_code_blocks_and_table_rows_that_fit_are_not_cut() -> None:
    code = "```\nfor bee in hive:\n    bee.fly()\n\n    bee.sting()\n```"
    text = (
        f"Some words stand before the code block, so that it does not fit.\n\n{code}\n\nAfter it."
    )
    assert any(code in chunk for chunk in cut(text, size=26))
    rows = [f"| cell {n} | some words. And more | {n} |" for n in range(12)]
    for chunk in cut("\n".join(rows), size=30):
        assert all(line in rows for line in chunk.split("\n"))


# --- what is repeated ----------------------------------------------------------------------------


def test_the_overlap_starts_at_a_sentence() -> None:
    text = " ".join(f"Sentence {n} is about bees." for n in range(20))
    windows = chunks(Parsed(text), tokenizer(), size=40, overlap=16)
    assert all(text[window.start :].startswith("Sentence ") for window in windows)
    assert all(b.start < a.end for a, b in pairwise(windows))


def test_without_a_sentence_the_overlap_starts_at_a_word() -> None:
    text = " ".join(f"word{n}" for n in range(100))
    windows = chunks(Parsed(text), tokenizer(), size=30, overlap=10)
    assert all(b.start < a.end for a, b in pairwise(windows))
    assert all(re.match(r"word\d+\b", text[window.start :]) for window in windows)


@pytest.mark.parametrize(("size", "overlap"), [(10, 5), (10, -1), (0, 0)])
def test_sizes_that_cannot_be_met_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="overlap"):
        chunks(Parsed("text"), tokenizer(), size=size, overlap=overlap)


# --- what always holds ---------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "bee", "Ants.", " ", "\n", "\n\n", "  \n \n", "。", "刘备", "e\u0301", "👨‍👩‍👧‍👦", "🇩🇪",
        "\u1100\u1161\u11a8", "क्षि", "```\n", "| a | b |\n", "x" * 50, " " * 90, "\u3000",
        "<|endoftext|>", "\u200b", "مرحبا", "0.5", "\t",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(PIECES, max_size=120),
    st.integers(24, 60),
    st.integers(0, 11),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_windows_keep_their_promises_on_any_text(
    pieces: list[str], size: int, overlap: int, places: list[int]
) -> None:
    text = "".join(pieces)
    starts = sorted({place for place in places if place < len(text) and not text[place].isspace()})
    headings = tuple(Heading(start, start + 1, 1 + start % 3, text[start]) for start in starts)
    parsed = Parsed(text, headings=headings)
    windows = chunks(parsed, tokenizer(), size=size, overlap=overlap)
    check(parsed, windows, size, overlap)
    whole = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)} | set(starts)
    for window in windows:
        assert {window.start, window.end} <= whole, "inside a character"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.characters()), max_size=12).map("".join))
def test_boundaries_are_those_of_the_unicode_standard(text: str) -> None:
    """One way: no cut is allowed that `regex`, another implementation, forbids. (It does not know
    the newest rule, that conjuncts of Indian scripts stay whole, nor characters newer than it.)"""
    allowed = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}
    assert {at for at in range(len(text) + 1) if is_boundary(text, at)} <= allowed


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301\u0323", "👨‍👩‍👧‍👦", "👍🏽", "❤️‍🔥", "🇫🇷", "\uac00\u11a8", "\u1100\u1161\u11a8",
        "\u0e01\u0e33", "क्षि", "\r\n", "🏴\U000e0067\U000e0062\U000e007f",
    ],
)  # fmt: skip
def test_no_cut_within_what_a_reader_sees_as_one_character(cluster: str) -> None:
    text = f"a{cluster}{cluster}b"
    inside = set(range(2, len(text) - 1)) - {1 + len(cluster)}
    assert not any(is_boundary(text, at) for at in inside)
    assert is_boundary(text, 1)
    assert is_boundary(text, 1 + len(cluster))


@pytest.mark.parametrize(
    "run",
    ["x" * 30_000, "漢" * 8_000, " " * 200_000 + "end", "e" + "\u0301" * 5_000, "🇩🇪" * 3_000],
    ids=["letters", "Chinese", "blanks", "accents", "flags"],
)
def test_long_runs_without_a_seam_are_cut_within_the_limit(run: str) -> None:
    check(Parsed(run), chunks(Parsed(run), tokenizer(), size=100, overlap=10), 100, 10)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="HELIOGRAPH_SHARED has no data")
@pytest.mark.parametrize(("size", "overlap"), [(1200, 100), (60, 12)])
async def test_every_chunk_of_every_real_document_is_its_slice(size: int, overlap: int) -> None:
    refused = {"password.pdf", "password.xlsx", "scan-no-text.pdf"}
    read = 0
    for path in sorted([*(SHARED / "documents").iterdir(), *(SHARED / "texts").iterdir()]):
        if path.name in refused:
            continue
        data = path.read_bytes()
        kind = media.media_type_of(path.name, "", data)
        parsed = await parse(data, path.name, kind, limits=Limits())
        check(parsed, chunks(parsed, tokenizer(), size=size, overlap=overlap), size, overlap)
        read += 1
    assert read >= 25
