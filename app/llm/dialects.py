"""What OpenAI-compatible servers and Ollama want to be asked, and how they answer.

Pure: bodies out, replies in. A reply that is none raises `BadModelOutput`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from app.domain import Prompt
from app.errors import BadModelOutput, Misconfigured, Unavailable

Format = Literal["schema", "json", "text"]
Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Ask:
    """A chat call. `form` says how to ask for the structure of `schema`, if there is one."""

    model: str
    prompt: Prompt
    context_tokens: int
    form: Format = "text"
    schema: Schema | None = None
    temperature: float | None = 0.0
    stream: bool = False
    without: frozenset[str] = frozenset()  # parameters that the server was found not to take


@dataclass(frozen=True, slots=True)
class Piece:
    """A reply or a part of one. Tokens are None where the server does not say."""

    text: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    done: bool = False


class Dialect(Protocol):
    chat_path: str
    embed_path: str

    def chat_body(self, ask: Ask) -> dict[str, object]: ...

    def chat_reply(self, reply: object) -> Piece: ...

    def chat_line(self, line: str) -> Piece | None:
        """A line of a stream; None for lines without content."""
        ...

    def embed_body(
        self, model: str, texts: Sequence[str], dimension: int | None
    ) -> dict[str, object]: ...

    def embed_reply(self, reply: object, count: int) -> list[object]:
        """One entry per text, unchecked; None where the server left one out."""
        ...

    def embed_tokens(self, reply: object) -> int | None:
        """As the server counts, if it does."""
        ...


def dialect(name: str) -> Dialect:
    if name == "openai":
        return OpenAI()
    if name == "ollama":
        return Ollama()
    raise Misconfigured(f"{name}: model URLs begin with openai+ or ollama+")


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    turns = [(turn.role, turn.content) for turn in prompt.history]
    system = [("system", prompt.system)] if prompt.system else []
    return [
        {"role": role, "content": content}
        for role, content in (*system, *turns, ("user", prompt.user))
    ]


def _no_completion() -> BadModelOutput:
    return BadModelOutput("the model server's answer is no completion", code="no_completion")


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _no_completion()
    return value


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _said_error(reply: Mapping[str, object]) -> None:
    """Some servers report an error with status 200, or in the middle of a stream."""
    if reply.get("error"):
        raise Unavailable("the model server reports an error in its answer", code="model_failed")


class OpenAI:
    chat_path = "/chat/completions"
    embed_path = "/embeddings"

    def chat_body(self, ask: Ask) -> dict[str, object]:
        body: dict[str, object] = {"model": ask.model, "messages": _messages(ask.prompt)}
        if ask.temperature is not None:
            body["temperature"] = ask.temperature
        if ask.prompt.max_tokens:
            newer = "max_tokens" in ask.without
            body["max_completion_tokens" if newer else "max_tokens"] = ask.prompt.max_tokens
        if ask.schema is not None and ask.form == "schema":
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": ask.schema},
            }
        elif ask.schema is not None and ask.form == "json":
            body["response_format"] = {"type": "json_object"}
        if ask.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return {key: value for key, value in body.items() if key not in ask.without}

    def chat_reply(self, reply: object) -> Piece:
        found = _object(reply)
        _said_error(found)
        choices = found.get("choices")
        if not isinstance(choices, list) or not choices:
            raise _no_completion()
        choice = _object(choices[0])
        message = _object(choice.get("message"))
        finish = str(choice.get("finish_reason") or "stop")
        if message.get("refusal") and not message.get("content"):
            finish = "refusal"
        return Piece(_content(message.get("content")), finish, *_usage(found), done=True)

    def chat_line(self, line: str) -> Piece | None:
        if not line.startswith("data:"):
            return None
        data = line[5:].strip()
        if data == "[DONE]":
            return Piece(done=True)
        event = _event(data)
        choices = event.get("choices")
        choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        finish = choice.get("finish_reason")
        if isinstance(delta, dict) and delta.get("refusal"):
            finish = "refusal"
        return Piece(
            content if isinstance(content, str) else "",
            finish if isinstance(finish, str) else "",
            *_usage(event),
        )

    def embed_body(
        self, model: str, texts: Sequence[str], dimension: int | None
    ) -> dict[str, object]:
        body: dict[str, object] = {"model": model, "input": list(texts)}
        return body | ({"dimensions": dimension} if dimension else {})

    def embed_reply(self, reply: object, count: int) -> list[object]:
        found = _object(reply)
        _said_error(found)
        data = found.get("data")
        if not isinstance(data, list):
            raise _no_completion()
        vectors: list[object] = [None] * count
        for place, item in enumerate(data):
            if isinstance(item, dict):
                index = item.get("index", place)
                if isinstance(index, int) and 0 <= index < count:
                    vectors[index] = item.get("embedding")
        return vectors

    def embed_tokens(self, reply: object) -> int | None:
        return _usage(_object(reply))[0]


class Ollama:
    chat_path = "/api/chat"
    embed_path = "/api/embed"

    def chat_body(self, ask: Ask) -> dict[str, object]:
        # Ollama cuts prompts off, silently, at a context of its own choice unless told.
        options: dict[str, object] = {"num_ctx": ask.context_tokens}
        if ask.temperature is not None:
            options["temperature"] = ask.temperature
        if ask.prompt.max_tokens:
            options["num_predict"] = ask.prompt.max_tokens
        body: dict[str, object] = {
            "model": ask.model,
            "messages": _messages(ask.prompt),
            "stream": ask.stream,
            "options": options,
        }
        if ask.schema is not None and ask.form != "text":
            body["format"] = ask.schema if ask.form == "schema" else "json"
        return body

    def chat_reply(self, reply: object) -> Piece:
        return self._piece(_object(reply))

    def chat_line(self, line: str) -> Piece | None:
        return self._piece(_event(line)) if line.strip() else None

    def _piece(self, found: Mapping[str, object]) -> Piece:
        _said_error(found)
        message = found.get("message")
        if not isinstance(message, dict) and not found.get("done"):
            raise _no_completion()
        content = message.get("content") if isinstance(message, dict) else ""
        done = found.get("done") is True
        return Piece(
            text=_content(content),
            finish_reason=str(found.get("done_reason") or "stop") if done else "",
            prompt_tokens=_count(found.get("prompt_eval_count")),
            completion_tokens=_count(found.get("eval_count")),
            done=done,
        )

    def embed_body(
        self, model: str, texts: Sequence[str], dimension: int | None
    ) -> dict[str, object]:
        body: dict[str, object] = {"model": model, "input": list(texts), "truncate": True}
        return body | ({"dimensions": dimension} if dimension else {})

    def embed_reply(self, reply: object, count: int) -> list[object]:
        found = _object(reply)
        _said_error(found)
        vectors = found.get("embeddings")
        if not isinstance(vectors, list):
            raise _no_completion()
        return [*vectors[:count], *[None] * (count - len(vectors))]

    def embed_tokens(self, reply: object) -> int | None:
        return _count(_object(reply).get("prompt_eval_count"))


def _event(data: str) -> Mapping[str, object]:
    try:
        event = _object(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise Unavailable("the model's answer was damaged on its way", code="stream_cut") from error
    _said_error(event)
    return event


def _content(value: object) -> str:
    """Text, also where it comes in parts; null (a reply of thoughts only) is empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    raise _no_completion()


def _usage(found: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Prompt and completion tokens."""
    usage = found.get("usage")
    if not isinstance(usage, dict):
        return None, None
    return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
