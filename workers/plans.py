"""What a job does: each plan is a tuple of stages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from app.domain import FIRST_STAGE, Plan, Status, Step
from app.ports import Models, Workspace
from workers.stages import (
    cluster,
    evaluate,
    extract,
    index,
    merge,
    parse,
    profile,
    publish,
    recount,
    refold,
    remove,
    report,
    resolve,
    retract,
    withdraw,
)

Shards = list[list[str]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass over a document. Without `split` it is a single step; with it, one step a shard.

    `run` and `split` may be repeated at any time: they only look at what the stores hold. `durable`
    keeps even a single shard in the journal before it runs, unless it names nothing, for work that
    deletes what `split` read it from, or whose repetition must cover the same."""

    name: str
    status: Status
    run: Callable[[Workspace, Models, Step], Awaitable[None]]
    split: Callable[[Workspace, Step], Awaitable[Shards]] | None = None
    durable: bool = False


PLANS: dict[Plan, tuple[Stage, ...]] = {
    Plan.INGEST: (
        Stage("parse", Status.PARSING, parse.run),
        Stage("extract", Status.EXTRACTING, extract.run, extract.unread),
        Stage("merge", Status.MERGING, merge.run),
        Stage("resolve", Status.MERGING, resolve.run, resolve.due),
        Stage("profile", Status.MERGING, profile.run, profile.of_document),
        Stage("index", Status.INDEXING, index.run, index.of_document, durable=True),
        Stage("publish", Status.INDEXING, publish.run, publish.replaced, durable=True),
        # only where an earlier version left something behind, or other documents' evidence moved
        Stage("retire", Status.INDEXING, retract.run, retract.retired),
        Stage("resettle", Status.INDEXING, resolve.run, resolve.due),
        Stage("reprofile", Status.INDEXING, profile.run, profile.beyond_document),
        Stage("reindex", Status.INDEXING, index.run, index.beyond_document, durable=True),
        Stage("tidy", Status.INDEXING, resolve.tidy, resolve.moved),
    ),
    Plan.DELETE: (
        Stage("retract", Status.DELETING, retract.run, retract.retired),
        Stage("resolve", Status.DELETING, resolve.run, resolve.due),
        Stage("reprofile", Status.DELETING, profile.run, profile.of_workspace),
        Stage("reindex", Status.DELETING, index.run, index.of_workspace, durable=True),
        Stage("tidy", Status.DELETING, resolve.tidy, resolve.moved),
        Stage("remove", Status.DELETING, remove.run, remove.blobs, durable=True),
    ),
    Plan.WITHDRAW: (
        Stage("withdraw", Status.MERGING, withdraw.run),
        Stage("resolve", Status.MERGING, resolve.run, resolve.due),
        Stage("reprofile", Status.INDEXING, profile.run, profile.of_workspace),
        Stage("reindex", Status.INDEXING, index.run, index.of_workspace),
        Stage("tidy", Status.INDEXING, resolve.tidy, resolve.moved),
    ),
    Plan.CURATE: (
        Stage("resolve", Status.MERGING, resolve.run),
        Stage("reprofile", Status.INDEXING, profile.run, profile.of_workspace),
        Stage("reindex", Status.INDEXING, index.run, index.of_workspace, durable=True),
        Stage("tidy", Status.INDEXING, resolve.tidy, resolve.moved),
    ),
    Plan.COMMUNITIES: (
        Stage("cluster", Status.MERGING, cluster.run),
        Stage("report", Status.MERGING, report.run, report.due),
        Stage("reindex", Status.INDEXING, index.run, index.of_workspace, durable=True),
    ),
    Plan.REBUILD: (
        Stage("refold", Status.MERGING, refold.run, refold.documents),
        Stage("recount", Status.MERGING, recount.run, recount.everything),
        Stage("totals", Status.MERGING, recount.totals),
        Stage("resolve", Status.MERGING, resolve.run),
        Stage("reprofile", Status.INDEXING, profile.run, profile.of_workspace),
        Stage("reindex", Status.INDEXING, index.run, index.of_workspace, durable=True),
        Stage("tidy", Status.INDEXING, resolve.tidy, resolve.moved),
    ),
    Plan.EVALUATE: (
        Stage("prepare", Status.INDEXING, evaluate.prepare),
        Stage("measure", Status.INDEXING, evaluate.measure, evaluate.lanes, durable=True),
        Stage("judge", Status.INDEXING, evaluate.compare, evaluate.judging, durable=True),
        Stage("conclude", Status.INDEXING, evaluate.conclude),
    ),
}

assert all(PLANS[plan][0].name == first for plan, first in FIRST_STAGE.items())


# A withdrawal ends where the job ended that it cleans up after.
ENDS: Mapping[Plan, Status] = {Plan.WITHDRAW: Status.FAILED}


def recorded(stage: Stage, shards: Shards) -> bool:
    """Whether the journal has to know these shards before they run."""
    return len(shards) > 1 or (stage.durable and any(shards))


def joined(stage: Stage, later: Stage, shards: Shards) -> bool:
    """Whether a later stage runs in the claim of this one: its repetition repeats both then, and
    what callers see of the job stays true. (11 records of a short document in the journal so became
    6.)"""
    same = not stage.durable and later.status is stage.status
    return same and not recorded(later, shards)


def stage(plan: Plan, name: str) -> Stage:
    return next(stage for stage in PLANS[plan] if stage.name == name)


def following(plan: Plan, name: str) -> list[Stage]:
    """The stages after the named one, in order."""
    names = [stage.name for stage in PLANS[plan]]
    return list(PLANS[plan][names.index(name) + 1 :])
