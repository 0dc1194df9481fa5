"""Records of a workspace as lines of a dump: what counts for the fingerprint, and nothing else.

Left out: counters of versions, times, usage, jobs, and everything that is not visible.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.domain import (
    Document,
    Extraction,
    Kind,
    Placement,
    Point,
    Ref,
    Report,
    Revision,
    Vector,
)
from app.folding import document_of, sense_of
from app.holdings import HeldChunk, HeldEntity, HeldRelation, Progress
from app.paging import pages
from app.ports import Workspace
from app.upkeep.labels import (
    GONE,
    Ends,
    chunk_label,
    community_labels,
    document_labels,
    ends_of,
)

PAGE = 200  # records read at a time
SUMS = 16  # numbers that stand for a dense vector

Line = Mapping[str, Any]  # a record as plain JSON: "part", "id" and its fields


async def lines(workspace: Workspace) -> AsyncIterator[Line]:
    """All that counts of the workspace, with a page of records in memory."""
    reads = (
        _documents, _chunks, _entities, _relations, _aliases, _rulings, _communities, _points,
    )  # fmt: skip
    for read in reads:
        async for line in read(workspace):
            yield line


# --- documents -----------------------------------------------------------------------------------


async def _documents(workspace: Workspace) -> AsyncIterator[Line]:
    async for page in pages(workspace.documents.page, lambda one: one.id, PAGE):
        for document in page:
            yield _document(document)


def _document(document: Document) -> Line:
    """How its last job ended does not count where there is a visible revision: a replacement that
    failed or was cancelled has changed nothing."""
    shown = _revision(document.live) if document.live else {"source": document.revision.source}
    status = {} if document.job.state.final else {"status": document.status}
    return {
        "part": "documents", "id": document.id, **shown, **status,
    }  # fmt: skip


def _revision(revision: Revision) -> Line:
    dated = {"date": revision.date} if revision.date else {}
    return {
        "name": revision.name, "media_type": revision.media_type, "size": revision.size,
        "source": revision.source, "text": revision.text, "title": revision.title,
        "metadata": dict(revision.metadata), **dated,
    }  # fmt: skip


# --- chunks and their evidence -------------------------------------------------------------------


async def _chunks(workspace: Workspace) -> AsyncIterator[Line]:
    async for page in pages(workspace.archive.chunks, lambda one: one.chunk.id, PAGE):
        visible = [held for held in page if held.live]
        owners = await document_labels(workspace, {held.chunk.document_id for held in visible})
        names: dict[str, str] = {}
        for held in visible:
            owner = owners[held.chunk.document_id]
            names[held.chunk.id] = chunk_label(owner, held.chunk)
            yield _chunk(held, names[held.chunk.id])
            yield _extraction(held.extraction, names[held.chunk.id])
        async for line in _evidence(workspace, names):
            yield line


def _chunk(held: HeldChunk, name: str) -> Line:
    chunk = held.chunk
    return {
        "part": "chunks", "id": name, "start": chunk.start, "end": chunk.end,
        "tokens": chunk.tokens, "headings": list(chunk.headings), "page": chunk.page,
        "page_end": chunk.page_end, "extraction_key": held.extraction_key,
        "text": hashlib.sha256(chunk.text.encode()).hexdigest(),
    }  # fmt: skip


def _extraction(extraction: Extraction | None, name: str) -> Line:
    said = {} if extraction is None else asdict(extraction)
    said.pop("usage", None)
    for relation in said.get("relations", ()):
        relation["strength"] = float(relation["strength"])
    return {"part": "extractions", "id": name, **said}


async def _evidence(workspace: Workspace, names: Mapping[str, str]) -> AsyncIterator[Line]:
    mentions, assertions = await workspace.archive.evidence(list(names))
    ends = await ends_of(
        workspace,
        entities=[one.row.key for one in mentions],
        relations=[one.row.key for one in assertions],
    )
    for mention in mentions:
        row = mention.row
        entity = ends.entity(row.key)
        yield {
            "part": "mentions", "id": f"{entity} in {names[mention.chunk_id]}", "name": row.name,
            "kind": row.kind, "description": row.description, "aliases": list(row.aliases),
            "about": row.about, "surfaces": [list(one) for one in row.surfaces],
        }  # fmt: skip
    for assertion in assertions:
        stated = assertion.row
        yield {
            "part": "assertions",
            "id": f"{_shown(ends.relation(stated.key))} in {names[assertion.chunk_id]}",
            "source": ends.entity(stated.source), "target": ends.entity(stated.target),
            "description": stated.description, "keywords": list(stated.keywords),
            "strength": round(stated.strength, 3),
        }  # fmt: skip


# --- the graph -----------------------------------------------------------------------------------


async def _entities(workspace: Workspace) -> AsyncIterator[Line]:
    async for page in pages(workspace.archive.entities, lambda one: one.key, PAGE):
        living = [held for held in page if held.mentions]
        ends = await ends_of(workspace, entities=[held.key for held in living])
        for held in living:
            yield _entity(held, ends.entity(held.key))
            yield _alias(held.key, ends.entity(held.key))


def _entity(held: HeldEntity, name: str) -> Line:
    return {
        "part": "entities", "id": name, "name": held.name, "kind": held.kind,
        "aliases": list(held.aliases), "names": dict(held.names), "kinds": dict(held.kinds),
        "stated": dict(held.stated), "mentions": held.mentions, "abouts": held.abouts,
        "degree": held.degree, "profile": _profile(held.profile, held.progress, held.described),
        "described": held.described,
    }  # fmt: skip


async def _relations(workspace: Workspace) -> AsyncIterator[Line]:
    async for page in pages(workspace.archive.relations, lambda one: one.key, PAGE):
        living = [held for held in page if held.mentions]
        ends = await ends_of(
            workspace,
            entities=[end for held in living for end in (held.source, held.target)],
            relations=[held.key for held in living],
        )
        for held in living:
            yield _relation(held, ends)


def _relation(held: HeldRelation, ends: Ends) -> Line:
    return {
        "part": "relations", "id": _shown(ends.relation(held.key)),
        "ends": sorted((ends.entity(held.source), ends.entity(held.target))),
        "keywords": list(held.keywords), "tally": dict(held.tally), "weight": held.weight,
        "mentions": held.mentions, "described": held.described,
        "profile": _profile(held.profile, held.progress, held.described),
    }  # fmt: skip


def _profile(text: str, progress: Progress, described: int) -> Any:
    return {"by_model_of": described} if progress.covered else text


async def _aliases(workspace: Workspace) -> AsyncIterator[Line]:
    """As a set: which of an entity's names is its key depends on the order of arrival."""
    async for page in pages(workspace.archive.aliases, lambda one: one.key, PAGE):
        ends = await ends_of(workspace, entities=[key for one in page for key, _ in one.entities])
        for alias in page:
            for key, _ in alias.entities:
                if alias.key != key:
                    yield _alias(alias.key, ends.entity(key))


