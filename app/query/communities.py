"""Mode community: GraphRAG's global search (Edge et al. 2024, arXiv 2404.16130).

A question is put to reports on communities, all of a level or those nearest to it: each batch of
reports gives key points with a score (map), the best points become the themes of one context, and
the passages behind them its sources, so that the answer (reduce) can cite documents.

Reports mix what all documents say. Under filters, and where there are none yet, the points are what
the matching evidence says of the nearest relations, in turns from the communities that they are in.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import (
    Community,
    Finding,
    Hit,
    KeyPoint,
    Kind,
    Question,
    Ref,
    Report,
    Theme,
    Usage,
    Vector,
    VectorQuery,
    relation_ends,
)
from app.errors import BadModelOutput, Invalid
from app.ports import Models, Workspace
from app.query import direct
from app.query.found import Clock, Found
from app.query.ranking import best_first, fuse, spread, take_turns
from app.query.scope import Scope, scope_of
from app.terms import query_sparse
from app.together import together

log = logging.getLogger("heliograph.query")

NEAREST = 10  # reports of the cheaper search
MAP_TOKENS = 6000  # of reports in one call, as the paper's best context window (8k) leaves for them
LIKENESS = 40.0  # score of the report nearest to the question, beside its words; by rules only
PER_REF = 16  # passages of an entity or relation that are read
DESCRIPTIONS = 4  # of a relation, where there is no report
ENTITIES, RELATIONS = 10, 20  # of those behind the points that the context shows
MOST_CHUNKS = 2000  # candidates that are compared with the question
TIED = 0.5  # weight of the points that a passage supports beside its nearness to the question

FILTERED = (
    "Reports on communities tell of all documents: with filters, what matching documents say of "
    "relations is used instead."
)
UNBUILT = (
    "No communities are built in this workspace (POST /graph/communities builds them): what "
    "documents say of relations is used instead."
)
UNREPORTED = (
    "No community of this level has a report yet: what documents say of relations is used instead."
)


async def community(
    workspace: Workspace, models: Models, question: Question, clock: Clock
) -> Found:
    with clock.stage("embed"):
        made = await models.embedder.embed([question.text], purpose="query")
    clock.usage += made.usage
    asking = _Asking(workspace, models, question, made.vectors[0])
    chosen: list[Community] = []
    if question.documents is None:
        with clock.stage("search"):
            chosen = await asking.reports()
    if not chosen:
        return await asking.without_reports(clock)
    with clock.stage("map"):
        points = await asking.points(chosen)
    clock.usage += asking.usage
    with clock.stage("evidence"):
        return await asking.found(chosen, points)


@dataclass(slots=True)
class _Asking:
    workspace: Workspace
    models: Models
    question: Question
    vector: Vector
    usage: Usage = field(default_factory=Usage)
    unreadable: int = 0  # replies that were no list of points

    # --- which reports ---------------------------------------------------------------------------

    async def reports(self) -> list[Community]:
        communities, most = self.workspace.communities, self.workspace.options.community_reports
        if self.question.community_search == "level":
            level = self.question.community_level
            rated = await communities.at_level(level, limit=most)
            if len(rated) < most or self.models.reporter.by_model:
                return rated
            # Rules read for nothing: also what is near, and not among the best rated.
            known = {one.id for one in rated}
            near = [one for one in await self._near(most) if one.id not in known]
            return rated + [one for one in near if one.level == level or _above(one, level)]
        limit = min(NEAREST, most)
        return _apart(await self._near(limit))[:limit]

    async def _near(self, limit: int) -> list[Community]:
        """Reported ones of any level, nearest first; more than the limit."""
        hits = await self._nearest(Kind.COMMUNITY, 4 * limit)
        found = await self.workspace.communities.get([hit.key for hit in hits])
        return [one for one in found if one.report is not None]

    async def _nearest(
        self, kind: Kind, limit: int, *, within: Sequence[str] | None = None
    ) -> list[Hit]:
        """By meaning and by words, fused by place."""
        rankings = await self.workspace.vectors.search(
            [
                direct.by_meaning(kind, limit, self.vector, within=within),
                VectorQuery(kind, limit, sparse=query_sparse(self.question.text), within=within),
            ]
        )
        return fuse([hit.key for hit in hits] for hits in rankings)

    # --- map -------------------------------------------------------------------------------------

    async def points(self, chosen: Sequence[Community]) -> list[KeyPoint]:
        """Best first; `report` is the place among the chosen ones."""
        reports = [one.report for one in chosen if one.report is not None]
        reporter = self.models.reporter
        batches = self._batches(reports) if reporter.by_model else [range(len(reports))]
        turns = asyncio.Semaphore(self.workspace.options.community_calls)

        async def asked(places: Sequence[int]) -> list[KeyPoint]:
            async with turns:
                found = await self._asked([reports[place] for place in places])
            return [one._replace(report=places[one.report]) for one in found]

        async with together() as tasks:
            made = [tasks.create_task(asked(places)) for places in batches]
        points = [one for task in made for one in task.result()]
        if not reporter.by_model:
            points += await self._by_likeness(chosen, points)
        rating = [report.rating for report in reports]
        return sorted(points, key=lambda one: (-one.score, -rating[one.report], one.text))

    def _batches(self, reports: Sequence[Report]) -> list[Sequence[int]]:
        count = self.models.tokenizer.count
        batches: list[list[int]] = [[]]
        room = MAP_TOKENS
        for place, report in enumerate(reports):
            size = count("\n".join([report.title, report.summary, *map(_told, report.findings)]))
            if batches[-1] and size > room:
                batches.append([])
                room = MAP_TOKENS
            batches[-1].append(place)
            room -= size
        return [batch for batch in batches if batch]

    async def _asked(self, reports: Sequence[Report]) -> Sequence[KeyPoint]:
        """A reply that is none costs its batch the model's judgement, not the answer."""
        try:
            made = await self.models.reporter.points(self.question, reports)
        except (BadModelOutput, Invalid):
            made = None
        if made is not None:
            self.usage += made.usage
            if made.readable:
                return made.points
        self.unreadable += 1
        log.warning("points.failed workspace=%s reports=%d", self.workspace.name, len(reports))
        return (await self.models.plain_reporter.points(self.question, reports)).points

    async def _by_likeness(
        self, chosen: Sequence[Community], points: Sequence[KeyPoint]
    ) -> list[KeyPoint]:
        """Openings of reports that share no word with the question, but are near to it."""
        ids = [one.id for one in chosen]
        [hits] = await self.workspace.vectors.search(
            [direct.by_meaning(Kind.COMMUNITY, len(ids), self.vector, within=ids)]
        )
        near = spread(hits, len(ids))
        spoken = {one.report for one in points}
        return [
            KeyPoint(place, one.report.summary, LIKENESS * near[one.id], _refs(one.report))
            for place, one in enumerate(chosen)
            if one.report is not None and place not in spoken and near.get(one.id, 0.0) > 0
        ]

    # --- what stands behind the points -----------------------------------------------------------

    async def found(self, chosen: Sequence[Community], points: Sequence[KeyPoint]) -> Found:
        top = points[: self.question.top_k]
        ties = await self._ties([(one.refs, one.score) for one in top])
        chunks, likeness = await self._ranked(ties, None)
        if self.models.reporter.by_model and not self.unreadable and top:
            likeness = max(likeness, top[0].score / 100)  # the model has judged it
        levels = await self.workspace.communities.levels()
        entities, relations = _behind([(one.refs, one.score) for one in top])
        return Found(
            chunks=tuple(chunks),
            entities=entities,
            relations=relations,
            likeness=likeness,
            themes=tuple(
                Theme(_title(chosen[one.report]), one.text, one.score, chosen[one.report].id)
                for one in top
            ),
            explain={
                "communities": {
                    "built": {str(level): count for level, count in levels.items()},
                    "search": self.question.community_search,
                    "level": self.question.community_level,
                    "reports": len(chosen),
                    "not_current": sum(not one.fresh for one in chosen),
                    "points": len(points),
                    "unreadable": self.unreadable,
                }
            },
        )

    async def _ties(
        self, told: Sequence[tuple[Sequence[Ref], float]], documents: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Passages that say what the points rest on, by the scores of these."""
        graph = self.workspace.graph
        refs = {ref for own, _ in told for ref in own}
        entities = sorted(ref.key for ref in refs if ref.kind is Kind.ENTITY)
        relations = sorted(ref.key for ref in refs if ref.kind is Kind.RELATION)
        links, stated = await asyncio.gather(
            graph.entity_links(entities, chunks=PER_REF, about=4, documents=documents),
            graph.relation_chunks(relations, per_relation=PER_REF, documents=documents),
        )
        said = {Ref(Kind.RELATION, key): chunks for key, chunks in stated.items()}
        said |= {Ref(Kind.ENTITY, one.key): [*one.chunks, *one.about] for one in links}
        ties: defaultdict[str, float] = defaultdict(float)
        for own, score in told:
            for chunk in {chunk for ref in own for chunk in said.get(ref, ())}:
                ties[chunk] += score
        return ties

    async def _ranked(
        self, ties: Mapping[str, float], documents: Sequence[str] | None
    ) -> tuple[list[Hit], float]:
        """By nearness to the question, and half as much by the points that they support; with the
        cosine of the nearest."""
        candidates = sorted(ties)[:MOST_CHUNKS]
        if not candidates:
            return [], 0.0
        limit, text = len(candidates), self.question.text
        dense, sparse = await self.workspace.vectors.search(
            [
                direct.by_meaning(
                    Kind.CHUNK, limit, self.vector, within=candidates, documents=documents
                ),
                VectorQuery(
                    Kind.CHUNK, limit, sparse=query_sparse(text), within=candidates,
                    documents=documents,
                ),
            ]
        )  # fmt: skip
        weight = self.workspace.options.dense_weight
        near, words = spread(dense, limit), spread(sparse, limit)
        most = max(ties.values()) or 1.0
        scores = {
            key: TIED * ties[key] / most
            + (words.get(key, 0.0) + weight * near.get(key, 0.0)) / (1 + weight)
            for key in candidates
        }
        return best_first(scores), dense[0].score if dense else 0.0

    # --- without reports -------------------------------------------------------------------------

    async def without_reports(self, clock: Clock) -> Found:
        """What the nearest relations say, in turns from their communities."""
        question, graph = self.question, self.workspace.graph
        with clock.stage("search"):
            scope, levels = await asyncio.gather(
                scope_of(self.workspace, question), self.workspace.communities.levels()
            )
            if scope.empty:
                return Found()
            hits = await self._nearest(Kind.RELATION, 4 * question.top_k, within=scope.relations)
            turns = await self._in_turns(hits)
        with clock.stage("evidence"):
            refs = [Ref(Kind.RELATION, hit.key) for hit in turns[: 2 * question.top_k]]
            rows = await graph.evidence(refs, limit=DESCRIPTIONS, documents=scope.documents)
            told = [row for row in rows if row.descriptions][: question.top_k]
            scores = {row.ref: 100.0 / place for place, row in enumerate(told, start=1)}
            ties = await self._ties([([row.ref], scores[row.ref]) for row in told], scope.documents)
            chunks, likeness = await self._ranked(ties, scope.documents)
        entities, relations = _behind([([row.ref], scores[row.ref]) for row in told])
        built = {str(level): count for level, count in levels.items()}
        return Found(
            chunks=tuple(chunks),
            entities=entities,
            relations=relations,
            likeness=likeness,
            themes=tuple(
                Theme(row.name, " ".join(dict.fromkeys(row.descriptions)), scores[row.ref])
                for row in told
            ),
            hint=_why(scope, levels),
            explain={"communities": {"built": built, "reports": 0, "why": _why(scope, levels)}},
        )

    async def _in_turns(self, hits: Sequence[Hit]) -> list[Hit]:
        ends = list(dict.fromkeys(relation_ends(hit.key)[0] for hit in hits))
        home = await self.workspace.communities.of_entities(
            ends, level=self.question.community_level
        )
        groups: defaultdict[str, list[Hit]] = defaultdict(list)
        for hit in hits:
            groups[home.get(relation_ends(hit.key)[0], "")].append(hit)
        return take_turns(list(groups.values()))


def _why(scope: Scope, levels: Mapping[int, int]) -> str:
    if scope.documents is not None:
        return FILTERED
    return UNREPORTED if levels else UNBUILT


def _behind(
    told: Iterable[tuple[Sequence[Ref], float]],
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """The entities and relations that most of the points rest on."""
    entities: defaultdict[str, float] = defaultdict(float)
    relations: defaultdict[str, float] = defaultdict(float)
    for refs, score in told:
        for ref in refs:
            if ref.kind is Kind.RELATION:
                relations[ref.key] += score
            ends = relation_ends(ref.key) if ref.kind is Kind.RELATION else [ref.key]
            for key in ends:
                entities[key] += score
    return tuple(best_first(entities)[:ENTITIES]), tuple(best_first(relations)[:RELATIONS])


def _above(community: Community, level: int) -> bool:
    return community.leaf and community.level < level


def _apart(found: Iterable[Community]) -> list[Community]:
    """Nearest first, without those whose parent or part is nearer."""
    kept: list[Community] = []
    for one in found:
        if not any(one.parent == other.id or other.parent == one.id for other in kept):
            kept.append(one)
    return kept


def _title(community: Community) -> str:
    return community.report.title if community.report else ""


def _refs(report: Report) -> tuple[Ref, ...]:
    return tuple(dict.fromkeys(ref for one in report.findings for ref in one.refs))


def _told(finding: Finding) -> str:
    return f"{finding.summary} {finding.explanation}"
