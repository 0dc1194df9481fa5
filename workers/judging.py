"""Doubtful pairs of names put to a language model: few for each name, many in one call.

Beside the pairs that share a block, a name is compared with the nearest entities by its vector,
since translations and synonyms share no letter. Every answer is kept as a ruling, "not to be told"
as two things, so that no pair is asked twice.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence

from app.domain import Asked, Kind, KnownName, NameSaid, Ref, Ruling, Usage, Vector, VectorQuery
from app.errors import BadModelOutput, Invalid
from app.ports import Embedder, Judge, Workspace
from app.resolution.decide import decision
from app.resolution.model import Name, Pair, Ties
from app.resolution.score import compare

log = logging.getLogger("heliograph.resolve")

QUESTIONS = 2  # for each name, best pairs first
PAIRS = 20  # a call
NEAREST = 5  # entities for each name
NEAR = 0.6  # cosine from which an entity is looked at
NOTES = {True: "one thing by what is said of both", False: "two things by what is said of them"}
UNSURE = "what is said does not tell"


async def judge(
    workspace: Workspace,
    judge: Judge,
    embedder: Embedder,
    keys: Sequence[str],
    asked: Counter[str],
) -> AsyncIterator[tuple[int, Usage]]:
    """Ask about doubtful pairs of these names and keep the answers; after each call, how many
    pairs were ruled and what it cost. `asked` counts the questions on each name, here and before
    (answers open names, and then there is more in doubt)."""
    keys = [key for key in keys if asked[key] < QUESTIONS]
    alike, spent = await _alike(workspace, embedder, keys)
    doubtful = await _doubtful(workspace, keys, alike, asked)
    yield 0, spent
    for i in range(0, len(doubtful), PAIRS):
        pairs = doubtful[i : i + PAIRS]
        try:
            judgement = await judge.judge(await _asked(workspace, pairs))
        except (BadModelOutput, Invalid) as error:  # they stay apart and listed
            log.warning("verdicts.failed workspace=%s code=%s", workspace.name, error.code)
            return
        now = time.time()
        await workspace.names.rule(
            [
                Ruling(
                    pair.one, pair.other, bool(same), "model",
                    UNSURE if same is None else NOTES[same], now,
                )
                for pair, same in zip(pairs, judgement.verdicts, strict=True)
            ]
        )  # fmt: skip
        yield len(pairs), judgement.usage


async def _doubtful(
    workspace: Workspace, keys: Sequence[str], alike: Sequence[Pair], asked: Counter[str]
) -> list[Pair]:
    ruled = {(one.one, one.other) for one in await workspace.names.rulings(keys)}
    recorded = await workspace.names.pairs(keys)
    known = {reviewed.pair.keys for reviewed in recorded} | ruled
    pairs = [one.pair for one in recorded if one.decision == "ask" and one.pair.keys not in ruled]
    pairs += [pair for pair in alike if pair.keys not in known]
    chosen: list[Pair] = []
    own = set(keys)
    for pair in sorted(pairs, key=lambda pair: (-pair.score, pair.keys)):
        ends = own & set(pair.keys)
        if all(asked[key] < QUESTIONS for key in ends):
            asked.update(ends)
            chosen.append(pair)
    return chosen


async def _alike(
    workspace: Workspace, embedder: Embedder, keys: Sequence[str]
) -> tuple[list[Pair], Usage]:
    """Pairs with entities whose vectors are near that the cosine of the names leaves in doubt."""
    names = {one.key: one for one in await workspace.names.known(keys) if one.mentions}
    if not names:
        return [], Usage()
    forms = [one.form for one in names.values()]
    sought = await embedder.embed(forms, purpose="query")
    queries = [
        VectorQuery(Kind.ENTITY, NEAREST + 1, dense=vector) for vector in sought.vectors if vector
    ]
    found = await workspace.vectors.search(queries)
    lists = iter(found)
    near = {
        key: [hit.key for hit in next(lists) if hit.score >= NEAR and hit.key != one.entity]
        for (key, one), vector in zip(names.items(), sought.vectors, strict=True)
        if vector
    }
    others = sorted({key for hits in near.values() for key in hits})
    there = {one.key: one for one in await workspace.names.known(others) if one.mentions}
    written = {one.key: one.form for one in (*names.values(), *there.values())}
    made = await embedder.embed(list(written.values()), purpose="document")
    vectors = dict(zip(written, made.vectors, strict=True))
    pairs = {
        pair.keys: pair
        for key, hits in near.items()
        for other in hits
        if other != key and other in there and there[other].entity != names[key].entity
        for pair in [_compared(names[key], there[other], vectors)]
        if decision(pair) != "apart"
    }
    return list(pairs.values()), sought.usage + made.usage


def _compared(one: KnownName, other: KnownName, vectors: dict[str, Vector]) -> Pair:
    cosine = sum(a * b for a, b in zip(vectors[one.key], vectors[other.key], strict=False))
    first, second = (Name(it.key, it.form, it.kind, it.aliases) for it in (one, other))
    return compare(first, second, Ties(names=cosine))


async def _asked(workspace: Workspace, pairs: Sequence[Pair]) -> list[Asked]:
    keys = sorted({key for pair in pairs for key in pair.keys})
    known = {name.key: name for name in await workspace.names.known(keys)}
    said = await _descriptions(workspace, known.values())

    def of(key: str) -> NameSaid:
        name = known.get(key)
        if name is None:
            return NameSaid(key, "", "")
        return NameSaid(name.form, name.kind, said.get(name.entity, ""))

    return [(of(pair.one), of(pair.other)) for pair in pairs]


async def _descriptions(workspace: Workspace, names: Iterable[KnownName]) -> dict[str, str]:
    """Entity -> the first things said of it."""
    refs = [Ref(Kind.ENTITY, key) for key in sorted({name.entity for name in names})]
    evidence = await workspace.graph.evidence(refs, limit=2)
    return {one.ref.key: " ".join(one.descriptions) for one in evidence}
