"""Jobs: how far background work is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from app.api import ingestion
from app.api.deps import Deployed, JobId, Readable, Writable
from app.api.events import CONTENT, Event, EventStream
from app.api.problems import responses
from app.api.schemas import JobBody, JobListBody, after, cursor_of, page_of
from app.domain import Job, State
from app.ports import Journal

router = APIRouter(tags=["jobs"])

_FIRST_LOOK, _SLOWEST_LOOK = 0.1, 1.0  # seconds between looks at a followed job


@router.get("/jobs", summary="List jobs", responses=responses(400, 401, 403, 422, 503))
async def list_jobs(
    *,
    workspace: Readable,
    deployed: Deployed,
    document_id: Annotated[
        str, Query(max_length=128, description="Only those of this document.")
    ] = "",
    state: Annotated[State | None, Query(description="Only those in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Entries on a page.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=1024, description="`next` of the page before.")
    ] = None,
) -> JobListBody:
    """A page of jobs, newest first."""
    found = await deployed.services.journal.jobs(
        workspace.name, document_id=document_id, state=state, after=after(cursor), limit=limit + 1
    )
    page, more = page_of(found, limit)
    return JobListBody(
        jobs=[JobBody.of(one) for one in page], next=cursor_of(page[-1].id) if more else None
    )


@router.get("/jobs/{job_id}", summary="Get a job", responses=responses(401, 403, 404, 422, 503))
async def get_job(job_id: JobId, workspace: Readable, deployed: Deployed) -> JobBody:
    return JobBody.of(await deployed.services.journal.job(workspace.name, job_id))


@router.post(
    "/jobs/{job_id}/cancel", summary="Stop a job", responses=responses(401, 403, 404, 409, 422, 503)
)
async def cancel_job(job_id: JobId, workspace: Writable, deployed: Deployed) -> JobBody:
    journal = deployed.services.journal
    await ingestion.cancel(deployed.services, workspace, await journal.job(workspace.name, job_id))
    return JobBody.of(await journal.job(workspace.name, job_id))


@router.get(
    "/jobs/{job_id}/events",
    summary="Follow a job",
    response_class=EventStream,
    responses={
        200: {
            "description": "Events `progress` (a job) at each change, then `done`.",
            "content": CONTENT,
        },
        **responses(401, 403, 404, 422, 503),
    },
)
async def job_events(job_id: JobId, workspace: Readable, deployed: Deployed) -> Response:
    """Server-sent events until the job ends."""
    journal = deployed.services.journal
    job = await journal.job(workspace.name, job_id)
    return EventStream(follow(journal, workspace.name, job))


async def follow(journal: Journal, workspace: str, job: Job) -> AsyncGenerator[Event, None]:
    """The job at once and at each change; `done` instead of `progress` when it has ended."""
    delay = _FIRST_LOOK
    shown: Job | None = None
    while True:
        if job != shown:
            name = "done" if job.state.final else "progress"
            yield Event(name, JobBody.of(job).model_dump(mode="json"))
            shown, delay = job, _FIRST_LOOK
        if job.state.final:
            return
        await asyncio.sleep(delay)
        delay = min(delay * 1.5, _SLOWEST_LOOK)
        job = await journal.job(workspace, job.id)
