"""A scripted model server: OpenAI and Ollama dialects, deterministic answers, faults on demand.

    python -m tests.model_server --port 9910 [--dim 64] [--latency 0.05]

Without a script it answers from the prompt alone: extraction finds capitalised runs and joins
neighbours in a sentence, an answer quotes and cites the first source, embeddings are hashed bags of
words. `POST /script` queues other answers, `GET /stats` tells what was asked, `POST /reset` forgets
both. In a test: `async with running() as server`.

Script: {"llm": {kind: [answer, …], "extract_match": {"contains": …, "always": [answer, …]}},
"embedding": [rule, …], "dim": n, "latency_s": x, "refuse": [parameter, …], "key": "…",
"reject": [{"contains": text, status, body, delay_s}, …], "quota": {…}}. Kinds:
extract (also its repair), glean, summary, keywords, hyde, decompose, bridge, judge, answer,
compare, describe, users, tasks, questions, community_report, rerank, other. An
answer is the content, or {content | python | json, finish_reason} | {status, headers, body} |
{raw, content_type} | {stream: [line, …], cut}, each with delay_s if wanted. Rules: {dim},
{max_batch, status, body}, {match, status, body}, {vector: zeros | nan | null | short | text} for
the next text. `reject` answers every call of any kind with that text ("": all) until another list
is scripted; `quota` is that of `tests.model_quota`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import socket
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.model_answers import content_of, kind_of, tokens, vector
from tests.model_quota import Quota

DIM = 64
KEPT = 20_000  # latest requests that /stats shows


@dataclass
class State:
    """The script at hand and what has been asked so far."""

    dim: int = DIM
    latency_s: float = 0.0
    answers: dict[str, deque[Any]] = field(default_factory=lambda: defaultdict(deque))
    matches: list[tuple[str, deque[Any]]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    refuse: tuple[str, ...] = ()
    key: str = ""
    reject: list[dict[str, Any]] = field(default_factory=list)
    quota: Quota | None = None
    kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEPT))
    running: int = 0
    max_parallel: int = 0

    def script(self, told: Mapping[str, Any]) -> None:
        for kind, answers in told.get("llm", {}).items():
            if kind == "extract_match":
                for match in answers if isinstance(answers, list) else [answers]:
                    self.matches.append((match["contains"], deque(match["always"])))
            elif isinstance(answers, list):
                self.answers[kind].extend(answers)
        self.rules += told.get("embedding", [])
        if "quota" in told:
            self.quota = Quota(told["quota"]) if told["quota"] else None
        for name in ("dim", "latency_s", "key", "reject"):
            if name in told:
                setattr(self, name, told[name])
        self.refuse = tuple(told.get("refuse", self.refuse))

    def next(self, kind: str, prompt: str) -> Any:
        """The scripted answer of this call; None: the deterministic one."""
        for rule in self.reject:
            if rule["contains"] in prompt:
                return rule
        if kind == "extract":
            for contains, answers in self.matches:
                if answers and contains in prompt:
                    return answers.popleft()
        return self.answers[kind].popleft() if self.answers[kind] else None

    def note(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Remember a request and when it came; a fault adds the `status` of its answer."""
        self.requests.append({"kind": kind, "body": body, "at": time.time()})
        return self.requests[-1]

    def count(self, kind: str, prompt: int, completion: int = 0, items: int = 1) -> None:
        known = self.kinds.setdefault(
            kind, {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "items": 0}
        )
        for name, more in zip(known, (1, prompt, completion, items), strict=True):
            known[name] += more


# --- chat ----------------------------------------------------------------------------------------


class Dropped(Exception):
    """Ends a response in the middle: uvicorn closes the connection."""


@dataclass(frozen=True)
class Reply:
    content: str
    finish_reason: str
    prompt_tokens: int
    model: str

    @property
    def completion_tokens(self) -> int:
        return tokens(self.content)


