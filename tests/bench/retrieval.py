"""Passage recall of every mode on the evaluation data.

    python -m tests.bench.retrieval --set 2wiki-101 [--limit 20] [--modes mix,ppr] [--cache folder]
    python -m tests.bench.retrieval --set all --variants titled,untitled,lower --store folder

Ingests with the built-in extractor and encoder into SQLite and Qdrant Edge in a temporary folder,
through the stages that production runs. `--cache` keeps vectors between runs, `--store` the stores.

Where a question names no gold passages but statements that its answer rests on, a statement counts
as found when one chunk has at least 80 % of its content words, and recall is over the statements
that some chunk of the set has.
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
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
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
from app.terms import query_sparse, terms
from app.words import is_stop_word
from migrations import migrate_sqlite
from workers.chunking import chunks
from workers.parsing.layout import Parsed
from workers.stages import index, profile, resolve

WORKSPACE = "bench"
WHOLE = "2wiki-101-whole"  # all 6,119 passages
UNTITLED = ("lihua-world", "graphrag-bench-medical", "graphrag-bench-novel")  # as they come
SETS = ("2wiki-101", WHOLE, "musique-train", "hotpotqa-train", "popqa", *UNTITLED)
VARIANTS = ("titled", "untitled", "lower", "untitled-lower")
COVERED = 0.8
MODES = ("dense", "bm25", "naive", "local", "global", "hybrid", "mix", "ppr", "subgraph", "asr")

Amend = Callable[[Extraction, str, str], Extraction]


@dataclass(frozen=True, slots=True)
class Data:
    """Passages with `id`, `title`, `text`; those with the same `document` are its chunks, in order.
    `gold`: for each question, sets of passages of which one is to be found each."""

    passages: Sequence[Mapping[str, Any]]
    questions: Sequence[Mapping[str, Any]]
    gold: Sequence[Sequence[frozenset[str]]]


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


def load(name: str) -> Data:
    """Passages, and the questions that have gold."""
    if name == "graphrag-bench-novel":
        passages = list(_book_chunks())
    else:
        passages = rows(name.removesuffix("-whole"), "corpus")
    if name == "2wiki-101":
        passages = [passage for passage in passages if passage.get("subset101")]
    if name == "graphrag-bench-medical":
        passages = [{**p, "title": "", "document": "guidelines"} for p in passages]
    questions = rows(name.removesuffix("-whole"), "questions")
    if "evidence" in questions[0]:
        return with_evidence(passages, questions)
    questions = [row for row in questions if row["gold_passage_ids"]]
    gold = [[frozenset([id]) for id in sorted(set(q["gold_passage_ids"]))] for q in questions]
    return Data(passages, questions, gold)


def _book_chunks() -> Iterator[dict[str, Any]]:
    tokenizer, options = TiktokenTokenizer(), Options()
    for book in rows("graphrag-bench-novel", "documents"):
        cut = chunks(
            Parsed(book["text"]), tokenizer,
            size=options.chunk_tokens, overlap=options.chunk_overlap,
        )  # fmt: skip
        for window in cut:
            text = book["text"][window.start : window.end]
            yield {
                "id": f"{book['id']}-{window.start}", "title": "", "text": text,
                "document": book["id"],
            }  # fmt: skip


def with_evidence(
    passages: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]]
) -> Data:
    """Gold of a statement: the passages that have enough of its words."""
    having: defaultdict[str, set[str]] = defaultdict(set)
    for passage in passages:
        for term in set(terms(passage["text"])):
            having[term].add(passage["id"])
    kept, gold = [], []
    for question in questions:
        covers = [_covering(statement, having) for statement in question["evidence"]]
        if found := [ids for ids in covers if ids]:
            kept.append(question)
            gold.append(found)
    return Data(passages, kept, gold)


def _covering(statement: str, having: Mapping[str, set[str]]) -> frozenset[str]:
    words = {term for term in terms(statement) if not is_stop_word(term)}
    counts = Counter(id for word in words for id in having.get(word, ()))
    return frozenset(id for id, n in counts.items() if n >= COVERED * len(words))


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
    """One document a passage, or where passages name the document that they are chunks of, that.
    Without `names`, each name is an entity of its own."""
    documents: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for passage in data.passages:
        title = passage.get("title") or "" if titles else ""
        one = (title.lower(), passage["text"].lower()) if lower else (title, passage["text"])
        documents[passage.get("document") or passage["id"]].append(one)
    for document, texts in documents.items():
        await _store(workspace, models, document, texts, amend=amend)
    if names:
        await resolve.run(workspace, models, _step("", ()))
    for run, split in ((profile.run, profile.of_workspace), (index.run, index.of_workspace)):
        for shard in await split(workspace, _step("", ())):
            await run(workspace, models, _step("", shard))


async def _store(
    workspace: Workspace, models: Models, document: str, texts: Sequence[tuple[str, str]], *,
    amend: Amend | None,
) -> None:  # fmt: skip
    job = f"job-{document}"
    name = texts[0][0] or f"{document}.txt"
    revision = Revision(name, "text/plain", sum(len(text) for _, text in texts), document)
    await workspace.documents.submit(
        document, revision, Job(job, workspace.name, Plan.INGEST, document)
    )
    ids = [derive_id(workspace.name, "chunk", document, text) for _, text in texts]
    made, start = [], 0
    for position, (id, (_, text)) in enumerate(zip(ids, texts, strict=True)):
        end, tokens = start + len(text), models.tokenizer.count(text)
        made.append(Chunk(id, document, position, start, end, text, tokens))
        start = end
    await workspace.graph.put_chunks(document, job, made, ids)
    for id, (title, text) in zip(ids, texts, strict=True):
        extraction = about(extract(title, (), text), title, (), text)
        if amend:
            extraction = amend(extraction, title, text)
        await workspace.graph.put_extraction(id, extraction)
    await workspace.graph.fold(document, job, ids)
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
    passages = {
        derive_id(workspace.name, "chunk", p.get("document") or p["id"], t): p["id"]
        for p in data.passages
        for t in (p["text"], p["text"].lower())
    }
    totals, spent, missed = [0.0] * 4, 0.0, []
    questions = list(zip(data.questions, data.gold, strict=True))[:limit]
    for row, gold in questions:
        text = row["question"].lower() if lower else row["question"]
        ids, ms = await ranked(workspace, models, mode, Question(text))
        places = [passages[id] for id in ids]
        for i, k in enumerate((2, 5, 10)):
            totals[i] += found_in(places[:k], gold) / len(gold)
        spent += ms
        if found_in(places[:8], gold) == len(gold):
            totals[3] += 1
        else:
            missed.append(str(row["id"]))
    r2, r5, r10, all8 = (100 * total / max(1, len(questions)) for total in totals)
    return Score(r2, r5, r10, all8, spent / max(1, len(questions)), tuple(missed))


def found_in(places: Sequence[str], gold: Sequence[frozenset[str]]) -> int:
    return sum(not ids.isdisjoint(places) for ids in gold)


async def main() -> None:
    options = _arguments()
    embedder: Embedder = LocalEmbedder()
    if options.cache:
        embedder = RememberedEmbedder(embedder, Path(options.cache) / "vectors.db")
    print(f"{'set':24} {'variant':15} {'mode':8}   r@2   r@5  r@10")
    for name in SETS if options.set == "all" else [options.set]:
        for variant in options.variants.split(","):
            if name not in UNTITLED or not variant.startswith("untitled"):
                await _one(name, variant, embedder, options)


async def _one(name: str, variant: str, embedder: Embedder, options: argparse.Namespace) -> None:
    data, titles = load(name), not variant.startswith("untitled")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.store or temporary) / f"{name}{'' if titles else '-untitled'}"
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        async with opened(folder, embedder) as (workspace, models):
            if not (await workspace.graph.stats()).chunks:
                begin = time.perf_counter()
                await ingest(
                    workspace, models, data, titles=titles, lower=options.lower_text,
                    names=not options.exact_names,
                )  # fmt: skip
                spent = time.perf_counter() - begin
                print(f"{name}: {await workspace.graph.stats()} in {spent:.0f} s")
            for mode in options.modes.split(","):
                score = await evaluate(
                    workspace, models, data, mode,
                    limit=options.limit, lower=variant.endswith("lower"),
                )  # fmt: skip
                print(f"{name:24} {variant:15} {mode:8} {score}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=(*SETS, "all"), default="2wiki-101")
    parser.add_argument("--variants", default="titled", help=f"of {','.join(VARIANTS)}")
    parser.add_argument("--limit", type=int, help="so many questions")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--lower-text", action="store_true", help="passages in lower case")
    parser.add_argument("--exact-names", action="store_true", help="each name an entity of its own")
    parser.add_argument("--cache", default="", help="folder that keeps vectors between runs")
    parser.add_argument("--store", default="", help="folder of the stores, kept between runs")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
