"""What `POST /documents` takes: several files of a form, or texts as JSON; checked as a whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from app.api.budget import Budget
from app.api.fields import (
    MAX_NAME,
    Body,
    DateText,
    DocumentKey,
    MetadataBody,
    check_date,
    check_id,
    check_metadata,
    date_of,
    has_control,
)
from app.domain import Metadata, document_id_of
from app.errors import AppError, Invalid, TooLarge
from app.media import media_type_of, text_type_of
from app.settings import Settings

T = TypeVar("T")

_FORM_FIELDS = ("files", "metadata", "id", "date")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


class TextBody(Body):
    """A text to store as a document."""

    text: Annotated[str, Field(min_length=1)] = Field(
        description="The text itself.",
        examples=["Marley was dead: to begin with. There is no doubt whatever about that."],
    )
    name: str = Field(
        "",
        max_length=MAX_NAME,
        description="Shown to readers; an ending such as `.md` or `.html` tells the format.",
        examples=["carol.txt"],
    )
    id: DocumentKey | None = Field(
        None,
        description="Your own id; without one it is derived from the content. A known id replaces "
        "that document once the new version is ready.",
        examples=["carol"],
    )
    metadata: MetadataBody = Field(default_factory=dict)
    date: DateText | None = Field(
        None,
        description="Date of the content, ISO 8601; without one, the time of the upload.",
        examples=["1843-12-19"],
    )


class TextsBody(Body):
    """Several texts at once; either all are stored or none."""

    documents: list[TextBody] = Field(min_length=1, description="The texts.")


@dataclass(frozen=True, slots=True)
class Upload:
    """One checked document, not yet stored. `source` is the SHA-256 of the bytes."""

    id: str
    name: str
    media_type: str
    data: bytes
    source: str
    metadata: Metadata
    date: str


class UnsupportedContentType(AppError):
    status, code, title = 415, "unsupported_content_type", "Unsupported content type"


@asynccontextmanager
async def received(
    request: Request, workspace: str, settings: Settings, budget: Budget
) -> AsyncIterator[list[Upload]]:
    """All documents of the request, whose bytes count against the budget until the context ends.
    Errors name the first that is wrong; nothing is stored here."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        form = await _form(request, settings.max_documents_per_request)  # large files lie on disk
        try:
            async with budget.hold(_size(form)):
                yield _distinct(await _of_fields(form, workspace, settings))
        finally:
            await form.close()
    elif kind == "application/json" or kind.endswith("+json"):
        # The body and the texts read from it are there at the same time.
        async with budget.hold(2 * _declared(request, settings)):
            yield _distinct(_of_json(await request.body(), workspace, settings))
    else:
        raise UnsupportedContentType(
            "Send files as multipart/form-data or text as application/json, "
            f"not {kind[:80] or 'an unnamed type'}."
        )


def _size(form: FormData) -> int:
    return sum(one.size or 0 for one in form.getlist("files") if isinstance(one, UploadFile))


def _declared(request: Request, settings: Settings) -> int:
    """Length of the body as far as the client tells it."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() else settings.max_upload_bytes


def _distinct(uploads: Sequence[Upload]) -> list[Upload]:
    """Without exact repeats; two different documents with one id are a mistake."""
    seen: dict[str, Upload] = {}
    for upload in uploads:
        known = seen.setdefault(upload.id, upload)
        if known.source != upload.source:
            raise Invalid(f"Two documents of this request have the id {upload.id}.", code="same_id")
    return list(seen.values())


# --- JSON ----------------------------------------------------------------------------------------


def _of_json(body: bytes, workspace: str, settings: Settings) -> list[Upload]:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        fault = {"type": "json_invalid", "loc": ("body", error.pos), "ctx": {"error": error.msg}}
        raise RequestValidationError([fault]) from None
    several = isinstance(content, dict) and "documents" in content
    try:
        texts = (
            TextsBody.model_validate(content).documents
            if several
            else [TextBody.model_validate(content)]
        )
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError(
            [{**fault, "loc": ("body", *fault["loc"])} for fault in faults]
        ) from None
    _few_enough(len(texts), settings)
    uploads = [
        _of_text(text, f"body.documents.{place}" if several else "body", workspace)
        for place, text in enumerate(texts)
    ]
    _small_enough(sum(len(upload.data) for upload in uploads), settings)
    return uploads


def _of_text(body: TextBody, place: str, workspace: str) -> Upload:
    if not body.text.strip():
        raise Invalid(f"The text of {place} is blank.", code="empty")
    name = _CONTROL.sub(" ", body.name).strip()
    date = _field(f"{place}.metadata.date", lambda: date_of(body.date or "", body.metadata))
    return _upload(
        workspace, body.id, body.text.encode(),
        name=name, media_type=text_type_of(name), metadata=body.metadata, date=date,
    )  # fmt: skip


# --- forms ---------------------------------------------------------------------------------------


async def _form(request: Request, most: int) -> FormData:
    parser = _WholeForm(request.headers, request.stream(), max_files=most, max_fields=most + 8)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Invalid(f"The form cannot be read: {error.message}", code="malformed_body") from None
    if not parser.ended:
        parser.close()
        raise Invalid("The form breaks off before its end.", code="malformed_body")
    return form


class _WholeForm(MultiPartParser):
    """Starlette's parser takes a form that breaks off for a shorter one; this one can tell."""

    ended = False

    def on_end(self) -> None:
        self.ended = True

    def close(self) -> None:
        for file in self._files_to_close_on_error:
            file.close()