async def chat(request: Request, *, ollama: bool) -> Response:
    state: State = request.app.state.model
    body = await request.json()
    messages = [{**m, "content": m.get("content") or ""} for m in body["messages"]]
    kind = kind_of(messages)
    noted = state.note(kind, body)
    prompt = "\n".join(m["content"] for m in messages)
    if refused := _refused(request, body):
        return refused
    answer = state.next(kind, prompt)
    most = tokens(prompt) + (body.get("max_tokens") or 1000)
    async with _within(state, tokens(prompt), most) as spent, _counted(state, answer):
        if spent.refused:
            noted["status"] = 429
            return _too_many(spent.refused)
        scripted = answer if isinstance(answer, dict) else {}
        if faulty := _faulty(scripted):
            state.count(kind, tokens(prompt))
            noted["status"] = faulty.status_code
            return faulty
        content = _content(answer) if answer is not None else content_of(kind, messages)
        finish = scripted.get("finish_reason", "stop")
        reply = Reply(content, finish, tokens(prompt), body.get("model", ""))
        state.count(kind, reply.prompt_tokens, reply.completion_tokens)
        spent.tokens = reply.prompt_tokens + reply.completion_tokens
        # Ollama streams unless told not to.
        if body.get("stream", ollama):
            lines = _ollama_lines(reply) if ollama else _openai_lines(reply)
            media = "application/x-ndjson" if ollama else "text/event-stream"
            return StreamingResponse(_each(lines), media_type=media)
        return JSONResponse(_ollama(reply) if ollama else _openai(reply))


@asynccontextmanager
async def _counted(state: State, answer: Any) -> AsyncIterator[None]:
    state.running += 1
    state.max_parallel = max(state.max_parallel, state.running)
    delay = answer.get("delay_s", 0) if isinstance(answer, dict) else 0
    try:
        await asyncio.sleep(delay or state.latency_s)
        yield
    finally:
        state.running -= 1


@dataclass
class Spent:
    """What a call uses of the quota, or why it was refused."""

    tokens: int
    refused: str = ""


@asynccontextmanager
async def _within(state: State, prompt: int, most: int) -> AsyncIterator[Spent]:
    quota = state.quota
    spent = Spent(prompt, quota.enter(prompt, most) if quota else "")
    try:
        yield spent
    finally:
        if quota and not spent.refused:
            quota.leave(spent.tokens)


def _too_many(what: str) -> Response:
    return JSONResponse({"error": {"message": f"Rate limit reached for {what}"}}, 429)


def _refused(request: Request, body: Mapping[str, Any]) -> Response | None:
    state: State = request.app.state.model
    if state.key and request.headers.get("authorization") != f"Bearer {state.key}":
        return JSONResponse({"error": {"message": "Incorrect API key provided"}}, 401)
    for name in state.refuse:
        form = body.get("response_format", {}).get("type")
        if name in body or name == form:
            return JSONResponse({"error": {"message": f"Unsupported parameter: '{name}'"}}, 400)
    return None


def _faulty(answer: Mapping[str, Any]) -> Response | None:
    if "status" in answer:
        return Response(
            answer.get("body", ""), answer["status"], answer.get("headers"), "application/json"
        )
    if "raw" in answer:
        return Response(answer["raw"], media_type=answer.get("content_type", "text/html"))
    if "stream" in answer:
        lines = [line if line.endswith("\n\n") else f"{line}\n\n" for line in answer["stream"]]
        return StreamingResponse(
            _each(lines, cut=answer.get("cut", False)), media_type="text/event-stream"
        )
    return None


