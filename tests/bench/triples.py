"""Triple recall of `asr`, `subgraph` and their ablations on a shared knowledge graph.

    python -m tests.bench.triples [--every 4] [--given] [--weights asr.npz] [--store folder]

The triples of kgqa-webqsp become passages (of one subject, a dozen at a time) whose extraction
is given, and go through the stages that production runs. A relation of the service is an unordered
pair of entities: a ranking of relations is measured as such (R), and as one of the triples
they hold, in the order of ids (T). `--given`: topics as the set names them, not as we link them.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from app.domain import (
    Anchoring,
    EntityMention,
    Extraction,
    Keywords,
    Kind,
    Question,
    RelationMention,
    VectorQuery,
    relation_key,
)
from app.names import key
from app.ports import Embedder, Models, Workspace
from app.query.anchored.mode import gather
from app.query.anchored.scoring import scored
from app.query.anchored.shelf import Shelf
from app.query.found import Clock
from app.rules.embedder import LocalEmbedder
from tests.bench.retrieval import Data, RememberedEmbedder, ingest, opened, rows

SET = "kgqa-webqsp"
TOGETHER = 12  # triples of a passage
AT = (10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class Triples:
    """`held`: relation key -> triple ids; `gold`: question -> triple ids."""

    data: Data
    said: Mapping[str, Extraction]  # by text of the passage
    held: Mapping[str, Sequence[int]]
    ends: Mapping[int, str]  # triple id -> relation key


def load() -> Triples:
    triples = rows(SET, "triples")
    said, passages = {}, []
    held: defaultdict[str, list[int]] = defaultdict(list)
    ends = {}
    for subject, group in groupby(
        sorted(triples, key=lambda t: (t["s"], t["id"])), lambda t: t["s"]
    ):
        its = list(group)
        for start in range(0, len(its), TOGETHER):
            part = its[start : start + TOGETHER]
            text = "\n".join(f"{_sentence(one)}." for one in part)
            said[text] = _extraction(part)
            passages.append({"id": f"t{part[0]['id']}", "title": subject.strip(), "text": text})
    for one in triples:
        if key(one["s"]) != key(one["o"]):
            ends[one["id"]] = relation_key(key(one["s"]), key(one["o"]))
            held[ends[one["id"]]].append(one["id"])
    return Triples(Data(passages, rows(SET, "questions"), []), said, held, ends)


def _words(predicate: str) -> str:
    """`people.person.place_of_birth` -> `person place of birth`."""
    return " ".join(predicate.split(".")[-2:]).replace("_", " ")


def _sentence(triple: Mapping[str, Any]) -> str:
    return f"{triple['s'].strip()} {_words(triple['p'])} {triple['o'].strip()}"


def _extraction(triples: Iterable[Mapping[str, Any]]) -> Extraction:
    named = dict.fromkeys(one[end].strip() for one in triples for end in ("s", "o"))
    return Extraction(
        tuple(EntityMention(name, "other", "") for name in named),
        tuple(
            RelationMention(one["s"].strip(), one["o"].strip(), _sentence(one), (_words(one["p"]),))
            for one in triples
        ),
    )


async def fill(workspace: Workspace, models: Models, triples: Triples) -> None:
    """Each name is an entity of its own, as in the set."""

    def given(read: Extraction, title: str, text: str) -> Extraction:
        return replace(triples.said[text], about=read.about)

    await ingest(workspace, models, triples.data, amend=given, names=False)


# --- measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its gold triples and relations."""

    question: Question
    triples: frozenset[int]
    relations: frozenset[str]
    topics: frozenset[str]


def questions(triples: Triples, *, every: int = 1, given: bool = False) -> list[Asked]:
    asked = []
    for row in triples.data.questions[::every]:
        gold = frozenset(one for one in row["gold_triple_ids"] if one in triples.ends)
        if not gold:
            continue
        topics = frozenset(key(name) for name in row["topic_entities"])
        keywords = Keywords(tuple(row["topic_entities"])) if given else None
        question = Question(row["question"], keywords=keywords)
        asked.append(Asked(question, gold, frozenset(triples.ends[one] for one in gold), topics))
    return asked


