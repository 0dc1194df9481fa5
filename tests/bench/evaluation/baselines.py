"""What every system is held against: BM25, and the nearest vectors of the same encoder."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from app.evaluation.metrics import Found
from app.ports import Embedder
from app.terms import terms

K1, B = 1.2, 0.75
TOP = 20  # chunks, as for all systems
BATCH = 256


class Piece(NamedTuple):
    """A chunk as all systems see it: the title of its document, and its text."""

    document: str
    title: str
    text: str

    @property
    def whole(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text

    @property
    def found(self) -> Found:
        return Found(self.document, self.title, self.text)


class Bm25:
    """Okapi BM25 (Robertson and Zaragoza 2009) over the words of title and text, in memory."""

    name = "bm25"

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        counts = [Counter(terms(piece.whole)) for piece in pieces]
        average = sum(count.total() for count in counts) / max(1, len(counts))
        self._weights: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, count in enumerate(counts):
            norm = K1 * (1 - B + B * count.total() / average)
            for term, n in count.items():
                self._weights[term].append((place, n * (K1 + 1) / (n + norm)))

    async def retrieve(self, question: str) -> list[Found]:
        scores: dict[int, float] = defaultdict(float)
        for term in dict.fromkeys(terms(question)):
            rows = self._weights.get(term, ())
            idf = math.log(1 + (len(self._pieces) - len(rows) + 0.5) / (len(rows) + 0.5))
            for place, weight in rows:
                scores[place] += idf * weight
        best = heapq.nsmallest(TOP, scores, key=lambda place: (-scores[place], place))
        return [self._pieces[place].found for place in best]


class Dense:
    """Cosine between the question and each chunk, title included, exact."""

    name = "dense"

    def __init__(self, pieces: Sequence[Piece], embedder: Embedder) -> None:
        self._pieces, self._embedder = pieces, embedder
        self._matrix = np.zeros((0, embedder.dimension), dtype=np.float32)

    async def ready(self) -> None:
        rows: list[Sequence[float]] = []
        for start in range(0, len(self._pieces), BATCH):
            texts = [piece.whole for piece in self._pieces[start : start + BATCH]]
            rows += (await self._embedder.embed(texts, purpose="document")).vectors
        self._matrix = np.array(rows, dtype=np.float32)

    async def retrieve(self, question: str) -> list[Found]:
        [vector] = (await self._embedder.embed([question], purpose="query")).vectors
        scores = self._matrix @ np.array(vector, dtype=np.float32)
        return [self._pieces[n].found for n in np.argsort(-scores, kind="stable")[:TOP]]
