"""Evaluations: modes measured on the documents of a workspace, by a job, with a history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from app.api.deps import Deployed, JsonOnly, Readable, Writable
from app.api.fields import MAX_ID, Body
from app.api.problems import responses
from app.api.questions import MAX_QUERY, QuestionBody
from app.api.schemas import FailureBody, after, cursor_of, moment, page_of
from app.domain import Evaluation, Job, Mode, Plan, State, first_ticket
from app.errors import Conflict, Invalid, NoModel, NotFound
from app.evaluation import generate, judge
from app.evaluation.generate import Sizes
from app.evaluation.inside import question_of
from app.evaluation.intervals import SEED
from app.evaluation.orders import Request
from app.evaluation.targets import MAX_VARIANT, Variant
from app.ports import Evaluations, Models, Services, Workspace
from app.upkeep.jobs import new_job, send

router = APIRouter(tags=["evaluation"])

MAX_QUESTIONS = 1000
MAX_MODES = 16
MAX_OUTCOMES = 5000  # questions times modes and pairs: what one result can hold
MAX_RUNNING = 2  # of a workspace at a time
MAX_STATEMENT = 2000
TAKE_A_MODEL = frozenset({Mode.HYDE, Mode.RQ, Mode.BYPASS})

EvaluationId = Annotated[str, Path(description="Id of an evaluation.", max_length=64)]
Label = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_VARIANT)
]
Id = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID)]
Statement = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_STATEMENT)
]


class AskedBody(Body):
    """A question with what is known of a good result: any of it, as much as there is."""

    id: Id | None = Field(None, description="Your own id; else its number.", examples=["q1"])
    question: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY)
    ] = Field(description="The question.", examples=["What was Scrooge's partner called?"])
    gold_passage_ids: list[Id] = Field(
        default_factory=list,
        max_length=100,
        examples=[["carol"]],
        description="Ids of the documents that a perfect retriever finds.",
    )
    gold_document_names: list[Annotated[str, Field(min_length=1, max_length=1024)]] = Field(
        default_factory=list, max_length=100, description="The same by name."
    )
    gold_quotes: list[Statement] = Field(
        default_factory=list,
        max_length=100,
        description="Words of the documents, each to be found in one chunk.",
    )
    evidence: list[Statement] = Field(
        default_factory=list,
        max_length=100,
        description="Statements that an answer rests on, in any words: a chunk covers one that has "
        "80 % of its content words.",
    )
    answers: list[Statement] = Field(
        default_factory=list,
        max_length=100,
        examples=[["Marley", "Jacob Marley"]],
        description="Accepted answers: any of them is right. Used with `answers`.",
    )
    unanswerable: bool = Field(False, description="The documents do not tell.")

    def row(self, number: int) -> dict[str, Any]:
        """As in questions.jsonl."""
        return {**self.model_dump(exclude_none=True), "id": self.id or f"q{number}"}

    @model_validator(mode="after")
    def _no_gold_of_nothing(self) -> Self:
        if self.unanswerable and (
            self.gold_passage_ids or self.gold_document_names or self.gold_quotes
        ):
            raise ValueError("a question that is unanswerable has no gold")
        return self


class GenerateBody(Body):
    """Questions that a model writes, as the LightRAG paper does."""

    users: int = Field(5, ge=1, le=generate.MOST, description="Users of the documents.")
    tasks: int = Field(5, ge=1, le=generate.MOST, description="Tasks of each user.")
    questions: int = Field(5, ge=1, le=generate.MOST, description="Questions of each task.")


class PairBody(Body):
    """Two of the modes, whose answers a model compares."""

    mode: Label = Field(description="One of the modes.", examples=["mix"])
    against: Label = Field(description="Another one.", examples=["naive"])


class EvaluationRequestBody(Body):
    """What to measure. Either `questions` or `generate`."""

    name: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = Field(
        "", description="What to call it in the history.", examples=["before the new model"]
    )
    modes: list[Label] = Field(
        min_length=1,
        max_length=MAX_MODES,
        examples=[["naive", "mix"]],
        description="Modes of `POST /query`; with options as `mix:mix_style=lightrag`.",
    )
    questions: list[AskedBody] = Field(
        default_factory=list, max_length=MAX_QUESTIONS, description="Questions of your own.",
        examples=[
            [
                {
                    "question": "What was Scrooge's partner called?",
                    "gold_passage_ids": ["carol"], "answers": ["Marley"],
                }
            ]
        ],
    )  # fmt: skip
    generate: GenerateBody | None = Field(None, description="Have a model write the questions.")
    against: Label | None = Field(
        None, description="Mode that the others are compared with; else naive, else the first."
    )
    answers: bool = Field(
        False, description="Have answers written too, and compare them with the accepted ones."
    )
    judge: list[PairBody] = Field(
        default_factory=list,
        max_length=4,
        description="Pairs whose answers a model judges, in both orders; includes `answers`.",
    )
    seed: int = Field(SEED, ge=0, lt=2**63, description="Of the draws behind the intervals.")

    def request(self) -> Request:
        """Raises `Invalid` for what the schema cannot say."""
        variants = [variant_of(one) for one in dict.fromkeys(self.modes)]
        labels = [one.label for one in variants]
        if bool(self.questions) == (self.generate is not None):
            raise Invalid("Give either questions or generate.", code="questions_needed")
        if self.against and self.against not in labels:
            raise Invalid("`against` must be one of the modes.", code="unknown_mode")
        rows = [one.row(number) for number, one in enumerate(self.questions, start=1)]
        ids = [row["id"] for row in rows]
        if repeated := next((id for n, id in enumerate(ids) if id in ids[:n]), None):
            raise Invalid(f"Two questions have the id {repeated!r}.", code="duplicate_id")
        sizes = self.generate
        made = Request(
            labels, rows, self.against or "", self.answers or bool(self.judge),
            [judge.pair_of(f"{one.mode},{one.against}", labels) for one in self.judge],
            Sizes(sizes.users, sizes.tasks, sizes.questions) if sizes else None, self.seed,
        )  # fmt: skip
        if made.total > MAX_OUTCOMES:
            raise Invalid(
                f"Questions times modes and pairs are {made.total:,}; at most {MAX_OUTCOMES:,} are "
                "measured at once. Ask fewer questions or modes.",
                code="too_much_to_measure",
            )
        return made


def variant_of(label: str) -> Variant:
    """A mode with options as `POST /query` takes them."""
    variant = Variant.of(label)
    try:
        QuestionBody.model_validate({**variant.options, "query": "?", "mode": variant.mode})
    except ValidationError as error:
        said = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
        raise Invalid(f"{label}: {said}.", code="unknown_mode") from None
    if "stream" in variant.options or "only_context" in variant.options:
        raise Invalid(f"{label}: only options of retrieval can be measured.", code="unknown_mode")
    question_of("?", "", variant)
    return variant


class MeasuredBody(BaseModel):
    done: int = Field(description="Questions asked, in each mode, and judged, of each pair.")
    total: int = Field(description="All of them.")


class EvaluationBody(BaseModel):
    """An evaluation of the history."""

    id: str = Field(description="Its id, which is that of its job too.")
    name: str = Field(description="What it is called.")
    state: State = Field(description="State of its job; done, failed and cancelled are final.")
    stage: str = Field(
        description="Stage at hand (prepare, measure, judge, conclude), the one it stopped at, or "
        "`done`."
    )
    progress: MeasuredBody = Field(description="How far it is.")
    error: FailureBody | None = Field(description="Why it failed, if it did.")
    created_at: datetime = Field(description="When it was asked for.")
    updated_at: datetime = Field(description="Last change of its job's stage or state.")

    @classmethod
    def of(cls, evaluation: Evaluation, job: Job) -> Self:
        return cls(**cls.facts(evaluation, job))

    @staticmethod
    def facts(evaluation: Evaluation, job: Job) -> dict[str, Any]:
        return {
            "id": evaluation.id,
            "name": evaluation.name,
            "state": job.state,
            "stage": "done" if job.state is State.DONE else job.stage,
            "progress": MeasuredBody(
                done=min(evaluation.measured, evaluation.total), total=evaluation.total
            ),
            "error": FailureBody.of(job.error),
            "created_at": moment(evaluation.created_at),
            "updated_at": moment(job.updated_at),
        }


class EvaluationDetailBody(EvaluationBody):
    result: dict[str, Any] | None = Field(
        description="What was measured, once it is done: `summary` in sentences; `modes` with "
        "figures, each with its 95 % interval; `comparisons`, `judged`, and every question. "
        "docs/evaluate.md says what each figure means."
    )

    @classmethod
    def of(cls, evaluation: Evaluation, job: Job) -> Self:
        result = json.loads(evaluation.result) if evaluation.result else None
        return cls(**cls.facts(evaluation, job), result=result)


class EvaluationListBody(BaseModel):
    evaluations: list[EvaluationBody] = Field(description="Newest first.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


@router.post(
    "/evaluations",
    status_code=202,
    summary="Measure modes on questions",
    dependencies=[JsonOnly],
    responses=responses(400, 401, 403, 409, 413, 415, 422, 503),
)
async def start_evaluation(
    body: EvaluationRequestBody, workspace: Writable, deployed: Deployed
) -> EvaluationBody:
    """Asks each question in each mode, on the documents of the workspace as they are, by a job that
    leaves room for uploads and questions of people. Nothing is written into the workspace but the
    result. It costs what the questions cost: with `answers` or `judge` calls of the model."""
    services, request = deployed.services, body.request()
    _refuse_without_model(request, services.models)
    await _refuse_unknown(workspace, request)
    await _refuse_many(workspace.evaluations, services, workspace.name)
    job = new_job(workspace.name, Plan.EVALUATE)
    evaluation = Evaluation(job.id, body.name, request.line(), request.total)
    await workspace.evaluations.open(evaluation, job)
    await send(services, [first_ticket(job.id, job.plan)])
    return EvaluationBody.of(
        await workspace.evaluations.get(job.id),
        await services.journal.job(workspace.name, job.id),
    )


@router.get(
    "/evaluations", summary="List evaluations", responses=responses(400, 401, 403, 422, 503)
)
async def list_evaluations(
    *,
    workspace: Readable,
    deployed: Deployed,
    limit: Annotated[int, Query(ge=1, le=100, description="Entries on a page.")] = 20,
    cursor: Annotated[
        str | None, Query(max_length=1024, description="`next` of the page before.")
    ] = None,
) -> EvaluationListBody:
    """A page of the history, newest first, without results."""
    found = await workspace.evaluations.page(after=after(cursor), limit=limit + 1)
    page, more = page_of(found, limit)
    journal = deployed.services.journal
    jobs = await asyncio.gather(*(journal.job(workspace.name, one.id) for one in page))
    return EvaluationListBody(
        evaluations=[EvaluationBody.of(*pair) for pair in zip(page, jobs, strict=True)],
        next=cursor_of(page[-1].id) if more else None,
    )


@router.get(
    "/evaluations/{evaluation_id}",
    summary="Get an evaluation",
    responses=responses(401, 403, 404, 422, 503),
)
async def get_evaluation(
    evaluation_id: EvaluationId, workspace: Readable, deployed: Deployed
) -> EvaluationDetailBody:
    """How far it is, and what it found. `GET /jobs/{id}/events` follows it, and
    `POST /jobs/{id}/cancel` stops it."""
    found = await workspace.evaluations.get(evaluation_id)
    job = await deployed.services.journal.job(workspace.name, evaluation_id)
    return EvaluationDetailBody.of(found, job)


@router.delete(
    "/evaluations/{evaluation_id}",
    status_code=204,
    summary="Delete an evaluation",
    responses=responses(401, 403, 404, 422, 503),
)
async def delete_evaluation(
    evaluation_id: EvaluationId, workspace: Writable, deployed: Deployed
) -> None:
    """Stops it, if it is running, and forgets it."""
    await workspace.evaluations.get(evaluation_id)
    await deployed.services.journal.close(workspace.name, evaluation_id, State.CANCELLED)
    if not await workspace.evaluations.remove(evaluation_id):
        raise NotFound(f"There is no evaluation {evaluation_id}.")


def _refuse_without_model(request: Request, models: Models) -> None:
    if models.referee is None and (request.pairs or request.generate):
        raise NoModel(judge.NO_MODEL if request.pairs else generate.NO_MODEL)
    modes = [Variant.of(one).mode for one in request.modes]
    if models.answerer.model is None and (taking := TAKE_A_MODEL.intersection(modes)):
        raise NoModel(f"The mode {min(taking)} takes a language model: set HELIOGRAPH_LLM_URL.")


async def _refuse_unknown(workspace: Workspace, request: Request) -> None:
    """Gold that is not there could never be found, and would look like a failure of every mode."""
    if not (await workspace.graph.stats()).documents:
        raise Conflict("The workspace has no documents to measure on.", code="no_documents")
    ids = set(_each(request, "gold_passage_ids"))
    known = {one.id for one in await workspace.documents.many(sorted(ids)) if one.live}
    if missing := sorted(ids - known):
        raise Invalid(
            f"{len(missing)} documents that questions name as gold are not there or not ready, "
            f"such as {missing[0]!r}.",
            code="unknown_gold",
        )
    for name in sorted(set(_each(request, "gold_document_names"))):
        if not await workspace.documents.matching({"name": name}, limit=1):
            raise Invalid(f"There is no document called {name!r}.", code="unknown_gold")


def _each(request: Request, field: str) -> Iterable[str]:
    return (value for row in request.questions for value in row[field])


async def _refuse_many(evaluations: Evaluations, services: Services, workspace: str) -> None:
    running = 0
    for one in await evaluations.page(limit=20):
        running += not (await services.journal.job(workspace, one.id)).state.final
    if running >= MAX_RUNNING:
        raise Conflict(
            f"{running} evaluations of this workspace are under way: wait for one to end, or "
            "delete it.",
            code="evaluations_running",
        )
