"""Vectors in a local folder: Qdrant Edge, the server's engine inside this process.

One folder (a shard) per kind, beside a manifest that names the embedding model. The write-ahead log
is on, so a killed process loses nothing; it takes up to 60 MB a shard. Search is exact: 5 ms over
40,000 points of 512 dimensions. The engine's `optimize()` is never called: it took 80 s for these
and saved nothing, and space of rewritten points is used again without it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import qdrant_edge as qe

from app.domain import Hit, Kind, Point, Ref, VectorQuery
from app.errors import AppError, Misconfigured, Unavailable
from app.stores import vectors

T = TypeVar("T")

MANIFEST = "manifest.json"
THREADS = 4

log = logging.getLogger("heliograph.vectors")


class EdgeEngine:
    """The open folder; safe for many threads, but of one process only."""

    def __init__(
        self, path: Path, model: str, dimension: int, shards: Mapping[Kind, qe.EdgeShard]
    ) -> None:
        self.path = path
        self.model = model
        self.dimension = dimension
        self._shards = shards
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="vectors")
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, model: str, dimension: int, *, reindex: bool = False
    ) -> AsyncIterator[EdgeEngine]:
        """With `reindex` vectors of another model may be there; `switch` then replaces them.

        Raises `Misconfigured` if another process has the folder or another model built it."""
        engine = await asyncio.to_thread(_open, path, model, dimension, reindex=reindex)
        try:
            yield engine
        finally:
            engine.close()

    async def run(self, call: Callable[[Mapping[Kind, qe.EdgeShard]], T]) -> T:
        """One hop into the thread pool; the engine releases the interpreter lock there."""
        if self._closed:
            raise Unavailable("The vector store is closed.")
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, _translated(call), self._shards
        )

    async def ping(self) -> str:
        await self.run(lambda shards: [shard.info() for shard in shards.values()])
        return f"qdrant-edge {version('qdrant-edge-py')}"

    async def switch(self) -> None:
        """Make the open model the folder's model and delete the vectors of all others."""
        await self.run(lambda _: _write_manifest(self.path, self.model, self.dimension))
        names = {MANIFEST, *_shard_names(self.model, self.dimension).values()}
        await asyncio.to_thread(_delete_others, self.path, names)

    def close(self) -> None:
        """Waits for running calls; blocking, since it must also finish when a task is cancelled."""
        self._closed = True
        self._pool.shutdown(wait=True)
        for shard in self._shards.values():
            shard.flush()
            shard.close()


