"""Changed texts to vectors: embed, upsert, then mark what the vector store now covers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain import (
    Chunk,
    Entity,
    Kind,
    Mark,
    Point,
    Ref,
    Relation,
    Stale,
    Step,
    Usage,
    Vector,
)
from app.indexed import chunk_text, document_title, entity_text, relation_text
from app.ports import Models, Workspace
from app.terms import AVERAGE_TERMS, document_sparse
from workers.reach import reaches_beyond
from workers.shards import coded, decoded, shards

log = logging.getLogger("heliograph.index")

SHARD = 128  # references a step: small enough to see progress, large enough for full batches
GONE = "-"


async def of_document(workspace: Workspace, step: Step) -> list[list[str]]:
    return _shards(await workspace.graph.unindexed(step.document_id))


async def of_workspace(workspace: Workspace, step: Step) -> list[list[str]]:
    return _shards(await workspace.graph.unindexed())


async def beyond_document(workspace: Workspace, step: Step) -> list[list[str]]:
    return await of_workspace(workspace, step) if await reaches_beyond(workspace, step) else []


def _shards(stale: Sequence[Stale]) -> list[list[str]]:
    return shards([(GONE if one.gone else "") + coded(one.ref) for one in stale], SHARD)


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    refs: dict[bool, list[Ref]] = {False: [], True: []}
    for code in step.shard:
        refs[code.startswith(GONE)].append(decoded(code.removeprefix(GONE)))
    if refs[True]:
        await _erase(workspace, refs[True])
    # What has evidence again by now lost its point all the same: it is written with the others.
    # A run before this one may have died when it had written what another document has newer.
    written, unchanged = await write(
        workspace, models, refs[False] + refs[True],
        anew=step.attempt > 1, payer=step.document_id,
    )  # fmt: skip
    await _warn(workspace, step, [point for point in written if not point.dense])
    log.info(
        "points.indexed workspace=%s document=%s upserted=%d unchanged=%d deleted=%d",
        workspace.name, step.document_id, len(written), unchanged, len(refs[True]),
    )  # fmt: skip


async def write(
    workspace: Workspace, models: Models, refs: Sequence[Ref], *, anew: bool = False,
    payer: str = "",
) -> tuple[list[Point], int]:  # fmt: skip
    """Embed and upsert what changed since it was indexed (`anew`: everything), and mark it. The
    points written, and how many texts needed none. What it costs is charged to a document."""
    texts = await _texts(workspace, refs)
    changed = [text for text in texts if anew or text.digest != text.indexed]
    points: list[Point] = []
    if changed:
        made = await models.embedder.embed([text.text for text in changed], purpose="document")
        if payer and made.usage != Usage():
            await asyncio.shield(workspace.documents.charge(payer, made.usage))
        # In a thread: segmenting the words of long texts takes a while.
        points = await asyncio.to_thread(_points, changed, made.vectors)
        await workspace.vectors.upsert(points)
    await workspace.graph.mark_indexed(
        [Mark(text.ref, text.revision, text.digest) for text in texts]
    )
    if points:
        await _look_again(workspace, models, changed, payer)
    return points, len(texts) - len(changed)


def _points(texts: Sequence[_Text], vectors: Sequence[Vector]) -> list[Point]:
    return [
        Point(
            text.ref, vector if any(vector) else (),
            document_sparse(text.text, average=AVERAGE_TERMS[text.ref.kind]),
            text.document_id,
        )
        for text, vector in zip(texts, vectors, strict=True)
    ]  # fmt: skip


async def _look_again(
    workspace: Workspace, models: Models, written: Sequence[_Text], payer: str
) -> None:
    """What changed while it was embedded: another run may have written it from the newer text, and
    marked it, before this one wrote the older text over it. And points of what was deleted would
    stay for ever: whoever deleted it has looked already."""
    now = {text.ref: text.digest for text in await _texts(workspace, [one.ref for one in written])}
    changed = [one.ref for one in written if now.get(one.ref) != one.digest]
    if gone := [ref for ref in changed if ref not in now]:
        await _erase(workspace, gone)
    if changed:  # with those gone that came back in between
        await write(workspace, models, changed, anew=True, payer=payer)


async def _erase(workspace: Workspace, refs: Sequence[Ref]) -> None:
    await workspace.vectors.delete(refs)
    await workspace.graph.forget(refs)


async def _warn(workspace: Workspace, step: Step, points: Sequence[Point]) -> None:
    """Texts that the embedding model could not take are found by their words only: say so."""
    if points:
        names = ", ".join(f"{point.ref.kind} {point.ref.key}" for point in points[:5])
        warning = f"{len(points)} texts have no vector and are found by words only: {names}"
        await workspace.documents.charge(step.document_id, Usage(), [warning])


# --- what is embedded ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    ref: Ref
    text: str
    revision: int
    indexed: str  # digest of the text that the vector store has
    document_id: str = ""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Read:
    """What the graph holds of some references."""

    chunks: Sequence[Chunk]
    entities: Sequence[Entity]
    relations: Sequence[Relation]


async def _read(workspace: Workspace, refs: Sequence[Ref]) -> _Read:
    graph = workspace.graph
    keys = {kind: [ref.key for ref in refs if ref.kind is kind] for kind in Kind}
    return _Read(
        await graph.chunks(keys[Kind.CHUNK]) if keys[Kind.CHUNK] else [],
        await graph.entities(keys[Kind.ENTITY]) if keys[Kind.ENTITY] else [],
        await graph.relations(keys[Kind.RELATION]) if keys[Kind.RELATION] else [],
    )


async def _texts(workspace: Workspace, refs: Sequence[Ref]) -> list[_Text]:
    read = await _read(workspace, refs)
    titles = await _titles(workspace, {chunk.document_id for chunk in read.chunks})
    return [
        *(
            _Text(
                Ref(Kind.CHUNK, chunk.id), chunk_text(titles.get(chunk.document_id, ""), chunk),
                0, "", chunk.document_id,
            )
            for chunk in read.chunks
        ),
        *(
            _Text(Ref(Kind.ENTITY, one.key), entity_text(one), one.profiled, one.digest)
            for one in read.entities
        ),
        *(
            _Text(Ref(Kind.RELATION, one.key), relation_text(one), one.profiled, one.digest)
            for one in read.relations
        ),
    ]  # fmt: skip


async def _titles(workspace: Workspace, document_ids: Iterable[str]) -> dict[str, str]:
    documents = await workspace.documents.many(sorted(document_ids))
    return {document.id: document_title(document) for document in documents}
