"""Vectors are checked, and one bad text harms no other."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from app.errors import AppError, BadModelOutput, Unavailable
from app.llm.embedding import LlmEmbedder
from app.llm.tokens import TiktokenTokenizer
from tests.model_server import ModelServer
from tests.unit.llm.conftest import Clients

Embedders = Callable[..., LlmEmbedder]
NAN = '{"error":"failed to encode response: json: unsupported value: NaN"}'


@pytest.fixture
def embedder(client: Clients, tokenizer: TiktokenTokenizer) -> Embedders:
    def make(dialect: str = "openai", **settings: object) -> LlmEmbedder:
        return LlmEmbedder(client(dialect), "scripted", tokenizer, **settings)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize("dialect", ["openai", "ollama"])
async def test_vectors_are_unit_vectors_in_the_order_of_the_texts(
    server: ModelServer, embedder: Embedders, dialect: str
) -> None:
    one = embedder(dialect, batch=3)
    texts = [f"text number {i % 7}" for i in range(20)]
    vectors = (await one.embed(texts, purpose="document")).vectors
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-9) for vector in vectors)
    assert [vectors[i] == vectors[0] for i in range(20)] == [i % 7 == 0 for i in range(20)]
    assert one.dimension == 64
    assert server.calls("embedding") == 3
    assert (await one.embed([], purpose="document")).vectors == []


async def test_the_dimension_is_asked_for_once(server: ModelServer, embedder: Embedders) -> None:
    one = embedder()
    with pytest.raises(Unavailable):
        _ = one.dimension
    assert await one.probe() == 64
    await one.probe()
    assert server.calls("embedding") == 1


async def test_one_text_that_makes_the_server_fail_is_left_without_a_vector(
    server: ModelServer, embedder: Embedders
) -> None:
    server.script(embedding=[{"match": "Bitcoin", "status": 500, "body": NAN}])
    texts = [f"Paragraph {i}." for i in range(12)] + ["Bitcoin: cash."]
    vectors = (await embedder().embed(texts, purpose="document")).vectors
    assert vectors[-1] == ()
    assert all(len(vector) == 64 for vector in vectors[:-1])


async def test_a_text_that_only_offends_in_part_gets_a_vector_in_a_changed_form(
    server: ModelServer, embedder: Embedders
) -> None:
    server.script(embedding=[{"match": "☃", "status": 400, "body": "bad rune"}])
    vectors = (await embedder().embed(["fine", "snow ☃ man"], purpose="document")).vectors
    assert all(len(vector) == 64 for vector in vectors)


@pytest.mark.parametrize("kind", ["zeros", "nan", "null", "text", "short"])
async def test_a_vector_that_is_none_is_asked_for_again(
    server: ModelServer, embedder: Embedders, kind: str
) -> None:
    one = embedder()
    await one.probe()
    server.script(embedding=[{"vector": kind}])
    vectors = (await one.embed(["a", "b"], purpose="document")).vectors
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-9) for vector in vectors)


async def test_a_model_that_gives_only_zeros_is_an_error_and_never_a_vector(
    server: ModelServer, embedder: Embedders
) -> None:
    server.script(embedding=[{"vector": "zeros"}] * 40)
    with pytest.raises(BadModelOutput):
        await embedder().embed(["a", "b"], purpose="document")


async def test_a_server_that_is_down_is_not_taken_for_bad_texts(
    server: ModelServer, embedder: Embedders
) -> None:
    one = embedder()
    await one.probe()
    server.script(embedding=[{"match": "", "status": 500, "body": "boom"}])
    with pytest.raises(AppError):
        await one.embed([f"text {i}" for i in range(40)], purpose="document")
    assert server.calls("embedding") < 25


async def test_a_lower_batch_limit_is_learned(server: ModelServer, embedder: Embedders) -> None:
    server.script(
        embedding=[{"max_batch": 10, "status": 400, "body": "batch size must be at most 10"}]
    )
    one = embedder(batch=64)
    texts = [f"text {i}" for i in range(64)]
    vectors = (await one.embed(texts, purpose="document")).vectors
    assert all(vectors)
    asked = server.calls("embedding")
    await one.embed(texts, purpose="document")
    assert server.calls("embedding") - asked == 8
    assert max(len(b["input"]) for b in server.bodies("embedding")[asked:]) == 8


async def test_another_dimension_than_before_is_refused(
    server: ModelServer, embedder: Embedders
) -> None:
    one = embedder()
    await one.probe()
    server.script(embedding=[{"dim": 32}])
    with pytest.raises(Unavailable) as raised:
        await one.embed(["a"], purpose="document")
    assert raised.value.code == "embedding_dimension"
    assert not raised.value.transient


async def test_a_set_dimension_is_asked_for_unless_the_server_refuses(
    server: ModelServer, embedder: Embedders
) -> None:
    [vector] = (await embedder(dimension=16).embed(["a"], purpose="document")).vectors
    assert len(vector) == 16
    server.script(refuse=["dimensions"])
    [vector] = (await embedder(dimension=64).embed(["a"], purpose="document")).vectors
    assert len(vector) == 64


async def test_a_question_without_a_vector_is_an_error(
    server: ModelServer, embedder: Embedders
) -> None:
    server.script(embedding=[{"match": "Bitcoin", "status": 500, "body": NAN}])
    with pytest.raises(BadModelOutput):
        await embedder().embed(["Bitcoin?"], purpose="query")


async def test_blank_and_huge_texts_are_embedded(server: ModelServer, embedder: Embedders) -> None:
    vectors = (await embedder().embed(["", " ", "word " * 30_000], purpose="document")).vectors
    assert all(len(vector) == 64 for vector in vectors)
    sent = [text for body in server.bodies("embedding") for text in body["input"]]
    assert max(map(len, sent)) < 60_000


@pytest.mark.parametrize("texts", [["a"], ["a", "b"]])
async def test_a_text_whose_vector_is_always_too_short_is_left_without_one(
    server: ModelServer, embedder: Embedders, texts: list[str]
) -> None:
    one = embedder()
    await one.probe()
    server.script(embedding=[{"vector": "short"}, *([{"vector": "zeros"}] * (len(texts) - 1))])
    vectors = (await one.embed(texts, purpose="document")).vectors
    assert all(len(vector) == 64 for vector in vectors), "asked for again"
    server.script(embedding=[{"vector": "short"}] * 2)
    assert (await one.embed(["a"], purpose="document")).vectors == [()]


@pytest.mark.parametrize("answer", [{"status": 503}, {"delay_s": 60}], ids=str)
async def test_one_text_that_makes_the_server_hang_or_break_is_found_and_left_out(
    server: ModelServer, client: Clients, tokenizer: TiktokenTokenizer, answer: dict[str, object]
) -> None:
    one = LlmEmbedder(client(timeout=0.3, attempts=2), "scripted", tokenizer)
    await one.probe()
    server.script(reject=[{"contains": "Bitcoin", **answer}])
    texts = [*(f"Paragraph {i}." for i in range(6)), "Bitcoin: cash."]
    vectors = (await one.embed(texts, purpose="document")).vectors
    assert vectors[-1] == ()
    assert all(len(vector) == 64 for vector in vectors[:-1])


@pytest.mark.parametrize("answer", [{"status": 503}, {"delay_s": 60}, {"status": 429}], ids=str)
async def test_a_server_that_is_away_is_paused_and_blames_no_text(
    server: ModelServer, client: Clients, tokenizer: TiktokenTokenizer, answer: dict[str, object]
) -> None:
    one = LlmEmbedder(client(timeout=0.2), "scripted", tokenizer)
    await one.probe()
    server.script(reject=[{"contains": "", **answer}])
    with pytest.raises(AppError) as raised:
        await one.embed([f"text {i}" for i in range(40)], purpose="document")
    assert raised.value.blameless
    assert server.calls("embedding") < 8


async def test_all_calls_of_the_server_count_even_those_that_were_tried_again(
    server: ModelServer, embedder: Embedders
) -> None:
    one = embedder(price=1_000_000.0)
    await one.probe()
    asked = server.state.kinds["embedding"]["prompt_tokens"]
    server.script(embedding=[{"vector": "null"}])
    usage = (await one.embed(["some text", "more text"], purpose="document")).usage
    assert usage.llm_calls == 0
    assert usage.prompt_tokens == server.state.kinds["embedding"]["prompt_tokens"] - asked
    assert usage.cost == usage.prompt_tokens
