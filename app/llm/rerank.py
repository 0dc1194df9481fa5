"""The reranker played by a rerank model, asked as Cohere, Jina, vLLM and others want it."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from app.errors import BadModelOutput
from app.llm.http import ModelClient, Request
from app.ports import Tokenizer

log = logging.getLogger("heliograph.llm")

LONGEST = 2000  # tokens of one passage


class LlmReranker:
    """Port `Reranker`. Raises where the reply ranks nothing; a passage it leaves out comes last."""

    def __init__(self, client: ModelClient, model: str, tokenizer: Tokenizer) -> None:
        self._client, self._model, self._tokenizer = client, model, tokenizer

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        body: dict[str, object] = {
            "query": query,
            "documents": [self._tokenizer.cut(text, LONGEST) for text in texts],
            "top_n": len(texts),
        }
        if self._model:
            body["model"] = self._model
        harmless = {**body, "query": "word", "documents": ["word"], "top_n": 1}
        request = Request("", body, about=self._model, urgent=True, harmless=harmless)
        found = await self._client.post(
            request, lambda reply: (_scores(reply, len(texts)), None), attempts=2
        )
        if not found:
            raise BadModelOutput("the reranker's answer ranks nothing")
        lowest = min(found.values())
        return [found.get(place, lowest - 1.0) for place in range(len(texts))]


def _scores(reply: object, count: int) -> dict[int, float]:
    """By place in the request; places and scores that are none are left out, the first of two
    counts."""
    results = reply.get("results", reply.get("data")) if isinstance(reply, dict) else reply
    scores: dict[int, float] = {}
    for item in results if isinstance(results, list) else []:
        if not isinstance(item, dict):
            continue
        place = item.get("index")
        score = item.get("relevance_score", item.get("score"))
        if type(place) is not int or not 0 <= place < count:
            continue
        if isinstance(score, int | float) and math.isfinite(score):
            scores.setdefault(place, float(score))
    return scores
