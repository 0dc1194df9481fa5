"""Documents: in, out, how far they are, and what came of them."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from app.api import estimates, ingestion, uploads
from app.api.deps import ChunkId, Deployed, DocumentId, JsonOnly, Readable, Writable
from app.api.downloads import download
from app.api.events import CONTENT, EventStream
from app.api.fields import Body, FilterBody
from app.api.jobs import follow
from app.api.openapi import UPLOAD
from app.api.problems import responses
from app.api.schemas import (
    AcceptedBody,
    AcceptedListBody,
    ChunkBody,
    ChunkListBody,
    DocumentBody,
    DocumentListBody,
    JobIdBody,
    after,
    cursor_of,
    page_of,
)
from app.domain import Plan, Status
from app.errors import AppError, Conflict, Invalid, NotFound
from app.ports import Filters

router = APIRouter(tags=["documents"])

Limit = Annotated[int, Query(ge=1, le=500, description="Entries on a page.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="`next` of the page before.")]


class CountsBody(BaseModel):
    """Documents by status."""

    queued: int = Field(description="Waiting for a worker.")
    parsing: int = Field(description="Being read.")
    extracting: int = Field(description="Their chunks are being read by the extractor.")
    merging: int = Field(description="Being merged into the graph.")
    indexing: int = Field(description="Being made searchable.")
    ready: int = Field(description="Visible to queries.")
    failed: int = Field(description="Ended with an error, or cancelled.")
    deleting: int = Field(description="Being deleted.")


class IdsBody(Body):
    ids: list[Annotated[str, Field(min_length=1, max_length=128)]] = Field(
        min_length=1, max_length=1000, description="Ids of documents.", examples=[["carol"]]
    )


class DeletionBody(BaseModel):
    id: str = Field(description="Id of the document.")
    job_id: str | None = Field(description="Job that deletes it; null if there is none.")
    error: str | None = Field(description="Why not, as a problem code (`not_found`).")


class DeletionListBody(BaseModel):
    documents: list[DeletionBody] = Field(description="In the order of the request.")


@router.post(
    "/documents",
    status_code=202,
    summary="Upload documents",
    openapi_extra=UPLOAD,
    responses=responses(400, 401, 403, 409, 413, 415, 422, 503),
)
async def upload_documents(
    request: Request,
    workspace: Writable,
    deployed: Deployed,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            description="A repeat with the same key and content returns the first answer's jobs, "
            "even if the document has changed since.",
        ),
    ] = None,
) -> AcceptedListBody:
    """Files as a form or text as JSON. All are checked before any is stored; the answer comes when
    they are stored, and their ingestion goes on behind it. The same bytes are one document, unless
    you give ids of your own."""
    async with uploads.received(
        request, workspace.name, deployed.settings, deployed.uploads
    ) as checked:
        accepted = await ingestion.store(
            deployed.services, workspace, checked, key=idempotency_key or "", now=time.time()
        )
    new = {one.document.id for one in accepted if one.new}
    deployed.metrics.documents.inc(len(new))
    deployed.metrics.bytes.inc(sum(len(one.data) for one in checked if one.id in new))
    return AcceptedListBody(
        documents=[
            AcceptedBody(
                id=one.document.id, name=upload.name, status=one.document.status, job_id=one.job_id
            )
            for one, upload in zip(accepted, checked, strict=True)
        ]
    )


@router.post(
    "/documents/estimate",
    summary="Estimate what an upload would cost",
    openapi_extra=UPLOAD,
    responses=responses(400, 401, 403, 413, 415, 422),
)
async def estimate_upload(
    request: Request, workspace: Readable, deployed: Deployed
) -> estimates.EstimateBody:
    """Takes what `POST /documents` takes and stores nothing."""
    async with uploads.received(
        request, workspace.name, deployed.settings, deployed.uploads
    ) as checked:
        return await asyncio.to_thread(
            estimates.estimate, checked, workspace.options, deployed.services.models,
            deployed.settings,
        )  # fmt: skip


@router.get("/documents", summary="List documents", responses=responses(400, 401, 403, 422, 503))
async def list_documents(
    workspace: Readable,
    status: Annotated[Status | None, Query(description="Only those in this state.")] = None,
    filters: Annotated[
        str | None,
        Query(
            max_length=4096,
            description="Only those that meet these conditions: JSON, as `filters` of a query.",
            examples=['{"author": "Charles Dickens"}'],
        ),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> DocumentListBody:
    """A page of documents in the order of their ids."""
    found = await workspace.documents.page(
        status=status, filters=_filters(filters), after=after(cursor), limit=limit + 1
    )
    page, more = page_of(found, limit)
    return DocumentListBody(
        documents=[DocumentBody.of(one) for one in page],
        next=cursor_of(page[-1].id) if more else None,
    )


def _filters(text: str | None) -> Filters | None:
    if not text:
        return None
    try:
        return _FILTERS.validate_python(orjson.loads(text))
    except orjson.JSONDecodeError:
        fault = {"type": "value_error", "loc": ("query", "filters"), "msg": "must be a JSON object"}
        raise RequestValidationError([fault]) from None
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError(
            [{**fault, "loc": ("query", "filters", *fault["loc"])} for fault in faults]
        ) from None


_FILTERS: TypeAdapter[dict[str, Any]] = TypeAdapter(FilterBody)


@router.get(
    "/documents/counts", summary="Count documents by status", responses=responses(401, 403, 503)
)
async def count_documents(workspace: Readable) -> CountsBody:
    counts = await workspace.documents.counts()
    return CountsBody(**{status.value: counts.get(status, 0) for status in Status})


@router.post(
    "/documents/delete",
    status_code=202,
    summary="Delete several documents",
    dependencies=[JsonOnly],
    responses=responses(400, 401, 403, 415, 422, 503),
)
async def delete_documents(
    body: IdsBody, workspace: Writable, deployed: Deployed
) -> DeletionListBody:
    """Starts a deletion for each that exists and says which do not."""
    entries = []
    for document_id in dict.fromkeys(body.ids):
        try:
            document = await workspace.documents.get(document_id)
            job = await ingestion.reopen(
                deployed.services, workspace, document, Plan.DELETE, now=time.time()
            )
            entries.append(DeletionBody(id=document_id, job_id=job.id, error=None))
        except AppError as error:
            if error.transient:
                raise
            entries.append(DeletionBody(id=document_id, job_id=None, error=error.code))
    return DeletionListBody(documents=entries)


@router.get(
    "/documents/{document_id}",
    summary="Get a document",
    responses=responses(401, 403, 404, 503),
)
async def get_document(document_id: DocumentId, workspace: Readable) -> DocumentBody:
    """Its status, progress, error, metadata and model usage."""
    return DocumentBody.of(await workspace.documents.get(document_id))


@router.delete(
    "/documents/{document_id}",
    status_code=202,
    summary="Delete a document",
    responses=responses(401, 403, 404, 503),
)
async def delete_document(
    document_id: DocumentId, workspace: Writable, deployed: Deployed
) -> JobIdBody:
    """Starts a job that removes exactly what only this document supports. The document is gone when
    the job is done."""
    document = await workspace.documents.get(document_id)
    job = await ingestion.reopen(
        deployed.services, workspace, document, Plan.DELETE, now=time.time()
    )
    return JobIdBody(job_id=job.id)


_PART: dict[str, Any] = {
    "description": "The bytes asked for by `Range`.",
    "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
}


@router.get(
    "/documents/{document_id}/text",
    summary="Get the parsed text",
    response_class=PlainTextResponse,
    responses={206: _PART, **responses(401, 403, 404, 409, 416, 503)},
)
async def get_text(
    document_id: DocumentId, workspace: Readable, request: Request
) -> StreamingResponse:
    """The text that offsets of chunks and citations count in (in code points). Takes a `Range` of
    bytes."""
    document = await workspace.documents.get(document_id)
    if not document.revision.text:
        raise Conflict("This document has no parsed text yet.", code="not_parsed")
    return await download(
        workspace.blobs, document.revision.text, request,
        media_type="text/plain; charset=utf-8", headers=_INERT,
    )  # fmt: skip


@router.get(
    "/documents/{document_id}/chunks",
    summary="List the chunks of a document",
    responses=responses(400, 401, 403, 404, 422, 503),
)
async def list_chunks(
    document_id: DocumentId, workspace: Readable, limit: Limit = 100, cursor: Cursor = None
) -> ChunkListBody:
    """The chunks that queries see, in the order of the text, with why some could not be read."""
    await workspace.documents.get(document_id)
    found = await workspace.graph.document_chunks(
        document_id, after=_position(cursor), limit=limit + 1
    )
    page, more = page_of(found, limit)
    links = {one.chunk_id: one for one in await workspace.graph.chunk_links([c.id for c in page])}
    failed = await workspace.graph.failed(document_id)
    return ChunkListBody(
        chunks=[ChunkBody.of(one, links.get(one.id), failed.get(one.id)) for one in page],
        next=cursor_of(str(page[-1].position)) if more else None,
    )


def _position(cursor: str | None) -> int:
    last = after(cursor)
    if last and not (last.isascii() and last.isdigit() and len(last) < 10):
        raise Invalid("This cursor belongs to another list.", code="bad_cursor")
    return int(last) if last else -1


@router.get(
    "/documents/{document_id}/original",
    summary="Download the original",
    response_class=Response,
    responses={
        200: {
            "description": "The bytes as uploaded.",
            "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
        },
        206: _PART,
        **responses(401, 403, 404, 416, 503),
    },
)
async def get_original(
    document_id: DocumentId, workspace: Readable, request: Request
) -> StreamingResponse:
    """The file, streamed. Takes a `Range` of bytes."""
    document = await workspace.documents.get(document_id)
    name = uploads.content_disposition(document.revision.name)
    return await download(
        workspace.blobs, document.revision.source, request,
        media_type=document.revision.media_type,
        headers={**_INERT, "Content-Disposition": name},
    )  # fmt: skip


# Uploaded HTML must not run in the name of this service, whatever a browser makes of it.
_INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "private, no-cache",
}


@router.post(
    "/documents/{document_id}/retry",
    status_code=202,
    summary="Try again what failed",
    responses=responses(401, 403, 404, 409, 503),
)
async def retry_document(
    document_id: DocumentId, workspace: Writable, deployed: Deployed
) -> JobIdBody:
    """Goes on where a document failed or was cancelled: chunks that were read are not read again.
    Of a document that is ready with chunks that could not be read, only these are tried again; it
    stays visible meanwhile."""
    document = await workspace.documents.get(document_id)
    job = await ingestion.retry(deployed.services, workspace, document, now=time.time())
    return JobIdBody(job_id=job.id)


@router.post(
    "/documents/{document_id}/chunks/{chunk_id}/retry",
    status_code=202,
    summary="Read a failed chunk again",
    responses=responses(401, 403, 404, 409, 422, 503),
)
async def retry_chunk(
    document_id: DocumentId, chunk_id: ChunkId, workspace: Writable, deployed: Deployed
) -> JobIdBody:
    """Of a document that is ready, reads one chunk again that could not be read; the others stay
    as they are."""
    document = await workspace.documents.get(document_id)
    known = await workspace.graph.chunks([chunk_id])
    if not known or known[0].document_id != document_id:
        raise NotFound(f"Document {document_id} has no chunk {chunk_id}.")
    job = await ingestion.retry(
        deployed.services, workspace, document, chunk_id=chunk_id, now=time.time()
    )
    return JobIdBody(job_id=job.id)


@router.post(
    "/documents/{document_id}/cancel",
    summary="Stop the ingestion of a document",
    responses=responses(401, 403, 404, 409, 503),
)
async def cancel_document(
    document_id: DocumentId, workspace: Writable, deployed: Deployed
) -> DocumentBody:
    """Ends its running job. A version that was visible stays so; what was merged ahead of
    publication is taken back, until which the status is not yet `failed`."""
    document = await workspace.documents.get(document_id)
    await ingestion.cancel(deployed.services, workspace, document.job)
    return DocumentBody.of(await workspace.documents.get(document_id))


@router.get(
    "/documents/{document_id}/events",
    summary="Follow a document's progress",
    response_class=EventStream,
    responses={
        200: {
            "description": "Events `progress` (a job) at each change, then `done`.",
            "content": CONTENT,
        },
        **responses(401, 403, 404, 503),
    },
)
async def document_events(
    document_id: DocumentId, workspace: Readable, deployed: Deployed
) -> Response:
    """Server-sent events of its latest job, until that ends."""
    document = await workspace.documents.get(document_id)
    return EventStream(follow(deployed.services.journal, workspace.name, document.job))
