"""Asks every system on every ground what is not known yet, and writes it down at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import AppError
from app.evaluation.metrics import Coverable, Found
from app.evaluation.remote import HeliographTarget, heliograph
from app.evaluation.targets import Variant
from tests.bench.evaluation.baselines import Bm25, Dense, Piece
from tests.bench.evaluation.filling import Stores
from tests.bench.evaluation.grounds import MOST, Ground, Store
from tests.bench.evaluation.records import SUMMARIES, Outcome, Record, ranks_of
from tests.bench.evaluation.reference import PREFIX, Reference, lightrag, published
from tests.bench.evaluation.stores import WORKSPACE, fingerprint_of
from tests.bench.replay.process import replaying, settings
from tests.system.stack import ROOT, Service, embedded

# Asked all questions of a set: what aims are about, and what costs little.
WHOLE = ("mix", "bm25", "dense", "naive")
QUERYING = ("app", "workers")  # code that a result of the service depends on
BASELINES = ("bm25", "dense")
# Asked all questions about themes.
THEMED = ("naive", "global", "community", "mix", PREFIX)
# The levels of `hybrid` one by one, and `mix` as LightRAG has it; measured on sets as they are.
VARIANTS = ("mix:mix_style=lightrag", "hybrid:high_level=false", "hybrid:low_level=false")
# Modes that need a model, and sets for which one can be replayed.
REPLAYED = ("rq",)
DECOMPOSED = ("musique-train",)

Ask = Callable[[str], Awaitable[tuple[Sequence[Found], float, float, float]]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure. `anew`: also what is known of the same code."""

    modes: Sequence[str]
    anew: bool = False
    most: int = MOST
    reference: bool = False  # measure lightrag-hku, too
    keep: bool = False  # results of older code are good enough
    quick: bool = False  # no system is asked more than `most` questions
    published: bool = True  # results of others stand in the record, too


