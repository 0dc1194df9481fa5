"""Communities over HTTP: built by a job, listed, read, asked."""

from __future__ import annotations

from typing import Any

from app.domain import Scope
from tests.api.conftest import Site, assert_problem

CURIE = "Marie Curie discovered polonium with Pierre Curie. Marie Curie worked in Paris."
AMBER = "Johanna Weber found amber at the Baltic Sea. Johanna Weber sold amber to Karl Anders."
PATH = "/graph/communities"


async def built(site: Site, body: dict[str, Any] | None = None) -> dict[str, Any]:
    reply = await site.client.post(PATH, json=body) if body else await site.client.post(PATH)
    assert reply.status_code == 202, reply.text
    await site.work()
    job: dict[str, Any] = (await site.client.get(f"/jobs/{reply.json()['id']}")).json()
    assert (job["state"], job["kind"], job["error"]) == ("done", "communities", None)
    return job


async def test_communities_are_built_by_a_job_and_shown(site: Site) -> None:
    await site.add(CURIE, id="a")
    await site.add(AMBER, id="b")
    empty = (await site.client.get(PATH)).json()
    assert (empty["communities"], empty["clustering"], empty["job_id"]) == ([], None, None)
    job = await built(site)
    found = (await site.client.get(PATH)).json()
    assert found["clustering"] == {"levels": 3, "size": 10, "resolution": 1.0}
    assert (found["job_id"], found["levels"]) == (job["id"], {"0": 2})
    assert found["usage"]["llm_calls"] == 0
    for one in found["communities"]:
        assert (one["state"], one["written_by"], one["fault"], one["level"]) == (
            "current", "rules", None, 0,
        )  # fmt: skip
    [curie] = [one for one in found["communities"] if "Marie Curie" in one["title"]]
    shown = (await site.client.get(f"{PATH}/{curie['id']}")).json()
    assert {one["name"] for one in shown["members"]} >= {"Marie Curie", "Pierre Curie"}
    assert shown["size"] == len(shown["members"])
    assert any("polonium" in one["explanation"].lower() for one in shown["findings"])
    assert all(one["relations"] or one["entities"] for one in shown["findings"])


async def test_lists_and_members_come_in_pages(site: Site) -> None:
    await site.add(CURIE, id="a")
    await site.add(AMBER, id="b")
    await built(site)
    first = (await site.client.get(PATH, params={"limit": 1, "level": 0})).json()
    second = (await site.client.get(PATH, params={"limit": 1, "cursor": first["next"]})).json()
    assert second["next"] is None
    ids = [one["id"] for page in (first, second) for one in page["communities"]]
    assert len(set(ids)) == 2
    assert (await site.client.get(PATH, params={"level": 1})).json()["communities"] == []
    members: list[str] = []
    cursor = None
    while True:
        params = {"limit": 1, **({"cursor": cursor} if cursor else {})}
        page = (await site.client.get(f"{PATH}/{ids[0]}", params=params)).json()
        members += [one["id"] for one in page["members"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert len(members) == len(set(members)) == page["size"]


async def test_how_to_divide_is_kept_for_the_next_time(site: Site) -> None:
    await site.add(CURIE, id="a")
    await built(site, {"levels": 1, "resolution": 2.5})
    await built(site, {"size": 5})
    found = (await site.client.get(PATH)).json()
    assert found["clustering"] == {"levels": 1, "size": 5, "resolution": 2.5}


async def test_what_cannot_be_is_refused(site: Site) -> None:
    for body in ({"levels": 0}, {"size": 1}, {"resolution": 0}, {"resolution": "nan"}, {"x": 1}):
        reply = await site.client.post(PATH, json=body)
        assert_problem(reply, 422, "validation")
    assert_problem(await site.client.get(f"{PATH}/none"), 404, "not_found")
    body = {"query": "x", "mode": "community", "community_search": "all"}
    assert_problem(await site.client.post("/query", json=body), 422, "validation")


async def test_a_key_that_reads_may_look_but_not_build(site: Site) -> None:
    await site.add(CURIE, id="a")
    headers = await site.key(Scope.READ, "default")
    assert (await site.client.get(PATH, headers=headers)).status_code == 200
    assert_problem(await site.client.post(PATH, headers=headers), 403, "scope_missing")


async def test_communities_of_another_workspace_are_not_there(site: Site) -> None:
    await site.add(CURIE, id="a")
    await built(site)
    [one] = (await site.client.get(PATH)).json()["communities"]
    other = {"X-Workspace": "other"}
    assert (await site.client.get(PATH, headers=other)).json()["communities"] == []
    reply = await site.client.get(f"{PATH}/{one['id']}", headers=other)
    assert_problem(reply, 404, "not_found")
    body = {"query": "What did Marie Curie discover?", "mode": "community", "only_context": True}
    asked = (await site.client.post("/query", json=body, headers=other)).json()
    assert asked["context"]["themes"] == asked["context"]["chunks"] == []


async def test_a_question_is_answered_from_reports_with_citations(site: Site) -> None:
    await site.add(CURIE, id="a")
    await site.add(AMBER, id="b")
    await built(site)
    body = {"query": "What did Marie Curie discover?", "mode": "community", "explain": True}
    for search in ("level", "nearest"):
        asked = (await site.client.post("/query", json={**body, "community_search": search})).json()
        assert {one["document_id"] for one in asked["citations"]} == {"a"}
        assert asked["context"]["themes"][0]["community_id"]
        assert asked["explain"]["communities"]["search"] == search
        assert "POST /graph/communities" not in asked["notice"]


async def test_without_communities_the_answer_says_how_to_build_them(site: Site) -> None:
    await site.add(CURIE, id="a")
    body = {"query": "What did Marie Curie discover?", "mode": "community"}
    asked = (await site.client.post("/query", json=body)).json()
    assert "polonium" in asked["answer"]
    assert "POST /graph/communities" in asked["notice"]


async def test_after_a_deletion_no_report_and_no_answer_tells_of_it(site: Site) -> None:
    await site.add(CURIE, id="a")
    await site.add("Marie Curie hid the Opal Formula from Pierre Curie.", id="secret")
    await built(site)
    assert "Opal" in (await site.client.get(PATH)).text
    await site.client.delete("/documents/secret")
    await site.work()
    listed = await site.client.get(PATH)
    assert "opal" not in listed.text.lower()
    [one] = listed.json()["communities"]
    assert (one["state"], one["title"]) == ("none", None)
    shown = await site.client.get(f"{PATH}/{one['id']}")
    assert "opal" not in shown.text.lower()
    for search in ("level", "nearest"):
        body = {
            "query": "What was hidden?", "mode": "community", "community_search": search,
            "only_context": True,
        }  # fmt: skip
        assert "opal" not in (await site.client.post("/query", json=body)).text.lower()
    await built(site)
    [one] = (await site.client.get(PATH)).json()["communities"]
    assert one["state"] == "current"


async def test_chat_clients_have_a_model_for_the_mode(site: Site) -> None:
    await site.add(CURIE, id="a")
    await built(site)
    models = (await site.client.get("/v1/models")).json()
    assert "heliograph-community" in {one["id"] for one in models["data"]}
    reply = await site.client.post(
        "/v1/chat/completions",
        json={
            "model": "heliograph-community",
            "messages": [{"role": "user", "content": "What did Marie Curie discover?"}],
        },
    )
    assert "polonium" in reply.json()["choices"][0]["message"]["content"]
