"""Applies the Cypher files in `migrations/neo4j` and records them as `(:Migration)` nodes.

Schema statements cannot share a transaction with data. So one transaction holds a lock node while
others run the statements; every statement may run twice, in case a process dies in between.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

from neo4j import (
    AsyncDriver,
    AsyncGraphDatabase,
    AsyncTransaction,
    NotificationMinimumSeverity,
)
from neo4j.exceptions import AuthError, ConfigurationError, DriverError, Neo4jError

from app.errors import Misconfigured, Unavailable
from migrations import Migration, files, pending

INDEX_SECONDS = 600  # how long to wait until new indexes are filled
LOCK_TRIES = 5
NO_DATABASE = "Neo.ClientError.Database.DatabaseNotFound"

LOCK_CONSTRAINT = (
    "CREATE CONSTRAINT schema_lock IF NOT EXISTS FOR (n:SchemaLock) REQUIRE n.id IS UNIQUE"
)


async def migrate(url: str, user: str, password: str, database: str = "") -> list[str]:
    """Names of the files applied now, in order. Raises `Misconfigured` or `Unavailable`. Without a
    name of a database: in the server's default one."""
    name = database or None
    known = files(Path(__file__).parent / "neo4j", ".cypher")
    try:
        driver = AsyncGraphDatabase.driver(
            url, auth=(user, password), notifications_min_severity=NotificationMinimumSeverity.OFF
        )
        async with driver:
            await _make_lock(driver, name)
            async with (
                driver.session(database=name) as session,
                await session.begin_transaction() as locked,
            ):
                await locked.run("MERGE (n:SchemaLock {id: 1}) SET n.taken = timestamp()")
                todo = pending(known, await _applied(locked))
                for migration in todo:
                    await _apply(driver, name, locked, migration)
                await locked.commit()
            return [migration.name for migration in todo]
    except (AuthError, ConfigurationError) as error:
        raise Misconfigured(f"Neo4j refuses the connection: {_brief(error)}.") from error
    except (DriverError, Neo4jError, OSError) as error:
        if getattr(error, "code", None) == NO_DATABASE:
            raise Misconfigured("Neo4j has no database of the configured name.") from error
        raise Unavailable(f"Neo4j cannot be migrated: {_brief(error)}.") from error


async def _make_lock(driver: AsyncDriver, name: str | None) -> None:
    """Starters that make the constraint at the same moment may deadlock or see it half made."""
    for attempt in range(1, LOCK_TRIES + 1):
        try:
            await driver.execute_query(LOCK_CONSTRAINT, database_=name)
            return
        except Neo4jError as error:
            final = isinstance(error, AuthError) or error.code == NO_DATABASE
            if final or attempt == LOCK_TRIES:
                raise
            await asyncio.sleep(0.2 * attempt)


async def _applied(locked: AsyncTransaction) -> dict[int, str]:
    result = await locked.run("MATCH (m:Migration) RETURN m.number AS number, m.checksum AS sum")
    return {row["number"]: row["sum"] for row in await result.data()}


async def _apply(
    driver: AsyncDriver, name: str | None, locked: AsyncTransaction, migration: Migration
) -> None:
    for statement in statements(migration.text):
        await driver.execute_query(statement, database_=name)
    await driver.execute_query(
        "CALL db.awaitIndexes($seconds)", seconds=INDEX_SECONDS, database_=name
    )
    await locked.run(
        "MERGE (m:Migration {number: $number})"
        " SET m.name = $name, m.checksum = $checksum, m.applied_at = datetime()",
        number=migration.number, name=migration.name, checksum=migration.checksum,
    )  # fmt: skip


def statements(text: str) -> Iterator[LiteralString]:
    """Paragraphs without their comment lines."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.lstrip().startswith("//")]
        if statement := "\n".join(lines).strip():
            yield statement


def _brief(error: Exception) -> str:
    return str(getattr(error, "message", None) or error or type(error).__name__)
