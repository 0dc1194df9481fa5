"""The OpenAPI document is complete: descriptions, limits, errors, examples that run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from app.main import create_app
from app.ports import Services
from app.settings import Settings
from tests.api.conftest import Site, embedded


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(Settings(_env_file=None)).openapi()


@pytest.fixture(scope="module")
async def services(
    tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> AsyncIterator[Services]:
    async with embedded(tmp_path_factory.mktemp("site"), valkey_url) as opened:
        yield opened


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_operation_is_named_once_and_summarised(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    for _, path, operation in operations(document):
        assert operation["summary"], path
        assert len(operation["tags"]) == 1, path


def test_every_field_and_parameter_is_described(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, content in schema.get("properties", {}).items():
            assert content.get("description"), f"{name}.{field}"
    for method, path, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), f"{method} {path} {parameter['name']}"


def test_every_operation_lists_its_errors_as_problems(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        if not path.startswith("/v1") or "chat" in operation["tags"]:
            continue
        statuses = set(operation["responses"])
        assert {"401", "403"} <= statuses, path
        if operation.get("parameters"):
            assert "422" in statuses, path
        if "{" in path.replace("{workspace}", ""):  # a workspace is there once it is named
            assert "404" in statuses, path
        for status, response in operation["responses"].items():
            if status >= "400":
                [kind] = response["content"]
                assert kind == "application/problem+json", f"{method} {path} {status}"
                assert response["description"]


@pytest.mark.parametrize(
    ("prefix", "shape"), [("/v1", "OpenAIErrorBody"), ("/api", "OllamaErrorBody")]
)
def test_the_chat_apis_list_their_errors_in_their_own_shape(
    document: dict[str, Any], prefix: str, shape: str
) -> None:
    reference = {"schema": {"$ref": f"#/components/schemas/{shape}"}}
    found = [
        operation
        for _, path, operation in operations(document)
        if "chat" in operation["tags"] and path.startswith(prefix)
    ]
    assert found
    for operation in found:
        errors = {k: v for k, v in operation["responses"].items() if k >= "400"}
        assert {"401", "403"} <= set(errors)
        assert ("400" in errors) or "requestBody" not in operation
        assert "422" not in errors
        assert all(one["content"] == {"application/json": reference} for one in errors.values())


def test_every_reference_resolves(document: dict[str, Any]) -> None:
    def references(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference


def test_the_limits_stand_in_the_schema(document: dict[str, Any]) -> None:
    question = document["components"]["schemas"]["QuestionBody"]["properties"]
    assert (question["query"]["minLength"], question["query"]["maxLength"]) == (1, 8000)
    assert (question["top_k"]["minimum"], question["top_k"]["maximum"]) == (1, 200)
    text = document["components"]["schemas"]["TextBody"]["properties"]
    [own_id, _] = text["id"]["anyOf"]
    assert (own_id["minLength"], own_id["maxLength"]) == (1, 128)
    subgraph = document["paths"]["/v1/graph/subgraph"]["get"]["parameters"]
    depth = next(one["schema"] for one in subgraph if one["name"] == "depth")
    assert (depth["minimum"], depth["maximum"]) == (0, 4)
    for path in ("/v1/documents", "/v1/jobs", "/v1/graph/entities"):
        parameters = document["paths"][path]["get"]["parameters"]
        limit = next(one["schema"] for one in parameters if one["name"] == "limit")
        assert (limit["minimum"], limit["maximum"]) == (1, 500)


def example_of(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """A value from the examples and defaults of a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return example_of(document["components"]["schemas"][name], document)
    if "examples" in schema:
        return schema["examples"][0]
    if "default" in schema:
        return schema["default"]
    if "properties" in schema:
        return {
            name: example_of(content, document)
            for name, content in schema["properties"].items()
            if "examples" in content or name in schema.get("required", ())
        }
    raise AssertionError(f"no example in {schema}")


async def test_the_examples_run(site: Site, document: dict[str, Any]) -> None:
    upload = document["paths"]["/v1/documents"]["post"]["requestBody"]["content"]
    for example in upload["application/json"]["examples"].values():
        reply = await site.client.post("/v1/documents", json=example["value"])
        assert reply.status_code == 202, reply.text
    schemas = document["components"]["schemas"]
    reply = await site.client.post("/v1/documents", json=example_of(schemas["TextBody"], document))
    assert reply.status_code == 202, reply.text
    await site.work()
    body = example_of(schemas["QuestionBody"], document)
    reply = await site.client.post("/v1/query", json=body)
    assert reply.status_code == 200, reply.text
    body = example_of(schemas["ChatBody"], document)
    reply = await site.client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    body = example_of(schemas["OllamaChatBody"], document)
    reply = await site.client.post("/api/chat", json=body)
    assert reply.status_code == 200, reply.text
    body = example_of(schemas["EvaluationRequestBody"], document)
    reply = await site.client.post("/v1/evaluations", json=body)
    assert reply.status_code == 202, reply.text
    reply = await site.client.get(
        "/v1/documents", params={"filters": '{"author": "Charles Dickens"}'}
    )
    assert "carol" in [one["id"] for one in reply.json()["documents"]]
