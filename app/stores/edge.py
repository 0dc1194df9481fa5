"""Vectors in a local folder: Qdrant Edge, the server's engine inside this process.

One folder (a shard) per kind, beside a manifest that names the embedding model. The write-ahead log
is on, so a killed process loses nothing; it takes up to 60 MB a shard. A dense search reads all
points, four bits a dimension, and scores the best anew: 0.5 ms of CPU over 40,000 points of 512
dimensions, where reading the floats takes 2.9, with the same hits. The engine's `optimize()` is
never called: it took 80 s for these, and space of rewritten points is used again without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import qdrant_edge as qe

from app.domain import Hit, Kind, Point, Ref, VectorQuery
from app.errors import Conflict, Unavailable
from app.stores import vectors
from app.stores.edge_shards import (
    Manifest,
    OpenShards,
    Shards,
    beside,
    delete_others,
    delete_shards,
    read_manifest,
    write_manifest,
)

T = TypeVar("T")

# Of four times as many hits by the rough vectors, the best by the floats.
RESCORED = qe.QuantizationSearchParams(rescore=True, oversampling=4.0)


class EdgeEngine:
    """The open folder and the vectors in use; safe for many tasks, but of one process only."""

    def __init__(self, folder: Path, opened: OpenShards | None) -> None:
        self._folder = folder
        self._opened = opened
        self._holding = False
        self._left = False  # vectors of another model are in use; these answer until the end
        self._next: EdgeNext | None = None
        self._discarding: asyncio.Task[list[str]] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, model: str, dimension: int, *, reindex: bool = False
    ) -> AsyncIterator[EdgeEngine]:
        """With `reindex` vectors of another model, or none, may be there, to make others `beside`.

        Raises `Misconfigured` if another process has the folder or another model built it."""
        wanted = Manifest(model, dimension)
        engine = cls(folder, await asyncio.to_thread(_open, folder, wanted, reindex=reindex))
        try:
            yield engine
        finally:
            if engine._opened is not None:
                engine._opened.close()

    @property
    def model(self) -> str:
        return self._in_use().model

    @property
    def dimension(self) -> int:
        return self._in_use().dimension

    @property
    def workspaces(self) -> set[str]:
        return self._in_use().workspaces

    async def run(self, call: Callable[[Shards], T]) -> T:
        return await self._in_use().run(call)

    async def write(self, call: Callable[[Shards], Collection[Kind]]) -> None:
        if self._left:
            raise vectors.moved_on()
        if self._holding:
            raise vectors.being_switched()
        await self._in_use().write(call)

    async def ping(self) -> str:
        await self.run(lambda shards: [shard.info() for shard in shards.values()])
        return f"qdrant-edge {version('qdrant-edge-py')}"

    @asynccontextmanager
    async def beside(self, model: str, dimension: int) -> AsyncIterator[EdgeNext]:
        if self._left:
            raise vectors.moved_on()
        if self._next is not None:
            raise Conflict("New vectors are being made already.")
        self._refuse_amid_discard()
        used = self._opened.manifest if self._opened else None
        manifest = beside(self._folder, used, model, dimension)
        made = self._next = EdgeNext(self, manifest)
        try:
            # Cancelled, the thread would go on to make what is being deleted behind it.
            loading = asyncio.create_task(
                asyncio.to_thread(OpenShards.load, self._folder, manifest)
            )
            try:
                made.opened = await asyncio.shield(loading)
            except asyncio.CancelledError:
                await _ended(loading)
                if not loading.exception():
                    loading.result().close()
                raise
            yield made
        finally:
            self._holding = False
            self._next = None
            if made.opened is not None and made.opened is not self._opened:
                made.opened.close()

    async def discard(self) -> list[str]:
        if self._next is not None:
            raise Conflict("New vectors are being made. Stop that first.")
        self._refuse_amid_discard()
        used = read_manifest(self._folder)
        kept = {*(used.names.values() if used else ()), *self._names()}
        self._discarding = asyncio.create_task(asyncio.to_thread(delete_others, self._folder, kept))
        return await asyncio.shield(self._discarding)

    def _refuse_amid_discard(self) -> None:
        if self._discarding is not None and not self._discarding.done():
            raise Conflict("Vectors that are not in use are being deleted. Try again.")

    def _in_use(self) -> OpenShards:
        if self._opened is None:
            raise Unavailable("There are no vectors yet. Run `python -m app.cli reindex`.")
        return self._opened

    def _names(self) -> set[str]:
        return set(self._opened.manifest.names.values()) if self._opened else set()

    def _hold(self) -> None:
        self._holding = True

    async def _take_over(self, made: OpenShards) -> None:
        former = self._opened
        names = tuple(sorted(self._names()))
        await asyncio.to_thread(write_manifest, self._folder, replace(made.manifest, former=names))
        if former is not None and not former.manifest.of_same_model(made.manifest):
            self._left = True  # questions are embedded by the former model here
            return
        self._opened = made
        if former is not None:
            await asyncio.to_thread(former.close)
        await asyncio.to_thread(delete_shards, self._folder, names)


class EdgeNext:
    """Implements `app.ports.NextVectors`."""

    def __init__(self, engine: EdgeEngine, manifest: Manifest) -> None:
        self._engine = engine
        self._manifest = manifest
        self._held = False
        self.opened: OpenShards | None = None

    def store(self, workspace: str) -> EdgeVectors:
        assert self.opened is not None, "inside `beside`"
        return EdgeVectors(self.opened, workspace)

    async def hold(self) -> bool:
        """Only this process writes, so nothing ends it but leaving."""
        self._engine._hold()
        held, self._held = self._held, True
        return held

    async def switch(self) -> None:
        if not self._held:
            raise Conflict("Whoever writes was not held.")
        assert self.opened is not None, "inside `beside`"
        # Cancelled halfway, the manifest would name vectors that this process does not write to.
        taking = asyncio.create_task(self._engine._take_over(self.opened))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            await _ended(taking)
            raise


async def _ended(task: asyncio.Task[Any]) -> None:
    """However often this is cancelled: whoever stops it twice does not get past it."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})