VARIANTS: Mapping[str, Anchoring] = {
    "pool by cosine": Anchoring(scorer="cosine"),
    "subgraph": Anchoring(scorer="prior", ablate=("anchors",)),
    "asr": Anchoring(scorer="prior"),
    "no path": Anchoring(scorer="prior", ablate=("path",)),
    "no topic": Anchoring(scorer="prior", ablate=("topic",)),
    "weights": Anchoring(scorer="weights"),
    "no gate": Anchoring(scorer="weights", ablate=("gate",)),
    "no network": Anchoring(scorer="weights", ablate=("gate", "gnn")),
}


async def rank(
    workspace: Workspace, models: Models, question: Question, variant: str
) -> tuple[list[str], Sequence[str]]:
    """Relation keys best first, and all of the pool."""
    if variant == "cosine":
        [dense] = (await models.embedder.embed([question.text], purpose="query")).vectors
        [hits] = await workspace.vectors.search([VectorQuery(Kind.RELATION, 1000, dense=dense)])
        keys = [hit.key for hit in hits]
        return keys, keys
    options = VARIANTS[variant]
    gathered = await gather(workspace, models, replace(question, anchoring=options), Clock())
    if gathered is None:
        return [], []
    trained = models.scorers.of(workspace.name) if models.scorers else None
    result = scored(
        gathered.pool, gathered.cosines, scorer=options.scorer, without=options.ablate,
        network=trained.network if trained else None,
    )  # fmt: skip
    order = sorted(range(len(result.keys)), key=lambda row: (-result.scores[row], row))
    return [result.keys[row] for row in order], result.keys


def recall(ranked: Sequence[Any], gold: frozenset[Any], k: int) -> float:
    return len(gold.intersection(ranked[:k])) / len(gold)


async def measure(
    workspace: Workspace, models: Models, triples: Triples, asked: Sequence[Asked], variant: str
) -> str:
    totals = [0.0] * (2 * len(AT) + 1)
    begin = time.perf_counter()
    for one in asked:
        ranked, pool = await rank(workspace, models, one.question, variant)
        expanded = [id for relation in ranked[:200] for id in triples.held.get(relation, ())]
        for place, k in enumerate(AT):
            totals[place] += recall(expanded, one.triples, k)
            totals[len(AT) + place] += recall(ranked, one.relations, k)
        totals[-1] += recall(pool, one.relations, len(pool))
    spent = 1000 * (time.perf_counter() - begin) / len(asked)
    cells = [100 * total / len(asked) for total in totals]
    first, second = cells[: len(AT)], cells[len(AT) : -1]
    return (
        f"{variant:15} T {_cells(first)}   R {_cells(second)}   pool {cells[-1]:5.1f}"
        f"  {spent:6.1f} ms"
    )


def _cells(values: Sequence[float]) -> str:
    return " ".join(f"{value:5.1f}" for value in values)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="one question in so many")
    parser.add_argument("--weights", default="", help="file whose weights are measured too")
    parser.add_argument("--given", action="store_true", help="topics as the set names them")
    parser.add_argument("--variants", default="", help="some of: cosine, " + ", ".join(VARIANTS))
    parser.add_argument("--cache", default="", help="folder that keeps vectors between runs")
    parser.add_argument("--store", default="", help="folder of the stores, kept between runs")
    options = parser.parse_args()
    triples = load()
    embedder: Embedder = LocalEmbedder()
    if options.cache:
        embedder = RememberedEmbedder(embedder, Path(options.cache) / f"{SET}.vectors")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.store or temporary)
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        async with opened(folder, embedder) as (workspace, models):
            if not (await workspace.graph.stats()).chunks:
                begin = time.perf_counter()
                await fill(workspace, models, triples)
                print(f"ingested in {time.perf_counter() - begin:.0f} s")
            asked = questions(triples, every=options.every, given=options.given)
            print(SET, await workspace.graph.stats(), f"{len(asked)} questions")
            print(f"{'':15} T @{' @'.join(map(str, AT))}   R the same")
            shelf = Shelf(Path(options.weights)) if options.weights else None
            weighed = replace(models, scorers=shelf)
            for variant in _variants(options):
                print(await measure(workspace, weighed, triples, asked, variant), flush=True)


def _variants(options: argparse.Namespace) -> list[str]:
    if options.variants:
        return str(options.variants).split(",")
    usable = (name for name, one in VARIANTS.items() if options.weights or one.scorer != "weights")
    return ["cosine", *usable]


if __name__ == "__main__":
    asyncio.run(main())
