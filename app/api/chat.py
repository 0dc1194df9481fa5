"""OpenAI's chat API: a model for each mode, so that its clients connect as they are."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from app.api import answering, error_shapes, problems
from app.api.conversation import (
    MAX_MESSAGES,
    MODELS,
    NAME,
    AssistantBody,
    MessageBody,
    ModelName,
    NoticedBody,
    begun,
    footer,
    label,
    message_of,
    mode_of,
    question_of,
)
from app.api.deps import READER, Deployed, JsonOnly, Readable, plain
from app.api.events import MEDIA_TYPE, Event, EventStream, one_line
from app.api.problems import responses
from app.domain import Context, Usage
from app.errors import AppError
from app.query import engine
from app.query.engine import Answered

router = APIRouter(tags=["chat"])

_SHAPE = error_shapes.OPENAI
_STREAMED: dict[str, Any] = {
    "type": "object",
    "description": "One server-sent event; they have no names here.",
    "required": ["data"],
    "properties": {"data": {"type": "string", "description": "A chunk as JSON, or `[DONE]`."}},
}


class StreamOptionsBody(BaseModel):
    """How to stream."""

    include_usage: bool | None = Field(None, description="Send `usage` in a chunk at the end.")


class ChatBody(BaseModel):
    """A chat. Whatever else OpenAI's API knows is accepted and has no effect: one answer is made,
    with the settings of this service's own model."""

    model: ModelName
    messages: list[MessageBody] = Field(
        min_length=1, max_length=MAX_MESSAGES, description="The conversation, oldest first.",
        examples=[[{"role": "user", "content": "What was Scrooge's partner called?"}]],
    )  # fmt: skip
    stream: bool | None = Field(None, description="Answer as server-sent events.")
    stream_options: StreamOptionsBody | None = Field(None, description="How to stream.")
    sources_footer: bool = Field(
        False, description="End the text with a list of its sources, for people."
    )


class ChatUsageBody(BaseModel):
    """What models were used for it, in OpenAI's form."""

    prompt_tokens: int = Field(description="Tokens sent to language models.")
    completion_tokens: int = Field(description="Tokens they wrote.")
    total_tokens: int = Field(description="Both.")

    @classmethod
    def of(cls, usage: Usage) -> ChatUsageBody:
        return cls(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
        )


class ChoiceBody(BaseModel):
    index: int = Field(0, description="Always 0.")
    message: AssistantBody = Field(description="The answer.")
    finish_reason: Literal["stop"] = Field("stop", description="Always stop.")


class CompletionBody(BaseModel):
    """An answer in OpenAI's form."""

    id: str = Field(description="Id of this answer.")
    object: Literal["chat.completion"] = Field("chat.completion", description="What this is.")
    created: int = Field(description="When, in seconds since 1970.")
    model: str = Field(description="The model that was asked for.")
    choices: list[ChoiceBody] = Field(description="One answer.")
    usage: ChatUsageBody = Field(description="Model usage of this question.")


class ModelBody(BaseModel):
    """A model: a mode of this service."""

    id: str = Field(description="Its name.")
    object: Literal["model"] = Field("model", description="What this is.")
    created: int = Field(0, description="Always 0: modes have no date.")
    owned_by: str = Field(NAME, description="Always heliograph.")


class ModelListBody(BaseModel):
    object: Literal["list"] = Field("list", description="What this is.")
    data: list[ModelBody] = Field(description="All models; the first uses the default mode.")


@router.get(
    "/models",
    summary="List the modes as models",
    dependencies=[READER],
    responses=responses(401, 403, 503, shape=_SHAPE),
)
async def list_models() -> ModelListBody:
    return ModelListBody(data=[ModelBody(id=name) for name in MODELS])


@router.get(
    "/models/{model}",
    summary="Get a model",
    dependencies=[READER],
    responses=responses(400, 401, 403, 404, 503, shape=_SHAPE),
)
async def get_model(
    model: Annotated[str, Path(max_length=200, description="Name of a model.")],
) -> ModelBody:
    mode_of(plain(model))
    return ModelBody(id=model)