def _open(folder: Path, wanted: Manifest, *, reindex: bool) -> OpenShards | None:
    folder.mkdir(parents=True, exist_ok=True)
    used = read_manifest(folder)
    if used is None:
        if reindex:
            return None
        used = wanted
        write_manifest(folder, used)
    elif not used.of_same_model(wanted) and not reindex:
        raise vectors.refuse_other_model(
            stored=f"{used.model} ({used.dimension} dimensions)",
            model=wanted.model, dimension=wanted.dimension,
        )  # fmt: skip
    opened = OpenShards.load(folder, used)
    if not reindex:
        delete_shards(folder, set(used.former) - set(used.names.values()))
    return opened


class EdgeVectors:
    """`VectorStore` of one workspace."""

    def __init__(self, engine: EdgeEngine | OpenShards, workspace: str) -> None:
        self._engine = engine
        self._workspace = workspace

    async def upsert(self, points: Sequence[Point]) -> None:
        vectors.check_points(points, model=self._engine.model, dimension=self._engine.dimension)
        if points:
            self._engine.workspaces.add(self._workspace)
            await self._engine.write(lambda shards: self._upsert(shards, points))

    async def search(self, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        places = vectors.places_by_kind(
            queries, model=self._engine.model, dimension=self._engine.dimension
        )
        if not places:
            return [[] for _ in queries]
        # Where nobody else has points, a filter for the workspace costs a quarter of a search.
        # Should another one get its first meanwhile, they may be among the hits.
        found = await self._searched(queries, places, alone=self._alone())
        return [
            vectors.ranked(found.get(number, ()), query.limit)
            for number, query in enumerate(queries)
        ]

    async def _searched(
        self, queries: Sequence[VectorQuery], places: Mapping[Kind, Sequence[int]], *, alone: bool
    ) -> dict[int, list[tuple[str, float]]]:
        found = await self._engine.run(
            lambda shards: self._search(shards, queries, places, alone=alone)
        )
        if alone and not self._alone():
            return await self._searched(queries, places, alone=False)
        return found

    def _alone(self) -> bool:
        return self._engine.workspaces <= {self._workspace}

    async def delete(self, refs: Sequence[Ref]) -> None:
        if refs:
            await self._engine.write(lambda shards: self._delete(shards, refs))

    async def count(self, kind: Kind) -> int:
        request = qe.CountRequest(exact=True, filter=self._filter())
        return await self._engine.run(lambda shards: shards[kind].count(request))

    async def read(self, refs: Sequence[Ref]) -> list[Point]:
        return await self._engine.run(lambda shards: self._read(shards, refs)) if refs else []

    async def scroll(
        self, kind: Kind, *, after: str = "", limit: int = 256
    ) -> tuple[list[Point], str]:
        request = qe.ScrollRequest(
            offset=after or None,
            limit=limit,
            filter=self._filter(),
            with_payload=True,
            with_vector=True,
        )
        records, following = await self._engine.run(lambda shards: shards[kind].scroll(request))
        points = [vectors.stored_point(kind, one.payload, one.vector) for one in records]
        return points, str(following or "")

    async def digests(self, refs: Sequence[Ref]) -> dict[Ref, str]:
        return await self._engine.run(lambda shards: self._digests(shards, refs)) if refs else {}

    async def listed(
        self, kind: Kind, *, after: str = "", limit: int = 1000
    ) -> tuple[list[Ref], str]:
        request = qe.ScrollRequest(
            offset=after or None, limit=limit, filter=self._filter(), with_payload=True,
            with_vector=False,
        )  # fmt: skip
        records, following = await self._engine.run(lambda shards: shards[kind].scroll(request))
        refs = [vectors.stored_digest(kind, one.payload)[0] for one in records]
        return refs, str(following or "")

    def _upsert(self, shards: Shards, points: Sequence[Point]) -> set[Kind]:
        touched = set()
        for kind, batch in vectors.by_kind(points):
            shards[kind].update(qe.UpdateOperation.upsert_points([self._point(p) for p in batch]))
            touched.add(kind)
        return touched

    def _point(self, point: Point) -> qe.Point:
        sparse = qe.SparseVector(list(point.sparse.indices), list(point.sparse.values))
        return qe.Point(
            vectors.point_id(self._workspace, point.ref),
            {**vectors.dense_part(point.dense), vectors.TERMS: sparse},
            vectors.payload(self._workspace, point),
        )

    def _search(
        self,
        shards: Shards,
        queries: Sequence[VectorQuery],
        places: Mapping[Kind, Sequence[int]],
        *,
        alone: bool,
    ) -> dict[int, list[tuple[str, float]]]:
        found: dict[int, list[tuple[str, float]]] = {}
        for kind, numbers in places.items():
            # Searches of a batch share their list of keys; to derive the ids costs more than both.
            among: dict[int, _Among] = {}
            for query in (queries[number] for number in numbers):
                if query.within is not None and id(query.within) not in among:
                    among[id(query.within)] = _Among(self._workspace, kind, query.within)
            narrowed = [among.get(id(queries[number].within)) for number in numbers]
            requests = [
                self._request(queries[number], those, alone=alone)
                for number, those in zip(numbers, narrowed, strict=True)
            ]
            answers = shards[kind].query_batch(qe.QueryBatchRequest(requests))
            for number, those, points in zip(numbers, narrowed, answers, strict=True):
                found[number] = those.hits(points) if those else _hits(points)
        return found

    def _request(self, query: VectorQuery, among: _Among | None, *, alone: bool) -> qe.QueryRequest:
        owned = [] if alone else self._owned()
        if query.dense is not None:
            nearest = qe.Query.Nearest(list(query.dense), using=vectors.DENSE)
            params = qe.SearchParams(quantization=RESCORED)
        else:
            assert query.sparse is not None
            sparse = qe.SparseVector(list(query.sparse.indices), list(query.sparse.values))
            nearest = qe.Query.Nearest(sparse, using=vectors.TERMS)
            # Without a corpus the engine goes on counting what was deleted.
            params = qe.SearchParams(idf=qe.IdfParams(corpus=qe.Filter(must=owned)))
        return qe.QueryRequest(
            limit=vectors.fetch_limit(query.limit),
            query=nearest,
            filter=qe.Filter(must=[*owned, *_narrowed(among, query.documents)]),
            params=params,
            with_payload=False if among else ["key"],
        )

    def _read(self, shards: Shards, refs: Sequence[Ref]) -> list[Point]:
        found = []
        for kind, batch in vectors.refs_by_kind(refs):
            ids: list[qe.PointId] = [vectors.point_id(self._workspace, ref) for ref in batch]
            for one in shards[kind].retrieve(ids, with_payload=True, with_vector=True):
                found.append(vectors.stored_point(kind, one.payload, one.vector))
        return found

    def _digests(self, shards: Shards, refs: Sequence[Ref]) -> dict[Ref, str]:
        found = {}
        for kind, batch in vectors.refs_by_kind(refs):
            ids: list[qe.PointId] = [vectors.point_id(self._workspace, ref) for ref in batch]
            for one in shards[kind].retrieve(ids, with_payload=True, with_vector=False):
                ref, digest = vectors.stored_digest(kind, one.payload)
                found[ref] = digest
        return found

    def _delete(self, shards: Shards, refs: Sequence[Ref]) -> set[Kind]:
        touched = set()
        for kind, batch in vectors.refs_by_kind(refs):
            ids: list[qe.PointId] = [vectors.point_id(self._workspace, ref) for ref in batch]
            shards[kind].update(qe.UpdateOperation.delete_points(ids))
            touched.add(kind)
        return touched

    def _filter(self) -> qe.Filter:
        return qe.Filter(must=self._owned())

    def _owned(self) -> list[qe.ConditionType]:
        return [qe.FieldCondition("workspace", match=qe.MatchValue(self._workspace))]


class _Among:
    """Points that a search is narrowed to. Their ids tell their keys: no payload need be read."""

    def __init__(self, workspace: str, kind: Kind, keys: Iterable[str]) -> None:
        self._keys = {vectors.point_id(workspace, Ref(kind, key)): key for key in keys}
        self.condition = qe.HasIdCondition(set(self._keys))

    def hits(self, points: Iterable[qe.ScoredPoint]) -> list[tuple[str, float]]:
        return [(self._keys[str(one.id)], one.score) for one in points]


def _narrowed(among: _Among | None, documents: Sequence[str] | None) -> Iterator[qe.ConditionType]:
    if among is not None:
        yield among.condition
    if documents is not None:
        yield qe.FieldCondition("document_id", match=qe.MatchAny(list(documents)))


def _hits(points: Iterable[qe.ScoredPoint]) -> list[tuple[str, float]]:
    found = []
    for one in points:
        assert one.payload is not None, "every point is stored with its key"
        found.append((one.payload["key"], one.score))
    return found
