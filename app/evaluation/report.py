"""A result as people and programs want it: JSON, Markdown, tables for a terminal, plots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app import __version__
from app.evaluation import plots
from app.evaluation.intervals import DRAWS, Interval
from app.evaluation.judge import Judged
from app.evaluation.metrics import RECALL_AT
from app.evaluation.questions import Case
from app.evaluation.results import FIGURES, Results, shown
from app.evaluation.run import Key, Outcome

FORMAT = 1
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """A finished evaluation. `about`: what was measured with what, by topic (`set`, `target`,
    `settings`, `ingest`); nothing in it depends on the machine."""

    name: str
    about: Mapping[str, Mapping[str, object]]
    results: Results
    judged: Sequence[Judged] = ()
    cases: Sequence[Case] = ()
    outcomes: Mapping[Key, Outcome] = field(default_factory=dict)


def json_of(report: Report) -> Json:
    """All of it, with each question."""
    results = report.results
    return {
        "format": FORMAT,
        "version": __version__,
        "name": report.name,
        **{topic: dict(facts) for topic, facts in report.about.items()},
        "summary": list(results.summary),
        "headline": results.headline,
        "modes": {label: _intervals(found) for label, found in results.figures.items()},
        "errors": dict(results.errors),
        "comparisons": [
            {"mode": one.mode, "against": one.against, "figures": _intervals(one.figures)}
            for one in results.comparisons
        ],
        "judged": [one.json() for one in report.judged],
        "questions": list(_questions(report)),
    }


def _intervals(found: Mapping[str, Interval]) -> Json:
    return {
        name: {key: _round(value) for key, value in one._asdict().items()}
        for name, one in found.items()
    }


def _round(value: float) -> float:
    return value if isinstance(value, int) else round(value, 5)


def _questions(report: Report) -> Iterator[Json]:
    labels = list(report.results.figures)
    for case in report.cases:
        found = {
            label: report.outcomes[Key(case.id, label)]
            for label in labels
            if Key(case.id, label) in report.outcomes
        }
        yield {
            "id": case.id,
            "question": case.question,
            "kind": case.kind,
            "modes": {label: _outcome(one) for label, one in found.items()},
        }


def _outcome(one: Outcome) -> Json:
    shown = {name: _round(value) for name, value in one.figures.items()}
    if one.answer:
        shown["answer"] = one.answer  # type: ignore[assignment]  # beside the numbers
    if one.error:
        shown["error"] = one.error  # type: ignore[assignment]  # as above
    return dict(shown)


# --- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [f"| {' | '.join(row)} |" for row in (self.head, *self.rows)]
        rule = "|".join([" --- ", *[" ---: "] * (len(self.head) - 1)])
        return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def tables(report: Report) -> list[Table]:
    """What was found, what it cost, how modes differ, and what the judge said."""
    results = report.results
    used = [name for name in FIGURES if any(name in one for one in results.figures.values())]
    quality = [name for name in used if FIGURES[name].share]
    costs = [name for name in used if not FIGURES[name].share]
    made = []
    for title, names in (("Found", quality), ("Cost of a question", costs)):
        if names:
            rows = [
                (label, *(_cell(found.get(name), name) for name in names))
                for label, found in results.figures.items()
            ]
            made.append(Table(title, ("mode", *(FIGURES[n].title for n in names)), tuple(rows)))
    if results.comparisons and quality:
        rows = [
            (f"{one.mode} − {one.against}", *(_gap(one.figures.get(n), n) for n in quality))
            for one in results.comparisons
        ]
        head = ("difference", *(FIGURES[name].title for name in quality))
        made.append(Table("Differences, in points, * = more than chance", head, tuple(rows)))
    made += [one_judged(one) for one in report.judged]
    return made


def one_judged(one: Judged) -> Table:
    """Wins, ties and losses on each criterion."""
    rows = [
        (
            name, f"{100 * found.wins:.1f} %", f"{100 * found.ties:.1f} %",
            f"{100 * found.losses:.1f} %", _gap(found.margin, "f1"), str(found.margin.n),
        )
        for name, found in one.criteria.items()
    ]  # fmt: skip
    title = f"Judged by {one.model}: {one.mode} against {one.against}"
    head = ("criterion", "wins", "ties", "losses", "wins − losses, points", "questions")
    return Table(title, head, tuple(rows))


def _cell(found: Interval | None, name: str) -> str:
    return "" if found is None else shown(name, found)


def _gap(found: Interval | None, name: str) -> str:
    if found is None:
        return ""
    return shown(name, found, signed=True) + ("*" if found.clear else "")


def markdown(report: Report) -> str:
    """A page with summary, facts, tables and, beside it, the plots."""
    parts = [f"# {report.name}", "\n".join(f"**{one}**" for one in report.results.summary)]
    facts = [
        f"{topic}: " + ", ".join(f"{name} {value}" for name, value in found.items() if value != "")
        for topic, found in report.about.items()
        if found
    ]
    parts.append("\n".join(f"- {fact}" for fact in facts))
    for table in tables(report):
        parts += [f"## {table.title}", table.markdown()]
    parts += [f"![{title}]({file})" for file, (title, _) in drawn(report).items()]
    parts.append(
        f"Values in percent, except costs. In brackets: 95 % intervals, from {DRAWS:,} draws of "
        "the questions with replacement."
    )
    return "\n\n".join(parts) + "\n"


def drawn(report: Report) -> dict[str, tuple[str, str]]:
    """File name to title and SVG of the plots that the figures allow."""
    figures, headline = report.results.figures, report.results.headline
    found: dict[str, tuple[str, str]] = {}
    rows = {label: one[headline] for label, one in figures.items() if headline in one}
    if not rows:
        return found
    title = f"{FIGURES[headline].title}, in percent, with 95 % intervals"
    found["headline.svg"] = (title, plots.bars(title, rows))
    family = headline.partition("@")[0]
    depths = {
        label: [(float(k), one[f"{family}@{k}"].value) for k in RECALL_AT if f"{family}@{k}" in one]
        for label, one in figures.items()
    }
    if series := {label: points for label, points in depths.items() if points}:
        title = f"{family} at k, in percent"
        found["depth.svg"] = (title, plots.lines(title, "k", series))
    if dots := {
        label: (one["ms"].value, one[headline].value)
        for label, one in figures.items()
        if "ms" in one and headline in one
    }:
        title = f"{FIGURES[headline].title}, in percent, and time"
        found["time.svg"] = (title, plots.scatter(title, "milliseconds a question", dots))
    return found


def write(report: Report, folder: Path) -> None:
    """`result.json`, `report.md` and the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(json_of(report), ensure_ascii=False, indent=1)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    for name, (_, svg) in drawn(report).items():
        (folder / name).write_text(svg, encoding="utf-8")
