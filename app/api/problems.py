"""Errors as RFC 9457 problem documents: one shape for everything that can go wrong, but for the
addresses that belong to other APIs (`app.api.error_shapes`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from app.api import error_shapes
from app.errors import AppError, Unauthenticated
from app.telemetry import current

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 5.0  # seconds, for transient errors that do not know better

_HTTP_CODES = {
    400: ("malformed_body", "Malformed request"),
    404: ("no_such_route", "No such address"),
    405: ("method_not_allowed", "Method not allowed"),
    413: ("too_large", "Too large"),
    415: ("unsupported_content_type", "Unsupported content type"),
}


_UNPARSED = "There was an error parsing the body"  # what FastAPI says of all but syntax errors


class FieldError(BaseModel):
    """What is wrong with one field of the request."""

    field: str = Field(description="Where it stands, such as `body.top_k` or `query.limit`.")
    message: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """An error, as RFC 9457 describes it."""

    type: str = Field(description="URI of the kind of problem; ends with its `code`.")
    title: str = Field(description="The kind of problem in a few words.")
    status: int = Field(description="HTTP status code.")
    detail: str = Field(description="What happened and what can be done about it.")
    code: str = Field(description="Stable name of the problem, for programs.")
    request_id: str = Field(description="Also in the `X-Request-ID` header and in the log.")
    errors: list[FieldError] | None = Field(
        None, description="Only for invalid requests: each wrong field."
    )


def problem(
    status: int, code: str, title: str, detail: str, errors: Sequence[FieldError] = ()
) -> dict[str, Any]:
    """The document as plain data."""
    return Problem(
        type=f"urn:heliograph:problem:{code}",
        title=title,
        status=status,
        detail=detail,
        code=code,
        request_id=current.get(),
        errors=list(errors) or None,
    ).model_dump(exclude_none=True)


def of_error(error: AppError) -> dict[str, Any]:
    return problem(error.status, error.code, error.title, error.detail)


def internal() -> dict[str, Any]:
    """For bugs: the log has the story, under the same request id."""
    return problem(500, "internal", "Internal error", "Something went wrong; the log says what.")


def response(
    document: dict[str, Any], headers: Mapping[str, str] | None = None, *, path: str
) -> Response:
    """The document as clients of `path` read it."""
    shape = error_shapes.of_path(path)
    if shape is None:
        return JSONResponse(document, document["status"], dict(headers or {}), MEDIA_TYPE)
    status = error_shapes.status_of(document)
    return JSONResponse(shape.render(document), status, dict(headers or {}))


def install(app: FastAPI) -> None:
    """Render every error that leaves a route."""
    app.add_exception_handler(AppError, _app_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)


async def _app_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AppError)
    headers = {}
    if error.transient:
        headers["Retry-After"] = str(math.ceil(error.retry_after or RETRY_AFTER))
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    return response(of_error(error), headers, path=request.scope["path"])


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, title = _HTTP_CODES.get(error.status_code, (f"http_{error.status_code}", "HTTP error"))
    detail = error.detail
    if error.status_code == 404:
        detail = "Nothing is served at this address; /docs lists what is."
    elif error.status_code == 405:
        detail = f"{request.method} is not possible here."
    elif error.status_code == 400 and detail == _UNPARSED:
        detail = "The body cannot be read as JSON in UTF-8, or goes beyond what JSON readers take."
    document = problem(error.status_code, code, title, detail)
    return response(document, error.headers, path=request.scope["path"])


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return response(of_faults(error.errors()), path=request.scope["path"])


def of_faults(faults: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Pydantic's findings without the input they quote, which may be secret or long."""
    for fault in faults:
        if fault["type"] == "json_invalid":
            where = fault["loc"][-1]
            what = fault.get("ctx", {}).get("error", "it cannot be read")
            detail = f"The body is not valid JSON: {what} (at character {where})."
            return problem(400, "malformed_json", "Malformed JSON", detail)
    errors = [FieldError(field=_place(fault["loc"]), message=_message(fault)) for fault in faults]
    detail = "; ".join(f"{one.field}: {one.message}" for one in errors[:5])
    return problem(422, "validation", "Invalid request", detail, errors[:50])


def _place(loc: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in loc)[:200]


def _message(fault: Mapping[str, Any]) -> str:
    message: str = fault["msg"]
    return message.removeprefix("Value error, ")[:300]


def responses(
    *statuses: int, shape: error_shapes.Shape | None = None
) -> dict[int | str, dict[str, Any]]:
    """OpenAPI entries for the errors of a route."""
    if shape:
        return {
            status: {"description": _MEANING[status], "model": shape.model} for status in statuses
        }
    return {
        status: {
            "description": _MEANING[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


_MEANING = {
    400: "The request cannot be right (`malformed_json`, `invalid`, …).",
    401: "No API key, or an unknown one.",
    403: "The key may not do this, or not in this workspace.",
    404: "Not there, or not in this workspace.",
    409: "Clashes with the present state.",
    413: "Larger than this service takes.",
    415: "The content type or the type of the file cannot be read.",
    416: "The file has none of the bytes of this range.",
    422: "A field has a wrong value (`errors` names each), or takes a language model (`no_model`).",
    429: "A limit was hit; `Retry-After` says when to come back.",
    502: "The model's reply could not be used.",
    503: "A store or model server is away; `Retry-After` says when to come back.",
}
