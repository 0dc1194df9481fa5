"""The OpenAPI document: what FastAPI cannot see by itself."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from app.api import error_shapes
from app.api.problems import Problem
from app.api.uploads import TextBody, TextsBody

DESCRIPTION = """\
Documents go in with `POST /documents`, become a knowledge graph and vectors in the background, and
are asked with `POST /query`, or by clients of OpenAI's and Ollama's chat APIs. Every path works
without `/v1` too.

**Keys.** `Authorization: Bearer <key>` or `X-API-Key: <key>`; scopes are read, write and admin. A
service without any key is open and answers on loopback only. `X-Workspace` chooses a workspace.

**Errors** are problem documents (RFC 9457) with a stable `code`. Those with `Retry-After` pass.
What is tagged chat tells its errors as OpenAI or Ollama do.
"""

TAGS = [
    {"name": "documents", "description": "What is known: upload, follow, read, delete."},
    {"name": "jobs", "description": "Background work."},
    {"name": "query", "description": "Questions and answers."},
    {"name": "chat", "description": "The same for clients of OpenAI's and Ollama's chat APIs."},
    {"name": "graph", "description": "Entities and relations."},
    {"name": "evaluation", "description": "Modes measured on your documents and questions."},
    {"name": "admin", "description": "API keys and workspaces."},
    {"name": "operations", "description": "Health and counters; no key needed."},
]

# `POST /documents` reads its body itself, since it takes two content types.
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/TextBody"},
                        {"$ref": "#/components/schemas/TextsBody"},
                    ]
                },
                "examples": {
                    "one": {
                        "summary": "One text",
                        "value": {
                            "id": "carol",
                            "name": "carol.txt",
                            "text": "Marley was dead: to begin with.",
                            "metadata": {"author": "Charles Dickens", "year": 1843},
                        },
                    },
                    "several": {
                        "summary": "Several texts",
                        "value": {
                            "documents": [
                                {"name": "a.md", "text": "# Amber\nAmber is fossil resin."},
                                {"name": "b.md", "text": "# Basalt\nBasalt is a volcanic rock."},
                            ]
                        },
                    },
                },
            },
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "additionalProperties": False,
                    "properties": {
                        "files": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                            "description": "The files; repeat the field for several.",
                        },
                        "id": {
                            "type": "array",
                            "items": {"type": "string", "minLength": 1, "maxLength": 128},
                            "description": "Your own ids, one for each file in their order.",
                        },
                        "metadata": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "description": "A flat JSON object, for all files.",
                            "examples": ['{"author": "Charles Dickens"}'],
                        },
                        "date": {
                            "type": "string",
                            "description": "ISO 8601 date of the content, for all files.",
                            "examples": ["1843-12-19"],
                        },
                    },
                },
            },
        },
    }
}

_REF = "#/components/schemas/{model}"


def install(app: FastAPI) -> None:
    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, summary=app.summary,
                description=app.description, license_info=app.license_info, routes=app.routes,
                tags=TAGS, servers=[{"url": "/"}],
            )  # fmt: skip
            _add_bodies(document)
            _name_problems(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]  # FastAPI's documented way to extend it


def _add_bodies(document: dict[str, Any]) -> None:
    """Bodies that routes read themselves, and the problem that all of them answer with."""
    models: list[Any] = [
        (TextBody, "validation"),
        (TextsBody, "validation"),
        (Problem, "serialization"),
    ]
    _, definitions = models_json_schema(models, ref_template=_REF)
    document["components"]["schemas"].update(definitions["$defs"])


def _name_problems(document: dict[str, Any]) -> None:
    """FastAPI adds a 422 of a shape of its own to each route; ours is a problem like all errors, or
    the 400 of another API."""
    schemas = document["components"]["schemas"]
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if error_shapes.of_path(path):
                operation["responses"].pop("422", None)
            answer = operation["responses"].get("422", {}).get("content", {})
            if "application/json" in answer:
                answer.pop("application/json")
                answer["application/problem+json"] = {
                    "schema": {"$ref": _REF.format(model="Problem")}
                }
