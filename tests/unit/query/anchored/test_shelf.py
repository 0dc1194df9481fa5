from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain import Anchoring, Question
from app.query.anchored import weights
from app.query.anchored.mode import asr, subgraph
from app.query.anchored.shelf import Shelf
from app.query.found import Clock, Found
from tests.unit.query.anchored.test_network import parameters
from tests.unit.query.anchored.views import random_view
from tests.unit.query.library import Library

BORN = "Where was the director of The Silent Harbour born?"
NONE = Path("nowhere.npz")


def put(path: Path, seed: int = 0) -> Path:
    path.write_bytes(weights.write(parameters(seed), {"seed": seed}, random_view(2, relations=8)))
    return path


def test_a_file_is_for_all_and_a_folder_for_each(tmp_path: Path) -> None:
    file = put(tmp_path / "one.npz")
    assert Shelf(file, NONE).of("any") is not None
    shipped = put(tmp_path / "shipped.npz", 2)
    folder = tmp_path / "folder"
    folder.mkdir()
    put(folder / "lab.npz", 1)
    shelf = Shelf(folder, shipped)
    own, other = shelf.of("lab"), shelf.of("home")
    assert own is not None and own.header["seed"] == 1
    assert other is not None and other.header["seed"] == 2
    assert Shelf(None, NONE).of("lab") is None
    assert shelf.notices() == []


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = put(tmp_path / "one.npz")
    shelf = Shelf(file, NONE)
    first = shelf.of("lab")
    assert shelf.of("lab") is first
    put(file, 1)
    os.utime(file, ns=(1, 1))
    second = shelf.of("lab")
    assert second is not None and first is not None
    assert second.version != first.version


def test_a_refused_file_warns_once_and_is_noted_without_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "secret.npz").write_bytes(b"not weights")
    shelf = Shelf(folder, NONE)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert shelf.of("secret") is None
            [notice] = shelf.notices()
    assert [record.getMessage() for record in caplog.records] == [
        "asr.weights_refused file=secret.npz why=it is no archive of arrays"
    ]
    assert "no archive of arrays" in notice
    assert "secret" not in notice


def test_a_named_file_that_is_not_there_is_noted(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "none.npz", NONE)
    assert shelf.of("lab") is None
    [notice] = shelf.notices()
    assert "cannot be read" in notice


# --- in the mode ---------------------------------------------------------------------------------


async def ask(library: Library, shelf: Shelf, mode: Any = asr, **options: Any) -> Found:
    models = replace(library.models, scorers=shelf)
    question = Question(BORN, anchoring=Anchoring(**options))
    result: Found = await mode(library.workspace, models, question, Clock())
    return result


async def test_usable_weights_score_and_are_named(library: Library, tmp_path: Path) -> None:
    shelf = Shelf(put(tmp_path / "one.npz"), NONE)
    trained = shelf.of("test")
    assert trained is not None
    explain: Any = (await ask(library, shelf)).explain
    assert (explain["scorer"], explain["weights"]) == ("weights", trained.version)
    assert all(0 < gate < 1 for one in explain["relations"] for gate in one["gates"])
    explain = (await ask(library, shelf, ablate=("gate",))).explain
    assert "gates" not in explain["relations"][0]
    for scorer in ("prior", "cosine"):
        explain = (await ask(library, shelf, scorer=scorer)).explain
        assert explain["scorer"] == scorer
        assert "weights" not in explain


async def test_subgraph_does_not_use_weights_of_asr(library: Library, tmp_path: Path) -> None:
    explain = (await ask(library, Shelf(put(tmp_path / "one.npz"), NONE), subgraph)).explain
    assert explain["scorer"] == "prior"


async def test_unusable_weights_cost_no_query(library: Library, tmp_path: Path) -> None:
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"PK" * 100)
    for scorer in ("auto", "weights"):
        found = await ask(library, Shelf(bad, NONE), scorer=scorer)
        assert found.explain["scorer"] == "prior"
        assert found.chunks
