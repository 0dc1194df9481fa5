"""Stores by the scheme of their URL. Only what is configured is imported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.ports import (
    Archive,
    Communities,
    Documents,
    Embedder,
    Evaluations,
    GraphStore,
    Journal,
    Keyring,
    Names,
    Pingable,
    VectorEngine,
    VectorStore,
)
from app.settings import Settings, local_path
from migrations import migrate

if TYPE_CHECKING:
    from app.stores.blobs import ObjectBlobs


@dataclass(frozen=True, slots=True)
class Graph:
    database: Pingable
    journal: Journal
    keyring: Keyring
    documents: Callable[[str], Documents]
    graph: Callable[[str], GraphStore]
    names: Callable[[str], Names]
    archive: Callable[[str], Archive]
    evaluations: Callable[[str], Evaluations]
    communities: Callable[[str], Communities]


async def open_graph(stack: AsyncExitStack, settings: Settings) -> Graph:
    if settings.graph_url.startswith("sqlite:"):
        return await _open_sqlite(stack, settings)
    return await _open_neo4j(stack, settings)


async def _open_sqlite(stack: AsyncExitStack, settings: Settings) -> Graph:
    from app.stores import sqlite

    await migrate(settings.graph_url)
    path = local_path(settings.graph_url)
    database = await stack.enter_async_context(sqlite.SqliteDatabase.open(path))
    return Graph(
        database, sqlite.SqliteJournal(database), sqlite.SqliteKeyring(database),
        lambda name: sqlite.SqliteDocuments(database, name),
        lambda name: sqlite.SqliteGraph(database, name),
        lambda name: sqlite.SqliteNames(database, name),
        lambda name: sqlite.SqliteArchive(database, name),
        lambda name: sqlite.SqliteEvaluations(database, name),
        lambda name: sqlite.SqliteCommunities(database, name),
    )  # fmt: skip


async def _open_neo4j(stack: AsyncExitStack, settings: Settings) -> Graph:
    from app.stores import neo4j

    database = await stack.enter_async_context(
        neo4j.open_database(
            settings.graph_url,
            settings.graph_user or "neo4j",
            settings.graph_password.get_secret_value(),
            settings.graph_database,
        )
    )
    return Graph(
        database, neo4j.Neo4jJournal(database), neo4j.Neo4jKeyring(database),
        lambda name: neo4j.Neo4jDocuments(database, name),
        lambda name: neo4j.Neo4jGraph(database, name),
        lambda name: neo4j.Neo4jNames(database, name),
        lambda name: neo4j.Neo4jArchive(database, name),
        lambda name: neo4j.Neo4jEvaluations(database, name),
        lambda name: neo4j.Neo4jCommunities(database, name),
    )  # fmt: skip


async def open_vectors(
    stack: AsyncExitStack, settings: Settings, embedder: Embedder, *, reindex: bool
) -> tuple[Callable[[str], VectorStore], VectorEngine]:
    model, dimension = embedder.model, embedder.dimension
    if settings.vector_url.startswith("edge:"):
        from app.stores.edge import EdgeEngine, EdgeVectors

        edge = await stack.enter_async_context(
            EdgeEngine.open(local_path(settings.vector_url), model, dimension, reindex=reindex)
        )
        return (lambda name: EdgeVectors(edge, name)), edge
    from app.stores.qdrant import QdrantEngine, QdrantVectors

    server = await stack.enter_async_context(
        QdrantEngine.open(
            settings.vector_url,
            settings.vector_key.get_secret_value(),
            model,
            dimension,
            reindex=reindex,
        )
    )
    return (lambda name: QdrantVectors(server, name)), server


def open_blobs(settings: Settings) -> ObjectBlobs:
    from app.stores.blobs import ObjectBlobs

    return ObjectBlobs.open(settings.blob_url)
