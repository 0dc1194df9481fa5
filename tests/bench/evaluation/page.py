"""docs/evaluation.md from the records: tables, intervals, aims; nothing is measured here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from app.evaluation.intervals import Interval, difference
from tests.bench.evaluation import encoders, kgqa, plots
from tests.bench.evaluation.aims import AIMS, WHY, Aim
from tests.bench.evaluation.grounds import GROUNDS, Ground
from tests.bench.evaluation.records import SUMMARIES, Outcome, Record
from tests.bench.evaluation.reference import PREFIX, PUBLISHED
from tests.bench.tables import filled, head, row

ORDER = (
    "bm25", "dense", "naive", "local", "global", "hybrid", "mix", "ppr", "asr", "subgraph",
    "community", "hyde", "rq", "auto",
)  # fmt: skip
OURS = "mix"
LOST = 2.0  # points that lower case may cost
FIGURES = ("recall@2", "recall@5", "recall@10", "all@8", "mrr", "ndcg@10")
TEMPLATE = Path(__file__).with_name("page.md")
BEGIN, END = "<!-- evaluation -->", "<!-- end -->"
HEADS = ("r@2", "r@5", "r@10", "all@8", "MRR", "nDCG@10")


def write(results: Path, page: Path) -> None:
    """The page and its plots, from what the records in a folder hold."""
    records = recorded(results)
    parts = {
        "overview": _overview(records), "aims": _aims(records), "modes": _modes(records),
        "gains": _gains(records, results), "published": _published(records),
        "themes": _themes(records), "triples": kgqa.shown(results), "details": _details(records),
        "codes": codes(records),
        "encoder": encoders.shown(_encoded(records, recorded(results / encoders.MINILM))),
    }  # fmt: skip
    plots.bars(_bars(records), results / "recall.svg")
    page.write_text(filled(TEMPLATE, parts), encoding="utf-8")


Records = dict[Ground, Record]


def write_summary(results: Path, readme: Path) -> None:
    """The first table, of the sets as they are, between two marks of another page."""
    records = {
        ground: record
        for ground, record in recorded(results).items()
        if ground.store.titles and not ground.lower and OURS in record.systems
    }
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{readme.name} has no place for the table of the evaluation")
    table = "\n".join(_overview(records)).strip()
    readme.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


def recorded(results: Path) -> Records:
    found = {ground: Record.read(results / f"{ground.key}.json") for ground in GROUNDS}
    return {ground: record for ground, record in found.items() if record and record.systems}


# --- tables --------------------------------------------------------------------------------------


def _overview(records: Records) -> Iterator[str]:
    columns = ("naive", "bm25", "dense")
    yield from head("set", OURS, *columns, "best of lightrag-hku", "questions", "code")
    for ground, record in records.items():
        if OURS not in record.systems:
            continue
        theirs = best(record, [name for name in record.systems if name.startswith(PREFIX)])
        systems = [one for one in (OURS, *columns, theirs) if one in record.systems]
        places = record.common(systems)
        cells = [_cell(record, name, "recall@5", places) for name in (OURS, *columns)]
        reference = "not measured"
        if theirs:
            value = _cell(record, theirs, "recall@5", places)
            reference = f"{value} ({theirs.removeprefix(PREFIX)})"
        yield row(
            title(ground), f"**{cells[0]}**", *cells[1:], reference, str(len(places)), _code(record)
        )
    yield ""


def _aims(records: Records) -> Iterator[str]:
    yield from head("aim", "wanted", "reached", "95 % interval", "questions", "", "code")
    missed = []
    for aim in AIMS:
        cells = _aim(aim, records)
        yield row(*cells)
        missed += [(aim.label, aim.ground)] * ("missed" in cells[5])
    for ground, lower in _pairs(records):
        cells = _loss(ground, records[ground], records[lower])
        yield row(*cells)
        missed += [(cells[0], lower.key)] * ("missed" in cells[5])
    yield ""
    yield from _why(missed)
    yield from _below(records)
    yield from _early(records)


def _why(missed: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Label and ground of what is missed, with what was found behind it."""
    if not missed:
        return
    yield "Why (counts are of the run that was looked into; another may differ a little):\n"
    for label, ground in missed:
        yield f"- **{label}**: {WHY.get(ground, 'not looked into yet')}."
    yield ""


def _early(records: Records) -> Iterator[str]:
    """Where `mix` is behind `naive` at the top of the list, whatever it finds among five."""
    found = []
    for ground, record in records.items():
        if not {OURS, "naive"} <= record.systems.keys():
            continue
        places = record.common([OURS, "naive"])
        for name, figure in (("r@2", "recall@2"), ("r@5", "recall@5"), ("MRR", "mrr")):
            gain = record.gain(OURS, "naive", figure, places)
            if gain.value < 0 and not (record.statements and figure == "mrr"):
                value = f"{100 * gain.value:+.1f} {_range(gain)}"
                found.append(f"- {title(ground)}, {name}: {value} ({len(places)} questions)")
    yield "`mix` is below `naive`" + (" here:\n" if found else " nowhere (r@2, r@5, MRR).")
    yield from found
    yield ""


