"""Doubtful pairs of names put to a language model: few for each name, many in one call.

Every answer is kept as a ruling, "not to be told" as two things, so that no pair is asked twice.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence

from app.domain import Asked, Kind, KnownName, NameSaid, Ref, Ruling, Usage
from app.errors import BadModelOutput, Invalid
from app.ports import Judge, Workspace
from app.resolution.model import Pair

log = logging.getLogger("heliograph.resolve")

QUESTIONS = 2  # for each name, best pairs first
PAIRS = 20  # a call
NOTES = {True: "one thing by what is said of both", False: "two things by what is said of them"}
UNSURE = "what is said does not tell"


async def judge(
    workspace: Workspace, judge: Judge, keys: Sequence[str]
) -> AsyncIterator[tuple[int, Usage]]:
    """Ask about doubtful pairs of these names and keep the answers; after each call, how many
    pairs were ruled and what it cost."""
    doubtful = await _doubtful(workspace, keys)
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
                    pair.one,
                    pair.other,
                    bool(same),
                    "model",
                    UNSURE if same is None else NOTES[same],
                    now,
                )
                for pair, same in zip(pairs, judgement.verdicts, strict=True)
            ]
        )
        yield len(pairs), judgement.usage


async def _doubtful(workspace: Workspace, keys: Sequence[str]) -> list[Pair]:
    ruled = {(one.one, one.other) for one in await workspace.names.rulings(keys)}
    pairs = [
        reviewed.pair
        for reviewed in await workspace.names.pairs(keys)
        if reviewed.decision == "ask" and reviewed.pair.keys not in ruled
    ]
    asked: Counter[str] = Counter()
    chosen = []
    own = set(keys)
    for pair in sorted(pairs, key=lambda pair: (-pair.score, pair.keys)):
        ends = own & set(pair.keys)
        if all(asked[key] < QUESTIONS for key in ends):
            asked.update(ends)
            chosen.append(pair)
    return chosen


async def _asked(workspace: Workspace, pairs: Sequence[Pair]) -> list[Asked]:
    keys = sorted({key for pair in pairs for key in pair.keys})
    known = {name.key: name for name in await workspace.names.known(keys)}
    said = await _descriptions(workspace, known.values())

    def of(key: str) -> NameSaid:
        name = known.get(key)
        return NameSaid(name.form, name.kind, said.get(name.entity, "")) if name else _bare(key)

    return [(of(pair.one), of(pair.other)) for pair in pairs]


def _bare(key: str) -> NameSaid:
    return NameSaid(key, "", "")


async def _descriptions(workspace: Workspace, names: Iterable[KnownName]) -> dict[str, str]:
    """Entity -> the first things said of it."""
    refs = [Ref(Kind.ENTITY, key) for key in sorted({name.entity for name in names})]
    evidence = await workspace.graph.evidence(refs, limit=2)
    return {one.ref.key: " ".join(one.descriptions) for one in evidence}
