"""What figures say: comparisons, sentences, tables, plots and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.evaluation import plots, report
from app.evaluation.intervals import Interval
from app.evaluation.questions import Case
from app.evaluation.report import Report
from app.evaluation.results import Results, results_of, shown
from app.evaluation.run import Key, Outcome
from app.evaluation.targets import Variant

MODES = [Variant.of("naive"), Variant.of("mix")]


def outcomes(naive: list[float], mix: list[float]) -> dict[Key, Outcome]:
    found = {}
    for label, values, ms in (("naive", naive, 5.0), ("mix", mix, 25.0)):
        for n, value in enumerate(values):
            key = Key(f"q{n}", label)
            found[key] = Outcome(
                key,
                {
                    **{f"recall@{k}": min(1.0, value * k / 5) for k in (2, 5, 10)},
                    "ms": ms, "model_calls": 0.0,
                },
            )  # fmt: skip
    return found


def results(naive: list[float], mix: list[float], modes: list[Variant] = MODES) -> Results:
    return results_of(outcomes(naive, mix), modes)


def test_a_mode_that_finds_more_is_worth_it() -> None:
    found = results([0.2] * 20 + [0.4] * 20, [0.6] * 20 + [0.9] * 20)
    assert found.headline == "recall@5"
    [sentence] = found.summary
    assert sentence == (
        "mix is worth it for you: mix − naive = +45.0 [+43.5, +46.5] points of recall@5, "
        "40 questions; +20.0 ms a question."
    )


def test_a_gain_that_is_small_at_best_says_that_plain_retrieval_is_enough() -> None:
    [sentence] = results([0.5, 0.6] * 40, [0.5, 0.6] * 39 + [0.6, 0.5]).summary
    assert sentence.startswith("Plain retrieval (naive) is enough for you: mix − naive = 0.0 [−")


def test_few_questions_cannot_tell_modes_apart() -> None:
    [sentence] = results([0.5, 0.9, 0.1, 0.5], [0.9, 0.5, 0.5, 0.1]).summary
    assert sentence.startswith("These questions cannot tell the modes apart, ask more of them: ")


def test_a_mode_that_finds_less_is_said_to_do_worse() -> None:
    [sentence] = results([0.9] * 9, [0.5] * 9).summary
    assert sentence.startswith("Plain retrieval (naive) is the best for you")


def test_the_base_is_named_or_plain_or_first() -> None:
    found = outcomes([0.5], [0.6])
    assert results_of(found, MODES).comparisons[0].against == "naive"
    assert results_of(found, MODES, against="mix").comparisons[0].mode == "naive"
    other = [Variant.of("mix")]
    assert results_of({k: o for k, o in found.items() if k.mode == "mix"}, other).comparisons == ()


def test_one_mode_is_told_without_a_comparison() -> None:
    [sentence] = results([0.5, 0.5], [], [Variant.of("naive")]).summary
    assert sentence == "naive: recall@5 50.0 [50.0, 50.0], 2 questions."


def test_questions_without_gold_say_so() -> None:
    key = Key("q", "naive")
    found = results_of({key: Outcome(key, {"ms": 1.0}, error="broken")}, MODES[:1])
    assert found.summary[0].startswith("No question has gold")
    assert found.summary[1].startswith("naive: 1 questions had no usable reply")


@pytest.mark.parametrize(
    ("name", "interval", "signed", "said"),
    [
        ("recall@5", Interval(0.5, 0.25, 0.75, 9), False, "50.0 [25.0, 75.0]"),
        ("recall@5", Interval(-0.004, -0.02, 0.0, 9), True, "−0.4 [−2.0, 0.0]"),
        ("context_tokens", Interval(1234.5, 1000, 2000, 9), False, "1234 [1000, 2000]"),
        ("ms", Interval(0.04, -0.04, 9.96, 9), True, "0.0 [0.0, +10.0]"),
    ],
)
def test_values_are_shown_as_people_read_them(
    name: str, interval: Interval, signed: bool, said: str
) -> None:
    assert shown(name, interval, signed=signed) == said


def made() -> Report:
    found = outcomes([0.4, 0.6], [0.6, 0.8])
    about = {"set": {"name": "a & b", "passages": 2}, "settings": {"seed": 1}}
    cases = [Case("q0", "Who <is> it?"), Case("q1", "Why?")]
    return Report("a & b", about, results_of(found, MODES), (), cases, found)


def test_a_report_is_written_for_people_and_programs(tmp_path: Path) -> None:
    report.write(made(), tmp_path / "out")
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["modes"]["mix"]["recall@5"]["value"] == pytest.approx(0.7)
    assert written["comparisons"][0]["figures"]["recall@5"]["value"] == pytest.approx(0.2)
    assert written["questions"][0]["modes"]["naive"]["recall@5"] == 0.4
    assert written["set"]["name"] == "a & b"
    page = (tmp_path / "out" / "report.md").read_text()
    assert "| mode | recall@2 |" in page
    assert "| mix − naive |" in page
    assert "![" in page


def test_plots_are_sound_xml_with_a_dark_side() -> None:
    for title, svg in report.drawn(made()).values():
        root = ElementTree.fromstring(svg)
        assert root.attrib["aria-label"] == title
        assert "prefers-color-scheme: dark" in svg


def test_plots_stand_odd_names_and_values() -> None:
    odd = {'<&">': Interval(0.0, 0.0, 0.0, 1), "x" * 80: Interval(1.0, 1.0, 1.0, 1)}
    for svg in (
        plots.bars("<&>", odd),
        plots.lines("t", "k", {f"m{n}": [(2.0, n / 20), (5.0, 0.5)] for n in range(20)}),
        plots.lines("t", "k", {"one": [(5.0, 0.5)]}),
        plots.scatter("t", "ms", {"<a>": (0.0, 0.5), "b": (1e6, 1.0)}),
        plots.scatter("t", "ms", {"a": (3.0, 0.5)}),
    ):
        ElementTree.fromstring(svg)
        assert "nan" not in svg
        assert "inf" not in svg
