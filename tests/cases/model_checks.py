"""Checks of what was asked of the models, and of what went over the wires to stores."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.cases.checks import Told, at_most, check, outside, parts, tokens
from tests.cases.deployment import EMBEDDED
from tests.cases.grounds import STORES
from tests.cases.record import Unusable
from tests.cases.run import Run

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


def _messages(request: dict[str, Any]) -> list[str]:
    return [_content(one.get("content")) for one in request["body"].get("messages", [])]


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


@check("calls")
def calls(run: Run, told: Told, kind: str) -> str:
    number = len(run.asked(kind, told.get("for", "")))
    return outside(f"calls of kind {kind}", number, told)


@check("calls_after_retry_max")
def calls_after_retry_max(run: Run, told: Told, limit: Any) -> str:
    if "retry" not in run.moments:
        raise Unusable("calls_after_retry_max: no step asked for a retry")
    kind = told.get("kind", "extract")
    late = [one for one in run.asked(kind) if one["at"] >= run.moments["retry"]]
    return at_most(f"calls of kind {kind} after the retry", len(late), limit)


@check("extract_calls_per_chunk_max")
def extract_calls_per_chunk_max(run: Run, told: Told, limit: Any) -> str:
    seen = Counter(tuple(_messages(one)) for one in run.asked("extract"))
    most = max(seen.values(), default=0)
    return at_most("extraction calls for one chunk", most, limit)


@check("request")
def request(run: Run, told: Told, kind: str) -> str:
    asked = run.asked(kind, told.get("for", ""))
    what = f"request {kind} {told.get('for', '')}".strip()
    wants = told.get("contains") or told.get("fence_intact")
    if not asked:
        return f"{what}: no such call" if wants else ""
    if told.get("fence_intact") and (fault := _fences(run, what, asked)):
        return fault
    if "language" in told and told["language"] not in str(asked[0]["body"]):
        return f"{what}: does not name {told['language']}"
    texts = ["\n".join(_messages(one)) or str(one["body"]) for one in asked]
    missing = parts(what, "\n".join(texts), {"contains": told.get("contains")})
    return missing or parts(what, "\n".join(texts), {"lacks": told.get("lacks")})


def _fences(run: Run, what: str, asked: list[dict[str, Any]]) -> str:
    """Lines of documents stand only inside fences that nothing in them closes, never in the system
    part, and no prompt holds a key."""
    lines = {
        line.strip()
        for doc in run.docs.values()
        for line in (doc.content or b"").decode("utf-8", "replace").splitlines()
        if len(line.strip()) >= 8
    }
    found = 0
    for one in asked:
        for message, text in zip(one["body"]["messages"], _messages(one), strict=True):
            bare = _outside_fences(text)
            for line in lines:
                found += line in text
                if line in bare or (message["role"] == "system" and line in text):
                    return f"{what}: stands outside a fence: {line[:80]!r}"
            if any(secret and secret in text for secret in (run.service.secret, *_keys(run))):
                return f"{what}: holds a key"
    return "" if found else f"{what}: no line of a document is in it"


def _keys(run: Run) -> list[str]:
    return [value for name, value in run.service.env.items() if name.endswith("_KEY")]


def _outside_fences(text: str) -> str:
    """What CommonMark takes for text outside fenced blocks; an open fence ends with the text."""
    outside_, fence = [], ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if closes else fence
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            outside_.append(line)
    return "\n".join(outside_)


@check("request_tokens_max")
def request_tokens_max(run: Run, told: Told, limit: Any) -> str:
    texts = sorted(("".join(_messages(one)) for one in run.asked("")), key=len)
    most = max(map(tokens, texts[-20:]), default=0)
    return at_most("tokens of a request", most, limit)


@check("request_bytes_max")
def request_bytes_max(run: Run, told: Told, value: Any) -> str:
    store, limit = _bounded(value, told)
    largest = max((wire.counts.largest for wire in run.grounds.of_store(store)), default=0)
    if not largest:
        return _inside(run, store)
    return at_most(f"bytes of a request to {store}", largest, limit)


@check("round_trips_max")
def round_trips_max(run: Run, told: Told, value: Any) -> str:
    """Of the API with a store in a step (`for`), else in the last query: how often it waits,
    for one statement or for several side by side. The end of a transaction is not counted."""
    store, limit = _bounded(value, told)
    name = told.get("for") or (value.get("for") if isinstance(value, dict) else None)
    if name is None:
        spans = [(s[-1].start, n) for n, s in run.spans.items() if s and s[-1].op == "query"]
        if not spans:
            raise Unusable("round_trips_max: no step asked a query")
        name = max(spans)[1]
    trips = run.reply(name).trips
    wire = "model" if STORES[store] == "model" else f"{STORES[store]}-api"
    if wire not in trips:
        return _inside(run, store)
    return at_most(f"round trips to {store}", trips[wire], limit)


def _inside(run: Run, store: str) -> str:
    """An embedded store has no wire, which satisfies each bound; another must have used its own."""
    if run.service.kind != EMBEDDED or STORES[store] == "model":
        return f"nothing went to {store}"
    run.notes.append(f"{store} runs inside the service")
    return ""


def _bounded(value: Any, told: Told) -> tuple[str, Any]:
    if isinstance(value, dict):
        return str(value.get("store", "vector")), value["max"]
    return str(told.get("store", "vector")), value


@check("no_call_before_s")
def no_call_before_s(run: Run, told: Told, seconds: Any) -> str:
    """After a call that was answered with an error, else after the first call of the kind."""
    kind = told.get("kind", "")
    asked = run.asked(kind)
    if len(asked) < 2:
        return f"only {len(asked)} calls"
    failed = next((n for n, one in enumerate(asked[:-1]) if one.get("status", 200) >= 400), 0)
    pause = asked[failed + 1]["at"] - asked[failed]["at"]
    return outside("seconds until the next call", round(pause, 2), {"min": float(seconds) - 0.05})


@check("resumed_within_s")
def resumed_within_s(run: Run, told: Told, seconds: Any) -> str:
    """From the last start (or stop) of a process to the next call of a model."""
    since = max(run.moments.get("start", 0.0), run.moments.get("kill", 0.0))
    later = [one for one in run.grounds.asked()["requests"] if one["at"] > since]
    read = [one["at"] for one in later if one["kind"] != "embedding"]
    embedded = [one["at"] for one in later if one["kind"] == "embedding"][1:]  # a start asks one
    if not read and not embedded:
        return "no model was called any more"
    went_on = min(read or embedded)
    return at_most("seconds until work went on", round(went_on - since, 1), seconds)
