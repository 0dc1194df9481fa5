"""A stand-in for the Qdrant server, which no package registry offers: the part of its REST API that
our adapter uses, over the vendor's own engine (`qdrant_edge`), so that the real client can talk to
it and several processes can share it.

`python -m tests.qdrant_standin --port N --dir D` runs one. What it does not know it refuses with
status 400 rather than ignore it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as qe
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

Json = dict[str, Any]
PATIENCE = 30.0


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Collections:
    """Shards by collection name, and aliases; all calls block, changes one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._aliases_file = folder / "aliases.json"
        self._shards: dict[str, qe.EdgeShard] = {}
        self._changing = threading.Lock()
        self.aliases: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self._aliases_file.exists():
            self.aliases = json.loads(self._aliases_file.read_text())
        for path in folder.iterdir():
            if path.is_dir():
                self._shards[path.name] = qe.EdgeShard.load(str(path))

    def __contains__(self, name: str) -> bool:
        return self.aliases.get(name, name) in self._shards

    def names(self) -> list[str]:
        return sorted(self._shards)

    def shard(self, name: str) -> qe.EdgeShard:
        try:
            return self._shards[self.aliases.get(name, name)]
        except KeyError:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!") from None

    def create(self, name: str, body: Json) -> None:
        with self._changing:
            if name in self:
                raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
            config = qe.EdgeConfig(
                vectors={key: dense_params(value) for key, value in body["vectors"].items()},
                sparse_vectors={
                    key: sparse_params(value)
                    for key, value in body.get("sparse_vectors", {}).items()
                },
            )
            self._shards[name] = qe.EdgeShard.create(str(self._folder / name), config)

    def delete(self, name: str) -> bool:
        with self._changing:
            shard = self._shards.pop(name, None)
            if shard is None:
                return False
            shard.close()
            shutil.rmtree(self._folder / name)
            self._set_aliases({a: target for a, target in self.aliases.items() if target != name})
            return True

    def change_aliases(self, actions: Sequence[Json]) -> None:
        """All or nothing."""
        with self._changing:
            aliases = dict(self.aliases)
            for action in actions:
                match action:
                    case {"create_alias": {"collection_name": target, "alias_name": alias}}:
                        self.shard(target)
                        if alias in self._shards:
                            raise Refused(409, f"Wrong input: Collection `{alias}` already exists!")
                        aliases[alias] = target
                    case {"delete_alias": {"alias_name": alias}}:
                        if aliases.pop(alias, None) is None:
                            raise Refused(404, f"Not found: Alias `{alias}` doesn't exist!")
                    case _:
                        raise Refused(400, f"Unknown alias action {action}")
            self._set_aliases(aliases)

    def close(self) -> None:
        for shard in self._shards.values():
            shard.flush()
            shard.close()

    def _set_aliases(self, aliases: dict[str, str]) -> None:
        self.aliases = aliases
        draft = self._aliases_file.with_suffix(".new")
        draft.write_text(json.dumps(aliases))
        draft.replace(self._aliases_file)


# --- endpoints -----------------------------------------------------------------------------------


async def root(request: Request) -> Response:
    own = request.app.state.version
    return JSONResponse({"title": "qdrant stand-in", "version": own, "commit": None})


async def ready(request: Request) -> Response:
    return PlainTextResponse("all shards are ready")


def endpoint(
    work: Callable[[Collections, str, Any], Any],
) -> Callable[[Request], Awaitable[Response]]:
    """`work(collections, name, body)` runs in a thread; what it returns is the result."""

    async def respond(request: Request) -> Response:
        start = time.perf_counter()
        raw = await request.body()
        body = json.loads(raw) if raw else None
        name = request.path_params.get("name", "")
        try:
            result = await run_in_threadpool(work, request.app.state.collections, name, body)
        except Refused as refused:
            error = {"status": {"error": str(refused)}, "time": 0.0}
            return JSONResponse(error, refused.status)
        except (KeyError, TypeError, ValueError) as error:
            message = f"Format error in JSON body: {error!r}"
            return JSONResponse({"status": {"error": message}, "time": 0.0}, 400)
        except Exception as error:
            if type(error) is not Exception:  # the engine's type for all that it refuses
                raise
            return JSONResponse({"status": {"error": f"Wrong input: {error}"}, "time": 0.0}, 400)
        seconds = time.perf_counter() - start
        return JSONResponse({"result": result, "status": "ok", "time": seconds})

    return respond


def list_collections(collections: Collections, name: str, body: Any) -> Json:
    return {"collections": [{"name": one} for one in collections.names()]}


def exists(collections: Collections, name: str, body: Any) -> Json:
    return {"exists": name in collections}


def create(collections: Collections, name: str, body: Json) -> bool:
    collections.create(name, body)
    return True


def delete(collections: Collections, name: str, body: Any) -> bool:
    return collections.delete(name)


