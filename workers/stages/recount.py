"""What is counted of evidence, counted anew: the second half of a rebuild.

Entities and relations get tallies, degrees and aliases from their evidence, names theirs from all
mentions; then every name is decided on again. Each batch is a transaction.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial

from app.domain import Kind, Ref, Step
from app.paging import pages
from app.ports import Models, Workspace
from app.resolution.settlement import Settlement
from app.upkeep.owners import owners
from workers.shards import coded, decoded, shards

log = logging.getLogger("heliograph.rebuild")

PAGE = 200  # records
BATCH = 16  # entities and relations a transaction
SHARD = 64  # entities and relations a step
NAMES = 1000  # a step and a transaction: each reads all mentions once
NAME = "name:"


async def everything(workspace: Workspace, step: Step) -> list[list[str]]:
    """Entities and relations that are there or have evidence, and names that are mentioned, known,
    placed or compared."""
    refs: set[Ref] = set()
    names: set[str] = set()
    async for found, used in _told(workspace):
        refs |= found
        names |= used
    async for found in _stored(workspace):
        refs |= found
    async for used in _named(workspace):
        names |= used
    return [
        *shards([coded(ref) for ref in sorted(refs)], SHARD),
        *shards([NAME + name for name in sorted(names)], NAMES),
    ]


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    names = [code.removeprefix(NAME) for code in step.shard if code.startswith(NAME)]
    refs = [decoded(code) for code in step.shard if not code.startswith(NAME)]
    for start in range(0, len(refs), BATCH):
        await workspace.archive.recount(refs[start : start + BATCH])
    if names:
        await workspace.archive.recount_names(names)
        await _open(workspace, names)
    log.info(
        "evidence.recounted workspace=%s owners=%d names=%d",
        workspace.name, len(refs), len(names),
    )  # fmt: skip


async def totals(workspace: Workspace, models: Models, step: Step) -> None:
    await workspace.archive.recount_totals()


async def _open(workspace: Workspace, names: Sequence[str]) -> None:
    """Have decisions on these names taken anew; what was decided on those that are gone goes."""
    settled = False
    while not settled:
        version = await workspace.names.version()
        known = await workspace.names.known(names)
        alive = [one.key for one in known if one.mentions]
        gone = sorted(set(names) - set(alive))
        settled = await workspace.names.settle(Settlement(version, gone=gone, reopen=alive))


async def _told(workspace: Workspace) -> AsyncIterator[tuple[set[Ref], set[str]]]:
    async for page in pages(workspace.archive.chunks, lambda one: one.chunk.id, PAGE):
        live = [held.chunk.id for held in page if held.live]
        mentions, assertions = await workspace.archive.evidence(live)
        yield (
            {
                *(Ref(Kind.ENTITY, one.row.key) for one in mentions),
                *(Ref(Kind.RELATION, one.row.key) for one in assertions),
            },
            {surface.key for one in mentions for surface in one.row.surfaces},
        )


async def _stored(workspace: Workspace) -> AsyncIterator[set[Ref]]:
    async for kind, page in owners(workspace.archive, PAGE):
        yield {Ref(kind, one.key) for one in page}


async def _named(workspace: Workspace) -> AsyncIterator[set[str]]:
    async for known in pages(workspace.archive.names, lambda one: one.key, PAGE):
        yield {one.key for one in known}
    async for placed in pages(workspace.archive.placements, lambda one: one.placement.place, PAGE):
        yield {one.placement.key for one in placed if not one.by_hand}
    review = partial(workspace.names.review, decision="")
    async for pairs in pages(review, lambda one: one.place, PAGE):
        yield {key for one in pairs for key in one.pair.keys}
