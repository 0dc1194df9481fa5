"""The register of names in Neo4j: facts, blocks, pairs, rulings, placements."""

from __future__ import annotations

import json
from collections.abc import Sequence

from app.domain import KnownName, Placement, Ruling
from app.folding import document_of
from app.resolution.model import Pair
from app.resolution.settlement import Reviewed, Settlement
from app.stores.counts import name_tally_of
from app.stores.neo4j.database import Database, Row, Transaction
from app.stores.neo4j.moves import Neo4jMoves
from app.stores.neo4j.placements import add_moves, held_names, open_names
from app.stores.neo4j.settling import rank_of, settle
from app.stores.neo4j.ties import together
from app.stores.records import in_order, unique

DECISIONS = ("merge", "ask", "apart")


class Neo4jNames(Neo4jMoves):
    """Implements `app.ports.Names`."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    # --- reading ---------------------------------------------------------------------------------

    async def version(self) -> int:
        rows = await self._database.read(
            "MATCH (s:Settlement {workspace: $workspace}) RETURN s.version AS version",
            workspace=self._workspace,
        )
        return rows[0]["version"] if rows else 0

    async def opened(self, *, limit: int) -> list[KnownName]:
        rows = await self._database.read(
            """
            MATCH (n:Name) USING INDEX SEEK n:Name(workspace, open, key)
            WHERE n.workspace = $workspace AND n.open = true AND n.key IS NOT NULL
            WITH n ORDER BY n.workspace, n.open, n.key LIMIT $limit
            OPTIONAL MATCH (p:Placement {workspace: $workspace, key: n.key, scope: ''})
            RETURN n {.key, .tally, .mentions, .revision, .blocks} AS n, p.entity AS entity
            ORDER BY n.key
            """,
            workspace=self._workspace, limit=limit,
        )  # fmt: skip
        return [_name_of(row) for row in rows]

    async def known(self, keys: Sequence[str]) -> list[KnownName]:
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            MATCH (n:Name {workspace: $workspace, key: key})
            OPTIONAL MATCH (p:Placement {workspace: $workspace, key: key, scope: ''})
            RETURN key, n {.key, .tally, .mentions, .revision, .blocks} AS n, p.entity AS entity
            """,
            workspace=self._workspace, keys=unique(keys),
        )  # fmt: skip
        return [_name_of(row) for row in in_order(rows, keys, by="key")]

    async def members(self, entities: Sequence[str]) -> dict[str, list[str]]:
        rows = await self._database.read(
            """
            UNWIND $entities AS entity
            MATCH (p:Placement) USING INDEX SEEK p:Placement(workspace, whole, key)
            WHERE p.workspace = $workspace AND p.whole = entity AND p.key IS NOT NULL
            WITH entity, p.key AS key ORDER BY entity, key
            RETURN entity, collect(key) AS keys
            """,
            workspace=self._workspace, entities=unique(entities),
        )  # fmt: skip
        return {row["entity"]: row["keys"] for row in rows}

    async def in_blocks(self, blocks: Sequence[str], *, limit: int) -> dict[str, list[str]]:
        rows = await self._database.read(
            """
            UNWIND $blocks AS block
            CALL (block) {
                MATCH (p:Posting) USING INDEX SEEK p:Posting(workspace, block, name)
                WHERE p.workspace = $workspace AND p.block = block AND p.name IS NOT NULL
                WITH p ORDER BY p.workspace, p.block, p.name LIMIT $limit
                RETURN collect(p.name) AS names
            }
            RETURN block, names
            """,
            workspace=self._workspace, blocks=unique(blocks), limit=limit,
        )  # fmt: skip
        return {row["block"]: row["names"] for row in rows}

    async def pairs(self, keys: Sequence[str]) -> list[Reviewed]:
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            CALL (key) {
                MATCH (p:Pair) USING INDEX SEEK p:Pair(workspace, one, other)
                WHERE p.workspace = $workspace AND p.one = key AND p.other IS NOT NULL
                RETURN p
              UNION
                MATCH (p:Pair) USING INDEX SEEK p:Pair(workspace, other, one)
                WHERE p.workspace = $workspace AND p.other = key AND p.one IS NOT NULL
                RETURN p
            }
            WITH DISTINCT p
            RETURN properties(p) AS p ORDER BY p.one, p.other
            """,
            workspace=self._workspace, keys=unique(keys),
        )  # fmt: skip
        return [_reviewed_of(row["p"]) for row in rows]

    async def together(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        return await together(self._database.read, self._workspace, pairs)

    async def rulings(self, keys: Sequence[str]) -> list[Ruling]:
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            CALL (key) {
                MATCH (r:Ruling) USING INDEX SEEK r:Ruling(workspace, one, other, author)
                WHERE r.workspace = $workspace AND r.one = key AND r.other IS NOT NULL
                    AND r.author IS NOT NULL
                RETURN r
              UNION
                MATCH (r:Ruling) USING INDEX SEEK r:Ruling(workspace, other, one)
                WHERE r.workspace = $workspace AND r.other = key AND r.one IS NOT NULL
                RETURN r
            }
            WITH DISTINCT r
            RETURN properties(r) AS r ORDER BY r.author, r.one, r.other
            """,
            workspace=self._workspace, keys=unique(keys),
        )  # fmt: skip
        found = {(row["r"]["one"], row["r"]["other"]): row["r"] for row in rows}  # "user" is last
        return [
            Ruling(r["one"], r["other"], r["same"], r["author"], r["note"], r["at"])
            for r in found.values()
        ]

    async def placed(self, *, after: str = "", limit: int = 100) -> list[Placement]:
        key, _, scope = after.partition("\t")
        rows = await self._database.read(
            """
            MATCH (p:Placement) USING INDEX SEEK p:Placement(workspace, by_hand, key, scope)
            WHERE p.workspace = $workspace AND p.by_hand = true AND p.key >= $key
                AND p.scope IS NOT NULL AND (p.key > $key OR p.scope > $scope)
            WITH p ORDER BY p.workspace, p.by_hand, p.key, p.scope LIMIT $limit
            RETURN p.key AS key, p.scope AS scope, p.entity AS entity, p.shown AS shown
            ORDER BY key, scope
            """,
            workspace=self._workspace, key=key, scope=scope, limit=limit,
        )  # fmt: skip
        return [Placement(row["key"], row["scope"], row["entity"], row["shown"]) for row in rows]

    async def used_by(self, entity: str, *, limit: int) -> list[tuple[str, str]]:
        rows = await self._database.read(
            """
            MATCH ()-[m:MENTIONS]->() USING INDEX SEEK m:MENTIONS(workspace, entity, document)
            WHERE m.workspace = $workspace AND m.entity = $entity AND m.document IS NOT NULL
            UNWIND m.names AS name
            WITH DISTINCT name, m.document AS document
            RETURN name, document ORDER BY name, document LIMIT $limit
            """,
            workspace=self._workspace, entity=entity, limit=limit,
        )  # fmt: skip
        return [(row["name"], row["document"]) for row in rows]

    async def review(self, *, decision: str, after: str = "", limit: int = 50) -> list[Reviewed]:
        score, one, other = after.split("\t") if after else ("1000", "", "")
        rows = await self._database.read(
            """
            UNWIND $decisions AS decision
            CALL (decision) {
                MATCH (p:Pair) USING INDEX SEEK p:Pair(workspace, decision, rank, one, other)
                WHERE p.workspace = $workspace AND p.decision = decision AND p.rank >= $rank
                    AND p.one IS NOT NULL AND p.other IS NOT NULL
                    AND (p.rank > $rank OR p.one > $one OR (p.one = $one AND p.other > $other))
                WITH p ORDER BY p.workspace, p.decision, p.rank, p.one, p.other LIMIT $limit
                RETURN p
            }
            WITH p ORDER BY p.rank, p.one, p.other LIMIT $limit
            RETURN properties(p) AS p ORDER BY p.rank, p.one, p.other
            """,
            workspace=self._workspace, decisions=[decision] if decision else list(DECISIONS),
            rank=rank_of(float(score)), one=one, other=other, limit=limit,
        )  # fmt: skip
        return [_reviewed_of(row["p"]) for row in rows]

    # --- decisions -------------------------------------------------------------------------------

    async def settle(self, settlement: Settlement) -> bool:
        return await self._database.transaction(lambda tx: settle(tx, self._workspace, settlement))

    async def rule(self, rulings: Sequence[Ruling]) -> None:
        keys = {key for one in rulings for key in (one.one, one.other)}

        async def work(tx: Transaction) -> None:
            known = await held_names(tx, self._workspace, keys)
            rows = [
                {**one._asdict(), "name": f"{one.one} {'=' if one.same else '≠'} {one.other}"}
                for one in sorted(rulings)
                if one.by == "user" or {one.one, one.other} <= known
            ]
            await tx.lock(
                """
                UNWIND $rows AS row
                MERGE (r:Ruling {
                    workspace: $workspace, one: row.one, other: row.other, author: row.by})
                SET r.same = row.same, r.note = row.note, r.at = row.at, r.name = row.name
                RETURN r.one IS NOT NULL AS there
                """,
                workspace=self._workspace, rows=rows,
            )  # fmt: skip
            await open_names(tx, self._workspace, keys)

        await self._database.transaction(work)

    async def unrule(self, one: str, other: str) -> bool:
        async def work(tx: Transaction) -> bool:
            rows = await tx.run(
                """
                MATCH (r:Ruling {workspace: $workspace, one: $one, other: $other, author: 'user'})
                DELETE r
                RETURN $one AS one
                """,
                workspace=self._workspace, one=one, other=other,
            )  # fmt: skip
            await open_names(tx, self._workspace, {one, other})
            return bool(rows)

        return await self._database.transaction(work)

    async def place(self, placements: Sequence[Placement], *, remove: bool = False) -> None:
        of_documents = {document_of(one.scope) for one in placements}

        async def work(tx: Transaction) -> None:
            # The fold of a document holds its lock from before it looks names up until the end.
            rows = await tx.run(
                """
                UNWIND $ids AS id
                MATCH (d:Document {workspace: $workspace, id: id}) SET d.locked = true
                RETURN id
                """,
                workspace=self._workspace, ids=sorted(of_documents),
            )  # fmt: skip
            found = {row["id"] for row in rows}
            mine = [one for one in placements if document_of(one.scope) in found]
            await (self._take_back if remove else self._put_down)(tx, sorted(mine))
            await add_moves(tx, self._workspace, [("", "", id) for id in found])

        await self._database.transaction(work)

    async def _put_down(self, tx: Transaction, placements: Sequence[Placement]) -> None:
        await tx.run(
            """
            UNWIND $rows AS row
            MERGE (p:Placement {workspace: $workspace, key: row.key, scope: row.scope})
            SET p.entity = row.entity, p.shown = row.name, p.by_hand = true,
                p.document_id = row.document,
                p.name = row.key + ' → ' + CASE row.name WHEN '' THEN row.entity ELSE row.name END
            """,
            workspace=self._workspace,
            rows=[
                {**one._asdict(), "document": document_of(one.scope)}
                for one in placements
            ],
        )  # fmt: skip

    async def _take_back(self, tx: Transaction, placements: Sequence[Placement]) -> None:
        await tx.run(
            """
            UNWIND $rows AS row
            MATCH (p:Placement {workspace: $workspace, key: row.key, scope: row.scope})
            WHERE p.by_hand
            DELETE p
            """,
            workspace=self._workspace, rows=[one._asdict() for one in placements],
        )  # fmt: skip


def _name_of(row: Row) -> KnownName:
    n = row["n"]
    tally = name_tally_of(n["tally"])
    return KnownName(
        key=n["key"],
        form=tally.form,
        kind=tally.kind,
        aliases=tally.stated,
        mentions=n["mentions"],
        scopes=tally.scopes,
        entity=row["entity"] or n["key"],
        revision=n["revision"],
        blocks=tuple(n["blocks"]),
    )


def _reviewed_of(p: Row) -> Reviewed:
    pair = Pair(
        p["one"], p["other"], p["relation"], p["base"], p["score"], p["veto"],
        json.loads(p["features"]), p["leaf"],
    )  # fmt: skip
    return Reviewed(pair, p["decision"], p.get("tie") or "")
