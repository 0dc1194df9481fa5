"""Reasoning at the start of a streamed reply is held back, however it is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.thoughts import ThoughtFilter, without_thoughts


def _filtered(pieces: list[str]) -> str:
    thoughts = ThoughtFilter()
    return "".join(map(thoughts.feed, pieces)) + thoughts.finish()


def _cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(ends)]


@given(places=st.lists(st.integers(0, 80)))
@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>a</think>They print <think>x</think>.", "They print <think>x</think>."),
        ("  <Thinking>a\nb</thinking>\n\n<think>c</think>Yes.", "Yes."),
        ("<thin air> and <think>x</think>.", "<thin air> and <think>x</think>."),
        ("Yes.", "Yes."),
        ("<think>never ends", ""),
        ("<", "<"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_filter_does_not_depend_on_where_the_stream_is_cut(
    places: list[int], said: str, text: str
) -> None:
    assert _filtered(_cut(said, places)) == text
    assert without_thoughts(said) == text
