"""Clusters: no chaining, no inner veto, rivals, rulings, and the same from any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from app.resolution.decide import cluster, decision, decisions, rivals
from app.resolution.model import MAX_MEMBERS, Name, Pair, Ties
from app.resolution.score import compare
from tests.unit.resolution.make import TOGETHER, name, named, pair, pairs

Keys = tuple[str, str]


def clusters(
    *names: Name, ties: Ties = TOGETHER, rulings: dict[Keys, bool] | None = None
) -> set[frozenset[str]]:
    found = cluster(named(names), pairs(names, ties), rulings or {})
    forms = {one.key: one.form for one in names}
    assert sorted(key for group in found for key in group) == sorted(forms)
    return {frozenset(forms[key] for key in group) for group in found}


def edge(one: Name, other: Name) -> Pair:
    first, second = sorted((one.key, other.key))
    return Pair(first, second, "near", 92, 92)


def groups(*forms: Sequence[str]) -> set[frozenset[str]]:
    return set(map(frozenset, forms))


def test_spellings_of_one_thing_are_a_cluster() -> None:
    forms = ["Clinical Trial", "Clinical Trials", "Breast Cancer"]
    assert clusters(*map(name, forms)) == groups(forms[:2], forms[2:])


def test_an_acronym_joins_its_only_long_form() -> None:
    forms = ["IMF", "International Monetary Fund", "International Monetary Funds"]
    assert clusters(*map(name, forms)) == groups(forms)


def test_an_acronym_with_two_long_forms_joins_neither_and_asks() -> None:
    forms = ["SDSA", "South Dakota State Archive", "San Diego Science Alliance"]
    assert clusters(*map(name, forms)) == groups(*([form] for form in forms))
    found = pairs(map(name, forms), TOGETHER)
    assert set(decisions(found, {}).values()) == {"ask"}
    assert set(rivals(found, {}).values()) == {1}


def test_a_rival_that_was_ruled_apart_is_none() -> None:
    forms = ["SDSA", "South Dakota State Archive", "San Diego Science Alliance"]
    ruled = {("san diego science alliance", "^sdsa"): False}
    assert clusters(*map(name, forms), rulings=ruled) == groups(forms[:2], forms[2:])


def test_spellings_of_one_long_form_are_no_rivals() -> None:
    forms = ["Phase 3", "Phase 3 Trials", "Phase III Trials", "Phase 3 Trial"]
    assert clusters(*map(name, forms)) == groups(forms)


def test_a_part_of_a_name_joins_one_person_and_not_one_of_several() -> None:
    people = [name(f"{first} Mobutu", "person") for first in ("Joseph", "Kongulu", "Nzanga")]
    part = name("Mobutu", "person")
    assert clusters(part, people[0]) == groups(["Mobutu", "Joseph Mobutu"])
    two = clusters(part, *people[:2])
    assert frozenset(["Mobutu"]) in two
    assert set(decisions(pairs([part, *people[:2]], TOGETHER), {}).values()) == {"ask"}
    alone = pairs([part, people[0]], TOGETHER) + pairs([part, people[1]])
    assert cluster(named([part, *people[:2]]), alone, {}) == [
        frozenset(["joseph mobutu", "mobutu"]), frozenset(["kongulu mobutu"]),
    ]  # fmt: skip
    crowd = pairs([part, people[0]], TOGETHER) + pairs([part, people[1]]) + pairs([part, people[2]])
    assert len(cluster(named([part, *people]), crowd, {})) == 4


def test_a_third_name_that_fits_an_initial_keeps_it_apart() -> None:
    forms = ["J. B. Strauss", "Johann Baptist Strauss", "Josef Bernhard Strauss"]
    assert clusters(*map(name, forms[:2])) == groups(forms[:2])
    assert clusters(*map(name, forms)) == groups(*([form] for form in forms))


def test_a_short_form_never_brings_two_clusters_together() -> None:
    forms = ["King Charles II", "Duke Charles II", "Charles II"]
    assert clusters(*map(name, forms)) == groups(*([form] for form in forms))


def test_a_short_form_of_a_short_form_ends_in_one_cluster() -> None:
    people = [name(form, "person") for form in ("Juncker", "JC Juncker", "Jean-Claude Juncker")]
    assert clusters(*people) == groups([one.form for one in people])


def test_members_are_not_chained() -> None:
    a, b, c, d = (name(form) for form in ("Alpha Beta", "Gamma Delta", "Epsilon Zeta", "Eta Theta"))
    assert len(cluster(named([a, b, c]), [edge(a, b), edge(b, c)], {})) == 1  # all with b
    chain = [edge(a, b), edge(b, c), edge(c, d)]
    assert len(cluster(named([a, b, c, d]), chain, {})) == 2
    every = [*chain, edge(a, c), edge(b, d), edge(a, d)]
    assert len(cluster(named([a, b, c, d]), every, {})) == 1


def test_a_veto_with_any_member_keeps_a_name_out() -> None:
    left, middle, right = name("North Dakota"), name("Dakota Area"), name("South Dakota")
    found = cluster(named([left, middle, right]), [edge(left, middle), edge(middle, right)], {})
    assert len(found) == 2


def test_persons_and_places_are_not_mixed_by_a_name_of_no_type() -> None:
    person, place = name("Virginia Woods", "person"), name("Virginia Wood", "place")
    bare = name("Virginia and Woods")
    made = [edge(person, bare), edge(bare, place)]
    assert len(cluster(named([person, place, bare]), made, {})) == 2


def test_a_ruling_beats_score_and_veto() -> None:
    forms = ["Stage 1", "Stage 2", "Clinical Trial", "Clinical Trials"]
    rulings = {("stage 2", "stage 1"): True, ("clinical trial", "clinical trials"): False}
    names = [name(form) for form in forms]
    assert clusters(*names, rulings=rulings) == groups(forms[:2], forms[2:3], forms[3:])
    assert decisions(pairs(names), rulings)["clinical trial", "clinical trials"] == "apart"


def test_of_rulings_that_contradict_each_other_apart_wins() -> None:
    rulings = {("a", "b"): True, ("b", "c"): True, ("a", "c"): False}
    found = clusters(name("a"), name("b"), name("c"), rulings=rulings)
    assert found == groups(["a", "b"], ["c"])


def test_a_name_ruled_into_a_cluster_is_not_moved_by_rules() -> None:
    forms = ["IMF", "International Monetary Fund", "Isle of Man Film"]
    found = clusters(*map(name, forms), rulings={("^imf", "isle of man film"): True})
    assert found == groups(["IMF", "Isle of Man Film"], ["International Monetary Fund"])


def test_a_cluster_does_not_grow_past_its_limit() -> None:
    many = [Name(f"k{chr(0x4E00 + n)}", f"Form {'of ' * n}Thing") for n in range(MAX_MEMBERS + 9)]
    centre = many[0]
    made = [edge(centre, one) for one in many[1:]]
    assert max(map(len, cluster(named(many), made, {}))) == MAX_MEMBERS


def test_one_state_of_many_pairs_decides_each_alone() -> None:
    assert decision(pair("Clinical Trial", "Clinical Trials"), rivals=9) == "merge"
    lone = pair("SDSA", "South Dakota State Archive")
    assert decision(lone) == "merge"
    assert decision(lone, rivals=1) == "ask"


FORMS = st.sampled_from(
    [
        "World Health Organization", "WHO", "World Health Organisation", "Women's Health Office",
        "Clinical Trial", "Clinical Trials", "Phase 3 Trials", "Phase III Trials", "Phase 3",
        "Phase 2", "John Smith", "J. Smith", "James Smith", "Smith", "John B. Smith", "Mrs Smith",
        "King Charles II", "Charles II", "Duke Charles II", "Charles I", "US", "United States",
        "西安交大", "西安交通大学", "西安体院", "San Diego", "San Diego, California", "SDSA",
        "South Dakota State Archive", "San Diego Science Alliance", "Han", "Han dynasty",
    ]
)  # fmt: skip
NAMED = st.builds(name, FORMS, st.sampled_from(["", "person", "place"]))


@given(
    st.lists(NAMED, max_size=12, unique_by=lambda one: one.key),
    st.dictionaries(st.tuples(FORMS, FORMS), st.booleans(), max_size=3),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_the_order_of_names_and_pairs_changes_nothing(
    names: list[Name], ruled: dict[Keys, bool], together: bool, order: random.Random
) -> None:
    rulings = {
        tuple(sorted((name(a).key, name(b).key))): same for (a, b), same in ruled.items() if a != b
    }
    made = pairs(names, Ties(together=together))
    first = cluster(named(names), made, rulings)  # type: ignore[arg-type]  # sorted() forgets 2
    for _ in range(3):
        order.shuffle(names)
        order.shuffle(made)
        recounted = [
            Name(one.key, one.form, one.kind, one.aliases, order.randrange(9)) for one in names
        ]
        assert cluster(named(recounted), made, rulings) == first  # type: ignore[arg-type]
    assert sorted(key for group in first for key in group) == sorted(one.key for one in names)
    if not rulings:
        known = named(names)
        assert not any(
            compare(known[one], known[other]).veto
            for group in first
            for one, other in combinations(sorted(group), 2)
        )


@given(st.lists(NAMED, max_size=10, unique_by=lambda one: one.key), NAMED)
def test_a_name_that_comes_and_goes_leaves_no_trace(names: list[Name], guest: Name) -> None:
    before = cluster(named(names), pairs(names), {})
    with_guest = [*(one for one in names if one.key != guest.key), guest]
    cluster(named(with_guest), pairs(with_guest), {})
    assert cluster(named(names), pairs(names), {}) == before


def test_what_a_text_states_outweighs_letters_that_fit() -> None:
    stated = name("South Dakota State Archive", "", "SDSA")
    names = [stated, name("SDSA"), name("San Diego Science Alliance")]
    found = clusters(*names)
    assert found == groups(["South Dakota State Archive", "SDSA"], ["San Diego Science Alliance"])
    tiny = [name("Puerto Rico", "", "PR"), name("PR"), name("Public Relations")]
    assert clusters(*tiny) == groups(*([one.form] for one in tiny))


def test_who_of_many_is_meant_is_not_worth_a_question() -> None:
    people = [name(f"{first} Mobutu", "person") for first in ("Joseph", "Kongulu", "Nzanga")]
    found = decisions(pairs([name("Mobutu", "person"), *people], TOGETHER), {})
    assert {found[keys] for keys in found if "mobutu" in keys} == {"apart"}
