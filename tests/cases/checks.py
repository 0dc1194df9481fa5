"""Checks: each returns what is wrong, "" if nothing is. The first known key of a check names it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.cases.record import Unusable, filled
from tests.cases.run import Failed, Reply, Run

Told = Mapping[str, Any]
Check = Callable[[Run, Told, Any], str]

CHECKS: dict[str, Check] = {}
UNTIMED = ("start", "restart", "seed_graph", "proc", "key", "jwt", "listen")
REFUSED = "refused"


def check(*names: str) -> Callable[[Check], Check]:
    def register(work: Check) -> Check:
        CHECKS.update(dict.fromkeys(names, work))
        return work

    return register


LAST = ("alive", "fingerprint_equals")  # they change what the others look at


def in_order(checks: Sequence[Told]) -> list[Told]:
    return sorted(
        checks, key=lambda told: max((LAST.index(k) for k in told if k in LAST), default=-1)
    )


def judge(run: Run, told: Told) -> str:
    """What is wrong with the run by this check, "" if nothing."""
    name = next((key for key in told if key in CHECKS), None)
    if name is None:
        raise Unusable(f"unknown check {' / '.join(told) or told!r}")
    ready: dict[str, Any] = {k: filled(v, run.known({})) for k, v in told.items()}
    try:
        return CHECKS[name](run, ready, ready[name])
    except Failed as failed:
        return str(failed)


def outside(what: str, number: float, told: Any) -> str:
    """A number against `5`, `{"min": …, "max": …}`, or a check with `min`, `max`, `count`."""
    if isinstance(told, bool) or told is None:
        raise Unusable(f"no bound for {what}: {told!r}")
    if isinstance(told, (int, float)):
        return "" if number == told else f"{what}: {number}, not {told}"
    low = told.get("min", told.get("count", told.get("equals")))
    high = told.get("max", told.get("count", told.get("equals")))
    if low is None and high is None:
        raise Unusable(f"no bound for {what}: {dict(told)}")
    if low is not None and number < low:
        return f"{what}: {number}, at least {low} expected"
    if high is not None and number > high:
        return f"{what}: {number}, at most {high} expected"
    return ""


def at_most(what: str, number: float, told: Any) -> str:
    """As `outside`; a bare number is the maximum."""
    bare = isinstance(told, (int, float)) and not isinstance(told, bool)
    return outside(what, number, {"max": told} if bare else told)


def parts(what: str, text: str, told: Told) -> str:
    """`contains` and `lacks` in a text."""
    missing = [one for one in strings(told.get("contains")) if one not in text]
    there = [one for one in strings(told.get("lacks")) if one in text]
    if missing or there:
        return f"{what}: lacks {missing}, holds {there} in {text[:300]!r}"
    return ""


def strings(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def first(*faults: str) -> str:
    return next((one for one in faults if one), "")


# --- documents -----------------------------------------------------------------------------------


@check("doc")
def doc(run: Run, told: Told, name: str) -> str:
    known = run.doc(name)
    wanted = strings(told.get("status"))
    if not known.id:
        refused = 400 <= known.status < 500
        if not refused or (wanted and REFUSED not in wanted):
            return f"{name}: the upload was answered {known.status}, expected {wanted}"
        return ""
    seen = run.document(name)
    if seen is None:
        return "" if {"gone", "deleted"} & set(wanted) else f"{name}: gone, expected {wanted}"
    if wanted and seen["status"] not in wanted:
        return f"{name}: {seen['status']} {seen['error'] or ''}, expected {wanted}"
    return first(
        _error(name, seen, told), _warning(name, seen, told),
        outside(f"{name}: version", seen["version"], told["version"]) if "version" in told else "",
        outside(f"{name}: chunks", seen["chunks"], told["chunks"]) if "chunks" in told else "",
        f"{name}: is called {seen['name']!r}" if told.get("name", seen["name"]) != seen["name"]
        else "",
    )  # fmt: skip


def _error(name: str, seen: Mapping[str, Any], told: Told) -> str:
    error = seen["error"] or {}
    wanted = told.get("error")
    if wanted is False and error:
        return f"{name}: has an error: {error}"
    if wanted and not all(
        str(error.get(key) or "").strip() for key in ("code", "stage", "message")
    ):
        return f"{name}: the error is incomplete: {error}"
    if isinstance(wanted, (str, list)) and not any(one in str(error) for one in strings(wanted)):
        return f"{name}: the error is {error}, expected {wanted}"
    if "retryable" in told and bool(error.get("retryable")) != told["retryable"]:
        return f"{name}: retryable should be {told['retryable']}: {error}"
    return ""


def _warning(name: str, seen: Mapping[str, Any], told: Told) -> str:
    wanted, warnings = told.get("warning", told.get("warnings")), seen["warnings"]
    if isinstance(wanted, bool):
        return "" if bool(warnings) == wanted else f"{name}: warnings are {warnings}"
    if missing := [one for one in strings(wanted) if one not in " ".join(warnings)]:
        return f"{name}: no warning speaks of {missing}: {warnings}"
    return ""


@check("documents")
def documents(run: Run, told: Told, number: Any) -> str:
    """Also by every process, since requests go round them."""
    workspace = run.workspace(told.get("workspace"))
    return first(*(
        outside("documents", len(run.pages("/documents", "documents", workspace)), number)
        for _ in run.service.clients
    ))  # fmt: skip


@check("all_ready")
def all_ready(run: Run, _told: Told, _value: Any) -> str:
    states = {d.name: (run.document(d.name) or {"status": f"refused {d.status}"})["status"]
              for d in run.docs.values()}  # fmt: skip
    wrong = {name: state for name, state in states.items() if state != "ready"}
    return (
        f"not ready: {len(wrong)} of {len(states)}, {dict(list(wrong.items())[:5])}"
        if wrong
        else ""
    )


@check("originals_match")
def originals_match(run: Run, _told: Told, _value: Any) -> str:
    for one in run.docs.values():
        if one.id and one.content is not None:
            path = f"/documents/{one.id}/original"
            got = run.send("GET", path, workspace=one.workspace)
            if got.content != one.content:
                return f"{one.name}: the original is {got.content[:80]!r} ({got.status_code})"
    return ""


@check("chunks")
def chunks(run: Run, told: Told, name: str) -> str:
    known = run.doc(name)
    found = run.pages(f"/documents/{known.id}/chunks", "chunks", known.workspace)
    text = run.send("GET", f"/documents/{known.id}/text", workspace=known.workspace).text
    if wrong := [c["position"] for c in found if text[c["start"] : c["end"]] != c["text"]]:
        return f"{name}: the spans of chunks {wrong[:5]} do not give their text"
    limit = told.get("max_tokens")
    if limit and (long := max((tokens(c["text"]) for c in found), default=0)) > limit:
        return f"{name}: a chunk has {long} tokens"
    if told.get("covers_text"):
        bare = list(text)
        for chunk in found:
            bare[chunk["start"] : chunk["end"]] = " " * (chunk["end"] - chunk["start"])
        if left := "".join(bare).strip():
            return f"{name}: no chunk covers {left[:80]!r}"
    bounds = {k: told[k] for k in ("min", "max", "count") if k in told}
    return outside(f"{name}: chunks", len(found), bounds) if bounds else ""


@cache
def _tokenizer() -> Any:
    from app.llm.tokens import TiktokenTokenizer  # it reads a large file

    return TiktokenTokenizer("o200k_base")


def tokens(text: str) -> int:
    return int(_tokenizer().count(text))


# --- replies -------------------------------------------------------------------------------------


@check("http")
def http(run: Run, told: Told, name: str) -> str:
    replies = run.replies.get(name) or [run.reply(name)]
    return first(*(_http(name, reply, told) for reply in replies))


def _http(name: str, reply: Reply, told: Told) -> str:
    wanted = told.get("status")
    if wanted is not None and not any(_fits(reply.status, one) for one in _several(wanted)):
        return f"{name}: answered {reply.status}, expected {wanted}: {reply.text[:300]}"
    if told.get("problem"):
        body, kind = reply.json, reply.headers.get("content-type", "")
        if "application/problem+json" not in kind or not (
            isinstance(body, dict) and body.get("code")
        ):
            return f"{name}: no problem document but {kind} {reply.text[:200]}"
        if isinstance(told["problem"], str) and body["code"] != told["problem"]:
            return f"{name}: the problem is {body['code']}"
    return parts(name, reply.text, told)


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _fits(status: int, wanted: Any) -> bool:
    """`200`, `"200"`, or a class such as `"4xx"`."""
    text = str(wanted).lower()
    return text == str(status) or (text[1:] == "xx" and str(status)[:1] == text[:1])


@check("no_5xx")
def no_5xx(run: Run, _told: Told, _value: Any) -> str:
    wrong = [one for one in run.statuses if one[1] >= 500 or one[1] == 0]
    return f"server errors: {wrong[:5]}" if wrong else ""


@check("header_absent")
def header_absent(run: Run, told: Told, name: str) -> str:
    value = run.reply(name).headers.get(told["name"])
    return "" if value is None else f"{name}: {told['name']} is {value!r}"


@check("header_not")
def header_not(run: Run, told: Told, name: str) -> str:
    value = run.reply(name).headers.get(told["name"])
    return f"{name}: {told['name']} is {value!r}" if value in _several(told.get("value")) else ""


@check("header")
def header(run: Run, told: Told, name: str) -> str:
    value = run.reply(name).headers.get(told["name"])
    if value is None:
        return f"{name}: no header {told['name']}"
    if "value" in told and value not in _several(told["value"]):
        return f"{name}: {told['name']} is {value!r}"
    return parts(f"{name}: {told['name']}", value, told)


def _answered(reply: Reply) -> dict[str, Any]:
    """The whole answer; of a stream, that of its `done` event."""
    if reply.events:
        return next((data for event, data in reply.events if event == "done"), {})
    body = reply.json
    return body if isinstance(body, dict) else {}


def _texts(reply: Reply) -> list[str]:
    """What a reader may see of it, each of which must satisfy the check."""
    body = _answered(reply)
    shown = [str(body.get("answer", ""))]
    if not shown[0] and body.get("context"):
        shown = [json.dumps(body["context"], ensure_ascii=False)]
    if choices := body.get("choices"):  # the OpenAI dialect
        shown = [str(choices[0].get("message", {}).get("content"))]
    elif "message" in body:
        shown = [str(body["message"].get("content"))]
    told = [data.get("text", "") for event, data in reply.events if event == "token"]
    return [*shown, "".join(told)] if told else shown


@check("answer")
def answer(run: Run, told: Told, name: str) -> str:
    reply = run.reply(name)
    if reply.status != 200:
        return f"{name}: answered {reply.status} {reply.text[:200]}"
    return first(*(parts(name, text, told) for text in _texts(reply)))


@check("citations")
def citations(run: Run, told: Told, name: str) -> str:
    found = _answered(run.reply(name)).get("citations") or []
    return outside(f"{name}: citations", len(found), told)


@check("keywords")
def keywords(run: Run, told: Told, name: str) -> str:
    explain = _answered(run.reply(name)).get("explain") or {}
    found = explain.get("keywords") or {}
    words = [w.casefold() for part in ("low", "high") for w in found.get(part, [])]
    missing = [w for w in strings(told.get("include")) if w.casefold() not in words]
    there = [w for w in strings(told.get("exclude")) if w.casefold() in words]
    return (
        f"{name}: keywords {found}, missing {missing}, unwanted {there}" if missing or there else ""
    )


@check("stream")
def stream(run: Run, told: Told, name: str) -> str:
    reply = run.reply(name)
    events = [event for event, _ in reply.events]
    if not events:
        return f"{name}: no stream: {reply.status} {reply.text[:200]}"
    if (last := told.get("ends_with")) and events[-1] not in strings(last):
        return f"{name}: the stream ends with {events[-1]}"
    wrong = [one for one in strings(told.get("lacks")) if one in events]
    missing = [one for one in strings(told.get("contains")) if one not in events]
    return f"{name}: events are {sorted(set(events))}" if wrong or missing else ""


# --- surroundings --------------------------------------------------------------------------------


@check("seconds_max")
def seconds_max(run: Run, told: Told, limit: Any) -> str:
    """Of a step (`for`), else of all that are not mere preparation."""
    name = told.get("for")
    spans = run.spans.get(name, []) if name else [
        span for spans in run.spans.values() for span in spans
        if span.op not in (*UNTIMED, "for_each", "parallel") and not _seeding(run, span.start)
    ]  # fmt: skip
    seconds = sum(span.end - span.start for span in spans)
    return at_most(f"seconds of {name or 'the steps'}", round(seconds, 1), limit)


def _seeding(run: Run, moment: float) -> bool:
    spans = [s for spans in run.spans.values() for s in spans if s.op == "seed_graph"]
    return any(span.start <= moment <= span.end for span in spans)


@check("start")
def start(run: Run, told: Told, value: Any) -> str:
    """`ok` or `refused` of the last start, or the name of one with `refused` and `contains`."""
    up, said = run.starts.get(str(value)) or list(run.starts.values() or [(True, "")])[-1]
    wanted = value not in ("refuse", "refused", False)
    wanted = not told.get("refused", not wanted) if told.get("status") is None else (
        str(told["status"]) not in ("refuse", "refused")
    )  # fmt: skip
    if up != wanted:
        return f"the start was {'accepted' if up else 'refused'}: {said[-300:]}"
    return parts("the start", said, told)


@check("started")
def started(run: Run, _told: Told, value: Any) -> str:
    up = bool(run.service.clients) and not run.service.refusal
    return "" if up == bool(value) else f"the service is {'up' if up else 'down'}"


@check("alive")
def alive(run: Run, _told: Told, _value: Any) -> str:
    """Answers, and makes a clean document ready, whatever was scripted before."""
    run.grounds.tell({})
    run.grounds.close_wires()
    if not run.service.clients:
        return "the service is down"
    if (status := run.send("GET", "/healthz").status_code) != 200:
        return f"/healthz answers {status}"
    where = f"{run.prefix or 'cases'}-alive"  # so that other checks do not count it
    text = "Grace Hopper wrote a compiler in Arlington."
    reply = run.send("POST", "/documents", workspace=where, json={"text": text, "name": "clean"})
    if reply.status_code != 202:
        return f"a clean document is answered {reply.status_code} {reply.text[:200]}"
    path = f"/documents/{reply.json()['documents'][0]['id']}"
    until = time.monotonic() + 120
    while (seen := run.look(path, where))["status"] not in ("ready", "failed"):
        if time.monotonic() > until:
            return f"a clean document is still {seen['status']}"
        time.sleep(0.05)
    return "" if seen["status"] == "ready" else f"a clean document fails: {seen['error']}"


@check("file_exists")
def file_exists(run: Run, told: Told, path: Any) -> str:
    wanted = told.get("exists", True)
    if Path(str(path)).exists() == wanted:
        return ""
    return f"{Path(str(path)).name} {'is gone' if wanted else 'is there'}"


@check("trap_hits")
def trap_hits(run: Run, told: Told, value: Any) -> str:
    if isinstance(value, str):
        return at_most("requests to the trap", run.traps[value].hits, told.get("max", told))
    return at_most("requests to the trap", sum(t.hits for t in run.traps.values()), value)


@check("no_outgoing_to")
def no_outgoing_to(run: Run, _told: Told, hosts: Any) -> str:
    file = run.service.connections
    lines = set(file.read_text().splitlines()) if file.exists() else set()
    wrong = [line for line in lines if any(host in unquote(line) for host in strings(hosts))]
    return f"the service looked for {wrong[:5]}" if wrong else ""
