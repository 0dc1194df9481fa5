"""Evidence into the graph: mentions and assertions of read chunks are counted, batch by batch."""

from __future__ import annotations

import logging

from app import notices
from app.domain import Step
from app.ports import Models, Workspace
from workers.shards import shards

log = logging.getLogger("heliograph.merge")

BATCH = 16  # chunks a transaction
SAMPLE = 8  # chunks in which names are looked for


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    ids = await workspace.graph.unfolded(step.document_id, step.job_id)
    for batch in shards(ids, BATCH):
        await workspace.graph.fold(step.document_id, step.job_id, batch)
    await _note(workspace, models, step)
    log.info(
        "evidence.folded workspace=%s document=%s chunks=%d",
        workspace.name, step.document_id, len(ids),
    )  # fmt: skip


async def _note(workspace: Workspace, models: Models, step: Step) -> None:
    """Say which chunks could not be read, and if a model found nothing in any: told anew from what
    is stored, so that a warning goes when its chunk was read after all."""
    document = await workspace.documents.get(step.document_id)
    readings = await workspace.graph.readings(step.document_id, step.job_id)
    before = [one for one in document.warnings if notices.is_ours(one)]
    now = notices.of_readings(readings)
    read = readings.chunks - len(readings.failed)
    if models.extractor.by_model and read and len(readings.empty) == read:
        some = await workspace.graph.pending_chunks(step.document_id, readings.empty[:SAMPLE])
        if notices.has_names("\n".join(chunk.text for chunk, _ in some)):
            now.append(notices.nothing_found(readings.chunks))
            log.warning(
                "extraction.empty workspace=%s document=%s chunks=%d",
                workspace.name, step.document_id, readings.chunks,
            )  # fmt: skip
    if before != now:
        await workspace.documents.note(step.document_id, step.job_id, without=before, add=now)
