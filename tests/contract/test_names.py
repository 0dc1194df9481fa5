"""Names and which entity they mean: counted by the fold, settled, and followed by the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from app.domain import Extraction, Kind, KnownName, Placement, Plan, Ref, Ruling, State, Stats
from app.folding import document_scope
from app.names import key as normal_key
from app.ports import Journal
from app.resolution.model import Pair
from app.resolution.senses import scope_of
from app.resolution.settlement import Reviewed, Settlement
from tests import make
from tests.contract.conftest import Library

LONG, SHORT, THIRD = "Amelia Baker", "Amy Baker", "Radium"
AMELIA, AMY, RADIUM = (normal_key(name) for name in (LONG, SHORT, THIRD))
TEXAN = "Paris (Texas)"
PARIS, TEXAS = normal_key("Paris"), normal_key(TEXAN)


def long_one() -> Extraction:
    return make.extraction(
        make.entity(LONG, "she found it", aliases=["Millie"]),
        make.relation(LONG, THIRD, "found", keywords=["finding"], strength=2.5),
        about=[LONG],
    )


def short_one() -> Extraction:
    return make.extraction(
        make.entity(SHORT, "she wrote of it", kind="author"),
        make.relation(SHORT, THIRD, "wrote of", keywords=["writing"], strength=4),
    )


def both() -> Extraction:
    return make.extraction(
        make.relation(LONG, SHORT, "is called"), make.relation(THIRD, SHORT, "named by")
    )


async def fill(library: Library) -> None:
    await library.ingest("d1", {"c1": long_one(), "c2": both()})
    await library.ingest("d2", {"c3": short_one(), "c4": short_one(), "c5": long_one()})


async def facts(library: Library, *keys: str) -> list[KnownName]:
    """Without the counters of changes."""
    return [replace(one, revision=0) for one in await library.names.known(keys)]


async def open_keys(library: Library) -> list[str]:
    return [one.key for one in await library.names.opened(limit=100)]


def by_hand(key: str, document_id: str, entity: str, name: str = "") -> Placement:
    return Placement(key, document_scope(document_id), entity, name)


def reviewed(one: str, other: str, score: float, decision: str = "ask") -> Reviewed:
    first, second = sorted((one, other))
    features: Mapping[str, float | str] = {"shared": 2.5, "how": "initials"}
    return Reviewed(Pair(first, second, "alias", 71.25, score, "", features, second), decision)


# --- what is known of names ----------------------------------------------------------------------


async def test_names_are_counted_with_forms_kinds_scopes_and_aliases_and_taken_back_exactly(
    library: Library, neighbour: Library
) -> None:
    definition = "Amelia Baker (born 1867) is a physicist."
    first = make.extraction(
        make.entity(LONG, definition, kind="person", aliases=["Millie", "amelia baker"]),
        make.relation(LONG, THIRD),
    )
    second = make.extraction(
        make.entity("AMELIA BAKER", "", kind="work"),
        make.entity("AMELIA BAKER", "again", kind="", aliases=["Mills"]),
    )
    for where in (library, neighbour):
        await where.ingest("d1", {"c1": first})
    await library.ingest("d2", {"c2": second, "c3": second})
    scope = scope_of(LONG, "person", definition)
    assert scope
    assert await facts(library, AMELIA, RADIUM, "nobody") == [
        KnownName(AMELIA, "AMELIA BAKER", "work", ("Millie", "Mills"), 3, {scope: 1}, AMELIA, 0),
        KnownName(RADIUM, THIRD, "", (), 1, {}, RADIUM, 0),
    ]
    await library.delete("d2")
    assert await facts(library, AMELIA, RADIUM) == await facts(neighbour, AMELIA, RADIUM)
    await library.delete("d1")
    assert [(one.form, one.mentions) for one in await library.names.known([AMELIA])] == [("", 0)]
    assert await open_keys(library) == sorted([AMELIA, RADIUM])


async def test_a_name_opens_when_its_facts_change_and_only_then(library: Library) -> None:
    await library.ingest("d1", {"c1": long_one(), "c2": short_one()})
    assert await open_keys(library) == sorted([AMELIA, AMY, RADIUM])
    assert await library.settle()
    assert await open_keys(library) == []
    await library.ingest("d2", {"c3": long_one()})
    assert await open_keys(library) == []
    await library.ingest("d3", {"c4": make.extraction(make.entity(LONG, "", aliases=["Lia"]))})
    assert await open_keys(library) == [AMELIA]
    await library.settle()
    await library.delete("d3")
    assert await open_keys(library) == [AMELIA]
    await library.settle()
    await library.delete("d2")
    assert await open_keys(library) == []


async def test_moving_evidence_opens_no_name(library: Library) -> None:
    await fill(library)
    await library.settle({AMY: AMELIA})
    await library.move()
    assert await open_keys(library) == []


async def test_a_chunk_that_is_read_again_opens_only_names_that_it_says_otherwise(
    library: Library,
) -> None:
    await library.ingest("d1", {"c1": long_one()})
    await library.settle()
    job = await library.open("d1", make.revision())
    await library.put("d1", job, {"c1": long_one()})
    await library.graph.put_chunks("d1", job, [make.chunk("c1", document_id="d1")], ["another"])
    changed = make.extraction(
        make.entity(LONG, "she found it", aliases=["Millie"], kind="author"),
        make.relation(LONG, THIRD, "found", keywords=["finding"], strength=2.5),
    )
    await library.graph.put_extraction("c1", changed)
    await library.graph.fold("d1", job, ["c1"])
    assert await open_keys(library) == [AMELIA]


# --- evidence follows ----------------------------------------------------------------------------


async def test_placing_a_name_elsewhere_moves_its_evidence_and_moving_back_restores_all(
    library: Library,
) -> None:
    await fill(library)
    before = await library.fingerprint()
    assert await library.graph.stats() == Stats(2, 5, 3, 3)
    assert await library.settle({AMY: AMELIA})
    assert await library.names.moving()
    assert await library.move() >= 3
    assert not await library.names.moving()
    assert await library.graph.stats() == Stats(2, 5, 2, 1)
    [one, radium] = await library.graph.entities([AMELIA, RADIUM])
    assert (one.mentions, one.degree, radium.mentions, radium.degree) == (5, 1, 5, 1)
    assert (one.name, one.kind) == (LONG, "author")
    assert set(one.aliases) == {SHORT, "Millie"}
    assert (await library.graph.find([AMY]))[AMY].key == AMELIA
    [relation] = await library.graph.relations_of([AMELIA], per_entity=9)
    assert (relation.weight, relation.mentions) == (2 * 2.5 + 2 * 4 + 5, 5)
    assert set(relation.keywords) == {"finding", "writing", "discovery"}
    assert [name.entity for name in await library.names.known([AMY, AMELIA])] == [AMELIA, AMELIA]
    assert await library.names.members([AMELIA, AMY]) == {AMELIA: [AMY]}
    assert await library.names.used_by(AMELIA, limit=9) == sorted(
        [(AMELIA, "d1"), (AMELIA, "d2"), (AMY, "d1"), (AMY, "d2")]
    )
    assert await library.settle({AMY: AMY})
    await library.move()
    await library.forget_the_gone()
    assert await library.fingerprint() == before


async def test_evidence_lands_where_it_would_be_had_names_been_placed_before(
    library: Library, neighbour: Library
) -> None:
    await fill(library)
    await library.settle({AMY: AMELIA, RADIUM: RADIUM})
    await library.move()
    await library.forget_the_gone()
    await neighbour.settle({AMY: AMELIA})
    await fill(neighbour)
    assert await library.fingerprint() == await neighbour.fingerprint()
    for where in (library, neighbour):
        await where.delete("d2")
        await where.forget_the_gone()
    assert await library.fingerprint() == await neighbour.fingerprint()
    await library.delete("d1")
    await library.forget_the_gone()
    assert await library.graph.stats() == Stats(0, 0, 0, 0)
    assert await library.graph.unindexed() == []


async def test_self_relations_vanish_while_two_names_are_one_and_come_back(
    library: Library,
) -> None:
    await library.ingest("d", {"c": both()})
    assert await library.graph.stats() == Stats(1, 1, 3, 2)
    await library.settle({AMY: AMELIA})
    await library.move()
    [left] = await library.graph.relations_of([AMELIA], per_entity=9)
    assert {left.source, left.target} == {AMELIA, RADIUM}
    await library.settle({AMY: AMY})
    await library.move()
    found = await library.graph.relations_of([AMY], per_entity=9)
    assert {(r.source, r.target) for r in found} == {
        (min(AMY, end), max(AMY, end)) for end in (AMELIA, RADIUM)
    }


async def test_a_name_that_goes_on_before_its_evidence_came_arrives_at_the_last_place(
    library: Library, neighbour: Library
) -> None:
    await fill(library)
    await fill(neighbour)
    await library.settle({AMY: AMELIA})
    await library.names.move("mover", limit=1)
    await library.settle({AMY: RADIUM})
    await library.names.move("mover", limit=1)
    await library.settle({AMELIA: RADIUM})
    await library.move(limit=1)
    await neighbour.settle({AMY: RADIUM, AMELIA: RADIUM})
    await neighbour.move()
    for where in (library, neighbour):
        await where.forget_the_gone()
    assert await library.fingerprint() == await neighbour.fingerprint()
    assert await library.graph.stats() == Stats(2, 5, 1, 0)


async def test_mentions_that_say_they_are_another_thing_are_parted_and_joined_again(
    library: Library,
) -> None:
    born = make.entity(LONG, "Amelia Baker (born 1867) is a physicist.", kind="person")
    scope = scope_of(born.name, born.kind, born.description)
    await library.ingest("d1", {"c1": make.extraction(born, make.relation(LONG, THIRD))})
    await library.ingest("d2", {"c2": make.extraction(make.relation(LONG, THIRD))})
    before = await library.fingerprint()
    form = "Amelia Baker (born 1867)"
    await library.settle(apart={AMELIA: {scope: form}})
    await library.move()
    [parted] = await library.graph.entities([normal_key(form)])
    assert (parted.name, parted.mentions, parted.degree) == (form, 1, 1)
    assert LONG in parted.aliases
    assert (await library.graph.entities([AMELIA]))[0].mentions == 1
    # what is said later goes there at once
    await library.ingest("d3", {"c3": make.extraction(born)})
    assert (await library.graph.entities([normal_key(form)]))[0].mentions == 2
    await library.delete("d3")
    await library.names.rule([Ruling(AMELIA, RADIUM, False, "user")])
    await library.settle()
    await library.move()
    await library.forget_the_gone()
    assert await library.fingerprint() == before


# --- by hand -------------------------------------------------------------------------------------


def in_paris(what: str) -> Extraction:
    return make.extraction(
        make.entity("Paris", f"a place of {what}", kind="location"),
        make.relation("Paris", THIRD, what),
    )


async def test_a_placement_of_a_document_shows_the_name_that_was_given(library: Library) -> None:
    await library.ingest("d1", {"c1": in_paris("art")})
    await library.ingest("d2", {"c2": in_paris("oil"), "c3": in_paris("cows")})
    before = await library.fingerprint()
    placement = by_hand(PARIS, "d2", TEXAS, TEXAN)
    await library.names.place([placement])
    assert await library.names.placed() == [placement]
    await library.move(limit=1)
    [paris, texas] = await library.graph.entities([PARIS, TEXAS])
    assert (paris.name, paris.mentions, paris.degree) == ("Paris", 1, 1)
    assert (texas.name, texas.mentions, texas.degree) == (TEXAN, 2, 1)
    assert "Paris" in texas.aliases
    # it holds for what the document says later
    await library.ingest("d2", {"c2": in_paris("oil"), "c4": in_paris("sand")})
    assert (await library.graph.entities([PARIS]))[0].mentions == 1
    assert (await library.graph.entities([TEXAS]))[0].mentions == 2
    await library.ingest("d2", {"c2": in_paris("oil"), "c3": in_paris("cows")})
    await library.names.place([placement], remove=True)
    assert await library.names.placed() == []
    await library.move()
    await library.forget_the_gone()
    assert await library.fingerprint() == before


@pytest.mark.parametrize("named_first", [True, False])
async def test_what_is_placed_to_a_name_goes_where_that_name_goes(
    library: Library, neighbour: Library, named_first: bool
) -> None:
    """Or there would be two entities of one name: that of the cluster, and one by hand."""
    placement = by_hand(PARIS, "d3", AMY, SHORT)
    for where in (library, neighbour):
        await fill(where)
        await where.ingest("d3", {"c6": in_paris("art"), "c7": in_paris("oil")})
        await where.settle()
    apart = await library.fingerprint()
    if named_first:
        await library.names.place([placement])
        await library.move()
        assert (await library.graph.entities([AMY]))[0].mentions == 5
        await library.settle({AMY: AMELIA})
        await library.move(limit=1)
    else:
        await library.settle({AMY: AMELIA})
        await library.move()
        await library.names.place([placement])
        await library.move(limit=1)
    await library.forget_the_gone()
    [one] = [e for e in await library.graph.entities([AMELIA, AMY]) if e.mentions]
    assert (one.key, one.mentions) == (AMELIA, 7)
    assert (PARIS, "d3") in await library.names.used_by(AMELIA, limit=99)
    assert await library.names.placed() == [placement]
    # what comes later goes there at once, and what was decided before leads to the same
    for where in (library, neighbour):
        await where.ingest("d3", {"c6": in_paris("art"), "c8": in_paris("sand")})
    await neighbour.settle({AMY: AMELIA})
    await neighbour.names.place([placement])
    await neighbour.move()
    for where in (library, neighbour):
        await where.forget_the_gone()
    assert await library.fingerprint() == await neighbour.fingerprint()
    # the name goes back: so does what was placed to it
    await library.ingest("d3", {"c6": in_paris("art"), "c7": in_paris("oil")})
    await library.settle({AMY: AMY})
    await library.move()
    assert [e.mentions for e in await library.graph.entities([AMELIA, AMY])] == [3, 5]
    await library.names.place([placement], remove=True)
    await library.move()
    await library.forget_the_gone()
    assert await library.fingerprint() == apart


async def test_mentions_that_say_they_are_another_thing_follow_the_name_of_that(
    library: Library,
) -> None:
    born = make.entity(LONG, "Amelia Baker (born 1867) is a physicist.", kind="person")
    scope = scope_of(born.name, born.kind, born.description)
    form = "Amelia Baker (born 1867)"
    await library.ingest("d1", {"c1": make.extraction(born)})
    await library.ingest("d2", {"c2": make.extraction(make.entity(LONG), make.entity(form))})
    await library.ingest("d3", {"c3": make.extraction(make.entity(THIRD))})
    await library.settle()
    before = await library.fingerprint()
    await library.names.rule([Ruling(*sorted((AMELIA, RADIUM)), False, "user")])
    await library.settle({normal_key(form): RADIUM}, apart={AMELIA: {scope: form}})
    await library.move()
    [radium] = await library.graph.entities([RADIUM])
    assert radium.mentions == 3
    assert await library.names.used_by(normal_key(form), limit=9) == []
    # both decisions are taken back at once: the evidence is at neither of the old places' names
    await library.names.rule([Ruling(*sorted((AMELIA, RADIUM)), True, "user")])
    await library.settle({normal_key(form): normal_key(form)})
    await library.move()
    await library.forget_the_gone()
    assert await library.fingerprint() == before


async def test_what_is_placed_nowhere_is_left_out_of_that_document_only(library: Library) -> None:
    for document in ("d1", "d2"):
        await library.ingest(document, {f"c-{document}": in_paris("art")})
    await library.names.place([by_hand(PARIS, "d2", "")])
    await library.move()
    assert [one.mentions for one in await library.graph.entities([PARIS, RADIUM])] == [1, 2]
    assert await library.graph.stats() == Stats(2, 2, 2, 1)
    assert await library.graph.supported(Kind.ENTITY, ["d2"], limit=9) == [RADIUM]
    assert await library.graph.supported(Kind.RELATION, ["d2"], limit=9) == []


async def test_a_documents_placements_and_moves_go_with_it(
    library: Library, neighbour: Library
) -> None:
    for where in (library, neighbour):
        await where.ingest("d1", {"c1": in_paris("art")})
    await library.ingest("d2", {"c2": in_paris("oil")})
    await library.names.place([by_hand(PARIS, "d2", TEXAS, TEXAN), by_hand(PARIS, "d1", "")])
    await library.delete("d2")
    assert await library.names.placed() == [by_hand(PARIS, "d1", "")]
    await library.names.place([by_hand(PARIS, "d1", "")], remove=True)
    await library.move()
    for where in (library, neighbour):
        await where.ingest("d2", {"c2": in_paris("oil")})
        await where.forget_the_gone()
    assert await library.fingerprint() == await neighbour.fingerprint()


async def test_a_placement_of_one_sense_leaves_the_others_and_goes_with_its_document(
    library: Library,
) -> None:
    sense = scope_of("Paris", "location", "a place of art")
    assert sense
    for document in ("d1", "d11"):
        other = make.extraction(make.entity("Paris", kind=""), make.relation("Paris", THIRD))
        await library.ingest(document, {f"c1-{document}": in_paris("art"), f"c2-{document}": other})
    before = await library.fingerprint()
    made = [
        Placement(PARIS, document_scope(document, said), entity, name)
        for document in ("d1", "d11")
        for said, entity, name in (("", "", ""), (sense, TEXAS, TEXAN))
    ]
    await library.names.place(made)
    await library.move()
    found = await library.graph.entities([PARIS, TEXAS])
    assert {one.key: one.mentions for one in found if one.mentions} == {TEXAS: 2}
    assert await library.names.placed() == made
    await library.names.place(made, remove=True)
    await library.move()
    await library.forget_the_gone()
    assert await library.fingerprint() == before
    await library.names.place(made)
    await library.delete("d1")
    assert await library.names.placed() == made[2:]


async def test_nothing_is_placed_for_a_document_that_is_not_there(library: Library) -> None:
    await library.names.place([by_hand(PARIS, "nowhere", TEXAS)])
    assert await library.names.placed() == []
    assert not await library.names.moving()


async def test_placements_by_hand_are_listed_in_pages(library: Library) -> None:
    for document in ("d1", "d2"):
        await library.ingest(document, {})
    made = [by_hand(k, d, "x") for k in ("a", "b") for d in ("d1", "d2")]
    await library.names.place(made[::-1])
    await library.settle({"a": "c"})
    assert await library.names.placed(limit=3) == made[:3]
    after = f"{made[1].key}\t{made[1].scope}"
    assert await library.names.placed(after=after, limit=9) == made[2:]


# --- settlements ---------------------------------------------------------------------------------


async def test_a_settlement_from_an_old_version_changes_nothing(library: Library) -> None:
    await fill(library)
    version = await library.names.version()
    assert await library.settle({AMY: AMELIA}, blocks={AMY: ["baker"]})
    assert await library.names.version() > version
    await library.move()
    before = await library.fingerprint()
    await library.names.rule([Ruling(AMELIA, AMY, True, "user")])
    opened = await library.names.opened(limit=9)
    refused = await library.settle(
        {AMY: AMY, AMELIA: RADIUM}, version=version, blocks={AMY: ["x"], AMELIA: ["y"]},
        pairs=[reviewed(AMY, AMELIA, 60)], reopen=[RADIUM],
    )  # fmt: skip
    assert refused is False
    assert not await library.names.moving()
    assert await library.fingerprint() == before
    assert await library.names.opened(limit=9) == opened
    assert await library.names.in_blocks(["baker", "x", "y"], limit=9) == {
        "baker": [AMY], "x": [], "y": [],
    }  # fmt: skip
    assert await library.names.review(decision="") == []


async def test_a_name_that_changed_meanwhile_stays_open(library: Library) -> None:
    await library.ingest("d1", {"c1": long_one()})
    version, opened = await library.names.version(), await library.names.opened(limit=9)
    await library.ingest("d2", {"c2": make.extraction(make.entity(LONG, "", aliases=["Lia"]))})
    [changed] = [one for one in await library.names.known([AMELIA])]
    assert changed.revision > next(one for one in opened if one.key == AMELIA).revision
    resolved = [Library.resolved(one) for one in opened]
    assert await library.names.settle(Settlement(version, resolved))
    assert await open_keys(library) == [AMELIA]
    assert await library.settle(reopen=[RADIUM])
    assert await open_keys(library) == [RADIUM]


async def test_gone_names_leave_no_block_pair_or_placement_behind(library: Library) -> None:
    await fill(library)
    await library.settle(
        {AMY: AMELIA}, blocks={AMY: ["amy", "baker"], AMELIA: ["baker"]},
        pairs=[reviewed(AMY, AMELIA, 88.5, "merge"), reviewed(AMELIA, RADIUM, 51)],
    )  # fmt: skip
    await library.move()
    await library.ingest("d1", {"c1": long_one()})
    await library.ingest("d2", {"c5": long_one()})
    assert await open_keys(library) == [AMY]
    await library.settle()
    names = library.names
    assert await open_keys(library) == []
    assert await names.known([AMY]) == []
    assert await names.in_blocks(["amy", "baker"], limit=9) == {"amy": [], "baker": [AMELIA]}
    assert await names.members([AMELIA]) == {}
    assert [one.pair.keys for one in await names.pairs([AMY, AMELIA])] == [(AMELIA, RADIUM)]
    # it comes back as itself
    await library.ingest("d3", {"c6": short_one()})
    assert (await library.graph.entities([AMY]))[0].mentions == 1


async def test_a_gone_name_that_came_back_meanwhile_is_not_forgotten(library: Library) -> None:
    await library.ingest("d1", {"c1": short_one()})
    await library.settle()
    await library.delete("d1")
    version = await library.names.version()
    gone = await open_keys(library)
    assert gone == sorted([AMY, RADIUM])
    await library.ingest("d2", {"c2": short_one()})
    assert await library.names.settle(Settlement(version, gone=gone))
    assert await open_keys(library) == gone
    assert [one.mentions for one in await library.names.known(gone)] == [1, 1]


async def test_names_are_posted_under_the_blocks_of_their_last_settlement(library: Library) -> None:
    await fill(library)
    await library.settle(blocks={AMY: ["a", "b"], AMELIA: ["b"], RADIUM: ["b"]})
    names = library.names
    assert await names.in_blocks(["b", "a", "none"], limit=2) == {
        "b": sorted([AMY, AMELIA, RADIUM])[:2], "a": [AMY], "none": [],
    }  # fmt: skip
    assert (await names.known([AMY]))[0].blocks == ("a", "b")
    await names.rule([Ruling(*sorted((AMY, RADIUM)), False, "user")])
    await library.settle(blocks={AMY: ["b", "c"]})
    assert await names.in_blocks(["a", "b", "c"], limit=9) == {
        "a": [], "b": sorted([AMY, AMELIA]), "c": [AMY],
    }  # fmt: skip


async def test_recorded_pairs_are_reviewed_in_pages_best_score_first(library: Library) -> None:
    await fill(library)
    ends = [f"n{n}" for n in range(4)]
    pairs = [
        reviewed("n0", "n1", 90, "merge"), reviewed("n0", "n2", 60.1234),
        reviewed("n0", "n3", 60.1234), reviewed("n1", "n2", 60.124), reviewed("n1", "n3", 20),
        reviewed("n2", "n3", 95, "apart"),
    ]  # fmt: skip
    await library.settle(pairs=pairs)
    names = library.names
    asked = await names.review(decision="ask")
    assert [one.pair.keys for one in asked] == [
        ("n1", "n2"), ("n0", "n2"), ("n0", "n3"), ("n1", "n3")
    ]  # fmt: skip
    assert asked[1] == replace(pairs[1], pair=replace(pairs[1].pair, score=60.123))
    whole = await names.review(decision="")
    assert [one.decision for one in whole[:2]] == ["apart", "merge"]
    seen: list[Reviewed] = []
    while page := await names.review(decision="", after=seen[-1].place if seen else "", limit=2):
        seen += page
    assert seen == whole
    assert len(await names.pairs(ends)) == 6
    assert [one.pair.keys for one in await names.pairs(["n3"])] == [
        ("n0", "n3"), ("n1", "n3"), ("n2", "n3")
    ]  # fmt: skip
    version = await names.version()
    await names.settle(Settlement(version, decisions=[("n1", "n3", "merge"), ("n7", "n8", "ask")]))
    assert [one.pair.keys for one in await names.review(decision="merge")] == [
        ("n0", "n1"), ("n1", "n3")
    ]  # fmt: skip


async def test_pairs_of_a_resolved_name_replace_those_before(library: Library) -> None:
    await fill(library)
    await library.settle(pairs=[reviewed(AMY, AMELIA, 60), reviewed(AMELIA, RADIUM, 55)])
    await library.names.rule([Ruling(*sorted((AMY, "x")), False, "user")])
    await library.settle(pairs=[reviewed(AMY, RADIUM, 70)])
    assert {one.pair.keys for one in await library.names.pairs([AMY, AMELIA])} == {
        tuple(sorted((AMELIA, RADIUM))), tuple(sorted((AMY, RADIUM)))
    }  # fmt: skip


async def test_a_users_word_hides_a_models_until_it_is_taken_back(library: Library) -> None:
    await fill(library)
    await library.settle()
    one, other = sorted((AMY, AMELIA))
    model = Ruling(one, other, True, "model", "looks so", 1.5)
    user = Ruling(one, other, False, "user", "I know them", 2.5)
    names = library.names
    await names.rule([user, model, Ruling(*sorted((one, RADIUM)), True, "model")])
    assert await open_keys(library) == sorted([one, other, RADIUM])
    assert set(await names.rulings([other])) == {user}
    await names.rule([user._replace(note="still")])
    found = {(ruling.note, ruling.by) for ruling in await names.rulings([one])}
    assert found == {("still", "user"), ("", "model")}
    await library.settle()
    assert await names.unrule(one, other) is True
    assert await names.unrule(one, other) is False
    assert await open_keys(library) == [one, other]
    assert await names.rulings([other]) == [model]


async def test_a_models_word_on_a_name_that_is_gone_leaves_nothing(library: Library) -> None:
    """Its answer may come after the document was deleted."""
    await fill(library)
    await library.settle()
    gone = [
        Ruling(*sorted((AMY, "x")), True, "model"), Ruling(*sorted(("x", "y")), False, "model"),
    ]  # fmt: skip
    await library.names.rule([*gone, Ruling(*sorted((AMY, AMELIA)), True, "model")])
    assert await library.names.rulings(["x", "y"]) == []
    assert len(await library.names.rulings([AMY])) == 1
    await library.names.rule([Ruling("x", "y", False, "user")])  # people may know what comes
    assert [one.by for one in await library.names.rulings(["x"])] == ["user"]


# --- jobs of moves -------------------------------------------------------------------------------


async def test_what_a_job_moved_is_left_to_it_until_it_ends(
    library: Library, journal: Journal
) -> None:
    one, other = (make.job("", plan=Plan.CURATE, workspace=library.name) for _ in range(2))
    await journal.open(one)
    await journal.open(other)
    await fill(library)
    await library.settle({AMY: AMELIA})
    names = library.names
    assert not await names.moved(one.id)
    await library.move(one.id)
    assert await names.moved(one.id)
    assert not await names.moved(other.id)
    await names.adopt(other.id)
    assert not await names.moved(other.id)
    assert not await names.moving()
    await journal.close(library.name, one.id, State.FAILED)
    assert await names.moving(), "somebody is to tidy up after it"
    await names.adopt(other.id)
    assert await names.moved(other.id)
    assert not await names.moved(one.id)
    assert not await names.moving()
    await names.tidy(other.id)
    assert not await names.moved(other.id)


async def test_two_names_are_together_where_a_chunk_uses_both(library: Library) -> None:
    amy, amelia, ada = (make.entity(name) for name in ("Amy", "Amelia", "Ada"))
    await library.ingest(
        "d", {"c1": make.extraction(amy, amelia), "c2": make.extraction(amelia, ada)}
    )
    pairs = [("amelia", "amy"), ("ada", "amelia"), ("ada", "amy"), ("amy", "nobody")]
    names = library.names
    assert await names.together(pairs) == set(pairs[:2])
    await library.settle({"amy": "amelia"})
    await library.move()
    assert await names.together(pairs) == set(pairs[:2]), "though they are one entity now"
    await library.settle({"amy": "amy"}, apart={"amelia": {"": "Amelia (born 1901)"}})
    assert await names.together(pairs) == set(pairs[:2]), "though their evidence is to move"
    await names.place([Placement("amelia", document_scope("d"), "else", "Somebody Else")])
    await library.move()
    assert await names.together(pairs) == set(pairs[:2]), "though somebody put them elsewhere"
    await library.delete("d")
    assert await names.together(pairs) == set()


async def test_a_decision_from_a_passage_that_came_or_went_meanwhile_is_not_kept(
    library: Library,
) -> None:
    amy, amelia = make.entity("Amy"), make.entity("Amelia")
    await library.ingest("a", {"c1": make.extraction(amy)})
    await library.ingest("b", {"c2": make.extraction(amelia)})
    names, pair = library.names, Pair("amelia", "amy", "partial", 68, 76)

    async def keeps(tie: str) -> bool:
        return await names.settle(
            Settlement(await names.version(), pairs=[Reviewed(pair, "ask", tie)])
        )

    assert not await keeps("has")
    assert await names.pairs(["amy"]) == []
    await library.ingest("c", {"c3": make.extraction(amy, amelia)})
    assert not await keeps("lacks")
    assert await keeps("has")
    await library.delete("c")
    assert not await keeps("has")
    assert await keeps("lacks")


async def test_a_tied_pair_opens_when_a_chunk_uses_both_or_no_longer_does(
    library: Library,
) -> None:
    amy, amelia = make.entity("Amy"), make.entity("Amelia")
    await library.ingest("a", {"c1": make.extraction(amy)})
    await library.ingest("b", {"c2": make.extraction(amelia)})

    async def settled(tie: str) -> None:
        pair = Pair("amelia", "amy", "partial", 68, 76)
        await library.settle(pairs=[Reviewed(pair, "ask", tie)])
        assert not await library.names.opened(limit=9)

    await settled("lacks")
    await library.ingest("c", {"c3": make.extraction(amy)})
    assert not await library.names.opened(limit=9), "one of them alone changes nothing"
    await library.ingest("d", {"c4": make.extraction(amy, amelia)})
    assert [one.key for one in await library.names.opened(limit=9)] == ["amelia"]
    await settled("has")
    await library.ingest("e", {"c5": make.extraction(amy, amelia)})
    assert not await library.names.opened(limit=9), "what it has it has"
    await library.delete("e")
    assert [one.key for one in await library.names.opened(limit=9)] == ["amelia"]


async def test_nothing_to_move_is_nothing_to_tidy(library: Library) -> None:
    await fill(library)
    assert not await library.names.moving()
    assert await library.names.move("j", limit=9) == 0
    assert not await library.names.moved("j")


async def test_moved_evidence_is_to_be_profiled_and_indexed_anew(library: Library) -> None:
    await fill(library)
    await library.profile_all()
    await library.index_all()
    await library.settle({AMY: AMELIA})
    await library.move()
    assert {Ref(Kind.ENTITY, AMELIA), Ref(Kind.ENTITY, RADIUM)} <= set(
        await library.graph.unprofiled()
    )
    gone = {one.ref for one in await library.graph.unindexed() if one.gone}
    assert Ref(Kind.ENTITY, AMY) in gone
    await library.forget_the_gone()
    await library.profile_all()
    await library.index_all()
    assert await library.graph.unindexed() == []


async def test_chunks_that_are_being_read_again_are_left_to_their_own_job(
    library: Library, neighbour: Library
) -> None:
    for where in (library, neighbour):
        await where.ingest("d1", {"c1": short_one()})
    job = await library.open("d1", make.revision())
    chunk = make.chunk("c1", document_id="d1", text="text of c1")
    await library.graph.put_chunks("d1", job, [chunk], ["another key"])
    await library.settle({AMY: AMELIA})
    await library.move()
    assert (await library.graph.entities([AMY]))[0].mentions == 1
    await library.graph.put_extraction("c1", short_one())
    await library.graph.fold("d1", job, ["c1"])
    await neighbour.settle({AMY: AMELIA})
    await neighbour.move()
    for where in (library, neighbour):
        await where.forget_the_gone()
    assert await library.fingerprint() == await neighbour.fingerprint()


# --- workspaces ----------------------------------------------------------------------------------


async def test_two_workspaces_know_nothing_of_each_others_names(
    library: Library, neighbour: Library
) -> None:
    for where in (library, neighbour):
        await fill(where)
    before = await neighbour.fingerprint()
    await library.names.rule([Ruling(AMELIA, AMY, True, "user")])
    await library.settle({AMY: AMELIA}, blocks={AMY: ["b"]}, pairs=[reviewed(AMY, AMELIA, 90)])
    await library.names.place([by_hand(RADIUM, "d1", "")])
    assert not await neighbour.names.moving()
    assert await neighbour.names.move("j", limit=9) == 0
    await library.move("j")
    assert not await neighbour.names.moved("j")
    assert await neighbour.fingerprint() == before
    assert await open_keys(neighbour) == sorted([AMELIA, AMY, RADIUM])
    assert await neighbour.names.version() == 0
    assert await neighbour.names.rulings([AMY]) == []
    assert await neighbour.names.pairs([AMY]) == []
    assert await neighbour.names.review(decision="") == []
    assert await neighbour.names.placed() == []
    assert await neighbour.names.members([AMELIA]) == {}
    assert await neighbour.names.in_blocks(["b"], limit=9) == {"b": []}


@pytest.mark.parametrize("limit", [1, 3])
async def test_names_are_opened_in_key_order_up_to_a_limit(library: Library, limit: int) -> None:
    await fill(library)
    opened = await library.names.opened(limit=limit)
    assert [one.key for one in opened] == sorted([AMELIA, AMY, RADIUM])[:limit]
