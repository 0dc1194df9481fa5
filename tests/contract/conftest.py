"""The stores that hold documents, graph, journal and keys, on every backend that has them.

`open_stores` is the one place that knows the backends. Tests take workspace names that nobody has
used, so that one server serves all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.domain import Extraction, Kind, KnownName, Mark, Plan, Profile, Ref, Revision
from app.names import key as normal_key
from app.ports import (
    Archive,
    Communities,
    Documents,
    Evaluations,
    GraphStore,
    Journal,
    Keyring,
    Names,
)
from app.resolution.settlement import Resolved, Reviewed, Settlement
from migrations import migrate
from tests import make
from tests.servers import Server

BACKENDS = ["sqlite", pytest.param("neo4j", marks=pytest.mark.server)]


@dataclass(frozen=True, slots=True)
class Stores:
    documents: Callable[[str], Documents]
    graph: Callable[[str], GraphStore]
    archive: Callable[[str], Archive]
    communities: Callable[[str], Communities]
    names: Callable[[str], Names]
    evaluations: Callable[[str], Evaluations]
    journal: Journal
    keyring: Keyring
    ping: Callable[[], Any]


@asynccontextmanager
async def open_stores(
    backend: str, tmp_path: Path, server: Server | None = None
) -> AsyncIterator[Stores]:
    if backend == "sqlite":
        from app.stores import sqlite

        path = tmp_path / "graph.db"
        await migrate(f"sqlite://{path}")
        async with sqlite.SqliteDatabase.open(path) as database:
            yield Stores(
                documents=lambda workspace: sqlite.SqliteDocuments(database, workspace),
                graph=lambda workspace: sqlite.SqliteGraph(database, workspace),
                archive=lambda workspace: sqlite.SqliteArchive(database, workspace),
                communities=lambda workspace: sqlite.SqliteCommunities(database, workspace),
                names=lambda workspace: sqlite.SqliteNames(database, workspace),
                evaluations=lambda workspace: sqlite.SqliteEvaluations(database, workspace),
                journal=sqlite.SqliteJournal(database),
                keyring=sqlite.SqliteKeyring(database),
                ping=database.ping,
            )
        return
    from app.stores import neo4j

    assert server is not None, "the Neo4j backend needs a server"
    await migrate(server.url, user=server.user, password=server.password)
    async with neo4j.open_database(server.url, server.user, server.password) as database:
        yield Stores(
            documents=lambda workspace: neo4j.Neo4jDocuments(database, workspace),
            graph=lambda workspace: neo4j.Neo4jGraph(database, workspace),
            archive=lambda workspace: neo4j.Neo4jArchive(database, workspace),
            communities=lambda workspace: neo4j.Neo4jCommunities(database, workspace),
            names=lambda workspace: neo4j.Neo4jNames(database, workspace),
            evaluations=lambda workspace: neo4j.Neo4jEvaluations(database, workspace),
            journal=neo4j.Neo4jJournal(database),
            keyring=neo4j.Neo4jKeyring(database),
            ping=database.ping,
        )


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stores(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Stores]:
    server = request.getfixturevalue("neo4j") if backend == "neo4j" else None
    async with open_stores(backend, tmp_path, server) as opened:
        yield opened


@pytest.fixture
def workspace() -> str:
    return make.name()


@pytest.fixture
def documents(stores: Stores, workspace: str) -> Documents:
    return stores.documents(workspace)


@pytest.fixture
def graph(stores: Stores, workspace: str) -> GraphStore:
    return stores.graph(workspace)


@pytest.fixture
def journal(stores: Stores) -> Journal:
    return stores.journal


@pytest.fixture
async def keyring(stores: Stores) -> AsyncIterator[Keyring]:
    """Leaves no key behind: on a shared server one would close it to other tests."""
    before = {key.id for key in await stores.keyring.all()}
    yield stores.keyring
    for key in await stores.keyring.all():
        if key.id not in before:
            await stores.keyring.revoke(key.id)


@dataclass(frozen=True, slots=True)
class Library:
    """A workspace with the moves that a worker makes, so that tests can say what they are about."""

    name: str
    documents: Documents
    graph: GraphStore
    names: Names

    @classmethod
    def of(cls, stores: Stores, name: str) -> Library:
        return cls(name, stores.documents(name), stores.graph(name), stores.names(name))

    async def open(self, document_id: str = "d", revision: Revision | None = None) -> str:
        """Submit a revision; returns the job's id."""
        job = make.job(document_id)
        await self.documents.submit(document_id, revision or make.revision(), job)
        return job.id

    async def reopen(self, document_id: str, plan: Plan) -> str:
        job = make.job(document_id, plan=plan)
        await self.documents.reopen(document_id, job)
        return job.id

    async def put(
        self, document_id: str, job_id: str, extractions: Mapping[str, Extraction]
    ) -> list[str]:
        """Put and read chunks with these ids; returns the ids."""
        chunks = [
            make.chunk(id, document_id=document_id, position=n, text=f"text of {id}")
            for n, id in enumerate(extractions)
        ]
        await self.graph.put_chunks(
            document_id, job_id, chunks, [f"key of {id}" for id in extractions]
        )
        for id, extraction in extractions.items():
            await self.graph.put_extraction(id, extraction)
        return list(extractions)

    async def ingest(
        self, document_id: str, extractions: Mapping[str, Extraction],
        revision: Revision | None = None,
    ) -> str:  # fmt: skip
        """A whole ingest up to publication, and what it retires; returns the job's id."""
        job_id = await self.open(document_id, revision)
        ids = await self.put(document_id, job_id, extractions)
        await self.graph.fold(document_id, job_id, ids)
        await self.documents.publish(document_id, job_id)
        await self.graph.retract(document_id, await self.graph.retired(document_id, job_id))
        return job_id

    async def delete(self, document_id: str) -> None:
        job_id = await self.reopen(document_id, Plan.DELETE)
        await self.graph.retract(document_id, await self.graph.retired(document_id, job_id))
        await self.documents.remove(document_id, job_id)

    async def settle(
        self, placed: Mapping[str, str] | None = None, *, version: int | None = None,
        apart: Mapping[str, Mapping[str, str]] | None = None,
        blocks: Mapping[str, Sequence[str]] | None = None,
        pairs: Sequence[Reviewed] = (), reopen: Sequence[str] = (),
    ) -> bool:  # fmt: skip
        """Settle all open names: name -> entity, name -> scope -> form, name -> blocks."""
        opened = await self.names.opened(limit=10_000)
        return await self.names.settle(
            Settlement(
                version=await self.names.version() if version is None else version,
                resolved=[
                    self.resolved(one, (blocks or {}).get(one.key, ()), (apart or {}).get(one.key))
                    for one in opened
                    if one.mentions
                ],
                gone=[one.key for one in opened if not one.mentions],
                pairs=pairs, placed=placed or {}, reopen=reopen,
            )
        )  # fmt: skip

    @staticmethod
    def resolved(
        known: KnownName, blocks: Sequence[str] = (), apart: Mapping[str, str] | None = None
    ) -> Resolved:
        return Resolved(known.key, known.revision, tuple(blocks), apart or {})

    async def move(self, job_id: str = "mover", *, limit: int = 2) -> int:
        """Move all that is to be moved; how many chunks were looked at."""
        looked = 0
        while chunks := await self.names.move(job_id, limit=limit):
            looked += chunks
        if job_id == "mover":  # no job that there is
            await self.names.tidy(job_id)
        return looked

    async def forget_the_gone(self) -> None:
        await self.graph.forget([one.ref for one in await self.graph.unindexed() if one.gone])

    async def profile_all(self, document_id: str = "") -> None:
        """Profiles that say all descriptions."""
        evidence = await self.graph.evidence(await self.graph.unprofiled(document_id))
        await self.graph.put_profiles(
            [Profile(one.ref, "; ".join(one.descriptions), one.revision) for one in evidence]
        )

    async def index_all(self, document_id: str = "") -> None:
        refs = [one.ref for one in await self.graph.unindexed(document_id) if not one.gone]
        keys = {kind: [ref.key for ref in refs if ref.kind is kind] for kind in Kind}
        entities = await self.graph.entities(keys[Kind.ENTITY])
        relations = await self.graph.relations(keys[Kind.RELATION])
        await self.graph.mark_indexed(
            [
                *(Mark(Ref(Kind.CHUNK, key), 0, "") for key in keys[Kind.CHUNK]),
                *(Mark(Ref(Kind.ENTITY, e.key), e.profiled, f"digest {e.name}") for e in entities),
                *(
                    Mark(Ref(Kind.RELATION, r.key), r.profiled, f"digest {r.source_name}")
                    for r in relations
                ),
            ]
        )

    async def fingerprint(self) -> dict[str, object]:
        """All that can be seen of the workspace, without counters of changes."""
        entities = await self.graph.search("", limit=10_000)
        keys = [entity.key for entity in entities]
        relations = await self.graph.relations_of(keys, per_entity=10_000)
        refs = [
            *(Ref(Kind.ENTITY, key) for key in keys),
            *(Ref(Kind.RELATION, relation.key) for relation in relations),
        ]
        pages = await self.documents.page(limit=10_000)
        chunks = [
            chunk
            for document in pages
            for chunk in await self.graph.document_chunks(document.id, limit=10_000)
        ]
        plain = {"revision": 0, "profiled": 0, "indexed": 0, "digest": "", "profile": ""}
        return {
            "stats": await self.graph.stats(),
            "documents": {(one.id, one.chunks) for one in pages},
            "chunks": set(chunks),
            "entities": {replace(entity, **plain) for entity in entities},
            "relations": {replace(relation, **plain) for relation in relations},
            "mentions": {ref: tuple(await self.graph.mentions(ref, limit=10_000)) for ref in refs},
            "evidence": {
                one.ref: (one.name, one.descriptions, one.count)
                for one in await self.graph.evidence(refs, limit=10_000)
            },
            "links": set(await self.graph.chunk_links([chunk.id for chunk in chunks])),
            "aliases": {
                alias: entity.key
                for alias, entity in (
                    await self.graph.find([normal_key(a) for e in entities for a in e.aliases])
                ).items()
            },
        }


@pytest.fixture
def library(stores: Stores, workspace: str) -> Library:
    return Library.of(stores, workspace)


@pytest.fixture
def neighbour(stores: Stores) -> Library:
    """Another workspace in the same stores."""
    return Library.of(stores, make.name())
