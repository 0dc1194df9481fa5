"""Evidence of visible chunks made anew where it is not what they say: the first half of a rebuild.

A chunk's evidence is replaced in one transaction, so that questions see the old or the new. What is
as it should be is read and not written.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from app.domain import Step
from app.folding import Places, alias_keys, collate, name_keys
from app.holdings import HeldChunk
from app.paging import pages
from app.ports import Models, Workspace
from workers.shards import shards

log = logging.getLogger("heliograph.rebuild")

PAGE = 64  # chunks
BATCH = 16  # chunks a transaction
DOCUMENTS = 200  # a page
SHARD = 16  # documents a step


async def documents(workspace: Workspace, step: Step) -> list[list[str]]:
    ids: list[str] = []
    while page := await workspace.documents.page(after=ids[-1] if ids else "", limit=DOCUMENTS):
        ids += [document.id for document in page]
    return shards(ids, SHARD)


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    folded = 0
    for document_id in step.shard:
        read = partial(workspace.archive.chunks, document_id=document_id)
        async for page in pages(read, lambda one: one.chunk.id, PAGE):
            wrong = await _otherwise(workspace, page)
            for start in range(0, len(wrong), BATCH):
                await workspace.archive.refold(wrong[start : start + BATCH])
            folded += len(wrong)
    log.info("evidence.refolded workspace=%s chunks=%d", workspace.name, folded)


async def _otherwise(workspace: Workspace, page: Sequence[HeldChunk]) -> list[str]:
    """Those whose evidence is not what they say. Others are to be folded by a job of their own."""
    read = [held for held in page if held.live and held.folded and held.extraction]
    mentions, assertions = await workspace.archive.evidence([held.chunk.id for held in read])
    stored: defaultdict[str, list[object]] = defaultdict(list)
    for mention in mentions:
        stored[mention.chunk_id].append((mention.row, mention.alias_keys))
    for assertion in assertions:
        stored[assertion.chunk_id].append(assertion.row)
    names = {key for held in read if held.extraction for key in name_keys(held.extraction)}
    places = Places(await workspace.archive.placements_of(sorted(names)))
    wrong = []
    for held in read:
        assert held.extraction is not None, "chosen for it"
        told, stated = collate(held.extraction, places, held.chunk.document_id)
        wanted = [*((row, tuple(alias_keys(row))) for row in told), *stated]
        if sorted(map(repr, wanted)) != sorted(map(repr, stored[held.chunk.id])):
            wrong.append(held.chunk.id)
    return wrong
