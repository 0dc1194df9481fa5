"""Communities and their reports: what is kept, what goes with evidence, what waits for a vector."""

from __future__ import annotations

import pytest

from app.domain import (
    Cluster,
    Clustering,
    Extraction,
    Finding,
    Kind,
    Mark,
    Placement,
    Plan,
    Ref,
    Report,
    Usage,
)
from app.folding import document_scope
from app.names import key as normal_key
from app.ports import Communities
from tests import make
from tests.contract.conftest import Library, Stores

ADA, BABBAGE, ENGINE = "ada lovelace", "charles babbage", "analytical engine"
REPORT = Report(
    "Ada and Babbage", "They worked together.", 7.5,
    (Finding("Work", "On the engine.", (Ref(Kind.RELATION, f"{ADA}\t{BABBAGE}"),)),), "a-model",
)  # fmt: skip


def told(*pairs: tuple[str, str]) -> Extraction:
    return make.extraction(
        *(make.entity(name, f"about {name}") for pair in pairs for name in pair),
        *(make.relation(one, other) for one, other in pairs),
    )


@pytest.fixture
def communities(stores: Stores, workspace: str) -> Communities:
    return stores.communities(workspace)


@pytest.fixture
async def divided(library: Library, communities: Communities) -> Communities:
    """Three entities in one community of level 0 with two parts."""
    await library.ingest("d", {"c1": told(("Ada Lovelace", "Charles Babbage"))})
    await library.ingest("e", {"c2": told(("Charles Babbage", "Analytical Engine"))})
    await communities.begin("job", Clustering(2, 2, 1.5))
    assert await communities.put(
        "job",
        [
            Cluster("whole", 0, "", False, (ADA, ENGINE, BABBAGE)),
            Cluster("part", 1, "whole", True, (ADA, BABBAGE)),
            Cluster("rest", 1, "whole", True, (ENGINE,)),
        ],
    )
    return communities


async def reported(communities: Communities, *ids: str) -> None:
    for one in await communities.get(ids):
        assert await communities.put_report(
            one.id, REPORT, version=one.version, covered=one.mentions
        )


async def test_a_workspace_without_communities_has_none(communities: Communities) -> None:
    assert await communities.division() is None
    assert await communities.page() == []
    assert await communities.levels() == {}
    assert await communities.due() == []
    assert await communities.at_level(1, limit=5) == []
    await communities.charge(Usage(1, 2, 3, 0.5))
    assert await communities.division() is None


async def test_what_was_put_is_found_by_level_id_and_member(divided: Communities) -> None:
    whole, part, rest = await divided.get(["whole", "part", "rest", "none"])
    assert (whole.level, whole.parent, whole.leaf, whole.size, whole.mentions) == (
        0, "", False, 3, 4,
    )  # fmt: skip
    assert (part.parent, part.leaf, part.size, rest.size) == ("whole", True, 2, 1)
    assert [one.id for one in await divided.page()] == ["part", "rest", "whole"]
    assert [one.id for one in await divided.page(level=1, after="part")] == ["rest"]
    assert await divided.levels() == {0: 1, 1: 2}
    assert await divided.members("whole", limit=9) == [BABBAGE, ADA, ENGINE]
    assert await divided.members("whole", after=BABBAGE, limit=1) == [ADA]
    assert await divided.of_entities([ENGINE, ADA, "nobody"], level=1) == {
        ENGINE: "rest", ADA: "part",
    }  # fmt: skip
    assert await divided.of_entities([ADA], level=0) == {ADA: "whole"}
    assert [one.members for one in await divided.clusters(limit=9)] == [
        (ADA, BABBAGE), (ENGINE,), (ADA, ENGINE, BABBAGE),
    ]  # fmt: skip


async def test_the_division_says_how_by_whom_and_at_what_cost(divided: Communities) -> None:
    await divided.charge(Usage(1, 20, 3, 0.5))
    await divided.charge(Usage(1, 20, 3, 0.5))
    await divided.begin("next", Clustering())
    division = await divided.division()
    assert division is not None
    assert (division.job_id, division.clustering) == ("next", Clustering())
    assert division.usage == Usage(2, 40, 6, 1.0)


async def test_only_the_job_that_divides_changes_anything(divided: Communities) -> None:
    await divided.begin("next", Clustering())
    assert not await divided.put("job", [Cluster("new", 0, "", True, (ADA,))])
    assert not await divided.drop("job", ["part"])
    assert [one.id for one in await divided.page()] == ["part", "rest", "whole"]


