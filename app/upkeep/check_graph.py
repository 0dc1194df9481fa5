"""The graph against its evidence, and the evidence against what chunks say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import Kind, Ref, relation_ends
from app.folding import (
    MAX_KEYWORDS,
    EntityTally,
    NameTally,
    Places,
    add,
    alias_keys,
    collate,
    name_keys,
    ranked,
)
from app.holdings import HeldAssertion, HeldChunk, HeldEntity, HeldMention, HeldRelation
from app.paging import pages
from app.ports import Workspace
from app.upkeep.differences import Difference

PAGE = 100  # chunks
OWNERS = 50  # entities or relations, all of whose evidence is read


async def graph_differences(workspace: Workspace, *, idle: bool) -> AsyncIterator[Difference]:
    """`idle`: no job is there that would do what is left to do."""
    said = _Said()
    async for one in _chunks(workspace, said, idle=idle):
        yield one
    async for one in _names(workspace, said):
        yield one
    for ref in await workspace.archive.strays():
        yield _recount(ref.kind, ref.key, "has evidence by chunks that are not visible")
    stored = await _aliases(workspace)
    async for one in _entities(workspace, stored):
        yield one
    for key in stored:
        yield _recount(Kind.ENTITY, key, "is named by aliases that nothing states")
    async for one in _relations(workspace):
        yield one
    shown, counted = await workspace.graph.stats(), await workspace.archive.counted()
    if shown != counted:
        yield Difference("graph", f"the totals say {shown}, there are {counted}", "totals")
    if idle and (await workspace.graph.unprofiled() or await workspace.names.opened(limit=1)):
        yield Difference("graph", "names or profiles are behind, and no job works on it", "curate")


# --- evidence ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Said:
    """What mentions say of each name, added up."""

    tallies: defaultdict[str, NameTally] = field(default_factory=lambda: defaultdict(NameTally))
    mentions: Counter[str] = field(default_factory=Counter)

    def count(self, mention: HeldMention) -> None:
        for surface in mention.row.surfaces:
            self.tallies[surface.key] = self.tallies[surface.key].plus(surface)
            self.mentions[surface.key] += 1


async def _names(workspace: Workspace, said: _Said) -> AsyncIterator[Difference]:
    async for page in pages(workspace.archive.names, lambda one: one.key, PAGE):
        for held in page:
            tally = said.tallies.pop(held.key, NameTally())
            if (held.mentions, held.tally) != (said.mentions[held.key], tally):
                yield _name(held.key, "is not what mentions say of it")
    for key in said.tallies:
        yield _name(key, "is mentioned and not counted")


def _name(key: str, what: str) -> Difference:
    return Difference("graph", f"the name {key} {what}", "recount name", (key,))


async def name_differences(workspace: Workspace) -> AsyncIterator[Difference]:
    """Of names alone."""
    said = _Said()
    async for _ in _chunks(workspace, said, idle=False):
        pass
    async for one in _names(workspace, said):
        yield one


async def _chunks(workspace: Workspace, said: _Said, *, idle: bool) -> AsyncIterator[Difference]:
    visible: Counter[str] = Counter()
    async for page in pages(workspace.archive.chunks, lambda one: one.chunk.id, PAGE):
        live = [held for held in page if held.live]
        visible.update(held.chunk.document_id for held in live)
        async for one in _evidence(workspace, live, said):
            yield one
        for held in live:
            if idle and not held.folded and held.extraction:
                yield _refold(held, "is visible, but what it says is not counted")
    async for documents in pages(workspace.documents.page, lambda one: one.id, PAGE):
        for document in documents:
            there = visible.pop(document.id, 0)
            if document.chunks != there:
                what = f"document {document.id} says {document.chunks} chunks, there are {there}"
                yield Difference("graph", what, "totals")
    for document_id, count in visible.items():
        what = f"{count} visible chunks are of the document {document_id}, which is not there"
        yield Difference("graph", what, "nothing")


async def _evidence(
    workspace: Workspace, page: Sequence[HeldChunk], said: _Said
) -> AsyncIterator[Difference]:
    mentions, assertions = await workspace.archive.evidence([held.chunk.id for held in page])
    stored: defaultdict[str, list[object]] = defaultdict(list)
    for mention in mentions:
        said.count(mention)
        stored[mention.chunk_id].append((mention.row, mention.alias_keys))
    for assertion in assertions:
        stored[assertion.chunk_id].append(assertion.row)
    names = {key for held in page if held.extraction for key in name_keys(held.extraction)}
    places = Places(await workspace.archive.placements_of(sorted(names)))
    for held in page:
        if not held.folded:
            continue
        if held.extraction is None:
            yield _refold(held, "is visible without having been read")
            continue
        told, stated = collate(held.extraction, places, held.chunk.document_id)
        wanted = [*((row, tuple(alias_keys(row))) for row in told), *stated]
        if sorted(map(repr, wanted)) != sorted(map(repr, stored[held.chunk.id])):
            yield _refold(held, "has other evidence than what it says")


def _refold(held: HeldChunk, what: str) -> Difference:
    return Difference("graph", f"chunk {held.chunk.id} {what}", "refold", (held.chunk.id,))


# --- counters ------------------------------------------------------------------------------------


async def _aliases(workspace: Workspace) -> dict[str, dict[str, int]]:
    """Entity -> alias -> count, as stored."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    async for page in pages(workspace.archive.aliases, lambda one: one.key, PAGE):
        for alias in page:
            for key, count in alias.entities:
                found[key][alias.key] = count
    return dict(found)


