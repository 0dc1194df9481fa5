"""What ingesting documents would cost in model calls and tokens, before anything is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import BaseModel, Field

from app.api.uploads import Upload
from app.domain import Options
from app.media import DOCX, EPUB, HTML, PDF, PPTX, XLSX
from app.ports import Models
from app.settings import Settings

# Tokens of instructions around each chunk, and of the reply to it: orders of magnitude, meant to
# tell cents from dollars.
PROMPT_OVERHEAD = 900
REPLY_TOKENS = 700
# Bytes of a packed or marked-up file per token of its text.
_BYTES_PER_TOKEN = {PDF: 60, DOCX: 12, PPTX: 150, XLSX: 10, EPUB: 10, HTML: 10}


class EstimateEntryBody(BaseModel):
    """The estimate for one document."""

    name: str = Field(description="Its name.")
    tokens: int = Field(description="Tokens of its text.")
    chunks: int = Field(description="Chunks it would be cut into.")
    basis: str = Field(description="`text`: its text was counted; `size`: guessed from its bytes.")


class EstimateBody(BaseModel):
    """The estimate for the whole upload. Text that was extracted before costs nothing again."""

    documents: list[EstimateEntryBody] = Field(description="In the order of the request.")
    chunks: int = Field(description="All chunks.")
    llm_calls: int = Field(description="Extraction calls; 0 without a language model.")
    prompt_tokens: int = Field(description="Tokens sent to the language model.")
    completion_tokens: int = Field(description="Tokens that it would write.")
    embedded_tokens: int = Field(description="Tokens to embed: chunks and, roughly, profiles.")
    cost: float = Field(description="In the currency of the price settings.")


def estimate(
    uploads: Sequence[Upload], options: Options, models: Models, settings: Settings
) -> EstimateBody:
    """Counts text formats exactly and guesses the others from their size."""
    entries = [_entry(upload, options, models) for upload in uploads]
    chunks = sum(entry.chunks for entry in entries)
    tokens = sum(entry.tokens for entry in entries)
    rounds = 1 + options.gleanings
    calls = 0 if settings.llm_url.startswith("offline:") else chunks * rounds
    windowed = tokens + chunks * options.chunk_overlap
    prompt = (windowed + chunks * PROMPT_OVERHEAD) * rounds if calls else 0
    # A gleaning round sends the replies so far along.
    prompt += chunks * REPLY_TOKENS * options.gleanings if calls else 0
    completion = calls * REPLY_TOKENS
    embedded = windowed + chunks * REPLY_TOKENS
    cost = (
        prompt * settings.llm_prompt_price
        + completion * settings.llm_completion_price
        + embedded * settings.embed_price
    ) / 1e6
    return EstimateBody(
        documents=entries, chunks=chunks, llm_calls=calls, prompt_tokens=prompt,
        completion_tokens=completion, embedded_tokens=embedded, cost=round(cost, 6),
    )  # fmt: skip


def _entry(upload: Upload, options: Options, models: Models) -> EstimateEntryBody:
    guess = _BYTES_PER_TOKEN.get(upload.media_type)
    if guess is None:
        tokens = models.tokenizer.count(upload.data.decode("utf-8", "replace"))
    else:
        tokens = max(1, len(upload.data) // guess)
    stride = options.chunk_tokens - options.chunk_overlap
    chunks = max(1, math.ceil((tokens - options.chunk_overlap) / stride))
    return EstimateEntryBody(
        name=upload.name, tokens=tokens, chunks=chunks, basis="size" if guess else "text"
    )
