"""Reports by rules: quoted from what is known of the members, and found again by a question."""

from __future__ import annotations

from app.domain import Fact, Kind, Question, Ref, Report
from app.llm.tokens import TiktokenTokenizer
from app.rules.reporter import RuleReporter

FACTS = [
    Fact(
        Ref(Kind.ENTITY, "c"), "Marie Curie", "person", "Marie Curie was a physicist. She won.", 9
    ),
    Fact(Ref(Kind.ENTITY, "p"), "Polonium", "element", "Polonium is an element.", 4),
    Fact(Ref(Kind.ENTITY, "q"), "Paris", "city", "", 2),
    Fact(Ref(Kind.ENTITY, "r"), "Radium", "element", "Radium glows.", 1),
    Fact(
        Ref(Kind.RELATION, "c\tp"), "Marie Curie -- Polonium", "", "She discovered polonium.", 5.0
    ),
    Fact(Ref(Kind.RELATION, "c\tq"), "Marie Curie -- Paris", "", "", 4.0),
]


async def report(facts: list[Fact]) -> Report:
    made = await RuleReporter(TiktokenTokenizer()).report(facts)
    assert made.report is not None
    return made.report


async def test_a_report_is_named_after_its_most_central_members_and_quotes() -> None:
    made = await report(FACTS)
    assert made.title == "Marie Curie, Polonium, Paris (+1)"
    assert made.summary == "Marie Curie was a physicist. Polonium is an element. Radium glows."
    [finding] = made.findings
    assert (finding.summary, finding.explanation) == (
        "Marie Curie -- Polonium", "She discovered polonium.",
    )  # fmt: skip
    assert finding.refs == (Ref(Kind.RELATION, "c\tp"),)
    assert 0 < made.rating <= 10
    assert made.rating < (await report([FACTS[0], *FACTS])).rating
    assert made.model == ""


async def test_without_told_relations_members_are_the_findings() -> None:
    made = await report(FACTS[:4])
    assert [one.summary for one in made.findings] == ["Marie Curie", "Polonium", "Radium"]


async def test_nothing_known_is_still_a_report() -> None:
    bare = [
        Fact(Ref(Kind.ENTITY, "a"), "A", "", "", 1),
        Fact(Ref(Kind.ENTITY, "b"), "B", "", "", 1),
    ]
    made = await report(bare)
    assert (made.title, made.summary, made.findings) == ("A, B", "A; B", ())
    assert (await report([])).rating == 0


async def test_points_share_words_with_the_question_rare_ones_first() -> None:
    reports = [await report(FACTS), Report("Amber", "Amber is a resin of the Baltic Sea.", 4.0)]
    rules = RuleReporter(TiktokenTokenizer())
    found = (await rules.points(Question("Who discovered polonium?"), reports)).points
    best = max(found, key=lambda one: one.score)
    assert (best.report, best.refs) == (0, (Ref(Kind.RELATION, "c\tp"),))
    found = (await rules.points(Question("Where does amber come from?"), reports)).points
    assert {one.report for one in found} == {1}


async def test_a_question_about_everything_gets_every_opening() -> None:
    reports = [await report(FACTS), Report("Amber", "Amber is a resin.", 4.0)]
    rules = RuleReporter(TiktokenTokenizer())
    found = (await rules.points(Question("What are the main themes?"), reports)).points
    assert [one.text for one in found] == [one.summary for one in reports]
