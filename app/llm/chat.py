"""A chat model on an endpoint: whole and streamed replies, with usage, cost and the best structured
output that the server was found to support."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from app.domain import Completion, Prompt, Usage
from app.errors import AppError, BadModelOutput, Unavailable
from app.llm.characters import Halves, whole
from app.llm.dialects import Ask, Format, Piece, Schema, dialect
from app.llm.http import ModelClient, fault_of
from app.llm.thoughts import ThoughtFilter
from app.ports import Tokenizer

log = logging.getLogger("heliograph.llm")

REPLY_SHARE = 4  # of the context window, one part in so many is kept for the reply
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
    when the server refuses it. `context_tokens`: of prompt and reply together."""

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
    ) -> None:
        self.model, self.tokenizer, self.form = model, tokenizer, form
        self.context_tokens = context_tokens
        self._client, self._price, self._temperature = client, price, temperature
        self._dialect = dialect(client.endpoint.dialect)
        self._form: Format = "schema" if form == "auto" else form
        self._proven: set[Format] = set()  # forms that the server took
        self._without: frozenset[str] = frozenset()

    @property
    def prompt_room(self) -> int:
        """Tokens that a prompt may have so that the reply still fits."""
        return self.context_tokens - self.context_tokens // REPLY_SHARE

    def tokens(self, prompt: Prompt) -> int:
        """Of a prompt, about: the frame of a chat differs from model to model."""
        texts = (prompt.system, *(turn.content for turn in prompt.history), prompt.user)
        return sum(self.tokenizer.count(text) + 4 for text in texts)

    async def complete(self, prompt: Prompt, schema: Schema | None = None) -> Completion:
        """One call (unless the server must first be found out). A reply cut at the length limit is
        returned with that finish reason; one that a filter withheld raises `BadModelOutput`."""
        while True:
            ask = self._ask(prompt, schema)
            reserved = self._expected(prompt)
            try:
                reply = await self._client.post(
                    self._dialect.chat_path, self._dialect.chat_body(ask), tokens=reserved
                )
            except AppError as error:
                if not self._adapt(error, ask):
                    raise
                continue
            if schema is not None:
                self._proven.add(ask.form)
            piece = self._dialect.chat_reply(reply)
            piece = replace(piece, text=whole(piece.text))
            usage = self._usage(piece, prompt, piece.text)
            await self._client.settle(
                reserved=reserved, used=usage.prompt_tokens + usage.completion_tokens
            )
            _refuse_filtered(piece.finish_reason)
            return Completion(piece.text, usage, piece.finish_reason)

    async def stream(self, prompt: Prompt) -> AsyncGenerator[str | Usage, None]:
        """Pieces of the reply, without reasoning at its start; usage once, at the end. A stream
        that breaks off raises `Unavailable`; as long as nothing was sent on, it is tried again."""
        attempt = 0
        while True:
            attempt += 1
            sent = False
            ask = self._ask(prompt, None, stream=True)
            try:
                async with aclosing(self._stream_once(ask)) as pieces:
                    async for piece in pieces:
                        sent = True
                        yield piece
                return
            except AppError as error:
                if sent:
                    raise
                if self._adapt(error, ask):
                    attempt -= 1
                elif not await self._client.again(error, attempt):
                    raise

    async def _stream_once(self, ask: Ask) -> AsyncGenerator[str | Usage, None]:
        prompt = ask.prompt
        reserved = self._expected(prompt)
        thoughts, halves = ThoughtFilter(), Halves()
        told, finish, done = Piece(), "", False
        parts: list[str] = []
        body = self._dialect.chat_body(ask)
        lines = self._client.lines(self._dialect.chat_path, body, tokens=reserved)
        async with aclosing(lines):
            async for line in lines:
                piece = self._dialect.chat_line(line)
                if piece is None:
                    continue
                whole_text = halves.feed(piece.text)
                parts.append(whole_text)
                told = _later(told, piece)
                finish, done = piece.finish_reason or finish, done or piece.done
                if text := thoughts.feed(whole_text):
                    yield text
        if not finish and not done:
            raise Unavailable("the model's answer broke off", code="stream_cut")
        if rest := thoughts.feed(halves.finish()) + thoughts.finish():
            yield rest
        usage = self._usage(told, prompt, "".join(parts))
        await self._client.settle(
            reserved=reserved, used=usage.prompt_tokens + usage.completion_tokens
        )
        _refuse_filtered(finish)
        yield usage

    def _expected(self, prompt: Prompt) -> int:
        """Tokens to reserve: a reply is seldom longer than its prompt."""
        tokens = self.tokens(prompt)
        return tokens + min(tokens, prompt.max_tokens or tokens)

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
        asked = self.tokens(prompt) if asked is None else asked
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
