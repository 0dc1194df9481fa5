"""Which names are one thing: precision and recall on labelled pairs, and a replay of whole graphs.

    python -m tests.bench.resolution [pairs.jsonl]     (or PAIRS=pairs.jsonl)

The pairs are hard ones, picked because some method finds them alike; their base rate is not that
of a graph. Three settings: names and types alone; with what the graph knows of a pair (a shared
passage, a relation, neighbours); and with the built-in encoder's cosines too.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from app.domain import Vector
from app.folding import most
from app.names import key
from app.resolution.blocks import SATURATED, blocks
from app.resolution.decide import cluster, decision, decisions
from app.resolution.model import Name, Pair, Ties
from app.resolution.score import compare, recorded
from app.resolution.senses import scope_of, senses
from app.rules.embedder import LocalEmbedder

SHARED = Path(os.environ.get("HELIOGRAPH_SHARED", "../shared"))
GRAPHS = ("graphrag-bench-medical", "covid-review-lightrag")


@dataclass(frozen=True, slots=True)
class Side:
    name: Name
    description: str
    neighbours: frozenset[str]
    passages: frozenset[str]

    @property
    def scope(self) -> str:
        return scope_of(self.name.form, self.name.kind, self.description)


@dataclass(frozen=True, slots=True)
class Labelled:
    a: Side
    b: Side
    same: bool
    category: str
    ties: Ties


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a labelled pair. `pair` is empty where the keys are equal."""

    labelled: Labelled
    decision: str
    pair: Pair | None

    @property
    def equal(self) -> bool:
        return self.pair is None


@dataclass(frozen=True, slots=True)
class Measure:
    """Shares, 0..1: of merged pairs that are the same, and of same pairs that are merged."""

    precision: float
    recall: float

    def __str__(self) -> str:
        return f"{self.precision:.3f}      {self.recall:.3f}"


@dataclass(frozen=True, slots=True)
class Report:
    pairs: int
    exact: Measure
    keys: Measure
    merge: Measure
    differing: Measure  # the merge band where normal keys differ
    judged: Measure  # merge band and a perfect judge in the ask band
    asked: float  # share of pairs
    vetoed: float  # share of same pairs
    homonyms: tuple[int, int]  # caught, of those with equal keys


# --- pairs ---------------------------------------------------------------------------------------


def load(path: Path) -> list[Labelled]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [_labelled(row) for row in rows if row["label"] != "unclear"]


def _labelled(row: Mapping[str, Any]) -> Labelled:
    a, b = (_side(row[side]) for side in "ab")
    every = a.neighbours | b.neighbours
    ties = Ties(
        together=bool(a.passages & b.passages),
        related=b.name.key in a.neighbours or a.name.key in b.neighbours,
        neighbours=len(a.neighbours & b.neighbours) / len(every) if every else 0.0,
    )
    return Labelled(a, b, row["label"] == "same", row["category"], ties)


def _side(row: Mapping[str, Any]) -> Side:
    return Side(
        Name(key(row["name"]), row["name"], row["type"] or ""),
        row["description"] or "",
        frozenset(key(name) for name in row["neighbours"]),
        frozenset(row["passages"]),
    )


async def with_cosines(pairs: Sequence[Labelled]) -> list[Labelled]:
    embedder = LocalEmbedder()
    sides = [side for pair in pairs for side in (pair.a, pair.b)]
    texts = sorted({text for side in sides for text in (side.name.form, side.description) if text})
    found = await embedder.embed(texts, purpose="document")
    await embedder.close()
    vectors = dict(zip(texts, found.vectors, strict=True))

    def cosine(one: str, other: str) -> float | None:
        return _dot(vectors[one], vectors[other]) if one and other else None

    return [
        replace(
            pair,
            ties=replace(
                pair.ties,
                names=cosine(pair.a.name.form, pair.b.name.form),
                descriptions=cosine(pair.a.description, pair.b.description),
            ),
        )
        for pair in pairs
    ]


def _dot(one: Vector, other: Vector) -> float:
    return sum(x * y for x, y in zip(one, other, strict=True))


def outcome(labelled: Labelled) -> Outcome:
    a, b = labelled.a, labelled.b
    if a.name.key != b.name.key:
        pair = compare(a.name, b.name, labelled.ties)
        return Outcome(labelled, decision(pair), pair)
    scopes = Counter(scope for scope in (a.scope, b.scope) if scope)
    apart = senses(a.name.key, a.name.form, scopes)
    split = apart.get(a.scope) != apart.get(b.scope)
    return Outcome(labelled, "apart" if split else "merge", None)


def report(pairs: Sequence[Labelled]) -> Report:
    outcomes = [outcome(pair) for pair in pairs]
    same = sum(pair.same for pair in pairs)

    def measure(merged: Callable[[Outcome], bool]) -> Measure:
        found = [one for one in outcomes if merged(one)]
        right = sum(one.labelled.same for one in found)
        return Measure(right / max(1, len(found)), right / same)

    def judged(one: Outcome) -> bool:
        return one.decision == "merge" or (one.decision == "ask" and one.labelled.same)

    homonyms = [o for o in outcomes if o.equal and o.labelled.category == "homonym"]
    vetoed = sum(bool(o.pair and o.pair.veto) for o in outcomes if o.labelled.same)
    return Report(
        pairs=len(pairs),
        exact=measure(lambda o: o.labelled.a.name.form == o.labelled.b.name.form),
        keys=measure(lambda o: o.equal),
        merge=measure(lambda o: o.decision == "merge"),
        differing=measure(lambda o: o.decision == "merge" and not o.equal),
        judged=measure(judged),
        asked=sum(o.decision == "ask" for o in outcomes) / len(outcomes),
        vetoed=vetoed / same,
        homonyms=(sum(o.decision != "merge" for o in homonyms), len(homonyms)),
    )


