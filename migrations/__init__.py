"""Numbered schema files, each applied once and recorded with its checksum.

Any number of processes may start at the same moment: one applies, the others wait and find it done.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.errors import Misconfigured, Unavailable
from app.settings import local_path

LOCK_SECONDS = 60.0  # how long to wait for another process that migrates
SQLITE_FILES = Path(__file__).parent / "sqlite"
NEO4J_SCHEMES = ("neo4j", "bolt")


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


async def migrate(url: str, *, user: str = "", password: str = "", database: str = "") -> list[str]:
    """Bring the graph store up to date; returns the names of the files applied now, in order.
    `database` names one of a Neo4j server; without it, its default is meant.

    Raises `Misconfigured` for a scheme without migrations, for a file that changed after it was
    applied and for a store that is newer than this version; `Unavailable` if it cannot be reached.
    """
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return await asyncio.to_thread(migrate_sqlite, local_path(url))
    if scheme.partition("+")[0] in NEO4J_SCHEMES:
        from migrations import neo4j  # noqa: PLC0415  (the driver takes most of a second to import)

        return await neo4j.migrate(url, user, password, database)
    raise Misconfigured(f"No graph store is known for the URL scheme '{scheme}'.")


def files(folder: Path, suffix: str) -> list[Migration]:
    """The folder's migrations in order; their numbers count from 1 without a gap."""
    found = []
    for path in sorted(folder.glob(f"*{suffix}")):
        match = re.match(r"(\d{4})_\w+$", path.stem)
        if match is None:
            raise Misconfigured(f"A migration must be named 0001_what{suffix}, not {path.name}.")
        found.append(Migration(int(match[1]), path.name, path.read_text(encoding="utf-8")))
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise Misconfigured(f"Numbers of the migrations in {folder.name} are not 1, 2, 3…")
    return found


def pending(known: list[Migration], applied: dict[int, str]) -> list[Migration]:
    """What is left to apply. `applied` maps numbers to checksums."""
    newest = max(applied, default=0)
    if newest > len(known):
        raise Misconfigured(
            f"The store's schema is at {newest}, this version knows {len(known)}: "
            "it was written by a newer version."
        )
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise Misconfigured(f"Migration {migration.name} changed after it was applied.")
    return [migration for migration in known if migration.number not in applied]


def migrate_sqlite(path: Path, folder: Path = SQLITE_FILES) -> list[str]:
    known = files(folder, ".sql")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as database:
            database.execute("pragma journal_mode = wal")
            database.execute("begin exclusive")
            try:
                applied = _apply(database, known)
            except BaseException:
                database.execute("rollback")
                raise
            database.execute("commit")
            return applied
    except (sqlite3.DatabaseError, OSError) as error:
        raise Unavailable(f"The database {path.name} cannot be opened: {error}.") from error


def _apply(database: sqlite3.Connection, known: list[Migration]) -> list[str]:
    database.execute(
        "create table if not exists migrations (number integer primary key, name text not null,"
        " checksum text not null, applied_at real not null)"
    )
    applied = dict(database.execute("select number, checksum from migrations").fetchall())
    todo = pending(known, applied)
    for migration in todo:
        for statement in _statements(migration.text):
            database.execute(statement)
        database.execute(
            "insert into migrations (number, name, checksum, applied_at) values (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, time.time()),
        )
    return [migration.name for migration in todo]


def _statements(text: str) -> Iterator[str]:
    """`executescript` would commit the transaction that keeps other starters out."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if re.sub(r"--[^\n]*", "", statement).strip():
        yield statement
