"""`python -m app.cli reindex`: all vectors anew, with the embedding model that the settings name.

The graph is the record, so nothing is read or extracted again: chunks, entities and relations are
embedded into new collections beside the old, which answer until the switch at the end.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

from app.domain import Kind, Ref, Status
from app.errors import Conflict
from app.ports import Services, Workspace
from app.settings import Settings
from app.wiring import embedded_queue, open_services
from workers.stages import index

log = logging.getLogger("heliograph.reindex")

PAGE = 100  # documents
BATCH = 256  # references
KEYS = 1_000_000  # entities or relations of one document, at most
IDLE = (Status.READY, Status.FAILED)


async def reindex(settings: Settings) -> int:
    """Points written. Raises `Conflict` while documents are on their way: their vectors would be
    missed."""
    async with (
        embedded_queue(settings) as wired,
        open_services(wired, reindex=True) as services,
    ):
        names = await services.keyring.workspaces()
        for name in names:
            await _refuse_busy(services.workspace(name))
        written = 0
        for name in names:
            count = await _workspace(services, name)
            log.info("workspace.reindexed workspace=%s points=%d", name, count)
            written += count
        await services.vectors.switch()
        return written


async def _refuse_busy(workspace: Workspace) -> None:
    counts = await workspace.documents.counts()
    if busy := sum(count for status, count in counts.items() if status not in IDLE):
        raise Conflict(
            f"{busy} documents of workspace {workspace.name} are on their way. Wait until none is, "
            "and stop the workers, then try again."
        )


async def _workspace(services: Services, name: str) -> int:
    workspace = services.workspace(name)
    written = 0
    async for refs in _references(workspace):
        points, _ = await index.write(workspace, services.models, refs, anew=True)
        written += len(points)
    return written


async def _references(workspace: Workspace) -> AsyncIterator[Sequence[Ref]]:
    """Everything that documents support, each once."""
    seen: set[Ref] = set()
    waiting: list[Ref] = []
    after = ""
    while page := await workspace.documents.page(after=after, limit=PAGE):
        after = page[-1].id
        for document in page:
            async for ref in _of_document(workspace, document.id):
                if ref not in seen:
                    seen.add(ref)
                    waiting.append(ref)
            while len(waiting) >= BATCH:
                yield waiting[:BATCH]
                del waiting[:BATCH]
    if waiting:
        yield waiting


async def _of_document(workspace: Workspace, document_id: str) -> AsyncIterator[Ref]:
    position = -1
    while chunks := await workspace.graph.document_chunks(document_id, after=position):
        position = chunks[-1].position
        for chunk in chunks:
            yield Ref(Kind.CHUNK, chunk.id)
    for kind in (Kind.ENTITY, Kind.RELATION):
        for key in await workspace.graph.supported(kind, [document_id], limit=KEYS):
            yield Ref(kind, key)
