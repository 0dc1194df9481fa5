"""Errors as clients of other APIs read them: the same problems in the words of OpenAI and Ollama.

Which words is a matter of the address alone, so that what fails before a route is reached (keys,
sizes, JSON) is told in them as well. Both APIs know 400 where ours says 422.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

_OPENAI_PATHS = re.compile(r"(/v1)?/(chat/completions|models(/.*)?)/?", re.DOTALL)
_OLLAMA_PATHS = "/api/"


class OpenAIFault(BaseModel):
    message: str = Field(description="What happened and what can be done about it.")
    type: str = Field(description="Kind of error, as OpenAI names it.")
    param: str | None = Field(description="The field that is wrong.")
    code: str = Field(description="Stable name of the problem, for programs.")


class OpenAIErrorBody(BaseModel):
    """An error, as OpenAI's API gives it."""

    error: OpenAIFault = Field(description="What went wrong.")


class OllamaErrorBody(BaseModel):
    """An error, as Ollama's API gives it."""

    error: str = Field(description="What happened and what can be done about it.")


class Shape(NamedTuple):
    """`model` describes what `render` makes of a problem document."""

    model: type[BaseModel]
    render: Callable[[Mapping[str, Any]], dict[str, Any]]


def of_path(path: str) -> Shape | None:
    """The shape of errors at an address; None: problem documents."""
    if path.startswith(_OLLAMA_PATHS):
        return OLLAMA
    return OPENAI if _OPENAI_PATHS.fullmatch(path) else None


def status_of(document: Mapping[str, Any]) -> int:
    status: int = document["status"]
    return 400 if status == 422 else status


def openai(document: Mapping[str, Any]) -> dict[str, Any]:
    errors = document.get("errors") or [{}]
    fault = OpenAIFault(
        message=document["detail"],
        type=_type(status_of(document)),
        param=errors[0].get("field", "").removeprefix("body.") or None,
        code=document["code"],
    )
    return OpenAIErrorBody(error=fault).model_dump()


def ollama(document: Mapping[str, Any]) -> dict[str, Any]:
    return OllamaErrorBody(error=document["detail"]).model_dump()


def _type(status: int) -> str:
    known = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return known.get(status, "server_error" if status >= 500 else "invalid_request_error")


OPENAI = Shape(OpenAIErrorBody, openai)
OLLAMA = Shape(OllamaErrorBody, ollama)
