"""Trains with several seeds, measures on sets that were not trained on, and says what may ship."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app import __version__
from app.query.anchored.features import View
from app.query.anchored.weights import write
from scripts.train_asr.examples import Example
from scripts.train_asr.measuring import by_cosine, by_prior, recall_of, score_all
from scripts.train_asr.training import Arrays, Recipe, network_of, train

AT = (2, 5, 10, 20)
VALIDATION = 5  # one example in so many chooses the epoch
GAIN, LOSS = 2.0, 1.0  # points of recall@10: what weights must gain on two sets in three, may lose

ABLATIONS: Mapping[str, frozenset[str]] = {
    "asr": frozenset(),
    "no gate": frozenset({"gate"}),
    "no network": frozenset({"gate", "gnn"}),
    "no anchors": frozenset({"anchors"}),
    "no path": frozenset({"path"}),
    "no topic": frozenset({"topic"}),
    "subgraph": frozenset({"anchors", "gate", "gnn"}),
}

Sets = Mapping[str, Sequence[Example]]


@dataclass(frozen=True, slots=True)
class Row:
    """Recall at 2, 5, 10 and 20 of one scorer on one set, a list per seed."""

    scorer: str
    set: str
    recalls: tuple[tuple[float, ...], ...]

    def mean(self, k: int) -> float:
        return statistics.fmean(one[AT.index(k)] for one in self.recalls)

    def __str__(self) -> str:
        cells = []
        for place in range(len(AT)):
            values = [one[place] for one in self.recalls]
            spread = f" ±{statistics.stdev(values):3.1f}" if len(values) > 1 else " " * 5
            cells.append(f"{statistics.fmean(values):5.1f}{spread}")
        return f"{self.scorer:12} {self.set:14} " + "  ".join(cells)


def split(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """By place: every fifth chooses the epoch, the others are trained on."""
    return (
        [one for place, one in enumerate(examples) if place % VALIDATION],
        [one for place, one in enumerate(examples) if place % VALIDATION == 0],
    )


def fit(sets: Sets, recipe: Recipe, seed: int) -> Arrays:
    """Of all sets together, each taken in proportion to its size."""
    training, validation = [], []
    for examples in sets.values():
        its, held = split(examples)
        training += its
        validation += held
    return train(training, validation, recipe, seed)[0]


def baselines(sets: Sets) -> list[Row]:
    rows = []
    for name, examples in sets.items():
        for scorer, function in (("cosine", by_cosine), ("prior", by_prior)):
            rows.append(Row(scorer, name, (_recalls(examples, score_all(function, examples)),)))
    return rows


def trained(
    training: Sets, held_out: Sets, recipe: Recipe, seeds: Sequence[int], *, scorer: str = "weights"
) -> tuple[list[Row], list[Arrays]]:
    """Trained on all of `training`, measured on each of `held_out`."""
    found = [fit(training, recipe, seed) for seed in seeds]
    rows = [
        Row(scorer, name, tuple(measured(parameters, recipe, examples) for parameters in found))
        for name, examples in held_out.items()
    ]
    return rows, found


def measured(parameters: Arrays, recipe: Recipe, examples: Sequence[Example]) -> tuple[float, ...]:
    network = network_of(parameters, recipe)
    return _recalls(examples, score_all(network, examples, without=recipe.without))


def flipped(examples: Sequence[Example]) -> list[Example]:
    """With the ends of all relations swapped: recall should hardly change."""
    return [
        replace(one, view=replace(one.view, head=one.view.tail, tail=one.view.head))
        for one in examples
    ]


def may_ship(rows: Sequence[Row]) -> tuple[bool, list[str]]:
    """Of rows on sets not trained on: at least 2 points of recall@10 above the prior on two sets in
    three, more than 1 below it on none."""
    prior = {row.set: row.mean(10) for row in rows if row.scorer == "prior"}
    weights = {row.set: row.mean(10) for row in rows if row.scorer == "weights"}
    differences = {name: weights[name] - prior[name] for name in weights}
    gained = [name for name, points in differences.items() if points >= GAIN]
    lost = [name for name, points in differences.items() if points < -LOSS]
    lines = [f"{name}: {points:+.1f} points of recall@10" for name, points in differences.items()]
    return 3 * len(gained) >= 2 * len(differences) > 0 and not lost, lines


def written(
    parameters: Arrays, recipe: Recipe, seed: int, trained_on: Sequence[Mapping[str, Any]],
    rows: Sequence[Row],
) -> bytes:  # fmt: skip
    """The file, with what a reader should know of it in its header."""
    header = {
        "seed": seed,
        "epochs": recipe.epochs,
        "trained_on": list(trained_on),
        "recall": {
            f"{row.set} {row.scorer}": dict(zip(map(str, AT), row.recalls[0], strict=True))
            for row in rows
        },
        "made_with": {
            "heliograph": __version__, "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }  # fmt: skip
    return write(parameters, header, sample())


def sample() -> View:
    """Eight relations around six entities, a topic and two anchors: what a reader computes to see
    that the file does what it did here."""
    ends = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4), (2, 2)]
    return View(
        head=np.array([head for head, _ in ends], np.int64),
        tail=np.array([tail for _, tail in ends], np.int64),
        topics=np.array([0], np.int64),
        anchors=np.array([row in (3, 6) for row in range(8)], np.bool_),
        relation=np.linspace(-0.2, 0.9, 8, dtype=np.float32),
        themes=np.linspace(0.6, -0.1, 8, dtype=np.float32),
        entity=np.linspace(0.1, 0.7, 6, dtype=np.float32),
        names=np.array([1, 0, 0, 0.3, 0, 0], np.float32),
    )


def _recalls(examples: Sequence[Example], scores: Sequence[Any]) -> tuple[float, ...]:
    return tuple(round(recall_of(examples, scores, k), 2) for k in AT)
