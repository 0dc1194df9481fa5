"""One SQLite file for all workspaces: a writer in a thread of its own, a few readers beside it.

Several processes may open the same file: writes take turns, reads never wait (WAL).
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from app.errors import Misconfigured, Unavailable
from app.stores.refusals import check_schema, lone_surrogate
from app.stores.sqlite.threads import Order, Threads

SCHEMA = 6  # the newest file in migrations/sqlite
READERS = 4
TOGETHER = 32  # at most: writes of one transaction, reads that are told at once
BUSY_SECONDS = 20.0  # how long a writer waits for another process
_PRAGMAS = (
    "foreign_keys = on",
    "mmap_size = 268435456",
    "cache_size = -32768",
    "temp_store = memory",
    "synchronous = normal",
    "secure_delete = on",  # what was deleted is not to be read from the file
)

Result = TypeVar("Result")
Parameters = Mapping[str, object]
Clock = Callable[[], float]


class SqliteDatabase:
    """Runs functions over a connection, each as one transaction, off the event loop."""

    def __init__(self, path: Path, *, clock: Clock = time.time) -> None:
        self.clock = clock
        self._path = path
        self._writer = Threads(1, "sqlite-writer", TOGETHER, self._write_all)
        self._readers = Threads(READERS, "sqlite-reader", TOGETHER, self._read_all)
        self._connections: list[sqlite3.Connection] = []
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._write_connection: sqlite3.Connection | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, clock: Clock = time.time) -> AsyncIterator[SqliteDatabase]:
        """Raises `Misconfigured` unless the file has exactly the schema of this version."""
        database = cls(path, clock=clock)
        try:
            await asyncio.to_thread(database._connect)
            yield database
        finally:
            await asyncio.shield(asyncio.to_thread(database._close))

    async def write(
        self, work: Callable[[sqlite3.Connection], Result], *, durable: bool = False
    ) -> Result:
        """`work` in a transaction that holds the write lock from its start. Once begun it ends as
        a whole, even if the caller is cancelled.

        A power cut may take back the last transactions, in order, but none up to a `durable` one:
        that is for what was promised to a caller, was paid for, or is followed by a deletion
        elsewhere. It waits for the disk (about 3 ms, where others take a tenth of that).

        What waits for its turn meanwhile is committed with it, each work in a savepoint of its own:
        what one of them raises undoes that one alone."""
        return await self._writer.ask(work, durable=durable)

    async def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """`work` on one snapshot."""
        return await self._readers.ask(work)

    async def rows(self, sql: str, parameters: Parameters) -> list[sqlite3.Row]:
        return await self.read(lambda connection: connection.execute(sql, parameters).fetchall())

    async def ping(self) -> str:
        [row] = await self.rows("select sqlite_version() from migrations limit 1", {})
        return f"SQLite {row[0]}"

    # --- in the threads --------------------------------------------------------------------------

    def _connect(self) -> None:
        with _translated():
            if not self._path.exists():
                raise Misconfigured(
                    "The graph database does not exist: run `python -m migrations`."
                )
            self._write_connection = self._new_connection("")
            check_schema(_schema(self._write_connection), SCHEMA)
            for _ in range(READERS):
                self._idle.put(self._new_connection("query_only = on"))

    def _new_connection(self, pragma: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connections.append(connection)
        connection.row_factory = sqlite3.Row
        for line in (*_PRAGMAS, pragma):
            if line:
                connection.execute(f"pragma {line}")
        return connection

    def _write_all(self, orders: Sequence[Order]) -> None:
        try:
            with _translated():
                self._write(orders)
        except BaseException as error:  # of the transaction, so of all in it
            for order in orders:
                order.error = order.error or error

    def _write(self, orders: Sequence[Order]) -> None:
        connection = self._write_connection
        assert connection is not None, "the database is open"
        durable = any(order.durable for order in orders)
        connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
        connection.execute("begin immediate")
        try:
            for order in orders:
                _in_savepoint(connection, order)
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise

    def _read_all(self, orders: Sequence[Order]) -> None:
        for order in orders:
            try:
                order.result = self._read(order.work)
            except BaseException as error:
                order.error = error

    def _read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        connection = self._idle.get()
        try:
            with _translated():
                connection.execute("begin")
                try:
                    return work(connection)
                finally:
                    if connection.in_transaction:
                        connection.execute("rollback")
        finally:
            self._idle.put(connection)

    def _close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        for connection in self._connections:
            connection.close()


def _in_savepoint(connection: sqlite3.Connection, order: Order) -> None:
    """Raises where the error ended the whole transaction (a full disk does)."""
    connection.execute("savepoint work")
    try:
        with _translated():
            order.result = order.work(connection)
    except BaseException as error:
        if not connection.in_transaction:
            raise
        connection.execute("rollback to work")
        order.error = error
    connection.execute("release work")


def _schema(connection: sqlite3.Connection) -> int:
    try:
        [found] = connection.execute("select max(number) from migrations").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        found = None
    return found or 0


_REASONS = {
    sqlite3.SQLITE_FULL: ("The disk of the graph database is full.", "disk_full"),
    sqlite3.SQLITE_BUSY: ("The graph database is locked by another process.", "database_busy"),
    sqlite3.SQLITE_LOCKED: ("The graph database is locked.", "database_busy"),
    sqlite3.SQLITE_CORRUPT: (
        "The graph database file is damaged: restore it from a backup.", "database_corrupt",
    ),
    sqlite3.SQLITE_NOTADB: (
        "The graph database file is no SQLite database: restore it from a backup.",
        "database_corrupt",
    ),
    sqlite3.SQLITE_CANTOPEN: ("The graph database file cannot be opened.", "unavailable"),
    sqlite3.SQLITE_READONLY: ("The graph database file cannot be written to.", "unavailable"),
    sqlite3.SQLITE_PERM: ("The graph database file may not be accessed.", "unavailable"),
    sqlite3.SQLITE_IOERR: ("The disk of the graph database has errors.", "unavailable"),
    sqlite3.SQLITE_NOMEM: ("The graph database is out of memory.", "unavailable"),
}  # fmt: skip


@contextmanager
def _translated() -> Iterator[None]:
    """Foreign errors end here; a mistake in our SQL stays what it is, a bug."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise lone_surrogate() from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        reason = None if code is None else _REASONS.get(code & 0xFF)
        if reason is None:
            raise
        raise Unavailable(reason[0], code=reason[1], blameless=True) from error
