"""What query code may read of the graph, on every backend."""

from __future__ import annotations

import itertools

import pytest

from app.domain import (
    ChunkLinks,
    EntityLinks,
    Extraction,
    Kind,
    Mention,
    Ref,
    Relation,
    Stats,
    relation_ends,
    relation_key,
)
from app.names import key
from app.ports import GraphStore
from tests import make
from tests.contract.conftest import Library

HOSTILE = [
    "Robert'); DROP TABLE entities;--",
    "x}) DETACH DELETE n //",
    "`backtick` \\ \\u0027 $param {json: [1]}",
    "%_*?[a-z]",
    "quote \" ' ` ´",
    "Ωμέγα 文字 𝒜𝓁𝓅𝒽𝒶 🦉",
    "null",
]


def chain(*names: str, strength: float = 1.0) -> Extraction:
    """A path through these names."""
    steps = itertools.pairwise(names)
    return make.extraction(*(make.relation(a, b, f"{a}-{b}", strength=strength) for a, b in steps))


def ends(relations: list[Relation] | tuple[Relation, ...]) -> list[str]:
    return ["-".join(relation_ends(relation.key)) for relation in relations]


# --- by key --------------------------------------------------------------------------------------


async def test_keys_come_back_in_the_order_asked_for_each_once(library: Library) -> None:
    await library.ingest("d", {"c1": chain("a1", "b1", "c1"), "c0": make.extraction()})
    found = await library.graph.entities(["c1", "nobody", "a1", "c1"])
    assert [entity.key for entity in found] == ["c1", "a1"]
    keys = [relation_key("b1", "c1"), "no\tone", relation_key("a1", "b1")]
    assert [one.key for one in await library.graph.relations(keys)] == [keys[0], keys[2]]
    assert [one.id for one in await library.graph.chunks(["c1", "c9", "c0"])] == ["c1", "c0"]
    assert await library.graph.entities([]) == []
    assert await library.graph.relations([]) == []
    assert await library.graph.chunks([]) == []


async def test_five_thousand_keys_are_found_in_one_call(library: Library) -> None:
    names = [f"thing {n}" for n in range(0, 5000, 25)]
    await library.ingest("d", {"c1": make.extraction(*(make.entity(name) for name in names))})
    found = await library.graph.find([key(f"thing {n}") for n in range(5000)])
    assert list(found) == [key(name) for name in names]


async def test_a_key_is_preferred_to_an_alias_and_a_big_entity_to_a_small(library: Library) -> None:
    small = make.entity("Small", aliases=["Mercury", "Shared"])
    big = make.entity("Big", aliases=["Shared"])
    planet = make.entity("Mercury", "a planet")
    await library.ingest("d", {
        "c1": make.extraction(small, big), "c2": make.extraction(big, planet),
        "c3": make.extraction(make.entity("Small", aliases=["Shared"])),
        "c4": make.extraction(make.entity("Big")),
    })  # fmt: skip
    found = await library.graph.find([key("Mercury"), key("Shared")])
    assert found[key("Mercury")].name == "Mercury"
    assert found[key("Shared")].name == "Big"


async def test_only_what_a_chunk_is_about_is_found_when_asked_so(library: Library) -> None:
    topic = make.entity("Topic", aliases=["Subject"])
    await library.ingest("d", {"c1": make.extraction(topic, make.entity("Aside"), about=["Topic"])})
    keys = [key("Topic"), key("Subject"), key("Aside")]
    assert list(await library.graph.find(keys)) == keys
    assert list(await library.graph.find(keys, about=True)) == keys[:2]


# --- for people ----------------------------------------------------------------------------------


async def test_search_lists_the_most_mentioned_first_and_goes_on_from_the_last(
    library: Library,
) -> None:
    await library.ingest("d", {
        "c1": make.extraction(*(make.entity(name) for name in ("Aa", "Bb", "Cc", "Dd"))),
        "c2": make.extraction(make.entity("Cc"), make.entity("Bb")),
    })  # fmt: skip
    whole = [entity.key for entity in await library.graph.search("", limit=10)]
    assert whole == ["bb", "cc", "aa", "dd"]
    pages: list[str] = []
    while page := await library.graph.search("", limit=1, after=pages[-1] if pages else ""):
        pages += [entity.key for entity in page]
    assert pages == whole