@router.post(
    "/chat/completions",
    summary="Chat as with OpenAI's API",
    response_model=CompletionBody,
    dependencies=[JsonOnly],
    responses={
        200: {
            "description": "The answer; with `stream`, `chat.completion.chunk` objects and "
            "`[DONE]`. The chunk with the `finish_reason` has `citations` in its `delta`.",
            "content": {MEDIA_TYPE: {"schema": _STREAMED}},
        },
        **responses(400, 401, 403, 404, 413, 415, 429, 502, 503, shape=_SHAPE),
    },
)
async def complete_chat(body: ChatBody, workspace: Readable, deployed: Deployed) -> Any:
    """The user's last message is the question, user and assistant messages before it are the
    conversation, system messages say how to answer. Sources stand in `citations`."""
    question = question_of(body.messages, mode_of(body.model), workspace.name)
    reply = _Reply(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), body)
    if body.stream:
        return ChunkStream(reply.chunks(await begun(workspace, deployed, question)))
    return reply.whole(await answering.answer(workspace, deployed, question))


class ChunkStream(EventStream):
    """Events have no names here, and the last one is a word."""

    def encode(self, event: Event, number: int) -> bytes:
        data = _SHAPE.render(event.data) if event.name == "error" else event.data
        done = b"data: [DONE]\n\n" if event.name in ("error", "last") else b""
        return b"data: %s\n\n%s" % (one_line(data), done)


@dataclass(frozen=True, slots=True)
class _Reply:
    """An answer under way: what all its parts have in common."""

    id: str
    created: int
    body: ChatBody

    def whole(self, answered: Answered) -> CompletionBody:
        text = answered.answer + (footer(answered) if self.body.sources_footer else "")
        return CompletionBody(
            id=self.id, created=self.created, model=self.body.model,
            choices=[ChoiceBody(message=message_of(answered, text))],
            usage=ChatUsageBody.of(answered.usage),
        )  # fmt: skip

    async def chunks(
        self, events: AsyncGenerator[engine.Event, None]
    ) -> AsyncGenerator[Event, None]:
        async with aclosing(events):
            async for event in events:
                match event.data:
                    case Context():
                        yield self._part({"role": "assistant", "content": ""})
                    case str():
                        yield self._part({"content": event.data})
                    case Answered():
                        for part in self._ending(event.data):
                            yield part
                    case AppError():
                        yield Event("error", problems.of_error(event.data))

    def _ending(self, answered: Answered) -> list[Event]:
        parts = []
        if self.body.sources_footer and (sources := footer(answered)):
            parts.append(self._part({"content": sources}))
        for source in sources_for_open_webui(answered):
            chunk = self._chunk({}, None)
            parts.append(Event("chunk", {**chunk, "event": {"type": "source", "data": source}}))
        last = self._chunk(NoticedBody.of(answered).model_dump(mode="json"), "stop")
        options = self.body.stream_options
        if options and options.include_usage:
            usage = ChatUsageBody.of(answered.usage).model_dump()
            parts.append(Event("chunk", last))
            last = {**last, "choices": [], "usage": usage}
        return [*parts, Event("last", last)]

    def _part(self, delta: dict[str, Any]) -> Event:
        return Event("chunk", self._chunk(delta, None))

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.body.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        }


def sources_for_open_webui(answered: Answered) -> list[dict[str, Any]]:
    """What Open WebUI shows behind the marks of an answer, one event each. It takes `[n]` for the
    n-th source that it was sent, so those before the last cited one are sent as well."""
    quotes = defaultdict(list)
    for citation in answered.citations:
        quotes[citation.number].append(citation.quote)
    return [
        {
            "source": {"name": label(one.document_name, one.chunk.page)},
            "document": quotes.get(one.number, [one.chunk.text]),
            # It keeps sources apart by `source`, and has one of these for each text.
            "metadata": [{"source": one.chunk.id, "document_id": one.chunk.document_id}]
            * len(quotes.get(one.number, [""])),
        }
        for one in answered.context.sources
        if one.number <= max(quotes, default=0)
    ]
