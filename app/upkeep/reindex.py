"""All vectors anew, beside those in use, while questions and ingestion go on.

The graph is the record: chunks, entities and relations are embedded from it, and nothing is read or
extracted again. Passes over it embed what differs from what was made, by the digest of the text,
until little is left; a try that was killed is gone on with in the same way. For a last pass whoever
writes vectors waits, so that nothing new is missed, then the new ones take over in one step.

Index marks are of the vectors in use: none is set before the switch. Afterwards those texts are
marked that the former vectors were behind on. A writer that read a text before it was made to wait
may still write it to the former vectors and mark it: the last pass has read that text or a newer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from app.domain import Kind, Mark, Ref, Usage
from app.paging import pages
from app.ports import Embedder, NextVectors, Services, VectorStore, Workspace
from app.upkeep.owners import owners
from app.upkeep.texts import Text, points_of, texts_of

log = logging.getLogger("heliograph.reindex")

BATCH = 256  # texts
PAGE = 256  # records
PASSES = 5  # at most, before writers are made to wait
FEW = 512  # texts that changed during a pass: the next may be the last
RENEW = 10.0  # seconds
NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Progress:
    """`stage`: building, catching up, switching, done. `texts` were looked at in this pass,
    `embedded` in all."""

    model: str
    dimension: int
    stage: str = "building"
    texts: int = 0
    embedded: int = 0
    usage: Usage = NOTHING


Tell = Callable[[Progress], None]


async def reindex(services: Services, embedder: Embedder, tell: Tell = lambda _: None) -> Progress:
    """Make vectors with this embedder and switch over to them. `tell` hears of the progress.

    Ended or killed in between, the former ones go on answering. `Conflict` if it is being done."""
    async with services.vectors.beside(embedder.model, embedder.dimension) as beside:
        making = _Making(services, embedder, beside, tell)
        await making.build()
        await making.take_over()
    log.info(
        "vectors.switched model=%s dimension=%d texts=%d embedded=%d",
        embedder.model, embedder.dimension, making.progress.texts, making.progress.embedded,
    )  # fmt: skip
    return making.progress


@dataclass(slots=True)
class _Making:
    services: Services
    embedder: Embedder
    beside: NextVectors
    tell: Tell
    progress: Progress = field(init=False)
    behind: list[tuple[str, Mark]] = field(default_factory=list)
    holding: bool = False
    held: bool = True  # without a gap
    seen: set[str] = field(default_factory=set)  # workspaces
    _renewed: float = 0.0

    def __post_init__(self) -> None:
        self.progress = Progress(self.embedder.model, self.embedder.dimension)

    async def build(self) -> None:
        for _ in range(PASSES):
            before = self.progress.embedded
            await self._pass()
            if self.progress.embedded - before <= FEW:
                return
            self._tell(stage="catching up")

    async def take_over(self) -> None:
        self._tell(stage="switching")
        self.holding, self.held = True, False
        while not self.held:
            await self.beside.hold()
            self.held, self._renewed = True, time.monotonic()
            self.behind.clear()
            await self._pass()
            await self._erase_others()
            self.held &= await self.beside.hold()
        await self.beside.switch()
        for name, mark in self.behind:
            await self.services.workspace(name).graph.mark_indexed([mark])
        self._tell(stage="done")

    def _tell(self, **changes: object) -> None:
        self.progress = replace(self.progress, **changes)  # type: ignore[arg-type]  # its own fields
        self.tell(self.progress)

    async def _hold(self) -> None:
        if self.holding and time.monotonic() - self._renewed > RENEW:
            self.held &= await self.beside.hold()
            self._renewed = time.monotonic()

    # --- a pass ----------------------------------------------------------------------------------

    async def _pass(self) -> None:
        """Embed what differs from what was made."""
        self._tell(texts=0)
        names = sorted(await self.services.keyring.workspaces())
        self.seen.update(names)
        for name in names:
            workspace, store = self.services.workspace(name), self.beside.store(name)
            differing: list[Text] = []
            async for refs in _refs(workspace):
                differing += await self._differing(workspace, store, refs)
                while len(differing) >= BATCH:
                    await self._make(store, differing[:BATCH])
                    del differing[:BATCH]
            if differing:
                await self._make(store, differing)

    async def _differing(
        self, workspace: Workspace, store: VectorStore, refs: Sequence[Ref]
    ) -> list[Text]:
        await self._hold()
        texts = await texts_of(workspace, refs)
        made = await store.digests([text.ref for text in texts])
        self._tell(texts=self.progress.texts + len(texts))
        if self.holding:
            self.behind += [
                (workspace.name, text.mark)
                for text in texts
                if text.ref.kind is not Kind.CHUNK and text.indexed != text.digest
            ]
        return [text for text in texts if made.get(text.ref) != text.digest]

    async def _make(self, store: VectorStore, texts: Sequence[Text]) -> None:
        made = await self.embedder.embed([text.text for text in texts], purpose="document")
        await store.upsert(await asyncio.to_thread(points_of, texts, made.vectors))
        self._tell(
            embedded=self.progress.embedded + len(texts), usage=self.progress.usage + made.usage
        )
        await self._hold()

    async def _erase_others(self) -> None:
        """Points of what was deleted since they were made."""
        for name in sorted(self.seen):
            workspace, store = self.services.workspace(name), self.beside.store(name)
            for kind in Kind:
                after, more = "", True
                while more:
                    refs, after = await store.listed(kind, after=after, limit=PAGE)
                    more = bool(after)
                    there = {text.ref for text in await texts_of(workspace, refs)}
                    await store.delete([ref for ref in refs if ref not in there])
                    await self._hold()


async def _refs(workspace: Workspace) -> AsyncIterator[list[Ref]]:
    """All that is visible, in pages."""
    async for chunks in pages(workspace.archive.chunks, lambda one: one.chunk.id, PAGE):
        yield [Ref(Kind.CHUNK, one.chunk.id) for one in chunks if one.live]
    async for kind, page in owners(workspace.archive, PAGE):
        yield [Ref(kind, one.key) for one in page if one.mentions]
    async for communities in pages(workspace.communities.page, lambda one: one.id, PAGE):
        yield [Ref(Kind.COMMUNITY, one.id) for one in communities if one.report]
