"""Token counts and offsets: offline, exact at character borders, linear in the input."""

from __future__ import annotations

import os
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.llm.tokens import PIECE, EncodingName, TiktokenTokenizer, _pieces

KNOWN = "お誕生日おめでとう"  # the published example of both encodings


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="module")
def tokenizer() -> TiktokenTokenizer:
    return TiktokenTokenizer()


@pytest.mark.parametrize(("encoding", "count"), [("o200k_base", 8), ("cl100k_base", 9)])
def test_both_encodings_load_without_a_network(encoding: EncodingName, count: int) -> None:
    assert TiktokenTokenizer(encoding).count(KNOWN) == count


def test_loading_leaves_the_callers_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "elsewhere")
    TiktokenTokenizer("cl100k_base")
    assert os.environ["TIKTOKEN_CACHE_DIR"] == "elsewhere"


def test_special_tokens_are_ordinary_text(tokenizer: TiktokenTokenizer) -> None:
    text = "<|endoftext|><|im_start|>"
    assert tokenizer.count(text) > 2
    assert tokenizer.offsets(text)[0] == 0


def test_a_token_that_begins_inside_a_character_has_its_offset(
    tokenizer: TiktokenTokenizer,
) -> None:
    offsets = tokenizer.offsets("a🧌b")
    assert len(offsets) > 3
    assert offsets[0] == 0
    assert offsets[-1] == 2
    assert set(offsets[1:-1]) == {1}


def test_a_cut_never_splits_a_character(tokenizer: TiktokenTokenizer) -> None:
    text = "🧌" * 20
    for limit in range(1, 12):
        prefix = tokenizer.cut(text, limit)
        assert text.startswith(prefix)
        assert tokenizer.count(prefix) <= limit


def test_a_cut_keeps_as_much_as_fits(tokenizer: TiktokenTokenizer) -> None:
    text = "word " * 500
    assert tokenizer.count(tokenizer.cut(text, 100)) == 100
    assert tokenizer.cut(text, 10_000) == text
    assert tokenizer.cut(text, 0) == ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet=st.characters(), max_size=80), limit=st.integers(0, 30))
def test_any_text_is_counted_and_cut(tokenizer: TiktokenTokenizer, text: str, limit: int) -> None:
    offsets = tokenizer.offsets(text)
    assert len(offsets) == tokenizer.count(text)
    assert offsets == sorted(offsets)
    assert all(0 <= offset < len(text) for offset in offsets)
    prefix = tokenizer.cut(text, limit)
    assert text.startswith(prefix)
    assert tokenizer.count(prefix) <= limit


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        " " * 1_500_000 + "x",
        "x" + "\n" * 1_500_000 + "x",
        "ab1!" * 250_000,
        "漢" * 300_000,
    ],
    ids=["letters", "blanks", "line feeds", "code", "han"],
)
def test_a_megabyte_without_a_seam_is_no_trap(tokenizer: TiktokenTokenizer, text: str) -> None:
    offsets = tokenizer.offsets(text)
    assert len(offsets) == tokenizer.count(text)
    assert offsets[-1] < len(text)
    assert tokenizer.count(tokenizer.cut(text, 50)) <= 50


def test_pieces_of_a_long_text_keep_its_tokens(tokenizer: TiktokenTokenizer) -> None:
    text = "The engine, in 1843,\n was described by_ Ada. 詩人 " * 4000
    assert len(text) > 2 * PIECE
    assert "".join(_pieces(text)) == text
    whole = tokenizer._encoding.encode_ordinary(text)
    assert tokenizer.count(text) == len(whole)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@given(head=st.text(alphabet="aB1 \n\t.,)]é中-/_\r\u00a0'", max_size=9), text=st.text(min_size=1))
def test_behind_a_line_end_letters_and_digits_begin_a_new_token(
    encoding: EncodingName, head: str, text: str
) -> None:
    """So the head and the text of a source are counted apart."""
    tokenizer = TiktokenTokenizer(encoding)
    if text[0].isalnum():
        whole = tokenizer.count(f"{head}\n{text}")
        assert tokenizer.count(f"{head}\n") + tokenizer.count(text) == whole
        assert tokenizer.count(f"{head}\n{text}") == whole  # remembered
