"""Communities by a job: built, refreshed at the price of what changed, exact after deletions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from app import curation
from app.domain import (
    Clustering,
    Community,
    Fact,
    Job,
    KeyPoints,
    Kind,
    Mode,
    Plan,
    Question,
    Ref,
    Report,
    Reported,
    State,
    Usage,
    VectorQuery,
)
from app.errors import BadModelOutput, Unavailable
from app.query import engine
from app.terms import query_sparse
from app.upkeep.check import check
from app.upkeep.jobs import new_job
from tests.workers.conftest import Rig
from tests.workers.test_backup import assert_equal
from workers.runner import run_ticket
from workers.stages import cluster, report

TOPICS = {
    "curie": "Marie Curie discovered polonium with Pierre Curie. Marie Curie worked in Paris. "
    "Pierre Curie taught Marie Curie in Paris.",
    "amber": "Johanna Weber found amber at the Baltic Sea. Johanna Weber sold it to Karl Anders. "
    "Karl Anders lives at the Baltic Sea.",
    "engine": "Ada Lovelace wrote to Charles Babbage. Charles Babbage built the Analytical Engine. "
    "Ada Lovelace praised the Analytical Engine.",
}
SECRET = "Marie Curie hid the Opal Formula from Pierre Curie. Pierre Curie sought the Opal Formula."


@dataclass
class Modelled:
    """The role played by a model: what it was asked is counted."""

    by_model: bool = True
    asked: list[list[str]] = field(default_factory=list)
    fault: Exception | None = None
    unreadable: bool = False

    async def report(self, facts: Sequence[Fact]) -> Reported:
        self.asked.append([fact.name for fact in facts])
        if self.fault is not None:
            raise self.fault
        usage = Usage(1, 100, 10, 0.5)
        if self.unreadable:
            return Reported(None, usage)
        text = " ".join(fact.text for fact in facts)
        return Reported(Report("On " + facts[0].name, text, 5.0, model="scripted"), usage)

    async def points(self, question: Question, reports: Sequence[Report]) -> KeyPoints:
        return KeyPoints(readable=False)


@pytest.fixture
def model(rig: Rig) -> Modelled:
    """In place of the rules, for reports."""
    reporter = Modelled()
    models = replace(rig.services.models, reporter=reporter)
    rig.services = replace(rig.services, models=models)
    return reporter


async def begun(rig: Rig, clustering: Clustering | None = None, name: str = "default") -> Job:
    job = new_job(name, Plan.COMMUNITIES)
    await rig.workspace(name).communities.begin(job.id, clustering or Clustering())
    await rig.services.journal.open(job)
    await rig.queue.send([Rig.first(job)])
    return job


async def built(rig: Rig, clustering: Clustering | None = None, name: str = "default") -> Job:
    job = await begun(rig, clustering, name)
    await rig.drain()
    ended = await rig.services.journal.job(name, job.id)
    assert ended.state is State.DONE, ended.error
    return ended


async def fill(rig: Rig, *topics: str) -> None:
    for topic in topics or TOPICS:
        await rig.submit(TOPICS[topic], topic)
    await rig.drain()


async def communities(rig: Rig, name: str = "default") -> list[Community]:
    return await rig.workspace(name).communities.page(limit=1000)


async def texts(rig: Rig) -> str:
    """All that reports say."""
    return " ".join(repr(one.report) for one in await communities(rig))


async def asked(rig: Rig, text: str, **fields: object) -> engine.Answered:
    question = Question(text, "default", Mode.COMMUNITY, **fields)  # type: ignore[arg-type]
    return await engine.answer(rig.workspace(), rig.services.models, question, explain=True)


async def test_every_topic_is_a_community_with_a_report_and_a_vector(rig: Rig) -> None:
    await fill(rig)
    await built(rig)
    found = await communities(rig)
    assert len([one for one in found if one.level == 0]) == len(TOPICS)
    assert all(one.fresh and one.indexed for one in found)
    assert await rig.workspace().vectors.count(Kind.COMMUNITY) == len(found)
    titles = " ".join(one.report.title for one in found if one.report)
    assert "Marie Curie" in titles
    assert await rig.workspace().graph.unindexed() == []
    assert await check(rig.services, rig.workspace(), wait=0.0) == []


async def test_a_question_is_answered_with_citations_from_the_documents_behind_reports(
    rig: Rig,
) -> None:
    await fill(rig)
    await built(rig)
    for search in ("level", "nearest"):
        answered = await asked(rig, "What did Marie Curie discover?", community_search=search)
        assert "polonium" in answered.answer
        assert {one.document_id for one in answered.citations} == {"curie"}
        assert answered.context.themes
    answered = await asked(rig, "What are the main themes?")
    assert {one.chunk.document_id for one in answered.context.sources} == set(TOPICS)


async def test_rules_look_beyond_the_best_rated_reports(rig: Rig) -> None:
    await fill(rig)
    await rig.submit("Johanna Weber wrote of amber. Karl Anders wrote of Johanna Weber.", "more")
    await rig.drain()
    await built(rig)
    space = rig.workspace()
    few = replace(space, options=replace(space.options, community_reports=1))
    [best] = await space.communities.at_level(1, limit=1)
    assert best.report
    assert "Marie Curie" not in best.report.title
    question = Question("What did Marie Curie discover?", "default", Mode.COMMUNITY)
    answered = await engine.answer(few, rig.services.models, question)
    assert "polonium" in answered.answer


async def test_a_refresh_without_a_change_asks_no_model(rig: Rig, model: Modelled) -> None:
    await fill(rig)
    await built(rig)
    assert len(model.asked) == len(await communities(rig))
    before, calls = await communities(rig), len(model.asked)
    await built(rig)
    assert len(model.asked) == calls
    assert await communities(rig) == before


async def test_a_document_more_is_reported_on_where_it_belongs(rig: Rig, model: Modelled) -> None:
    await fill(rig)
    await built(rig)
    before = {one.id: one for one in await communities(rig)}
    model.asked.clear()
    await rig.submit("Marie Curie isolated radium in Paris. Marie Curie weighed radium.", "radium")
    await rig.drain()
    stale = [one for one in await communities(rig) if not one.fresh]
    assert stale, "they lack what came since"
    assert all(one.report for one in stale), "and tell what they know until they are refreshed"
    await built(rig)
    assert 0 < len(model.asked) < len(before)
    assert all("Marie Curie" in names for names in model.asked)
    after = {one.id: one for one in await communities(rig)}
    kept = [id for id in before if before[id] == after.get(id)]
    assert len(kept) >= len(TOPICS) - 1


async def test_what_a_deleted_document_said_is_told_no_more_at_once(
    rig: Rig, model: Modelled
) -> None:
    await fill(rig)
    await rig.submit(SECRET, "secret")
    await rig.drain()
    await built(rig)
    assert "Opal Formula" in await texts(rig)
    job = await rig.delete("secret")
    await run_ticket(rig.services, rig.queue.sent.popleft(), rig.terms)  # as far as retraction
    assert "Opal Formula" not in await texts(rig)
    await rig.drain()
    assert (await rig.services.journal.job("default", job.id)).state is State.DONE
    found = await rig.workspace().vectors.search(
        [VectorQuery(Kind.COMMUNITY, 50, sparse=query_sparse("Opal Formula"))]
    )
    left = await rig.workspace().communities.get([hit.key for hit in found[0]])
    assert left == [], "no vector finds it"
    for search in ("level", "nearest"):
        answered = await asked(rig, "Who hid the Opal Formula?", community_search=search)
        assert "opal" not in repr(answered.context.themes).lower()
    assert await check(rig.services, rig.workspace(), wait=0.0) == []
    model.asked.clear()
    await built(rig)
    assert model.asked
    assert "opal" not in repr(model.asked).lower()
    assert all(one.fresh for one in await communities(rig))


async def test_after_a_deletion_and_a_refresh_all_is_as_if_it_had_never_been(rig: Rig) -> None:
    await fill(rig)
    await rig.submit(SECRET, "secret")
    await rig.drain()
    await built(rig)
    await rig.delete("secret")
    await rig.drain()
    await built(rig)
    for topic in reversed(TOPICS):
        await rig.submit(TOPICS[topic], topic, workspace="other")
        await rig.drain()
    await built(rig, name="other")
    await assert_equal(rig.services, "default", rig.services, "other")


async def test_a_reply_that_is_no_report_costs_one_community_its_report(
    rig: Rig, model: Modelled
) -> None:
    await fill(rig)
    model.unreadable = True
    job = await built(rig)
    assert job.state is State.DONE
    found = await communities(rig)
    assert all(one.report and one.report.fault == "bad_model_output" for one in found)
    assert "polonium" in (await asked(rig, "What did Marie Curie discover?")).answer
    division = await rig.workspace().communities.division()
    assert division is not None
    assert division.usage.llm_calls == len(model.asked), "it was paid for"
    model.unreadable, calls = False, len(model.asked)
    await built(rig)
    assert len(model.asked) == 2 * calls, "the next refresh tries again"
    model.fault = BadModelOutput("The model refuses.", code="model_refused")
    await rig.submit("Marie Curie isolated radium in Paris.", "radium")
    await rig.drain()
    await built(rig)
    assert any(one.report and one.report.fault for one in await communities(rig))


async def test_a_model_that_is_away_is_asked_again_and_nothing_twice(
    rig: Rig, model: Modelled
) -> None:
    await fill(rig)
    model.fault = Unavailable("The model is away.", retry_after=0.01)
    job = await begun(rig)
    await run_ticket(rig.services, rig.queue.sent.popleft(), rig.terms)
    assert not (await rig.services.journal.job("default", job.id)).state.final
    model.fault = None
    failed = len(model.asked)
    await rig.drain()
    await rig.sweep()
    ended = await rig.services.journal.job("default", job.id)
    while not ended.state.final:
        await rig.sweep()
        ended = await rig.services.journal.job("default", job.id)
    assert ended.state is State.DONE
    assert len(model.asked) - failed == len(await communities(rig))


async def test_a_job_that_died_between_any_two_steps_is_gone_on_with(
    rig: Rig, model: Modelled
) -> None:
    await fill(rig)
    await begun(rig)
    first = rig.queue.sent.popleft()
    step = await rig.services.journal.claim(first.step_id, lease=0.01, tries=5)
    assert step is not None
    await cluster.run(rig.workspace(), rig.services.models, step)  # and then the process dies
    [shard, *_] = await report.due(rig.workspace(), step)
    await report.run(rig.workspace(), rig.services.models, replace(step, shard=tuple(shard[:1])))
    ended = None
    while ended is None or not ended.state.final:
        await rig.sweep()
        ended = await rig.services.journal.job("default", step.job_id)
    assert ended.state is State.DONE
    found = await communities(rig)
    assert all(one.fresh and one.indexed for one in found)
    assert len(model.asked) == len(found), "what was written before was not paid for again"


async def test_a_second_job_takes_over_from_the_first(rig: Rig, model: Modelled) -> None:
    await fill(rig)
    first = await begun(rig)
    second = await begun(rig, Clustering(levels=1))
    await rig.drain()
    for job in (first, second):
        assert (await rig.services.journal.job("default", job.id)).state is State.DONE
    assert len(model.asked) == len(await communities(rig)) == len(TOPICS)


async def test_small_communities_are_reported_on_by_rules(rig: Rig, model: Modelled) -> None:
    await rig.submit("Karl Anders met Johanna Weber.", "pair")
    await rig.drain()
    await built(rig)
    assert model.asked == []
    assert all(one.report and not one.report.fault for one in await communities(rig))


async def test_what_people_decide_on_entities_takes_reports_back(rig: Rig) -> None:
    await fill(rig)
    await built(rig)
    await curation.remove(rig.workspace(), "Pierre Curie")
    job = new_job("default", Plan.CURATE)
    await rig.services.journal.open(job)
    await rig.queue.send([Rig.first(job)])
    await rig.drain()
    [entity] = await rig.workspace().graph.search("marie", limit=1)
    own = await rig.workspace().communities.of_entities([entity.key], level=0)
    [community] = await rig.workspace().communities.get(list(own.values()))
    assert community.report is None
    members = await rig.workspace().communities.members(community.id, limit=50)
    assert "pierre curie" not in members
    assert await rig.workspace().vectors.read([Ref(Kind.COMMUNITY, community.id)]) == []
    others = [one for one in await communities(rig) if one.id != community.id]
    assert all(one.fresh for one in others)


async def test_filters_show_no_report_but_matching_evidence(rig: Rig) -> None:
    await fill(rig)
    await rig.submit(SECRET, "secret")
    await rig.drain()
    await built(rig)
    answered = await asked(rig, "What did Marie Curie discover?", documents=("curie",))
    assert {one.chunk.document_id for one in answered.context.sources} == {"curie"}
    assert "opal" not in repr(answered.context).lower()
    assert all(not theme.community for theme in answered.context.themes)
    assert "filters" in answered.hint
    nothing = await asked(rig, "What did Marie Curie discover?", documents=())
    assert nothing.context.empty


async def test_without_communities_evidence_answers_and_says_so(rig: Rig) -> None:
    await fill(rig)
    answered = await asked(rig, "What did Marie Curie discover?")
    assert "polonium" in answered.answer
    assert "POST /graph/communities" in answered.hint
    await rig.workspace().communities.begin("job", Clustering())
    assert (await asked(rig, "Tell of amber.", community_search="nearest")).context.sources
