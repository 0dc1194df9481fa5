"""The end of a deletion: the document's record goes, then its original and text."""

from __future__ import annotations

import logging

from app.domain import Step
from app.errors import NotFound
from app.originals import blobs_of, release
from app.ports import Models, Workspace

log = logging.getLogger("heliograph.remove")


async def blobs(workspace: Workspace, step: Step) -> list[list[str]]:
    """One shard: the document's blobs, kept in the journal since the record goes first."""
    try:
        document = await workspace.documents.get(step.document_id)
    except NotFound:
        return [[""]]
    return [[*blobs_of(document.live), *blobs_of(document.pending)] or [""]]


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    await workspace.documents.remove(step.document_id, step.job_id)
    await release(workspace, step.shard)
    log.info("document.removed workspace=%s document=%s", workspace.name, step.document_id)