async def _rulings(workspace: Workspace) -> AsyncIterator[Line]:
    """What people said of names; a model's word is of its own making."""
    async for page in pages(workspace.archive.rulings, lambda one: one.place, PAGE):
        for ruling in page:
            if ruling.by == "user":
                pair = f"{ruling.one} / {ruling.other}"
                yield {"part": "rulings", "id": pair, "same": ruling.same, "note": ruling.note}
    async for placed in pages(workspace.names.placed, lambda one: one.place, PAGE):
        for one in placed:
            yield await _placement(workspace, one)


async def _placement(workspace: Workspace, placement: Placement) -> Line:
    document_id, sense = document_of(placement.scope), sense_of(placement.scope)
    owners = await document_labels(workspace, [document_id])
    entity = placement.entity
    for known in await workspace.names.known([entity] if entity else []):
        entity = known.entity  # which of its names the key of an entity is depends on history
    ends = await ends_of(workspace, entities=[entity] if entity else [])
    return {
        "part": "rulings",
        "id": f"{placement.key} in {owners[document_id]}" + _as(sense),
        "entity": ends.entity(entity) if entity else "",
        "name": placement.name,
    }


def _as(sense: str | None) -> str:
    return "" if sense is None else f" as {sense or 'itself'}"


def _alias(key: str, entity: str) -> Line:
    return {"part": "aliases", "id": f"{key} = {entity}"}


def _shown(relation: str) -> str:
    return relation.replace("\t", " -- ")


# --- communities ---------------------------------------------------------------------------------