def _content(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    if "python" in answer:
        return str(eval(answer["python"], {}, {}))  # our own test scripts
    if "json" in answer:
        return json.dumps(answer["json"], ensure_ascii=False)
    return str(answer.get("content", ""))


async def _each(lines: list[str], *, cut: bool = False) -> AsyncIterator[str]:
    for line in lines:
        yield line
        await asyncio.sleep(0)
    if cut:
        raise Dropped


def _openai(reply: Reply) -> dict[str, Any]:
    return {
        "id": "scripted", "object": "chat.completion", "created": 0, "model": reply.model,
        "choices": [{
            "index": 0, "finish_reason": reply.finish_reason,
            "message": {"role": "assistant", "content": reply.content},
        }],
        "usage": {
            "prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens,
        },
    }  # fmt: skip


def _openai_lines(reply: Reply) -> list[str]:
    events: list[Any] = [
        {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
        for word in re.findall(r"\s*\S+\s*", reply.content)
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]})
    events.append({"choices": [], "usage": _openai(reply)["usage"]})
    return [*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]


def _ollama(reply: Reply) -> dict[str, Any]:
    return {
        "model": reply.model, "message": {"role": "assistant", "content": reply.content},
        "done": True, "done_reason": reply.finish_reason,
        "prompt_eval_count": reply.prompt_tokens, "eval_count": reply.completion_tokens,
    }  # fmt: skip


def _ollama_lines(reply: Reply) -> list[str]:
    pieces = [
        {"model": reply.model, "message": {"role": "assistant", "content": word}, "done": False}
        for word in re.findall(r"\s*\S+\s*", reply.content)
    ]
    last = {**_ollama(reply), "message": {"role": "assistant", "content": ""}}
    return [json.dumps(piece) + "\n" for piece in (*pieces, last)]


async def openai_chat(request: Request) -> Response:
    return await chat(request, ollama=False)


async def ollama_chat(request: Request) -> Response:
    return await chat(request, ollama=True)


# --- embeddings and reranking --------------------------------------------------------------------


async def openai_embed(request: Request) -> Response:
    body, found = await _embed(request)
    if isinstance(found, Response):
        return found
    rows = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(found)]
    used = sum(map(tokens, _texts(body)))
    reply = {"object": "list", "data": rows, "usage": {"prompt_tokens": used}}
    return Response(json.dumps(reply), media_type="application/json")


async def ollama_embed(request: Request) -> Response:
    _, found = await _embed(request)
    if isinstance(found, Response):
        return found
    return Response(json.dumps({"embeddings": found}), media_type="application/json")


async def _embed(request: Request) -> tuple[dict[str, Any], list[Any] | Response]:
    state: State = request.app.state.model
    body = await request.json()
    texts = _texts(body)
    state.note("embedding", body)
    state.count("embedding", sum(map(tokens, texts)), items=len(texts))
    if refused := _refused(request, body):
        return body, refused
    used = sum(map(tokens, texts))
    rejected = next((r for r in state.reject if any(r["contains"] in t for t in texts)), None)
    async with _within(state, used, used) as spent, _counted(state, rejected):
        if spent.refused:
            return body, _too_many(spent.refused)
        if rejected and (faulty := _faulty(rejected)):
            return body, faulty
        for rule in state.rules:
            too_many = len(texts) > rule.get("max_batch", math.inf)
            if too_many or ("match" in rule and any(rule["match"] in text for text in texts)):
                return body, Response(rule.get("body", ""), rule.get("status", 400))
        dims = [rule["dim"] for rule in state.rules if "dim" in rule]
        dim = dims[-1] if dims else body.get("dimensions") or state.dim
        return body, [_scripted_vector(state, text, dim) for text in texts]


