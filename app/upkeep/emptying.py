"""Take back what was stored, in this process and as a worker would."""

from __future__ import annotations

from dataclasses import replace

from app.domain import Document, Plan, Status
from app.originals import blobs_of, release
from app.ports import Services, Workspace
from app.upkeep.jobs import LEASE, claimed, new_job

FOLD = 16  # chunks a transaction


async def empty(services: Services, workspace: Workspace) -> None:
    """Delete what was stored, as a worker would. What a store that is away keeps from this, the
    ordinary deletion of the documents does later."""
    while page := await workspace.documents.page(limit=50):
        for document in page:
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
