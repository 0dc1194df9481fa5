"""API keys in Neo4j, known by the hash of their secret only."""

from __future__ import annotations

from neo4j.exceptions import ConstraintError

from app.domain import ApiKey
from app.stores.neo4j.database import Database
from app.stores.neo4j.rows import api_key_of
from app.stores.refusals import same_secret


class Neo4jKeyring:
    """Implements `app.ports.Keyring`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, digest: str) -> ApiKey | None:
        rows = await self._database.read(
            "MATCH (k:ApiKey {digest: $digest}) RETURN properties(k) AS k", digest=digest
        )
        return api_key_of(rows[0]["k"]) if rows else None

    async def add(self, key: ApiKey) -> None:
        try:
            await self._database.write(
                """
                MERGE (k:ApiKey {id: $id})
                ON CREATE SET k.created_at = $created
                SET k.name = $label, k.digest = $digest, k.scope = $scope,
                    k.workspaces = $workspaces
                """,
                id=key.id, digest=key.digest, scope=key.scope, label=key.label,
                workspaces=list(key.workspaces), created=key.created_at,
            )  # fmt: skip
        except ConstraintError as error:
            raise same_secret() from error

    async def all(self) -> list[ApiKey]:
        rows = await self._database.read(
            "MATCH (k:ApiKey) RETURN properties(k) AS k ORDER BY k.created_at, k.id"
        )
        return [api_key_of(row["k"]) for row in rows]

    async def revoke(self, key_id: str) -> bool:
        rows = await self._database.write(
            "MATCH (k:ApiKey {id: $id}) DETACH DELETE k RETURN $id AS id", id=key_id
        )
        return bool(rows)

    async def workspaces(self) -> list[str]:
        rows = await self._database.read(
            """
            MATCH (t:Total) WITH DISTINCT t.workspace AS name
            WHERE EXISTS { MATCH (d:Document) WHERE d.workspace = name AND d.id IS NOT NULL }
            RETURN name ORDER BY name
            """
        )
        return [row["name"] for row in rows]