def _scripted_vector(state: State, text: str, dim: int) -> object:
    for place, rule in enumerate(state.rules):
        if "vector" in rule:
            del state.rules[place]
            odd = {
                "zeros": [0.0] * dim, "nan": [math.nan] * dim, "null": None,
                "short": [0.5] * (dim // 2), "text": ["x"] * dim,
            }  # fmt: skip
            return odd[rule["vector"]]
    return vector(text, dim)


def _texts(body: Mapping[str, Any]) -> list[str]:
    texts = body.get("input", [])
    return [texts] if isinstance(texts, str) else texts


async def rerank(request: Request) -> Response:
    state: State = request.app.state.model
    body = await request.json()
    state.note("rerank", body)
    state.count("rerank", 0, items=len(body["documents"]))
    answer = state.next("rerank", "")
    async with _counted(state, answer):
        if answer is not None:
            return _faulty(answer) or JSONResponse(answer["json"])
        asked = set(re.findall(r"\w+", body["query"].lower()))
        shares = [
            len(asked & set(re.findall(r"\w+", text.lower()))) / (len(asked) or 1)
            for text in body["documents"]
        ]
        results = [{"index": i, "relevance_score": share} for i, share in enumerate(shares)]
        return JSONResponse({"results": sorted(results, key=lambda r: -r["relevance_score"])})


# --- control and start ---------------------------------------------------------------------------


async def models(_: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": "scripted", "object": "model"}]})


async def tags(_: Request) -> Response:
    return JSONResponse({"models": [{"name": "scripted", "model": "scripted"}]})


async def version(_: Request) -> Response:
    return JSONResponse({"version": "0.0.0-scripted"})


async def script(request: Request) -> Response:
    request.app.state.model.script(await request.json())
    return JSONResponse({"ok": True})


async def stats(request: Request) -> Response:
    state: State = request.app.state.model
    return JSONResponse(
        {
            "kinds": state.kinds,
            "max_parallel": state.max_parallel,
            "requests": [*state.requests],
            "quota": state.quota.stats() if state.quota else None,
        }
    )


async def reset(request: Request) -> Response:
    old: State = request.app.state.model
    request.app.state.model = State(dim=request.app.state.dim)
    request.app.state.model.running = old.running
    return JSONResponse({"ok": True})


def create_app(*, dim: int = DIM, latency_s: float = 0.0) -> Starlette:
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", openai_chat, methods=["POST"]),
            Route("/v1/embeddings", openai_embed, methods=["POST"]),
            Route("/v1/rerank", rerank, methods=["POST"]),
            Route("/rerank", rerank, methods=["POST"]),
            Route("/v1/models", models),
            Route("/api/chat", ollama_chat, methods=["POST"]),
            Route("/api/embed", ollama_embed, methods=["POST"]),
            Route("/api/tags", tags),
            Route("/api/version", version),
            Route("/script", script, methods=["POST"]),
            Route("/stats", stats),
            Route("/reset", reset, methods=["POST"]),
        ]
    )
    app.state.dim = dim
    app.state.model = State(dim=dim, latency_s=latency_s)
    return app


class _Server(uvicorn.Server):
    def capture_signals(self) -> Any:
        return nullcontext()  # the test run keeps its own


@dataclass(frozen=True)
class ModelServer:
    """A running server: `host` is host:port, `state` its script and counts."""

    host: str
    app: Starlette

    @property
    def state(self) -> State:
        state: State = self.app.state.model
        return state

    def script(self, **told: Any) -> None:
        self.state.script(told)

    def calls(self, kind: str) -> int:
        return self.state.kinds.get(kind, {}).get("calls", 0)

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [row["body"] for row in self.state.requests if row["kind"] == kind]


@asynccontextmanager
async def running(*, dim: int = DIM) -> AsyncIterator[ModelServer]:
    app = create_app(dim=dim)
    # With the protocol named, asyncio sets TCP_NODELAY on connections; else replies wait 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        config = uvicorn.Config(
            app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1
        )
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield ModelServer(f"127.0.0.1:{listening.getsockname()[1]}", app)
        finally:
            server.should_exit = True
            await task


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9910)
    parser.add_argument("--dim", type=int, default=DIM)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    given = parser.parse_args()
    uvicorn.run(
        create_app(dim=given.dim, latency_s=given.latency),
        host="127.0.0.1", port=given.port, log_level="critical",
    )  # fmt: skip
