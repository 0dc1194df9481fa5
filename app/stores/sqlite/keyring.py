"""API keys, known by the hash of their secret only."""

from __future__ import annotations

import json
from sqlite3 import Connection, IntegrityError, Row

from app.domain import ApiKey, Scope
from app.stores.records import dump
from app.stores.refusals import same_secret
from app.stores.sqlite.database import SqliteDatabase

_COLUMNS = "id, digest, scope, workspaces, label, created_at"


class SqliteKeyring:
    """Implements `app.ports.Keyring`."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def find(self, digest: str) -> ApiKey | None:
        rows = await self._database.rows(
            f"select {_COLUMNS} from keys where digest = :digest", {"digest": digest}
        )
        return _key_of(rows[0]) if rows else None

    async def add(self, key: ApiKey) -> None:
        def work(connection: Connection) -> None:
            try:
                connection.execute(
                    f"insert into keys ({_COLUMNS})"
                    " values (:id, :digest, :scope, :workspaces, :label, :created)"
                    " on conflict (id) do update set digest = excluded.digest,"
                    " scope = excluded.scope, workspaces = excluded.workspaces,"
                    " label = excluded.label",
                    {
                        "id": key.id, "digest": key.digest, "scope": key.scope,
                        "workspaces": dump(key.workspaces), "label": key.label,
                        "created": key.created_at,
                    },
                )  # fmt: skip
            except IntegrityError as error:
                raise same_secret() from error

        await self._database.write(work, durable=True)

    async def all(self) -> list[ApiKey]:
        rows = await self._database.rows(f"select {_COLUMNS} from keys order by created_at, id", {})
        return [_key_of(row) for row in rows]

    async def revoke(self, key_id: str) -> bool:
        def work(connection: Connection) -> bool:
            deleted = connection.execute("delete from keys where id = :id", {"id": key_id})
            return deleted.rowcount == 1

        return await self._database.write(work, durable=True)

    async def workspaces(self) -> list[str]:
        # From name to name through the primary key, however many documents lie between.
        rows = await self._database.rows(
            "with recursive names (name) as ("
            " select min(workspace) from documents union all"
            " select (select min(workspace) from documents where workspace > name)"
            " from names where name is not null)"
            " select name from names where name is not null",
            {},
        )
        return [row["name"] for row in rows]


def _key_of(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        digest=row["digest"],
        scope=Scope(row["scope"]),
        workspaces=tuple(json.loads(row["workspaces"])),
        label=row["label"],
        created_at=row["created_at"],
    )
