"""A Qdrant server: its collections and aliases, and its errors as ours."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

import httpx

from app.domain import Kind
from app.errors import AppError, Conflict, Invalid, Overloaded, TooLarge, Unavailable
from app.stores import vectors

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")

TIMEOUT_SECONDS = 30
# Idle connections are dropped before the server does (5 s), or a call meets a closing one.
BROKEN = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3.0)

log = logging.getLogger("heliograph.vectors")


class QdrantServer:
    """An open client, and the names of what is ours there."""

    def __init__(self, client: AsyncQdrantClient, prefix: str) -> None:
        self.prefix = prefix
        self.used = {
            kind: f"{prefix}_{collection}" for kind, collection in vectors.COLLECTIONS.items()
        }
        self._client = client

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, api_key: str, prefix: str) -> AsyncIterator[QdrantServer]:
        # 0.7 s to import, and not needed where vectors are embedded.
        from qdrant_client import AsyncQdrantClient  # noqa: PLC0415

        client = AsyncQdrantClient(
            url=url,
            headers={"api-key": api_key} if api_key else None,
            timeout=TIMEOUT_SECONDS,
            limits=LIMITS,
            check_compatibility=False,  # a blocking call; `version` does it
        )
        try:
            yield cls(client, prefix)
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

    async def version(self) -> str:
        """Warns of one that this client was not made for."""
        found = (await self.call(lambda client: client.info())).version
        ours = version("qdrant-client")
        if found.split(".")[:2] != ours.split(".")[:2]:
            log.warning("vectors.version server=%s client=%s", found, ours)
        return found

    # --- collections -----------------------------------------------------------------------------

    async def collections(self) -> set[str]:
        found = await self.call(lambda client: client.get_collections())
        return {one.name for one in found.collections}

    async def create(self, name: str, dimension: int) -> None:
        from qdrant_client import models  # noqa: PLC0415

        if not await self.call(lambda client: client.collection_exists(name)):
            try:
                await self.call(lambda client: _create_collection(client, name, dimension))
            except (Conflict, Invalid):
                if not await self.call(lambda client: client.collection_exists(name)):
                    raise
        tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        # Filters by document are rare and small: no links in the graph of nearest neighbours.
        plain = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False)
        await self.call(lambda client: client.create_payload_index(name, "workspace", tenant))
        await self.call(lambda client: client.create_payload_index(name, "document_id", plain))

    async def drop(self, name: str) -> None:
        await self.call(lambda client: client.delete_collection(name))
        log.info("vectors.deleted collection=%s", name)

    # --- aliases ---------------------------------------------------------------------------------

    async def aliases(self) -> dict[str, str]:
        found = await self.call(lambda client: client.get_aliases())
        return {alias.alias_name: alias.collection_name for alias in found.aliases}

    async def set_aliases(self, wanted: Mapping[str, str], replaced: Iterable[str] = ()) -> None:
        """All at once. `replaced` are there, and go or come to name another collection."""
        from qdrant_client import models  # noqa: PLC0415

        actions: list[models.AliasOperations] = [
            models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
            for alias in replaced
        ]
        actions += [
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=name, alias_name=alias)
            )
            for alias, name in wanted.items()
        ]
        await self.call(lambda client: client.update_collection_aliases(actions))

    def hold_until(self, moment: float) -> str:
        """A new alias by which writers wait until then."""
        return f"{self.prefix}_hold_{int(moment)}_{uuid.uuid4().hex[:8]}"

    def holds(self, aliases: Iterable[str]) -> dict[str, float]:
        """Alias -> until when writers wait."""
        mark = f"{self.prefix}_hold_"
        held = (one for one in aliases if one.startswith(mark))
        return {one: float(one.removeprefix(mark).partition("_")[0]) for one in held}

    def in_use(self, aliases: Mapping[str, str]) -> dict[Kind, str]:
        return {kind: aliases[alias] for kind, alias in self.used.items() if alias in aliases}


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


class KeyRefused(Unavailable):
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
        raise Unavailable(f"The vector store cannot be used: {cause}.", blameless=True) from error


def _of_status(status: int) -> AppError:
    match status:
        case 401 | 403:
            return KeyRefused("The vector store refused HELIOGRAPH_VECTOR_KEY.")
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
            return Unavailable(
                f"The vector store answered with status {status}.", blameless=status >= 500
            )
