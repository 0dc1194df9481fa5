"""`/evaluations`: asked for, followed, listed and deleted; what cannot be measured is told."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain import Scope
from tests.api.conftest import Site, assert_problem

ASKED: dict[str, Any] = {
    "name": "rocks",
    "modes": ["naive", "mix"],
    "questions": [
        {"question": "What is Amber?", "gold_passage_ids": ["amber"], "answers": ["resin"]},
        {"id": "mine", "question": "What is basalt?", "gold_document_names": ["Basalt"],
         "gold_quotes": ["volcanic rock"], "evidence": ["Basalt is rock."]},
        {"question": "Who sank Atlantis?", "unanswerable": True},
    ],
}  # fmt: skip


@pytest.fixture
async def filled(site: Site) -> Site:
    await site.add("Amber is fossil resin of old trees.", id="amber", name="Amber")
    await site.add("Basalt is a volcanic rock.", id="basalt", name="Basalt")
    return site


async def test_modes_are_measured_by_a_job(filled: Site) -> None:
    reply = await filled.client.post("/evaluations", json=ASKED)
    assert reply.status_code == 202, reply.text
    begun = reply.json()
    assert (begun["state"], begun["stage"]) == ("queued", "prepare")
    assert begun["progress"] == {"done": 0, "total": 6}
    await filled.work()
    found = (await filled.client.get(f"/evaluations/{begun['id']}")).json()
    assert (found["state"], found["stage"], found["name"]) == ("done", "done", "rocks")
    assert found["progress"] == {"done": 6, "total": 6}
    result = found["result"]
    assert result["modes"]["mix"]["recall@5"]["value"] == 1
    assert [one["id"] for one in result["questions"]] == ["q1", "mine", "q3"]
    assert result["summary"]
    job = (await filled.client.get(f"/jobs/{begun['id']}")).json()
    assert (job["kind"], job["document_id"], job["state"]) == ("evaluate", "", "done")


async def test_the_history_is_listed_and_paged(filled: Site) -> None:
    ids = []
    for n in range(3):
        reply = await filled.client.post("/evaluations", json={**ASKED, "name": f"number {n}"})
        ids.append(reply.json()["id"])
        await filled.work()
    page = (await filled.client.get("/evaluations", params={"limit": 2})).json()
    assert [one["id"] for one in page["evaluations"]] == [ids[2], ids[1]]
    assert "result" not in page["evaluations"][0]
    params = {"limit": 2, "cursor": page["next"]}
    rest = (await filled.client.get("/evaluations", params=params)).json()
    assert [one["name"] for one in rest["evaluations"]] == ["number 0"]
    assert rest["next"] is None


async def test_one_is_cancelled_and_deleted(filled: Site) -> None:
    id = (await filled.client.post("/evaluations", json=ASKED)).json()["id"]
    assert (await filled.client.post(f"/jobs/{id}/cancel")).status_code == 200
    assert (await filled.client.get(f"/evaluations/{id}")).json()["state"] == "cancelled"
    assert (await filled.client.delete(f"/evaluations/{id}")).status_code == 204
    assert_problem(await filled.client.get(f"/evaluations/{id}"), 404, "not_found")
    assert_problem(await filled.client.delete(f"/evaluations/{id}"), 404, "not_found")
    running = (await filled.client.post("/evaluations", json=ASKED)).json()["id"]
    assert (await filled.client.delete(f"/evaluations/{running}")).status_code == 204
    await filled.work()
    assert (await filled.client.get("/evaluations")).json()["evaluations"] == []


@pytest.mark.parametrize(
    ("change", "status", "code", "said"),
    [
        ({"questions": []}, 400, "questions_needed", "either questions or generate"),
        ({"generate": {}}, 400, "questions_needed", "either"),
        ({"questions": [], "generate": {}}, 422, "no_model", "HELIOGRAPH_LLM_URL"),
        ({"judge": [{"mode": "mix", "against": "naive"}]}, 422, "no_model", "language model"),
        ({"modes": ["naive", "hyde"]}, 422, "no_model", "hyde"),
        ({"judge": [{"mode": "mix", "against": "mix"}]}, 400, "invalid", "no pair"),
        ({"modes": ["nonsense"]}, 400, "unknown_mode", "mode"),
        ({"modes": ["mix:top_k=9999"]}, 400, "unknown_mode", "top_k"),
        ({"modes": ["mix:nothing=1"]}, 400, "unknown_mode", "nothing"),
        ({"modes": ["mix:stream=true"]}, 400, "unknown_mode", "retrieval"),
        ({"modes": ["a b"]}, 400, "invalid", "no mode"),
        ({"modes": []}, 422, "validation", ""),
        ({"against": "local"}, 400, "unknown_mode", "against"),
        ({"questions": [{"question": "?", "gold_passage_ids": ["no"]}]}, 400, "unknown_gold",
         "'no'"),
        ({"questions": [{"question": "?", "gold_document_names": ["No"]}]}, 400, "unknown_gold",
         "'No'"),
        ({"questions": [{"question": "?", "id": "a"}] * 2}, 400, "duplicate_id", "'a'"),
        ({"questions": [{"question": "?"}] * 1000, "modes": ["naive", "mix", "local", "ppr",
         "hybrid", "global"]}, 400, "too_much_to_measure", "6,000"),
        ({"questions": [{"question": "?"}] * 1001}, 422, "validation", ""),
        ({"questions": [{"question": " "}]}, 422, "validation", ""),
        ({"questions": [{"question": "?", "unanswerable": True, "gold_quotes": ["x"]}]}, 422,
         "validation", ""),
        ({"other": 1}, 422, "validation", ""),
    ],
)  # fmt: skip
async def test_what_cannot_be_measured_is_told(
    filled: Site, change: dict[str, Any], status: int, code: str, said: str
) -> None:
    reply = await filled.client.post("/evaluations", json={**ASKED, **change})
    assert_problem(reply, status, code, said)
    assert (await filled.client.get("/evaluations")).json()["evaluations"] == []


async def test_an_empty_workspace_has_nothing_to_measure(site: Site) -> None:
    body = {"modes": ["naive"], "questions": [{"question": "?"}]}
    assert_problem(await site.client.post("/evaluations", json=body), 409, "no_documents")


async def test_two_at_a_time_are_enough(filled: Site) -> None:
    for _ in range(2):
        assert (await filled.client.post("/evaluations", json=ASKED)).status_code == 202
    reply = await filled.client.post("/evaluations", json=ASKED)
    assert_problem(reply, 409, "evaluations_running")
    await filled.work()
    assert (await filled.client.post("/evaluations", json=ASKED)).status_code == 202


async def test_reading_keys_read_and_other_workspaces_see_nothing(filled: Site) -> None:
    id = (await filled.client.post("/evaluations", json=ASKED)).json()["id"]
    admin = await filled.key(Scope.ADMIN)
    reader = await filled.key(Scope.READ)
    reply = await filled.client.post("/evaluations", json=ASKED, headers=reader)
    assert_problem(reply, 403, "scope_missing")
    reply = await filled.client.delete(f"/evaluations/{id}", headers=reader)
    assert_problem(reply, 403, "scope_missing")
    assert (await filled.client.get("/evaluations", headers=reader)).status_code == 200
    other = {**admin, "X-Workspace": "other"}
    for method in ("get", "delete"):
        reply = await getattr(filled.client, method)(f"/evaluations/{id}", headers=other)
        assert_problem(reply, 404, "not_found")
    assert (await filled.client.get("/evaluations", headers=other)).json()["evaluations"] == []
