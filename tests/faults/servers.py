"""Real servers that break: each can be ended and started again, and has a proxy in front of it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import LiteralString

import httpx
from neo4j import GraphDatabase, Record
from neo4j.exceptions import DriverError, Neo4jError

from tests.faults.proxy import Mode, Proxy, proxy
from tests.faults.stacks import Stack
from tests.servers import (
    Daemon,
    Server,
    empty_neo4j,
    empty_redis,
    free_port,
    neo4j_server,
    redis_server,
)
from tests.system.stack import ROOT, clean_environment

WORKERS = 2


class Servers:
    """Neo4j, Redis and a Qdrant server with a proxy in front of each, for one schedule after the
    other."""

    def __init__(self, folder: Path, neo4j: Server, redis_server: Server, qdrant: Daemon) -> None:
        self.folder, self.neo4j, self.redis, self.qdrant = folder, neo4j, redis_server, qdrant
        self.proxies: dict[str, Proxy] = {}
        self.settings: dict[str, str] = {}
        self.qdrant_url = ""

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Servers]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="heliograph-q-")))
            port = free_port()
            servers = cls(
                folder,
                stack.enter_context(neo4j_server()),
                stack.enter_context(redis_server()),
                stack.enter_context(qdrant_daemon(folder, port)),
            )
            urls = {
                "neo4j": servers.neo4j.url,
                "redis": servers.redis.url,
                "qdrant": f"http://127.0.0.1:{port}",
            }
            for name, url in urls.items():
                servers.proxies[name], urls[name] = stack.enter_context(proxy(url))
            servers.qdrant_url = f"http://127.0.0.1:{port}"
            servers.settings = {
                "HELIOGRAPH_GRAPH_URL": urls["neo4j"], "HELIOGRAPH_GRAPH_USER": servers.neo4j.user,
                "HELIOGRAPH_GRAPH_PASSWORD": servers.neo4j.password,
                "HELIOGRAPH_VECTOR_URL": urls["qdrant"], "HELIOGRAPH_QUEUE_URL": urls["redis"],
            }  # fmt: skip
            servers.migrate()
            yield servers

    def cypher(self, query: LiteralString, **parameters: object) -> list[Record]:
        """Not through the proxy. A connection of its own: the server may have been away."""
        with GraphDatabase.driver(
            self.neo4j.url, auth=(self.neo4j.user, self.neo4j.password), connection_timeout=5,
            max_transaction_retry_time=20, notifications_min_severity="OFF",
        ) as driver:  # fmt: skip
            return driver.execute_query(query, parameters).records

    def migrate(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "migrations"], cwd=ROOT, check=True,
            env={**clean_environment(), **self.settings},
        )  # fmt: skip

    def wipe(self) -> None:
        """As after the first start, whatever the last schedule left."""
        for name, one in self.proxies.items():
            one.set(Mode.PASS)
            if not self.daemon(name).running:
                self.daemon(name).start()
        empty_neo4j(self.neo4j)
        self.empty_redis()
        found = httpx.get(f"{self.qdrant_url}/collections").json()["result"]["collections"]
        for one in found:
            httpx.delete(f"{self.qdrant_url}/collections/{one['name']}").raise_for_status()

    def empty_redis(self) -> None:
        empty_redis(self.redis.url)

    def stored(self, text: str) -> bool:
        with suppress(Neo4jError, DriverError):
            found = self.cypher(
                "MATCH (c:Chunk) WHERE c.text = $text AND c.extraction IS NOT NULL AND NOT c.failed"
                " RETURN 1 LIMIT 1",
                text=text,
            )
            return bool(found)
        return False

    def daemon(self, name: str) -> Daemon:
        if name == "qdrant":
            return self.qdrant
        daemon = (self.neo4j if name == "neo4j" else self.redis).daemon
        assert daemon is not None, "a server of our own"
        return daemon


def qdrant_daemon(folder: Path, port: int) -> Daemon:
    def ready() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}", timeout=5).status_code == 200
        return False

    command = [
        sys.executable, "-m", "tests.qdrant_standin", "--port", str(port),
        "--dir", str(folder / "data"),
    ]  # fmt: skip
    env = {**clean_environment(), "PYTHONPATH": str(ROOT)}
    return Daemon(command, folder / "server.log", ready, 60.0, env=env)


class Distributed(Stack):
    """API and workers as processes of their own, on servers that may break too."""

    def __init__(self, folder: Path, settings: Mapping[str, str], servers: Servers) -> None:
        super().__init__(folder, {**servers.settings, **settings})
        self.servers = servers

    def prepare(self) -> None:
        names = {one.name for one in self.members}
        for name in ("api", *(f"worker-{n}" for n in range(WORKERS))):
            if name not in names:
                self.add(name, name.partition("-")[0], {})
        self.servers.wipe()

    def tail(self, lines: int = 25) -> str:
        logs = [f"--- {name}\n{self.servers.daemon(name).told()}" for name in ("qdrant", "neo4j")]
        return "\n".join((super().tail(lines), *logs))
