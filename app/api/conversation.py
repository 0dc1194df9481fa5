"""What the chat APIs have in common: models that are modes, and messages that hold a question."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.api import answering
from app.api.deps import Deployment
from app.api.query import CitationBody
from app.api.questions import MAX_QUERY, MAX_TURN_CHARACTERS, MAX_TURNS
from app.domain import Mode, Question, Turn
from app.errors import AppError, Invalid, NotFound
from app.ports import Workspace
from app.query import engine
from app.query.engine import Answered

NAME = "heliograph"
MODELS: Mapping[str, Mode] = {
    NAME: Question("").mode,
    **{f"{NAME}-{mode.value}": mode for mode in Mode},
}
MAX_MESSAGES = 2000
MAX_STYLE = 8000  # characters of all system messages
FOOTER_QUOTE = 200  # characters

ModelName = Annotated[
    str, Field(max_length=200, description="Which mode to use.", examples=["heliograph-mix"])
]
_Text = Annotated[str, Field(max_length=MAX_TURN_CHARACTERS)]


class PartBody(BaseModel):
    """A part of a message; only text can be read."""

    type: Annotated[str, Field(max_length=100)] = Field(
        description="`text`; anything else is refused.", examples=["text"]
    )
    text: _Text = Field("", description="The text.", examples=["What was his partner called?"])


class MessageBody(BaseModel):
    """One message. The last one of the user is the question, those before it the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = Field(
        description="Who said it. What tools said is left out.", examples=["user"]
    )
    content: _Text | Annotated[list[PartBody], Field(max_length=100)] | None = Field(
        None, description="What was said, whole or in parts, which are joined line by line.",
        examples=["What was Scrooge's partner called?"],
    )  # fmt: skip

    def text(self, place: str) -> str:
        """`place` names the message in errors."""
        if not isinstance(self.content, list):
            return self.content or ""
        for number, part in enumerate(self.content):
            if part.type != "text":
                raise Invalid(
                    f"Only text can be read here: {place}.content.{number} is a part of type "
                    f"{part.type!r}.",
                    code="unsupported_content",
                )
        text = "\n".join(part.text for part in self.content)
        if len(text) > MAX_TURN_CHARACTERS:
            raise Invalid(
                f"{place}.content: at most {MAX_TURN_CHARACTERS:,} characters.", code="too_long"
            )
        return text


class NoticedBody(BaseModel):
    """What the chat APIs do not know: the evidence. Other clients pass over it."""

    citations: list[CitationBody] = Field(description="Every `[n]` of the answer, checked.")
    notice: str | None = Field(description="What the reader should know about the answer.")

    @classmethod
    def of(cls, answered: Answered) -> NoticedBody:
        return cls(
            citations=[CitationBody.of(one) for one in answered.citations],
            notice=answering.notice(answered),
        )


class AssistantBody(NoticedBody):
    """The answer with its evidence."""

    role: Literal["assistant"] = Field("assistant", description="Always assistant.")
    content: str = Field(description="The answer, with `[n]` marks.")


def message_of(answered: Answered, text: str) -> AssistantBody:
    return AssistantBody(content=text, **NoticedBody.of(answered).model_dump())


def mode_of(model: str) -> Mode:
    if model not in MODELS:
        raise NotFound(
            f"The model {model!r} does not exist; there are {', '.join(MODELS)}.",
            code="model_not_found",
        )
    return MODELS[model]


def question_of(messages: Sequence[MessageBody], mode: Mode, workspace: str) -> Question:
    """Raises `Invalid`. What stands behind the user's last message ("continue") is answered anew;
    system messages say how to answer, as `response_type` does, on one line, so that none can pass
    for a part of the prompt."""
    said = [(one.role, one.text(f"messages.{n}")) for n, one in enumerate(messages)]
    asked = [n for n, (role, _) in enumerate(said) if role == "user"]
    text = said[asked[-1]][1].strip() if asked else ""
    if not text:
        raise Invalid("There is no message of the user to answer.", code="no_question")
    if len(text) > MAX_QUERY:
        raise Invalid(
            f"The last message of the user has {len(text):,} characters; a question has at most "
            f"{MAX_QUERY:,}.",
            code="too_long",
        )
    style = " ".join(" ".join(text.split()) for role, text in said if role in _STYLE_ROLES).strip()
    if len(style) > MAX_STYLE:
        raise Invalid(
            f"System messages have at most {MAX_STYLE:,} characters together.", code="too_long"
        )
    before = [
        Turn(role, text) for role, text in said[: asked[-1]] if role in _TURN_ROLES and text.strip()
    ]
    return Question(
        text, workspace, mode, history=tuple(before[-MAX_TURNS:]), response_type=style.rstrip(".")
    )


_STYLE_ROLES = ("system", "developer")
_TURN_ROLES = ("user", "assistant")


async def begun(
    workspace: Workspace, deployed: Deployment, question: Question
) -> AsyncGenerator[engine.Event, None]:
    """The engine's events, once there is one. What fails before, all retrieval, is raised: so it
    reaches the client with its status."""
    events = answering.stream(workspace, deployed, question)
    first = await anext(events)
    if isinstance(first.data, AppError):
        await events.aclose()
        raise first.data
    return _after(first, events)


async def _after(
    first: engine.Event, events: AsyncGenerator[engine.Event, None]
) -> AsyncGenerator[engine.Event, None]:
    async with aclosing(events):
        yield first
        async for event in events:
            yield event


def footer(answered: Answered) -> str:
    """The sources for people whose client does not show `citations`; empty without any."""
    lines = []
    for one in answered.citations:
        quote = " ".join(one.quote.split())
        shown = quote if len(quote) <= FOOTER_QUOTE else f"{quote[:FOOTER_QUOTE].rstrip()} …"
        lines.append(f"- [{one.number}] {label(one.document_name, one.page)}: “{shown}”")
    return "\n\nSources:\n" + "\n".join(lines) if lines else ""


def label(document: str, page: int | None) -> str:
    name = " ".join(document.split())
    return name if page is None else f"{name}, page {page}"
