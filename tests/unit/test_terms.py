"""Texts as terms and as sparse vectors."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import Kind
from app.terms import AVERAGE_TERMS, STOP_WEIGHT, document_sparse, query_sparse, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Éloïse, ZÜRICH; Straße", ["eloise", "zurich", "strasse"]),
        ("Øresund Łódź Đurđević", ["oresund", "lodz", "durdevic"]),
        ("Ёлка и чай", ["елка", "и", "чаи"]),
        ("ＡＢＣ　１２", ["abc", "12"]),
        (
            "Lothair II's mother, the boys’ school",
            ["lothair", "ii", "mother", "the", "boy", "school"],
        ),
        ("O'Brien l’amour don't", ["o", "brien", "l", "amour", "don", "t"]),
        ("WolfgangSchulz iPhone", ["wolfgang", "schulz", "wolfgangschulz", "i", "phone", "iphone"]),
        ("NATO HTML5 GPT4 x86_64", ["nato", "html5", "gpt4", "x86", "64"]),
        ("U.S. and U.S.A. by J.R.R. Tolkien", ["us", "and", "usa", "by", "jrr", "tolkien"]),
        ("1,234,567 and 3.14 in 1999, 5.", ["1234567", "and", "3.14", "in", "1999", "5"]),
        (
            "v1.2.3 COVID-19 3,5 10.1.2024",
            ["v1", "2", "3", "covid", "19", "3", "5", "10", "1", "2024"],
        ),
        ("e-mail; foo/bar", ["e", "mail", "foo", "bar"]),
        ("  ...!?  ", []),
        ("", []),
    ],
)
def test_words_are_folded_and_cut(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("cities", "city"), ("horses", "horse"), ("dogs", "dog"), ("churches", "church"),
        ("boxes", "box"), ("classes", "class"), ("Parties", "PARTY"),
    ],
)  # fmt: skip
def test_plurals_meet_their_singular(plural: str, singular: str) -> None:
    assert terms(plural) == terms(singular)


@pytest.mark.parametrize("word", ["gas", "bus", "glass", "virus", "was"])
def test_words_that_only_look_like_plurals_stay(word: str) -> None:
    assert terms(word) == [word]


def test_chinese_and_japanese_become_characters_and_pairs() -> None:
    assert terms("刘备的儿子") == ["刘", "备", "的", "儿", "子", "刘备", "备的", "的儿", "儿子"]
    assert terms("猫") == ["猫"]
    assert terms("東京Tower2") == ["東", "京", "東京", "tower2"]


def test_voiced_kana_keep_their_marks() -> None:
    assert terms("が") != terms("か")
    assert terms("ｶﾞ") == terms("ガ")


def test_korean_particles_do_not_hide_a_word() -> None:
    assert set(terms("서울")) < set(terms("서울에서"))


def test_arabic_and_hebrew_points_do_not_count() -> None:
    assert terms("مُحَمَّد") == terms("محمد")
    assert terms("שָׁלוֹם") == terms("שלום")


def test_vowel_signs_do_not_cut_indic_words() -> None:
    assert terms("हिन्दी भाषा।") == ["हिन्दी", "भाषा"]
    assert terms("தமிழ் மொழி") == ["தமிழ்", "மொழி"]


def test_invisible_characters_do_not_cut_words() -> None:
    assert terms("co\u00adoperate zero\u200bwidth") == ["cooperate", "zerowidth"]


@given(st.text())
def test_any_text_gives_terms_without_blanks(text: str) -> None:
    assert all(term.strip() == term != "" for term in terms(text))


@given(st.lists(st.sampled_from(["Éva", "GRAPH", "日本", "x1", "O'Neil", "Straße"])))
def test_a_text_in_lower_case_has_the_terms_of_the_original(words: list[str]) -> None:
    text = " ".join(words)
    assert terms(text.lower()) == terms(text)


@given(st.text(), st.floats(1, 1e4))
def test_sparse_vectors_are_valid(text: str, average: float) -> None:
    for sparse in (document_sparse(text, average=average), query_sparse(text)):
        assert len(sparse.indices) == len(set(sparse.indices)) == len(sparse.values)
        assert all(0 <= index < 2**32 for index in sparse.indices)
        assert all(value > 0 for value in sparse.values)


def test_document_weights_are_those_of_bm25() -> None:
    sparse = document_sparse("apple apple pear", average=6)
    weights = dict(zip(sparse.indices, sparse.values, strict=True))
    [apple], [pear] = query_sparse("apple").indices, query_sparse("pear").indices
    norm = 1.2 * (0.25 + 0.75 * 3 / 6)
    assert weights == pytest.approx({apple: 2 * 2.2 / (2 + norm), pear: 2.2 / (1 + norm)})


def test_a_word_counts_less_in_a_longer_text() -> None:
    [term] = query_sparse("apple").indices
    short, long = (
        dict(zip(*document_sparse(f"apple {'pear ' * n}", average=10), strict=True))[term]
        for n in (1, 100)
    )
    assert short > long


def test_stop_words_of_a_question_weigh_little_but_are_not_lost() -> None:
    sparse = query_sparse("Who was the founder of The Who?")
    assert sorted(set(sparse.values)) == [STOP_WEIGHT, 1.0]
    assert sparse.values.count(1.0) == 1
    assert query_sparse("to be or not to be").indices


def test_a_repeated_word_of_a_question_counts_once() -> None:
    assert query_sparse("apple apple Apples") == query_sparse("apple")


def test_every_kind_has_an_average() -> None:
    assert set(AVERAGE_TERMS) == set(Kind)


def test_ids_of_terms_are_the_same_in_every_process() -> None:
    script = "from app.terms import query_sparse; print(query_sparse('Köln 東京').indices)"
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert other.strip() == str(query_sparse("Köln 東京").indices)
