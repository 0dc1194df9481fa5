"""An evaluation: prepare its questions, ask them in every mode, judge answers, sum up.

At most two lanes of a stage run at a time, so that ingestion and questions of people go on beside
it, however many questions there are. Each outcome is stored at once: a restart asks none again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from app.domain import Chunk, Evaluation, Step
from app.errors import Invalid, NoModel
from app.evaluation import generate, judge, report, results, run
from app.evaluation.generate import SAMPLE_CHARACTERS, SAMPLES
from app.evaluation.inside import EngineTarget
from app.evaluation.metrics import Coverable
from app.evaluation.orders import Request
from app.evaluation.questions import Case
from app.evaluation.run import Key, Outcome, Save
from app.evaluation.targets import Variant
from app.paging import pages
from app.ports import Models, Referee, Workspace

log = logging.getLogger("heliograph.evaluate")

LANES = 2
PAGE = 200  # documents, and chunks


async def prepare(workspace: Workspace, models: Models, step: Step) -> None:
    """Have a model write the questions where that was asked for; find out which statements any
    chunk covers."""
    request, known = await _request(workspace, step)
    if request.generate and not request.questions:
        request = replace(request, questions=await _written(workspace, models, request.generate))
    wanted = [one for case in request.cases() for one in case.evidence]
    if wanted and request.covered is None:
        request = replace(request, covered=await _covered(workspace, wanted))
    if request.line() != known.request:
        await workspace.evaluations.amend(step.job_id, request.line(), request.total)


async def lanes(workspace: Workspace, step: Step) -> list[list[str]]:
    """Questions in turns, so that each lane has of every part."""
    request, _ = await _request(workspace, step)
    ids = [case.id for case in request.cases()]
    return [lane for n in range(LANES) if (lane := ids[n::LANES])]


async def judging(workspace: Workspace, step: Step) -> list[list[str]]:
    request, _ = await _request(workspace, step)
    return await lanes(workspace, step) if request.pairs else []


async def measure(workspace: Workspace, models: Models, step: Step) -> None:
    request, _ = await _request(workspace, step)
    order = request.order()
    mine = _mine(order.cases, step)
    done = await _outcomes(workspace, step)
    target = EngineTarget(workspace, models)
    save = _saving(workspace, step)
    await run.measure(target, replace(order, cases=mine), save, done=done, concurrency=1)


async def compare(workspace: Workspace, models: Models, step: Step) -> None:
    request, _ = await _request(workspace, step)
    referee, done = _referee(models), await _outcomes(workspace, step)
    mine = _mine(request.cases(), step)
    for pair in request.pairs:
        await judge.judge(referee, pair, mine, done, _saving(workspace, step), concurrency=1)


async def conclude(workspace: Workspace, models: Models, step: Step) -> None:
    """The result in place of the outcomes. What was done already is left alone."""
    request, known = await _request(workspace, step)
    if known.result:
        return
    outcomes = await _outcomes(workspace, step)
    facts = {
        "set": {
            "questions": len(request.questions), "generated": request.generate is not None,
            "documents": (await workspace.graph.stats()).documents,
        },
        "target": await EngineTarget(workspace, models).describe(),
        "settings": {
            "seed": request.seed, "answers": request.answers, "against": request.against,
        },
    }  # fmt: skip
    found = await asyncio.to_thread(_results, request, outcomes)
    judged = [_judged(_referee(models), request, pair, outcomes) for pair in request.pairs]
    made = report.Report(known.name, facts, found, judged, request.cases(), outcomes)
    result = await asyncio.to_thread(json.dumps, report.json_of(made), ensure_ascii=False)
    await workspace.evaluations.conclude(step.job_id, result)
    log.info(
        "evaluation.done workspace=%s evaluation=%s questions=%d modes=%d",
        workspace.name, step.job_id, len(request.questions), len(request.modes),
    )  # fmt: skip


def _results(request: Request, outcomes: Mapping[Key, Outcome]) -> results.Results:
    variants = [Variant.of(one) for one in request.modes]
    return results.results_of(outcomes, variants, against=request.against, seed=request.seed)


def _judged(
    referee: Referee, request: Request, pair: tuple[str, str], outcomes: Mapping[Key, Outcome]
) -> judge.Judged:
    label = judge.label(pair, referee)
    verdicts = [one for key, one in outcomes.items() if key.mode == label]
    return judge.judged_of(referee, pair, verdicts, seed=request.seed)


# --- what is stored ------------------------------------------------------------------------------


async def _request(workspace: Workspace, step: Step) -> tuple[Request, Evaluation]:
    found = await workspace.evaluations.get(step.job_id)
    return Request.of(found.request), found


async def _outcomes(workspace: Workspace, step: Step) -> dict[Key, Outcome]:
    lines = await workspace.evaluations.outcomes(step.job_id)
    return {one.key: one for one in map(Outcome.of, lines)}


def _saving(workspace: Workspace, step: Step) -> Save:
    async def save(outcome: Outcome) -> None:
        key = "\t".join(outcome.key)
        await workspace.evaluations.put_outcomes(step.job_id, {key: outcome.line()})

    return save


def _mine(cases: Sequence[Case], step: Step) -> list[Case]:
    shard = set(step.shard)
    return [case for case in cases if case.id in shard]


def _referee(models: Models) -> Referee:
    if models.referee is None:
        raise NoModel(judge.NO_MODEL)
    return models.referee


# --- the documents -------------------------------------------------------------------------------


async def _written(
    workspace: Workspace, models: Models, sizes: generate.Sizes
) -> list[Mapping[str, str]]:
    if models.referee is None:
        raise NoModel(generate.NO_MODEL)
    samples = await _samples(workspace)
    if not samples:
        raise Invalid("The workspace has no documents to write questions for.", code="no_documents")
    written = await generate.generate(models.referee, samples, sizes)
    return [
        {"id": one.id, "question": one.question, "user": one.user, "task": one.task}
        for one in written.questions
    ]


async def _samples(workspace: Workspace) -> list[str]:
    """Beginnings of documents, taken evenly."""
    ids = [id async for id in _documents(workspace)]
    step = max(1.0, len(ids) / SAMPLES)
    samples = []
    for n in range(min(SAMPLES, len(ids))):
        chunks = await workspace.graph.document_chunks(ids[int(n * step)], limit=1)
        samples += [chunk.text[:SAMPLE_CHARACTERS] for chunk in chunks]
    return samples


async def _covered(workspace: Workspace, wanted: Sequence[str]) -> list[str]:
    """Reads every chunk once; in a thread, since a large workspace takes minutes."""
    found: set[str] = set()
    async for page in _chunks(workspace):
        texts, missing = [chunk.text for chunk in page], [x for x in wanted if x not in found]
        if not missing:
            break
        coverable = await asyncio.to_thread(Coverable, missing, texts)
        found |= coverable.covered
    return sorted(found)


async def _documents(workspace: Workspace) -> AsyncIterator[str]:
    """Ids of those that can be seen."""
    async for page in pages(workspace.documents.page, lambda one: one.id, PAGE):
        for one in page:
            if one.live is not None:
                yield one.id


async def _chunks(workspace: Workspace) -> AsyncIterator[list[Chunk]]:
    async for id in _documents(workspace):
        after = -1
        while page := await workspace.graph.document_chunks(id, after=after, limit=PAGE):
            after = page[-1].position
            yield page
