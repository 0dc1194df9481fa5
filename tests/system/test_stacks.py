"""The whole service as real processes: the same documents and the same scripted model end in the
same graph and the same answers, on the embedded stack and on Neo4j, Redis and a Qdrant server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import qdrant_standin
from tests.servers import Server
from tests.system.stack import Service, distributed, embedded, model_server, model_settings

MODES = ("naive", "local", "global", "hybrid", "mix", "ppr", "subgraph", "asr")
TEXTS = {
    "curie": (
        "Marie Curie was born in Warsaw. Marie Curie worked with Pierre Curie in Paris. "
        "The University of Paris made Marie Curie a professor."
    ),
    "bohr": "Niels Bohr worked in Copenhagen. Niels Bohr met Marie Curie at the Solvay Conference.",
    "warsaw": "Warsaw lies on the Vistula. Frederic Chopin grew up in Warsaw.",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with model_server(tmp_path_factory.mktemp("model")) as server:
        yield server


@pytest.fixture(scope="module")
def stacks(
    tmp_path_factory: pytest.TempPathFactory, model: httpx.Client, neo4j: Server, redis_url: str
) -> Iterator[dict[str, Service]]:
    """Both stacks, with all texts ready in each."""
    settings = model_settings(model)
    with ExitStack() as stack:
        qdrant = stack.enter_context(qdrant_standin.running(tmp_path_factory.mktemp("qdrant")))
        both = {
            "embedded": stack.enter_context(embedded(tmp_path_factory.mktemp("one"), settings)),
            "servers": stack.enter_context(
                distributed(
                    tmp_path_factory.mktemp("many"), neo4j=neo4j, redis_url=redis_url,
                    qdrant_url=qdrant.url, settings=settings,
                )
            ),
        }  # fmt: skip
        for service in both.values():
            ids = service.add(*({"id": k, "name": k, "text": text} for k, text in TEXTS.items()))
            for document in service.wait(ids):
                assert document["status"] == "ready", document["error"]
        yield both


def graph(service: Service) -> dict[str, Any]:
    """Entities with mentions, and relations with their weights, of the whole workspace."""
    entities = service.entities()
    relations: dict[tuple[str, str], float] = {}
    for name in entities:
        found = service.json("GET", "/graph/subgraph", params={"entity": name, "limit": 100})
        for one in found["relations"]:
            relations[tuple(sorted((one["source"], one["target"])))] = one["weight"]  # type: ignore[index]
    return {"entities": entities, "relations": relations}


def context(service: Service, mode: str) -> dict[str, Any]:
    """What a question finds, without scores' last digits."""
    seen = service.query("Where did Marie Curie work?", mode=mode, only_context=True)["context"]
    return {
        "chunks": [(one["document_id"], one["start"], one["end"]) for one in seen["chunks"]],
        "entities": [one["name"] for one in seen["entities"]],
        "relations": [(one["source"], one["target"]) for one in seen["relations"]],
    }


@pytest.mark.server
def test_both_stacks_end_in_the_same_graph(stacks: dict[str, Service]) -> None:
    embedded_graph = graph(stacks["embedded"])
    assert embedded_graph == graph(stacks["servers"])
    assert embedded_graph["entities"]["Marie Curie"] == 2
    assert ("Marie Curie", "Warsaw") in embedded_graph["relations"]


@pytest.mark.server
@pytest.mark.parametrize("mode", MODES)
def test_both_stacks_find_the_same_in_the_same_order(stacks: dict[str, Service], mode: str) -> None:
    found = context(stacks["embedded"], mode)
    assert found == context(stacks["servers"], mode)
    assert found["chunks"][0][0] in ("curie", "bohr")


@pytest.mark.server
@pytest.mark.parametrize("stack", ["embedded", "servers"])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_answers_with_citations_that_resolve(
    stacks: dict[str, Service], stack: str, mode: str
) -> None:
    service = stacks[stack]
    answer = service.query("Where did Marie Curie work?", mode=mode)
    assert answer["model"] == "scripted"
    assert answer["citations"]
    for citation in answer["citations"]:
        assert f"[{citation['number']}]" in answer["answer"]
        text = service.http.get(f"/documents/{citation['document_id']}/text").text
        assert text[citation["start"] : citation["end"]] == citation["quote"] != ""


@pytest.mark.server
@pytest.mark.parametrize("stack", ["embedded", "servers"])
def test_a_streamed_answer_ends_with_done(stacks: dict[str, Service], stack: str) -> None:
    body = {"query": "Where did Marie Curie work?", "stream": True}
    with stacks[stack].http.stream("POST", "/query", json=body) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        events = [
            line.removeprefix("event: ") for line in reply.iter_lines()
            if line.startswith("event: ")
        ]  # fmt: skip
    assert events[0] == "context"
    assert "token" in events
    assert events[-1] == "done"


@pytest.mark.server
@pytest.mark.parametrize("stack", ["embedded", "servers"])
def test_workspaces_are_apart(stacks: dict[str, Service], stack: str) -> None:
    service = stacks[stack]
    other = {"X-Workspace": "other"}
    assert service.json("GET", "/graph/entities", headers=other)["entities"] == []
    service.json("GET", "/documents/curie", 404, headers=other)
    body = {"query": "Where did Marie Curie work?"}
    assert service.json("POST", "/query", json=body, headers=other)["citations"] == []


@pytest.mark.server
def test_model_calls_are_chunks_and_not_more(
    stacks: dict[str, Service], model: httpx.Client
) -> None:
    kinds = model.get("/stats").json()["kinds"]
    assert kinds["extract"]["calls"] == len(TEXTS) * len(stacks)
    assert kinds.get("summary", {}).get("calls", 0) == 0


@pytest.mark.server
@pytest.mark.parametrize("stack", ["embedded", "servers"])
def test_deleting_one_leaves_what_the_others_say(stacks: dict[str, Service], stack: str) -> None:
    service = stacks[stack]
    before = graph(service)
    text = "Ernest Rutherford worked in Manchester. Ernest Rutherford met Marie Curie in Paris."
    [document] = service.wait(service.add({"id": "rutherford", "text": text}))
    assert document["status"] == "ready"
    assert service.entities()["Marie Curie"] == before["entities"]["Marie Curie"] + 1
    service.delete("rutherford")
    assert graph(service) == before
    service.json("GET", "/documents/rutherford", 404)
    found = service.query("Ernest Rutherford Manchester", mode="naive", only_context=True)
    assert "Rutherford" not in str(found["context"])


@pytest.mark.server
def test_every_dependency_is_named_when_ready(stacks: dict[str, Service]) -> None:
    for service in stacks.values():
        ready = service.json("GET", "/readyz")
        found = ready["dependencies"]
        assert {"graph", "vectors", "queue", "blobs", "llm", "embed"} <= set(found)
        assert all(one["version"] for one in found.values())


@pytest.mark.server
def test_an_ollama_server_serves_as_well(tmp_path: Path, model: httpx.Client) -> None:
    with embedded(tmp_path, model_settings(model, "ollama")) as service:
        service.wait(service.add({"id": "d", "text": TEXTS["curie"]}))
        assert "Marie Curie" in service.entities()
        assert service.query("Where did Marie Curie work?")["citations"]
