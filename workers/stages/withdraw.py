"""Back to the visible revision: what an ingest that was cancelled or failed has left goes.

What it changed of chunks that the visible revision has is undone; chunks that only it has lose
their evidence and their points. They stay stored with what they say, which was paid for, until the
document is tried again, replaced or deleted.
"""

from __future__ import annotations

import logging

from app.domain import Step
from app.ports import Models, Workspace
from workers.shards import shards

log = logging.getLogger("heliograph.withdraw")

BATCH = 16  # chunks a transaction


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    document_id, job_id, graph = step.document_id, step.job_id, workspace.graph
    await workspace.documents.restore(document_id, job_id)
    taken = await graph.retired(document_id, job_id)
    for batch in shards(taken, BATCH):
        await graph.retract(document_id, batch)
    again = await graph.unfolded(document_id, job_id)
    for batch in shards(again, BATCH):
        await graph.fold(document_id, job_id, batch)
    log.info(
        "revision.withdrawn workspace=%s document=%s chunks=%d restored=%d",
        workspace.name, document_id, len(taken), len(again),
    )  # fmt: skip
