"""Ollama's chat API: what its clients, Open WebUI among them, need to list models and to chat."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api import answering, error_shapes, operations, problems
from app.api.conversation import (
    MAX_MESSAGES,
    MODELS,
    NAME,
    AssistantBody,
    MessageBody,
    ModelName,
    begun,
    footer,
    message_of,
    mode_of,
    question_of,
)
from app.api.deps import READER, Deployed, JsonOnly, Readable
from app.api.events import Event, EventStream, one_line
from app.api.problems import responses
from app.domain import Mode
from app.errors import AppError, Invalid
from app.query import engine
from app.query.engine import Answered

router = APIRouter(prefix="/api", tags=["chat"])

MEDIA_TYPE = "application/x-ndjson"
LATEST = ":latest"  # what Ollama's clients add to names without a tag
NO_DATE = datetime.fromtimestamp(0, UTC)  # modes have none

_SHAPE = error_shapes.OLLAMA


class OllamaMessageBody(MessageBody):
    """One message, as Ollama has it."""

    images: Annotated[list[Any], Field(max_length=100)] | None = Field(
        None, description="Refused: only text can be read."
    )

    def text(self, place: str) -> str:
        if self.images:
            raise Invalid(
                f"Only text can be read here: {place} has images.", code="unsupported_content"
            )
        return super().text(place)


class OptionsBody(BaseModel):
    """The one option that has an effect."""

    sources_footer: bool = Field(
        False, description="End the text with a list of its sources, for people."
    )


class OllamaChatBody(BaseModel):
    """A chat. Whatever else Ollama's API knows is accepted and has no effect."""

    model: ModelName
    messages: list[OllamaMessageBody] = Field(
        min_length=1, max_length=MAX_MESSAGES, description="The conversation, oldest first.",
        examples=[[{"role": "user", "content": "What was Scrooge's partner called?"}]],
    )  # fmt: skip
    stream: bool | None = Field(True, description="Answer line by line, as Ollama does by default.")
    options: OptionsBody | None = Field(None, description="Options of the answer.")


class OllamaReplyBody(BaseModel):
    """An answer in Ollama's form, or the last line of one."""

    model: str = Field(description="The model that was asked for.")
    created_at: datetime = Field(description="When.")
    message: AssistantBody = Field(description="The answer; in a stream it came before.")
    done: Literal[True] = Field(True, description="Whether this is the end.")
    done_reason: Literal["stop"] = Field("stop", description="Always stop.")
    total_duration: int = Field(description="Nanoseconds in all.")
    load_duration: int = Field(0, description="Always 0.")
    prompt_eval_count: int = Field(description="Tokens sent to language models.")
    prompt_eval_duration: int = Field(description="Nanoseconds until the answer was begun.")
    eval_count: int = Field(description="Tokens that language models wrote.")
    eval_duration: int = Field(description="Nanoseconds for the answer.")


class DetailsBody(BaseModel):
    """What weights have and modes do not."""

    parent_model: str = Field("", description="Always empty.")
    format: str = Field("", description="Always empty.")
    family: str = Field(NAME, description="Always heliograph.")
    families: list[str] = Field([NAME], description="Always heliograph.")
    parameter_size: str = Field("", description="Always empty.")
    quantization_level: str = Field("", description="Always empty.")


class TagBody(BaseModel):
    """A model: a mode of this service."""

    name: str = Field(description="Its name.")
    model: str = Field(description="The same.")
    modified_at: datetime = Field(description="Always the first of January 1970.")
    size: int = Field(0, description="Always 0.")
    digest: str = Field(description="SHA-256 of the name.")
    details: DetailsBody = Field(default_factory=DetailsBody, description="Nothing of note.")


class TagListBody(BaseModel):
    models: list[TagBody] = Field(description="Models; the first uses the default mode.")


class ShowBody(BaseModel):
    """Which model to show."""

    model: str = Field(
        "", max_length=200, description="Name of a model.", examples=["heliograph-mix"]
    )
    name: str = Field("", max_length=200, description="The same, as old clients say it.")


class ShownBody(BaseModel):
    """What is known about a model."""

    modified_at: datetime = Field(description="Always the first of January 1970.")
    template: str = Field("", description="Always empty.")
    details: DetailsBody = Field(default_factory=DetailsBody, description="Nothing of note.")
    model_info: dict[str, str] = Field(description="The mode that it stands for.")
    capabilities: list[str] = Field(description="What it can do.")


