"""Steps that speak to the service or wait for it, and those that hold other steps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.cases.record import Unusable, file_bytes, filled, filled_path
from tests.cases.run import POLL, Doc, Failed, Reply, Run, Span, quoted

Step = Mapping[str, Any]
Local = Mapping[str, Any]
Work = Callable[[Run, Step, Local], None]

STEPS: dict[str, Work] = {}
FINAL = ("ready", "failed")
ORDER = ("queued", "parsing", "extracting", "merging", "indexing", "ready")
WITHIN = 120.0
# (method, path) -> parameters that are called otherwise here.
PARAMS = {("GET", "/graph/entities"): {"q": "search", "query": "search", "name": "search"}}
NOT_FILLED = ("steps", "do", "files", "op")


def step(name: str) -> Callable[[Work], Work]:
    def register(work: Work) -> Work:
        STEPS[name] = work
        return work

    return register


def perform(run: Run, told: Step, local: Local | None = None) -> None:
    local = local or {}
    if time.monotonic() > run.deadline:
        raise Failed("the case takes too long in all")
    op = told.get("op")
    if op not in STEPS:
        raise Unusable(f"unknown step {op!r}")
    known = run.known(local)
    ready = {k: v if k in NOT_FILLED else filled(v, known) for k, v in told.items()}
    if "path" in told and op == "http":
        ready["path"] = filled_path(told["path"], known)
        ready["docs"] = [n for n in run.docs if f"{{{n}}}" in told["path"]]
    start = time.time()
    try:
        STEPS[op](run, ready, local)
    finally:
        span = Span(op, start, time.time())
        run.spans.setdefault(str(ready.get("as", "")), []).append(span)


# --- requests ------------------------------------------------------------------------------------


@step("upload")
def upload(run: Run, told: Step, local: Local) -> None:
    workspace = run.workspace(told.get("workspace"))
    names = told.get("as", "")
    names = names if isinstance(names, list) else [names]
    if "files" in told:
        known = run.known(local)
        files = [{**one, "bytes": file_bytes(one, known)} for one in told["files"]]
        contents = [one["bytes"] for one in files]
        reply = _sent(run, "POST", "/documents", told, workspace, **_multipart(told, files, known))
    else:
        body = told.get("json", {})
        contents = [
            str(one.get("text", "")).encode("utf-8", "replace")
            for one in (body.get("documents") or [body] if isinstance(body, dict) else [{}])
        ]
        reply = _sent(run, "POST", "/documents", told, workspace, json=body)
    _take_in(run, names, workspace, reply, contents)


def _take_in(
    run: Run, names: list[str], workspace: str, reply: Reply, contents: list[bytes]
) -> None:
    accepted = (reply.json or {}).get("documents", []) if reply.status == 202 else []
    for number, content in enumerate(contents):
        name = names[number] if number < len(names) else f"{names[0]}_{number}"
        doc_id = accepted[number]["id"] if number < len(accepted) else ""
        run.docs[name] = Doc(name, workspace, doc_id, reply.status, content)


def _multipart(told: Step, files: list[dict[str, Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    parts = [
        ("files", (filled(one["name"], known), one["bytes"], one.get("type", "")))
        for one in files
    ]  # fmt: skip
    form = dict(told.get("form") or told.get("data") or {})
    if "metadata" in told:
        form["metadata"] = json.dumps(told["metadata"])
    return {"files": parts, "data": form}


@step("query")
def query(run: Run, told: Step, _local: Local) -> None:
    workspace = run.workspace(told.get("workspace"))
    path = "/query/context" if told.get("context") else "/query"
    _sent(run, "POST", path, told, workspace, json=told.get("json", {}))


@step("http")
def http(run: Run, told: Step, local: Local) -> None:
    method, path = str(told.get("method", "GET")).upper(), str(told["path"])
    workspace = run.workspace(told.get("workspace"))
    if told.get("docs") and not told.get("workspace"):
        workspace = run.docs[told["docs"][0]].workspace
    renamed = PARAMS.get((method, path), {})
    params = {renamed.get(k, k): v for k, v in (told.get("params") or {}).items()}
    more: dict[str, Any] = {"params": params} if params else {}
    if "json" in told:
        more["json"] = told["json"]
    elif "raw_json" in told or "body" in told:
        raw = told.get("raw_json", told.get("body"))
        more["content"] = raw if isinstance(raw, bytes) else str(raw).encode("utf-8", "replace")
    elif "files" in told:
        known = run.known(local)
        files = [{**one, "bytes": file_bytes(one, known)} for one in told["files"]]
        more |= _multipart(told, files, known)
    if path.endswith("/retry"):
        run.moments["retry"] = time.time()
    reply = _sent(run, method, path, told, workspace, bare=True, **more)
    if (method, path) == ("POST", "/documents") and told.get("as") and reply.status == 202:
        body = told.get("json") or {}
        contents = [str(body.get("text", "")).encode()] if "text" in body else []
        _take_in(run, [told["as"]], workspace, reply, contents)


def _sent(
    run: Run, method: str, path: str, told: Step, workspace: str, *, bare: bool = False, **more: Any
) -> Reply:
    headers = dict(told.get("headers") or {})
    if "raw_json" in told:
        headers.setdefault("Content-Type", "application/json")
    wires = run.grounds.wires
    before = {name: wire.counts.trips for name, wire in wires.items()}
    try:
        answer = run.send(
            method, path, workspace=workspace, headers=headers, bare=bare,
            timeout=told.get("within_s", WITHIN), **more,
        )  # fmt: skip
        reply = Reply(answer.status_code, answer.headers, answer.text)
    except httpx.HTTPError as error:
        reply = Reply(0, {}, repr(error))
    reply.events = _events(reply)
    reply.trips = {name: w.counts.trips - before[name] for name, w in wires.items()}
    run.statuses.append((f"{method} {path[:80]}", reply.status))
    run.replies.setdefault(str(told.get("as", "")), []).append(reply)
    return reply


def _events(reply: Reply) -> list[tuple[str, Any]]:
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        return []
    events = []
    for block in reply.text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":"
        )
        if "data" in fields:
            try:
                data = json.loads(fields["data"])
            except ValueError:
                data = fields["data"]
            events.append((fields.get("event", "message"), data))
    return events


# --- waiting -------------------------------------------------------------------------------------


@step("wait")
def wait(run: Run, told: Step, _local: Local) -> None:
    wanted = told.get("until", "final")
    states = FINAL if wanted == "final" else (wanted,) if isinstance(wanted, str) else tuple(wanted)
    names = told.get("docs") or [told["doc"]]
    for name in names:
        _wait_for(run, name, states, float(told.get("within_s", WITHIN)))


@step("wait_all")
def wait_all(run: Run, told: Step, _local: Local) -> None:
    within = float(told.get("within_s", WITHIN))
    until = time.monotonic() + within
    for name in told.get("docs") or list(run.docs):
        _wait_for(run, name, FINAL, max(1.0, until - time.monotonic()), within)


def _wait_for(run: Run, name: str, states: tuple[str, ...], within: float, said: float = 0) -> None:
    """Also over once it is in another final state, or gone: the checks judge that."""
    if not run.doc(name).id:
        return
    until = time.monotonic() + within
    while True:
        seen = run.document(name)
        if seen is None or seen["status"] in (*states, *FINAL):
            return
        if time.monotonic() > min(until, run.deadline):
            raise Failed(
                f"{name} is still {seen['status']} {seen['progress']} after {said or within:.0f} s"
            )
        time.sleep(POLL)


@step("wait_gone")
def wait_gone(run: Run, told: Step, _local: Local) -> None:
    until = time.monotonic() + float(told.get("within_s", WITHIN))
    for name in told.get("docs") or [told["doc"]]:
        while run.doc(name).id and (seen := run.document(name)) is not None:
            if time.monotonic() > min(until, run.deadline):
                raise Failed(f"{name} is not gone but {seen['status']}: {seen['error']}")
            time.sleep(POLL)


@step("wait_idle")
def wait_idle(run: Run, told: Step, _local: Local) -> None:
    until = time.monotonic() + float(told.get("within_s", WITHIN))
    for workspace in run.workspaces():
        while busy := [
            job for state in ("queued", "running")
            for job in run.look("/jobs", workspace, state=state)["jobs"]
        ]:  # fmt: skip
            if time.monotonic() > min(until, run.deadline):
                raise Failed(f"still busy: {[(j['kind'], j['stage']) for j in busy[:5]]}")
            time.sleep(POLL)


@step("until")
def until_(run: Run, told: Step, _local: Local) -> None:
    """A status or one behind it, or a share of the work of a stage (extraction, unless told)."""
    end = time.monotonic() + float(told.get("within_s", WITHIN))
    share = told.get("progress", told.get("share"))
    if isinstance(share, dict):
        told, share = {**told, **share}, share.get("share", share.get("min"))
    while True:
        seen = run.document(told["doc"])
        if seen is None or seen["status"] == "failed" or _reached(seen, told, share):
            return
        if time.monotonic() > min(end, run.deadline):
            raise Failed(f"{told['doc']} got only to {seen['status']} {seen['progress']}")
        time.sleep(POLL / 2)


def _reached(seen: Mapping[str, Any], told: Step, share: Any) -> bool:
    at = ORDER.index(seen["status"]) if seen["status"] in ORDER else -1
    if share is None:
        return at >= ORDER.index(told["status"])
    progress = seen["progress"]
    wanted = str(told.get("stage", "extract"))
    status = next((s for s in ORDER if s.startswith(wanted[:5])), "extracting")
    if at != ORDER.index(status):
        return at > ORDER.index(status)
    part = float(share) / 100 if float(share) > 1 else float(share)
    return bool(progress["total"]) and progress["done"] / progress["total"] >= part


# --- steps that hold others ----------------------------------------------------------------------


@step("parallel")
def parallel(run: Run, told: Step, local: Local) -> None:
    inner = [
        (one, {**local, "i": number})
        for number in range(int(told.get("times", 1)))
        for one in _listed(told.get("steps", told.get("do")))
    ]
    with ThreadPoolExecutor(max(1, min(64, len(inner)))) as pool:
        for done in [pool.submit(perform, run, one, names) for one, names in inner]:
            done.result()


@step("for_each")
def for_each(run: Run, told: Step, local: Local) -> None:
    for names in _rounds(run, told):
        for one in _listed(told.get("do", told.get("steps"))):
            perform(run, one, {**local, **names})


def _rounds(run: Run, told: Step) -> list[dict[str, Any]]:
    if "docs" in told:
        names = list(run.docs) if told["docs"] == "all" else told["docs"]
        return [{"doc": run.doc(n).id, "name": n, "i": i} for i, n in enumerate(names)]
    if "range" in told:
        given = told["range"]
        numbers = range(*given) if isinstance(given, list) else range(int(given))
        return [{"i": number} for number in numbers]
    for key in ("items", "values", "in"):
        if key in told:
            return [{"item": item, "i": i} for i, item in enumerate(told[key])]
    raise Unusable("for_each without docs, range or items")


def _listed(steps: Any) -> list[Any]:
    return steps if isinstance(steps, list) else [steps]


@step("sleep")
def sleep(run: Run, told: Step, _local: Local) -> None:
    time.sleep(min(float(told.get("s", told.get("seconds", 1))), run.deadline - time.monotonic()))


@step("delete")
def delete(run: Run, told: Step, _local: Local) -> None:
    doc = run.doc(told["doc"])
    _sent(run, "DELETE", f"/documents/{quoted(doc.id)}", told, doc.workspace)
