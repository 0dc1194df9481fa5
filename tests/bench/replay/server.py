"""The replaying model as a server: chat completions (also streamed), embeddings, models, stats."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.ports import Embedder
from tests.bench.replay.answers import NotRecorded, Replay
from tests.model_answers import tokens

CHAT_MODEL, EMBED_MODEL = "replay", "built-in-encoder"
PIECE = 40  # characters of a streamed event


async def chat(request: Request) -> Response:
    replay: Replay = request.app.state.replay
    body = orjson.loads(await request.body())
    messages = [{"role": m["role"], "content": _text(m.get("content"))} for m in body["messages"]]
    try:
        content = await replay.answer(messages)
    except NotRecorded as missing:
        error = {"message": str(missing), "type": "not_recorded", "code": "not_recorded"}
        return JSONResponse({"error": error}, 404)
    prompt = sum(tokens(message["content"]) for message in messages)
    usage = {
        "prompt_tokens": prompt, "completion_tokens": tokens(content),
        "total_tokens": prompt + tokens(content),
    }  # fmt: skip
    if body.get("stream"):
        return StreamingResponse(_events(content, usage), media_type="text/event-stream")
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return _json({**_head("chat.completion", body), "choices": [choice], "usage": usage})


def _events(content: str, usage: dict[str, int]) -> Iterator[bytes]:
    head = _head("chat.completion.chunk", {})
    for start in range(0, len(content), PIECE):
        delta = {"content": content[start : start + PIECE]}
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield b"data: " + orjson.dumps({**head, "choices": [choice]}) + b"\n\n"
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield b"data: " + orjson.dumps({**head, "choices": [choice]}) + b"\n\n"
    yield b"data: " + orjson.dumps({**head, "choices": [], "usage": usage}) + b"\n\n"
    yield b"data: [DONE]\n\n"


async def embeddings(request: Request) -> Response:
    embedder: Embedder = request.app.state.embedder
    body = orjson.loads(await request.body())
    given = body["input"]
    texts = [given] if isinstance(given, str) else [str(text) for text in given]
    if body.get("dimensions") not in (None, embedder.dimension):
        message = f"This encoder has {embedder.dimension} dimensions."
        return JSONResponse({"error": {"message": message}}, 400)
    made = await embedder.embed(texts, purpose="document")
    coded = body.get("encoding_format") == "base64"
    rows = [
        {"object": "embedding", "index": n, "embedding": _coded(v) if coded else list(v)}
        for n, v in enumerate(made.vectors)
    ]
    used = sum(map(tokens, texts))
    usage = {"prompt_tokens": used, "total_tokens": used}
    return _json({"object": "list", "model": EMBED_MODEL, "data": rows, "usage": usage})


async def models(_: Request) -> Response:
    names = [{"id": name, "object": "model"} for name in (CHAT_MODEL, EMBED_MODEL)]
    return _json({"object": "list", "data": names})


async def stats(request: Request) -> Response:
    """Chat requests by kind, and extraction requests by how their passage was found."""
    replay: Replay = request.app.state.replay
    return _json({"asked": dict(replay.asked), "found": dict(replay.library.found)})


def application(replay: Replay, embedder: Embedder) -> Starlette:
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/embeddings", embeddings, methods=["POST"]),
            Route("/v1/models", models),
            Route("/stats", stats),
        ]
    )
    app.state.replay, app.state.embedder = replay, embedder
    return app


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _coded(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _head(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "replay", "object": kind, "created": 0, "model": body.get("model", CHAT_MODEL)}


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
