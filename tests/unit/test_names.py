"""The normal form of names, acronyms, and the spans of a text that may be names."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import words
from app.names import abbreviates, key, spans


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("World Health Organization (WHO)", "world health organization"),
        ("WHO (World Health Organization)", "World  Health  Organization"),
        ("U.S.A.", "USA"),
        ("Johnson & Johnson", "Johnson and Johnson"),
        ("The Beatles", "beatles"),
        ("Straße", "STRASSE"),
        ("Łódź", "Lodz"),
        ("Ångström", "angstrom"),
        ("İstanbul", "istanbul"),
        ("Æther", "aether"),
        ("O’Brien", "O'Brien"),
        ("ｗｉｄｅ ｗｏｒｄｓ", "wide words"),
        ("ﬁnance group", "finance group"),
        ("刘 备", "刘备"),
        ("約翰·史密斯", "約翰史密斯"),
        ("ｶﾞﾗｽ", "ガラス"),
        ("6 August 1945", "August 6, 1945"),
        ("Aug. 6th, 1945", "6th of August 1945"),
        ("Acme® Corp™", "Acme Corp"),
        ("state-of-the-art", "State of the Art"),
        ("soft\u00adware", "software"),
    ],
)
def test_spellings_of_one_name_have_one_key(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("WHO", "The Who"),
        ("US", "us"),
        ("SAM", "Sam"),
        ("McDonald's", "McDonald"),
        ("9%", "9"),
        ("C#", "C"),
        ("C++", "C"),
        ("1.5", "15"),
        ("Paris (rapper)", "Paris"),
        ("vaccine", "vaccines"),
        ("04/05/2011", "April 5, 2011"),
        ("ガラス", "カラス"),
        ("May 1945", "May 6, 1945"),
        ("A&E", "E"),
        ("The The", ""),
    ],
)
def test_different_names_have_different_keys(one: str, other: str) -> None:
    assert key(one) != key(other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("August 6, 1945", "1945-08-06"),
        ("August 1945", "1945-08"),
        ("6 August", "--08-06"),
        ("August 77", "august 77"),
        ("B.1.617.2", "b.1.617.2"),
        ("WHO", "^who"),
        ("", "^"),
        ("\t\x1f ", "^"),
        ("???", "???"),
        ("the", "the"),
    ],
)
def test_keys_of_dates_codes_acronyms_and_nothing(name: str, expected: str) -> None:
    assert key(name) == expected


@given(st.text(max_size=40))
def test_a_key_is_never_empty_and_holds_no_separator(name: str) -> None:
    found = key(name)
    assert found
    assert not set(found) & set("\t\x1f\x00\n")


@given(st.text(max_size=40).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))
def test_composed_and_decomposed_spellings_have_one_key(name: str) -> None:
    assert key(unicodedata.normalize("NFD", name)) == key(unicodedata.normalize("NFC", name))


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [
        ("WHO", "World Health Organization", True),
        ("DoD", "Department of Defense", True),
        ("PCRs", "polymerase chain reaction", True),
        ("TB", "tuberculosis", False),  # one word
        ("U.S.", "U.S. states", False),
        ("who", "World Health Organization", False),
        ("ABC", "Another Big Thing", False),
    ],
)
def test_acronyms_are_told_by_initials(short: str, long: str, expected: bool) -> None:
    assert abbreviates(short, long) is expected


def test_spans_are_all_runs_longest_first_with_their_keys() -> None:
    text = "Lothair II's mother"
    found = spans(text, longest=2)
    shown = [(text[span.start : span.end], span.key) for span in found]
    assert shown == [
        ("Lothair II's", "lothair iis"),
        ("Lothair II", "lothair ii"),
        ("Lothair", "lothair"),
        ("II's mother", "iis mother"),
        ("II's", "iis"),
        ("II", "^ii"),
        ("mother", "mother"),
    ]


def test_spans_know_marks_and_bare_ends() -> None:
    found = {span.key: span for span in spans("who wrote The Odyssey in 700", longest=3)}
    assert found["odyssey"].marked and found["odyssey"].bare
    assert not found["wrote"].marked
    assert not found["who wrote"].bare
    assert found["700"].marked


@given(st.text(alphabet="abcAB Éß'’.-1 ", max_size=30))
def test_the_key_of_a_span_is_the_key_of_its_text(text: str) -> None:
    for span in spans(text, longest=3):
        assert span.key == key(text[span.start : span.end])


def test_scripts_without_spaces_give_spans_of_characters() -> None:
    text = "曹操和刘备"
    keys = {span.key for span in spans(text, longest=3)}
    assert {"曹操", "刘备", "曹操和刘备"} <= keys
    assert "曹" not in keys


def test_spans_do_not_cross_sentences() -> None:
    keys = {span.key for span in spans("He saw Paris. Rome burned.", longest=3)}
    assert "paris rome" not in keys
    assert "j smith" in {span.key for span in spans("J. Smith", longest=2)}


def test_the_word_list_knows_class_and_frequency() -> None:
    assert words.word_class("time") == "N"
    assert words.score("the") > words.score("time") > words.score("harpsichord") == 0
    assert words.is_stop_word("und", "de") and not words.is_stop_word("und")
