from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.query.anchored import prior, weights
from app.query.anchored.features import Features, View, features, schema
from app.query.anchored.network import Network, shapes
from scripts.train_asr.gradients import forward, loss_and_gradient
from tests.unit.query.anchored.test_features import permuted
from tests.unit.query.anchored.test_features import shapes as sizes
from tests.unit.query.anchored.views import random_view

WIDTH = 8


def parameters(seed: int = 0, width: int = WIDTH) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    return {
        name: dice.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes(width).items()
    }


def slow_scores(p: dict[str, Any], view: View, seen: Features, *, gate: bool) -> list[float]:
    """The equations, relation by relation."""

    def relu(value: Any) -> Any:
        return np.maximum(value, 0)

    base = prior.score(view, seen)
    edges = list(zip(view.head.tolist(), view.tail.tolist(), strict=True))
    P, S, X = (np.asarray(one, np.float64) for one in (seen.P, seen.S, seen.X))
    x = [relu(S[v] @ p["W_s"] + P[v] @ p["W_p"] + p["b_in"]) for v in range(view.nodes)]
    for layer in range(2):
        heard: list[list[Any]] = [[] for _ in x]
        for i, (h, t) in enumerate(edges):
            for side, (source, target) in enumerate(((h, t), (t, h))):
                m = relu(
                    x[source] @ p[f"W_m{layer}"] + X[i] @ p[f"W_r{layer}"] + p[f"b_m{layer}"][side]
                )
                inner = relu(P[source] @ p["A"] + P[target] @ p["B"] + p["c"][side])
                g = 1 / (1 + np.exp(-(inner @ p["w_2"] + p["b_2"]))) if gate else 1.0
                heard[target].append(g * m)
        x = [
            relu(
                x[v] @ p[f"W_x{layer}"]
                + (np.mean(heard[v], axis=0) if heard[v] else np.zeros(WIDTH)) @ p[f"W_a{layer}"]
                + p[f"b_u{layer}"]
            )
            for v in range(view.nodes)
        ]
    return [
        float(
            relu(
                X[i] @ p["W_1"] + x[h] @ p["F_h"] + x[t] @ p["F_t"] + P[h] @ p["Q_h"]
                + P[t] @ p["Q_t"] + S[h] @ p["E_h"] + S[t] @ p["E_t"] + p["b"]
            ) @ p["w"] + p["b_0"] + p["s"] * base[i]
        )
        for i, (h, t) in enumerate(edges)
    ]  # fmt: skip


@pytest.mark.parametrize("gate", [True, False])
def test_scores_equal_the_slow_reference(gate: bool) -> None:
    for seed in range(30):
        view = random_view(seed, **sizes(seed))
        seen, p = features(view), parameters(seed)
        fast = Network(p, gate=gate).scores(view, seen)
        np.testing.assert_allclose(
            fast, slow_scores(p, view, seen, gate=gate), rtol=1e-3, atol=1e-3
        )


def test_the_gate_sees_structure_alone() -> None:
    view = random_view(11)
    other = replace(view, entity=view.entity[::-1].copy(), names=1 - view.names)
    one, two = features(view), features(other)
    network = Network(parameters())
    assert not np.array_equal(one.S, two.S)
    np.testing.assert_array_equal(network.gates(one), network.gates(two))
    gates = network.gates(one)
    assert ((gates > 0) & (gates < 1)).all()
    assert (Network(parameters(), gate=False).gates(one) == 1).all()


def test_permuting_relations_and_entities_permutes_scores() -> None:
    for seed in range(10):
        view = random_view(seed, relations=30, nodes=15)
        dice = np.random.default_rng(seed)
        rows, nodes = dice.permutation(30), dice.permutation(15)
        other = permuted(view, rows, nodes)
        network = Network(parameters(seed))
        before = network.scores(view, features(view))
        after = network.scores(other, features(other))
        np.testing.assert_allclose(after, before[rows], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("gate", "gnn"), [(True, True), (False, True), (True, False)])
def test_the_trainer_computes_the_same_scores(gate: bool, gnn: bool) -> None:
    for seed in range(20):
        view = random_view(seed, **sizes(seed))
        seen, p = features(view), parameters(seed)
        trained, _ = forward(p, view, seen, gate=gate, gnn=gnn)
        served = Network(p, gate=gate, gnn=gnn).scores(view, seen)
        np.testing.assert_allclose(served, trained, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("gate", "gnn"), [(True, True), (False, True), (True, False)])
