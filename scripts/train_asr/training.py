"""From examples to parameters: AdamW with warm-up and cosine decay, noise, early choice by recall.

Everything is drawn from the seed, and sums are always taken in the same order: equal seeds give
equal bytes (with one thread for matrix products).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.query.anchored.features import features
from app.query.anchored.network import Network, shapes
from scripts.train_asr.examples import Example, noisy, smaller
from scripts.train_asr.gradients import loss_and_gradient
from scripts.train_asr.measuring import recall_of, score_all

Arrays = dict[str, Any]

SMALL = 0.1
PRIOR = 0.5  # what the prior counts at first


@dataclass(frozen=True, slots=True)
class Recipe:
    """`without`: parts to leave out, as at run time (anchors, gate, gnn, path, topic)."""

    width: int = 32
    epochs: int = 8
    rate: float = 4e-3
    decay: float = 1e-2
    clip: float = 1.0
    batch: int = 8
    warm_up: float = 0.1
    pool: int = 400  # relations of an example in training
    chosen_at: int = 10  # k of the recall by which the epoch is chosen
    without: frozenset[str] = frozenset()


def train(
    training: Sequence[Example], validation: Sequence[Example], recipe: Recipe, seed: int
) -> tuple[Arrays, float]:
    """Parameters of the best epoch, and its recall on the validation examples."""
    dice = np.random.default_rng(seed)
    usable = [smaller(one, recipe.pool) for one in training if one.bags]
    parameters = initial(recipe.width, dice)
    optimiser = _Adam(parameters, recipe)
    steps = recipe.epochs * math.ceil(len(usable) / recipe.batch)
    best, reached, step = dict(parameters), -1.0, 0
    for _ in range(recipe.epochs):
        order = dice.permutation(len(usable))
        for start in range(0, len(order), recipe.batch):
            batch = [usable[row] for row in order[start : start + recipe.batch]]
            gradient = _gradient(parameters, batch, recipe, dice)
            parameters = optimiser.step(parameters, gradient, _rate(step, steps, recipe))
            step += 1
        found = recall_of(validation, score_all(network_of(parameters, recipe), validation,
                          without=recipe.without), recipe.chosen_at)  # fmt: skip
        if found > reached:
            best, reached = dict(parameters), found
    return best, reached


def network_of(parameters: Mapping[str, Any], recipe: Recipe) -> Network:
    single = {name: np.asarray(value, np.float32) for name, value in parameters.items()}
    return Network(single, gate="gate" not in recipe.without, gnn="gnn" not in recipe.without)


def initial(width: int, dice: np.random.Generator) -> Arrays:
    """He's scale for what goes into a relu; biases 0. The last layer begins small: at first the
    prior scores, and what is learned is where it is wrong."""
    made: Arrays = {}
    for name, shape in shapes(width).items():
        if len(shape) == 2 and not name.startswith(("b_", "c")):
            made[name] = dice.normal(0, math.sqrt(1 / shape[0]), shape).astype(np.float32)
        else:
            made[name] = np.zeros(shape, np.float32)
    made["w_2"] = dice.normal(0, 0.25, made["w_2"].shape).astype(np.float32)
    made["w"] = dice.normal(0, SMALL / math.sqrt(width), (width,)).astype(np.float32)
    made["s"] = np.float32(PRIOR)
    return made


def _gradient(
    parameters: Arrays, batch: Sequence[Example], recipe: Recipe, dice: np.random.Generator
) -> Arrays:
    total = {name: np.zeros_like(value) for name, value in parameters.items()}
    for one in batch:
        changed = noisy(one, dice)
        seen = features(changed.view, without=recipe.without)
        _, gradient = loss_and_gradient(
            parameters, changed.view, seen, changed.bags,
            gate="gate" not in recipe.without, gnn="gnn" not in recipe.without,
        )  # fmt: skip
        for name, value in gradient.items():
            total[name] = total[name] + value / len(batch)
    return total


def _rate(step: int, steps: int, recipe: Recipe) -> float:
    warm = max(1, int(recipe.warm_up * steps))
    if step < warm:
        return recipe.rate * (step + 1) / warm
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


class _Adam:
    """AdamW (Loshchilov and Hutter 2019), the gradient clipped to a length."""

    def __init__(self, parameters: Arrays, recipe: Recipe) -> None:
        self._recipe = recipe
        self._mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._square = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._steps = 0

    def step(self, parameters: Arrays, gradient: Arrays, rate: float) -> Arrays:
        length = math.sqrt(sum(float((one * one).sum()) for one in gradient.values()))
        scale = min(1.0, self._recipe.clip / (length + 1e-12))
        self._steps += 1
        changed: Arrays = {}
        for name, value in parameters.items():
            g = gradient[name] * scale
            self._mean[name] = 0.9 * self._mean[name] + 0.1 * g
            self._square[name] = 0.999 * self._square[name] + 0.001 * g * g
            mean = self._mean[name] / (1 - 0.9**self._steps)
            square = self._square[name] / (1 - 0.999**self._steps)
            decay = self._recipe.decay if np.ndim(value) == 2 else 0.0
            moved = mean / (np.sqrt(square) + 1e-8) + decay * value
            changed[name] = (value - rate * moved).astype(np.float32)
        return changed
