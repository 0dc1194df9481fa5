"""Vectors on a Qdrant server, for several processes and hosts.

Collections are of a kind and an embedding model, in two slots, so that one can be made while the
other is in use. An alias per kind names the collection in use, whatever the model; another one per
kind and model is what processes of that model read and write, so that all of them switch at once. A
third one exists while writers are to wait: its name says until when.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from app.domain import Hit, Kind, Point, Ref, VectorQuery
from app.errors import AppError, Conflict, Misconfigured
from app.stores import vectors
from app.stores.qdrant_server import KeyRefused, QdrantServer

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")

PREFIX = "heliograph"
HOLD_SECONDS = 60
DRAIN_SECONDS = 2

log = logging.getLogger("heliograph.vectors")


class QdrantEngine:
    """An open client and the collections of one embedding model."""

    def __init__(self, server: QdrantServer, model: str, dimension: int) -> None:
        self.model = model
        self.dimension = dimension
        self.names = _aliases_of(server.prefix, model, dimension)
        self.server = server
        self._slots = vectors.slots(server.prefix, model, dimension)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, api_key: str, model: str, dimension: int,
        *, reindex: bool = False, prefix: str = PREFIX,
    ) -> AsyncIterator[QdrantEngine]:  # fmt: skip
        """With `reindex` vectors of another model, or none, may be there, to make others `beside`.

        Raises `Misconfigured` for another model or a refused key, `Unavailable` if out of reach."""
        async with QdrantServer.open(url, api_key, prefix) as server:
            engine = cls(server, model, dimension)
            try:
                await server.version()
                if not reindex:
                    await engine._complete()
            except KeyRefused as error:
                raise Misconfigured(error.detail) from error
            yield engine

    async def call(self, action: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        return await self.server.call(action)

    async def ping(self) -> str:
        found = await self.call(lambda client: client.info())
        return f"qdrant {found.version}"

    async def admit(self) -> None:
        """Refuse a writer while new vectors take over, and once they are of another model."""
        aliases = await self.server.aliases()
        if any(time.time() < until for until in self.server.holds(aliases).values()):
            raise vectors.being_switched()
        if self._others(self.server.in_use(aliases)):
            raise vectors.moved_on()

    @asynccontextmanager
    async def beside(self, model: str, dimension: int) -> AsyncIterator[QdrantNext]:
        used = set(self.server.in_use(await self.server.aliases()).values())
        slots = vectors.slots(self.server.prefix, model, dimension)
        free = [names for names in slots if not used & set(names.values())]
        there = await self.server.collections()
        names = next((names for names in free if there & set(names.values())), free[0])
        await asyncio.gather(*(self.server.create(name, dimension) for name in names.values()))
        made = QdrantNext(self.server, model, dimension, names)
        try:
            yield made
        finally:
            with suppress(AppError):  # it lapses by itself
                await asyncio.shield(made.release())

    async def discard(self) -> list[str]:
        used = set(self.server.in_use(await self.server.aliases()).values())
        ours = tuple(f"{alias}__" for alias in self.server.used.values())
        there = await self.server.collections()
        gone = sorted(name for name in there - used if name.startswith(ours))
        for name in gone:
            await self.server.drop(name)
        return gone

    async def _complete(self) -> None:
        """Make what is missing of the collections in use, and their aliases. Safe with several
        starters: whoever comes second finds them there."""
        aliases = await self.server.aliases()
        used = self.server.in_use(aliases)
        self._refuse(used)
        first, second = self._slots
        slot = second if set(second.values()) & set(used.values()) else first
        missing = [kind for kind in Kind if kind not in used]
        await asyncio.gather(*(self.server.create(slot[kind], self.dimension) for kind in missing))
        wanted = {self.server.used[kind]: slot[kind] for kind in missing}
        for kind, alias in self.names.items():
            if kind in missing or alias not in aliases:
                wanted[alias] = slot[kind]
        if wanted:
            await self.server.set_aliases(wanted, wanted.keys() & aliases.keys())
            self._refuse(self.server.in_use(await self.server.aliases()))

    def _refuse(self, used: Mapping[Kind, str]) -> None:
        for name in self._others(used):
            raise vectors.refuse_other_model(
                stored=f"the collection {name}", model=self.model, dimension=self.dimension
            )

    def _others(self, used: Mapping[Kind, str]) -> list[str]:
        """Those of the collections in use that are not of our model."""
        return [
            name for kind, name in used.items() if name not in {slot[kind] for slot in self._slots}
        ]


def _aliases_of(prefix: str, model: str, dimension: int) -> dict[Kind, str]:
    first = vectors.slots(prefix, model, dimension)[0]
    return {kind: f"{name}_live" for kind, name in first.items()}


class QdrantNext:
    """Implements `app.ports.NextVectors`."""

    def __init__(
        self, server: QdrantServer, model: str, dimension: int, names: Mapping[Kind, str]
    ) -> None:
        self.model = model
        self.dimension = dimension
        self.names = names
        self._server = server
        self._since: float | None = None  # when writers were held, by a clock that nobody sets
        self._hold = ""  # its alias

    def store(self, workspace: str) -> QdrantVectors:
        return QdrantVectors(self, workspace)

    async def call(self, action: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        return await self._server.call(action)

    async def admit(self) -> None:
        """Who makes them writes here, until somebody else has made and switched to the same."""
        used = self._server.in_use(await self._server.aliases())
        if set(used.values()) & set(self.names.values()):
            raise Conflict("Another process has made the same vectors, and switched over to them.")

    async def hold(self) -> bool:
        """Writers compare it with their clocks, which may be half a minute ahead."""
        now = time.monotonic()
        aliases, before = await self._server.aliases(), self._hold
        self._hold = self._server.hold_until(time.time() + HOLD_SECONDS)
        replaced = [before] if before in aliases else []
        await self._server.set_aliases({self._hold: self.names[Kind.CHUNK]}, replaced)
        held, self._since = self._in_force(), now
        return held

    async def switch(self) -> None:
        if not self._in_force():
            raise Conflict("Writers were not held for long enough to switch over.")
        await self.admit()
        aliases = await self._server.aliases()
        former = self._server.in_use(aliases)
        live = _aliases_of(self._server.prefix, self.model, self.dimension)
        wanted = {alias: self.names[kind] for kind, alias in self._server.used.items()}
        wanted |= {alias: self.names[kind] for kind, alias in live.items()}
        replaced = aliases.keys() & {self._hold, *wanted}
        await self._server.set_aliases(wanted, replaced)
        await self._drop(former)

    async def release(self) -> None:
        """And what a killed one left."""
        now, held = time.time(), self._server.holds(await self._server.aliases())
        if over := [one for one, until in held.items() if one == self._hold or until < now]:
            await self._server.set_aliases({}, over)

    async def _drop(self, former: Mapping[Kind, str]) -> None:
        """Nobody answers from those of the same model any more."""
        slots = vectors.slots(self._server.prefix, self.model, self.dimension)
        own = {name for slot in slots for name in slot.values()}
        gone = sorted(own & set(former.values()) - set(self.names.values()))
        if gone:
            await asyncio.sleep(DRAIN_SECONDS)  # searches that have begun end first
        for name in gone:
            await self._server.drop(name)

    def _in_force(self) -> bool:
        return self._since is not None and time.monotonic() - self._since < HOLD_SECONDS / 2


class QdrantVectors:
    """`VectorStore` of one workspace."""

    def __init__(self, engine: QdrantEngine | QdrantNext, workspace: str) -> None:
        self._engine = engine
        self._workspace = workspace

    async def upsert(self, points: Sequence[Point]) -> None:
        vectors.check_points(points, model=self._engine.model, dimension=self._engine.dimension)
        if points:
            await self._engine.admit()
        for kind, batch in vectors.by_kind(points):
            name = self._engine.names[kind]
            structs = [self._struct(point) for point in batch]
            await self._engine.call(partial(_upsert, name=name, points=structs))

    async def search(self, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        places = vectors.places_by_kind(
            queries, model=self._engine.model, dimension=self._engine.dimension
        )
        answers = await asyncio.gather(
            *(self._search(kind, [queries[n] for n in numbers]) for kind, numbers in places.items())
        )
        results: list[list[Hit]] = [[] for _ in queries]
        for numbers, found in zip(places.values(), answers, strict=True):
            for number, hits in zip(numbers, found, strict=True):
                results[number] = vectors.ranked(hits, queries[number].limit)
        return results

    async def delete(self, refs: Sequence[Ref]) -> None:
        if refs:
            await self._engine.admit()
        for kind, batch in vectors.refs_by_kind(refs):
            name = self._engine.names[kind]
            ids: list[models.ExtendedPointId] = [
                vectors.point_id(self._workspace, ref) for ref in batch
            ]
            await self._engine.call(partial(_delete, name=name, ids=ids))

    async def count(self, kind: Kind) -> int:
        name, condition = self._engine.names[kind], self._filter()
        found = await self._engine.call(
            lambda client: client.count(name, count_filter=condition, exact=True)
        )
        return found.count

    async def read(self, refs: Sequence[Ref]) -> list[Point]:
        found = []
        for kind, batch in vectors.refs_by_kind(refs):
            name = self._engine.names[kind]
            ids = [vectors.point_id(self._workspace, ref) for ref in batch]
            records = await self._engine.call(partial(_retrieve, name=name, ids=ids))
            found += [vectors.stored_point(kind, one.payload, one.vector) for one in records]
        return found

    async def scroll(
        self, kind: Kind, *, after: str = "", limit: int = 256
    ) -> tuple[list[Point], str]:
        name, condition = self._engine.names[kind], self._filter()
        records, following = await self._engine.call(
            lambda client: client.scroll(
                name, scroll_filter=condition, limit=limit, offset=after or None,
                with_payload=True, with_vectors=True,
            )
        )  # fmt: skip
        points = [vectors.stored_point(kind, one.payload, one.vector) for one in records]
        return points, str(following or "")

    async def digests(self, refs: Sequence[Ref]) -> dict[Ref, str]:
        found: dict[Ref, str] = {}
        for kind, batch in vectors.refs_by_kind(refs):
            name = self._engine.names[kind]
            ids = [vectors.point_id(self._workspace, ref) for ref in batch]
            records = await self._engine.call(partial(_retrieve, name=name, ids=ids, whole=False))
            found |= dict(vectors.stored_digest(kind, one.payload) for one in records)
        return found

    async def listed(
        self, kind: Kind, *, after: str = "", limit: int = 1000
    ) -> tuple[list[Ref], str]:
        name, condition = self._engine.names[kind], self._filter()
        records, following = await self._engine.call(
            lambda client: client.scroll(
                name, scroll_filter=condition, limit=limit, offset=after or None,
                with_payload=True, with_vectors=False,
            )
        )  # fmt: skip
        refs = [vectors.stored_digest(kind, one.payload)[0] for one in records]
        return refs, str(following or "")

    async def _search(self, kind: Kind, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        requests = [self._request(query) for query in queries]
        name = self._engine.names[kind]
        answers = await self._engine.call(lambda client: client.query_batch_points(name, requests))
        return [[_hit(point) for point in answer.points] for answer in answers]

    def _struct(self, point: Point) -> models.PointStruct:
        from qdrant_client import models  # noqa: PLC0415

        indices, values = list(point.sparse.indices), list(point.sparse.values)
        return models.PointStruct(
            id=vectors.point_id(self._workspace, point.ref),
            vector={
                **vectors.dense_part(point.dense),
                vectors.TERMS: models.SparseVector(indices=indices, values=values),
            },
            payload=dict(vectors.payload(self._workspace, point)),
        )

    def _request(self, query: VectorQuery) -> models.QueryRequest:
        from qdrant_client import models  # noqa: PLC0415

        nearest: list[float] | models.SparseVector
        params = None
        if query.dense is not None:
            nearest, using = list(query.dense), vectors.DENSE
            if query.within is not None:  # callers want the scores of all, not the nearest some
                params = models.SearchParams(exact=True)
        else:
            assert query.sparse is not None
            indices, values = list(query.sparse.indices), list(query.sparse.values)
            nearest, using = models.SparseVector(indices=indices, values=values), vectors.TERMS
            params = models.SearchParams(idf=models.IdfCorpusParams(corpus=self._filter()))
        return models.QueryRequest(
            query=nearest,
            using=using,
            filter=self._filter(query),
            params=params,
            limit=vectors.fetch_limit(query.limit),
            with_payload=["key"],
        )

    def _filter(self, query: VectorQuery | None = None) -> models.Filter:
        from qdrant_client import models  # noqa: PLC0415

        own = models.MatchValue(value=self._workspace)
        must: list[models.Condition] = [models.FieldCondition(key="workspace", match=own)]
        if query is not None and query.within is not None:
            refs = (Ref(query.kind, key) for key in query.within)
            ids: list[models.ExtendedPointId] = [
                vectors.point_id(self._workspace, ref) for ref in refs
            ]
            must.append(models.HasIdCondition(has_id=ids))
        if query is not None and query.documents is not None:
            among = models.MatchAny(any=list(query.documents))
            must.append(models.FieldCondition(key="document_id", match=among))
        return models.Filter(must=must)


def _hit(point: models.ScoredPoint) -> Hit:
    assert point.payload is not None
    return Hit(point.payload["key"], point.score)


async def _upsert(client: AsyncQdrantClient, name: str, points: list[models.PointStruct]) -> None:
    await client.upsert(name, points, wait=True)


async def _retrieve(
    client: AsyncQdrantClient, name: str, ids: list[str], *, whole: bool = True
) -> list[models.Record]:
    return await client.retrieve(name, ids, with_payload=True, with_vectors=whole)


async def _delete(client: AsyncQdrantClient, name: str, ids: list[models.ExtendedPointId]) -> None:
    await client.delete(name, ids, wait=True)
