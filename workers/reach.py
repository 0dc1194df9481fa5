"""How far the work of a job reaches."""

from __future__ import annotations

from app.domain import Step
from app.ports import Workspace


async def reaches_beyond(workspace: Workspace, step: Step) -> bool:
    """Whether to look at more than the document: what an earlier version alone supported is not
    the document's any more, and names that it settled may have moved evidence of others."""
    document = await workspace.documents.get(step.document_id)
    return document.version > 1 or await workspace.names.moved(step.job_id)
