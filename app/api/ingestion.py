"""From a checked upload to a stored document with an open job, in that order; and other jobs."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from app.api.uploads import Upload
from app.domain import (
    FIRST_STAGE,
    Document,
    Failure,
    Job,
    Plan,
    Revision,
    State,
    Status,
    derive_id,
    first_ticket,
    withdrawal_of,
)
from app.errors import Conflict, NotFound
from app.originals import blobs_of, release, settle
from app.ports import Services, Workspace
from app.upkeep import jobs

log = logging.getLogger("heliograph.api")

_AT_ONCE = 8  # uploads that are stored at the same time


@dataclass(frozen=True, slots=True)
class Accepted:
    document: Document
    job_id: str
    new: bool  # whether this request opened the job


async def store(
    services: Services, workspace: Workspace, uploads: Sequence[Upload], *, key: str, now: float
) -> list[Accepted]:
    """Store all and start their jobs. `key` is the request's Idempotency-Key or ""."""
    accepted: list[Accepted] = []
    try:
        for begin in range(0, len(uploads), _AT_ONCE):
            part = uploads[begin : begin + _AT_ONCE]
            stored = (_store(services, workspace, upload, key=key, now=now) for upload in part)
            results = await asyncio.gather(*stored, return_exceptions=True)
            accepted += [one for one in results if isinstance(one, Accepted)]
            for one in results:
                if isinstance(one, BaseException):
                    raise one
    finally:
        await send(services, [one.job_id for one in accepted if one.new], Plan.INGEST)
    return accepted


async def _store(
    services: Services, workspace: Workspace, upload: Upload, *, key: str, now: float
) -> Accepted:
    job_id = _request_job(workspace.name, key, upload) if key else ""
    if job_id and await _has_job(services, workspace, job_id):
        try:
            return Accepted(await workspace.documents.get(upload.id), job_id, new=False)
        except NotFound:
            job_id = ""  # what it stored was deleted since: this is a new upload
    job = new_job(workspace.name, upload.id, Plan.INGEST, now=now, job_id=job_id)
    await workspace.blobs.put(upload.data)
    revision = Revision(
        name=upload.name, media_type=upload.media_type, size=len(upload.data),
        source=upload.source, metadata=upload.metadata, date=upload.date,
    )  # fmt: skip
    document = await workspace.documents.submit(upload.id, revision, job)
    await settle(workspace, upload.source, upload.data)
    for revision in document.superseded:
        await release(workspace, blobs_of(revision))
    new = document.job.id == job.id
    if job_id and not new and await _has_job(services, workspace, job_id):
        return Accepted(document, job_id, new=False)  # the same request at the same moment
    return Accepted(document, document.job.id, new=new)


def _request_job(workspace: str, key: str, upload: Upload) -> str:
    """A repeat has the same job id, so it is known by the journal alone, on every host."""
    return derive_id(workspace, "request", key, upload.id, upload.source).replace("-", "")


async def _has_job(services: Services, workspace: Workspace, job_id: str) -> bool:
    try:
        await services.journal.job(workspace.name, job_id)
    except NotFound:
        return False
    return True


async def reopen(
    services: Services, workspace: Workspace, document: Document, plan: Plan, *, now: float,
    again: Sequence[str] = (),
) -> Job:  # fmt: skip
    """Open a job for what is stored; a deletion that is under way is not begun again."""
    running = document.job
    if plan is Plan.DELETE and running.plan is Plan.DELETE and not running.state.final:
        return running
    job = new_job(workspace.name, document.id, plan, now=now)
    document = await workspace.documents.reopen(document.id, job, again=again)
    await send(services, [document.job.id], plan)
    return document.job


async def retry(
    services: Services, workspace: Workspace, document: Document, *, chunk_id: str = "", now: float
) -> Job:
    """Go on with what failed or was cancelled; of a version that is visible, read the chunks again
    that could not be read, or only the one named. `Conflict` where nothing failed."""
    job, again = document.job, list[str]()
    failed = job.plan is Plan.WITHDRAW or job.state in (State.FAILED, State.CANCELLED)
    if document.pending is None and (failed or job.state is State.DONE):
        unread = await workspace.graph.failed(document.id)
        again = [one for one in unread if one == chunk_id or not chunk_id]
    if not (again or (failed and not chunk_id)):
        raise Conflict(
            f"Only what failed or was cancelled can be tried again; this document is "
            f"{document.status}" + (f" and chunk {chunk_id} was read." if chunk_id else "."),
            code="not_failed",
        )
    plan = Plan.DELETE if job.plan is Plan.DELETE else Plan.INGEST
    return await reopen(services, workspace, document, plan, now=now, again=again)


async def cancel(services: Services, workspace: Workspace, job: Job) -> None:
    """End a job; `Conflict` if it had ended already, or cleans up after one that has. What an
    ingest has left visible is withdrawn behind that."""
    if job.plan is Plan.WITHDRAW:
        raise Conflict("This job has already ended.", code="job_ended")
    if job.plan is Plan.DELETE and not job.state.final:
        raise Conflict(
            "A deletion cannot be stopped: part of it may have happened. Upload the document again "
            "to keep it.",
            code="deleting",
        )
    failure = Failure("cancelled", "Cancelled by request.", job.stage, retryable=True)
    if not await services.journal.close(workspace.name, job.id, State.CANCELLED, failure):
        raise Conflict("This job has already ended.", code="job_ended")
    await jobs.send(services, [withdrawal_of(job.id)])


def new_job(workspace: str, document_id: str, plan: Plan, *, now: float, job_id: str = "") -> Job:
    return Job(
        id=job_id or uuid.uuid4().hex,
        workspace=workspace,
        plan=plan,
        document_id=document_id,
        status=Status.DELETING if plan is Plan.DELETE else Status.QUEUED,
        stage=FIRST_STAGE[plan],
        created_at=now,
        updated_at=now,
    )


async def send(services: Services, job_ids: Sequence[str], plan: Plan) -> None:
    """Tell the queue."""
    await jobs.send(services, [first_ticket(job_id, plan) for job_id in job_ids])
