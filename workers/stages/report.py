"""Reports on communities that have none, or lack evidence that came since.

A report is made from the most central members and the strongest relations among them, within a
budget of tokens, and stored only if nothing of its evidence was taken back meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.domain import (
    Community,
    Entity,
    Evidence,
    Fact,
    Kind,
    Ref,
    Relation,
    Report,
    Step,
    Usage,
)
from app.errors import BadModelOutput, Invalid
from app.ports import Models, Workspace
from app.together import outcomes
from workers.shards import shards

log = logging.getLogger("heliograph.communities")

SHARD = 8  # reports a step
MEMBERS = 2000  # of a community that are looked at; the most mentioned of them are told of
ENTITIES, RELATIONS = 200, 400  # facts at most
PER_ENTITY = 50  # relations of a member that are read, heaviest first
SAMPLE = 64  # descriptions of what has no profile yet
TRIES = 3  # of a report whose evidence changes all the time
FRAME = 12  # tokens around a fact
BAD = "bad_model_output"


async def due(workspace: Workspace, step: Step) -> list[list[str]]:
    if not await _its(workspace, step):
        return []
    return shards(await workspace.communities.due(), SHARD)


async def _its(workspace: Workspace, step: Step) -> bool:
    """A job that began since writes the reports."""
    division = await workspace.communities.division()
    return division is not None and division.job_id == step.job_id


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    if not await _its(workspace, step):
        return
    writing = _Writing(workspace, models)
    found = await workspace.communities.get(step.shard)
    try:
        made, failure = await outcomes(writing.report(one) for one in found)
    finally:
        if writing.usage != Usage():
            await asyncio.shield(workspace.communities.charge(writing.usage))
    if failure is not None:
        raise failure
    log.info(
        "reports.written workspace=%s reports=%d by_rules=%d void=%d",
        workspace.name, sum(made), writing.by_rules, len(made) - sum(made),
    )  # fmt: skip


@dataclass(slots=True)
class _Writing:
    workspace: Workspace
    models: Models
    usage: Usage = field(default_factory=Usage)
    by_rules: int = 0

    async def report(self, community: Community) -> bool:
        """Whether it was stored. One that is done already costs nothing: a step may run twice."""
        for _ in range(TRIES):
            if community.fresh and community.report and not community.report.fault:
                return True
            facts = await facts_of(self.workspace, self.models, community)
            report = await self._written(community, facts)
            if await self.workspace.communities.put_report(
                community.id, report, version=community.version, covered=community.mentions
            ):
                return True
            found = await self.workspace.communities.get([community.id])
            if not found:
                return False
            [community] = found
        return False

    async def _written(self, community: Community, facts: Sequence[Fact]) -> Report:
        reporter = self.models.reporter
        if not reporter.by_model or community.size < self.workspace.options.report_size:
            return await self._by_rules(facts)
        try:
            made = await reporter.report(facts)
        except (BadModelOutput, Invalid):
            return await self._in_place(facts)
        self.usage += made.usage
        return made.report or await self._in_place(facts)

    async def _in_place(self, facts: Sequence[Fact]) -> Report:
        """Of one that the model did not write: its facts are no worse for it."""
        log.warning("report.failed workspace=%s", self.workspace.name)
        return replace(await self._by_rules(facts), fault=BAD)

    async def _by_rules(self, facts: Sequence[Fact]) -> Report:
        self.by_rules += 1
        made = await self.models.plain_reporter.report(facts)
        assert made.report is not None, "rules always write one"
        return made.report


# --- what a report is made from ------------------------------------------------------------------


async def facts_of(workspace: Workspace, models: Models, community: Community) -> list[Fact]:
    """Entities, most mentioned first, then the relations among members, heaviest first; each part
    within half of the budget. The order of names decides between equals, since keys depend on what
    came first."""
    graph = workspace.graph
    keys = await workspace.communities.members(community.id, limit=MEMBERS)
    members = {one.key: one for one in await graph.entities(keys)}
    central = sorted(members.values(), key=lambda one: (-one.mentions, -one.degree, one.name))
    central = central[:ENTITIES]
    around = await graph.relations_of([one.key for one in central], per_entity=PER_ENTITY)
    inner = [one for one in around if one.source in members and one.target in members]
    inner.sort(key=lambda one: (-one.weight, *_names(one)))
    inner = inner[:RELATIONS]
    texts = await _texts(workspace, central, inner)
    half = workspace.options.report_tokens // 2
    told = [
        Fact(ref, one.name, one.kind, texts.get(ref, ""), one.mentions)
        for one in central
        for ref in (Ref(Kind.ENTITY, one.key),)
    ]
    stated = [
        Fact(ref, " -- ".join(_names(one)), ", ".join(one.keywords), texts.get(ref, ""), one.weight)
        for one in inner
        for ref in (Ref(Kind.RELATION, one.key),)
    ]
    return [*_within(models, told, half), *_within(models, stated, half)]


def _names(relation: Relation) -> list[str]:
    return sorted((relation.source_name, relation.target_name))


async def _texts(
    workspace: Workspace, entities: Sequence[Entity], relations: Sequence[Relation]
) -> dict[Ref, str]:
    """Profiles; of what has newer evidence its descriptions, since the profile may tell what was
    taken back."""
    every: list[tuple[Ref, Entity | Relation]] = [
        *((Ref(Kind.ENTITY, one.key), one) for one in entities),
        *((Ref(Kind.RELATION, one.key), one) for one in relations),
    ]
    texts = {ref: one.profile for ref, one in every if one.profiled == one.revision}
    behind = [ref for ref, _ in every if ref not in texts]
    if behind:
        for row in await workspace.graph.evidence(behind, limit=SAMPLE):
            texts[row.ref] = _joined(row)
    return texts


def _joined(evidence: Evidence) -> str:
    return "\n".join(dict.fromkeys(text.strip() for text in evidence.descriptions if text.strip()))


def _within(models: Models, facts: Sequence[Fact], room: int) -> list[Fact]:
    """From the first on; the last one is cut to fit."""
    kept: list[Fact] = []
    for fact in facts:
        size = models.tokenizer.count(f"{fact.name} ({fact.kind}): {fact.text}") + FRAME
        if size > room:
            if not kept:
                kept.append(replace(fact, text=models.tokenizer.cut(fact.text, max(room, FRAME))))
            break
        kept.append(fact)
        room -= size
    return kept
