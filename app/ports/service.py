"""Stores of the whole service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.domain import ApiKey, Failure, Job, Opened, State, Status, Step, Ticket


class Journal(Protocol):
    """The durable half of the queue, for all workspaces. Time is that of the store.

    A job's first step is `<job>.<first stage>.0` and has an empty shard."""

    async def job(self, workspace: str, job_id: str) -> Job: ...

    async def jobs(
        self, workspace: str, *, document_id: str = "", state: State | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Job]:  # fmt: skip
        """Newest first; `after` is the id of the last one seen."""
        ...

    async def claim(self, step_id: str, *, lease: float, tries: int) -> Step | None:
        """Lease a step for so many seconds. None: done, cancelled, waiting for its time, or leased
        to another. When `tries` claims were used up the job is closed as failed (`worker_lost`)."""
        ...

    async def open(self, job: Job) -> None:
        """Open a job of the workspace (`document_id` empty) with its first step. The same id again
        changes nothing."""
        ...

    async def renew(self, step: Step, *, lease: float) -> bool:
        """False: the step is no longer this claim's; stop working on it. A claim whose lease ran
        out stays valid until another one is made."""
        ...

    async def finish(
        self, step: Step, *, shards: Sequence[Sequence[str]] = (),
        next_stage: str = "", next_status: Status = Status.READY, lease: float,
    ) -> Opened:  # fmt: skip
        """One transaction: remove the step; add `shards` as steps `<job>.<stage>.<n>` (n from 1) or
        count its own shard as done; if no step is open any more, open `<job>.<next_stage>.0`, or,
        without a next stage, close the job as done with `next_status`. With a next stage `shards`
        are of that one, and opened in place of its `0` (but not while other steps are open: whoever
        finishes last divides it). The first step opened is claimed for the caller, and `alone`
        where it is the only one. The job's status becomes `next_status` when the stage ends, and
        its `done` and `total` begin anew with each stage. Empty shards are left out. A claim that
        is no longer valid changes nothing."""
        ...

    async def release(self, step: Step, *, delay: float, error: str = "") -> Ticket | None:
        """Give a step back, to be claimed again after `delay`. With `error` the job counts a failed
        attempt; without one (worker stopping) the claim does not count."""
        ...

    async def close(
        self, workspace: str, job_id: str, state: State, error: Failure | None = None
    ) -> bool:
        """End a job (failed, cancelled) and drop its steps; False if it had ended already or is
        unknown. Where an ingest has left chunks visible that were never published, or changed
        published ones, this opens the document's next job in the same transaction: a withdrawal
        (`app.domain.withdrawal_of`), which shows the error, whatever comes of itself. The status
        becomes failed; a cancelled job without an error gets one with the code `cancelled`. The
        error's stage is the job's where it names none."""
        ...

    async def overdue(self, *, limit: int, lease: float) -> list[Ticket]:
        """Open steps whose lease or waiting time has run out, or that were never claimed and are
        older than a few seconds. `lease` is what workers give, the same everywhere: a time further
        ahead is of a clock that was set back since, and has run out too, here as for `claim`. Those
        that have waited longest come first."""
        ...

    async def resent(self, tickets: Sequence[Ticket], *, wait: float) -> None:
        """These were sent again: they are not overdue for so many seconds, unless they are claimed
        in between and lost once more. When they may be claimed is another matter."""
        ...


class Keyring(Protocol):
    async def find(self, digest: str) -> ApiKey | None: ...

    async def add(self, key: ApiKey) -> None: ...

    async def all(self) -> list[ApiKey]: ...

    async def revoke(self, key_id: str) -> bool: ...

    async def workspaces(self) -> list[str]:
        """Names of workspaces that hold documents."""
        ...


class Queue(Protocol):
    async def send(self, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
        """A ticket that is already waiting is not sent twice."""
        ...

    async def depth(self) -> int: ...
