"""The inverse of merge: chunks that the document no longer has take their evidence back."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from app.domain import Plan, Status, Step
from app.ports import Models, Workspace
from workers.shards import shards

log = logging.getLogger("heliograph.retract")

BATCH = 16  # chunks a transaction
BATCHED = 500  # deletions that are seen as one batch


async def retired(workspace: Workspace, step: Step) -> list[list[str]]:
    ids = await workspace.graph.retired(step.document_id, step.job_id)
    return [ids] if ids else []


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    ids = step.shard or await workspace.graph.retired(step.document_id, step.job_id)
    await _retract(workspace, step.document_id, ids)
    others = await _with_others(workspace, step) if step.plan is Plan.DELETE else 0
    log.info(
        "evidence.retracted workspace=%s document=%s chunks=%d with_others=%d",
        workspace.name, step.document_id, len(ids), others,
    )  # fmt: skip


async def _retract(workspace: Workspace, document_id: str, ids: Sequence[str]) -> None:
    for batch in shards(ids, BATCH):
        await workspace.graph.retract(document_id, batch)


async def _with_others(workspace: Workspace, step: Step) -> int:
    """What other documents that are being deleted said goes at once: names and profiles that they
    share are then settled once for all of them. Their own jobs find it done."""
    count = 0
    for document in await workspace.documents.page(status=Status.DELETING, limit=BATCHED):
        if document.id == step.document_id or not document.chunks:
            continue
        ids = await workspace.graph.retired(document.id, document.job.id)
        await _retract(workspace, document.id, ids)
        count += len(ids)
    return count
