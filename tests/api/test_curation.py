"""People's own decisions on names and entities: kept, carried out, listed, taken back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app import curation
from app.api.schemas import cursor_of
from app.domain import Ruling
from app.errors import Invalid
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump
from tests.api.conftest import Site, assert_problem

A = "Li Wei is CFO of Company Anchor. Li Wei works in Bergen with Company Anchor."
B = "Li Wei is CFO of Company Beacon. Li Wei works in Lisbon with Company Beacon."


async def carried_out(site: Site, reply: httpx.Response) -> dict[str, Any]:
    assert reply.status_code == 202, reply.text
    body: dict[str, Any] = reply.json()
    await site.work()
    job = (await site.client.get(f"/jobs/{body['job_id']}")).json()
    assert job["state"] == "done", job
    return body


async def names(site: Site) -> dict[str, int]:
    body = (await site.client.get("/graph/entities", params={"limit": 500})).json()
    return {one["name"]: one["mentions"] for one in body["entities"]}


async def lines(site: Site) -> list[str]:
    return sorted([line async for line in dump(site.services.workspace("default"))])


async def test_a_split_by_documents_survives_reading_them_again_and_can_be_undone(
    site: Site,
) -> None:
    await site.add(A, id="a")
    await site.add(B, id="b")
    before = await lines(site)
    both = (await names(site))["Li Wei"]
    groups = [
        {"name": "Li Wei (Company Anchor)", "documents": ["a"]},
        {"name": "Li Wei (Company Beacon)", "documents": ["b"]},
    ]
    reply = await site.client.post("/graph/entities/Li Wei/split", json={"groups": groups})
    assert "Li Wei" not in await names(site), "few mentions move at once"
    assert (await carried_out(site, reply))["changed"] == 2
    found = await names(site)
    assert "Li Wei" not in found
    assert found["Li Wei (Company Anchor)"] + found["Li Wei (Company Beacon)"] == both
    one = (await site.client.get("/graph/entities/Li Wei (Company Anchor)")).json()
    assert {r["target"] for r in one["relations"]} | {r["source"] for r in one["relations"]} >= {
        "Company Anchor"
    }
    assert not any("Beacon" in r["target"] + r["source"] for r in one["relations"])
    await site.client.post("/documents/b/retry")
    await site.work()
    assert await names(site) == found
    edits = (await site.client.get("/graph/edits")).json()["edits"]
    assert [(one["document_id"], one["name"]) for one in edits] == [
        ("a", "Li Wei (Company Anchor)"),
        ("b", "Li Wei (Company Beacon)"),
    ]
    reply = await site.client.request("DELETE", "/graph/edits", params={"name": "Li Wei"})
    await carried_out(site, reply)
    assert not list(difference(before, await lines(site)))


async def test_a_split_into_a_name_that_means_another_entity_goes_with_it(site: Site) -> None:
    await site.add(A, id="a")
    await site.add(B, id="b")
    await site.add("Robert Stone lives in Oslo. Bobby Quartz lives in Oslo too.", id="c")
    groups = [{"name": "Bobby Quartz", "documents": ["b"]}]
    reply = await site.client.post("/graph/entities/Li Wei/split", json={"groups": groups})
    await carried_out(site, reply)
    merge = {"entities": ["Robert Stone", "Bobby Quartz"]}
    await carried_out(site, await site.client.post("/graph/entities/merge", json=merge))
    listed = (await site.client.get("/graph/entities", params={"limit": 500})).json()["entities"]
    named = [one["name"] for one in listed]
    assert len(named) == len(set(named))
    found = {
        name: (await site.client.get(f"/graph/entities/{name}")).json()
        for name in ("Robert Stone", "Bobby Quartz", "Li Wei")
    }
    assert found["Robert Stone"]["id"] == found["Bobby Quartz"]["id"] != found["Li Wei"]["id"]
    assert {one["document_id"] for one in found["Bobby Quartz"]["evidence"]} == {"b", "c"}
    before = await lines(site)
    await site.client.post("/documents/b/retry")
    await site.work()
    assert await lines(site) == before
    body = {"one": "Robert Stone", "other": "Bobby Quartz", "same": False}
    await carried_out(site, await site.client.put("/graph/resolution", json=body))
    apart = (await site.client.get("/graph/entities/Bobby Quartz")).json()
    assert {one["document_id"] for one in apart["evidence"]} == {"b", "c"}
    assert apart["id"] != (await site.client.get("/graph/entities/Robert Stone")).json()["id"]


async def test_a_removed_entity_comes_back_only_with_new_evidence(site: Site) -> None:
    await site.add(A, id="a")
    reply = await site.client.delete("/graph/entities/Li Wei")
    await carried_out(site, reply)
    assert "Li Wei" not in await names(site)
    assert_problem(await site.client.get("/graph/entities/Li Wei"), 404, "not_found")
    await site.add(B, id="b")
    entity = (await site.client.get("/graph/entities/Li Wei")).json()
    assert {one["document_id"] for one in entity["evidence"]} == {"b"}
    await site.client.post("/documents/a/retry")
    await site.work()
    entity = (await site.client.get("/graph/entities/Li Wei")).json()
    assert {one["document_id"] for one in entity["evidence"]} == {"b"}


async def test_a_decision_is_listed_explained_and_taken_back(site: Site) -> None:
    await site.add("Hogtown is large. Mary lives in Hogtown with Paul.", id="a")
    await site.add("Toronto is large. Mary lives in Toronto with Paul.", id="b")
    before = await lines(site)
    pair = {"one": "Hogtown", "other": "Toronto"}
    said = (await site.client.get("/graph/resolution/pair", params=pair)).json()
    assert said["decision"] == "apart"
    assert not said["together"]
    reply = await site.client.put(
        "/graph/resolution", json={**pair, "same": True, "note": "a nickname"}
    )
    await carried_out(site, reply)
    said = (await site.client.get("/graph/resolution/pair", params=pair)).json()
    assert said["together"]
    assert said["ruling"]["by"] == "user"
    assert "a nickname" in said["explanation"]
    entity = (await site.client.get("/graph/entities/Hogtown")).json()
    assert {one["document_id"] for one in entity["evidence"]} == {"a", "b"}
    await carried_out(site, await site.client.request("DELETE", "/graph/resolution", params=pair))
    assert not list(difference(before, await lines(site)))
    again = await site.client.request("DELETE", "/graph/resolution", params=pair)
    assert_problem(again, 404, "not_found")


async def test_decisions_and_edits_are_taken_back_by_names_as_lists_show_them(site: Site) -> None:
    await site.add("Li Wei founded IBM in Bergen. IBM paid Li Wei in Bergen.", id="w")
    before = await lines(site)
    told = {"one": "IBM", "other": "Li Wei", "same": False}
    await carried_out(site, await site.client.put("/graph/resolution", json=told))
    await carried_out(site, await site.client.delete("/graph/entities/IBM"))
    [edit] = (await site.client.get("/graph/edits")).json()["edits"]
    assert edit["key"] == "^ibm"
    undone = await site.client.delete("/graph/edits", params={"name": edit["key"]})
    await carried_out(site, undone)
    pair = {"one": "li wei", "other": "^ibm"}
    await carried_out(site, await site.client.delete("/graph/resolution", params=pair))
    assert not list(difference(before, await lines(site)))


async def test_entities_merge_by_id_and_split_by_names(site: Site) -> None:
    await site.add("Hogtown is large. Mary lives in Hogtown with Paul.", id="a")
    await site.add("Toronto is large. Mary lives in Toronto with Paul.", id="b")
    before = await names(site)
    reply = await site.client.post(
        "/graph/entities/merge", json={"entities": ["hogtown", "Toronto"]}
    )
    await carried_out(site, reply)
    assert len(await names(site)) == len(before) - 1
    again = await site.client.post(
        "/graph/entities/merge", json={"entities": ["Hogtown", "Toronto"]}
    )
    assert_problem(again, 400, "same_entity")
    reply = await site.client.post(
        "/graph/entities/Toronto/split", json={"groups": [{"names": ["Hogtown"]}]}
    )
    assert (await carried_out(site, reply))["changed"] == 1
    assert await names(site) == before


async def test_candidates_come_best_first_in_pages(site: Site) -> None:
    await site.add(
        "Boris Johnson spoke. Boris de Pfeffel Johnson wrote. Ada Lovelace and Lovelace met. "
        "The World Bank and World Bank Group agreed with Boris Johnson.", id="a",
    )  # fmt: skip
    seen: list[float] = []
    cursor = None
    while True:
        params = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        body = (await site.client.get("/graph/resolution", params=params)).json()
        seen += [one["score"] for one in body["candidates"]]
        assert all(one["explanation"] for one in body["candidates"])
        cursor = body["next"]
        if cursor is None:
            break
    assert seen
    assert seen == sorted(seen, reverse=True)


BLANK = [
    "\x00",
    "^",
    " ",
    "\t \u3000",
    "\u200b\u2060",
    "\u200e",
    "\x7f\x9f",
    "Li\x00Wei",
    "Li\nWei",
]


@pytest.mark.parametrize("name", BLANK)
async def test_a_name_that_names_nothing_is_refused_wherever_one_is_taken(
    site: Site, name: str
) -> None:
    await site.add(A, id="a")
    before = await lines(site)
    split, pair = "/graph/entities/Li Wei/split", {"one": name, "other": "Li Wei"}
    replies = [
        await site.client.post(split, json={"groups": [{"name": name, "documents": ["a"]}]}),
        await site.client.post(split, json={"groups": [{"names": [name]}]}),
        await site.client.put("/graph/resolution", json={**pair, "same": True}),
        await site.client.post("/graph/entities/merge", json={"entities": list(pair.values())}),
        await site.client.get("/graph/resolution/pair", params=pair),
        await site.client.delete("/graph/resolution", params=pair),
        await site.client.delete("/graph/edits", params={"name": name}),
    ]
    for reply in replies:
        problem = assert_problem(reply, 422, "validation")
        assert "name" in problem["errors"][0]["message"] or "character" in problem["detail"]
    assert await lines(site) == before


@pytest.mark.parametrize("name", ["^", " ", "\x00"])
async def test_below_the_api_a_blank_name_is_refused_too(site: Site, name: str) -> None:
    await site.add(A, id="a")
    workspace = site.services.workspace("default")
    with pytest.raises(Invalid):
        await curation.rule(workspace, name, "Li Wei", same=True, note="")
    with pytest.raises(Invalid):
        await curation.split(workspace, "Li Wei", [curation.Group(name, ("a",))])


async def test_a_split_by_names_leaves_no_name_in_its_notes(site: Site) -> None:
    await site.add("Jacob Marley was dead. Old Marley was as dead as a door-nail.", id="a")
    reply = await site.client.post(
        "/graph/entities/merge", json={"entities": ["Jacob Marley", "Old Marley"]}
    )
    if reply.status_code == 202:
        await carried_out(site, reply)
    reply = await site.client.post(
        "/graph/entities/Jacob Marley/split", json={"groups": [{"names": ["Old Marley"]}]}
    )
    await carried_out(site, reply)
    await site.client.delete("/documents/a")
    await site.work()
    left = await site.services.workspace("default").archive.rulings(limit=99)
    assert left
    assert {one.note for one in left if not one.same} == {curation.SPLIT}


async def test_a_split_that_makes_no_sense_is_refused(site: Site) -> None:
    await site.add(A, id="a")
    url = "/graph/entities/Li Wei/split"

    async def refused(groups: list[dict[str, Any]], code: str) -> None:
        assert_problem(await site.client.post(url, json={"groups": groups}), 400, code)

    await refused([{"name": "X", "documents": ["elsewhere"]}], "not_mentioned")
    await refused([{"documents": ["a"]}], "bad_group")
    await refused([{"name": "X"}], "bad_group")
    await refused([{"names": ["Somebody Else"]}], "not_its_name")
    await refused([{"names": ["Li Wei"]}], "bad_group")
    await refused(
        [{"name": "X", "documents": ["a"]}, {"name": "Y", "documents": ["a"]}],
        "overlapping_groups",
    )
    assert_problem(
        await site.client.post("/graph/entities/Nobody/split", json={"groups": [{"names": ["x"]}]}),
        404, "not_found",
    )  # fmt: skip


async def test_a_decision_that_an_earlier_one_forbids_is_refused_by_name(site: Site) -> None:
    await site.add(A, id="a")
    await site.add(B, id="b")
    url = "/graph/resolution"
    apart = {"one": "Bergen", "other": "Lisbon", "same": False}
    await carried_out(site, await site.client.put(url, json=apart))
    merge = {"entities": ["Bergen", "Li Wei"]}
    await carried_out(site, await site.client.post("/graph/entities/merge", json=merge))
    before = await lines(site)
    for reply in (
        await site.client.post("/graph/entities/merge", json={"entities": ["Li Wei", "Lisbon"]}),
        await site.client.put(url, json={"one": "Li Wei", "other": "Lisbon", "same": True}),
        await site.client.post(
            "/graph/entities/merge", json={"entities": ["Lisbon", "Li Wei", "Company Anchor"]}
        ),
    ):
        assert_problem(reply, 409, "decided_apart", "bergen", "lisbon")
    await site.work()
    assert not list(difference(before, await lines(site)))
    reply = await site.client.put(url, json={**apart, "same": True})
    await carried_out(site, reply)
    found = (await site.client.get("/graph/entities/Bergen")).json()
    assert {one["document_id"] for one in found["evidence"]} == {"a", "b"}


async def test_a_users_word_sets_a_models_aside_on_any_names_of_the_two(site: Site) -> None:
    await site.add(A, id="a")
    await site.add(B, id="b")
    await site.services.workspace("default").names.rule(
        [Ruling("bergen", "lisbon", False, "model")]
    )
    for entities in (["Bergen", "Li Wei"], ["Li Wei", "Lisbon"]):
        reply = await site.client.post("/graph/entities/merge", json={"entities": entities})
        await carried_out(site, reply)
    found = [
        (await site.client.get(f"/graph/entities/{name}")).json()["id"]
        for name in ("Bergen", "Li Wei", "Lisbon")
    ]
    assert len(set(found)) == 1


async def test_a_cursor_of_another_list_is_refused(site: Site) -> None:
    await site.add(A, id="a")
    for place in (
        "a",
        "1\t2",
        "x\ty\tz",
        "nan\ta\tb",
        "1e999\ta\tb",
        "1.000\ta\tb\tc",
        "\0\t\0\t\0",
    ):
        reply = await site.client.get("/graph/resolution", params={"cursor": cursor_of(place)})
        assert_problem(reply, 400, "bad_cursor")
