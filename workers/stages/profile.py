"""Descriptions to profiles: what is known of each changed entity and relation, in one text.

One description stays as it is, several short ones are joined without repeats. Beyond a token
threshold the profiler summarises, and again only when the evidence has grown by a fifth since; in
between, what a document adds is appended. A thousand documents about one thing so cost a few
summaries (logarithmically many), not a thousand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from app.domain import Entity, Evidence, Kind, Profile, Ref, Relation, Step, Usage
from app.errors import BadModelOutput, Invalid, NotFound
from app.ports import Models, Workspace
from app.together import outcomes
from workers.reach import reaches_beyond
from workers.shards import coded, decoded, shards

log = logging.getLogger("heliograph.profile")

SHARD = 64  # entities and relations a step
SAMPLE = 64  # descriptions that a profile is made from, at most
GROWTH = 1.2


async def of_document(workspace: Workspace, step: Step) -> list[list[str]]:
    return _shards(await workspace.graph.unprofiled(step.document_id))


async def of_workspace(workspace: Workspace, step: Step) -> list[list[str]]:
    return _shards(await workspace.graph.unprofiled())


async def beyond_document(workspace: Workspace, step: Step) -> list[list[str]]:
    return await of_workspace(workspace, step) if await reaches_beyond(workspace, step) else []


def _shards(refs: Sequence[Ref]) -> list[list[str]]:
    return shards([coded(ref) for ref in refs], SHARD)


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    refs = [decoded(code) for code in step.shard]
    profiler = _Profiler(workspace, models, step.document_id)
    try:
        evidence = await workspace.graph.evidence(refs, limit=SAMPLE)
        made = [profile for one in evidence if (profile := profiler.short(one))]
        short = {profile.ref for profile in made}
        long, failure = await outcomes(
            profiler.long(one) for one in evidence if one.ref not in short
        )
        made += long
    finally:
        await _charge(workspace, step, profiler.usage)
    await workspace.graph.put_profiles(made)
    if failure is not None:
        raise failure
    log.info(
        "profiles.made workspace=%s document=%s profiles=%d summaries=%d",
        workspace.name, step.document_id, len(made), profiler.summaries,
    )  # fmt: skip


async def _charge(workspace: Workspace, step: Step, usage: Usage) -> None:
    if usage == Usage():
        return
    try:
        await asyncio.shield(workspace.documents.charge(step.document_id, usage))
    except NotFound:  # profiles of the rest of the workspace, after a deletion
        log.debug("usage.unowned document=%s", step.document_id)


class _Profiler:
    def __init__(self, workspace: Workspace, models: Models, document_id: str) -> None:
        self._workspace, self._models, self._document_id = workspace, models, document_id
        self.usage = Usage()
        self.summaries = 0

    def short(self, evidence: Evidence) -> Profile | None:
        """Its descriptions as they are, where they are few. Not awaited, since nearly all are: a
        task for each cost as much as the rest."""
        descriptions = without_repeats(evidence.descriptions)
        text = "\n".join(descriptions)
        if len(descriptions) <= 1:
            text = self._models.tokenizer.cut(text, self._limit)
        elif self._models.tokenizer.count(text) > self._limit:
            return None
        return Profile(evidence.ref, text, evidence.revision, 0)

    async def long(self, evidence: Evidence) -> Profile:
        text, covered = await self._text(evidence)
        return Profile(evidence.ref, text, evidence.revision, covered)

    @property
    def _limit(self) -> int:
        options = self._workspace.options
        by_model = self._models.profiler.by_model
        return options.summary_threshold if by_model else options.profile_tokens

    async def _text(self, evidence: Evidence) -> tuple[str, int]:
        """The text, and how much evidence a summary in it covers (0: it is no summary)."""
        options, profiler, limit = self._workspace.options, self._models.profiler, self._limit
        descriptions = without_repeats(evidence.descriptions)
        if evidence.covered and evidence.covered <= evidence.count < evidence.covered * GROWTH:
            return await self._appended(evidence, limit), evidence.covered
        if profiler.by_model and (done := await self._done(evidence)):
            return done, 0  # another job of the same batch was here first
        self.summaries += 1
        try:
            summary = await self._models.joint.get(
                (self._workspace.name, evidence.ref, evidence.name, tuple(descriptions)),
                lambda: profiler.summarise(
                    evidence.name, descriptions, limit=options.profile_tokens
                ),
            )
        except (BadModelOutput, Invalid):  # its evidence is no worse for it: show that
            log.warning("summary.failed workspace=%s", self._workspace.name)
            joined = "\n".join(descriptions)
            return self._models.tokenizer.cut(joined, options.profile_tokens), 0
        self.usage += summary.usage
        return summary.text, evidence.count if profiler.by_model else 0

    async def _done(self, evidence: Evidence) -> str:
        """A profile of this very evidence, if there is one by now."""
        graph, key = self._workspace.graph, evidence.ref.key
        found: Sequence[Entity | Relation] = (
            await graph.entities([key])
            if evidence.ref.kind is Kind.ENTITY
            else await graph.relations([key])
        )
        return next((one.profile for one in found if one.profiled >= evidence.revision), "")

    async def _appended(self, evidence: Evidence, limit: int) -> str:
        """The present summary and this document's descriptions, as far as there is room."""
        added = await self._workspace.graph.evidence(
            [evidence.ref], limit=SAMPLE, documents=[self._document_id]
        )
        news = (text for one in added for text in one.descriptions)
        lines = [evidence.profile, *(text for text in news if text not in evidence.profile)]
        return self._models.tokenizer.cut("\n".join(without_repeats(lines)), limit)


def without_repeats(descriptions: Iterable[str]) -> list[str]:
    """In order, leaving out what an earlier one says word for word."""
    kept: list[str] = []
    for description in descriptions:
        text = description.strip()
        if text and not any(text in earlier for earlier in kept):
            kept.append(text)
    return kept