def without_ties(pairs: Sequence[Labelled]) -> list[Labelled]:
    return [replace(pair, ties=Ties()) for pair in pairs]


# --- whole graphs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replay:
    """`merged`: names less clusters, those that the normal key joins included; `inner`: pairs
    within a cluster that carry a veto; `split`: names that have several senses."""

    name: str
    names: int
    merged: int
    by_key: int
    largest: int
    inner: int
    asked: float
    candidates: float
    split: int
    clusters: Sequence[frozenset[str]]
    speed: tuple[float, float]  # ms a name for blocks, pairs compared a CPU second


def replay(folder: Path) -> Replay:
    names, ties, written, scopes = _graph(folder)
    start = time.process_time()
    candidates = _candidates(names.values())
    blocked = time.process_time() - start
    known = {keys: ties(*keys) for keys in candidates}
    start = time.process_time()
    pairs = [
        pair
        for one, other in candidates
        if recorded(pair := compare(names[one], names[other], known[one, other]))
    ]
    compared = time.process_time() - start
    clusters = [group for group in cluster(names, pairs, {}) if len(group) > 1]
    inner = [
        (one, other)
        for group in clusters
        for one, other in combinations(sorted(group), 2)
        if compare(names[one], names[other]).veto
    ]
    joined = sum(len(group) - 1 for group in clusters)
    return Replay(
        folder.name, len(names), joined + written - len(names), written - len(names),
        max(map(len, clusters), default=1), len(inner),
        sum(made == "ask" for made in decisions(pairs, {}).values()) / len(names),
        len(candidates) / len(names),
        sum(bool(senses(k, names[k].form, tally)) for k, tally in scopes.items()),
        clusters, (1000 * blocked / len(names), len(candidates) / max(compared, 1e-6)),
    )  # fmt: skip


def _graph(
    folder: Path,
) -> tuple[dict[str, Name], Callable[[str, str], Ties], int, dict[str, Counter[str]]]:
    """Names, what is known of two of them, how many names were written, scopes of each."""
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    scopes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    passages: defaultdict[str, set[str]] = defaultdict(set)
    near: defaultdict[str, set[str]] = defaultdict(set)
    for row in _rows(folder / "entities.jsonl.gz"):
        name = key(row["name"])
        forms[name][row["name"]] += len(row["chunk_ids"])
        kinds[name][row["type"]] += len(row["chunk_ids"])
        passages[name].update(row["chunk_ids"])
        found = (scope_of(row["name"], row["type"], text) for text in row["descriptions"])
        scopes[name].update(scope for scope in found if scope)
    written = sum(len(spellings) for spellings in forms.values())
    for row in _rows(folder / "relations.jsonl.gz"):
        ends = [row["source"], row["target"]]
        one, other = map(key, ends)
        near[one].add(other)
        near[other].add(one)
        for end in ends:
            if key(end) not in forms:
                written += 1
                forms[key(end)][end] += 1
            passages[key(end)].update(row["chunk_ids"])

    def ties(one: str, other: str) -> Ties:
        every = near[one] | near[other]
        return Ties(
            together=bool(passages[one] & passages[other]),
            related=other in near[one],
            neighbours=len(near[one] & near[other]) / len(every) if every else 0.0,
        )

    names = {k: Name(k, most(forms[k]), most(kinds[k])) for k in sorted(forms)}
    return names, ties, written, scopes


def _rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _candidates(names: Iterable[Name]) -> list[tuple[str, str]]:
    strong: defaultdict[str, list[str]] = defaultdict(list)
    weak: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        found = blocks(name)
        for block in found.strong:
            strong[block].append(name.key)
        for block in found.weak:
            weak[block].append(name.key)
    lists = [*strong.values(), *(keys for keys in weak.values() if len(keys) <= SATURATED)]
    return sorted({pair for keys in lists for pair in combinations(sorted(keys), 2)})


# --- the table -----------------------------------------------------------------------------------


def _print(title: str, found: Report, *, first: bool) -> None:
    out = print
    if first:
        out(f"{found.pairs} pairs                                   precision  recall")
        out(f"exact name (what the reference merges)      {found.exact}")
        out(f"equal normal key                            {found.keys}")
    out(title)
    out(f"  merge band                                {found.merge}")
    out(f"  merge band, keys differ                   {found.differing}")
    out(f"  merge band + perfect judge in ask band    {found.judged}")
    caught, homonyms = found.homonyms
    out(
        f"  asked {found.asked:.1%} of pairs · {found.vetoed:.1%} of same pairs under a veto · "
        f"homonyms of one key caught {caught} of {homonyms}"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("PAIRS") or SHARED / "data" / "entity-pairs" / "pairs.jsonl"
    parser.add_argument("pairs", nargs="?", type=Path, default=Path(default))
    pairs = load(parser.parse_args().pairs)
    _print("names and types alone", report(without_ties(pairs)), first=True)
    _print("with passages, relations and neighbours", report(pairs), first=False)
    _print("with cosines too", report(await with_cosines(pairs)), first=False)
    for name in GRAPHS:
        one = replay(SHARED / "data" / name)
        print(
            f"{name}: {one.names} names, {one.merged} merged ({one.by_key} of them by key), "
            f"largest cluster {one.largest}, {one.inner} inner vetoes, "
            f"{one.asked:.2f} questions and {one.candidates:.1f} candidates a name, "
            f"{one.split} names split, {one.speed[0]:.3f} ms a name, "
            f"{one.speed[1]:,.0f} pairs a CPU second"
        )


if __name__ == "__main__":
    asyncio.run(main())