async def test_search_finds_parts_of_names_and_aliases_in_any_case_and_script(
    library: Library,
) -> None:
    await library.ingest("d", {"c1": make.extraction(
        make.entity("World Health Organization", aliases=["WHO"]),
        make.entity("Health Ministry"),
        make.entity("Élan Vital"),
        make.entity("世界卫生组织"),
    )})  # fmt: skip

    async def names(text: str) -> set[str]:
        return {entity.name for entity in await library.graph.search(text, limit=10)}

    assert await names("health") == {"World Health Organization", "Health Ministry"}
    assert await names("HEALTH organ") == {"World Health Organization"}
    assert await names("who") == {"World Health Organization"}
    assert await names("ÉLAN") == {"Élan Vital"}
    assert await names("卫生") == {"世界卫生组织"}
    assert await names("100%") == set()
    assert await names("_") == set()


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_names_are_only_names(
    library: Library, neighbour: Library, name: str
) -> None:
    await neighbour.ingest("d", {"c1": make.extraction(make.entity())})
    before = await neighbour.fingerprint()
    said = make.extraction(
        make.entity(name, name, kind=name, aliases=[f"{name} alias"]),
        make.relation(name, "Plain", name, keywords=[name]),
        about=[name],
    )
    await library.ingest(name, {name: said}, make.revision(name=name, metadata={name: name}))
    [entity] = await library.graph.entities([key(name)])
    assert (entity.name, entity.kind, entity.aliases) == (name, name, (f"{name} alias",))
    [relation] = await library.graph.relations_of([key(name)], per_entity=5)
    assert relation.keywords == (name,)
    assert [one.key for one in await library.graph.search(name, limit=5)] == [key(name)]
    assert list(await library.graph.find([key(name)], about=True)) == [key(name)]
    [links] = await library.graph.entity_links([key(name)], chunks=5, about=5, documents=[name])
    assert links.chunks == links.about == (name,)
    [mention] = await library.graph.mentions(Ref(Kind.ENTITY, key(name)))
    assert mention == Mention(name, name, name, name, name)
    assert await library.graph.extractions([f"key of {name}"]) == {f"key of {name}": said}
    assert await library.graph.supported(Kind.RELATION, [name], limit=5) == [relation.key]
    assert await library.documents.matching({name: name}, limit=5) == [name]
    assert await neighbour.fingerprint() == before


# --- links ---------------------------------------------------------------------------------------


async def test_a_chunk_is_tied_to_what_it_names_states_and_is_about(library: Library) -> None:
    said = make.extraction(make.relation("b1", "a1"), make.relation("c1", "b1"), about=["c1", "d1"])
    await library.ingest("d", {"x": said, "y": make.extraction()})
    assert await library.graph.chunk_links(["y", "nobody", "x"]) == [
        ChunkLinks("y", "d", (), (), ()),
        ChunkLinks("x", "d", ("a1", "b1", "c1", "d1"), ("a1\tb1", "b1\tc1"), ("c1", "d1")),
    ]


async def test_an_entity_is_tied_to_its_first_chunks(library: Library) -> None:
    plain, topic = make.extraction(make.entity("Hub")), make.extraction(about=["Hub"])
    await library.ingest("d", {f"c{n}": plain for n in range(5)})
    await library.ingest("e", {f"t{n}": topic for n in range(3)})
    [links] = await library.graph.entity_links(["nobody", "hub"], chunks=4, about=2)
    assert links == EntityLinks("hub", "Hub", 8, ("c0", "c1", "c2", "c3"), ("t0", "t1"))
    [links] = await library.graph.entity_links(["hub"], chunks=2, about=9, documents=["e"])
    assert (links.chunks, links.about) == (("t0", "t1"), ("t0", "t1", "t2"))
    assert await library.graph.entity_links(["hub"], chunks=2, about=2, documents=["f"]) == []
    assert await library.graph.entity_links(["hub"], chunks=2, about=2, documents=[]) == []


async def test_relations_of_entities_come_heaviest_first_and_bounded(library: Library) -> None:
    await library.ingest("d", {"c1": make.extraction(
        make.relation("hub", "a1", strength=1), make.relation("z1", "hub", strength=9),
        make.relation("hub", "m1", strength=5), make.relation("hub", "b1", strength=5),
        make.relation("a1", "b1", strength=2),
    )})  # fmt: skip
    found = await library.graph.relations_of(["hub"], per_entity=3)
    assert ends(found) == ["hub-z1", "b1-hub", "hub-m1"]
    both = await library.graph.relations_of(["hub", "b1"], per_entity=1)
    assert ends(both) == ["hub-z1", "b1-hub"]
    assert await library.graph.relations_of(["nobody"], per_entity=3) == []