async def _communities(workspace: Workspace) -> AsyncIterator[Line]:
    """By membership, and the report by presence and the evidence that it covers."""
    labels = await community_labels(workspace)
    async for page in pages(workspace.communities.page, lambda one: one.id, PAGE):
        for one in page:
            yield {
                "part": "communities", "id": labels.get(one.id, GONE + one.id), "level": one.level,
                "parent": labels.get(one.parent, GONE + one.parent) if one.parent else "",
                "leaf": one.leaf, "size": one.size, "mentions": one.mentions,
                "report": _report(one.report), "covered": one.covered,
            }  # fmt: skip


def _report(report: Report | None) -> Any:
    """In full where rules wrote it, but for keys of entities."""
    if report is None:
        return None
    if report.model:
        return "by model"
    said = [(one.summary, one.explanation) for one in report.findings]
    return {
        "title": report.title, "summary": report.summary, "rating": report.rating,
        "findings": [list(one) for one in said],
    }  # fmt: skip


# --- points --------------------------------------------------------------------------------------


async def _points(workspace: Workspace) -> AsyncIterator[Line]:
    for kind in Kind:
        labels = await community_labels(workspace) if kind is Kind.COMMUNITY else {}
        after, more = "", True
        while more:
            page, after = await workspace.vectors.scroll(kind, after=after, limit=PAGE)
            more = bool(after)
            names = labels or await _point_names(workspace, kind, [one.ref.key for one in page])
            async for line in _points_of(workspace, kind, page, names):
                yield line


async def _points_of(
    workspace: Workspace, kind: Kind, page: Sequence[Point], names: Mapping[str, str]
) -> AsyncIterator[Line]:
    by_model = await _by_model(workspace, kind, [point.ref.key for point in page])
    owners = await document_labels(workspace, {point.document_id for point in page})
    for point in page:
        owner = {}
        if kind is Kind.CHUNK:
            owner = {"document": owners[point.document_id]}
        made: Line = {"text": "by model"} if point.ref.key in by_model else _vectors(point)
        name = names.get(point.ref.key, GONE + point.ref.key)
        yield {"part": "points", "id": f"{kind} {_shown(name)}", **owner, **made}


async def _by_model(workspace: Workspace, kind: Kind, keys: Sequence[str]) -> set[str]:
    """Whose text a model wrote."""
    if kind is Kind.CHUNK:
        return set()
    if kind is Kind.COMMUNITY:
        found = await workspace.communities.get(keys)
        return {one.id for one in found if one.report and one.report.model}
    written = await workspace.graph.evidence([Ref(kind, key) for key in keys], limit=0)
    return {one.ref.key for one in written if one.covered}


async def _point_names(workspace: Workspace, kind: Kind, keys: Sequence[str]) -> dict[str, str]:
    """Labels of what the points stand for, as far as it is there."""
    if kind is Kind.CHUNK:
        chunks = await workspace.graph.chunks(keys)
        owners = await document_labels(workspace, {chunk.document_id for chunk in chunks})
        return {chunk.id: chunk_label(owners[chunk.document_id], chunk) for chunk in chunks}
    if kind is Kind.ENTITY:
        entities = [one.key for one in await workspace.graph.entities(keys)]
        ends = await ends_of(workspace, entities=entities)
        return {key: ends.entity(key) for key in entities}
    if kind is Kind.COMMUNITY:
        return {}
    relations = [one.key for one in await workspace.graph.relations(keys)]
    ends = await ends_of(workspace, relations=relations)
    return {key: ends.relation(key) for key in relations}


def _vectors(point: Point) -> Line:
    terms = sorted(zip(point.sparse.indices, point.sparse.values, strict=True))
    text = " ".join(f"{index}:{value:.3f}" for index, value in terms)
    return {
        "dense": sketch(point.dense),
        "terms": len(terms),
        "sparse": hashlib.sha256(text.encode()).hexdigest()[:32],
    }


def sketch(vector: Vector) -> list[str]:
    """Rounded sums of every sixteenth number. Noise of the last digits moves none of them (two in a
    million vectors), another text moves several."""
    sums = [math.fsum(vector[start::SUMS]) for start in range(min(SUMS, len(vector)))]
    return [f"{value + 0.0:.1f}".replace("-0.0", "0.0") for value in sums]
