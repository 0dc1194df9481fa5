"""The revision that was read, folded and indexed becomes the one that callers see."""

from __future__ import annotations

import logging

from app.domain import Step
from app.originals import blobs_of, release
from app.ports import Models, Workspace

log = logging.getLogger("heliograph.publish")


async def replaced(workspace: Workspace, step: Step) -> list[list[str]]:
    """One shard: blobs of the revision that goes, read before it does; none at first."""
    document = await workspace.documents.get(step.document_id)
    return [blobs_of(document.live)]


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    await workspace.documents.publish(step.document_id, step.job_id)
    await release(workspace, step.shard)
    log.info("document.published workspace=%s document=%s", workspace.name, step.document_id)