async def test_members_without_evidence_are_left_out(divided: Communities) -> None:
    await divided.put("job", [Cluster("new", 0, "", True, (ADA, "nobody"))])
    assert await divided.members("new", limit=9) == [ADA]
    await divided.put("job", [Cluster("empty", 0, "", True, ("nobody",))])
    assert await divided.get(["empty"]) == []


async def test_a_report_covers_the_evidence_of_its_time(
    divided: Communities, library: Library
) -> None:
    assert await divided.due() == ["part", "rest", "whole"]
    await reported(divided, "whole", "part", "rest")
    assert await divided.due() == []
    [whole] = await divided.get(["whole"])
    assert (whole.report, whole.fresh) == (REPORT, True)
    await library.ingest("f", {"c3": told(("Ada Lovelace", "Lord Byron"))})
    whole, part, rest = await divided.get(["whole", "part", "rest"])
    assert whole.report == part.report == REPORT, "what came since takes nothing away"
    assert (whole.fresh, part.fresh, rest.fresh) == (False, False, True)
    assert await divided.due() == ["part", "whole"]


async def test_reports_of_a_level_come_with_leaves_above_best_first(divided: Communities) -> None:
    await divided.put("job", [Cluster("alone", 0, "", True, (ADA,))])
    ratings = {"whole": 9.0, "part": 3.0, "rest": 8.0, "alone": 5.0}
    for one in await divided.get(list(ratings)):
        report = Report(one.id, "Told.", ratings[one.id])
        await divided.put_report(one.id, report, version=one.version, covered=one.mentions)
    assert [one.id for one in await divided.at_level(1, limit=9)] == ["rest", "alone", "part"]
    assert [one.id for one in await divided.at_level(7, limit=2)] == ["rest", "alone"]
    assert [one.id for one in await divided.at_level(0, limit=9)] == ["whole", "alone"]


async def test_a_report_that_rules_had_to_write_stays_due(divided: Communities) -> None:
    [part] = await divided.get(["part"])
    report = Report("Ada", "Told by rules.", fault="bad_model_output")
    await divided.put_report("part", report, version=part.version, covered=part.mentions)
    assert "part" in await divided.due()


async def test_evidence_that_is_taken_back_takes_reports_with_it(
    divided: Communities, library: Library
) -> None:
    await reported(divided, "whole", "part", "rest")
    await library.delete("d")
    whole, part, rest = await divided.get(["whole", "part", "rest"])
    assert whole.report is None
    assert part.report is None
    assert rest.report == REPORT, "nothing of its evidence went"
    assert await divided.members("whole", limit=9) == [ENGINE, BABBAGE]
    assert await divided.at_level(1, limit=9) == [rest]


async def test_a_report_made_from_evidence_that_is_gone_is_not_stored(
    divided: Communities, library: Library
) -> None:
    [part] = await divided.get(["part"])
    await library.delete("d")
    assert not await divided.put_report("part", REPORT, version=part.version, covered=part.mentions)
    assert not await divided.put_report("none", REPORT, version=0, covered=0)
    [part] = await divided.get(["part"])
    assert part.report is None


async def test_a_community_without_members_is_no_more(
    divided: Communities, library: Library
) -> None:
    await reported(divided, "whole", "part", "rest")
    for document in ("d", "e"):
        await library.delete(document)
    assert await divided.page() == []
    assert await divided.levels() == {}
    gone = [one.ref for one in await library.graph.unindexed() if one.ref.kind is Kind.COMMUNITY]
    assert [ref.key for ref in gone] == ["part", "rest", "whole"], "their points are to go"
    await library.forget_the_gone()
    assert await library.graph.unindexed() == []


async def test_a_replacement_and_a_withdrawal_take_reports_back(
    divided: Communities, library: Library
) -> None:
    await reported(divided, "part", "rest")
    await library.ingest(
        "d", {"c4": told(("Ada Lovelace", "Lord Byron"))}, make.revision(source="other")
    )
    part, rest = await divided.get(["part", "rest"])
    assert (part.report, rest.report) == (None, REPORT)
    await reported(divided, "part")
    job_id = await library.open("e", make.revision(source="third"))
    ids = await library.put("e", job_id, {"c5": told(("Ada Lovelace", "Tea"))})
    await library.graph.fold("e", job_id, ids)
    [part] = await divided.get(["part"])
    assert part.report == REPORT
    withdraw = await library.reopen("e", Plan.WITHDRAW)
    await library.graph.retract("e", await library.graph.retired("e", withdraw))
    [part] = await divided.get(["part"])
    assert part.report is None, "what never was published is told no more"


