"""Vectors against the record: each visible text has one, of itself, and nothing else has."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence

from app.domain import Kind, Point, Ref
from app.indexed import chunk_text, document_title, entity_text, relation_text, report_text
from app.paging import pages
from app.ports import Workspace
from app.terms import AVERAGE_TERMS, document_sparse
from app.upkeep.differences import Difference
from app.upkeep.owners import owners

PAGE = 128
LENGTH = 0.001  # how far a vector's length may be from 1
VALUE = 0.001  # how far a term's weight may be from what it should be


async def vector_differences(workspace: Workspace, *, idle: bool) -> AsyncIterator[Difference]:
    async for page in _indexed(workspace):
        texts = await _texts(workspace, page)
        points = {point.ref: point for point in await workspace.vectors.read(list(texts))}
        for one in await asyncio.to_thread(_compared, texts, points):
            yield one
    async for one in _extra(workspace):
        yield one
    if idle and await workspace.graph.unindexed():
        yield Difference("vectors", "vectors are behind, and no job works on it", "curate")


async def _indexed(workspace: Workspace) -> AsyncIterator[list[Ref]]:
    """What the record says has a vector of its present text."""
    async for chunks in pages(workspace.archive.chunks, lambda one: one.chunk.id, PAGE):
        yield [Ref(Kind.CHUNK, one.chunk.id) for one in chunks if one.live and one.indexed]
    async for kind, page in owners(workspace.archive, PAGE):
        yield [
            Ref(kind, one.key)
            for one in page
            if one.mentions and 0 < one.progress.profiled <= one.progress.indexed
        ]
    async for communities in pages(workspace.communities.page, lambda one: one.id, PAGE):
        yield [Ref(Kind.COMMUNITY, one.id) for one in communities if one.report and one.indexed]


async def _texts(workspace: Workspace, refs: Sequence[Ref]) -> dict[Ref, str]:
    graph = workspace.graph
    keys = {kind: [ref.key for ref in refs if ref.kind is kind] for kind in Kind}
    chunks = await graph.chunks(keys[Kind.CHUNK]) if keys[Kind.CHUNK] else []
    owners = sorted({chunk.document_id for chunk in chunks})
    titles = {one.id: document_title(one) for one in await workspace.documents.many(owners)}
    entities = await graph.entities(keys[Kind.ENTITY]) if keys[Kind.ENTITY] else []
    relations = await graph.relations(keys[Kind.RELATION]) if keys[Kind.RELATION] else []
    communities = (
        await workspace.communities.get(keys[Kind.COMMUNITY]) if keys[Kind.COMMUNITY] else []
    )
    return {
        **{
            Ref(Kind.CHUNK, one.id): chunk_text(titles.get(one.document_id, ""), one)
            for one in chunks
        },
        **{Ref(Kind.ENTITY, one.key): entity_text(one) for one in entities},
        **{Ref(Kind.RELATION, one.key): relation_text(one) for one in relations},
        **{
            Ref(Kind.COMMUNITY, one.id): report_text(one.report)
            for one in communities
            if one.report
        },
    }


def _compared(texts: Mapping[Ref, str], points: Mapping[Ref, Point]) -> list[Difference]:
    found = []
    for ref, text in texts.items():
        if fault := _fault(text, ref, points.get(ref)):
            what = f"the vector of {ref.kind} {_shown(ref)} {fault}"
            found.append(Difference("vectors", what, "reindex", ref))
    return found


def _shown(ref: Ref) -> str:
    return ref.key.replace("\t", " -- ")


def _fault(text: str, ref: Ref, point: Point | None) -> str:
    if point is None:
        return "is missing"
    if not all(map(math.isfinite, (*point.dense, *point.sparse.values))):
        return "is not finite"
    if point.dense and abs(math.hypot(*point.dense) - 1) > LENGTH:
        return "has no direction"
    wanted = document_sparse(text, average=AVERAGE_TERMS[ref.kind])
    stored = dict(zip(*point.sparse, strict=True))
    terms = dict(zip(*wanted, strict=True))
    if stored.keys() != terms.keys():
        return "is of another text"
    if any(abs(stored[term] - value) > VALUE for term, value in terms.items()):
        return "is of another text"
    return ""


async def _extra(workspace: Workspace) -> AsyncIterator[Difference]:
    """Points of what is not there; those that wait for their deletion are known."""
    known = {one.ref for one in await workspace.graph.unindexed() if one.gone}
    for kind in Kind:
        after, more = "", True
        while more:
            page, after = await workspace.vectors.scroll(kind, after=after, limit=PAGE)
            more = bool(after)
            refs = [point.ref for point in page]
            there = await _texts(workspace, refs)
            for ref in refs:
                if ref not in there and ref not in known:
                    what = f"there is a vector of {kind} {_shown(ref)}, which is not there"
                    yield Difference("vectors", what, "erase", ref)
