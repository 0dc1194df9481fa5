"""Passage recall of every mode on the evaluation data, beside the targets.

    python -m tests.bench.retrieval --set 2wiki-101 [--limit 20] [--modes mix,ppr] [--cache folder]

Ingests with the built-in extractor and encoder into SQLite and Qdrant Edge in a temporary folder,
through the stages that production runs. `--cache` keeps vectors between runs.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import sqlite3
import tempfile
import time
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from app.domain import (
    Chunk,
    Embeddings,
    Extraction,
    Job,
    Kind,
    Mode,
    Options,
    Plan,
    Question,
    Revision,
    Step,
    Vector,
    VectorQuery,
    derive_id,
)
from app.llm.tokens import TiktokenTokenizer
from app.ports import Embedder, Models, Workspace
from app.query import engine
from app.query.found import Clock
from app.rules.embedder import LocalEmbedder
from app.rules.extractor import RuleExtractor, extract
from app.rules.keyworder import RuleKeyworder
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
from app.terms import query_sparse
from migrations import migrate_sqlite
from workers.stages import index, profile, resolve

WORKSPACE = "bench"
SETS = ("2wiki-101", "musique-train", "hotpotqa-train", "popqa", "lihua-world")
# r@2 / r@5 / r@10 / all gold in 8 of `mix`, built-in extractor, where they were measured before.
TARGETS = {
    "2wiki-101": "r@5 98.0 all@8 96 (780 passages)",
    "musique-train": "r@5 73.2 all@8 60",
    "hotpotqa-train": "r@5 96.0 all@8 98",
    "popqa": "r@5 85.3 all@8 74",
    "lihua-world": "r@5 87.5 all@8 90",
}
MODES = ("dense", "bm25", "naive", "local", "global", "hybrid", "mix", "ppr", "subgraph", "asr")

Amend = Callable[[Extraction, str, str], Extraction]


@dataclass(frozen=True, slots=True)
class Data:
    passages: Sequence[Mapping[str, Any]]
    questions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Score:
    r2: float
    r5: float
    r10: float
    all8: float
    ms: float
    missed: tuple[str, ...] = ()

    def __str__(self) -> str:
        recall = f"{self.r2:5.1f} {self.r5:5.1f} {self.r10:5.1f}"
        return f"{recall}  all@8 {self.all8:4.0f}  {self.ms:6.1f} ms"


def shared() -> Path:
    default = Path(__file__).resolve().parents[2].parent / "shared"
    return Path(os.environ.get("HELIOGRAPH_SHARED") or default) / "data"


def rows(name: str, file: str) -> list[dict[str, Any]]:
    with gzip.open(shared() / name / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def load(name: str, *, whole: bool = False) -> Data:
    """Passages and questions with gold; `2wiki-101` without its distractors unless `whole`."""
    passages = rows(name, "corpus")
    if name == "2wiki-101" and not whole:
        passages = [passage for passage in passages if passage.get("subset101")]
    return Data(passages, rows(name, "questions"))


# --- ingesting -----------------------------------------------------------------------------------


@asynccontextmanager
async def opened(folder: Path, embedder: Embedder) -> AsyncIterator[tuple[Workspace, Models]]:
    path = folder / "graph.db"
    await asyncio.to_thread(migrate_sqlite, path)
    extractor: Any = RuleExtractor()
    reporter = RuleReporter(TiktokenTokenizer())
    models = Models(
        extractor, _NoProfiler(), RuleKeyworder(), _NoAnswerer(), embedder, None,
        TiktokenTokenizer(), reporter, reporter,
    )  # fmt: skip
    async with (
        SqliteDatabase.open(path) as database,
        EdgeEngine.open(folder / "vectors", embedder.model, embedder.dimension) as vectors,
    ):
        blobs: Any = None  # nothing here reads originals
        yield (
            Workspace(
                name=WORKSPACE,
                documents=SqliteDocuments(database, WORKSPACE),
                graph=SqliteGraph(database, WORKSPACE),
                names=SqliteNames(database, WORKSPACE),
                vectors=EdgeVectors(vectors, WORKSPACE),
                blobs=blobs,
                archive=SqliteArchive(database, WORKSPACE),
                evaluations=SqliteEvaluations(database, WORKSPACE),
                communities=SqliteCommunities(database, WORKSPACE),
                options=Options(),
            ),
            models,
        )  # fmt: skip


async def ingest(
    workspace: Workspace, models: Models, data: Data, *,
    titles: bool = True, lower: bool = False, amend: Amend | None = None, names: bool = True,
) -> None:  # fmt: skip
    """One document a passage, one chunk a document. Without `names`, each is an entity of its
    own."""
    for passage in data.passages:
        title = passage.get("title") or "" if titles else ""
        text = passage["text"]
        if lower:
            title, text = title.lower(), text.lower()
        await _store(workspace, models, passage["id"], title=title, text=text, amend=amend)
    if names:
        await resolve.run(workspace, models, _step("", ()))
    for run, split in ((profile.run, profile.of_workspace), (index.run, index.of_workspace)):
        for shard in await split(workspace, _step("", ())):
            await run(workspace, models, _step("", shard))


async def _store(
    workspace: Workspace,
    models: Models,
    document: str,
    *,
    title: str,
    text: str,
    amend: Amend | None,
) -> None:
    job = f"job-{document}"
    revision = Revision(title or f"{document}.txt", "text/plain", len(text), document)
    await workspace.documents.submit(
        document, revision, Job(job, workspace.name, Plan.INGEST, document)
    )
    id = derive_id(workspace.name, "chunk", document, text)
    chunk = Chunk(id, document, 0, 0, len(text), text, models.tokenizer.count(text))
    await workspace.graph.put_chunks(document, job, [chunk], [id])
    extraction = about(extract(title, (), text), title, (), text)
    if amend:
        extraction = amend(extraction, title, text)
    await workspace.graph.put_extraction(id, extraction)
    await workspace.graph.fold(document, job, [id])
    await workspace.documents.publish(document, job)


def _step(document: str, shard: Sequence[str]) -> Step:
    return Step("bench", "bench", WORKSPACE, Plan.INGEST, document, "index", tuple(shard), 1)


class _NoProfiler:
    by_model = False

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Any:
        from app.domain import Completion

        return Completion(TiktokenTokenizer().cut("\n".join(descriptions), limit))


class _NoAnswerer:
    model = None

    def answer(self, question: Question, context: Any) -> Any:
        raise AssertionError("retrieval writes no answers")

    async def complete(self, prompt: Any) -> Any:
        raise AssertionError("retrieval writes no answers")


class RememberedEmbedder:
    """An embedder whose vectors lie in a file, so that a second run need not compute them."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self.model, self.dimension = embedder.model, embedder.dimension
        self._file = sqlite3.connect(path)
        self._file.execute("create table if not exists v (text text primary key, vector blob)")

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        found: dict[str, Vector] = {}
        for text in texts:
            if row := self._file.execute("select vector from v where text = ?", (text,)).fetchone():
                found[text] = tuple(array("f", row[0]))
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            made = await self._embedder.embed(missing, purpose=purpose)
            found.update(zip(missing, made.vectors, strict=True))
            self._file.executemany(
                "insert or replace into v values (?, ?)",
                [(text, array("f", found[text]).tobytes()) for text in missing],
            )
            self._file.commit()
        return Embeddings([found[text] for text in texts])


