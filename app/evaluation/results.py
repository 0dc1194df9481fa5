"""From outcomes to figures with intervals, comparisons, and what they say in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.evaluation.intervals import SEED, Interval, means
from app.evaluation.metrics import ALL_GOLD_AT, COVERAGE_AT, NDCG_AT, RECALL_AT, TRIPLES_AT
from app.evaluation.run import Key, Outcome
from app.evaluation.targets import Variant


class Meaning(NamedTuple):
    """How a figure is shown: as a share in percent, or as a plain number; and whether more is
    better."""

    title: str
    share: bool = True
    more: bool = True


FIGURES: Mapping[str, Meaning] = {
    **{f"recall@{k}": Meaning(f"recall@{k}") for k in RECALL_AT},
    f"all_gold@{ALL_GOLD_AT}": Meaning(f"all gold@{ALL_GOLD_AT}"),
    "mrr": Meaning("MRR"),
    f"ndcg@{NDCG_AT}": Meaning(f"nDCG@{NDCG_AT}"),
    **{f"coverage@{k}": Meaning(f"coverage@{k}") for k in COVERAGE_AT},
    **{f"triple_recall@{k}": Meaning(f"triples@{k}") for k in TRIPLES_AT},
    "exact_match": Meaning("exact match"),
    "f1": Meaning("F1"),
    "contains": Meaning("contains"),
    "context_tokens": Meaning("context tokens", share=False, more=False),
    "model_calls": Meaning("model calls", share=False, more=False),
    "model_tokens": Meaning("model tokens", share=False, more=False),
    "ms": Meaning("ms", share=False, more=False),
    "answer_calls": Meaning("calls to answer", share=False, more=False),
    "answer_tokens": Meaning("tokens to answer", share=False, more=False),
    "answer_ms": Meaning("ms to answer", share=False, more=False),
}
HEADLINES = ("recall@5", "coverage@5", "triple_recall@50", "f1")  # the first that there is decides
PLAIN = "naive"
ENOUGH = 0.05  # what a mode could gain at most where the plain one is said to be enough


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of `mode` minus those of `against`, over the questions that both have."""

    mode: str
    against: str
    figures: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Results:
    """All of one evaluation; `figures` by label of the mode and name of the figure. `errors`: how
    many questions had no usable reply of a model."""

    figures: Mapping[str, Mapping[str, Interval]]
    comparisons: tuple[Comparison, ...]
    errors: Mapping[str, int]
    headline: str
    summary: tuple[str, ...] = field(default=())


def results_of(
    outcomes: Mapping[Key, Outcome], variants: Sequence[Variant], *,
    against: str = "", seed: int = SEED,
) -> Results:  # fmt: skip
    """`against`: label of the mode that the others are compared with; "" takes the plain one, else
    the first."""
    labels = [one.label for one in variants]
    base = against or next((one.label for one in variants if one.mode == PLAIN), labels[0])
    by_mode = {
        label: {key.case: one for key, one in outcomes.items() if key.mode == label}
        for label in labels
    }
    figures = {label: _figures(found, seed) for label, found in by_mode.items()}
    comparisons = tuple(
        Comparison(label, base, _differences(by_mode[label], by_mode[base], seed))
        for label in labels
        if label != base
    )
    headline = next(
        (name for name in HEADLINES if any(name in found for found in figures.values())), ""
    )
    errors = {
        label: count
        for label, found in by_mode.items()
        if (count := sum(bool(one.error) for one in found.values()))
    }
    summary = sentences(
        figures, comparisons, base, headline, errors, plain=_is_plain(base, variants)
    )
    return Results(figures, comparisons, errors, headline, tuple(summary))


def _is_plain(label: str, variants: Sequence[Variant]) -> bool:
    return any(one.label == label and one.mode == PLAIN for one in variants)


def _figures(found: Mapping[str, Outcome], seed: int) -> dict[str, Interval]:
    values = {
        name: [one.figures[name] for one in found.values() if name in one.figures]
        for name in FIGURES
    }
    return means({name: given for name, given in values.items() if given}, seed=seed)


def _differences(
    ours: Mapping[str, Outcome], theirs: Mapping[str, Outcome], seed: int
) -> dict[str, Interval]:
    """Of questions that both have a figure of."""
    pairs = [(one.figures, theirs[case].figures) for case, one in ours.items() if case in theirs]
    gaps = {
        name: [a[name] - b[name] for a, b in pairs if name in a and name in b] for name in FIGURES
    }
    return means({name: given for name, given in gaps.items() if given}, seed=seed)


# --- in words ------------------------------------------------------------------------------------


def sentences(
    figures: Mapping[str, Mapping[str, Interval]], comparisons: Sequence[Comparison], base: str,
    headline: str, errors: Mapping[str, int], *, plain: bool,
) -> list[str]:  # fmt: skip
    """What the figures say, no more than they do."""
    said = []
    compared = [one for one in comparisons if headline in one.figures]
    if not headline:
        said.append("No question has gold, evidence or answers: only costs could be measured.")
    elif compared:
        best = max(compared, key=lambda one: one.figures[headline].value)
        said.append(_verdict(best, figures, base, headline, plain=plain))
    elif headline in figures.get(base, {}):
        found = figures[base][headline]
        said.append(f"{base}: {_title(headline)} {shown(headline, found)}, {found.n} questions.")
    said += [
        f"{label}: {count} questions had no usable reply of the model and count as nothing found."
        for label, count in errors.items()
    ]
    return said


def _verdict(
    best: Comparison, figures: Mapping[str, Mapping[str, Interval]], base: str, headline: str, *,
    plain: bool,
) -> str:  # fmt: skip
    found = best.figures[headline]
    gap = (
        f"{best.mode} − {base} = {shown(headline, found, signed=True)} points of "
        f"{_title(headline)}, {found.n} questions"
    )
    kind = f"Plain retrieval ({base})" if plain else base
    costs = _extra(best)
    if found.low > 0 and found.clear:
        return f"{best.mode} is worth it for you: {gap}{costs}."
    if found.high < 0 and found.clear:
        return f"{kind} is the best for you: the nearest other mode does worse, {gap}."
    if found.high <= ENOUGH or not FIGURES[headline].share:
        return f"{kind} is enough for you: {gap}{costs}."
    return f"These questions cannot tell the modes apart, ask more of them: {gap}{costs}."


def _extra(best: Comparison) -> str:
    """What the better mode costs beyond the other, where that is more than chance."""
    told = []
    for name, unit in (("model_calls", "model calls"), ("ms", "ms")):
        more = best.figures.get(name)
        if more is not None and more.clear:
            told.append(f"{more.value:+.1f} {unit}".replace("-", "−"))
    return f"; {' and '.join(told)} a question" if told else ""


def _title(name: str) -> str:
    return FIGURES[name].title


def shown(name: str, found: Interval, *, signed: bool = False) -> str:
    """A value with its interval: shares in percent, others as they are."""
    value, low, high = (_number(name, one, signed=signed) for one in found[:3])
    return f"{value} [{low}, {high}]"


def _number(name: str, value: float, *, signed: bool) -> str:
    meaning = FIGURES[name]
    value = 100 * value if meaning.share else value
    digits = 1 if meaning.share or abs(value) < 100 else 0
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", "−")
