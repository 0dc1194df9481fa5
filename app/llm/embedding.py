"""The embedder played by an embedding model: batches, checked vectors, and a bad text alone."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from app.domain import Embeddings, Usage, Vector
from app.errors import AppError, BadModelOutput, Invalid, Unavailable
from app.llm.dialects import dialect
from app.llm.embedding_batches import Batches
from app.llm.faults import fault_of
from app.llm.http import ModelClient, Request
from app.ports import Tokenizer

log = logging.getLogger("heliograph.llm")

BATCH_TOKENS = 100_000  # of one call
LONGEST = 8191  # tokens of one text: the limit of the common hosted models
MOST_MISCOUNTED = 4.0  # how many times more tokens than we a server may find in a text
HARMLESS = "dimension"
DIMENSION = "embedding_dimension"  # code of an error
NONE: Vector = ()


class LlmEmbedder:
    """Port `Embedder`. A text that the model cannot embed, alone and in a changed form, gets the
    empty vector `()`; the other texts of its batch are not harmed."""

    def __init__(
        self,
        client: ModelClient,
        model: str,
        tokenizer: Tokenizer,
        *,
        dimension: int | None = None,
        batch: int = 64,
        price: float = 0.0,
    ) -> None:
        self._client, self._model, self._tokenizer = client, model, tokenizer
        self._dialect = dialect(client.endpoint.dialect)
        self._asked_dimension = dimension
        self._dimension = dimension
        self._batch = batch
        self._price = price  # of a million tokens
        self._worked = False
        self._batches = Batches(self._called, self._fitting, self._width)
        self._miscounted = 1.0  # tokens as the server counts for each of ours, at most so far

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        """Known once `probe` or a call has run, where the settings do not say."""
        if self._dimension is None:
            raise Unavailable("the dimension of the embedding model is not known yet")
        return self._dimension

    async def probe(self) -> int:
        """The dimension, asked of the model if need be."""
        if self._dimension is None:
            await self.embed([HARMLESS], purpose="query")
        return self.dimension

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        distinct = list(dict.fromkeys(texts))
        if purpose == "query":
            made, used = await self._called(distinct, urgent=True)
        else:
            made, used = await self._batches.embed(distinct)
        vectors = dict(zip(distinct, made, strict=True))
        result = [vectors[text] for text in texts]
        if purpose == "query" and NONE in result:
            raise BadModelOutput("the embedding model has no vector for this text")
        return Embeddings(result, Usage(0, used, 0, used * self._price / 1_000_000))

    async def _called(
        self, texts: Sequence[str], *, urgent: bool = False
    ) -> tuple[list[Vector], int]:
        calls = _Calls(self, urgent=urgent)
        made: list[Vector] = []
        while len(made) < len(texts):
            rest = texts[len(made) :]
            made += await calls.batch(rest[: self._fitting(rest)])
        return made, calls.tokens

    def _width(self) -> int:
        """One call at first, so that what it finds out (dimension, batch size) serves all."""
        return self._client.endpoint.limits.concurrency if self._worked else 1

    def _fitting(self, texts: Sequence[str]) -> int:
        """How many of the texts, at least one, go into one call."""
        room = BATCH_TOKENS
        for place, text in enumerate(texts[: self._batch]):
            room -= min(len(text), LONGEST)  # a token has a character at least
            if place and room < 0:
                return place
        return min(len(texts), self._batch)

    async def call(
        self, texts: Sequence[str], *, urgent: bool, attempts: int | None = None
    ) -> tuple[list[Vector], int]:
        """Vectors, unit or empty, and the tokens that they cost."""
        counted = self._tokenizer.count("\n".join(texts))  # in one go: a little more than by text
        request = Request(
            self._dialect.embed_path,
            self._dialect.embed_body(self._model, texts, self._asked_dimension),
            math.ceil(counted * self._miscounted), self._model, urgent,
            self._dialect.embed_body(self._model, [HARMLESS], self._asked_dimension),
            lambda reply: self._dialect.embed_reply(reply, 1),
        )  # fmt: skip

        def read(reply: object) -> tuple[tuple[list[object], int], int]:
            told = self._dialect.embed_tokens(reply)
            used = counted if told is None else told
            return (self._dialect.embed_reply(reply, len(texts)), used), used

        found, used = await self._client.post(request, read, attempts=attempts)
        if counted:
            self._miscounted = max(self._miscounted, min(MOST_MISCOUNTED, used / counted))
        return self._checked([_unit(item) for item in found]), used

    def fitting(self, text: str) -> str:
        # A blank text has no vector at most servers; an unread one no meaning either.
        return self._tokenizer.cut(text, LONGEST) if len(text) > LONGEST else text or " "

    def changed(self, text: str) -> list[str]:
        """A text in forms that lack more and more of what may make it fail."""
        tidy = " ".join(re.sub(r"[^\w\s.,;:!?'\"()-]", " ", text).split())
        cut = self._tokenizer.cut
        forms = [self.fitting(text), self.fitting(tidy), cut(tidy, 256), cut(tidy, 64)]
        return [form for form in dict.fromkeys(forms) if form.strip()]

    def _checked(self, vectors: list[Vector]) -> list[Vector]:
        """Without those of another dimension than the others; it is an error if all are."""
        found = Counter(len(vector) for vector in vectors if vector)
        if not found:
            return vectors
        if self._dimension is None:
            [(self._dimension, _)] = found.most_common(1)
            log.info("embedder.found model=%s dimension=%d", self._model, self._dimension)
        if self._dimension not in found and all(vectors):
            raise Unavailable(
                f"the embedding model {self._model} gives {found.most_common(1)[0][0]} dimensions"
                f" instead of {self._dimension}",
                code=DIMENSION,
                transient=False,
            )
        self._worked = True
        return [vector if len(vector) == self._dimension else NONE for vector in vectors]

    def drops_dimension(self, error: AppError) -> bool:
        """Whether the server only refuses to be asked for a dimension: it is not, from now on."""
        fault = fault_of(error)
        if self._asked_dimension and fault and re.search(r"\bdimensions?\b", fault.said):
            self._asked_dimension = None
            return True
        return False

    def learn_batch(self, error: AppError, size: int) -> int:
        """Texts in one call from now on: fewer for good, where the server says that `size` are too
        many."""
        fault = fault_of(error)
        if fault and (
            fault.status == 413 or re.search(r"batch|too many|at most", fault.said, re.I)
        ):
            self._batch = max(1, min(self._batch, size // 2))
            log.info("embedder.batch model=%s size=%d", self._model, self._batch)
        return self._batch


class _Calls:
    """What one `embed` asks of the server, and the tokens that it costs so far."""

    def __init__(self, embedder: LlmEmbedder, *, urgent: bool) -> None:
        self._embedder, self._urgent = embedder, urgent
        self.tokens = 0

    async def batch(self, texts: Sequence[str], attempts: int | None = None) -> list[Vector]:
        try:
            found = await self._call([self._embedder.fitting(text) for text in texts], attempts)
        except AppError as error:
            if not _about_a_text(error) and not (error.code == DIMENSION and len(texts) == 1):
                raise
            if self._embedder.drops_dimension(error):
                return await self.batch(texts)
            if len(texts) == 1:
                return [await self._alone(texts[0])]
            return await self._by_halves(texts, error)
        for place, vector in enumerate(found):
            if not vector:
                found[place] = await self._alone(texts[place])
        return found

    async def _by_halves(self, texts: Sequence[str], error: AppError) -> list[Vector]:
        size = self._embedder.learn_batch(error, len(texts))
        middle = len(texts) // 2
        found: list[Vector] = []
        for half in (texts[:middle], texts[middle:]):
            for start in range(0, len(half), size):
                found += await self.batch(half[start : start + size], attempts=1)
        return found

    async def _alone(self, text: str) -> Vector:
        """A text that failed: again as it is, then in forms that lack what may have been the cause.
        The empty vector if none works, but another text does; else the endpoint is at fault."""
        for form in self._embedder.changed(text):
            try:
                [vector] = await self._call([form], attempts=1)
            except AppError as error:
                if not _about_a_text(error) and error.code != DIMENSION:
                    raise
                continue
            if vector:
                return vector
        if not all(await self._call([HARMLESS])):
            raise BadModelOutput("the embedding model gives no usable vectors")
        log.warning("embedding.failed model=%s characters=%d", self._embedder.model, len(text))
        return NONE

    async def _call(self, texts: Sequence[str], attempts: int | None = None) -> list[Vector]:
        vectors, used = await self._embedder.call(texts, urgent=self._urgent, attempts=attempts)
        self.tokens += used
        return vectors


def _about_a_text(error: AppError) -> bool:
    """Whether fewer or other texts might do: the server works, but not with these."""
    if error.blameless or error.code == "model_paused":
        return False
    if isinstance(error, Invalid) or error.code in ("model_timeout", "content_filter"):
        return True
    fault = fault_of(error)
    return fault is not None and (fault.status in (400, 413, 422) or fault.status >= 500)


_NUMBERS = {float, int}


def _unit(value: object) -> Vector:
    """At unit length; the empty vector for what is none (zeros, not finite, not numbers)."""
    if not isinstance(value, list) or not value:
        return NONE
    if not set(map(type, value)) <= _NUMBERS:
        return NONE
    norm = math.hypot(*value)
    if not math.isfinite(norm) or norm < 1e-12:
        return NONE
    return tuple(map(norm.__rtruediv__, value))  # a fifth of the time of a generator
