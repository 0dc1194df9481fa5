from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.domain import Question, relation_key
from app.query.anchored import weights
from migrations import migrate_sqlite
from scripts.train_asr import __main__ as command
from scripts.train_asr import report
from scripts.train_asr.examples import Example, load, made_up, noisy, of_question, save, smaller
from scripts.train_asr.measuring import by_cosine, by_prior, ranked_chunks, recall_of, score_all
from scripts.train_asr.report import Row, may_ship, sample
from scripts.train_asr.training import Recipe, network_of, train
from tests.unit.query.conftest import empty, library, shelf  # noqa: F401 - fixtures
from tests.unit.query.library import Library
from tests.unit.train_asr.graphs import questions

BORN = "Where was the director of The Silent Harbour born?"
SHORT = Recipe(width=8, epochs=2, pool=150)


@pytest.fixture(scope="module")
def asked() -> list[Example]:
    return questions(60, seed=5)


def whole_chains(examples: list[Example], scores: list[Any], k: int) -> float:
    found = [
        set(one.gold.tolist()) <= set(ranked_chunks(one, its)[:k])
        for one, its in zip(examples, scores, strict=True)
    ]
    return 100 * sum(found) / len(found)


def test_the_prior_finds_more_than_likeness_alone(asked: list[Example]) -> None:
    by = {"cosine": score_all(by_cosine, asked), "prior": score_all(by_prior, asked)}
    recall = {name: recall_of(asked, scores, 20) for name, scores in by.items()}
    whole = {name: whole_chains(asked, scores, 20) for name, scores in by.items()}
    assert recall["prior"] >= recall["cosine"] + 8
    assert whole["prior"] > whole["cosine"]


def test_training_learns_what_the_questions_have_in_common(asked: list[Example]) -> None:
    recipe = Recipe(width=16, epochs=4, pool=200)
    parameters, reached = train(questions(60, seed=9), asked[:20], recipe, 1)
    before = recall_of(asked[20:], score_all(by_cosine, asked[20:]), 20)
    after = recall_of(asked[20:], score_all(network_of(parameters, recipe), asked[20:]), 20)
    assert after > before
    assert 0 <= reached <= 100


def test_equal_seeds_give_equal_bytes(asked: list[Example]) -> None:
    files = []
    for seed in (1, 1, 2):
        parameters, _ = train(asked[:8], asked[8:10], SHORT, seed)
        files.append(report.written(parameters, SHORT, seed, [], []))
    assert files[0] == files[1] != files[2]
    assert weights.parse(files[0]).header["seed"] == 1


@pytest.mark.parametrize("name", report.ABLATIONS)
def test_every_ablation_trains(asked: list[Example], name: str) -> None:
    recipe = Recipe(width=4, epochs=1, pool=100, without=report.ABLATIONS[name])
    rows, _ = report.trained({"a": asked[:6]}, {"b": asked[6:9]}, recipe, [1, 2], scorer=name)
    assert "±" in str(rows[0])


def test_swapping_the_ends_of_relations_hardly_matters_to_the_prior(asked: list[Example]) -> None:
    one = recall_of(asked, score_all(by_prior, asked), 20)
    other = recall_of(asked, score_all(by_prior, report.flipped(asked)), 20)
    assert one == pytest.approx(other, abs=1)


# --- examples ------------------------------------------------------------------------------------


def test_examples_come_back_as_they_were_saved(asked: list[Example], tmp_path: Path) -> None:
    nothing = Example("none", asked[0].view, (), asked[0].support, np.zeros(0, np.int64))
    save(tmp_path / "examples.npz", [*asked[:3], nothing])
    for one, other in zip(load(tmp_path / "examples.npz"), [*asked[:3], nothing], strict=True):
        assert one.id == other.id
        np.testing.assert_array_equal(one.view.relation, other.view.relation)
        assert [bag.tolist() for bag in one.bags] == [bag.tolist() for bag in other.bags]
        np.testing.assert_array_equal(one.gold, other.gold)


def test_smaller_examples_keep_what_is_gold(asked: list[Example]) -> None:
    for one in asked[:10]:
        less = smaller(one, 50)
        assert len(less.view.head) <= 50 + sum(len(bag) for bag in one.bags)
        for bag, same in zip(one.bags, less.bags, strict=True):
            np.testing.assert_array_equal(one.view.relation[bag], less.view.relation[same])
        assert set(less.view.topics) <= set(range(less.view.nodes))


