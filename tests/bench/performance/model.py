"""The scripted model of the benches: chat after so many milliseconds, embeddings, counts.

A process of its own, so that its CPU is not that of the service, and cheap, since it shares the
machine: HTTP is read by hand. It answers Heliograph's prompts as `tests.model_server` does, and
those of LightRAG with the same entities and relations in its rows.

    python -m tests.bench.performance.model --port 9930 --chat-ms 50 --dim 384
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import re
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from tests.bench.replay.forms import DONE, FIELD
from tests.model_answers import content_of, extraction, input_text, keywords, kind_of, tokens

DIM = 384
HEAD_END = b"\r\n\r\n"
WORD = re.compile(r"\w+")
QUESTION = re.compile(r"(?:User Query|Query): *(.+)")
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
Reply = tuple[object, float]  # what becomes JSON, and the seconds before it


@dataclass
class Model:
    chat_s: float = 0.0
    embed_s: float = 0.0
    dim: int = DIM
    kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    running: int = 0
    most_running: int = 0  # chat calls at the same time

    def count(self, kind: str, prompt: int, completion: int = 0, items: int = 1) -> None:
        known = self.kinds.setdefault(
            kind, {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "items": 0}
        )
        for name, more in zip(known, (1, prompt, completion, items), strict=True):
            known[name] += more

    def reply(self, path: str, body: bytes) -> Reply:
        match path.removeprefix("/v1"):
            case "/chat/completions":
                return self.chat(orjson.loads(body)), self.chat_s
            case "/embeddings":
                return self.embed(orjson.loads(body)), self.embed_s
            case "/models":
                return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}, 0.0
            case "/stats":
                return {
                    "kinds": self.kinds, "most_running": self.most_running,
                    "cpu_s": time.process_time(),
                }, 0.0  # fmt: skip
            case "/reset":
                self.kinds, self.most_running = {}, 0
                told = orjson.loads(body) if body else {}
                self.chat_s = told.get("chat_ms", 1000 * self.chat_s) / 1000
                return {"ok": True}, 0.0
        raise Unknown(path)

    def chat(self, body: Mapping[str, Any]) -> object:
        messages = [{**m, "content": m.get("content") or ""} for m in body["messages"]]
        prompt = sum(tokens(message["content"]) for message in messages)
        kind, content = answered(messages)
        self.count(kind, prompt, tokens(content))
        used = {"prompt_tokens": prompt, "completion_tokens": tokens(content)}
        message = {"role": "assistant", "content": content}
        return {
            "id": "scripted", "object": "chat.completion", "created": 0,
            "model": body.get("model", "scripted"),
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {**used, "total_tokens": sum(used.values())},
        }  # fmt: skip

    def embed(self, body: Mapping[str, Any]) -> object:
        given = body["input"]
        texts = [given] if isinstance(given, str) else given
        dim = body.get("dimensions") or self.dim
        coded = body.get("encoding_format") == "base64"
        rows = [vector(text, dim) for text in texts]
        used = sum(map(tokens, texts))
        self.count("embedding", used, items=len(texts))
        data = [
            {
                "object": "embedding", "index": n,
                "embedding": base64.b64encode(row.tobytes()).decode() if coded else row,
            }
            for n, row in enumerate(rows)
        ]  # fmt: skip
        usage = {"prompt_tokens": used, "total_tokens": used}
        return {"object": "list", "model": body.get("model"), "data": data, "usage": usage}


class Unknown(Exception):
    """A path that the model does not serve."""


# --- answers -------------------------------------------------------------------------------------


def answered(messages: list[dict[str, str]]) -> tuple[str, str]:
    """Kind and content of the reply to Heliograph's or LightRAG's prompt."""
    kind = kind_of(messages)
    if kind != "other":
        return kind, content_of(kind, messages)
    last = messages[-1]["content"]
    if "high_level_keywords" in last:
        return "keywords", keywords(QUESTION.findall(last)[-1])
    if "missed" in last[:400] and len(messages) > 2:
        return "glean", DONE
    if "synthesize a list of descriptions" in last:
        return "summary", "A thing that several passages tell something about."
    if FIELD in messages[0]["content"]:
        return "extract", rows(input_text(messages))
    return kind, content_of(kind, messages)


def rows(text: str) -> str:
    """The extraction that Heliograph gets, in LightRAG's rows."""
    found: dict[str, list[dict[str, Any]]] = extraction(text)
    lines = [_row("entity", e["name"], e["type"], e["description"]) for e in found["entities"]]
    for r in found["relationships"]:
        words = ", ".join(r["keywords"]) or "related"
        lines.append(_row("relation", r["source"], r["target"], words, r["description"]))
    return "\n".join([*lines, DONE])


def _row(*fields: str) -> str:
    return FIELD.join(" ".join(one.split()) for one in fields)


def vector(text: str, dim: int) -> npt.NDArray[np.float32]:
    """Signed hashed bag of words at unit length, as in `tests.model_answers`."""
    slots = [_slot(word) for word in WORD.findall(text.lower())]
    at = np.array([place % dim for place, _ in slots], dtype=np.int64)
    signs = np.array([sign for _, sign in slots], dtype=np.float32)
    values = np.bincount(at, signs, minlength=dim) if slots else np.zeros(dim)
    norm = float(np.linalg.norm(values))
    if not norm:
        values[0] = norm = 1.0
    return (values / norm).astype(np.float32)


@lru_cache(maxsize=200_000)
def _slot(word: str) -> tuple[int, float]:
    slot = zlib.crc32(word.encode())
    return slot >> 1, 1.0 if slot & 1 else -1.0


# --- HTTP ----------------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """One kept-alive connection; a client asks again only after the reply."""

    def __init__(self, model: Model) -> None:
        self._model, self._pending = model, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        head, end, body = self._pending.partition(HEAD_END)
        if not end:
            return
        length = LENGTH.search(head)
        if len(body) < (size := int(length[1]) if length else 0):
            return
        self._pending = body[size:]
        path = head.split(b" ", 2)[1].decode()
        try:
            reply, delay = self._model.reply(path, body[:size])
        except Unknown:
            self._write(b"{}", chat=False, status=b"404 Not Found")
            return
        text = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
        chat = path.endswith("/chat/completions")
        self._model.running += chat
        self._model.most_running = max(self._model.most_running, self._model.running)
        self._after(delay, lambda: self._write(text, chat))

    def _after(self, delay: float, then: Callable[[], None]) -> None:
        if delay:
            asyncio.get_running_loop().call_later(delay, then)
        else:
            then()

    def _write(self, text: bytes, chat: bool, status: bytes = b"200 OK") -> None:
        self._model.running -= chat
        self._transport.write(
            b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\ncontent-length: "
            + str(len(text)).encode() + HEAD_END + text
        )  # fmt: skip


async def serve(port: int, model: Model) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(model), "127.0.0.1", port, backlog=512)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9930)
    parser.add_argument("--chat-ms", type=float, default=0.0)
    parser.add_argument("--embed-ms", type=float, default=0.0)
    parser.add_argument("--dim", type=int, default=DIM)
    told = parser.parse_args()
    asyncio.run(serve(told.port, Model(told.chat_ms / 1000, told.embed_ms / 1000, told.dim)))