def _pairs(records: Records) -> list[tuple[Ground, Ground]]:
    """Grounds that the same code was also asked in lower case."""
    lower = {ground.store: ground for ground in records if ground.lower}
    return [
        (ground, lower[ground.store])
        for ground in records
        if not ground.lower and ground.store in lower
        and _code(records[ground]) == _code(records[lower[ground.store]]) != ""
    ]  # fmt: skip


def _code(record: Record) -> str:
    """Digest of the code that `mix` was measured with."""
    return record.systems[OURS].code if OURS in record.systems else ""


def _loss(ground: Ground, record: Record, lower: Record) -> tuple[str, ...]:
    """Of recall@5 by asking in lower case."""
    here, there = record.common([OURS]), set(lower.common([OURS]))
    places = [place for place in here if place in there]
    lost = difference(
        record.figures(OURS, "recall@5", places), lower.figures(OURS, "recall@5", places)
    )
    missed = 100 * lost.value - LOST
    verdict = "reached" if missed <= 0.05 else f"missed by {missed:.1f}"
    label = f"{title(ground)}: lost by questions in lower case"
    return (
        label,
        f"≤ {LOST:g}",
        f"{100 * lost.value:.1f}",
        _range(lost),
        str(lost.n),
        verdict,
        _code(lower),
    )


def _below(records: Records) -> Iterator[str]:
    """Where `mix` finds less than one of those it should never be below."""
    found, measured = [], 0
    for ground, record in records.items():
        if OURS not in record.systems:
            continue
        measured += 1
        others = [one for one in ("bm25", "dense", *_reference(record)) if one in record.systems]
        for name in others:
            gain = record.gain(OURS, name, "recall@5", record.common([OURS, name]))
            if gain.value < 0:
                value = f"{100 * gain.value:+.1f} {_range(gain)}"
                found.append(f"- {title(ground)}: {value} against {name}")
    yield f"On {measured} sets and variants so far, `mix` is below BM25, dense or a mode of"
    yield "`lightrag-hku` (recall@5 or coverage@5, both on the questions that both were asked)" + (
        " here:\n" if found else " nowhere."
    )
    yield from found
    yield ""


def _aim(aim: Aim, records: Records) -> tuple[str, ...]:
    record = next((r for g, r in records.items() if g.key == aim.ground), None)
    wanted = f"≥ {aim.least:g}"
    if record is None or OURS not in record.systems:
        return aim.label, wanted, "not measured", "", "", "", ""
    found = record.mean(OURS, aim.figure, record.common([OURS]))
    reached = 100 * found.value
    missed = aim.least - reached
    verdict = "reached" if missed <= 0.05 else f"missed by {missed:.1f}"
    if found.n < sum(map(bool, record.golds)):
        verdict = f"{verdict} on a sample"
    return aim.label, wanted, f"{reached:.1f}", _range(found), str(found.n), verdict, _code(record)


def _modes(records: Records) -> Iterator[str]:
    for form, chosen in forms(records):
        yield f"### {form}\n"
        names = _named(chosen.values())
        yield from head("system", *(ground.label for ground in chosen))
        for name in names:
            cells = [_cell(record, name, "recall@5", shared(record)) for record in chosen.values()]
            shown = f"**{name}**" if name == OURS else name
            yield row(shown, *cells)
        yield ""


def _gains(records: Records, results: Path) -> Iterator[str]:
    for form, chosen in forms(records):
        rows_ = [(ground, record) for ground, record in chosen.items() if OURS in record.systems]
        if not rows_:
            continue
        names = [one for one in _named(r for _, r in rows_) if one != OURS]
        yield f"### {form}\n"
        yield from head(f"{OURS} minus", *(ground.label for ground, _ in rows_))
        for name in names:
            yield row(name, *(_gain(record, name) for _, record in rows_))
        yield ""
    forest = [
        (ground.label, name, record.gain(OURS, name, "recall@5", record.common([OURS, name])))
        for ground, record in records.items()
        if OURS in record.systems and ground.store.titles and not ground.lower
        for name in ("bm25", "dense", "naive", best(record, _reference(record)))
        if name in record.systems
    ]
    plots.forest(forest, results / "gains.svg")
    yield "![mix minus others, with 95 % intervals](evaluation/gains.svg)\n"


def _gain(record: Record, name: str) -> str:
    if name not in record.systems or not (places := record.common([OURS, name])):
        return "–"
    found = record.gain(OURS, name, "recall@5", places)
    text = f"{100 * found.value:+.1f} {_range(found)}"
    return f"**{text}**" if found.high < 0 else text


def _encoded(records: Records, others: Records) -> list[tuple[str, Record, Record]]:
    """Sets that were also measured with another encoder."""
    return [(title(g), record, others[g]) for g, record in records.items() if g in others]


