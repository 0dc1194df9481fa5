"""The register of names: facts, blocks, pairs, rulings, placements."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection, Row

import orjson

from app.domain import KnownName, Placement, Ruling
from app.folding import document_of
from app.resolution.model import Pair
from app.resolution.settlement import Reviewed, Settlement
from app.stores.counts import name_tally_of
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.moves import SqliteMoves
from app.stores.sqlite.placements import add_moves, open_names
from app.stores.sqlite.rows import listed
from app.stores.sqlite.settling import settle, version
from app.stores.sqlite.ties import together

_NAME = """
    select n.key, n.tally, n.mentions, n.revision, n.blocks, coalesce((select p.entity
        from placements p where p.workspace = n.workspace and p.key = n.key and p.scope = ''
    ), n.key) as entity
"""
_PAIR = "p.one, p.other, p.relation, p.base, p.score, p.veto, p.features, p.leaf, p.decision, p.tie"


class SqliteNames(SqliteMoves):
    """Implements `app.ports.Names`."""

    def __init__(self, database: SqliteDatabase, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    # --- reading ---------------------------------------------------------------------------------

    async def version(self) -> int:
        return await self._database.read(lambda connection: version(connection, self._workspace))

    async def opened(self, *, limit: int) -> list[KnownName]:
        rows = await self._database.rows(
            f"{_NAME} from names n indexed by names_open"
            " where n.workspace = :workspace and n.settled < n.revision"
            " order by n.key limit :limit",
            {"workspace": self._workspace, "limit": limit},
        )
        return [_name_of(row) for row in rows]

    async def known(self, keys: Sequence[str]) -> list[KnownName]:
        rows = await self._database.rows(
            f"{_NAME} from json_each(:keys) k cross join names n"
            " where n.workspace = :workspace and n.key = k.value",
            self._among(keys),
        )
        return [_name_of(row) for row in rows]

    async def members(self, entities: Sequence[str]) -> dict[str, list[str]]:
        rows = await self._database.rows(
            "select p.entity, p.key from json_each(:keys) k cross join placements p"
            " where p.workspace = :workspace and p.entity = k.value and p.scope = ''"
            " order by p.entity, p.key",
            self._among(entities),
        )
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["entity"], []).append(row["key"])
        return found

    async def in_blocks(self, blocks: Sequence[str], *, limit: int) -> dict[str, list[str]]:
        def work(connection: Connection) -> dict[str, list[str]]:
            return {
                block: [
                    row["name"]
                    for row in connection.execute(
                        "select name from blocks where workspace = ? and block = ?"
                        " order by name limit ?",
                        (self._workspace, block, limit),
                    )
                ]
                for block in blocks
            }

        return await self._database.read(work)

    async def pairs(self, keys: Sequence[str]) -> list[Reviewed]:
        rows = await self._with_an_end_among(keys, "pairs", _PAIR)
        found = {(row["one"], row["other"]): row for row in rows}
        return [_reviewed_of(found[ends]) for ends in sorted(found)]

    async def together(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        return await self._database.read(
            lambda connection: together(connection, self._workspace, pairs)
        )

    async def rulings(self, keys: Sequence[str]) -> list[Ruling]:
        rows = await self._with_an_end_among(
            keys, "rulings", "p.one, p.other, p.same, p.author, p.note, p.at"
        )
        rows.sort(key=lambda row: row["author"])  # "user" comes after "model"
        found = {(row["one"], row["other"]): row for row in rows}
        return [
            Ruling(
                row["one"], row["other"], bool(row["same"]), row["author"], row["note"], row["at"]
            )
            for row in found.values()
        ]  # fmt: skip

    async def _with_an_end_among(self, keys: Sequence[str], table: str, columns: str) -> list[Row]:
        """A select for each end: in one, SQLite reads the whole table to have it in order."""

        def work(connection: Connection) -> list[Row]:
            return [
                row
                for end, index in (("one", ""), ("other", f"indexed by {table}_by_other"))
                for row in connection.execute(
                    f"select {columns} from json_each(:keys) k cross join {table} p {index}"
                    f" where p.workspace = :workspace and p.{end} = k.value",
                    self._among(keys),
                )
            ]

        return await self._database.read(work)

    async def placed(self, *, after: str = "", limit: int = 100) -> list[Placement]:
        key, _, scope = after.partition("\t")
        rows = await self._database.rows(
            "select key, scope, entity, name from placements indexed by placements_by_hand"
            " where workspace = :workspace and by_hand = 1 and (key, scope) > (:key, :scope)"
            " order by key, scope limit :limit",
            {"workspace": self._workspace, "key": key, "scope": scope, "limit": limit},
        )
        return [Placement(*row) for row in rows]

    async def used_by(self, entity: str, *, limit: int) -> list[tuple[str, str]]:
        rows = await self._database.rows(
            "select distinct json_extract(s.value, '$[0]') as name, m.document_id"
            " from entities e cross join mentions m cross join json_each(m.surfaces) s"
            " where e.workspace = :workspace and e.key = :entity and m.entity = e.seq"
            " order by name, m.document_id limit :limit",
            {"workspace": self._workspace, "entity": entity, "limit": limit},
        )
        return [(row["name"], row["document_id"]) for row in rows]

    async def review(self, *, decision: str, after: str = "", limit: int = 50) -> list[Reviewed]:
        score, one, other = after.split("\t") if after else ("1000", "", "")
        decisions = [decision] if decision else ["merge", "ask", "apart"]
        rows = await self._database.rows(
            " union all ".join(
                f"select * from (select {_PAIR} from pairs p indexed by pairs_by_score"
                f" where p.workspace = :workspace and p.decision = '{one_of}'"
                " and p.score <= :score"
                " and (p.score < :score or (p.one, p.other) > (:one, :other))"
                " order by p.score desc, p.one, p.other limit :limit)"
                for one_of in decisions
            )
            + " order by score desc, one, other limit :limit",
            {
                "workspace": self._workspace, "score": float(score), "one": one, "other": other,
                "limit": limit,
            },
        )  # fmt: skip
        return [_reviewed_of(row) for row in rows]

    # --- decisions -------------------------------------------------------------------------------

    async def settle(self, settlement: Settlement) -> bool:
        return await self._database.write(
            lambda connection: settle(connection, self._workspace, settlement)
        )

    async def rule(self, rulings: Sequence[Ruling]) -> None:
        def work(connection: Connection) -> None:
            connection.executemany(
                "insert into rulings (workspace, one, other, author, same, note, at)"
                " select :workspace, :one, :other, :by, :same, :note, :at"
                " where :by = 'user' or 2 = (select count(*) from names"
                " where workspace = :workspace and key in (:one, :other))"
                " on conflict (workspace, one, other, author)"
                " do update set same = excluded.same, note = excluded.note, at = excluded.at",
                [{"workspace": self._workspace, **one._asdict()} for one in rulings],
            )
            open_names(connection, self._workspace, {k for r in rulings for k in (r.one, r.other)})

        await self._database.write(work, durable=True)

    async def unrule(self, one: str, other: str) -> bool:
        def work(connection: Connection) -> bool:
            gone = connection.execute(
                "delete from rulings where workspace = ? and one = ? and other = ?"
                " and author = 'user'",
                (self._workspace, one, other),
            ).rowcount
            open_names(connection, self._workspace, [one, other])
            return gone == 1

        return await self._database.write(work, durable=True)

    async def place(self, placements: Sequence[Placement], *, remove: bool = False) -> None:
        def work(connection: Connection) -> None:
            found = connection.execute(
                "select id from documents where workspace = :workspace"
                " and id in (select value from json_each(:keys))",
                self._among([document_of(one.scope) for one in placements]),
            )
            documents = {row["id"] for row in found}
            mine = [one for one in placements if document_of(one.scope) in documents]
            (self._take_back if remove else self._put_down)(connection, mine)
            add_moves(connection, self._workspace, [("", "", one) for one in sorted(documents)])

        await self._database.write(work, durable=True)

    def _put_down(self, connection: Connection, placements: Sequence[Placement]) -> None:
        connection.executemany(
            "insert into placements (workspace, key, scope, entity, name, by_hand)"
            " values (?, ?, ?, ?, ?, 1) on conflict (workspace, key, scope) do update set"
            " entity = excluded.entity, name = excluded.name, by_hand = 1",
            [(self._workspace, *one) for one in placements],
        )

    def _take_back(self, connection: Connection, placements: Sequence[Placement]) -> None:
        connection.executemany(
            "delete from placements where workspace = ? and key = ? and scope = ? and by_hand = 1",
            [(self._workspace, one.key, one.scope) for one in placements],
        )

    def _among(self, keys: Sequence[str]) -> dict[str, object]:
        return {"workspace": self._workspace, "keys": listed(keys)}


def _name_of(row: Row) -> KnownName:
    tally = name_tally_of(row["tally"])
    return KnownName(
        key=row["key"],
        form=tally.form,
        kind=tally.kind,
        aliases=tally.stated,
        mentions=row["mentions"],
        scopes=tally.scopes,
        entity=row["entity"],
        revision=row["revision"],
        blocks=tuple(orjson.loads(row["blocks"])),
    )


def _reviewed_of(row: Row) -> Reviewed:
    pair = Pair(
        row["one"], row["other"], row["relation"], row["base"], row["score"], row["veto"],
        orjson.loads(row["features"]), row["leaf"],
    )  # fmt: skip
    return Reviewed(pair, row["decision"], row["tie"])
