"""The Neo4j driver behind one class: transactions with retries, time-outs, translated errors."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString, TypeVar

from neo4j import (
    AsyncDriver,
    AsyncGraphDatabase,
    AsyncManagedTransaction,
    AsyncResult,
    NotificationMinimumSeverity,
    Query,
    RoutingControl,
    unit_of_work,
)
from neo4j.exceptions import (
    AuthError,
    ClientError,
    ConfigurationError,
    DriverError,
    Neo4jError,
)

from app.errors import Misconfigured, Unavailable
from app.stores.refusals import check_schema, lone_surrogate

log = logging.getLogger("heliograph.neo4j")

SCHEMA_VERSION = 6  # number of the newest file in migrations/neo4j
TIMEOUT = 60.0  # seconds that a transaction may take on the server
# ... and without a word to us. A network may swallow an answer, or forget a connection: nothing is
# heard then for as long as the driver waits, which is minutes.
ANSWER_SECONDS = 45.0
RETRY_SECONDS = 30.0  # how long the driver repeats a transaction after transient errors
VANISHED = "Neo.ClientError.Statement.EntityNotFound"
TRIES = 8  # of a transaction that met with another one
# The server ended the transaction: it stops, or the transaction waited for too long.
ENDED = {
    f"Neo.ClientError.Transaction.{how}"
    for how in (
        "LockClientStopped", "Terminated", "TransactionNotFound", "TransactionTimedOut",
        "TransactionTimedOutClientConfiguration",
    )
}  # fmt: skip
NO_DATABASE = "Neo.ClientError.Database.DatabaseNotFound"

T = TypeVar("T")
Row = dict[str, Any]  # what the driver returns is untyped; `rows` turns it into domain types


class Again(Exception):
    """What a transaction has read was changed before it held its locks: it is to run anew."""


class Transaction:
    """An open read-write transaction."""

    def __init__(self, inner: AsyncManagedTransaction, attempt: int) -> None:
        self._inner = inner
        self.attempt = attempt  # 1 for the first

    async def run(self, query: LiteralString, **parameters: object) -> list[Row]:
        result = await self._inner.run(query, parameters)
        return await result.data()

    async def lock(self, query: LiteralString, **parameters: object) -> list[Row]:
        """For statements that write to nodes which others may delete, and return `there`, whether
        each still has the property that it was found by. The server lets a transaction that waited
        for the lock of a node write to it in vain when it is gone by then: raises `Again`."""
        rows = await self.run(query, **parameters)
        if not all(row["there"] for row in rows):
            raise Again
        return rows


class Database:
    """A connection pool to one database. All processes may write at the same time."""

    def __init__(self, driver: AsyncDriver, name: str = "") -> None:
        """Without a name: the server's default database."""
        self._driver = driver
        self._name = name or None

    async def read(self, query: LiteralString, **parameters: object) -> list[Row]:
        return await self._execute(query, parameters, RoutingControl.READ)

    async def write(self, query: LiteralString, **parameters: object) -> list[Row]:
        """One statement as a transaction of its own (two round trips)."""
        return await self._execute(query, parameters, RoutingControl.WRITE)

    async def transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """`work` may run several times: it must not change anything but the database. It raises
        `Again` to be undone and run anew."""

        @unit_of_work(timeout=TIMEOUT)
        async def run(inner: AsyncManagedTransaction) -> T:
            return await work(Transaction(inner, attempt))

        with _translated():
            for attempt in range(1, TRIES + 1):
                try:
                    async with (
                        asyncio.timeout(ANSWER_SECONDS),
                        self._driver.session(database=self._name) as session,
                    ):
                        return await session.execute_write(run)
                except Again as met:
                    await _again(attempt, met)
                except ClientError as error:
                    await _again_if_vanished(error, attempt)
        raise AssertionError("the last try returns or raises")

    async def ping(self) -> str:
        """The server's version; raises `Unavailable`."""
        with _translated():
            info = await self._driver.get_server_info()
        return info.agent.removeprefix("Neo4j/")

    async def _execute(
        self, query: LiteralString, parameters: dict[str, object], routing: RoutingControl
    ) -> list[Row]:
        with _translated():
            for attempt in range(1, TRIES + 1):
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        return await self._driver.execute_query(
                            Query(query, timeout=TIMEOUT), parameters,
                            routing_=routing, database_=self._name, result_transformer_=_data,
                        )  # fmt: skip
                except ClientError as error:
                    await _again_if_vanished(error, attempt)
        raise AssertionError("the last try returns or raises")


@asynccontextmanager
async def open_database(
    url: str, user: str, password: str, name: str = ""
) -> AsyncIterator[Database]:
    """Connects and checks the schema: `Misconfigured` if it is not this version's, or if there is
    no database of this name. Without a name: the server's default database."""
    async with connect(url, user, password) as driver:
        database = Database(driver, name)
        [row] = await database.read("MATCH (m:Migration) RETURN max(m.number) AS version")
        check_schema(row["version"] or 0, SCHEMA_VERSION)
        yield database


@asynccontextmanager
async def connect(url: str, user: str, password: str) -> AsyncIterator[AsyncDriver]:
    with _translated():
        driver = AsyncGraphDatabase.driver(
            url, auth=(user, password),
            connection_timeout=10.0,
            connection_acquisition_timeout=30.0,
            max_transaction_retry_time=RETRY_SECONDS,
            initial_retry_delay=0.05,  # after a deadlock the other one is done in no time
            retry_delay_multiplier=1.1,  # 3 s at most: a lease is renewed soon after an outage
            retry_delay_jitter_factor=0.5,
            # performance hints and the like are for developers, not for the log of a service
            notifications_min_severity=NotificationMinimumSeverity.OFF,
            telemetry_disabled=True,
            user_agent="heliograph",
        )  # fmt: skip
    async with driver:
        with _translated():
            await driver.verify_connectivity()
        yield driver


async def _data(result: AsyncResult) -> list[Row]:
    return await result.data()


async def _again_if_vanished(error: ClientError, attempt: int) -> None:
    """A node found by a statement may be deleted before the statement gets its lock. The server
    calls that the client's error; run again, it is just not found."""
    if error.code != VANISHED:
        raise error
    await _again(attempt, error)


async def _again(attempt: int, met: Exception) -> None:
    """Waits for a random while, longer from time to time. That many want the same is no fault of
    what is to be written: it must not fail a document."""
    if attempt == TRIES:
        raise Unavailable(
            "Neo4j is busy: others kept changing the same records.", blameless=True
        ) from met
    log.info("transaction.again attempt=%d", attempt)
    await asyncio.sleep(random.uniform(0.5, 1.5) * 0.01 * 2**attempt)


@contextmanager
def _translated() -> Iterator[None]:
    """The border: nothing of the driver's gets past it."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise lone_surrogate() from error
    except (AuthError, ConfigurationError) as error:
        raise Misconfigured(f"Neo4j refuses the connection: {_brief(error)}") from error
    except (DriverError, Neo4jError, OSError) as error:
        if getattr(error, "code", None) == NO_DATABASE:
            raise Misconfigured("Neo4j has no database of the configured name.") from error
        if isinstance(error, ClientError) and error.code not in ENDED:
            raise  # a statement of ours is wrong: a bug, not an outage
        raise Unavailable(f"Neo4j is not available: {_brief(error)}", blameless=True) from error


def _brief(error: Exception) -> str:
    code = getattr(error, "code", None)
    return str(code or type(error).__name__)
