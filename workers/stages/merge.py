"""Evidence into the graph: mentions and assertions of read chunks are counted, batch by batch."""

from __future__ import annotations

import logging

from app.domain import Step
from app.ports import Models, Workspace

log = logging.getLogger("heliograph.merge")

BATCH = 16  # chunks a transaction


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    ids = await workspace.graph.unfolded(step.document_id, step.job_id)
    for i in range(0, len(ids), BATCH):
        await workspace.graph.fold(step.document_id, step.job_id, ids[i : i + BATCH])
    log.info(
        "evidence.folded workspace=%s document=%s chunks=%d",
        workspace.name, step.document_id, len(ids),
    )  # fmt: skip
