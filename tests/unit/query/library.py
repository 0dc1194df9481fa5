"""A small library on the real embedded stores, an encoder of hashed words, and a store spy."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from app.domain import (
    Chunk,
    Completion,
    Context,
    Embeddings,
    Extraction,
    Job,
    Keywords,
    Options,
    Passages,
    Plan,
    Prompt,
    Queries,
    Question,
    Revision,
    Rewriting,
    Step,
    Usage,
    Vector,
    derive_id,
)
from app.errors import Unavailable
from app.llm.tokens import TiktokenTokenizer
from app.ports import Models, Workspace
from app.rules.extractor import extract
from app.rules.reporter import RuleReporter
from app.stores.edge import EdgeEngine, EdgeVectors
from app.stores.sqlite import (
    SqliteArchive,
    SqliteCommunities,
    SqliteDatabase,
    SqliteDocuments,
    SqliteEvaluations,
    SqliteGraph,
    SqliteNames,
)
from app.subjects import about
from app.terms import terms
from migrations import migrate_sqlite
from tests import make
from workers.stages import index, profile

DIMENSION = 64
REWRITTEN = Usage(1, 10, 5)  # what each call of the scripted rewriter costs


class HashedWords:
    """Vectors of hashed words: alike where texts share words, and the same on every machine."""

    model = "hashed-words"
    dimension = DIMENSION

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        if purpose == "query":
            self.asked.append(list(texts))
        return Embeddings([_vector(text) for text in texts])


def _vector(text: str) -> Vector:
    values = [0.0] * DIMENSION
    for term in terms(text):
        digest = hashlib.sha256(term.encode()).digest()
        values[digest[0] % DIMENSION] += 1.0 if digest[1] % 2 else -1.0
    norm = math.sqrt(sum(value * value for value in values)) or 1.0
    return tuple(value / norm for value in values)


@dataclass
class ScriptedKeyworder:
    """Gives the keywords it was made with, and counts how often it was asked."""

    found: Keywords = Keywords()  # noqa: RUF009 - frozen
    by_model: bool = False
    asked: int = 0

    async def keywords(self, question: Question) -> Keywords:
        self.asked += 1
        return self.found


@dataclass
class ScriptedAnswerer:
    """Writes the pieces it was made with, and keeps what it was shown."""

    pieces: Sequence[str] = ("It is so [1].",)
    model: str | None = "scripted"
    seen: list[Context] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)

    async def answer(
        self, question: Question, context: Context
    ) -> AsyncGenerator[str | Usage, None]:
        self.seen.append(context)
        for piece in self.pieces:
            yield piece
        yield Usage(1, 100, 10)

    async def complete(self, prompt: Prompt) -> Completion:
        if self.model is None:
            raise Unavailable("no model")
        self.prompts.append(prompt)
        return Completion("Plain answer [1].", Usage(1, 10, 5))


@dataclass
class ScriptedRewriter:
    """Gives what it was made with, and keeps what it was asked."""

    texts: Sequence[str] = ()
    kind: Rewriting = Rewriting.DECOMPOSE
    answers: Sequence[str] = ()
    asked: list[tuple[str, str]] = field(default_factory=list)
    shown: list[Sequence[str]] = field(default_factory=list)
    fault: Exception | None = None

    async def passages(self, question: Question, *, count: int) -> Passages:
        self._note("passages", question.text)
        return Passages(tuple(self.texts[:count]), REWRITTEN)

    async def queries(self, question: Question, *, sequential: bool) -> Queries:
        self._note("queries", question.text)
        return Queries(self.kind if self.texts else Rewriting.NONE, tuple(self.texts), REWRITTEN)

    async def short_answer(self, query: str, texts: Sequence[str]) -> Completion:
        self._note("answer", query)
        self.shown.append(texts)
        answers = sum(what == "answer" for what, _ in self.asked)
        return Completion(self.answers[answers - 1], REWRITTEN)

    def _note(self, what: str, text: str) -> None:
        self.asked.append((what, text))
        if self.fault:
            raise self.fault


class JoiningProfiler:
    by_model = False

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Completion:
        return Completion(TiktokenTokenizer().cut("\n".join(descriptions), limit))


class Spy:
    """Passes every call on and records its name and arguments."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def recorded(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return await method(*args, **kwargs)

        return recorded

    @property
    def counts(self) -> Counter[str]:
        return Counter(name for name, _, _ in self.calls)


