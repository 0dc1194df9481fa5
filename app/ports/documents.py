"""Documents and evaluations of a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from app.domain import Document, Evaluation, Job, Revision, Scalar, Status, Usage

Condition = Scalar | Sequence[Scalar] | Mapping[Literal["gte", "gt", "lte", "lt"], str | float]


Filters = Mapping[str, Condition]


class Documents(Protocol):
    """Documents and the opening of their jobs. `job_id` arguments fence: where it is no longer the
    document's latest job, the call changes nothing."""

    async def submit(self, document_id: str, revision: Revision, job: Job) -> Document:
        """Store a revision as pending and open `job` (with its first step) in one transaction.
        Running jobs of the document are cancelled. If pending, while its job runs, or else live
        already holds the same source, name, metadata and date, nothing changes: the returned
        document's `job.id` then differs from `job.id`. After a job that failed, was cancelled or
        deletes, it is always a new job. The same `job.id` again changes nothing, even when other
        jobs came after it; `Conflict` if its document is gone by now. The document returned names
        the coming revision that it pushed aside (`superseded`); after a deletion that did not end
        also the visible one, which is visible no longer."""
        ...

    async def reopen(self, document_id: str, job: Job, *, again: Sequence[str] = ()) -> Document:
        """Open a job for what is stored (delete, retry); cancels running ones. An ingest takes over
        the chunks that the document's last ingest put; those of `again` whose reading failed are
        unread for it. After a deletion that did not end, live
        becomes pending too, since its chunks are to be read again. `NotFound` if unknown."""
        ...

    async def get(self, document_id: str) -> Document: ...

    async def page(
        self, *, status: Status | None = None, filters: Filters | None = None,
        after: str = "", limit: int = 50,
    ) -> list[Document]:  # fmt: skip
        """In the order of ids, those after `after`. Filters look at the live revision, else at the
        pending one."""
        ...

    async def many(self, ids: Sequence[str]) -> list[Document]: ...

    async def counts(self) -> dict[Status, int]: ...

    async def matching(self, filters: Filters, *, limit: int) -> list[str]:
        """Ids of documents with a live revision that meets all conditions: a metadata field, or the
        reserved `document_id`, `name`, `date`. A list means any of; of a list-valued field one
        element must match; a mapping is a range, all of whose limits the same value must meet.
        Text, numbers and truth values never match across (1 equals 1.0, not True and not "1").
        `date` is the revision's, else the time of its upload as ISO 8601, and compares as text.
        In the order of ids; `Invalid` for a range that is none."""
        ...

    async def parsed(self, document_id: str, job_id: str, *, text: str, title: str) -> None:
        """Record the parsed text (blob key) and title of the pending revision; clears warnings,
        which are kept aside where a revision is visible."""
        ...

    async def charge(self, document_id: str, usage: Usage, warnings: Sequence[str] = ()) -> None:
        """Add to its usage; warnings are kept once each. No-op for an unknown document."""
        ...

    async def note(
        self, document_id: str, job_id: str, *, without: Sequence[str], add: Sequence[str]
    ) -> None:
        """Drop some of its warnings and add others, each kept once."""
        ...

    async def publish(self, document_id: str, job_id: str) -> None:
        """Pending becomes live, version + 1, and the job's chunks are those of the visible
        revision; without a pending one, only that they are as the job put them. One that was never
        published but whose chunks can be seen, since a newer one came in between, counts as a
        version too: as with any replacement, it has left evidence that only it supported."""
        ...

    async def restore(self, document_id: str, job_id: str) -> None:
        """Undo what the coming revision changed of published chunks, and of warnings. Chunks whose
        evidence is to be counted again are then `unfolded` ones of the job."""
        ...

    async def remove(self, document_id: str, job_id: str) -> None:
        """Forget the document (its jobs stay readable) and its unfolded chunks. Folded ones must be
        retracted before: `Conflict`. Tombstones stay until forgotten."""
        ...

    async def blob_in_use(self, blob_key: str) -> bool:
        """Whether any revision of any workspace refers to the blob as source or text."""
        ...


class Evaluations(Protocol):
    """Measurements of the workspace and their history."""

    async def open(self, evaluation: Evaluation, job: Job) -> None:
        """Store it under the job's id and open the job, in one transaction. The same job again
        changes nothing."""
        ...

    async def get(self, evaluation_id: str) -> Evaluation:
        """Raises `NotFound`."""
        ...

    async def page(self, *, after: str = "", limit: int = 50) -> list[Evaluation]:
        """Newest first, without request and result; `after` is the id of the last one seen."""
        ...

    async def amend(self, evaluation_id: str, request: str, total: int) -> None:
        """Replace the request of one without a result; no-op for others."""
        ...

    async def put_outcomes(self, evaluation_id: str, lines: Mapping[str, str]) -> None:
        """Keep outcomes by key, the last of each; no-op once there is a result, or it is gone."""
        ...

    async def outcomes(self, evaluation_id: str) -> list[str]:
        """Those kept, by key; none once there is a result."""
        ...

    async def conclude(self, evaluation_id: str, result: str) -> None:
        """Store the result in place of the outcomes; the first one stays."""
        ...

    async def remove(self, evaluation_id: str) -> bool:
        """Forget it, with all that it measured; its job stays readable."""
        ...
