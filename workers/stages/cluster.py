"""The graph divided into communities: read page by page, divided in memory, and stored where it is
not so already.

Entities go by labels that no order of arrival changes, so that equal graphs are divided alike.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from app.communities import Edge, changes, divided
from app.domain import Cluster, Step
from app.paging import pages
from app.ports import Models, Workspace
from app.upkeep.labels import entity_labels

log = logging.getLogger("heliograph.communities")

PAGE = 1000  # records read at a time
MEMBERS = 2000  # a transaction
DROPPED = 500  # communities a transaction


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    """Another job that began since does it instead."""
    division = await workspace.communities.division()
    if division is None or division.job_id != step.job_id:
        return
    began = time.perf_counter()
    edges, keys = await _labelled([edge async for edge in _edges(workspace)], workspace)
    stored = [one async for one in _stored(workspace)]
    groups = await asyncio.to_thread(divided, edges, division.clustering)
    todo = await asyncio.to_thread(changes, groups, keys, stored)
    for batch in _batches(todo.put):
        if not await workspace.communities.put(step.job_id, batch):
            return
    for start in range(0, len(todo.drop), DROPPED):
        await workspace.communities.drop(step.job_id, todo.drop[start : start + DROPPED])
    log.info(
        "graph.divided workspace=%s relations=%d entities=%d communities=%d changed=%d dropped=%d "
        "ms=%.0f",
        workspace.name, len(edges), len(keys), len(groups), len(todo.put), len(todo.drop),
        1000 * (time.perf_counter() - began),
    )  # fmt: skip


async def _edges(workspace: Workspace) -> AsyncIterator[Edge]:
    """Of present relations, by entity key."""
    async for page in pages(workspace.archive.relations, lambda one: one.key, PAGE):
        for held in page:
            if held.mentions:
                yield Edge(held.source, held.target, max(held.weight, 1) / 1000)


async def _labelled(
    edges: Sequence[Edge], workspace: Workspace
) -> tuple[list[Edge], dict[str, str]]:
    """With labels for keys, and the key of each label."""
    keys = sorted({end for edge in edges for end in edge[:2]})
    labels: dict[str, str] = {}
    for start in range(0, len(keys), PAGE):
        labels |= await entity_labels(workspace, keys[start : start + PAGE])
    named = [Edge(labels[one.source], labels[one.target], one.weight) for one in edges]
    return named, {label: key for key, label in labels.items()}


async def _stored(workspace: Workspace) -> AsyncIterator[Cluster]:
    async for page in pages(workspace.communities.clusters, lambda one: one.id, PAGE):
        for one in page:
            yield one


def _batches(clusters: Iterable[Cluster]) -> Iterator[list[Cluster]]:
    """In order, parents first."""
    batch: list[Cluster] = []
    size = 0
    for one in clusters:
        if batch and size + len(one.members) > MEMBERS:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one.members)
    if batch:
        yield batch