async def test_evidence_that_moves_takes_reports_with_it(
    divided: Communities, library: Library
) -> None:
    await reported(divided, "part", "rest")
    key = normal_key("Ada Lovelace")
    await library.names.place([Placement(key, document_scope("d"), "countess", "Countess")])
    await library.move()
    part, rest = await divided.get(["part", "rest"])
    assert (part.report, rest.report) == (None, REPORT)
    assert await divided.members("part", limit=9) == [BABBAGE]


async def test_a_rebuild_that_changes_nothing_keeps_reports(
    divided: Communities, library: Library, stores: Stores
) -> None:
    await reported(divided, "part")
    archive = stores.archive(library.name)
    await archive.recount([Ref(Kind.ENTITY, ADA), Ref(Kind.RELATION, f"{ADA}\t{BABBAGE}")])
    [part] = await divided.get(["part"])
    assert (part.report, part.fresh) == (REPORT, True)
    await archive.refold(["c1"])
    [part] = await divided.get(["part"])
    assert part.report is None, "its evidence was other than what the chunk says"


async def test_a_report_stays_where_members_only_come(divided: Communities) -> None:
    await reported(divided, "part", "rest")
    await divided.put("job", [Cluster("part", 1, "whole", True, (ADA, BABBAGE, ENGINE))])
    [part] = await divided.get(["part"])
    assert (part.report, part.fresh, part.size) == (REPORT, False, 3)
    await divided.put("job", [Cluster("part", 1, "whole", True, (ADA, ENGINE))])
    [part] = await divided.get(["part"])
    assert (part.report, part.size) == (None, 2)


async def test_a_report_in_the_making_is_void_where_members_change(divided: Communities) -> None:
    [part] = await divided.get(["part"])
    await divided.put("job", [Cluster("part", 1, "whole", True, (ADA, BABBAGE, ENGINE))])
    assert not await divided.put_report("part", REPORT, version=part.version, covered=3)
    [again] = await divided.get(["part"])
    await divided.put("job", [Cluster("part", 1, "", True, (ADA, BABBAGE, ENGINE))])
    assert await divided.put_report("part", REPORT, version=again.version, covered=again.mentions)


async def test_dropped_ones_wait_for_their_points(divided: Communities, library: Library) -> None:
    await library.profile_all()
    await reported(divided, "part")
    assert await divided.drop("job", ["part", "rest", "none"])
    assert [one.id for one in await divided.page()] == ["whole"]
    stale = [one for one in await library.graph.unindexed() if one.ref.kind is Kind.COMMUNITY]
    assert [(one.ref.key, one.gone) for one in stale] == [("part", True)]
    await library.forget_the_gone()
    stale = [one for one in await library.graph.unindexed() if one.ref.kind is Kind.COMMUNITY]
    assert stale == []


async def test_an_index_mark_covers_the_report_that_it_was_made_from(
    divided: Communities, library: Library
) -> None:
    await reported(divided, "part")
    ref = Ref(Kind.COMMUNITY, "part")
    [part] = await divided.get(["part"])
    await library.graph.mark_indexed([Mark(ref, part.version - 1, "old")])
    assert [one.ref for one in await library.graph.unindexed() if one.ref == ref] == [ref]
    await library.graph.mark_indexed([Mark(ref, part.version, "digest")])
    assert ref not in [one.ref for one in await library.graph.unindexed()]
    [part] = await divided.get(["part"])
    assert (part.indexed, part.digest) == (True, "digest")
    await library.delete("d")
    stale = {one.ref: one.gone for one in await library.graph.unindexed()}
    assert stale[ref] is True, "there is a point of a report that is no more"
    await reported(divided, "part")
    stale = {one.ref: one.gone for one in await library.graph.unindexed()}
    assert stale[ref] is False
    await library.graph.forget([ref])
    assert await divided.get(["part"]) != [], "only its point went"


async def test_workspaces_do_not_see_each_other(
    divided: Communities, neighbour: Library, stores: Stores
) -> None:
    await reported(divided, "part")
    other = stores.communities(neighbour.name)
    await neighbour.ingest("d", {"c1": told(("Ada Lovelace", "Charles Babbage"))})
    assert await other.page() == []
    assert await other.get(["part"]) == []
    assert await other.of_entities([ADA], level=1) == {}
    await other.begin("job", Clustering())
    await other.put("job", [Cluster("part", 0, "", True, (ADA,))])
    await reported(other, "part")
    await neighbour.delete("d")
    [part] = await divided.get(["part"])
    assert part.report == REPORT


async def test_a_member_whose_evidence_only_moves_within_a_chunk_stays(
    divided: Communities, library: Library
) -> None:
    key = normal_key("Charles Babbage")
    await library.names.place([Placement(key, document_scope("d"), "babbage", "Babbage")])
    await library.move()
    assert await divided.members("part", limit=9) == [ADA, BABBAGE]