class VersionBody(BaseModel):
    version: str = Field(description="Version of this service.")


@router.get(
    "/tags",
    summary="List the modes as Ollama lists models",
    dependencies=[READER],
    responses=responses(401, 403, 503, shape=_SHAPE),
)
async def list_tags() -> TagListBody:
    return TagListBody(models=[_tag(name + LATEST) for name in MODELS])


@router.get(
    "/ps",
    summary="List the models in memory: none",
    dependencies=[READER],
    responses=responses(401, 403, 503, shape=_SHAPE),
)
async def list_loaded() -> TagListBody:
    """Modes are always there and take no memory that a client could free."""
    return TagListBody(models=[])


@router.post(
    "/show",
    summary="Show a model as Ollama does",
    dependencies=[READER, JsonOnly],
    responses=responses(400, 401, 403, 404, 413, 415, 503, shape=_SHAPE),
)
async def show_model(body: ShowBody) -> ShownBody:
    mode = _mode(body.model or body.name)
    return ShownBody(
        modified_at=NO_DATE,
        model_info={"general.architecture": NAME, f"{NAME}.mode": mode.value},
        capabilities=["completion"],
    )


@router.get(
    "/version",
    summary="Get the version as Ollama tells it",
    dependencies=[READER],
    responses=responses(401, 403, 503, shape=_SHAPE),
)
async def get_version() -> VersionBody:
    return VersionBody(version=operations.version())


@router.post(
    "/chat",
    summary="Chat as with Ollama's API",
    response_model=OllamaReplyBody,
    dependencies=[JsonOnly],
    responses={
        200: {
            "description": "The answer; with `stream`, a line of JSON for each piece of it, and "
            "one with `done`, counts and citations.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
        **responses(400, 401, 403, 404, 413, 415, 429, 502, 503, shape=_SHAPE),
    },
)
async def chat(body: OllamaChatBody, workspace: Readable, deployed: Deployed) -> Any:
    """As `POST /v1/chat/completions`, in Ollama's form."""
    question = question_of(body.messages, _mode(body.model), workspace.name)
    if body.stream or body.stream is None:
        events = await begun(workspace, deployed, question)
        return LineStream(_lines(body, events), body.model)
    answered = await answering.answer(workspace, deployed, question)
    return _reply(body, answered, answered.answer + _footer(body, answered))


class LineStream(EventStream):
    """JSON, an object a line. Clients read every line, so silence is filled with empty pieces."""

    media_type = MEDIA_TYPE
    hello = b""

    def __init__(self, events: AsyncGenerator[Event, None], model: str) -> None:
        super().__init__(events)
        self.still_here = one_line(_piece(model, "")) + b"\n"

    def encode(self, event: Event, number: int) -> bytes:
        data = _SHAPE.render(event.data) if event.name == "error" else event.data
        return one_line(data) + b"\n"


async def _lines(
    body: OllamaChatBody, events: AsyncGenerator[engine.Event, None]
) -> AsyncGenerator[Event, None]:
    async with aclosing(events):
        async for event in events:
            match event.data:
                case str():
                    yield Event("line", _piece(body.model, event.data))
                case Answered():
                    if sources := _footer(body, event.data):
                        yield Event("line", _piece(body.model, sources))
                    yield Event("line", _reply(body, event.data, "").model_dump(mode="json"))
                case AppError():
                    yield Event("error", problems.of_error(event.data))


def _piece(model: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {"model": model, "created_at": now, "message": message, "done": False}


def _reply(body: OllamaChatBody, answered: Answered, text: str) -> OllamaReplyBody:
    total, writing = (answered.timings_ms.get(name, 0.0) for name in ("total", "answer"))
    return OllamaReplyBody(
        model=body.model,
        created_at=datetime.now(UTC),
        message=message_of(answered, text),
        total_duration=round(total * 1e6),
        prompt_eval_count=answered.usage.prompt_tokens,
        prompt_eval_duration=round((total - writing) * 1e6),
        eval_count=answered.usage.completion_tokens,
        eval_duration=round(writing * 1e6),
    )


def _footer(body: OllamaChatBody, answered: Answered) -> str:
    return footer(answered) if body.options and body.options.sources_footer else ""


def _tag(name: str) -> TagBody:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return TagBody(name=name, model=name, modified_at=NO_DATE, digest=digest)


def _mode(model: str) -> Mode:
    return mode_of(model.removesuffix(LATEST))
