"""Take back what was stored, in this process and as a worker would."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from app.domain import Document, Plan, Status
from app.originals import blobs_of, release
from app.paging import pages
from app.ports import Services, Workspace
from app.upkeep.jobs import LEASE, claimed, new_job

FOLD = 16  # chunks a transaction


async def empty(services: Services, workspace: Workspace, jobs: Collection[str]) -> None:
    """Delete documents whose latest job is one of these, as a worker would: others were uploaded
    meanwhile. What a store that is away keeps from this, their ordinary deletion does later."""
    async for page in pages(workspace.documents.page, lambda one: one.id, 50):
        for document in page:
            if document.job.id in jobs:
                await _delete(services, workspace, document)
    gone = [one.ref for one in await workspace.graph.unindexed() if one.gone]
    await workspace.vectors.delete(gone)
    await workspace.graph.forget(gone)


async def _delete(services: Services, workspace: Workspace, document: Document) -> None:
    job = new_job(workspace.name, Plan.DELETE, document.id)
    await workspace.documents.reopen(document.id, replace(job, status=Status.DELETING))
    step = await claimed(services, job)
    ids = await workspace.graph.retired(document.id, job.id)
    for start in range(0, len(ids), FOLD):
        await workspace.graph.retract(document.id, ids[start : start + FOLD])
    await workspace.documents.remove(document.id, job.id)
    await release(workspace, [*blobs_of(document.live), *blobs_of(document.pending)])
    await services.journal.finish(step, lease=LEASE)