class Library:
    """Documents with one chunk each, read by the built-in extractor."""

    def __init__(self, workspace: Workspace, chunks: Mapping[str, str] | None = None) -> None:
        self.workspace = workspace
        self.embedder = HashedWords()
        self.keyworder = ScriptedKeyworder()
        self.answerer = ScriptedAnswerer()
        unused: Any = None
        tokenizer = TiktokenTokenizer()
        reporter = RuleReporter(tokenizer)
        self.models = Models(
            unused, JoiningProfiler(), self.keyworder, self.answerer, self.embedder, None,
            tokenizer, reporter, reporter, rewriter=ScriptedRewriter(),
        )  # fmt: skip
        self.chunks: dict[str, str] = dict(chunks or {})

    async def add(
        self, document: str, title: str, text: str, *,
        extraction: Extraction | None = None, date: str = "", chunks: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`chunks`: texts that follow one another in the document, instead of the whole text."""
        job = make.name("job")
        graph, name = self.workspace.graph, self.workspace.name
        revision = Revision(title, "text/plain", len(text), document, date=date)
        await self.workspace.documents.submit(
            document, revision, Job(job, name, Plan.INGEST, document)
        )
        made = []
        for position, part in enumerate(chunks or [text]):
            start = text.index(part)
            end = start + len(part)
            id = derive_id(name, "chunk", document, str(start), part)
            made.append(Chunk(id, document, position, start, end, part, len(part) // 4))
            self.chunks[id] = document
        await graph.put_chunks(document, job, made, [chunk.id for chunk in made])
        for chunk in made:
            said = extraction or extract(title, (), chunk.text)
            await graph.put_extraction(chunk.id, about(said, title, (), chunk.text))
        await graph.fold(document, job, [chunk.id for chunk in made])
        await self.workspace.documents.publish(document, job)

    async def index(self) -> None:
        for run, split in ((profile.run, profile.of_workspace), (index.run, index.of_workspace)):
            for shard in await split(self.workspace, self._step(())):
                await run(self.workspace, self.models, self._step(shard))

    async def remove(self, document: str) -> None:
        job = Job(make.name("job"), self.workspace.name, Plan.DELETE, document)
        await self.workspace.documents.reopen(document, job)
        ids = await self.workspace.graph.retired(document, job.id)
        await self.workspace.graph.retract(document, ids)
        await self.index()
        await self.workspace.documents.remove(document, job.id)

    def documents(self, hits: Sequence[Any]) -> list[str]:
        """Documents of the chunks of hits or sources, in order."""
        ids = [getattr(hit, "key", None) or hit.chunk.id for hit in hits]
        return [self.chunks[id] for id in ids]

    def spied(self) -> tuple[Workspace, Spy, Spy]:
        graph: Any = Spy(self.workspace.graph)
        vectors: Any = Spy(self.workspace.vectors)
        return replace(self.workspace, graph=graph, vectors=vectors), graph, vectors

    def _step(self, shard: Sequence[str]) -> Step:
        name = self.workspace.name
        return Step("test", "test", name, Plan.INGEST, "", "index", tuple(shard), 1)


@asynccontextmanager
async def open_libraries(folder: Path, *names: str) -> AsyncIterator[list[Library]]:
    """Workspaces of one pair of stores."""
    path = folder / "graph.db"
    await asyncio.to_thread(migrate_sqlite, path)
    async with (
        SqliteDatabase.open(path) as database,
        EdgeEngine.open(folder / "vectors", HashedWords.model, DIMENSION) as vectors,
    ):
        blobs: Any = None
        yield [
            Library(
                Workspace(
                    name=name,
                    documents=SqliteDocuments(database, name),
                    graph=SqliteGraph(database, name),
                    names=SqliteNames(database, name),
                    vectors=EdgeVectors(vectors, name),
                    blobs=blobs,
                    archive=SqliteArchive(database, name),
                    evaluations=SqliteEvaluations(database, name),
                    communities=SqliteCommunities(database, name),
                    options=Options(),
                )
            )
            for name in names
        ]  # fmt: skip
