"""Jobs, their steps and what the queue carries of them; what work cost and how it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.domain.ids import derive_id


class Status(StrEnum):
    """State of a document as callers see it; derived from its latest job."""

    QUEUED = "queued"
    PARSING = "parsing"
    EXTRACTING = "extracting"
    MERGING = "merging"
    INDEXING = "indexing"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


class State(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (State.DONE, State.FAILED, State.CANCELLED)


class Plan(StrEnum):
    """Kind of a job; `workers.plans` says which stages each has."""

    INGEST = "ingest"
    DELETE = "delete"
    WITHDRAW = "withdraw"  # of what an ingest that was cancelled or failed has left visible
    CURATE = "curate"  # of the workspace: it has no document
    REBUILD = "rebuild"  # of the workspace: its graph anew from what was read
    EVALUATE = "evaluate"  # of the workspace: its modes measured on questions
    COMMUNITIES = "communities"  # of the workspace: its graph in groups, and reports on them


FIRST_STAGE: Mapping[Plan, str] = {
    Plan.INGEST: "parse", Plan.DELETE: "retract", Plan.WITHDRAW: "withdraw",
    Plan.CURATE: "resolve", Plan.REBUILD: "refold",
    Plan.EVALUATE: "prepare", Plan.COMMUNITIES: "cluster",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usage:
    """Model calls and what they cost. `cost` is in the currency of the price settings."""

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.llm_calls + other.llm_calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed, for people (`message`) and programs (`code`)."""

    code: str
    message: str
    stage: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Job:
    """A plan carried out for one document, or for the whole workspace (`document_id` empty).
    `done` and `total` count units of the current stage."""

    id: str
    workspace: str
    plan: Plan
    document_id: str
    state: State = State.QUEUED
    status: Status = Status.QUEUED
    stage: str = ""
    done: int = 0
    total: int = 0
    attempts: int = 0  # failed tries of its steps so far
    error: Failure | None = None
    created_at: float = 0.0
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """A claimed unit of work. An empty shard means: divide the stage first."""

    id: str  # <job>.<stage>.<n>
    job_id: str
    workspace: str
    plan: Plan
    document_id: str
    stage: str
    shard: tuple[str, ...]
    attempt: int  # 1 for the first claim; fences writes of earlier claims
    tries: int = 1  # claims that count against the limit: all but those given back by a stop
    alone: bool = False  # known to be the only open step of its job


class Ticket(NamedTuple):
    """What the queue carries. `attempt` = claims so far: a redelivery has a new identity."""

    step_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Opened:
    """What `Journal.finish` opened: a step already claimed for the caller, others to be sent."""

    step: Step | None = None
    send: tuple[Ticket, ...] = ()
    job_done: bool = False


def withdrawal_id(job_id: str) -> str:
    """Of the job that takes back what this one left visible, if it ended with something left."""
    return derive_id("", "withdraw", job_id).replace("-", "")


def first_ticket(job_id: str, plan: Plan) -> Ticket:
    """Of the step with which every job begins."""
    return Ticket(f"{job_id}.{FIRST_STAGE[plan]}.0", 0)


def withdrawal_of(job_id: str) -> Ticket:
    """Its first step, for the queue: where there is none, nobody can claim it."""
    return first_ticket(withdrawal_id(job_id), Plan.WITHDRAW)