async def _of_fields(form: FormData, workspace: str, settings: Settings) -> list[Upload]:
    files = [one for one in form.getlist("files") if isinstance(one, UploadFile)]
    _only_known_fields(form)
    if not files:
        raise Invalid("The form has no file; send each in a field `files`.", code="no_files")
    ids = _ids(form, len(files))
    metadata = _field("body.metadata", lambda: _metadata(form.get("metadata")))
    given = _field("body.date", lambda: _date(form.get("date")))
    date = _field("body.metadata.date", lambda: date_of(given, metadata))
    uploads, total = [], 0
    for file, own_id in zip(files, ids, strict=True):
        data = await file.read()
        total += len(data)
        _small_enough(total, settings)
        name = file_name(file.filename or "")
        if not data:
            raise Invalid(f"{name or 'A file'} is empty.", code="empty")
        media_type = media_type_of(name, file.content_type or "", data)
        upload = _upload(
            workspace, own_id, data,
            name=name, media_type=media_type, metadata=metadata, date=date,
        )  # fmt: skip
        uploads.append(upload)
    return uploads


def _only_known_fields(form: FormData) -> None:
    for name, value in form.multi_items():
        if name not in _FORM_FIELDS:
            known = ", ".join(_FORM_FIELDS)
            raise Invalid(
                f"Unknown form field {name[:64]}; known are {known}.", code="unknown_field"
            )
        if (name == "files") != isinstance(value, UploadFile):
            raise Invalid(
                f"The form field {name} must {'' if name == 'files' else 'not '}be a file."
            )


def _ids(form: FormData, files: int) -> list[str | None]:
    given = [one for one in form.getlist("id") if isinstance(one, str)]
    if not given:
        return [None] * files
    if len(given) != files:
        raise Invalid(f"The form has {files} files but {len(given)} ids.", code="ids_do_not_match")
    return _field("body.id", lambda: [check_id(one) for one in given])


def _metadata(value: UploadFile | str | None) -> dict[str, Any]:
    if not isinstance(value, str) or not value:
        return {}
    try:
        content = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise ValueError("must be a JSON object") from None
    if not isinstance(content, dict):
        raise ValueError("must be a JSON object")
    return check_metadata(content)


def _date(value: UploadFile | str | None) -> str:
    return check_date(value) if isinstance(value, str) and value else ""


def file_name(given: str) -> str:
    """The last part of a path from any system, without control characters, of bounded length."""
    name = _CONTROL.sub("", given.replace("\\", "/").rpartition("/")[2]).strip()
    if len(name) > MAX_NAME:
        suffix = PurePosixPath(name).suffix[:32]
        name = name[: MAX_NAME - len(suffix)] + suffix
    return name


# --- both ----------------------------------------------------------------------------------------


def _upload(
    workspace: str, own_id: str | None, data: bytes, *, name: str, media_type: str,
    metadata: Metadata, date: str,
) -> Upload:  # fmt: skip
    source = hashlib.sha256(data).hexdigest()
    document_id = own_id or document_id_of(source)
    return Upload(
        document_id, name or own_id or "untitled", media_type, data, source, metadata, date
    )


def _few_enough(count: int, settings: Settings) -> None:
    most = settings.max_documents_per_request
    if count > most:
        raise TooLarge(f"{count} documents in one request; at most {most} are taken.")


def _small_enough(size: int, settings: Settings) -> None:
    most = settings.max_upload_bytes
    if size > most:
        raise TooLarge(f"The documents hold more than the {most:,} bytes that one request may.")


def _field(name: str, check: Callable[[], T]) -> T:
    """The value, or a 422 that names the form field."""
    try:
        return check()
    except ValueError as error:
        fault = {"type": "value_error", "loc": tuple(name.split(".")), "msg": str(error)}
        raise RequestValidationError([fault]) from None


def content_disposition(name: str) -> str:
    """Header for a download of that name: ASCII for old clients, RFC 5987 for the others."""
    short = _shown(file_name(name) or "document")
    ascii_name = "".join(
        char if char.isascii() and char.isprintable() and char not in '"\\%;' else "_"
        for char in short
    )
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(short, safe='')}"


def _shown(name: str, limit: int = 255) -> str:
    """At most so many bytes of UTF-8 with the suffix kept: what file systems take."""
    if len(name.encode()) <= limit:
        return name
    suffix = PurePosixPath(name).suffix
    suffix = suffix if len(suffix.encode()) <= 32 and not has_control(suffix) else ""
    room = limit - len(suffix.encode())
    return name.encode()[:room].decode(errors="ignore") + suffix
