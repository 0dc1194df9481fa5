"""The inverse of merge: chunks that the document no longer has take their evidence back."""

from __future__ import annotations

import logging

from app.domain import Step
from app.ports import Models, Workspace

log = logging.getLogger("heliograph.retract")

BATCH = 16  # chunks a transaction


async def retired(workspace: Workspace, step: Step) -> list[list[str]]:
    ids = await workspace.graph.retired(step.document_id, step.job_id)
    return [ids] if ids else []


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    ids = step.shard or await workspace.graph.retired(step.document_id, step.job_id)
    for i in range(0, len(ids), BATCH):
        await workspace.graph.retract(step.document_id, ids[i : i + BATCH])
    log.info(
        "evidence.retracted workspace=%s document=%s chunks=%d",
        workspace.name, step.document_id, len(ids),
    )  # fmt: skip
