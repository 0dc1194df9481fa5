"""Communities in an archive, and out of it.

A report may only be where all the evidence is that it was made from. An archive is written while
the service works: it has the reports of communities that did not change meanwhile, and they are
restored where each member has as much evidence as it had then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict

from app.domain import Cluster, Community, Division, Kind, Mark, Point, Ref, Report
from app.paging import pages
from app.ports import Workspace
from app.upkeep.forms import Json, point_json
from app.upkeep.records import CommunityRecord, unpacked

PAGE = 64  # records a member of the archive
DIVISION = "division.json"


async def versions(workspace: Workspace) -> dict[str, tuple[int, int]]:
    """Of all communities: version and evidence, which no change leaves as they are."""
    found: dict[str, tuple[int, int]] = {}
    async for page in pages(workspace.communities.page, lambda one: one.id, 1000):
        found |= {one.id: (one.version, one.mentions) for one in page}
    return found


async def division_json(workspace: Workspace) -> Json | None:
    division = await workspace.communities.division()
    return asdict(division) if division else None


async def in_pages(
    workspace: Workspace, before: Mapping[str, tuple[int, int]]
) -> AsyncIterator[list[Json]]:
    """Communities with reports of those that are as they were `before` evidence was written."""
    async for clusters in pages(workspace.communities.clusters, lambda one: one.id, PAGE):
        found = {
            one.id: one for one in await workspace.communities.get([one.id for one in clusters])
        }
        keys = sorted({key for one in clusters for key in one.members})
        mentions = {one.key: one.mentions for one in await workspace.graph.entities(keys)}
        refs = [Ref(Kind.COMMUNITY, one.id) for one in found.values() if one.indexed]
        points = {point.ref.key: point for point in await workspace.vectors.read(refs)}
        if clusters:
            yield [
                _json(one, mentions, found.get(one.id), points.get(one.id), before)
                for one in clusters
            ]


def _json(
    cluster: Cluster, mentions: Mapping[str, int], community: Community | None,
    point: Point | None, before: Mapping[str, tuple[int, int]],
) -> Json:  # fmt: skip
    settled = community and before.get(community.id) == (community.version, community.mentions)
    told = community if community and settled else None
    return {
        "id": cluster.id, "level": cluster.level, "parent": cluster.parent, "leaf": cluster.leaf,
        "members": [{"key": key, "mentions": mentions.get(key, 0)} for key in cluster.members],
        "report": _report_json(told.report) if told and told.report else None,
        "covered": told.covered if told else 0, "digest": told.digest if told else "",
        "point": point_json(point) if told else None,
    }  # fmt: skip


def _report_json(report: Report) -> Json:
    findings = [
        {
            "summary": one.summary, "explanation": one.explanation,
            "refs": [ref._asdict() for ref in one.refs],
        }
        for one in report.findings
    ]  # fmt: skip
    return {**asdict(report), "findings": findings}


async def restore_division(workspace: Workspace, division: Division) -> None:
    await workspace.communities.begin(division.job_id, division.clustering)
    await workspace.communities.charge(division.usage)


async def restore_page(
    workspace: Workspace, job_id: str, page: Sequence[CommunityRecord], *, vectors: bool
) -> None:
    communities = workspace.communities
    clusters = [
        Cluster(one.id, one.level, one.parent, one.leaf, tuple(it.key for it in one.members))
        for one in page
    ]
    await communities.put(job_id, clusters)
    keys = sorted({member.key for one in page for member in one.members})
    mentions = {one.key: one.mentions for one in await workspace.graph.entities(keys)}
    stored = {one.id: one for one in await communities.get([one.id for one in page])}
    for one in page:
        whole = all(mentions.get(member.key) == member.mentions for member in one.members)
        if one.report and whole and one.id in stored:
            await _restore_report(workspace, stored[one.id], one.report, one, vectors=vectors)


async def _restore_report(
    workspace: Workspace, community: Community, report: Report, record: CommunityRecord, *,
    vectors: bool,
) -> None:  # fmt: skip
    ref = Ref(Kind.COMMUNITY, community.id)
    made = await workspace.communities.put_report(
        community.id, report, version=community.version, covered=record.covered
    )
    if not made or not vectors or not record.point:
        return
    await workspace.vectors.upsert([unpacked(record.point, ref)])
    await workspace.graph.mark_indexed([Mark(ref, community.version + 1, record.digest)])
