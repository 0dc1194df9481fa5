"""What cases stand on for a whole run: the scripted model and, when needed, the stores' servers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import neo4j
import redis

from tests import qdrant_standin, servers
from tests.cases.wire import Counts, Proxies, Proxy, proxies
from tests.system.stack import model_server

# Exchanges with which a connection begins: Bolt's handshake, HELLO and LOGON.
GREETINGS = {"graph": 3}
# Stores as case files may call them.
STORES = {
    "graph": "graph", "neo4j": "graph", "vector": "vector", "vectors": "vector", "qdrant": "vector",
    "redis": "redis", "queue": "redis", "valkey": "redis", "cache": "redis",
    "model": "model", "llm": "model", "embedding": "model", "embed": "model", "rerank": "model",
}  # fmt: skip
API, WORKER = "api", "worker"  # each has connections of its own, counted apart


class Grounds:
    """The model is always there; `servers()` starts Neo4j, Redis and the Qdrant stand-in once."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folder = folder
        self._stack = stack
        self._proxies: Proxies = stack.enter_context(proxies())
        (folder / "model").mkdir(parents=True)
        self.model: httpx.Client = stack.enter_context(model_server(folder / "model"))
        self.wires: dict[str, Proxy] = {}
        self._add("model", _port(str(self.model.base_url)))
        self._neo4j: servers.Server | None = None
        self._redis = stack.enter_context(ExitStack())
        self._qdrant = stack.enter_context(ExitStack())
        self._redis_url = ""

    @property
    def fake(self) -> str:
        """Root URL of the model as the service sees it."""
        return f"http://127.0.0.1:{self.wires['model'].port}"

    def close_wires(self) -> None:
        """No faults and new counts, for the next case."""
        for wire in self.wires.values():
            wire.fault, wire.counts = None, Counts()

    def of_store(self, name: str) -> list[Proxy]:
        store = STORES[name]
        return [w for key, w in self.wires.items() if key.partition("-")[0] == store]

    # --- servers of stores

    def servers(self) -> None:
        """Start what is not running. Raises `servers.Missing`."""
        if self._neo4j is None:
            self._neo4j = self._stack.enter_context(servers.neo4j_server())
            self._add_both("graph", _port(self._neo4j.url))
        if not self._redis_url:
            self.redis_start()

    def redis_start(self) -> None:
        server = self._redis.enter_context(servers.redis_server())
        self._redis_url = server.url
        self._add_both("redis", _port(server.url))

    def redis_stop(self) -> None:
        self._redis.close()
        self._redis_url = ""

    @property
    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self._redis_url)

    @property
    def redis_up(self) -> bool:
        return bool(self._redis_url)

    def driver(self) -> neo4j.Driver:
        assert self._neo4j is not None
        auth = (self._neo4j.user, self._neo4j.password)
        return neo4j.GraphDatabase.driver(self._neo4j.url, auth=auth)

    def empty(self, folder: Path) -> None:
        """Servers as new, with the vectors in `folder`. The schema of Neo4j stays."""
        self.servers()
        assert self._neo4j is not None
        servers.empty_neo4j(self._neo4j)
        servers.empty_redis(self._redis_url)
        self._qdrant.close()
        qdrant = self._qdrant.enter_context(qdrant_standin.running(folder))
        self._add_both("vector", _port(qdrant.url))

    def settings(self, part: str) -> dict[str, str]:
        """Of the servers, for a process of the API or for a worker."""
        assert self._neo4j is not None
        port = {store: self.wires[f"{store}-{part}"].port for store in ("graph", "vector", "redis")}
        return {
            "HELIOGRAPH_GRAPH_URL": f"bolt://127.0.0.1:{port['graph']}",
            "HELIOGRAPH_GRAPH_USER": self._neo4j.user,
            "HELIOGRAPH_GRAPH_PASSWORD": self._neo4j.password,
            "HELIOGRAPH_VECTOR_URL": f"http://127.0.0.1:{port['vector']}",
            "HELIOGRAPH_QUEUE_URL": f"redis://127.0.0.1:{port['redis']}/0",
        }

    def _add_both(self, store: str, target: int) -> None:
        for part in (API, WORKER):
            self._add(f"{store}-{part}", target)

    def _add(self, name: str, target: int) -> None:
        """A server that was started again has another port; its proxy keeps its own."""
        if name in self.wires:
            self.wires[name].target = target
            self.wires[name].cut()
        else:
            greetings = GREETINGS.get(name.partition("-")[0], 0)
            self.wires[name] = self._proxies.add(name, target, greetings)

    # --- the model

    def tell(self, script: dict[str, Any]) -> None:
        self.model.post("/reset").raise_for_status()
        self.model.post("/script", json=script).raise_for_status()

    def asked(self) -> dict[str, Any]:
        """`kinds` with their counts, `requests` with kind, body, `at` (time) and `status`."""
        reply = self.model.get("/stats")
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()
        return found


@contextmanager
def grounds(folder: Path) -> Iterator[Grounds]:
    with ExitStack() as stack:
        made = Grounds(stack, folder)
        try:
            yield made
        finally:
            with contextlib.suppress(Exception):
                made.close_wires()


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port
