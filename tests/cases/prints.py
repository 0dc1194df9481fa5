"""Comparing a run with another one: the same case undisturbed, or only some of its documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.cases.record import Case, Unusable
from tests.cases.run import UNDISTURBED, Run

ONLY = re.compile(r"^(only|without)\s+(.+)$", re.IGNORECASE)
Print = dict[str, Any]


def differences(run: Run, told: str) -> str:
    """From the run that the words describe, which is done on a service of its own. The one of `run`
    is over then: both may stand on the same servers."""
    other = _other(run.case, told)
    mine = print_of(run)
    assert run.again is not None
    with run.again(other) as there:
        wanted = print_of(there)
    return _compared(mine, wanted)


def _other(case: Case, told: str) -> Case:
    if told.lower().startswith("undisturbed"):
        steps = [one for one in case.steps if one.get("op") not in UNDISTURBED]
        return Case(case.id, case.area, case.title, tuple(steps), (), case.llm, case.embedding)
    if found := ONLY.match(told):
        names = set(re.findall(r"[\w-]+", found[2])) - {"and"}
        return _of_documents(case, names, keep=found[1].lower() == "only")
    raise Unusable(f"fingerprint_equals: unknown run {told!r}")


def _of_documents(case: Case, names: set[str], *, keep: bool) -> Case:
    """Their uploads alone; scripted extractions go with the uploads that they were meant for."""
    uploads = [one for one in case.all_steps() if one.get("op") == "upload"]
    if missing := names - {str(one.get("as")) for one in uploads}:
        raise Unusable(f"fingerprint_equals: no upload is called {sorted(missing)}")
    places = [n for n, one in enumerate(uploads) if (str(one.get("as")) in names) == keep]
    answers = case.llm.get("extract")
    llm: Mapping[str, Any] = case.llm
    if isinstance(answers, list):
        llm = {**llm, "extract": [answers[n] for n in places if n < len(answers)]}
    steps: list[dict[str, Any]] = []
    for place in places:
        steps += [uploads[place], {"op": "wait_all"}]
    return Case(case.id, case.area, case.title, tuple(steps), (), llm, case.embedding)


def _compared(got: Print, wanted: Print) -> str:
    wrong = []
    for part in sorted({*got, *wanted}):
        here, there = got.get(part, {}), wanted.get(part, {})
        for key in sorted({*here, *there}, key=str):
            if here.get(key) != there.get(key):
                line = f"{part} {key}: {here.get(key)!r}, expected {there.get(key)!r}"
                wrong.append(line[:200])
    return f"{len(wrong)} differences: {'; '.join(wrong[:3])}" if wrong else ""


def print_of(run: Run) -> Print:
    """What the API shows of all workspaces of the case, without ids that depend on their names."""
    parts: Print = {"documents": {}, "chunks": {}, "entities": {}, "relations": {}}
    for workspace in sorted(run.workspaces()):
        short = workspace.removeprefix(run.prefix)
        for document in run.pages("/documents", "documents", workspace):
            key = (short, document["name"], document["status"])
            parts["documents"][key] = (document["version"], document["chunks"], document["size"])
            path = f"/documents/{document['id']}/chunks"
            for chunk in run.pages(path, "chunks", workspace):
                place = (short, document["name"], chunk["position"])
                parts["chunks"][place] = (chunk["text"], sorted(chunk["entities"]))
        _graph(run, workspace, short, parts)
    return parts


def _graph(run: Run, workspace: str, short: str, parts: Print) -> None:
    for one in run.pages("/graph/entities", "entities", workspace):
        parts["entities"][short, one["id"]] = (
            one["name"], one["type"], one["mentions"], one["degree"], sorted(one["aliases"]),
            bool(one["text"]),
        )  # fmt: skip
        detail = run.look("/graph/subgraph", workspace, entity=one["id"], depth=1, limit=500)
        for relation in (detail or {}).get("relations", []):
            pair = tuple(sorted((relation["source_id"], relation["target_id"])))
            parts["relations"][short, *pair] = (
                relation["keywords"], relation["weight"], relation["mentions"],
                bool(relation["text"]),
            )  # fmt: skip