def list_aliases(collections: Collections, name: str, body: Any) -> Json:
    pairs = sorted(collections.aliases.items())
    return {"aliases": [{"alias_name": a, "collection_name": target} for a, target in pairs]}


def change_aliases(collections: Collections, name: str, body: Json) -> bool:
    collections.change_aliases(body["actions"])
    return True


def create_index(collections: Collections, name: str, body: Json) -> Json:
    schema = body["field_schema"]
    if schema["type"] != "keyword":
        raise Refused(400, f"Unknown index {schema}")
    params = qe.KeywordIndexParams(
        is_tenant=schema.get("is_tenant"), enable_hnsw=schema.get("enable_hnsw")
    )
    operation = qe.UpdateOperation.create_field_index(body["field_name"], params)
    collections.shard(name).update(operation)
    return done()


def upsert(collections: Collections, name: str, body: Json) -> Json:
    points = [
        qe.Point(point_id(point["id"]), named_vectors(point["vector"]), point.get("payload") or {})
        for point in body["points"]
    ]
    collections.shard(name).update(qe.UpdateOperation.upsert_points(points))
    return done()


def delete_points(collections: Collections, name: str, body: Json) -> Json:
    match body:
        case {"points": list(ids)}:
            operation = qe.UpdateOperation.delete_points([point_id(one) for one in ids])
        case {"filter": dict(condition)}:
            operation = qe.UpdateOperation.delete_points_by_filter(to_filter(condition))
        case _:
            raise Refused(400, f"Unknown selector {sorted(body)}")
    collections.shard(name).update(operation)
    return done()


def count(collections: Collections, name: str, body: Json) -> Json:
    condition = body.get("filter")
    request = qe.CountRequest(
        exact=body.get("exact", True), filter=to_filter(condition) if condition else None
    )
    return {"count": collections.shard(name).count(request)}


def query(collections: Collections, name: str, body: Json) -> Json:
    return query_batch(collections, name, {"searches": [body]})[0]


def query_batch(collections: Collections, name: str, body: Json) -> list[Json]:
    requests = [to_query(search) for search in body["searches"]]
    answers = collections.shard(name).query_batch(qe.QueryBatchRequest(requests))
    return [{"points": [scored(point) for point in points]} for points in answers]


def retrieve(collections: Collections, name: str, body: Json) -> list[Json]:
    ids = [point_id(one) for one in body["ids"]]
    records = collections.shard(name).retrieve(
        ids, with_payload=body.get("with_payload", True), with_vector=body.get("with_vector", False)
    )
    return [record(one) for one in records]


def record(one: qe.Record) -> Json:
    return {"id": str(one.id), "payload": one.payload, "vector": shown(one.vector)}


def scroll(collections: Collections, name: str, body: Json) -> Json:
    condition, offset = body.get("filter"), body.get("offset")
    request = qe.ScrollRequest(
        offset=None if offset is None else point_id(offset),
        limit=body.get("limit", 10),
        filter=to_filter(condition) if condition else None,
        with_payload=body.get("with_payload", True),
        with_vector=body.get("with_vector", False),
    )
    records, following = collections.shard(name).scroll(request)
    offset = None if following is None else str(following)
    return {"points": [record(one) for one in records], "next_page_offset": offset}


def shown(vectors: Any) -> Any:
    if not isinstance(vectors, dict):
        return vectors
    return {
        name: {"indices": list(one.indices), "values": list(one.values)}
        if isinstance(one, qe.SparseVector)
        else list(one)
        for name, one in vectors.items()
    }


def scored(point: qe.ScoredPoint) -> Json:
    return {
        "id": str(point.id), "version": point.version, "score": point.score,
        "payload": point.payload,
    }  # fmt: skip


def done() -> Json:
    return {"operation_id": 0, "status": "completed"}


# --- from JSON to the engine ---------------------------------------------------------------------


def dense_params(value: Json) -> qe.EdgeVectorParams:
    distances = {"Cosine": qe.Distance.Cosine, "Dot": qe.Distance.Dot}
    return qe.EdgeVectorParams(size=value["size"], distance=distances[value["distance"]])


def sparse_params(value: Json) -> qe.EdgeSparseVectorParams:
    idf = {"idf": qe.Modifier.Idf, "none": None, None: None}[value.get("modifier")]
    return qe.EdgeSparseVectorParams(modifier=idf)


def point_id(value: Any) -> qe.PointId:
    return value if isinstance(value, int) else str(UUID(value))


def named_vectors(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: vector(one) for name, one in value.items()}


def vector(value: Any) -> Any:
    match value:
        case {"indices": indices, "values": values}:
            return qe.SparseVector(indices, values)
        case list():
            return value
        case {"nearest": inner}:
            return vector(inner)
        case _:
            raise Refused(400, f"Unknown vector {type(value).__name__}")


