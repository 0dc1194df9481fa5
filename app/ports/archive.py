"""A workspace's graph store below what queries see: for upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.domain import Document, Kind, Placement, Ref, Ruling, Stats
from app.holdings import (
    HeldAlias,
    HeldAssertion,
    HeldChunk,
    HeldEntity,
    HeldMention,
    HeldName,
    HeldPlacement,
    HeldRelation,
    JobFault,
)


class Repairs(Protocol):
    """What `check` compares counters with, and how it mends them: from the evidence, which is
    counted anew, and from what chunks say."""

    async def told_of(
        self, kind: Kind, keys: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        """Evidence of entities or relations by visible chunks."""
        ...

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        """How many relations with evidence each of these entities has."""
        ...

    async def placements_of(self, names: Sequence[str]) -> list[Placement]: ...

    async def strays(self) -> list[Ref]:
        """Entities and relations with evidence by chunks that are not visible."""
        ...

    async def counted(self) -> Stats:
        """What `stats` should say."""
        ...

    async def refold(self, chunk_ids: Sequence[str]) -> None:
        """Replace the evidence of visible chunks by what they say, and count its owners anew."""
        ...

    async def recount(self, refs: Sequence[Ref]) -> None:
        """Drop evidence by chunks that are not visible; set everything that is counted, with the
        ends of relations. What changed is to be profiled and indexed again."""
        ...

    async def recount_names(self, keys: Sequence[str]) -> None:
        """Set what is counted of these names; those whose facts change are open then."""
        ...

    async def recount_totals(self) -> None:
        """Set what `stats` says, and how many chunks each document has."""
        ...

    async def job_faults(self) -> list[JobFault]: ...

    async def mend_job(self, fault: JobFault) -> None:
        """Drop the steps of an ended job; give a document a job that failed in place of a lost
        one. A job without a step is ended as failed."""
        ...


class Archive(Repairs, Protocol):
    """All that the graph store holds of the workspace, for fingerprint, backup and check. Pages are
    in the order of keys, behind `after`; one shorter than `limit` is the last. What is written
    meanwhile may be seen or not."""

    async def chunks(
        self, *, document_id: str = "", after: str = "", limit: int
    ) -> list[HeldChunk]:
        """By id: visible ones, put ones and tombstones; of one document, or all."""
        ...

    async def evidence(
        self, chunk_ids: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        """What is counted for these chunks, by chunk and key."""
        ...

    async def entities(self, *, after: str = "", limit: int) -> list[HeldEntity]:
        """By key, with those that have lost all evidence."""
        ...

    async def relations(self, *, after: str = "", limit: int) -> list[HeldRelation]: ...

    async def aliases(self, *, after: str = "", limit: int) -> list[HeldAlias]: ...

    async def names(self, *, after: str = "", limit: int) -> list[HeldName]: ...

    async def rulings(self, *, after: str = "", limit: int) -> list[Ruling]:
        """Of users and models; `after` is `one`, `other` and `by` joined by tabs."""
        ...

    async def placements(self, *, after: str = "", limit: int) -> list[HeldPlacement]:
        """`after` is `key` and `scope` joined by a tab."""
        ...

    async def admit_names(
        self, rulings: Sequence[Ruling], placements: Sequence[HeldPlacement]
    ) -> None:
        """Store what was decided elsewhere, before there is evidence that would have to move."""
        ...

    async def dates(self, document_ids: Sequence[str]) -> dict[str, str]:
        """What filters by `date` look at, of visible revisions: the time of the upload, where no
        date was given, is nowhere else."""
        ...

    async def admit(self, document: Document, date: str) -> None:
        """Give a stored document the version, usage, warnings, times and date of this one."""
        ...