async def test_keys_of_relations_come_in_the_same_order_without_the_relations(
    library: Library,
) -> None:
    await library.ingest("d", {"c1": make.extraction(
        make.relation("hub", "a1", strength=1), make.relation("z1", "hub", strength=9),
        make.relation("hub", "m1", strength=5), make.relation("hub", "b1", strength=5),
        make.relation("a1", "b1", strength=2),
    )})  # fmt: skip
    await library.ingest("e", {"c2": chain("hub", "q1"), "c3": make.extraction(about=["lone"])})
    graph = library.graph
    found = await graph.heaviest(["hub", "nobody", "lone", "b1", "hub"], per_entity=3)
    assert found == {
        "hub": [relation_key("hub", end) for end in ("z1", "b1", "m1")],
        "b1": [relation_key("hub", "b1"), relation_key("a1", "b1")],
    }
    assert await graph.heaviest(["hub"], per_entity=3, documents=["e"]) == {
        "hub": [relation_key("hub", "q1")]
    }
    assert await graph.heaviest(["hub"], per_entity=3, documents=[]) == {}
    assert await graph.heaviest([], per_entity=3) == {}


async def test_filters_hold_for_relations_and_their_chunks(library: Library) -> None:
    await library.ingest("d", {"c1": chain("hub", "a1", strength=9)})
    await library.ingest("e", {"c2": chain("hub", "b1"), "c0": chain("hub", "a1")})
    graph = library.graph
    found = await graph.relations_of(["hub"], per_entity=1, documents=["e"])
    assert ends(found) == ["a1-hub"]
    found = await graph.relations_of(["hub"], per_entity=5, documents=["d"])
    assert ends(found) == ["a1-hub"]
    assert await graph.relations_of(["hub"], per_entity=5, documents=[]) == []
    one, other = relation_key("hub", "a1"), relation_key("hub", "b1")
    assert await graph.relation_chunks([one, other], per_relation=1) == {one: ["c0"], other: ["c2"]}
    among = await graph.relation_chunks([one, other], per_relation=5, documents=["d"])
    assert among == {one: ["c1"]}


# --- evidence ------------------------------------------------------------------------------------


async def test_evidence_is_a_bounded_sample_by_chunk_id(library: Library) -> None:
    readings = {f"c{n}": make.extraction(make.entity("Hub", f"fact {n}")) for n in range(5)}
    await library.ingest("d", readings | {"b0": make.extraction(about=["Hub"])})
    refs = [Ref(Kind.ENTITY, "nobody"), Ref(Kind.ENTITY, "hub")]
    [evidence] = await library.graph.evidence(refs, limit=3)
    assert evidence.descriptions == ("fact 0", "fact 1", "fact 2")
    assert (evidence.ref, evidence.name, evidence.count) == (refs[1], "Hub", 5)


async def test_evidence_can_be_that_of_some_documents_only(library: Library) -> None:
    await library.ingest("d", {"c1": chain("a1", "b1")})
    await library.ingest("e", {"c2": make.extraction(make.relation("b1", "a1", "from e"))})
    ref = Ref(Kind.RELATION, relation_key("a1", "b1"))
    [evidence] = await library.graph.evidence([ref], documents=["e"])
    assert evidence.descriptions == ("from e",)
    assert {"a1", "b1"} == set(evidence.name.replace("→", " ").split())
    assert await library.graph.evidence([ref], documents=["f"]) == []


async def test_mentions_are_paged_by_chunk(library: Library) -> None:
    await library.ingest("d", {
        "c2": make.extraction(make.entity("hub", "second", kind="other")),
        "c1": make.extraction(make.entity("Hub", "first"), make.relation("Hub", "a1", "states")),
    })  # fmt: skip
    ref = Ref(Kind.ENTITY, "hub")
    first = await library.graph.mentions(ref, limit=1)
    assert first == [Mention("c1", "d", "Hub", "person", "first")]
    rest = await library.graph.mentions(ref, after="c1")
    assert rest == [Mention("c2", "d", "hub", "other", "second")]
    [stated] = await library.graph.mentions(Ref(Kind.RELATION, relation_key("hub", "a1")))
    assert (stated.chunk_id, stated.document_id, stated.description) == ("c1", "d", "states")
    assert await library.graph.mentions(Ref(Kind.ENTITY, "nobody")) == []


async def test_documents_support_what_their_visible_chunks_say(library: Library) -> None:
    await library.ingest("d", {"c1": chain("a1", "b1")})
    await library.ingest("e", {"c2": chain("b1", "c1")})
    graph = library.graph
    assert await graph.supported(Kind.ENTITY, ["d"], limit=9) == ["a1", "b1"]
    assert await graph.supported(Kind.ENTITY, ["d", "e", "f"], limit=9) == ["a1", "b1", "c1"]
    assert await graph.supported(Kind.RELATION, ["e"], limit=9) == [relation_key("b1", "c1")]
    assert len(await graph.supported(Kind.ENTITY, ["d", "e"], limit=2)) == 2
    assert await graph.supported(Kind.ENTITY, [], limit=9) == []


