"""Communities of entities and the reports on them: make or refresh them, list them, read one."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from app.api.deps import Deployed, Readable, Writable
from app.api.fields import Body
from app.api.graph import Cursor, Limit
from app.api.problems import responses
from app.api.schemas import (
    EntityBody,
    JobBody,
    UsageBody,
    after,
    cursor_of,
    page_of,
)
from app.domain import Clustering, Community, Division, Finding, Kind, Plan, Usage, first_ticket
from app.errors import NotFound
from app.upkeep.jobs import new_job, send

router = APIRouter(prefix="/graph/communities", tags=["graph"])

_DEFAULT = Clustering()
_NOTHING = Usage()


class ClusteringBody(Body):
    """How to divide the graph. What is left out is as the last time, else the default."""

    levels: int | None = Field(
        None, ge=1, le=10, description=f"Levels at most; {_DEFAULT.levels} at first.", examples=[3]
    )
    size: int | None = Field(
        None, ge=2, le=10_000, examples=[10],
        description="Entities beyond which a community is divided again, as long as there is a "
        f"level; those that hang on it by one relation do not count. {_DEFAULT.size} at first.",
    )  # fmt: skip
    resolution: float | None = Field(
        None, gt=0, le=100, examples=[1.0],
        description="Of modularity: more makes smaller communities; "
        f"{_DEFAULT.resolution} at first.",
    )  # fmt: skip

    def clustering(self, former: Clustering) -> Clustering:
        return Clustering(
            self.levels if self.levels is not None else former.levels,
            self.size if self.size is not None else former.size,
            self.resolution if self.resolution is not None else former.resolution,
        )


class CommunityBody(BaseModel):
    """Entities that are tied to each other more than to the rest."""

    id: str = Field(description="Id of the community; it stays while most members do.")
    level: int = Field(description="0: the coarsest.")
    parent_id: str | None = Field(description="Community of the level above that it is a part of.")
    leaf: bool = Field(description="It is divided no further.")
    size: int = Field(description="Entities in it.")
    state: Literal["current", "behind", "none"] = Field(
        description="Of the report: it covers all evidence, it lacks what came since, there is "
        "none (yet, or since evidence of it was taken back)."
    )
    written_by: str | None = Field(
        description="Model that wrote the report, or `rules`; null without one."
    )
    fault: str | None = Field(
        description="Why rules had to write it (`bad_model_output`); the next refresh tries again."
    )
    title: str | None = Field(description="Title of the report.")
    summary: str | None = Field(description="Its summary.")
    rating: float | None = Field(description="How much the community matters, 0 to 10.")

    @classmethod
    def of(cls, community: Community) -> CommunityBody:
        report = community.report
        state: Literal["current", "behind", "none"] = "none"
        if report:
            state = "current" if community.fresh else "behind"
        return cls(
            id=community.id, level=community.level, parent_id=community.parent or None,
            leaf=community.leaf, size=community.size, state=state,
            written_by=(report.model or "rules") if report else None,
            fault=(report.fault or None) if report else None,
            title=report.title if report else None, summary=report.summary if report else None,
            rating=report.rating if report else None,
        )  # fmt: skip


class FindingBody(BaseModel):
    """An insight of a report."""

    summary: str = Field(description="In a sentence, or the relation that it is about.")
    explanation: str = Field(description="In full.")
    entities: list[str] = Field(description="Ids of the entities that it rests on.")
    relations: list[list[str]] = Field(
        description="Relations that it rests on, each as the ids of its two entities."
    )

    @classmethod
    def of(cls, finding: Finding) -> FindingBody:
        return cls(
            summary=finding.summary,
            explanation=finding.explanation,
            entities=[ref.key for ref in finding.refs if ref.kind is Kind.ENTITY],
            relations=[ref.key.split("\t") for ref in finding.refs if ref.kind is Kind.RELATION],
        )


class CommunityDetailBody(CommunityBody):
    findings: list[FindingBody] = Field(description="Of its report, the most important first.")
    members: list[EntityBody] = Field(description="Its entities, most mentioned first.")
    next: str | None = Field(description="Cursor of further members; null on the last page.")


class CommunityListBody(BaseModel):
    communities: list[CommunityBody] = Field(description="In the order of their ids.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")
    levels: dict[str, int] = Field(description="How many communities each level has.")
    clustering: ClusteringBody | None = Field(
        description="How the graph was divided last; null: it never was."
    )
    job_id: str | None = Field(description="The job that divided it last.")
    usage: UsageBody = Field(description="What reports of this workspace have cost so far.")


@router.post(
    "",
    status_code=202,
    summary="Build or refresh communities",
    responses=responses(400, 401, 403, 422, 503),
)
async def build_communities(
    workspace: Writable, deployed: Deployed, body: ClusteringBody | None = None
) -> JobBody:
    """Divides the graph into a hierarchy of communities and has a report written on each, by a job.
    Communities whose members and evidence did not change keep their report; without any change no
    model is called. A job that is still at it is taken over."""
    division = await workspace.communities.division()
    former = division.clustering if division else _DEFAULT
    clustering = body.clustering(former) if body else former
    services, job = deployed.services, new_job(workspace.name, Plan.COMMUNITIES)
    await workspace.communities.begin(job.id, clustering)
    await services.journal.open(job)
    await send(services, [first_ticket(job.id, job.plan)])
    return JobBody.of(await services.journal.job(workspace.name, job.id))


@router.get("", summary="List communities", responses=responses(400, 401, 403, 422, 503))
async def list_communities(
    workspace: Readable,
    level: Annotated[int | None, Query(ge=0, le=100, description="Of this level only.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> CommunityListBody:
    """A page of communities with what their reports say."""
    found = await workspace.communities.page(level=level, after=after(cursor), limit=limit + 1)
    page, more = page_of(found, limit)
    levels = await workspace.communities.levels()
    division = await workspace.communities.division()
    return CommunityListBody(
        communities=[CommunityBody.of(one) for one in page],
        next=cursor_of(page[-1].id) if more else None,
        levels={str(number): count for number, count in levels.items()},
        clustering=_clustering(division),
        job_id=division.job_id if division else None,
        usage=UsageBody.of(division.usage if division else _NOTHING),
    )


@router.get(
    "/{community_id}",
    summary="Get a community",
    responses=responses(400, 401, 403, 404, 422, 503),
)
async def get_community(
    workspace: Readable,
    community_id: Annotated[str, Path(max_length=64, description="Id of a community.")],
    limit: Limit = 50,
    cursor: Cursor = None,
) -> CommunityDetailBody:
    """Its report and its members."""
    found = await workspace.communities.get([community_id])
    if not found:
        raise NotFound("There is no such community; a refresh may have replaced it.")
    keys = await workspace.communities.members(community_id, after=after(cursor), limit=limit + 1)
    page, more = page_of(keys, limit)
    report = found[0].report
    return CommunityDetailBody(
        **CommunityBody.of(found[0]).model_dump(),
        findings=[FindingBody.of(one) for one in report.findings] if report else [],
        members=[EntityBody.of(one) for one in await workspace.graph.entities(page)],
        next=cursor_of(page[-1]) if more else None,
    )


def _clustering(division: Division | None) -> ClusteringBody | None:
    if division is None:
        return None
    used = division.clustering
    return ClusteringBody(levels=used.levels, size=used.size, resolution=used.resolution)
