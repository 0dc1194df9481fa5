"""The graph over HTTP: search, one thing, a relation, what surrounds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from app.ports import Services
from tests.api.conftest import Site, assert_problem, embedded
from tests.api.test_query import AMBER, BASALT


@pytest.fixture(scope="module")
async def services(
    tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> AsyncIterator[Services]:
    """One for all tests of this file: they only look."""
    async with embedded(tmp_path_factory.mktemp("site"), valkey_url) as opened:
        yield opened


@pytest.fixture
async def known(site: Site) -> Site:
    if (await site.client.get("/documents/counts")).json()["ready"] < 2:
        await site.add(AMBER, id="amber")
        await site.add(BASALT, id="basalt")
    return site


async def get(site: Site, path: str, **params: Any) -> dict[str, Any]:
    reply = await site.client.get(f"/graph/{path}", params=params)
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def test_pages_of_entities_hold_each_once_most_mentioned_first(known: Site) -> None:
    stats = await get(known, "stats")
    assert (stats["documents"], stats["chunks"]) == (2, 2)
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {"limit": 3}
    while True:
        page = await get(known, "entities", **params)
        found += page["entities"]
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
    assert len({one["id"] for one in found}) == len(found) == stats["entities"]
    mentions = [one["mentions"] for one in found]
    assert mentions == sorted(mentions, reverse=True)


async def test_search_finds_by_words_of_a_name(known: Site) -> None:
    names = {one["name"] for one in (await get(known, "entities", search="weber"))["entities"]}
    assert names == {"Johanna Weber"}
    assert (await get(known, "entities", search="zzz"))["entities"] == []


async def test_an_entity_shows_its_evidence_and_relations(known: Site) -> None:
    [listed] = (await get(known, "entities", search="Johanna Weber"))["entities"]
    for given in (listed["id"], "Johanna Weber", "  JOHANNA  WEBER "):
        entity = await get(known, f"entities/{quote(given, safe='')}")
        assert entity["id"] == listed["id"]
    assert entity["mentions"] == len(entity["evidence"]) == 1
    assert entity["evidence"][0]["document_id"] == "amber"
    chunks = (await known.client.get("/documents/amber/chunks")).json()["chunks"]
    assert entity["evidence"][0]["chunk_id"] == chunks[0]["id"]
    assert entity["id"] in chunks[0]["entities"]
    assert entity["degree"] == len(entity["relations"]) > 0
    ends = {entity["relations"][0]["source"], entity["relations"][0]["target"]}
    assert "Johanna Weber" in ends
    few = await get(known, f"entities/{quote(listed['id'], safe='')}", relations=0)
    assert few["relations"] == []


async def test_a_relation_is_found_from_either_end(known: Site) -> None:
    entity = await get(known, "entities/Johanna%20Weber")
    relation = entity["relations"][0]
    one = await get(known, "relation", source=relation["source"], target=relation["target"])
    other = await get(known, "relation", source=relation["target_id"], target=relation["source_id"])
    assert one == other
    assert one["evidence"][0]["document_id"] == "amber"
    reply = await known.client.get(
        "/graph/relation", params={"source": "Johanna Weber", "target": "Magnus Olsen"}
    )
    assert_problem(reply, 404, "not_found", "no relation")
    reply = await known.client.get(
        "/graph/relation", params={"source": "Johanna Weber", "target": "johanna weber"}
    )
    assert_problem(reply, 400, "same_entity")


async def test_a_subgraph_goes_as_deep_as_asked(known: Site) -> None:
    alone = await get(known, "subgraph", entity="Johanna Weber", depth=0)
    assert [one["name"] for one in alone["entities"]] == ["Johanna Weber"]
    near = await get(known, "subgraph", entity="Johanna Weber", depth=2)
    names = {one["name"] for one in near["entities"]}
    assert "Johanna Weber" in names
    assert "Magnus Olsen" not in names
    ids = {one["id"] for one in near["entities"]}
    for relation in near["relations"]:
        assert {relation["source_id"], relation["target_id"]} <= ids
    both = await get(known, "subgraph", entity=["Johanna Weber", "Magnus Olsen"], depth=1)
    assert {"Johanna Weber", "Magnus Olsen"} <= {one["name"] for one in both["entities"]}
    cut = await get(known, "subgraph", entity="Johanna Weber", depth=2, limit=1)
    assert cut["truncated"]
