"""Names that may be one meet in a block, and a name has few of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.resolution.blocks import blocks
from tests.unit.resolution.make import name
from tests.unit.resolution.test_relations import ASKED, FORMS, MERGED


@pytest.mark.parametrize(("relation", "one", "other"), MERGED + ASKED)
def test_names_of_a_named_relation_share_a_block(relation: str, one: str, other: str) -> None:
    assert set(blocks(name(one)).all) & set(blocks(name(other)).all), relation


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lyons", "Lyon"),
        ("Strassbourg", "Strasbourg"),
        ("World Health Organization", "WHO"),
        ("Department of Justice", "DOJ"),
        ("刘玄德", "玄德"),
        ("J. Smith", "John Smith"),
    ],
)
def test_names_that_look_different_meet_too(one: str, other: str) -> None:
    assert set(blocks(name(one)).all) & set(blocks(name(other)).all)


def test_a_stated_alias_is_a_strong_block_so_that_defined_pairs_meet() -> None:
    stated = blocks(name("Toronto", "", "Hogtown"))
    assert set(stated.strong) & set(blocks(name("Hogtown")).strong)


def test_blocks_say_what_they_are() -> None:
    found = blocks(name("World Health Organization"))
    assert "n:world health organization" in found.strong
    assert {"a:who", "t:health"} <= set(found.weak)


@given(st.lists(FORMS, max_size=20), FORMS)
def test_a_name_has_few_blocks_whatever_it_is(aliases: list[str], form: str) -> None:
    found = blocks(name(form, "", *aliases))
    assert found == blocks(name(form, "", *reversed(aliases)))
    assert len(found.all) == len(set(found.all)) <= 60
    assert all(block[1] == ":" for block in found.all)
