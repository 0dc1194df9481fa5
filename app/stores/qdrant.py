"""Vectors on a Qdrant server, for several processes and hosts.

One collection per kind and embedding model; an alias per kind names the collection in use, so that
another model is noticed at start and `reindex` can build beside and then switch in one step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

import httpx

from app.domain import Hit, Kind, Point, Ref, VectorQuery
from app.errors import AppError, Conflict, Invalid, Misconfigured, Overloaded, TooLarge, Unavailable
from app.stores import vectors

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")

TIMEOUT_SECONDS = 30
# Idle connections are dropped before the server does (5 s), or a call meets a closing one.
BROKEN = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3.0)

log = logging.getLogger("heliograph.vectors")


class QdrantEngine:
    """An open client and the collections of one embedding model."""

    def __init__(
        self, client: AsyncQdrantClient, model: str, dimension: int, *, prefix: str = "heliograph"
    ) -> None:
        self.model = model
        self.dimension = dimension
        self.collections = {
            kind: vectors.collection_name(prefix, kind, model, dimension) for kind in Kind
        }
        self._aliases = {
            kind: f"{prefix}_{collection}" for kind, collection in vectors.COLLECTIONS.items()
        }
        self._client = client

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, api_key: str, model: str, dimension: int,
        *, reindex: bool = False, prefix: str = "heliograph",
    ) -> AsyncIterator[QdrantEngine]:  # fmt: skip
        """With `reindex` vectors of another model may be in use; `switch` then replaces them.

        Raises `Misconfigured` for another model or a refused key, `Unavailable` if out of reach."""
        # 0.7 s to import, and not needed where vectors are embedded.
        from qdrant_client import AsyncQdrantClient  # noqa: PLC0415

        client = AsyncQdrantClient(
            url=url,
            headers={"api-key": api_key} if api_key else None,
            timeout=TIMEOUT_SECONDS,
            limits=LIMITS,
            check_compatibility=False,  # a blocking call; `_check_version` does it
        )
        try:
            engine = cls(client, model, dimension, prefix=prefix)
            await engine._prepare(reindex=reindex)
            yield engine
        finally:
            await client.close()

    async def call(self, action: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        """Tried twice where the connection broke: every call here may be repeated."""
        with _errors():
            try:
                return await action(self._client)
            except Exception as error:
                if not isinstance(getattr(error, "source", None), BROKEN):
                    raise
            return await action(self._client)

    async def ping(self) -> str:
        found = await self.call(lambda client: client.info())
        return f"qdrant {found.version}"

    async def switch(self) -> None:
        """Make the open model the one in use and delete the collections of the model before it."""
        old = await self._in_use()
        await self._use(replace=old.keys())
        for name in old.values():
            if name not in self.collections.values():
                await self._drop(name)

    async def _drop(self, name: str) -> None:
        await self.call(lambda client: client.delete_collection(name))
        log.info("vectors.deleted collection=%s", name)

    async def _prepare(self, *, reindex: bool) -> None:
        try:
            await self._check_version()
            used = await self._in_use()
            if not reindex:
                self._refuse_other(used)
            await asyncio.gather(*(self._create(kind) for kind in Kind))
            if not reindex and used.keys() != set(Kind):
                await self._use()
                self._refuse_other(await self._in_use())
        except _Refused as error:
            raise Misconfigured(error.detail) from error

    async def _use(self, replace: Collection[Kind] = ()) -> None:
        """Point the aliases to our collections, all at once."""
        from qdrant_client import models  # noqa: PLC0415

        actions: list[models.AliasOperations] = []
        for kind, alias in self._aliases.items():
            if kind in replace:
                drop = models.DeleteAlias(alias_name=alias)
                actions.append(models.DeleteAliasOperation(delete_alias=drop))
            make = models.CreateAlias(collection_name=self.collections[kind], alias_name=alias)
            actions.append(models.CreateAliasOperation(create_alias=make))
        await self.call(lambda client: client.update_collection_aliases(actions))

    async def _in_use(self) -> dict[Kind, str]:
        found = await self.call(lambda client: client.get_aliases())
        names = {alias.alias_name: alias.collection_name for alias in found.aliases}
        return {kind: names[alias] for kind, alias in self._aliases.items() if alias in names}

    def _refuse_other(self, used: dict[Kind, str]) -> None:
        for kind, name in used.items():
            if name != self.collections[kind]:
                raise vectors.refuse_other_model(
                    stored=f"the collection {name}", model=self.model, dimension=self.dimension
                )

    async def _create(self, kind: Kind) -> None:
        """Safe with several starters: whoever comes second finds the collection there."""
        from qdrant_client import models  # noqa: PLC0415

        name = self.collections[kind]
        if not await self.call(lambda client: client.collection_exists(name)):
            try:
                await self.call(lambda client: _create_collection(client, name, self.dimension))
            except (Conflict, Invalid):
                if not await self.call(lambda client: client.collection_exists(name)):
                    raise
        tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        # Filters by document are rare and small: no links in the graph of nearest neighbours.
        plain = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False)
        await self.call(lambda client: client.create_payload_index(name, "workspace", tenant))
        await self.call(lambda client: client.create_payload_index(name, "document_id", plain))

    async def _check_version(self) -> None:
        found = (await self.call(lambda client: client.info())).version
        ours = version("qdrant-client")
        if found.split(".")[:2] != ours.split(".")[:2]:
            log.warning("vectors.version server=%s client=%s", found, ours)


class QdrantVectors:
    """`VectorStore` of one workspace."""

    def __init__(self, engine: QdrantEngine, workspace: str) -> None:
        self._engine = engine
        self._workspace = workspace

    async def upsert(self, points: Sequence[Point]) -> None:
        vectors.check_points(points, model=self._engine.model, dimension=self._engine.dimension)
        for kind, batch in vectors.by_kind(points):
            name = self._engine.collections[kind]
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
        for kind, batch in vectors.refs_by_kind(refs):
            name = self._engine.collections[kind]
            ids: list[models.ExtendedPointId] = [
                vectors.point_id(self._workspace, ref) for ref in batch
            ]
            await self._engine.call(partial(_delete, name=name, ids=ids))

    async def count(self, kind: Kind) -> int:
        name, condition = self._engine.collections[kind], self._filter()
        found = await self._engine.call(
            lambda client: client.count(name, count_filter=condition, exact=True)
        )
        return found.count

    async def read(self, refs: Sequence[Ref]) -> list[Point]:
        found = []
        for kind, batch in vectors.refs_by_kind(refs):
            name = self._engine.collections[kind]
            ids = [vectors.point_id(self._workspace, ref) for ref in batch]
            records = await self._engine.call(partial(_retrieve, name=name, ids=ids))
            found += [vectors.stored_point(kind, one.payload, one.vector) for one in records]
        return found

    async def scroll(
        self, kind: Kind, *, after: str = "", limit: int = 256
    ) -> tuple[list[Point], str]:
        name, condition = self._engine.collections[kind], self._filter()
        records, following = await self._engine.call(
            lambda client: client.scroll(
                name, scroll_filter=condition, limit=limit, offset=after or None,
                with_payload=True, with_vectors=True,
            )
        )  # fmt: skip
        points = [vectors.stored_point(kind, one.payload, one.vector) for one in records]
        return points, str(following or "")

    async def _search(self, kind: Kind, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        requests = [self._request(query) for query in queries]
        name = self._engine.collections[kind]
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


async def _retrieve(client: AsyncQdrantClient, name: str, ids: list[str]) -> list[models.Record]:
    return await client.retrieve(name, ids, with_payload=True, with_vectors=True)


async def _delete(client: AsyncQdrantClient, name: str, ids: list[models.ExtendedPointId]) -> None:
    await client.delete(name, ids, wait=True)


async def _create_collection(client: AsyncQdrantClient, name: str, dimension: int) -> None:
    from qdrant_client import models  # noqa: PLC0415

    await client.create_collection(
        name,
        vectors_config={
            vectors.DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        },
        sparse_vectors_config={
            vectors.TERMS: models.SparseVectorParams(modifier=models.Modifier.IDF)
        },
        # Every search names one workspace: a graph for each and none over all.
        hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
    )


# --- errors --------------------------------------------------------------------------------------


class _Refused(Unavailable):
    """The key is wrong: `Misconfigured` at start-up, unavailable when it happens later."""


@contextmanager
def _errors() -> Iterator[None]:
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse  # noqa: PLC0415
    from qdrant_client.http.exceptions import (  # noqa: PLC0415
        ResponseHandlingException,
        UnexpectedResponse,
    )

    try:
        yield
    except ResourceExhaustedResponse as error:
        raise Overloaded(
            "The vector store is overloaded.", retry_after=float(error.retry_after_s)
        ) from error
    except UnexpectedResponse as error:
        raise _of_status(error.status_code or 0) from error
    except ResponseHandlingException as error:
        cause = type(error.source).__name__
        raise Unavailable(f"The vector store cannot be used: {cause}.") from error


def _of_status(status: int) -> AppError:
    match status:
        case 401 | 403:
            return _Refused("The vector store refused HELIOGRAPH_VECTOR_KEY.")
        case 404:
            return Unavailable(
                "The vector store has lost a collection. Restart the service to make it anew, "
                "then run `python -m app.cli reindex`."
            )
        case 409:
            return Conflict("The vector store says that it exists already.")
        case 413:
            return TooLarge("The vector store refuses a batch of this size.")
        case 429:
            return Overloaded("The vector store is overloaded.")
        case 400 | 422:
            return Invalid("The vector store could not read a request; is its version supported?")
        case _:
            return Unavailable(f"The vector store answered with status {status}.")