def test_gradients_are_those_of_finite_differences(gate: bool, gnn: bool) -> None:
    view = random_view(4, relations=25, nodes=12, topics=2, anchors=4)
    exact = features(view)
    seen = replace(
        exact, P=exact.P.astype(np.float64), S=exact.S.astype(np.float64),
        X=exact.X.astype(np.float64),
    )  # fmt: skip
    p = {name: value.astype(np.float64) for name, value in parameters(3).items()}
    bags = [np.array([1]), np.array([5, 9])]

    def loss(changed: dict[str, Any]) -> float:
        return loss_and_gradient(changed, view, seen, bags, gate=gate, gnn=gnn)[0]

    _, gradient = loss_and_gradient(p, view, seen, bags, gate=gate, gnn=gnn)
    dice = np.random.default_rng(0)
    for name, value in p.items():
        for _ in range(4):
            place = tuple(int(dice.integers(n)) for n in value.shape)
            step = np.zeros_like(value)
            step[place] = 1e-6
            slope = (loss(p | {name: value + step}) - loss(p | {name: value - step})) / 2e-6
            assert gradient[name][place] == pytest.approx(slope, rel=1e-3, abs=1e-7), name


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def file() -> bytes:
    return weights.write(parameters(), {"seed": 1, "trained_on": []}, random_view(2, relations=8))


def test_weights_come_back_as_they_were_written(file: bytes) -> None:
    found = weights.parse(file)
    assert found.header["seed"] == 1
    assert found.header["schema"] == schema()
    for name, value in parameters().items():
        np.testing.assert_allclose(found.network.parameters[name], value, atol=2e-3)
    again = weights.write(parameters(), {"seed": 1, "trained_on": []}, random_view(2, relations=8))
    assert again == file
    assert weights.parse(again).version == found.version


def changed(file: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    with np.load(io.BytesIO(file)) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    change(arrays)
    target = io.BytesIO()
    np.savez(target, **arrays)
    return target.getvalue()


def headed(arrays: dict[str, Any], **values: Any) -> None:
    header = json.loads(bytes(arrays["header"]).decode()) | values
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)


def _drop(arrays: dict[str, Any]) -> None:
    del arrays["p_w"]


def _spoil(arrays: dict[str, Any]) -> None:
    arrays["p_w"] = arrays["p_w"] * np.float16("nan")


def _bend(arrays: dict[str, Any]) -> None:
    arrays["p_w"] = arrays["p_w"] * np.float16(1.5)


def _reshape(arrays: dict[str, Any]) -> None:
    arrays["p_F_h"] = arrays["p_F_h"][:3]


def _point_outside(arrays: dict[str, Any]) -> None:
    arrays["example_head"] = arrays["example_head"] + 1000


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda arrays: headed(arrays, schema="0" * 16), "format and features"),
        (lambda arrays: headed(arrays, format=2), "format and features"),
        (lambda arrays: headed(arrays, width=10**9), "width"),
        (lambda arrays: headed(arrays, width=-1), "width"),
        (lambda arrays: arrays.pop("header"), "header"),
        (_drop, "parameters differ"),
        (_spoil, "not finite"),
        (_reshape, "another shape"),
        (_bend, "other scores"),
        (_point_outside, "hold together"),
    ],
)
def test_files_that_do_not_hold_together_are_refused(
    file: bytes, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    with pytest.raises(weights.Refused, match=why):
        weights.parse(changed(file, change))


def test_truncated_and_foreign_files_are_refused(file: bytes, tmp_path: Path) -> None:
    for data in (b"", b"PK", file[: len(file) // 2], b"\x80\x04\x95" + file, b"x" * 1000):
        with pytest.raises(weights.Refused, match="archive"):
            weights.parse(data)
    with pytest.raises(weights.Refused, match="cannot be read"):
        weights.read(tmp_path / "none.npz")
    (tmp_path / "large.npz").write_bytes(b"0" * (weights.MOST_BYTES + 1))
    with pytest.raises(weights.Refused, match="larger"):
        weights.read(tmp_path / "large.npz")


def test_pickles_and_bombs_are_refused(file: bytes) -> None:
    pickled = changed(file, lambda arrays: arrays.update(p_w=np.array([{"a": 1}], object)))
    with pytest.raises(weights.Refused):
        weights.parse(pickled)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"0" * 50_000_000)
    with pytest.raises(weights.Refused, match="unpacks"):
        weights.parse(target.getvalue())