def _published(records: Records) -> Iterator[str]:
    record = next((r for g, r in records.items() if g.key == "2wiki-101"), None)
    if record is None:
        return
    names = [n for n in record.systems if n.startswith((PUBLISHED, PREFIX))]
    yield from head("system", "all gold among 8", "recall@5")
    names += [name for name in ORDER if name in record.systems]
    share = {name: record.mean(name, "all@8", record.common([name])).value for name in names}
    for name in sorted(names, key=lambda name: -share[name]):
        places = record.common([name])
        cells = (_cell(record, name, one, places) for one in ("all@8", "recall@5"))
        yield row(f"**{name}**" if name == OURS else name, *cells)
    yield ""


def _themes(records: Records) -> Iterator[str]:
    chosen = {g: r for g, r in records.items() if r.statements and not g.lower}
    yield from head("set", "system", "coverage@2", "coverage@5", "coverage@10", "questions")
    for ground, record in chosen.items():
        names = [n for n in ("naive", "global", "community", OURS) if n in record.systems]
        names += [n for n in [best(record, _reference(record))] if n]
        places = record.common(names, SUMMARIES)
        for name in names:
            cells = [_cell(record, name, f"recall@{k}", places) for k in (2, 5, 10)]
            yield row(ground.label, name, *cells, str(len(places)))
    yield ""


def _details(records: Records) -> Iterator[str]:
    for ground, record in records.items():
        yield f"### {title(ground)}\n"
        yield from head("system", *HEADS, "tokens", "calls", "ms", "questions", "code")
        places = shared(record)
        for name in _named([record]):
            outcome = record.systems[name]
            figures = [
                "–" if record.statements and not one.startswith("recall")
                else _cell(record, name, one, places)
                for one in FIGURES
            ]  # fmt: skip
            code = "" if name.startswith((PUBLISHED, PREFIX)) else outcome.code
            yield row(name, *figures, *_costs(name, outcome), str(len(places)), code)
        yield ""


def codes(records: Mapping[Ground, Record]) -> list[str]:
    """Which code each result is of: what was not measured with the newest is from the record."""
    found: dict[str, list[str]] = defaultdict(list)
    for ground, record in records.items():
        for name, outcome in record.systems.items():
            if not name.startswith(PUBLISHED):
                found[outcome.code].append(f"{ground.key} {name}")
    lines = []
    for code, results in sorted(found.items(), key=lambda item: -len(item[1])):
        some = ", ".join(results[:4]) + (", …" if len(results) > 4 else "")
        lines.append(f"    - `{code}`: {len(results)} results ({some})")
    return lines


def _costs(name: str, outcome: Outcome) -> tuple[str, str, str]:
    if name in ("bm25", "dense") or name.startswith(PUBLISHED):
        return "–", "–", "–"
    return f"{outcome.tokens:.0f}", f"{outcome.calls:.1f}", f"{outcome.ms:.0f}"


def _bars(records: Records) -> list[tuple[str, dict[str, float]]]:
    found = []
    for ground, record in records.items():
        if ground.lower or not ground.store.titles:
            continue
        systems = {name: name for name in ("bm25", "dense", "naive", OURS)}
        if theirs := best(record, _reference(record)):
            systems[theirs] = "lightrag-hku"
        places = record.common([name for name in systems if name in record.systems])
        found.append((ground.label, {
            shown: 100 * record.mean(name, "recall@5", places).value
            for name, shown in systems.items() if name in record.systems and places
        }))  # fmt: skip
    return found


# --- rows ----------------------------------------------------------------------------------------


def title(ground: Ground) -> str:
    """The set with what was done to it."""
    changes = [
        "" if ground.store.titles else "no titles", "questions in lower case" * ground.lower
    ]  # fmt: skip
    return ", ".join(filter(None, (ground.label, *changes)))


def forms(records: Records) -> list[tuple[str, Records]]:
    """The grounds by what was done to them."""
    groups = (
        ("As they are", True, False), ("Without titles", False, False),
        ("Questions in lower case", True, True),
    )  # fmt: skip
    found = []
    for name, titles, lower in groups:
        some = {g: r for g, r in records.items() if (g.store.titles, g.lower) == (titles, lower)}
        if some:
            found.append((name, some))
    return found


def shared(record: Record) -> list[int]:
    """Questions that all systems of a ground were asked."""
    return record.common(list(record.systems))


def best(record: Record, names: Sequence[str]) -> str:
    """The system with the highest recall@5; "" of none."""
    return max(
        names, default="",
        key=lambda name: record.mean(name, "recall@5", record.common([name])).value,
    )  # fmt: skip


def _reference(record: Record) -> list[str]:
    return [name for name in record.systems if name.startswith(PREFIX)]


def _named(records: Iterable[Record]) -> list[str]:
    known = {name for record in records for name in record.systems}
    plain = [name for name in ORDER if name in known]
    return plain + sorted(known - set(plain))


def _cell(record: Record, name: str, figure: str, places: Sequence[int]) -> str:
    if name not in record.systems or not places:
        return "–"
    return f"{100 * record.mean(name, figure, places).value:.1f}"


def _range(found: Interval) -> str:
    return f"[{100 * found.low:.1f}, {100 * found.high:.1f}]"
