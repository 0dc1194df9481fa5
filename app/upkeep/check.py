"""Compares what is derived with what it is derived from, and mends it.

Evidence against what chunks say; counters against evidence; vectors, blobs and the journal against
the record. Work in progress looks like damage for a moment, so what a first look finds counts only
if a second one, seconds later, finds the same. While documents are on their way, what belongs to
them may still show: check again when they are ready before trusting a difference in their names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from app.domain import Kind, Plan, Ref, State, Status, Ticket, first_ticket
from app.errors import NotFound
from app.originals import release
from app.ports import Services, Workspace
from app.upkeep.check_graph import graph_differences, name_differences
from app.upkeep.check_rest import blob_differences, queue_differences
from app.upkeep.check_vectors import vector_differences
from app.upkeep.differences import Difference
from app.upkeep.jobs import new_job, send
from app.upkeep.litter import YOUNG

log = logging.getLogger("heliograph.check")

SECOND_LOOK = 3.0  # seconds
BATCH = 16  # chunks or references a transaction


async def check(
    services: Services, workspace: Workspace, *, blobs: bool = True, young: float = YOUNG,
    wait: float = SECOND_LOOK,
) -> list[Difference]:  # fmt: skip
    """What two looks agree on, in order. `blobs`: also files that no workspace refers to, unless
    they are younger than so many seconds."""
    look = _Look(services, workspace, young if blobs else None)
    first = {one async for one in look.differences()}
    if not first:
        return []
    await asyncio.sleep(wait)
    second = {one async for one in look.differences()}
    found = sorted(first & second)
    log.info("workspace.checked workspace=%s differences=%d", workspace.name, len(found))
    return found


@dataclass(frozen=True, slots=True)
class _Look:
    services: Services
    workspace: Workspace
    young: float | None  # None: files that no workspace refers to are left alone

    async def differences(self) -> AsyncIterator[Difference]:
        idle = not await self._busy()
        async for one in graph_differences(self.workspace, idle=idle):
            yield one
        async for one in vector_differences(self.workspace, idle=idle):
            yield one
        async for one in blob_differences(self.workspace, young=self.young):
            yield one
        async for one in queue_differences(self.services, self.workspace):
            yield one

    async def _busy(self) -> bool:
        """Whether a job is there that would do what is left to do."""
        for state in (State.QUEUED, State.RUNNING):
            if await self.services.journal.jobs(self.workspace.name, state=state, limit=1):
                return True
        return False


# --- mending -------------------------------------------------------------------------------------


async def repaired(
    services: Services, workspace: Workspace, found: Sequence[Difference], *, blobs: bool = True,
    wait: float = SECOND_LOOK,
) -> list[Difference]:  # fmt: skip
    """Mend, look again, and say what remains. A step that was sent is a worker's from then on."""
    await repair(services, workspace, found)
    sent = {one for one in found if one.action == "send"}
    remaining = await check(services, workspace, blobs=blobs, wait=wait)
    return [one for one in remaining if one not in sent]


async def repair(services: Services, workspace: Workspace, found: Sequence[Difference]) -> None:
    """Mend what can be. What a worker has to do is opened as a job, and sent."""
    archive, vectors = workspace.archive, workspace.vectors
    for ids in _batches(_subjects(found, "refold")):
        await archive.refold([one[0] for one in ids])
    for refs in _batches(_subjects(found, "recount")):
        await archive.recount([_ref(one) for one in refs])
    if any(one.area == "graph" for one in found):
        await archive.recount_totals()
        # Evidence that was made anew may use other names: look again.
        names = [one.subject[0] async for one in name_differences(workspace)]
        for start in range(0, len(names), BATCH):
            await archive.recount_names(names[start : start + BATCH])
    erased = [_ref(one) for one in _subjects(found, "erase")]
    await vectors.delete(erased)
    # Those that are there again by now would miss their points.
    await workspace.graph.forget([*erased, *(_ref(one) for one in _subjects(found, "reindex"))])
    await release(workspace, [one[0] for one in _subjects(found, "delete blob")])
    await _mend_jobs(services, workspace)
    tickets = [Ticket(one[0], int(one[1])) for one in _subjects(found, "send")]
    if any(one.area in ("graph", "vectors") for one in found):
        job = new_job(workspace.name, Plan.CURATE)
        await services.journal.open(job)
        tickets.append(first_ticket(job.id, job.plan))
    await send(services, tickets)
    log.info("workspace.repaired workspace=%s differences=%d", workspace.name, len(found))


async def _mend_jobs(services: Services, workspace: Workspace) -> None:
    for fault in await workspace.archive.job_faults():
        await workspace.archive.mend_job(fault)
        if fault.kind == "ended":
            continue
        job = new_job(workspace.name, fault.plan, fault.document_id)
        try:
            if not fault.document_id:
                await services.journal.open(job)
            elif fault.kind == "jobless" and not await _waits(workspace, fault.document_id):
                continue
            else:
                deleting = fault.plan is Plan.DELETE
                status = Status.DELETING if deleting else Status.QUEUED
                await workspace.documents.reopen(fault.document_id, replace(job, status=status))
        except NotFound:  # deleted since
            continue
        await send(services, [first_ticket(job.id, job.plan)])


async def _waits(workspace: Workspace, document_id: str) -> bool:
    return (await workspace.documents.get(document_id)).pending is not None


def _subjects(found: Sequence[Difference], action: str) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(one.subject for one in found if one.action == action))


def _ref(subject: tuple[str, ...]) -> Ref:
    return Ref(Kind(subject[0]), subject[1])


def _batches(subjects: Sequence[tuple[str, ...]]) -> list[Sequence[tuple[str, ...]]]:
    return [subjects[start : start + BATCH] for start in range(0, len(subjects), BATCH)]
