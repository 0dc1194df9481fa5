"""Another encoder behind the endpoint: its server, where its weights are installed; its table."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from app.settings import Settings
from tests import model_server
from tests.bench.evaluation import encoders, minilm, page
from tests.bench.evaluation.records import Outcome, Record
from tests.bench.evaluation.stores import encode_again, fill
from tests.bench.test_evaluation import PASSAGES, print_of

# First numbers and likeness that the makers' own implementation gives for these.
EXAMPLE = ("This is an example sentence", (0.0676569, 0.0634959, 0.0487131, 0.0793049, 0.0374480))
HAPPY = ("That is a happy person", "That is a very happy person", "That is a happy dog", "It rains")
TITLE = "## With a MiniLM encoder"


@pytest.fixture
def url() -> Iterator[str]:
    for package in (minilm.PACKAGE, "safetensors", "tokenizers"):
        pytest.importorskip(package)
    with minilm.served(0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/embeddings"
        server.shutdown()
        thread.join()


def asked(url: str, *texts: str) -> np.ndarray:
    reply = httpx.post(url, json={"model": "any", "input": texts}, timeout=60)
    return np.array([row["embedding"] for row in reply.raise_for_status().json()["data"]])


def test_the_vectors_of_minilm_are_those_of_its_makers_and_like_texts_are_near(url: str) -> None:
    long = "The estuary is wide. " * 200
    vectors = asked(url, *HAPPY, long, EXAMPLE[0])
    assert vectors.shape == (6, minilm.DIMENSION)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert vectors[5][:5] == pytest.approx(EXAMPLE[1], abs=1e-6)
    person, dog, rain = (vectors[:4] @ vectors[0])[1:]
    assert person > dog > rain
    # What is embedded beside a text changes nothing, nor does what is behind its 256 tokens.
    assert asked(url, HAPPY[1])[0] == pytest.approx(vectors[1], abs=1e-5)
    assert asked(url, long + "Quite another end.")[0] == pytest.approx(vectors[4], abs=1e-5)
    assert httpx.post(url, json={"input": "x", "dimensions": 7}).status_code == 400


async def test_a_store_encoded_again_is_the_one_filled_with_that_encoder(tmp_path: Path) -> None:
    plain = Settings(_env_file=None, data_dir=tmp_path / "plain" / "data")
    await fill(plain, PASSAGES)
    async with model_server.running() as model:
        told = {"embed_url": f"openai+http://{model.host}/v1", "embed_model": "another"}
        for name in ("filled", "again"):
            folder = tmp_path / name / "data"
            settings = Settings(_env_file=None, data_dir=folder, **told)
            if name == "filled":
                await fill(settings, PASSAGES, vectors=tmp_path / "one.sqlite")
            else:
                leave = shutil.ignore_patterns("queue")
                await asyncio.to_thread(shutil.copytree, plain.data_dir, folder, ignore=leave)
                await encode_again(settings, vectors=tmp_path / "two.sqlite")
        prints = [await print_of(tmp_path / name / "data", told) for name in ("filled", "again")]
    assert prints[0] == prints[1] != await print_of(plain.data_dir)


def test_the_page_sets_both_encoders_side_by_side_and_shows_what_is_lost(tmp_path: Path) -> None:
    questions = ["q1", "q2", "q3"]
    for folder, mix in (("", [[1, 2], [3], None]), (encoders.MINILM, [[1, 9], [3], [1]])):
        known = Record("2wiki-101", questions, [2, 1, 1], False, [""] * 3)
        known.systems["mix"] = Outcome(mix, f"code{folder}")
        known.systems["dense"] = Outcome([[1, 0], None, None], f"code{folder}")
        known.write(tmp_path / "evaluation" / folder / "2wiki-101.json")
    page.write(tmp_path / "evaluation", tmp_path / "evaluation.md")
    text = (tmp_path / "evaluation.md").read_text(encoding="utf-8")
    [line] = [one for one in text.partition(TITLE)[2].splitlines() if "| recall@5 |" in one]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["2wiki, 780", "recall@5", "100.0", "75.0"]
    assert cells[4].startswith("**-25.0 [-50.0, ")
    assert cells[5:] == ["50.0", "50.0", "–", "–", "2", "code", "codeminilm"]
