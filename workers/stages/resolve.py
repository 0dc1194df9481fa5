"""Names to entities: what changed is compared with its like, and evidence moves where it belongs.

Only names whose facts changed are looked at, each with those that share a block, so a document
costs what it says and not what is stored. A decision depends on what is stored now and on nothing
that came before it: any order of documents ends in the same clusters (`app.resolution`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from app.domain import KnownName, Step, Usage
from app.ports import Models, Names, Workspace
from app.resolution.blocks import SATURATED, blocks
from app.resolution.decide import cluster, decisions
from app.resolution.model import MERGE, Name, Pair, Ties
from app.resolution.score import compare, recorded
from app.resolution.senses import senses
from app.resolution.settlement import Resolved, Reviewed, Settlement
from workers import judging

log = logging.getLogger("heliograph.resolve")

BATCH = 64  # names a settlement
CHUNKS = 16  # a transaction of moves
MAX_CLOSURE = 1024  # names that one settlement looks at


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    """What moves may open names again: a name that nothing uses any more is gone."""
    names = workspace.names
    resolved: set[str] = set()
    asked: Counter[str] = Counter()
    moved = ruled = 0
    await names.adopt(step.job_id)
    while True:
        # In turns: a settlement takes the open names of all documents, and one that comes second
        # has read and compared them for nothing (half of an ingest's CPU with 32 at a time).
        async with models.turns.of(workspace.name):
            opened, chunks = await _settle(names), 0
        while page := await names.move(step.job_id, limit=CHUNKS):
            chunks += page
        moved += chunks
        resolved.update(opened)
        if not opened and not chunks:
            fresh = await _ask(workspace, models, step, resolved, asked)
            ruled += fresh
            if not fresh:
                break
    log.info(
        "names.resolved workspace=%s document=%s names=%d moved=%d asked=%d",
        workspace.name, step.document_id, len(resolved), moved, ruled,
    )  # fmt: skip


async def _ask(
    workspace: Workspace, models: Models, step: Step, keys: set[str], asked: Counter[str]
) -> int:
    """Put doubtful pairs of what was resolved to a model, where there is one to ask."""
    if models.judge is None:
        return 0
    ruled = 0
    answers = judging.judge(workspace, models.judge, models.embedder, sorted(keys), asked)
    async for pairs, usage in answers:
        ruled += pairs
        if step.document_id and usage != Usage():
            await asyncio.shield(workspace.documents.charge(step.document_id, usage))
    return ruled


async def due(workspace: Workspace, step: Step) -> list[list[str]]:
    """One shard where anything is to be decided or moved."""
    names = workspace.names
    return [["names"]] if await names.opened(limit=1) or await names.moving() else []


async def moved(workspace: Workspace, step: Step) -> list[list[str]]:
    """One shard where profiles and vectors of other documents had to follow."""
    return [["moves"]] if await workspace.names.moved(step.job_id) else []


async def tidy(workspace: Workspace, models: Models, step: Step) -> None:
    await workspace.names.tidy(step.job_id)


async def _settle(names: Names) -> list[str]:
    """Decide on some open names; which they were. Another worker may settle in between: then
    what was read is read again."""
    limit = BATCH
    while True:
        version = await names.version()
        opened = await names.opened(limit=limit)
        if not opened:
            return []
        settling = _Settling(names, version, opened)
        settlement = await settling.settlement()
        if settling.crowded and len(opened) > 1:
            limit = 1  # each by itself reaches as far as it has to
            continue
        if await names.settle(settlement):
            return [one.key for one in opened]
        await asyncio.sleep(random.uniform(0.0, 0.05))


class _Settling:
    """Reads what decisions on the open names depend on, and takes them."""

    def __init__(self, names: Names, version: int, opened: Sequence[KnownName]) -> None:
        self._names, self._version = names, version
        self._known = {one.key: one for one in opened}
        self._alive = {one.key: _name(one) for one in opened if one.mentions}
        self._gone = [one.key for one in opened if not one.mentions]
        self._opened = [one.key for one in opened]
        self.crowded = False  # more hangs together than was looked at

    async def settlement(self) -> Settlement:
        posted = {key: blocks(name).all for key, name in self._alive.items()}
        candidates, reopen = await self._candidates(posted)
        fresh, ties = await self._tied(await self._compared(candidates))
        closure = _Closure(self._names, self._known, set(self._opened), fresh)
        self.crowded = await closure.grow()
        return Settlement(
            version=self._version,
            resolved=[self._resolved(key, posted[key]) for key in self._alive],
            gone=self._gone,
            pairs=closure.reviewed(fresh, ties),
            decisions=closure.other_decisions(fresh),
            placed={**closure.placed(), **{key: key for key in self._gone}},
            reopen=reopen,
        )

    def _resolved(self, key: str, posted: tuple[str, ...]) -> Resolved:
        known = self._known[key]
        apart = senses(key, known.form, known.scopes) if known.scopes else {}
        return Resolved(key, known.revision, posted, apart)

    async def _candidates(
        self, posted: dict[str, tuple[str, ...]]
    ) -> tuple[dict[str, set[str]], list[str]]:
        """For each live open name those that share a block, and names to resolve anew because a
        block that they share became too common to mean anything, or ceased to be."""
        before = {key: set(self._known[key].blocks) for key in self._opened}
        asked = sorted({block for own in (*posted.values(), *before.values()) for block in own})
        lists = await self._names.in_blocks(asked, limit=SATURATED + len(self._opened) + 1)
        candidates: dict[str, set[str]] = {key: set() for key in posted}
        reopen: set[str] = set()
        for block in asked:
            was = set(lists.get(block, ()))
            now = was - set(self._opened) | {key for key in posted if block in posted[key]}
            if (len(was) > SATURATED) != (len(now) > SATURATED):
                reopen |= was | now
            if len(now) <= SATURATED:
                for key in now & candidates.keys():
                    candidates[key] |= now
        return candidates, sorted(reopen - set(self._opened))

    async def _compared(self, candidates: dict[str, set[str]]) -> list[Pair]:
        others = set().union(*candidates.values()) - self._known.keys()
        for known in await self._names.known(sorted(others)):
            self._known[known.key] = known
        pairs = sorted(
            {
                (min(key, other), max(key, other))
                for key, found in candidates.items()
                for other in found
                if other != key and other in self._known and self._known[other].mentions
            }
        )
        made = (compare(_name(self._known[one]), _name(self._known[other])) for one, other in pairs)
        return [pair for pair in made if recorded(pair)]

    async def _tied(self, pairs: Sequence[Pair]) -> tuple[list[Pair], dict[tuple[str, str], str]]:
        """Pairs that a passage with both names would make one are compared again if there is one.
        Only these cost a look at the evidence."""
        closer = {pair.keys: self._closer(pair) for pair in pairs if pair.score < MERGE}
        closer = {keys: pair for keys, pair in closer.items() if pair.score >= MERGE}
        found = await self._names.together(sorted(closer)) if closer else set()
        ties = {keys: "has" if keys in found else "lacks" for keys in closer}
        return [closer[pair.keys] if pair.keys in found else pair for pair in pairs], ties

    def _closer(self, pair: Pair) -> Pair:
        one, other = _name(self._known[pair.one]), _name(self._known[pair.other])
        return compare(one, other, Ties(together=True))


class _Closure:
    """All names whose cluster may change with the open ones, and the pairs that decide it.

    It grows along pairs that merge or did, and no further: a short form that may mean many is
    decided by counting its pairs, not by looking at what they lead to."""

    def __init__(
        self, names: Names, known: dict[str, KnownName], opened: set[str], fresh: Sequence[Pair]
    ) -> None:
        self._names, self._known, self._opened = names, known, opened
        self._pairs = {pair.keys: pair for pair in fresh}
        self._before: dict[tuple[str, str], str] = {}  # stored decisions
        self._loaded: set[str] = set()  # names all of whose pairs are known
        self._inside: set[str] = set()
        self._rulings: dict[tuple[str, str], bool] = {}
        self._decisions: Mapping[tuple[str, str], str] = {}

    async def grow(self) -> bool:
        """Whether it had to end before its edge."""
        await self._load(self._opened)
        frontier = {key for keys in (*self._pairs, *self._before) for key in keys} | self._opened
        while frontier and len(self._inside) < MAX_CLOSURE:
            frontier = await self._with_members(frontier) - self._inside
            self._inside |= frontier
            await self._load(frontier)
            await self._load({pair.leaf for pair in self._pairs.values() if pair.leaf})
            self._decisions = decisions(list(self._pairs.values()), self._rulings)
            merged = [keys for keys, what in self._decisions.items() if what == "merge"]
            merged += [keys for keys, what in self._before.items() if what == "merge"]
            merged += [keys for keys, same in self._rulings.items() if same]
            touching = [keys for keys in merged if self._inside & set(keys)]
            frontier = {key for keys in touching for key in keys} - self._inside
        await self._know(self._inside)
        if frontier:
            log.warning("names.crowded names=%d opened=%d", len(self._inside), len(self._opened))
        return bool(frontier)

    async def _load(self, keys: Iterable[str]) -> None:
        """Stored pairs and rulings of these names; pairs of open names are the fresh ones."""
        wanted = sorted(set(keys) - self._loaded)
        if not wanted:
            return
        self._loaded.update(wanted)
        for reviewed in await self._names.pairs(wanted):
            self._before[reviewed.pair.keys] = reviewed.decision
            if not self._opened & set(reviewed.pair.keys):
                self._pairs.setdefault(reviewed.pair.keys, reviewed.pair)
        for ruling in await self._names.rulings(wanted):
            self._rulings[ruling.one, ruling.other] = ruling.same

    async def _with_members(self, keys: set[str]) -> set[str]:
        """And whatever shares an entity with them now."""
        await self._know(keys)
        entities = {self._known[key].entity for key in keys if key in self._known}
        members = await self._names.members(sorted(entities))
        return keys | entities | {key for found in members.values() for key in found}

    async def _know(self, keys: set[str]) -> None:
        for known in await self._names.known(sorted(keys - self._known.keys())):
            self._known[known.key] = known

    # --- what comes of it ------------------------------------------------------------------------

    def placed(self) -> dict[str, str]:
        """Name -> entity. A cluster keeps the entity that has most of its mentions, so that the
        least evidence moves."""
        alive = {
            key: _name(self._known[key])
            for key in self._inside
            if key in self._known and self._known[key].mentions
        }
        placed: dict[str, str] = {}
        for members in cluster(alive, list(self._pairs.values()), self._rulings):
            weight = dict.fromkeys(members, 0)
            for key in members:
                here = self._known[key].entity
                weight[here if here in members else key] += self._known[key].mentions
            entity = min(weight, key=lambda key: (-weight[key], key))
            placed |= dict.fromkeys(members, entity)
        return placed

    def reviewed(
        self, fresh: Sequence[Pair], ties: Mapping[tuple[str, str], str]
    ) -> list[Reviewed]:
        return [
            Reviewed(pair, self._decisions[pair.keys], ties.get(pair.keys, "")) for pair in fresh
        ]

    def other_decisions(self, fresh: Sequence[Pair]) -> list[tuple[str, str, str]]:
        """Those of stored pairs that changed, since their short form has other rivals now. Of a
        short form at the edge not all rivals are known: nothing is said of its pairs."""
        own = {pair.keys for pair in fresh}
        return [
            (*keys, decision)
            for keys, decision in self._decisions.items()
            if keys not in own
            and self._before.get(keys) not in (None, decision)
            and (not (leaf := self._pairs[keys].leaf) or leaf in self._loaded)
        ]


def _name(known: KnownName) -> Name:
    """How often it is mentioned decides nothing."""
    return Name(known.key, known.form, known.kind, known.aliases)
