"""Loss of the network of `app.query.anchored.network` and its gradient, by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.query.anchored import prior
from app.query.anchored.features import Features, View
from app.query.anchored.network import LAYERS

Arrays = dict[str, Any]


def loss_and_gradient(
    p: Mapping[str, Any], view: View, seen: Features, bags: Sequence[NDArray[np.int64]], *,
    gate: bool = True, gnn: bool = True,
) -> tuple[float, Arrays]:  # fmt: skip
    """Mean over bags of -log(sum of softmax over the bag's relations), and its gradient."""
    scores, tape = forward(p, view, seen, gate=gate, gnn=gnn)
    shifted = np.exp(scores - scores.max())
    probability = shifted / shifted.sum()
    loss, wanted = 0.0, np.zeros_like(probability)
    for bag in bags:
        mass = probability[bag].sum() + 1e-12
        loss -= float(np.log(mass)) / len(bags)
        wanted[bag] += probability[bag] / mass / len(bags)
    return loss, backward(p, view, seen, tape, probability - wanted, gate=gate, gnn=gnn)


def forward(
    p: Mapping[str, Any], view: View, seen: Features, *, gate: bool, gnn: bool
) -> tuple[Any, Arrays]:
    """Scores, and what the way back needs."""
    tape: Arrays = {}
    hidden = seen.X @ p["W_1"] + p["b"]
    hidden = hidden + (seen.P @ p["Q_h"] + seen.S @ p["E_h"])[view.head]
    hidden = hidden + (seen.P @ p["Q_t"] + seen.S @ p["E_t"])[view.tail]
    if gnn:
        x = _nodes(p, seen, tape, gate=gate)
        hidden = hidden + (x @ p["F_h"])[view.head] + (x @ p["F_t"])[view.tail]
    tape["hidden"] = hidden
    tape["prior"] = prior.score(view, seen)
    return np.maximum(hidden, 0) @ p["w"] + p["b_0"] + p["s"] * tape["prior"], tape


def _nodes(p: Mapping[str, Any], seen: Features, tape: Arrays, *, gate: bool) -> Any:
    around = seen.around
    side = around.against.astype(np.int64)
    receiver = np.repeat(around.receiver, around.counts)
    g: Any = np.ones(len(side))
    if gate:
        inner = (seen.P @ p["A"])[around.sender] + (seen.P @ p["B"])[receiver] + p["c"][side]
        g = 1 / (1 + np.exp(-(np.maximum(inner, 0) @ p["w_2"] + p["b_2"])))
        tape["inner"] = inner
    tape["gates"], tape["side"], tape["receiver"] = g, side, receiver
    before = seen.S @ p["W_s"] + seen.P @ p["W_p"] + p["b_in"]
    x = np.maximum(before, 0)
    tape["before"] = before
    for layer in range(LAYERS):
        said = (x @ p[f"W_m{layer}"])[around.sender] + (seen.X @ p[f"W_r{layer}"])[around.edge]
        said = said + p[f"b_m{layer}"][side]
        heard = np.zeros((around.nodes, said.shape[1]))
        if len(said):
            sums = np.add.reduceat(np.maximum(said, 0) * g[:, None], around.starts, axis=0)
            heard[around.receiver] = sums / around.counts[:, None]
        after = x @ p[f"W_x{layer}"] + heard @ p[f"W_a{layer}"] + p[f"b_u{layer}"]
        tape[f"x{layer}"], tape[f"said{layer}"] = x, said
        tape[f"heard{layer}"], tape[f"after{layer}"] = heard, after
        x = np.maximum(after, 0)
    tape["x"] = x
    return x


def backward(
    p: Mapping[str, Any], view: View, seen: Features, tape: Arrays, d_scores: Any, *,
    gate: bool, gnn: bool,
) -> Arrays:  # fmt: skip
    """Gradient of all parameters; those that are not used have 0."""
    d: Arrays = {name: np.zeros_like(value) for name, value in p.items()}
    nodes = view.nodes
    d["w"] = np.maximum(tape["hidden"], 0).T @ d_scores
    d["b_0"], d["s"] = d_scores.sum(), d_scores @ tape["prior"]
    d_hidden = d_scores[:, None] * p["w"] * (tape["hidden"] > 0)
    d["W_1"], d["b"] = seen.X.T @ d_hidden, d_hidden.sum(axis=0)
    at_head, at_tail = _sums(d_hidden, view.head, nodes), _sums(d_hidden, view.tail, nodes)
    d["Q_h"], d["Q_t"] = seen.P.T @ at_head, seen.P.T @ at_tail
    d["E_h"], d["E_t"] = seen.S.T @ at_head, seen.S.T @ at_tail
    if gnn:
        d["F_h"], d["F_t"] = tape["x"].T @ at_head, tape["x"].T @ at_tail
        _back_through_nodes(
            p, seen, tape, d, at_head @ p["F_h"].T + at_tail @ p["F_t"].T, gate=gate
        )
    return d


def _back_through_nodes(
    p: Mapping[str, Any], seen: Features, tape: Arrays, d: Arrays, d_x: Any, *, gate: bool
) -> None:
    around, side, receiver = seen.around, tape["side"], tape["receiver"]
    d_gates = np.zeros(len(side))
    shares = 1 / np.repeat(around.counts, around.counts)
    for layer in reversed(range(LAYERS)):
        d_after = d_x * (tape[f"after{layer}"] > 0)
        x, said = tape[f"x{layer}"], tape[f"said{layer}"]
        d[f"W_x{layer}"], d[f"W_a{layer}"] = x.T @ d_after, tape[f"heard{layer}"].T @ d_after
        d[f"b_u{layer}"] = d_after.sum(axis=0)
        d_message = (d_after @ p[f"W_a{layer}"].T)[receiver] * shares[:, None]
        d_gates += (d_message * np.maximum(said, 0)).sum(axis=1)
        d_said = d_message * tape["gates"][:, None] * (said > 0)
        sent = _sums(d_said, around.sender, around.nodes)
        d[f"W_m{layer}"] = x.T @ sent
        d[f"W_r{layer}"] = seen.X.T @ _sums(d_said, around.edge, len(seen.X))
        d[f"b_m{layer}"] = np.stack([d_said[side == one].sum(axis=0) for one in (0, 1)])
        d_x = d_after @ p[f"W_x{layer}"].T + sent @ p[f"W_m{layer}"].T
    d_before = d_x * (tape["before"] > 0)
    d["W_s"], d["W_p"] = seen.S.T @ d_before, seen.P.T @ d_before
    d["b_in"] = d_before.sum(axis=0)
    if gate:
        _back_through_gate(p, seen, tape, d, d_gates)


def _back_through_gate(
    p: Mapping[str, Any], seen: Features, tape: Arrays, d: Arrays, d_gates: Any
) -> None:
    around, side, inner = seen.around, tape["side"], tape["inner"]
    d_logit = d_gates * tape["gates"] * (1 - tape["gates"])
    d["w_2"], d["b_2"] = np.maximum(inner, 0).T @ d_logit, d_logit.sum()
    d_inner = d_logit[:, None] * p["w_2"] * (inner > 0)
    d["A"] = seen.P.T @ _sums(d_inner, around.sender, around.nodes)
    d["B"] = seen.P.T @ _sums(d_inner, tape["receiver"], around.nodes)
    d["c"] = np.stack([d_inner[side == one].sum(axis=0) for one in (0, 1)])


def _sums(rows: Any, at: NDArray[np.int64], count: int) -> Any:
    """Rows added up by place; always in the same order, so that equal runs give equal bytes."""
    result = np.zeros((count, rows.shape[1]), rows.dtype)
    if len(rows):
        order = np.argsort(at, kind="stable")
        places, starts = np.unique(at[order], return_index=True)
        result[places] = np.add.reduceat(rows[order], starts, axis=0)
    return result