def test_noise_keeps_an_example_in_shape(asked: list[Example]) -> None:
    dice = np.random.default_rng(1)
    for one in asked[:20]:
        changed = noisy(one, dice)
        assert changed.view.anchors.sum() <= one.view.anchors.sum()
        assert len(set(changed.view.topics)) == len(changed.view.topics)
        assert {*map(frozenset, zip(changed.view.head.tolist(), changed.view.tail.tolist(),
                                    strict=True))} == {
            *map(frozenset, zip(one.view.head.tolist(), one.view.tail.tolist(), strict=True))
        }  # fmt: skip


async def test_gold_documents_become_bags_of_their_relations(library: Library) -> None:  # noqa: F811
    row = {"id": "q1", "gold_passage_ids": ["film", "director", "unknown"]}
    example = await of_question(library.workspace, library.models, row, Question(BORN))
    assert example is not None
    assert len(example.bags) == 2
    assert (example.gold >= 0).tolist() == [True, True, False]
    scores = score_all(by_prior, [example])
    assert recall_of([example], scores, 20) == pytest.approx(200 / 3)


async def test_gold_relations_become_bags_of_their_own(library: Library) -> None:  # noqa: F811
    pairs = [["Aino Korhonen", "Kuusamo"], ["Nobody", "Nowhere"]]
    row = {"id": "q1", "gold_relations": pairs}
    example = await of_question(library.workspace, library.models, row, Question(BORN))
    assert example is not None
    assert [len(bag) for bag in example.bags] == [1]
    assert sorted((example.gold >= 0).tolist()) == [False, True]
    assert relation_key("aino korhonen", "kuusamo")


async def test_made_up_questions_are_walks_of_the_graph(library: Library) -> None:  # noqa: F811
    starts = [one.key for one in await library.workspace.graph.search("", limit=50)]
    made = await made_up(library.workspace, library.models, starts, count=6, seed=3)
    again = await made_up(library.workspace, library.models, starts, count=6, seed=3)
    assert [one.id for one in made] == [one.id for one in again]
    assert made
    assert all(1 <= len(one.bags) <= 3 for one in made)


# --- what ships, and the command -----------------------------------------------------------------


def row(scorer: str, name: str, at10: float) -> Row:
    return Row(scorer, name, ((0.0, 0.0, at10, 0.0),))


@pytest.mark.parametrize(
    ("points", "ships"),
    [
        ((3, 3, 0), True),
        ((3, 3, -0.5), True),
        ((3, 3, -1.5), False),
        ((3, 1, 1), False),
        ((), False),
    ],
)
def test_weights_ship_that_gain_on_two_sets_in_three_and_lose_on_none(
    points: tuple[float, ...], ships: bool
) -> None:
    rows = [row("prior", str(n), 50.0) for n in range(len(points))]
    rows += [row("weights", str(n), 50.0 + gain) for n, gain in enumerate(points)]
    assert may_ship(rows)[0] is ships


def test_the_command_trains_and_writes_a_file_that_is_usable(
    asked: list[Example], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, its in (("a", asked[:8]), ("b", asked[8:12])):
        save(tmp_path / f"{name}.npz", its)
    out = tmp_path / "asr.npz"
    command.main([
        "train", "--train", f"a={tmp_path / 'a.npz'}", "--held-out", f"b={tmp_path / 'b.npz'}",
        "--licence", "a=CC0", "--seeds", "1", "--width", "8", "--epochs", "1", "--out", str(out),
    ])  # fmt: skip
    printed = capsys.readouterr().out
    assert "prior" in printed and "weights" in printed
    found = weights.read(out)
    assert found.header["trained_on"] == [{"name": "a", "examples": 8, "licence": "CC0"}]
    assert found.header["recall"].keys() == {"b cosine", "b prior", "b weights"}
    assert len(sample().head) == 8


def test_the_command_opens_the_stores_as_the_service_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIOGRAPH_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    migrate_sqlite(tmp_path / "graph.db")
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "1", "question": "Who is it?", "gold_passage_ids": ["d"]}\n')
    command.main([
        "examples", "--questions", str(questions), "--walks", "2", "--out", str(tmp_path / "e.npz"),
    ])  # fmt: skip
    assert "0 examples" in capsys.readouterr().out
    assert load(tmp_path / "e.npz") == []
