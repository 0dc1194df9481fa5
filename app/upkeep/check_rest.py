"""Blobs against documents, the queue against the journal, and the journal against itself."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from app.domain import Plan
from app.errors import NotFound
from app.paging import pages
from app.ports import Services, Workspace
from app.upkeep.differences import Action, Difference
from app.upkeep.jobs import LEASE

PAGE = 100
OVERDUE = 10_000


async def blob_differences(
    workspace: Workspace, *, young: float | None
) -> AsyncIterator[Difference]:
    """Files of documents that are gone and, unless `young` is None, files that nobody refers to
    and that are older than so many seconds."""
    async for page in pages(workspace.documents.page, lambda one: one.id, PAGE):
        for document in page:
            if document.job.plan is Plan.DELETE:
                continue  # on its way out
            for revision in (document.live, document.pending):
                parts = (("original", revision.source), ("text", revision.text)) if revision else ()
                for part, key in parts:
                    if key and not await workspace.blobs.has(key):
                        what = f"the {part} of document {document.id} is gone"
                        yield Difference("blobs", what, "nothing", (key,))
    if young is not None:
        async for key, put_at in workspace.blobs.list():
            if put_at < time.time() - young and not await workspace.documents.blob_in_use(key):
                what = f"no document of any workspace refers to {key}"
                yield Difference("blobs", what, "delete blob", (key,))


_FAULTS: dict[str, tuple[str, Action]] = {
    "stepless": ("job {id} has not ended and has no step", "reopen"),
    "ended": ("job {id} has ended and has steps", "drop steps"),
    "jobless": ("document {document} has no job", "give job"),
}


async def queue_differences(services: Services, workspace: Workspace) -> AsyncIterator[Difference]:
    for fault in await workspace.archive.job_faults():
        what, action = _FAULTS[fault.kind]
        text = what.format(id=fault.id, document=fault.document_id)
        yield Difference("queue", text, action, (fault.id,))
    for ticket in await services.journal.overdue(limit=OVERDUE, lease=LEASE):
        try:
            await services.journal.job(workspace.name, ticket.step_id.rsplit(".", 2)[0])
        except NotFound:  # of another workspace
            continue
        what = f"step {ticket.step_id} waits, and no worker takes it"
        yield Difference("queue", what, "send", (ticket.step_id, str(ticket.attempt)))
