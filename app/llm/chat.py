"""A chat model on an endpoint: whole and streamed replies, with usage, cost and the best structured
output that the server was found to support."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil
from typing import Literal

from app.domain import Completion, Prompt, Usage
from app.errors import AppError, BadModelOutput, Unavailable
from app.llm.characters import Halves, whole
from app.llm.dialects import Ask, Format, Piece, Schema, dialect
from app.llm.faults import fault_of
from app.llm.http import ModelClient, Request, Tries
from app.llm.thoughts import ThoughtFilter
from app.ports import Tokenizer

log = logging.getLogger("heliograph.llm")

REPLY_SHARE = 4  # of the context window, one part in so many is kept for the reply
HARMLESS = Prompt("", "Reply with the word OK.", max_tokens=16)
MOST_MISCOUNTED = 4.0  # how many times more tokens than we a server may find in a text
_WEAKER: dict[Format, Format] = {"schema": "json", "json": "text"}
# Parameters that some servers or models do not take, as they call them in their refusal.
_REPLY_LIMITS = ("max_tokens", "max_completion_tokens")
_OPTIONAL = (*_REPLY_LIMITS, "temperature", "stream_options")


@dataclass(frozen=True, slots=True)
class Price:
    """Per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


FREE = Price()


class ChatModel:
    """`form`: "auto" tries the strictest form of structured output first and steps down for good
    when the server refuses it. `context_tokens`: of prompt and reply together. `urgent`: somebody
    waits for the replies."""

    def __init__(
        self,
        client: ModelClient,
        model: str,
        tokenizer: Tokenizer,
        *,
        price: Price = FREE,
        form: Format | Literal["auto"] = "auto",
        context_tokens: int = 32_768,
        temperature: float | None = 0.0,
        urgent: bool = False,
    ) -> None:
        self.model, self.tokenizer, self.form = model, tokenizer, form
        # Three times a call, of which the long system prompt is always the same.
        self._count = lru_cache(maxsize=128)(tokenizer.count)
        self.context_tokens = context_tokens
        self._client, self._price, self._temperature = client, price, temperature
        self._urgent = urgent
        self._dialect = dialect(client.endpoint.dialect)
        self._form: Format = "schema" if form == "auto" else form
        self._proven: set[Format] = set()  # forms that the server took
        self._without: frozenset[str] = frozenset()
        self._miscounted = 1.0  # tokens as the server counts for each of ours, at most so far

    @property
    def prompt_room(self) -> int:
        """Tokens that a prompt may have so that the reply still fits."""
        return self.context_tokens - self.context_tokens // REPLY_SHARE

    def tokens(self, prompt: Prompt) -> int:
        """Of a prompt, about: the frame of a chat differs from model to model."""
        texts = (prompt.system, *(turn.content for turn in prompt.history), prompt.user)
        return sum(self._count(text) + 4 for text in texts)

    async def complete(self, prompt: Prompt, schema: Schema | None = None) -> Completion:
        """One call (unless the server must first be found out). A reply cut at the length limit is
        returned with that finish reason; one that a filter withheld raises `BadModelOutput`."""
        while True:
            ask = self._ask(prompt, schema)
            try:
                piece, usage = await self._client.post(self._request(ask), partial(self._read, ask))
            except AppError as error:
                if not self._adapt(error, ask):
                    raise
                continue
            if schema is not None:
                self._proven.add(ask.form)
            _refuse_filtered(piece.finish_reason)
            return Completion(piece.text, usage, piece.finish_reason)

    async def stream(self, prompt: Prompt) -> AsyncGenerator[str | Usage, None]:
        """Pieces of the reply, without reasoning at its start; usage once, at the end. A stream
        that breaks off raises `Unavailable`; as long as nothing was sent on, it is tried again."""
        tries: Tries | None = None
        while True:
            ask = self._ask(prompt, None, stream=True)
            tries = tries or self._client.tries(self._request(ask))
            sent = False
            try:
                async with aclosing(self._stream_once(ask, tries)) as pieces:
                    async for piece in pieces:
                        sent = True
                        yield piece
                return
            except AppError as error:
                if sent or not (self._adapt(error, ask) or await tries.again(error)):
                    raise

    async def _stream_once(self, ask: Ask, tries: Tries) -> AsyncGenerator[str | Usage, None]:
        thoughts, halves = ThoughtFilter(), Halves()
        told, finish, done = Piece(), "", False
        parts: list[str] = []
        async with tries.turn() as turn:
            async with aclosing(self._client.lines(self._request(ask))) as lines:
                async for line in lines:
                    piece = self._dialect.chat_line(line)
                    if piece is None:
                        continue
                    whole_text = halves.feed(piece.text)
                    parts.append(whole_text)
                    told = _later(told, piece)
                    if finish != "refusal":
                        finish = piece.finish_reason or finish
                    done = done or piece.done
                    if text := thoughts.feed(whole_text):
                        yield text
            if not finish and not done:
                raise Unavailable("the model's answer broke off", code="stream_cut")
            usage = self._usage(told, ask.prompt, "".join(parts))
            turn.used = usage.prompt_tokens + usage.completion_tokens
        if rest := thoughts.feed(halves.finish()) + thoughts.finish():
            yield rest
        _refuse_filtered(finish)
        yield usage

    def _request(self, ask: Ask) -> Request:
        harmless = replace(ask, prompt=HARMLESS, schema=None, form="text", stream=False)
        return Request(
            self._dialect.chat_path, self._dialect.chat_body(ask), self._expected(ask.prompt),
            self.model, self._urgent, self._dialect.chat_body(harmless),
            self._dialect.chat_reply,
        )  # fmt: skip

    def _read(self, ask: Ask, reply: object) -> tuple[tuple[Piece, Usage], int]:
        piece = self._dialect.chat_reply(reply)
        piece = replace(piece, text=whole(piece.text))
        usage = self._usage(piece, ask.prompt, piece.text)
        return (piece, usage), usage.prompt_tokens + usage.completion_tokens

    def _expected(self, prompt: Prompt) -> int:
        """Tokens to reserve, on the safe side: all that the reply may have."""
        reply = prompt.max_tokens or self.context_tokens // REPLY_SHARE
        return ceil(self.tokens(prompt) * self._miscounted) + reply

    def _ask(self, prompt: Prompt, schema: Schema | None, *, stream: bool = False) -> Ask:
        return Ask(
            self.model, prompt, self.context_tokens, self._form, schema, self._temperature,
            stream, self._without,
        )  # fmt: skip

    def _adapt(self, error: AppError, ask: Ask) -> bool:
        """Whether the server refused not the request but a way of asking that can be left out."""
        fault = fault_of(error)
        if not fault or error.code not in ("model_rejected", "context_overflow"):
            return False
        overflow = error.code == "context_overflow"
        if name := _unwanted(fault.said, ask, _REPLY_LIMITS if overflow else _OPTIONAL):
            self._without |= {name}
            log.info("model.adapted model=%s without=%s", self.model, name)
            return True
        if overflow or ask.schema is None:
            return False
        if self.form != "auto" or ask.form in self._proven:
            return False
        if ask.form == "text":  # then the form was not the reason
            self._form = "schema"
            return False
        if self._form == ask.form:  # else another call has found out meanwhile
            self._form = _WEAKER[ask.form]
            log.info("model.adapted model=%s form=%s", self.model, self._form)
        return True

    def _usage(self, piece: Piece, prompt: Prompt, text: str) -> Usage:
        """As the server counts, else as we do."""
        asked, replied = piece.prompt_tokens, piece.completion_tokens
        counted = self.tokens(prompt)
        if asked is not None:
            ratio = min(MOST_MISCOUNTED, asked / counted)
            self._miscounted = max(self._miscounted, ratio)
        asked = counted if asked is None else asked
        replied = self.tokenizer.count(text) if replied is None else replied
        return Usage(1, asked, replied, self._price.of(asked, replied))


def _unwanted(said: str, ask: Ask, optional: Sequence[str]) -> str:
    """The parameter of ours that the refusal names. A limit of reply tokens goes by two names, of
    which servers know one, and is refused by either where it is more than the model can."""
    names = set(re.findall(r"\w+", said))
    if names & {*_REPLY_LIMITS} and ask.prompt.max_tokens:
        names |= {*_REPLY_LIMITS}
    return next((name for name in optional if name in names and name not in ask.without), "")


def _later(told: Piece, piece: Piece) -> Piece:
    """The latest counts: some servers send them with each piece, some at the end."""
    return replace(
        told,
        prompt_tokens=told.prompt_tokens if piece.prompt_tokens is None else piece.prompt_tokens,
        completion_tokens=told.completion_tokens
        if piece.completion_tokens is None
        else piece.completion_tokens,
    )


def _refuse_filtered(finish_reason: str) -> None:
    if finish_reason == "content_filter":
        raise BadModelOutput(
            "the model's content filter withheld the reply", code="content_filter", transient=False
        )
    if finish_reason == "refusal":
        raise BadModelOutput(
            "the model refuses to reply to this text", code="model_refused", transient=False
        )
