"""What the answerer gets to see: the best that was found, within token budgets, without repeats.

Entities and relations come first, each within its own budget; chunks get what is left of the
whole, and never less than half of it where there are any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from app.domain import (
    Chunk,
    Context,
    Document,
    Entity,
    Evidence,
    Hit,
    Kind,
    Question,
    Ref,
    Relation,
    ScoredEntity,
    ScoredRelation,
    Source,
    Theme,
)
from app.errors import AppError
from app.ports import Models, Tokenizer, Workspace
from app.query.found import Found
from app.query.ranking import fuse

log = logging.getLogger("heliograph.query")

T = TypeVar("T")

MIN_PIECE = 48  # tokens; less of a chunk is not worth showing
EVIDENCE = 24  # descriptions of one thing that are read when filters rule its profile out
SEAM = 4  # tokens that may split anew where texts are joined
OVERHEAD = 12  # tokens of marks and line ends around an item


@dataclass(frozen=True, slots=True)
class Cut:
    """How many things the token budget left out."""

    entities: int = 0
    relations: int = 0
    chunks: int = 0
    shortened: int = 0
    themes: int = 0


@dataclass(frozen=True, slots=True)
class Packed:
    context: Context
    cut: Cut
    reranked: str  # yes | no | why the reranker was left out


async def pack(workspace: Workspace, models: Models, question: Question, found: Found) -> Packed:
    chunk_hits = found.chunks[: question.chunk_top_k] if question.source_text else ()
    entity_hits, relation_hits = found.entities[: question.top_k], found.relations[: question.top_k]
    chunks, entities, relations = await asyncio.gather(
        workspace.graph.chunks([hit.key for hit in chunk_hits]),
        workspace.graph.entities([hit.key for hit in entity_hits]),
        workspace.graph.relations([hit.key for hit in relation_hits]),
    )
    documents, evidence = await asyncio.gather(
        workspace.documents.many(sorted({chunk.document_id for chunk in chunks})),
        _evidence(workspace, question, entities, relations),
    )
    ranked, reranked = await _reranked(models, question, _in_order(chunk_hits, chunks, _chunk_id))
    share = _shares(question, any_chunks=bool(ranked))
    room = _Room(models.tokenizer)
    themes = room.fill(found.themes, theme_text, min(share.entities + share.relations, share.total))
    shown_entities = room.fill(
        _entities(entity_hits, entities, evidence), entity_text,
        min(share.entities, share.total - room.used),
    )  # fmt: skip
    shown_relations = room.fill(
        _relations(relation_hits, relations, evidence), relation_text,
        min(share.relations, share.total - room.used),
    )  # fmt: skip
    sources, shortened = room.sources(ranked, {doc.id: doc for doc in documents}, share.total)
    cut = Cut(
        len(entities) - len(shown_entities),
        len(relations) - len(shown_relations),
        len(ranked) - len(sources),
        shortened,
        len(found.themes) - len(themes),
    )
    context = Context(
        tuple(shown_entities), tuple(shown_relations), tuple(sources), room.used, tuple(themes)
    )
    return Packed(context, cut, reranked)


# --- how an item reads ---------------------------------------------------------------------------


def entity_text(item: ScoredEntity) -> str:
    return f"{item.entity.name} ({item.entity.kind}): {item.text}"


def relation_text(item: ScoredRelation) -> str:
    one = item.relation
    return f"{one.source_name} -- {one.target_name} ({', '.join(one.keywords)}): {item.text}"


def theme_text(theme: Theme) -> str:
    return f"{theme.title}: {theme.text}"


def source_text(source: Source) -> str:
    return source_head(source) + source.chunk.text


def source_head(source: Source) -> str:
    headings = " > ".join(source.chunk.headings)
    return f"[{source.number}] {source.document_name} ({source.date}) {headings}\n"


# --- descriptions --------------------------------------------------------------------------------


async def _evidence(
    workspace: Workspace, question: Question,
    entities: Sequence[Entity], relations: Sequence[Relation],
) -> dict[Ref, Evidence] | None:  # fmt: skip
    """Matching evidence of each, where filters forbid profiles, which mix all documents."""
    if question.documents is None:
        return None
    refs = [Ref(Kind.ENTITY, one.key) for one in entities]
    refs += [Ref(Kind.RELATION, one.key) for one in relations]
    rows = await workspace.graph.evidence(refs, limit=EVIDENCE, documents=question.documents)
    return {row.ref: row for row in rows if row.count or row.descriptions}


def _entities(
    hits: Sequence[Hit], rows: Sequence[Entity], evidence: dict[Ref, Evidence] | None
) -> list[ScoredEntity]:
    shown = []
    for hit, entity in _in_order(hits, rows, _key):
        if evidence is None:
            shown.append(ScoredEntity(entity, entity.profile, hit.score))
        elif row := evidence.get(Ref(Kind.ENTITY, entity.key)):
            text = _joined(row.descriptions)
            shown.append(ScoredEntity(replace(entity, profile=text, aliases=()), text, hit.score))
    return shown


def _relations(
    hits: Sequence[Hit], rows: Sequence[Relation], evidence: dict[Ref, Evidence] | None
) -> list[ScoredRelation]:
    shown = []
    for hit, one in _in_order(hits, rows, _key):
        if evidence is None:
            shown.append(ScoredRelation(one, one.profile, hit.score))
        elif row := evidence.get(Ref(Kind.RELATION, one.key)):
            text = _joined(row.descriptions)
            shown.append(ScoredRelation(replace(one, profile=text, keywords=()), text, hit.score))
    return shown


def _joined(descriptions: Sequence[str]) -> str:
    return "\n".join(dict.fromkeys(text.strip() for text in descriptions if text.strip()))


def _key(one: Entity | Relation) -> str:
    return one.key


def _chunk_id(chunk: Chunk) -> str:
    return chunk.id


def _in_order(
    hits: Sequence[Hit], rows: Sequence[T], key: Callable[[T], str]
) -> list[tuple[Hit, T]]:
    by_key = {key(row): row for row in rows}
    return [(hit, by_key[hit.key]) for hit in hits if hit.key in by_key]


# --- order of chunks -----------------------------------------------------------------------------


async def _reranked(
    models: Models, question: Question, ranked: list[tuple[Hit, Chunk]]
) -> tuple[list[tuple[Hit, Chunk]], str]:
    """A reranker reads one passage at a time and cannot see a chain of them, so its ranking is
    fused with the one it was given instead of replacing it. One that fails costs its opinion, not
    the answer."""
    if models.reranker is None or len(ranked) < 2:
        return ranked, "no"
    try:
        scores = await models.reranker.scores(question.text, [chunk.text for _, chunk in ranked])
    except AppError as error:
        log.warning("rerank.failed workspace=%s code=%s", question.workspace, error.code)
        return ranked, error.detail
    judged = sorted(zip(scores, ranked, strict=True), key=lambda item: (-item[0], item[1][0].key))
    order = fuse([[hit.key for hit, _ in ranked], [hit.key for _, (hit, _) in judged]])
    by_key = {hit.key: (hit, chunk) for hit, chunk in ranked}
    return [by_key[hit.key] for hit in order], "yes"


# --- budgets -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Share:
    entities: int
    relations: int
    total: int


def _shares(question: Question, *, any_chunks: bool) -> _Share:
    budget = question.budget
    both, half = budget.entities + budget.relations, budget.total // 2
    if not any_chunks or both <= half:
        return _Share(budget.entities, budget.relations, budget.total)
    return _Share(half * budget.entities // both, half * budget.relations // both, budget.total)


class _Room:
    """Tokens used so far; grows while one context is packed."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.used = 0

    def fill(self, items: Sequence[T], text: Callable[[T], str], limit: int) -> list[T]:
        """Items until one does not fit, best first."""
        kept: list[T] = []
        spent = 0
        for item in items:
            cost = self._tokenizer.count(text(item)) + OVERHEAD
            if spent + cost > limit:
                break
            kept.append(item)
            spent += cost
        self.used += spent
        return kept

    def sources(
        self, ranked: Sequence[tuple[Hit, Chunk]], documents: dict[str, Document], total: int
    ) -> tuple[list[Source], int]:
        """Numbered chunks without what an earlier one shows already; the last is cut to fit."""
        kept: list[Source] = []
        shortened = 0
        for hit, whole in ranked:
            chunk = _unseen(whole, kept)
            document = documents.get(whole.document_id)
            if chunk is None or document is None:
                continue
            source = Source(
                len(kept) + 1, chunk, document.revision.name, _date(document), hit.score
            )
            cost = self._cost(source)
            if self.used + cost > total:
                room = total - self.used - (cost - self._tokenizer.count(chunk.text))
                if room < MIN_PIECE:
                    break
                text = self._tokenizer.cut(chunk.text, room - SEAM)
                source = replace(source, chunk=self._piece(chunk, 0, text))
                cost = self._cost(source)
                shortened += 1
            kept.append(source)
            self.used += cost
        return kept, shortened

    def _cost(self, source: Source) -> int:
        """Behind a line end a letter or digit begins a new token, so head and text can be counted
        apart: the text is known from other questions, where it had another number."""
        head, text = source_head(source), source.chunk.text
        parts = (head, text) if text[:1].isalnum() else (head + text,)
        return sum(map(self._tokenizer.count, parts)) + OVERHEAD

    def _piece(self, chunk: Chunk, skipped: int, text: str) -> Chunk:
        start = chunk.start + skipped
        tokens = self._tokenizer.count(text)
        return replace(chunk, text=text, start=start, end=start + len(text), tokens=tokens)


def _unseen(chunk: Chunk, kept: Sequence[Source]) -> Chunk | None:
    """The chunk without the overlap that an earlier source of its document shows; None if all of
    it was shown, be it in another document."""
    start, end = chunk.start, chunk.end
    for source in kept:
        other = source.chunk
        if other.text == chunk.text:
            return None
        if other.document_id != chunk.document_id:
            continue
        if other.start <= start < other.end:
            start = other.end
        if other.start < end <= other.end:
            end = other.start
        if start >= end:
            return None
    if (start, end) == (chunk.start, chunk.end):
        return chunk
    text = chunk.text[start - chunk.start : end - chunk.start]
    if not text.strip():
        return None
    tokens = max(1, round(chunk.tokens * len(text) / len(chunk.text)))
    return replace(chunk, text=text, start=start, end=end, tokens=tokens)


def _date(document: Document) -> str:
    """ISO 8601: as given, else the day of upload."""
    if document.revision.date:
        return document.revision.date
    if not document.created_at:
        return ""
    return datetime.fromtimestamp(document.created_at, UTC).date().isoformat()
