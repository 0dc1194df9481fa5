"""What a workspace holds, in a form that two services can be compared by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from tests.faults.workload import Client

Dump = dict[str, Any]
PATIENCE = 30.0


def dump(client: Client) -> Dump:
    """Everything that documents, chunks, entities and relations show, whatever their history."""
    found: Dump = {}
    for document in _pages(client, "/documents", "documents"):
        one = document["id"]
        found[f"document {one}"] = {
            key: document[key] for key in ("name", "status", "size", "metadata", "error", "chunks")
        }
        for chunk in _pages(client, f"/documents/{one}/chunks", "chunks"):
            found[f"chunk {one} {chunk['start']}"] = _plain(chunk)
    relations: set[tuple[str, str]] = set()
    for entity in _pages(client, "/graph/entities", "entities"):
        name = entity["name"]
        found[f"entity {name}"] = _plain(client.call("GET", f"/graph/entities/{entity['id']}"))
        near = client.call("GET", "/graph/subgraph", params={"entity": name, "limit": 100})
        relations |= {(one["source"], one["target"]) for one in near["relations"]}
    for source, target in sorted(relations):
        found[f"relation {source} {target}"] = _plain(
            client.call("GET", "/graph/relation", params={"source": source, "target": target})
        )
    return found


def fingerprint(found: Dump) -> str:
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]


def diff(expected: Dump, found: Dump) -> list[str]:
    """Lines that name each difference; none if there is none."""
    lines = []
    for key in sorted(expected.keys() | found.keys()):
        if key not in found:
            lines.append(f"- missing {key}")
        elif key not in expected:
            lines.append(f"+ too much {key}")
        elif expected[key] != found[key]:
            lines.append(f"! {key}: expected {expected[key]} found {found[key]}")
    return lines


def _plain(row: Any) -> Any:
    """Without what tells of the way and not of the goal."""
    if isinstance(row, dict):
        return {k: _plain(v) for k, v in sorted(row.items()) if k not in ("version", "next")}
    if isinstance(row, list):
        return sorted((_plain(one) for one in row), key=repr)
    return row


def _pages(client: Client, path: str, name: str) -> Iterator[Any]:
    params: dict[str, Any] = {"limit": 100}
    while True:
        page = client.call("GET", path, PATIENCE, params=params)
        yield from page[name]
        if not page["next"]:
            return
        params["cursor"] = page["next"]
