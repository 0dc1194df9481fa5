"""Texts of what is stored, read from the graph and made into points."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.domain import Kind, Mark, Point, Ref, Vector
from app.indexed import chunk_text, document_title, entity_text, relation_text, report_text
from app.ports import Workspace
from app.terms import AVERAGE_TERMS, document_sparse


@dataclass(frozen=True, slots=True)
class Text:
    """`indexed`: digest of the text that the vectors in use are of, as far as the graph knows."""

    ref: Ref
    text: str
    revision: int
    indexed: str
    document_id: str = ""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(self.text.encode()).hexdigest()[:32])

    @property
    def mark(self) -> Mark:
        return Mark(self.ref, self.revision, self.digest)


async def texts_of(workspace: Workspace, refs: Sequence[Ref]) -> list[Text]:
    """Of those refs that are visible and have evidence."""
    graph = workspace.graph
    keys = {kind: [ref.key for ref in refs if ref.kind is kind] for kind in Kind}
    chunks = await graph.chunks(keys[Kind.CHUNK]) if keys[Kind.CHUNK] else []
    entities = await graph.entities(keys[Kind.ENTITY]) if keys[Kind.ENTITY] else []
    relations = await graph.relations(keys[Kind.RELATION]) if keys[Kind.RELATION] else []
    communities = (
        await workspace.communities.get(keys[Kind.COMMUNITY]) if keys[Kind.COMMUNITY] else []
    )
    titles = await _titles(workspace, {chunk.document_id for chunk in chunks})
    return [
        *(
            Text(
                Ref(Kind.CHUNK, chunk.id), chunk_text(titles.get(chunk.document_id, ""), chunk),
                0, "", chunk.document_id,
            )
            for chunk in chunks
        ),
        *(
            Text(Ref(Kind.ENTITY, one.key), entity_text(one), one.profiled, one.digest)
            for one in entities
        ),
        *(
            Text(Ref(Kind.RELATION, one.key), relation_text(one), one.profiled, one.digest)
            for one in relations
        ),
        *(
            Text(Ref(Kind.COMMUNITY, one.id), report_text(one.report), one.version, one.digest)
            for one in communities
            if one.report is not None
        ),
    ]  # fmt: skip


def points_of(texts: Sequence[Text], vectors: Sequence[Vector]) -> list[Point]:
    """Segmenting the words of long texts takes a while: for a thread."""
    return [
        Point(
            text.ref, vector if any(vector) else (),
            document_sparse(text.text, average=AVERAGE_TERMS[text.ref.kind]),
            text.document_id, text.digest,
        )
        for text, vector in zip(texts, vectors, strict=True)
    ]  # fmt: skip


async def _titles(workspace: Workspace, document_ids: Iterable[str]) -> dict[str, str]:
    documents = await workspace.documents.many(sorted(document_ids))
    return {document.id: document_title(document) for document in documents}
