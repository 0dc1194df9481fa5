"""What tells names apart, whatever their score."""

from __future__ import annotations

import pytest

from app.resolution.decide import decision
from app.resolution.model import Ties
from app.resolution.score import recorded
from tests.unit.resolution.make import pair

VETOED = [
    ("number", "Phase III Trials", "Phase II Trials"),
    ("number", "Phase 1 Trials", "Phase II Trials"),
    ("number", "Stage 3C", "Stage 3B"),
    ("number", "B.1.617.1", "B.1.617.2"),
    ("number", "Final Fantasy XVI", "Final Fantasy"),
    ("number", "August 4, 1938", "August 1963"),
    ("number", "21 December 2013", "21 November 2013"),
    ("number", "Elizabeth I", "Elizabeth II"),
    ("number", "first parties", "congressional parties"),
    ("number", "9%", "9"),
    ("number", "1990s", "1990"),
    ("number", "第一次选举", "第二次选举"),
    ("number", "齐格蒙特三世", "齐格蒙特一世"),
    ("number", "第12次長期滞在", "第42次長期滞在"),
    ("number", "Programmed Death-Ligand 1 (PD-L1)", "Programmed Death Ligand 1 (PD-1)"),
    ("letter", "Hepatitis B", "Hepatitis C"),
    ("letter", "Zhang D", "Zhang Y"),
    ("letter", "T-cell lymphoma", "B-cell lymphoma"),
    ("qualifier", "Dark River (British film)", "Dark River (German film)"),
    ("qualifier", "Columbia, Missouri", "Columbia, South Carolina"),
    ("opposite", "North Dakota", "South Dakota"),
    ("opposite", "High-Grade Lesion", "Low-Grade Lesion"),
    ("opposite", "Mr Smith", "Mrs Smith"),
    ("opposite", "King Edward", "Queen Edward"),
    ("negation", "Hodgkin Lymphoma", "Non-Hodgkin Lymphoma"),
    ("negation", "President Cheney", "Vice President Cheney"),
    ("kin", "Jones", "Jones' father"),
    ("kin", "John Dashwood", "Mrs. John Dashwood"),
    ("kin", "Wellington Koo", "Madame Wellington Koo"),
    ("possession", "Guardiola", "Guardiola's team"),
    ("possession", "Beethoven", "Beethoven's Great Love"),
    ("conjunction", "Psychologists", "Psychologists and Psychiatrists"),
    ("world", "North Korea", "Republic of Korea"),
    ("world", "China", "Republic of China"),
]


@pytest.mark.parametrize(("veto", "one", "other"), VETOED)
def test_a_veto_beats_every_score(veto: str, one: str, other: str) -> None:
    found = pair(one, other, ties=Ties(together=True, neighbours=1, names=1, descriptions=1))
    assert found.veto == veto, found
    assert decision(found) == "apart"
    assert not recorded(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("J. Smith", "John B. Smith"),
        ("J. C. Juncker", "Jean C. Juncker"),
        ("SARS-CoV-2", "SARS-CoV2"),
        ("Boeing B-29", "Boeing B - 29"),
        ("18th century", "18th-century"),
        ("Phase 1/2 Trials", "Phase 1-2 Trials"),
        ("Stage III", "Stage 3"),
        ("Galicia and Lodomeria", "Galicie et Lodomérie"),
        ("Alzheimer's disease", "Alzheimer disease"),
        ("Second Punic War", "第二次布匿战争"),
        ("Lumbar Puncture (LP)", "Lumbar Puncture"),
        ("Children's Hospital", "Childrens Hospital"),
        ("Romeo & Juliet", "Romeo and Juliet"),
    ],
)
def test_what_only_looks_like_a_difference_is_none(one: str, other: str) -> None:
    assert pair(one, other).veto == ""


def test_numbers_count_across_scripts_only_where_both_are_plain() -> None:
    assert pair("道格拉斯DC-4", "Douglas DC-6").veto == "number"
    assert pair("齐格蒙特三世", "Sigismund III").veto == ""


def test_a_states_postal_code_is_its_name() -> None:
    assert pair("Springfield, IL", "Springfield, Illinois").relation == "near"
    assert pair("Portland, OR", "Portland, Maine").veto == "qualifier"