async def _entities(
    workspace: Workspace, aliases: dict[str, dict[str, int]]
) -> AsyncIterator[Difference]:
    """Takes the aliases of those that it sees."""
    async for page in pages(workspace.archive.entities, lambda one: one.key, OWNERS):
        keys = [held.key for held in page]
        told: defaultdict[str, list[HeldMention]] = defaultdict(list)
        for mention in (await workspace.archive.told_of(Kind.ENTITY, keys))[0]:
            told[mention.row.key].append(mention)
        degrees = await workspace.archive.degrees(keys)
        for held in page:
            wrong = list(_of_entity(held, told[held.key], degrees.get(held.key, 0)))
            counted = Counter(alias for one in told[held.key] for alias in one.alias_keys)
            if dict(counted) != aliases.pop(held.key, {}):
                wrong.append("aliases")
            if wrong:
                yield _recount(Kind.ENTITY, held.key, _counts(wrong))


def _of_entity(held: HeldEntity, told: Sequence[HeldMention], degree: int) -> Iterator[str]:
    tally = EntityTally({}, {}, {})
    for mention in told:
        tally = tally.plus(mention.row)
    wanted: Mapping[str, object] = {
        "mentions": len(told),
        "described": sum(bool(one.row.description) for one in told),
        "abouts": sum(one.row.about for one in told),
        "degree": degree,
        "names": dict(tally.names),
        "kinds": dict(tally.kinds),
        "stated": dict(tally.aliases),
        "name": tally.name,
        "kind": tally.kind,
        "aliases": tally.shown_aliases,
    }
    return (name for name, value in wanted.items() if getattr(held, name) != value)


async def _relations(workspace: Workspace) -> AsyncIterator[Difference]:
    async for page in pages(workspace.archive.relations, lambda one: one.key, OWNERS):
        keys = [held.key for held in page]
        told: defaultdict[str, list[HeldAssertion]] = defaultdict(list)
        for assertion in (await workspace.archive.told_of(Kind.RELATION, keys))[1]:
            told[assertion.row.key].append(assertion)
        for held in page:
            if wrong := list(_of_relation(held, told[held.key])):
                yield _recount(Kind.RELATION, held.key, _counts(wrong))


def _of_relation(held: HeldRelation, told: Sequence[HeldAssertion]) -> Iterator[str]:
    tally: dict[str, int] = {}
    for assertion in told:
        tally = add(tally, assertion.row.keywords)
    wanted: Mapping[str, object] = {
        "mentions": len(told),
        "described": sum(bool(one.row.description) for one in told),
        "weight": sum(round(one.row.strength * 1000) for one in told),
        "tally": tally,
        "keywords": ranked(tally, MAX_KEYWORDS),
    }
    if held.mentions and (held.source, held.target) != relation_ends(held.key):
        yield "ends"
    yield from (name for name, value in wanted.items() if getattr(held, name) != value)


def _counts(wrong: Sequence[str]) -> str:
    return f"is not what its evidence says: {', '.join(wrong)}"


def _recount(kind: Kind, key: str, what: str) -> Difference:
    name = key.replace("\t", " -- ")
    return Difference("graph", f"{kind} {name} {what}", "recount", Ref(kind, key))
