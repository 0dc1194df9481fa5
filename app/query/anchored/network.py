"""The network that scores relations: two rounds of gated messages, then a layer over each relation.

x = relu(S·W_s + P·W_p + b); twice, in both directions d of every relation:
    m = relu(x_src·W_m + X·W_r + b_d),  g = σ(w₂·relu(P_src·A + P_dst·B + c_d) + b₂)
    x ← relu(x·W_x + mean(g·m)·W_a + b_u)
score = s·prior + b_0
    + w·relu(X·W_1 + x_h·F_h + x_t·F_t + P_h·Q_h + P_t·Q_t + S_h·E_h + S_t·E_t + b)

The network corrects the prior, which a few hundred questions could not teach it as well. The gate
sees structure alone. P reaches the scorer whether or not there are messages, so that
leaving them out measures messages. Projections come before gathering: N·H² instead of T·H².
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.query.anchored import prior
from app.query.anchored.distances import Floats
from app.query.anchored.features import P_NAMES, S_NAMES, X_NAMES, Features, View

LAYERS = 2
GATE_WIDTH = 16
_P, _S, _X = len(P_NAMES), len(S_NAMES), len(X_NAMES)

Parameters = Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Network:
    """`gate` and `gnn` off: without the gate (g = 1), without messages."""

    parameters: Parameters
    gate: bool = True
    gnn: bool = True

    def scores(self, view: View, seen: Features) -> Floats:
        """(relations,)"""
        p = self.parameters
        at_head = seen.P @ p["Q_h"] + seen.S @ p["E_h"]
        at_tail = seen.P @ p["Q_t"] + seen.S @ p["E_t"]
        if self.gnn:
            x = self._nodes(seen)
            at_head += x @ p["F_h"]
            at_tail += x @ p["F_t"]
        hidden = seen.X @ p["W_1"] + at_head[view.head] + at_tail[view.tail] + p["b"]
        result: Floats = np.maximum(hidden, 0) @ p["w"] + p["b_0"]
        return result + p["s"] * prior.score(view, seen)

    def gates(self, seen: Features) -> Floats:
        """(2·relations,) in (0, 1), in the order of `seen.around`; from P alone."""
        p, around = self.parameters, seen.around
        if not self.gate:
            return np.ones(len(around.sender), np.float32)
        receiver = np.repeat(around.receiver, around.counts)
        side = around.against.astype(np.int64)
        hidden = (seen.P @ p["A"])[around.sender] + (seen.P @ p["B"])[receiver] + p["c"][side]
        result: Floats = 1 / (1 + np.exp(-(np.maximum(hidden, 0) @ p["w_2"] + p["b_2"])))
        return result

    def _nodes(self, seen: Features) -> Floats:
        p, around = self.parameters, seen.around
        gates = self.gates(seen)[:, None]
        side = around.against.astype(np.int64)
        x: Floats = np.maximum(seen.S @ p["W_s"] + seen.P @ p["W_p"] + p["b_in"], 0)
        for layer in range(LAYERS):
            relation = seen.X @ p[f"W_r{layer}"]
            said = (x @ p[f"W_m{layer}"])[around.sender] + relation[around.edge]
            said += p[f"b_m{layer}"][side]
            heard = around.mean(np.maximum(said, 0) * gates)
            x = np.maximum(x @ p[f"W_x{layer}"] + heard @ p[f"W_a{layer}"] + p[f"b_u{layer}"], 0)
        return x


def shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Of all parameters, for a network of so many hidden units."""
    inner = {
        f"{name}{layer}": shape
        for layer in range(LAYERS)
        for name, shape in (
            ("W_m", (width, width)), ("W_r", (_X, width)), ("b_m", (2, width)),
            ("W_x", (width, width)), ("W_a", (width, width)), ("b_u", (width,)),
        )
    }  # fmt: skip
    return {
        "W_s": (_S, width), "W_p": (_P, width), "b_in": (width,),
        "A": (_P, GATE_WIDTH), "B": (_P, GATE_WIDTH), "c": (2, GATE_WIDTH),
        "w_2": (GATE_WIDTH,), "b_2": (),
        **inner,
        "W_1": (_X, width), "F_h": (width, width), "F_t": (width, width),
        "Q_h": (_P, width), "Q_t": (_P, width), "E_h": (_S, width), "E_t": (_S, width),
        "b": (width,), "w": (width,), "b_0": (), "s": (),
    }  # fmt: skip


def check(parameters: Mapping[str, Any], width: int) -> Parameters:
    """As float32. `ValueError` for missing, further, misshapen or non-finite ones."""
    wanted = shapes(width)
    if parameters.keys() != wanted.keys():
        raise ValueError(f"parameters differ: {sorted(parameters.keys() ^ wanted.keys())}")
    checked = {}
    for name, shape in wanted.items():
        value = np.asarray(parameters[name], np.float32)
        if value.shape != shape or not np.isfinite(value).all():
            raise ValueError(f"parameter {name} has another shape, or is not finite")
        checked[name] = value
    return checked
