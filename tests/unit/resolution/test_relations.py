"""Each class of relation, with what it scores."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.names import key
from app.resolution.decide import decision
from app.resolution.model import Name, Ties
from app.resolution.parse import parse, stem
from app.resolution.score import compare, recorded
from tests.unit.resolution.make import TOGETHER, name, pair

MERGED = [
    ("known", "USA", "United States"),
    ("known", "U.S.", "United States of America"),
    ("known", "World War II", "Second World War"),
    ("known", "北约", "北大西洋公约组织"),
    ("near", "Clinical Trials", "Clinical Trial"),
    ("near", "Biomarker Testing", "Biomarker Tests"),
    ("near", "Phase III Clinical Trials", "Phase 3 Clinical Trials"),
    ("near", "Brigade Forty-Four", "Brigade 44"),
    ("near", "Deutsche Bank", "Deutsche Bank AG"),
    ("near", "OAO Gazprom", "Open Joint Stock Company Gazprom"),
    ("near", "Goodwill Company", "Good Will Company"),
    ("near", "Tirion Fordring", "TirionFordring"),
    ("near", "President James K. Polk", "James K. Polk"),
    ("near", "Queen Elizabeth II", "Elizabeth II"),
    ("near", "Cancer Types", "Type of Cancer"),
    ("near", "Awake (Dream Theater album)", "Awake (album de Dream Theater)"),
    ("near", "台灣大學", "台湾大学"),
    ("initials", "J. Strauss II", "Johann Strauss II"),
    ("initials", "F. S. Ellis", "Frederick S. Ellis"),
    ("initials", "JC Juncker", "Jean-Claude Juncker"),
    ("safe_tail", "Han dynasty", "Han"),
    ("safe_tail", "Manchester City F.C.", "Manchester City"),
    ("safe_tail", "REMAP-CAP Trial", "Remap-Cap"),
    ("acronym", "NRHP", "National Register of Historic Places"),
    ("chinese", "西安交大", "西安交通大学"),
    ("chinese", "牺盟会", "山西省牺牲救国同盟会"),
    ("near", "Justice Department", "Department of Justice"),
]
ASKED = [
    ("acronym", "IMF", "International Monetary Fund"),
    ("chinese", "浙昆", "浙江昆剧团"),
    ("typo", "CHRISTIMAS TOYS AND PRESENTS", "CHRISTMAS TOYS AND PRESENTS"),
    ("partial", "Stalin", "Joseph Stalin"),
    ("partial", "云长", "关云长"),
    ("near_1", "Americas", "America"),
    ("near_1", "SAM", "Sam"),
    ("near_1", "City of London", "London"),
    ("near_1", "County of San Diego", "San Diego"),
    ("near_1", "Jack Black", "Black Jack"),
    ("near_1", "York University", "University of York"),
    ("near_1", "China Bank", "Bank of China"),
    ("soft_tail", "Marussia F1 team", "Marussia F1"),
    ("qualified", "Hobart, Indiana", "Hobart"),
    ("qualified", "Paris (rapper)", "Paris"),
]
APART = [
    ("acronym", "TC", "Tripp Coley"),
    ("contained", "Breast Cancer", "Invasive Breast Cancer"),
    ("mixed", "Central High School", "Greenville High School"),
    ("mixed", "南京大学", "东南大学"),
    ("contained", "上海", "上海戏剧学院"),
    ("mixed", "北京大学", "北京师范大学"),
    ("mixed", "中国银行", "中国人民银行"),
    ("none", "Yerevan", "Toronto"),
    ("script", "Herbert Hoover", "赫伯特·胡佛"),
]


@pytest.mark.parametrize(("relation", "one", "other"), MERGED)
def test_a_named_relation_makes_two_names_one(relation: str, one: str, other: str) -> None:
    found = pair(one, other)
    assert (found.relation, found.veto, decision(found)) == (relation, "", "merge"), found


@pytest.mark.parametrize(("relation", "one", "other"), ASKED)
def test_a_weaker_relation_asks(relation: str, one: str, other: str) -> None:
    found = pair(one, other)
    assert (found.relation, found.veto, decision(found)) == (relation, "", "ask"), found
    assert recorded(found)


@pytest.mark.parametrize(("relation", "one", "other"), APART)
def test_likeness_alone_keeps_names_apart(relation: str, one: str, other: str) -> None:
    found = pair(one, other)
    assert (found.relation, decision(found)) == (relation, "apart"), found


@pytest.mark.parametrize(
    ("relation", "one", "other"),
    [
        ("partial", "Stalin", "Joseph Stalin"),
        ("initials", "Q. Fernandes", "Queenie Fernandes"),
        ("acronym", "MOM", "Mona O. Mohsen"),
    ],
)
def test_parts_of_a_persons_name_need_a_passage_that_names_both(
    relation: str, one: str, other: str
) -> None:
    together = pair(one, other, "person", TOGETHER)
    assert (together.relation, decision(together)) == (relation, "merge")
    if relation != "acronym":
        assert decision(pair(one, other, "person")) == "ask"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Charles Pinckney", "Charles Cotesworth Pinckney"),
        ("John Adams", "John Quincy Adams"),
        ("Vladimir Putin", "Vladimir Vladimirovich Putin"),
    ],
)
def test_two_full_names_in_one_passage_are_rather_two_persons(one: str, other: str) -> None:
    found = pair(one, other, "person", TOGETHER)
    assert (found.relation, decision(found)) == ("middle", "ask")


def test_a_persons_name_of_numbers_alone_is_no_longer_form_of_another() -> None:
    assert decision(pair("Nineteen Kids", "Nineteen Eighty Four", "person")) == "apart"


def test_an_acronym_of_three_letters_merges_with_a_passage_that_names_both() -> None:
    assert decision(pair("IMF", "International Monetary Fund", ties=TOGETHER)) == "merge"


def test_what_a_text_states_is_defined_and_the_short_form_its_leaf() -> None:
    found = compare(name("曹操", "person", "孟德"), name("孟德", "person"))
    assert (found.relation, found.leaf, decision(found)) == ("defined", "孟德", "merge")
    assert pair("Central Drugs (ZORP)", "ZORP").relation != "defined"  # letters that do not fit
    assert pair("Lumbar Puncture (LP)", "LP").relation == "defined"


def test_a_word_of_a_name_stated_as_its_alias_is_still_only_a_part() -> None:
    found = compare(name("George Washington", "person", "Washington"), name("Washington"))
    assert found.relation == "partial"
    assert decision(found) == "ask"


def test_what_the_world_calls_so_is_no_other_things_acronym() -> None:
    found = compare(name("Ultrasound Service", "", "US"), name("US"))
    assert decision(found) == "ask"
    assert decision(pair("Pew Research Center", "PRC", ties=TOGETHER)) == "ask"


def test_a_stated_relation_speaks_against_one_thing_except_for_spellings() -> None:
    related = Ties(together=True, related=True)
    assert decision(pair("Han dynasty", "Han", ties=related)) == "ask"
    assert decision(pair("Clinical Trials", "Clinical Trial", ties=related)) == "merge"


def test_a_person_and_a_place_never_merge_by_themselves() -> None:
    found = compare(name("Virginia Woods", "person"), name("Virginia Wood", "location"))
    assert decision(found) == "ask"


def test_cosines_move_the_ask_band_and_translations() -> None:
    one, other = name("Herbert Hoover"), name("赫伯特·胡佛")
    assert decision(compare(one, other, Ties(names=0.6))) == "ask"
    assert decision(compare(one, other, Ties(names=0.85))) == "merge"
    alike = compare(name("Lung Cancer"), name("Lung Carcinoma"), Ties(names=1.0, descriptions=0.9))
    assert decision(alike) == "ask"


def test_the_mark_of_a_company_on_one_side_of_a_single_word_asks() -> None:
    assert decision(pair("Apple", "Apple Inc.")) == "ask"
    assert decision(pair("Apple Ltd", "Apple Inc.")) == "merge"


def test_plurals_are_stemmed_and_acronyms_are_not() -> None:
    assert [stem(word) for word in ("studies", "masses", "cells", "virus", "analysis")] == [
        "study", "mass", "cell", "virus", "analysis",
    ]  # fmt: skip
    assert parse("AIDS treatments").core == ("aids", "treatment")


WORDS = st.sampled_from(
    [
        "John", "Smith", "J.", "WHO", "World", "Health", "Organization", "II", "2", "Café", "the",
        "of", "North", "Trials", "trial", "(WHO)", "Inc.", "Paris", ",", "北京", "大学", "’s",
        "Mrs", "B", "1B1", "Ångström", "???", "SARS-CoV-2", "non", "and",
    ]
)  # fmt: skip
FORMS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join) | st.text(max_size=24)
KINDS = st.sampled_from(["", "person", "location", "organization", "concept"])
NAMES = st.builds(
    lambda form, kind, alias: Name(key(form), form, kind, (alias,) if alias else ()),
    FORMS, KINDS, st.none() | FORMS,
)  # fmt: skip


@given(NAMES, NAMES, st.builds(Ties, together=st.booleans(), related=st.booleans()))
def test_comparing_is_symmetric_and_total(one: Name, other: Name, ties: Ties) -> None:
    found = compare(one, other, ties)
    assert found == compare(other, one, ties)
    assert 0 <= found.score <= 100
    assert (found.one, found.other) == tuple(sorted((one.key, other.key)))
    assert found.leaf in ("", one.key, other.key)


@given(FORMS)
def test_both_unicode_forms_of_a_name_are_parsed_alike(form: str) -> None:
    parsed = parse(form)
    assert parsed.key
    for other in (unicodedata.normalize("NFC", form), unicodedata.normalize("NFD", form)):
        again = parse(other)
        assert (again.key, again.core) == (parsed.key, parsed.core)


def test_composed_and_decomposed_accents_give_one_parse() -> None:
    composed, decomposed = "Zürich Café", unicodedata.normalize("NFD", "Zürich Café")
    assert composed != decomposed
    assert parse(composed).core == parse(decomposed).core == ("zurich", "cafe")


def test_a_slip_of_the_pen_merges_where_all_else_is_alike() -> None:
    for one, other in [
        ("Oscar Blumenthal", "Oskar Blumenthal"),
        ("Philip Savile", "Philip Saville"),
    ]:
        found = pair(one, other, "person", TOGETHER)
        assert (found.relation, decision(found)) == ("typo", "merge")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("David Williams", "Davida Williams"),
        ("East German", "East Germany"),
        ("Cleopatra", "Cleopatra of Jerusalem"),
        ("Duke Charles II", "King Charles II"),
        ("Emily Omani", "Emily Oman"),
    ],
)
def test_a_letter_or_a_place_more_may_be_another(one: str, other: str) -> None:
    assert decision(pair(one, other, "person", TOGETHER)) != "merge"


def test_long_nonsense_takes_no_time() -> None:
    one, other = "a" * 20_000, "a" * 19_999 + "b"
    assert pair(one, other).relation == "none"
    assert pair("( " * 5_000, "a-" * 5_000).score <= 100