class EdgeVectors:
    """`VectorStore` of one workspace."""

    def __init__(self, engine: EdgeEngine, workspace: str) -> None:
        self._engine = engine
        self._workspace = workspace

    async def upsert(self, points: Sequence[Point]) -> None:
        vectors.check_points(points, model=self._engine.model, dimension=self._engine.dimension)
        if points:
            await self._engine.run(lambda shards: self._upsert(shards, points))

    async def search(self, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        places = vectors.places_by_kind(
            queries, model=self._engine.model, dimension=self._engine.dimension
        )
        results: list[list[Hit]] = [[] for _ in queries]
        if places:
            found = await self._engine.run(lambda shards: self._search(shards, queries, places))
            for number, hits in found.items():
                results[number] = vectors.ranked(hits, queries[number].limit)
        return results

    async def delete(self, refs: Sequence[Ref]) -> None:
        if refs:
            await self._engine.run(lambda shards: self._delete(shards, refs))

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

    def _upsert(self, shards: Mapping[Kind, qe.EdgeShard], points: Sequence[Point]) -> None:
        touched = set()
        for kind, batch in vectors.by_kind(points):
            shards[kind].update(qe.UpdateOperation.upsert_points([self._point(p) for p in batch]))
            touched.add(kind)
        _flush(shards, touched)

    def _point(self, point: Point) -> qe.Point:
        sparse = qe.SparseVector(list(point.sparse.indices), list(point.sparse.values))
        return qe.Point(
            vectors.point_id(self._workspace, point.ref),
            {**vectors.dense_part(point.dense), vectors.TERMS: sparse},
            vectors.payload(self._workspace, point),
        )

    def _search(
        self,
        shards: Mapping[Kind, qe.EdgeShard],
        queries: Sequence[VectorQuery],
        places: Mapping[Kind, Sequence[int]],
    ) -> dict[int, list[Hit]]:
        found: dict[int, list[Hit]] = {}
        for kind, numbers in places.items():
            requests = [self._request(queries[number]) for number in numbers]
            answers = shards[kind].query_batch(qe.QueryBatchRequest(requests))
            for number, points in zip(numbers, answers, strict=True):
                found[number] = [_hit(point) for point in points]
        return found

    def _request(self, query: VectorQuery) -> qe.QueryRequest:
        params = None
        if query.dense is not None:
            nearest = qe.Query.Nearest(list(query.dense), using=vectors.DENSE)
        else:
            assert query.sparse is not None
            sparse = qe.SparseVector(list(query.sparse.indices), list(query.sparse.values))
            nearest = qe.Query.Nearest(sparse, using=vectors.TERMS)
            params = qe.SearchParams(idf=qe.IdfParams(corpus=self._filter()))
        return qe.QueryRequest(
            limit=vectors.fetch_limit(query.limit),
            query=nearest,
            filter=self._filter(query),
            params=params,
            with_payload=["key"],
        )

    def _read(self, shards: Mapping[Kind, qe.EdgeShard], refs: Sequence[Ref]) -> list[Point]:
        found = []
        for kind, batch in vectors.refs_by_kind(refs):
            ids: list[qe.PointId] = [vectors.point_id(self._workspace, ref) for ref in batch]
            for one in shards[kind].retrieve(ids, with_payload=True, with_vector=True):
                found.append(vectors.stored_point(kind, one.payload, one.vector))
        return found

    def _delete(self, shards: Mapping[Kind, qe.EdgeShard], refs: Sequence[Ref]) -> None:
        touched = set()
        for kind, batch in vectors.refs_by_kind(refs):
            ids: list[qe.PointId] = [vectors.point_id(self._workspace, ref) for ref in batch]
            shards[kind].update(qe.UpdateOperation.delete_points(ids))
            touched.add(kind)
        _flush(shards, touched)

    def _filter(self, query: VectorQuery | None = None) -> qe.Filter:
        must: list[qe.ConditionType] = [
            qe.FieldCondition("workspace", match=qe.MatchValue(self._workspace))
        ]
        if query is not None and query.within is not None:
            refs = (Ref(query.kind, key) for key in query.within)
            must.append(qe.HasIdCondition({vectors.point_id(self._workspace, ref) for ref in refs}))
        if query is not None and query.documents is not None:
            must.append(qe.FieldCondition("document_id", match=qe.MatchAny(list(query.documents))))
        return qe.Filter(must=must)


def _flush(shards: Mapping[Kind, qe.EdgeShard], kinds: Iterable[Kind]) -> None:
    """The log survives a killed process, this (9 ms) also a power cut: the graph is told next that
    these points are there."""
    for kind in kinds:
        shards[kind].flush()


def _hit(point: qe.ScoredPoint) -> Hit:
    assert point.payload is not None
    return Hit(point.payload["key"], point.score)


# --- opening -------------------------------------------------------------------------------------


def _open(path: Path, model: str, dimension: int, *, reindex: bool) -> EdgeEngine:
    path.mkdir(parents=True, exist_ok=True)
    stored = _read_manifest(path)
    if stored is None:
        _write_manifest(path, model, dimension)
    elif stored != (model, dimension) and not reindex:
        raise vectors.refuse_other_model(
            stored=f"{stored[0]} ({stored[1]} dimensions)", model=model, dimension=dimension
        )
    shards: dict[Kind, qe.EdgeShard] = {}
    try:
        for kind, name in _shard_names(model, dimension).items():
            shards[kind] = _open_shard(path / name, dimension)
    except AppError:
        for shard in shards.values():
            shard.close()
        raise
    return EdgeEngine(path, model, dimension, shards)


def _open_shard(path: Path, dimension: int) -> qe.EdgeShard:
    config = qe.EdgeConfig(
        vectors={vectors.DENSE: qe.EdgeVectorParams(size=dimension, distance=qe.Distance.Cosine)},
        sparse_vectors={vectors.TERMS: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
    )
    if not path.exists():
        _create_shard(path, config)
    try:
        return qe.EdgeShard.load(str(path), config)
    except Exception as error:  # the engine knows no narrower type
        if "WouldBlock" in str(error):
            raise Misconfigured(
                f"The vector folder {path.parent} is in use by another process. The embedded "
                "store serves one process; several need HELIOGRAPH_VECTOR_URL=http://<qdrant>."
            ) from error
        raise Misconfigured(f"The vector folder {path} cannot be opened: {error}") from error


def _create_shard(path: Path, config: qe.EdgeConfig) -> None:
    """Beside its place and then renamed: a start that was killed leaves no half-made shard."""
    draft = path.with_name(f"{path.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        shard = qe.EdgeShard.create(str(draft), config)
        tenant = qe.KeywordIndexParams(is_tenant=True)
        shard.update(qe.UpdateOperation.create_field_index("workspace", tenant))
        plain = qe.KeywordIndexParams()
        shard.update(qe.UpdateOperation.create_field_index("document_id", plain))
        shard.flush()
        shard.close()
    except Exception as error:  # the engine knows no narrower type
        raise Misconfigured(f"The vector folder {path} cannot be made: {error}") from error
    draft.rename(path)


def _shard_names(model: str, dimension: int) -> dict[Kind, str]:
    return {kind: vectors.collection_name("heliograph", kind, model, dimension) for kind in Kind}


def _read_manifest(path: Path) -> tuple[str, int] | None:
    file = path / MANIFEST
    if not file.exists():
        return None
    try:
        manifest = json.loads(file.read_text("utf-8"))
        return str(manifest["model"]), int(manifest["dimension"])
    except (ValueError, KeyError, TypeError) as error:
        raise Misconfigured(f"{file} is damaged; delete the folder and reindex.") from error


def _write_manifest(path: Path, model: str, dimension: int) -> None:
    draft = path / f"{MANIFEST}.new"
    draft.write_text(json.dumps({"model": model, "dimension": dimension}) + "\n", "utf-8")
    draft.replace(path / MANIFEST)


def _delete_others(path: Path, names: set[str]) -> None:
    for entry in path.iterdir():
        if entry.name not in names and entry.is_dir():
            shutil.rmtree(entry)
            log.info("vectors.deleted folder=%s", entry.name)


def _translated(call: Callable[..., T]) -> Callable[..., T]:
    def translated(shards: Mapping[Kind, qe.EdgeShard]) -> T:
        with _errors():
            return call(shards)

    return translated


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:  # the engine raises just that; all else is ours
            raise
        raise Unavailable(f"The vector store failed: {str(error)[:200]}") from error