class Measuring:
    def __init__(self, stores: Stores, results: Path, wanted: Wanted, reference: Reference) -> None:
        self._stores, self._results, self._wanted = stores, results, wanted
        self._reference = reference
        self._code = fingerprint_of(ROOT, QUERYING)

    async def measure(self, store: Store, grounds: Sequence[Ground]) -> None:
        """All grounds of one store: the service is started once."""
        await asyncio.to_thread(self._stores.ready, store)
        pieces = await self._stores.pieces(store)
        records = [(ground, self._record(ground, pieces)) for ground in grounds]
        for ground, record in records:
            await self._baselines(ground, record, pieces)
        await self._of_modes(store, records, [m for m in self._wanted.modes if m not in REPLAYED])
        if store.set in DECOMPOSED:
            with replaying([store.set]) as url:
                modes = [mode for mode in self._wanted.modes if mode in REPLAYED]
                await self._of_modes(store, records, modes, settings(url))
        if self._wanted.reference:
            await asyncio.to_thread(self._of_reference, store, records)

    async def _of_modes(
        self, store: Store, records: Sequence[tuple[Ground, Record]], modes: Sequence[str],
        model: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Ask one service in these modes what is not known yet; it is started only for that."""
        open_ = [
            (ground, record, mode)
            for ground, record in records
            for mode in modes
            if mode not in BASELINES and not self._known(record, mode)
            if mode not in VARIANTS or (ground.store.titles and not ground.lower)
        ]
        if not open_:
            return
        environment = {**self._stores.environment(store), **(model or {})}
        with embedded(self._stores.folder(store), environment) as service:
            if any(mode.partition(":")[0] == "community" for _, _, mode in open_):
                await asyncio.to_thread(_divide, service)
            async with heliograph(service.url, WORKSPACE) as target:
                for ground, record, mode in open_:
                    await self._of_service(ground, record, target, mode)

    # --- systems ---------------------------------------------------------------------------------

    async def _baselines(self, ground: Ground, record: Record, pieces: Sequence[Piece]) -> None:
        open_ = [
            name
            for name in BASELINES
            if name in self._wanted.modes and not self._known(record, name)
        ]
        if not open_:
            return
        async with self._stores.embedder(ground.store) as embedder:
            for name in open_:
                system: Any = Bm25(pieces) if name == "bm25" else Dense(pieces, embedder)
                if isinstance(system, Dense):
                    await system.ready()

                async def ask(
                    question: str, system: Any = system
                ) -> tuple[Sequence[Found], float, float, float]:
                    found = await system.retrieve(question)
                    return found, 0.0, 0.0, 0.0

                await self._asked(ground, record, name, ask)

    def _of_reference(self, store: Store, records: Sequence[tuple[Ground, Record]]) -> None:
        open_ = [
            (ground, record, {case.id: self._coverable.of(case) for case in ground.load().cases})
            for ground, record in records
            if self._wanted.anew or f"{PREFIX}mix" not in record.systems
        ]
        if not open_:
            return
        places = self._chosen(open_[0][1], PREFIX)
        lightrag(self._reference, store, open_, places)
        for ground, record, _ in open_:
            record.write(self._results / f"{ground.key}.json")

    async def _of_service(
        self, ground: Ground, record: Record, target: HeliographTarget, mode: str
    ) -> None:
        if self._known(record, mode):
            return
        variant = Variant.of(mode)

        async def ask(question: str) -> tuple[Sequence[Found], float, float, float]:
            found = await target.retrieve(question, variant)
            return found.chunks, found.tokens, found.usage.llm_calls, found.ms

        try:
            await self._asked(ground, record, mode, ask)
        except AppError as error:  # a mode that this service has not, or not without a model
            print(f"{ground.key} {mode}: left out, {error.detail}", flush=True)

    async def _asked(self, ground: Ground, record: Record, name: str, ask: Ask) -> None:
        cases = ground.load().cases
        statements = self._coverable.of
        chosen = set(self._chosen(record, name))
        outcome = Outcome([None] * len(cases), self._code)
        begin, spent = time.perf_counter(), [0.0, 0.0, 0.0]
        for place, case in enumerate(cases):
            if place not in chosen:
                continue
            found, *cost = await ask(case.question)
            outcome.ranks[place] = ranks_of(case, found, statements(case))
            spent = [one + more for one, more in zip(spent, cost, strict=True)]
        outcome.tokens, outcome.calls, outcome.ms = (one / len(chosen) for one in spent)
        record.systems[name] = outcome
        record.write(self._results / f"{ground.key}.json")
        places = record.common([name])
        score = 100 * record.mean(name, "recall@5", places).value
        print(
            f"{ground.key} {name}: recall@5 {score:.1f} of {len(places)} questions, "
            f"{outcome.ms:.0f} ms, {time.perf_counter() - begin:.0f} s",
            flush=True,
        )

    # --- what is known ---------------------------------------------------------------------------

    def _known(self, record: Record, name: str) -> bool:
        known = record.systems.get(name)
        current = known is not None and (self._wanted.keep or known.code == self._code)
        return current and not self._wanted.anew

    def _record(self, ground: Ground, pieces: Sequence[Piece]) -> Record:
        """What was written before, if it is of the same questions."""
        cases = ground.load().cases
        texts = [piece.text for piece in pieces]
        evidence = not any(case.gold for case in cases)
        self._coverable = Coverable((s for c in cases for s in c.evidence), texts)
        statements = self._coverable.of
        fresh = Record(
            ground.key, [case.id for case in cases],
            [len(statements(case)) if evidence else len(case.gold) for case in cases],
            evidence, [case.kind for case in cases],
        )  # fmt: skip
        known = Record.read(self._results / f"{ground.key}.json")
        record = known if known is not None and known.fits(fresh) else fresh
        if ground.key == "2wiki-101" and self._wanted.published:
            published(record)
        return record

    def _chosen(self, record: Record, name: str) -> list[int]:
        """Evenly spaced questions that seek something, and for some systems all about themes."""
        asked = [place for place, golds in enumerate(record.golds) if golds]
        whole = name in WHOLE and (not self._wanted.quick or name in BASELINES)
        if whole or len(asked) <= self._wanted.most:
            return asked
        step = len(asked) / self._wanted.most
        spaced = {asked[int(n * step)] for n in range(self._wanted.most)}
        if name in THEMED:
            spaced |= {place for place in asked if record.kinds[place] == SUMMARIES}
        return sorted(spaced)


def _divide(service: Service) -> None:
    """Have communities built, with reports by rules, where they are not there yet."""
    job = service.json("POST", "/graph/communities", 202)["id"]
    while (state := service.json("GET", f"/jobs/{job}")["state"]) != "done":
        assert state in ("queued", "running"), service.tail()
        time.sleep(0.5)
