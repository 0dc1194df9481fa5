"""One name for several things: told apart by definitions, not by stray types."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.names import key
from app.resolution.senses import scope_of, senses


@pytest.mark.parametrize(
    ("name", "kind", "description", "scope"),
    [
        (
            "Paris",
            "",
            "Oscar Jackson Jr. (born October 29, 1967), better known by his stage name Paris, is "
            "an American rapper and record producer from San Francisco.",
            "person born 1967",
        ),
        ("David Pigot", "", "David Richard Pigot (14 January 1900 – 10 August 1965) was an Irish "
         "cricketer.", "person born 1900"),
        ("John Ellis", "", "John Ellis( 1643–1738) was an English official and politician.",
         "person born 1643"),
        ("Paris", "place", "Paris is the capital of France.", "place"),
        ("The Dream", "", "The Dream is a 1985 Dutch drama film directed by Pieter Verhoeff.",
         "film 1985"),
        ("Night of Joy", "work", "A Night of Joy is a 1928 silent drama film.", "film 1928"),
        ("Dorian Gray", "", "Dorian Gray( 1915) is an American silent film.", "film 1915"),
        ("The Monster", "", "The Monster is an 1898 novella by Stephen Crane.", "book 1898"),
        ("Blink", "", "Blink is a 2016 Italian musical film.", "film 2016"),
        ("Louie Psihoyos", "", "Louie Psihoyos is a photographer and documentary film director.",
         "person"),
        ("Ford", "organization", "Ford makes cars.", "typed organization"),
        ("Ford", "", "Ford makes cars.", ""),
        ("Jean", "", "Jean-Joseph Gaume( 5 May 1802 – 1879) was a French theologian.", ""),
        ("Rebecca", "", 'Rebecca" won the Award, although Hitchcock was named Best Director.', ""),
        ("UK", "place", "Amy (known as Amy Foster in the UK) is a 1997 film.", "typed place"),
        ("Paris", "", "", ""),
    ],
)  # fmt: skip
def test_a_mention_says_what_it_defines(name: str, kind: str, description: str, scope: str) -> None:
    assert scope_of(name, kind, description) == scope


def test_two_births_are_two_people_and_the_more_counted_keeps_the_name() -> None:
    scopes = {"person born 1900": 1, "person born 1929": 3, "person": 2}
    assert senses("david pigot", "David Pigot", scopes) == {
        "person born 1900": "David Pigot (born 1900)"
    }


def test_sources_that_differ_by_a_year_mean_one_thing() -> None:
    assert senses("a", "A", {"person born 1900": 1, "person born 1901": 3}) == {}
    assert senses("a", "A", {"film 1928": 1, "film 1929": 3}) == {}


def test_remakes_and_other_kinds_of_work_are_apart() -> None:
    found = senses("lodger", "The Lodger", {"film 1927": 2, "film 1944": 1, "song 2001": 1})
    assert found == {
        "film 1944": "The Lodger (1944 film)", "song 2001": "The Lodger (2001 song)",
    }  # fmt: skip


def test_a_work_without_a_year_stays_with_the_name() -> None:
    assert senses("lodger", "The Lodger", {"film 1927": 2, "song": 1}) == {}


def test_a_place_and_a_person_are_apart_if_both_are_heard_of() -> None:
    found = senses("paris", "Paris", {"place": 5, "person": 1})
    assert found == {"person": "Paris (person)"}
    assert senses("paris", "Paris", {"place": 50, "person": 1}) == {}
    dated = senses("paris", "Paris", {"place": 50, "person born 1967": 1})
    assert dated == {"person born 1967": "Paris (born 1967)"}


def test_stray_types_split_nothing() -> None:
    assert senses("paris", "Paris", {"typed place": 50, "typed person": 9}) == {}
    assert senses("paris", "Paris", {"place": 3, "typed person": 30}) == {}


def test_a_city_in_passing_is_not_the_singer_of_its_name() -> None:
    found = senses("paris", "Paris", {"typed place": 8, "person born 1967": 1, "typed person": 1})
    assert found == {
        "person born 1967": "Paris (born 1967)", "typed person": "Paris (born 1967)",
    }  # fmt: skip


def test_a_place_and_an_organisation_may_be_one() -> None:
    assert senses("harvard", "Harvard", {"place": 4, "organization": 3}) == {}


def test_a_name_with_a_qualifier_is_apart_already() -> None:
    form = "Dark River (1990 film)"
    assert senses(key(form), form, {"film 1990": 1, "film 2017": 1}) == {}


SCOPES = st.dictionaries(
    st.sampled_from(
        ["person", "place", "organization", "film", "song 1999", "typed person", "typed place"]
        + [f"person born {year}" for year in (1900, 1901, 1903, 1950)]
        + [f"film {year}" for year in (1913, 1914, 1915, 2000)]
    ),
    st.integers(1, 40),
)


@given(SCOPES, st.randoms(use_true_random=False))
def test_senses_are_a_function_of_the_tally_alone(
    scopes: dict[str, int], order: random.Random
) -> None:
    found = senses("x", "X", scopes)
    items = list(scopes.items())
    order.shuffle(items)
    assert senses("x", "X", dict(items)) == found
    assert found.keys() <= scopes.keys()
    assert all(key(form) != "x" for form in found.values())
    decisive = {scope for scope in scopes if not scope.startswith("typed")}
    assert (
        not decisive
        or not decisive <= found.keys()
        or any(scope.startswith("typed") for scope in scopes)
    )  # the base keeps something