# --- measuring -----------------------------------------------------------------------------------


async def ranked(
    workspace: Workspace, models: Models, mode: str, question: Question
) -> tuple[list[str], float]:
    """Chunk ids in the order that the mode finds them, and milliseconds without the embedding."""
    [dense] = (await models.embedder.embed([question.text], purpose="query")).vectors
    begin = time.perf_counter()
    if mode == "dense":
        [hits] = await workspace.vectors.search([VectorQuery(Kind.CHUNK, 20, dense=dense)])
    elif mode == "bm25":
        sparse = query_sparse(question.text)
        [hits] = await workspace.vectors.search([VectorQuery(Kind.CHUNK, 20, sparse=sparse)])
    else:
        asked = replace(question, mode=Mode(mode))
        found = await engine.MODES[asked.mode](workspace, models, asked, Clock())
        hits = list(found.chunks)
    return [hit.key for hit in hits], 1000 * (time.perf_counter() - begin)


async def evaluate(
    workspace: Workspace, models: Models, data: Data, mode: str, *,
    limit: int | None = None, lower: bool = False,
) -> Score:  # fmt: skip
    documents = {
        derive_id(workspace.name, "chunk", p["id"], t): p["id"]
        for p in data.passages
        for t in (p["text"], p["text"].lower())
    }
    totals, spent, missed = [0.0] * 4, 0.0, []
    questions = [q for q in data.questions if q["gold_passage_ids"]][:limit]
    for row in questions:
        text = row["question"].lower() if lower else row["question"]
        ids, ms = await ranked(workspace, models, mode, Question(text))
        places = [documents[id] for id in ids]
        gold = set(row["gold_passage_ids"])
        for i, k in enumerate((2, 5, 10)):
            totals[i] += len(gold & set(places[:k])) / len(gold)
        totals[3] += gold <= set(places[:8])
        spent += ms
        if not gold <= set(places[:8]):
            missed.append(str(row["id"]))
    r2, r5, r10, all8 = (100 * total / max(1, len(questions)) for total in totals)
    return Score(r2, r5, r10, all8, spent / max(1, len(questions)), tuple(missed))


async def main() -> None:
    options = _arguments()
    data = load(options.set, whole=options.whole)
    embedder: Embedder = LocalEmbedder()
    if options.cache:
        embedder = RememberedEmbedder(embedder, Path(options.cache) / f"{options.set}.vectors")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.store or temporary)
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        async with opened(folder, embedder) as (workspace, models):
            stats = await workspace.graph.stats()
            if not stats.chunks:
                begin = time.perf_counter()
                await ingest(
                    workspace, models, data, titles=not options.untitled, lower=options.lower_text,
                    names=not options.exact_names,
                )  # fmt: skip
                print(f"ingested in {time.perf_counter() - begin:.0f} s")
                stats = await workspace.graph.stats()
            print(options.set, stats, "| target of mix:", TARGETS[options.set])
            print("mode       r@2   r@5  r@10")
            for mode in options.modes.split(","):
                score = await evaluate(
                    workspace, models, data, mode, limit=options.limit, lower=options.lower
                )
                print(f"{mode:8} {score}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, default="2wiki-101")
    parser.add_argument("--whole", action="store_true", help="2wiki-101 with all 6,119 passages")
    parser.add_argument("--limit", type=int, help="so many questions")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--untitled", action="store_true", help="passages without their titles")
    parser.add_argument("--lower", action="store_true", help="questions in lower case")
    parser.add_argument("--lower-text", action="store_true", help="passages in lower case")
    parser.add_argument("--exact-names", action="store_true", help="each name an entity of its own")
    parser.add_argument("--cache", default="", help="folder that keeps vectors between runs")
    parser.add_argument("--store", default="", help="folder of the stores, kept between runs")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