# --- subgraphs -----------------------------------------------------------------------------------


async def test_a_subgraph_grows_by_depth_and_has_all_relations_inside(library: Library) -> None:
    await library.ingest("d", {"c1": chain("a1", "b1", "c1", "d1"), "c2": chain("b1", "e1", "a1")})

    async def reached(depth: int) -> tuple[set[str], list[str]]:
        found = await library.graph.subgraph(["a1", "nobody"], depth=depth, limit=50)
        assert not found.truncated
        return {entity.key for entity in found.entities}, sorted(ends(found.relations))

    assert await reached(0) == ({"a1"}, [])
    assert await reached(1) == ({"a1", "b1", "e1"}, ["a1-b1", "a1-e1", "b1-e1"])
    keys, _ = await reached(2)
    assert keys == {"a1", "b1", "e1", "c1"}
    keys, _ = await reached(9)
    assert keys == {"a1", "b1", "c1", "d1", "e1"}


async def test_a_subgraph_takes_heavy_relations_first_and_says_when_it_was_cut(
    library: Library,
) -> None:
    spokes = [make.relation("hub", f"s{n}", strength=n) for n in range(1, 9)]
    await library.ingest("d", {"c1": make.extraction(*spokes)})
    found = await library.graph.subgraph(["hub"], depth=1, limit=4)
    assert [entity.key for entity in found.entities] == ["hub", "s8", "s7", "s6"]
    assert ends(found.relations) == ["hub-s8", "hub-s7", "hub-s6"]
    assert found.truncated


# --- workspaces ----------------------------------------------------------------------------------


async def test_two_workspaces_do_not_see_each_other(library: Library, neighbour: Library) -> None:
    said = make.extraction(
        make.entity("Hub", "secret", aliases=["Nave"]), make.relation("Hub", "Rim"), about=["Hub"]
    )
    job = await library.ingest("d", {"c1": said})
    refs = [Ref(Kind.ENTITY, "hub"), Ref(Kind.RELATION, relation_key("hub", "rim"))]
    keys = [refs[1].key]
    other: GraphStore = neighbour.graph
    assert await other.stats() == Stats(0, 0, 0, 0)
    assert await other.chunks(["c1"]) == []
    assert await other.document_chunks("d") == []
    assert await other.entities(["hub"]) == []
    assert await other.relations(keys) == []
    assert await other.find(["hub", "nave"]) == {}
    assert await other.search("", limit=5) == []
    assert await other.chunk_links(["c1"]) == []
    assert await other.entity_links(["hub"], chunks=5, about=5) == []
    assert await other.relations_of(["hub"], per_entity=5) == []
    assert await other.heaviest(["hub"], per_entity=5) == {}
    assert await other.relation_chunks(keys, per_relation=5) == {}
    assert await other.evidence(refs) == []
    assert [await other.mentions(ref) for ref in refs] == [[], []]
    assert await other.supported(Kind.ENTITY, ["d"], limit=5) == []
    assert (await other.subgraph(["hub"], depth=2, limit=5)).entities == ()
    assert await other.pending_chunks("d", ["c1"]) == []
    assert await other.extractions(["key of c1"]) == {}
    assert await other.unread("d", job) == await other.unfolded("d", job) == []
    assert await other.retired("d", job) == []
    assert await other.unprofiled() == await other.unprofiled("d") == []
    assert await other.unindexed() == await other.unindexed("d") == []


async def test_two_workspaces_do_not_touch_each_other(library: Library, neighbour: Library) -> None:
    said = {"c1": make.extraction(make.entity("Hub", "one"), make.relation("Hub", "Rim"))}
    job = await library.ingest("d", said)
    await library.profile_all()
    await library.index_all()
    before = await library.fingerprint()
    entities = await library.graph.entities(["hub", "rim"])
    await neighbour.graph.put_chunks("d", job, [make.chunk("c1")], ["other"])
    await neighbour.graph.put_extraction("c1", make.extraction(make.entity("Else")))
    await neighbour.graph.fold("d", job, ["c1"])
    await neighbour.graph.retract("d", ["c1"])
    await neighbour.ingest("d", said)
    await neighbour.ingest("e", {"c2": make.extraction(make.entity("hub", "two"))})
    await neighbour.profile_all()
    await neighbour.delete("d")
    await neighbour.forget_the_gone()
    await neighbour.graph.forget([Ref(Kind.ENTITY, "hub"), Ref(Kind.CHUNK, "c1")])
    assert await library.fingerprint() == before
    assert await library.graph.entities(["hub", "rim"]) == entities
    assert await library.graph.unprofiled() == []
    assert await library.graph.unindexed() == []
