"""Comparing a run with another one: the same case undisturbed, or only some of its documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.upkeep.difference import difference
from tests.cases.record import Case, Unusable
from tests.cases.run import UNDISTURBED, Failed, Run, quoted

ONLY = re.compile(r"^(only|without)\s+(.+)$", re.IGNORECASE)
Print = dict[str, tuple[str, list[str]]]


def differences(run: Run, told: str) -> str:
    """From the run that the words describe, which is done on a service of its own. The one of `run`
    is over then: both may stand on the same servers."""
    other = _other(run.case, told)
    mine = run.printed = run.printed or print_of(run)
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


def print_of(run: Run) -> Print:
    """Workspace (as the case calls it) -> fingerprint and the records that it is made of."""
    found: Print = {}
    for workspace in sorted(run.workspaces()):
        path = f"/admin/workspaces/{quoted(workspace or 'default')}/fingerprint"
        told = run.look(path)
        if told is None:
            raise Failed("the service has no fingerprint")
        dump = run.send("GET", path, params={"dump": "true"}, timeout=300)
        found[workspace.removeprefix(run.prefix)] = (told["fingerprint"], dump.text.splitlines())
    return found


def _compared(got: Print, wanted: Print) -> str:
    wrong = []
    for workspace in sorted({*got, *wanted}):
        ours, theirs = got.get(workspace, ("", [])), wanted.get(workspace, ("", []))
        if ours[0] != theirs[0]:
            wrong += list(difference(ours[1], theirs[1])) or ["records are equal, hashes are not"]
    return f"{len(wrong)} differences: {'; '.join(wrong[:4])[:500]}" if wrong else ""
