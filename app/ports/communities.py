"""Communities of a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.domain import Cluster, Clustering, Community, Division, Report, Usage


class Communities(Protocol):
    """Groups of entities and reports on them. Members are present entities: one that loses all
    evidence leaves its communities, and one without members is no more. Where evidence of a member
    is taken back, the same transaction forgets the reports of its communities: no report is ever
    stored that rests on evidence which is not. Vectors are told by `unindexed`, as of entities."""

    async def division(self) -> Division | None:
        """None: there never were communities."""
        ...

    async def begin(self, job_id: str, clustering: Clustering) -> None:
        """This job divides the graph from now on; earlier ones change nothing any more."""
        ...

    async def charge(self, usage: Usage) -> None:
        """Add to what reports have cost. No-op where nothing ever began."""
        ...

    async def put(self, job_id: str, clusters: Sequence[Cluster]) -> bool:
        """Make or change these. A report stays where no member leaves; one in the making is void
        where members change. Keys without evidence are left out. False, and nothing changes, if
        it is not the job that divides."""
        ...

    async def drop(self, job_id: str, ids: Sequence[str]) -> bool:
        """False, and nothing changes, if it is not the job that divides."""
        ...

    async def put_report(
        self, community_id: str, report: Report, *, version: int, covered: int
    ) -> bool:
        """False, and nothing changes, if the version is another by now, or the community gone."""
        ...

    async def get(self, ids: Sequence[str]) -> list[Community]: ...

    async def page(
        self, *, level: int | None = None, after: str = "", limit: int = 50
    ) -> list[Community]:
        """By id, those behind `after`; of one level or all."""
        ...

    async def at_level(self, level: int, *, limit: int) -> list[Community]:
        """Those into which the level divides the graph, leaves above it included, that have a
        report: highest rating first, then by id."""
        ...

    async def clusters(self, *, after: str = "", limit: int) -> list[Cluster]:
        """All with their members, by id, those behind `after`."""
        ...

    async def levels(self) -> dict[int, int]:
        """How many communities each level has."""
        ...

    async def members(self, community_id: str, *, after: str = "", limit: int) -> list[str]:
        """Entity keys, most mentioned first, then in their order; those behind the key `after`."""
        ...

    async def of_entities(self, keys: Sequence[str], *, level: int) -> dict[str, str]:
        """Entity key -> the community that the level, or the last one above it, puts it in."""
        ...

    async def due(self) -> list[str]:
        """Ids of those without a report, whose report lacks evidence, or is not the model's that
        it should be; those of lower levels (higher numbers) first."""
        ...
