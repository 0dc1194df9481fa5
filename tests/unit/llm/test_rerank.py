"""A reranker's scores: one per passage, whatever its reply leaves out or makes up."""

from __future__ import annotations

import httpx
import pytest

from app.errors import BadModelOutput, Unavailable
from app.llm.http import Endpoint, ModelClient
from app.llm.rerank import LlmReranker
from app.llm.tokens import TiktokenTokenizer
from tests.model_server import ModelServer

TEXTS = ["about cats", "about dogs and cats at sea", "nothing"]


@pytest.fixture
def reranker(
    server: ModelServer, http: httpx.AsyncClient, tokenizer: TiktokenTokenizer
) -> LlmReranker:
    endpoint = Endpoint(f"http://{server.host}/v1/rerank", attempts=1)
    return LlmReranker(ModelClient(http, endpoint), "scripted", tokenizer)


async def test_scores_stand_in_the_order_of_the_texts(reranker: LlmReranker) -> None:
    scores = await reranker.scores("dogs at sea", TEXTS)
    assert scores[1] > scores[0] >= scores[2]
    assert await reranker.scores("dogs", []) == []


async def test_made_up_places_and_scores_are_ignored(
    server: ModelServer, reranker: LlmReranker
) -> None:
    results = [
        {"index": 99, "relevance_score": 1}, {"index": -1, "relevance_score": "x"},
        {"index": 1, "relevance_score": 0.5}, {"index": 1, "relevance_score": 0.1}, 7,
        {"index": 0, "relevance_score": None},
    ]  # fmt: skip
    server.script(llm={"rerank": [{"json": {"results": results}}]})
    scores = await reranker.scores("dogs", TEXTS)
    assert scores[1] == 0.5
    assert scores[0] == scores[2] < 0.5


@pytest.mark.parametrize("reply", [{"results": []}, {}, {"results": [{"index": 9}]}])
async def test_a_reply_that_ranks_nothing_is_bad_output(
    server: ModelServer, reranker: LlmReranker, reply: dict[str, object]
) -> None:
    server.script(llm={"rerank": [{"json": reply}]})
    with pytest.raises(BadModelOutput):
        await reranker.scores("dogs", TEXTS)


async def test_a_reranker_that_is_down_is_unavailable(
    server: ModelServer, reranker: LlmReranker
) -> None:
    server.script(llm={"rerank": [{"status": 500}] * 2})
    with pytest.raises(Unavailable):
        await reranker.scores("dogs", TEXTS)