def to_query(search: Json) -> qe.QueryRequest:
    known = {"query", "using", "filter", "params", "limit", "with_payload", "with_vector"}
    if unknown := {key for key, value in search.items() if value is not None} - known:
        raise Refused(400, f"Unknown fields of a query: {sorted(unknown)}")
    condition = search.get("filter")
    return qe.QueryRequest(
        limit=search.get("limit", 10),
        query=qe.Query.Nearest(vector(search["query"]), using=search["using"]),
        filter=to_filter(condition) if condition else None,
        params=search_params(search.get("params") or {}),
        with_payload=search.get("with_payload"),
    )


def search_params(value: Json) -> qe.SearchParams:
    match {key: one for key, one in value.items() if one is not None}:
        case {"idf": {"corpus": dict(corpus)}, **rest} if not rest:
            return qe.SearchParams(idf=qe.IdfParams(corpus=to_filter(corpus)))
        case {"exact": bool(exact), **rest} if not rest:
            return qe.SearchParams(exact=exact)
        case empty if not empty:
            return qe.SearchParams()
        case other:
            raise Refused(400, f"Unknown search parameters {sorted(other)}")


def to_filter(value: Json) -> qe.Filter:
    must, should, must_not = (
        [condition(one) for one in value.get(clause) or ()]
        for clause in ("must", "should", "must_not")
    )
    return qe.Filter(must=must or None, should=should or None, must_not=must_not or None)


def condition(value: Json) -> Any:
    match {key: one for key, one in value.items() if one is not None}:
        case {"key": str(key), "match": {"value": wanted}}:
            return qe.FieldCondition(key, match=qe.MatchValue(wanted))
        case {"key": str(key), "match": {"any": list(among)}}:
            return qe.FieldCondition(key, match=qe.MatchAny(among))
        case {"has_id": list(ids)}:
            return qe.HasIdCondition({point_id(one) for one in ids})
        case {"must": _} | {"should": _} | {"must_not": _}:
            return to_filter(value)
        case other:
            raise Refused(400, f"Unknown condition {other}")


# --- the server ----------------------------------------------------------------------------------


class KeyRequired:
    """`/` and the probe are open, as on the real server."""

    OPEN = ("/", "/readyz")

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app = app
        self.key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self.OPEN and self.key:
            headers = dict(scope["headers"])
            if headers.get(b"api-key", b"").decode() != self.key:
                response = JSONResponse({"status": {"error": "Invalid API key"}}, 401)
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)


def make_app(folder: Path, api_key: str, own_version: str) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        app.state.version = own_version
        app.state.collections = Collections(folder)
        yield
        app.state.collections.close()

    one = "/collections/{name}"
    routes = [
        Route("/", root),
        Route("/readyz", ready),
        Route("/aliases", endpoint(list_aliases)),
        Route("/collections", endpoint(list_collections)),
        Route("/collections/aliases", endpoint(change_aliases), methods=["POST"]),
        Route(one, endpoint(create), methods=["PUT"]),
        Route(one, endpoint(delete), methods=["DELETE"]),
        Route(f"{one}/exists", endpoint(exists)),
        Route(f"{one}/index", endpoint(create_index), methods=["PUT"]),
        Route(f"{one}/points", endpoint(upsert), methods=["PUT"]),
        Route(f"{one}/points", endpoint(retrieve), methods=["POST"]),
        Route(f"{one}/points/delete", endpoint(delete_points), methods=["POST"]),
        Route(f"{one}/points/scroll", endpoint(scroll), methods=["POST"]),
        Route(f"{one}/points/count", endpoint(count), methods=["POST"]),
        Route(f"{one}/points/query", endpoint(query), methods=["POST"]),
        Route(f"{one}/points/query/batch", endpoint(query_batch), methods=["POST"]),
    ]
    return Starlette(
        routes=routes, lifespan=lifespan, middleware=[Middleware(KeyRequired, key=api_key)]
    )


@dataclass(frozen=True)
class StandIn:
    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def running(
    folder: Path, *, port: int = 0, api_key: str = "", own_version: str = ""
) -> Iterator[StandIn]:
    """A server in a process of its own, killed at the end."""
    port = port or _free_port()
    command = [
        sys.executable, "-m", "tests.qdrant_standin", "--port", str(port), "--dir", str(folder),
        "--version", own_version or version("qdrant-client"),
    ]  # fmt: skip
    if setpriv := shutil.which("setpriv"):  # ends it too when the tests are killed
        command = [setpriv, "--pdeathsig", "KILL", *command]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "QDRANT_API_KEY": api_key},
        start_new_session=True,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, url)
        yield StandIn(url, process)
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError) as error:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the Qdrant stand-in did not come up") from error
        time.sleep(0.05)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--version", default=version("qdrant-client"), help="as which it answers")
    options = parser.parse_args()
    app = make_app(options.dir, os.environ.get("QDRANT_API_KEY", ""), options.version)
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
