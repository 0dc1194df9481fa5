"""What two dumps do not have in common."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.errors import Invalid
from app.upkeep.difference import difference


def line(id: str, **fields: Any) -> str:
    return json.dumps({"part": "mentions", "id": id, **fields})


def test_equal_dumps_differ_in_nothing_whatever_their_order() -> None:
    one, other = line("a", name="A"), line("b", name="B")
    assert list(difference([one, other], [other, one])) == []


def test_each_difference_is_named_with_its_fields() -> None:
    ours = [line("a", name="A"), line("b", name="B", kind="x"), line("c")]
    theirs = [line("b", name="B", kind="y"), line("c"), line("d")]
    assert list(difference(ours, theirs)) == [
        "missing mentions a",
        'changed mentions b: kind "x" -> "y"',
        "extra mentions d",
    ]


def test_a_record_that_is_there_twice_is_extra_once() -> None:
    assert list(difference([line("a")], [line("a"), line("a")])) == ["extra mentions a"]
    assert list(difference([line("a"), line("a")], [line("a")])) == ["missing mentions a"]


def test_long_values_are_cut() -> None:
    [shown] = difference([line("a", text="x" * 500)], [line("a", text="y" * 500)])
    assert len(shown) < 300


@pytest.mark.parametrize("text", ["{", "[]", '{"id": "a"}'])
def test_what_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="no dump"):
        list(difference([text], []))
