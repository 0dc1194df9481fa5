"""The composition root: settings to services. The only package that knows adapters.

The scheme of each URL picks the adapter. Everything is opened here and closed in reverse order.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from app.ports import Keyring, Services, Workspace
from app.settings import Settings
from app.stores.queue import (
    JOB_SECONDS,
    QUEUE_NAME,
    ArqQueue,
    decode,
    embedded_valkey,
    encode,
    on_startup,
    redis_settings,
)
from app.wiring.models import open_embedder, open_models
from app.wiring.stores import open_blobs, open_graph, open_vectors

log = logging.getLogger("heliograph.wiring")


@asynccontextmanager
async def open_services(settings: Settings, *, reindex: bool = False) -> AsyncIterator[Services]:
    """All stores and models that the settings name. With `reindex` the vectors may be of another
    model, and others can be made beside them.

    Raises `Misconfigured` for what can be known at once (schema behind, another embedding model,
    a folder in use) and `Unavailable` where a server cannot be reached."""
    async with AsyncExitStack() as stack:
        graph = await open_graph(stack, settings)
        models, model_dependencies = await open_models(stack, settings)
        vectors, engine = await open_vectors(stack, settings, models.embedder, reindex=reindex)
        blobs = open_blobs(settings)
        queue = await stack.enter_async_context(ArqQueue.open(settings.queue_url))
        options = settings.options

        def workspace(name: str) -> Workspace:
            return Workspace(
                name=name,
                documents=graph.documents(name),
                graph=graph.graph(name),
                names=graph.names(name),
                vectors=vectors(name),
                blobs=blobs,
                archive=graph.archive(name),
                evaluations=graph.evaluations(name),
                communities=graph.communities(name),
                options=options,
            )

        log.info(
            "services.open graph=%s vectors=%s queue=%s embedder=%s",
            *(url.partition("://")[0] for url in (settings.graph_url, settings.vector_url)),
            settings.queue_url.partition("://")[0], models.embedder.model,
        )  # fmt: skip
        yield Services(
            workspace, graph.journal, graph.keyring, queue, models, engine,
            {
                "graph": graph.database, "vectors": engine, "queue": queue,
                "blobs": blobs, **model_dependencies,
            },
            partial(open_embedder, settings),
        )  # fmt: skip


@asynccontextmanager
async def open_keyring(settings: Settings) -> AsyncIterator[Keyring]:
    """Only the graph store, for making the first key before anything serves."""
    async with AsyncExitStack() as stack:
        yield (await open_graph(stack, settings)).keyring


@asynccontextmanager
async def embedded_queue(settings: Settings) -> AsyncIterator[Settings]:
    """With `embedded://` as queue: start the bundled Valkey, and name it in the settings."""
    if not settings.queue_url.startswith("embedded:"):
        yield settings
        return
    async with embedded_valkey(settings.data_dir) as url:
        yield settings.model_copy(update={"queue_url": url})


def arq_options(settings: Settings) -> dict[str, Any]:
    """What arq's worker must share with the queue."""
    return {
        "queue_name": QUEUE_NAME,
        "redis_settings": redis_settings(settings.queue_url),
        "job_serializer": encode,
        "job_deserializer": decode,
        "on_startup": on_startup,
        "job_timeout": JOB_SECONDS,
    }
