"""Everything that is held of a workspace, page by page along the keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from sqlite3 import Connection, Row

from app.domain import Document, Placement, Ruling
from app.holdings import (
    HeldAlias,
    HeldAssertion,
    HeldChunk,
    HeldEntity,
    HeldMention,
    HeldName,
    HeldPlacement,
    HeldRelation,
    Progress,
)
from app.stores.counts import name_tally_of
from app.stores.records import dump, extraction_of
from app.stores.sqlite.repairs import SqliteRepairs, assertion_of, mention_of
from app.stores.sqlite.rows import CHUNK, chunk_of, listed

_PROGRESS = "x.revision, x.profiled, x.indexed, x.covered, x.digest"


class SqliteArchive(SqliteRepairs):
    """Implements `app.ports.Archive`."""

    async def chunks(
        self, *, document_id: str = "", after: str = "", limit: int
    ) -> list[HeldChunk]:
        narrowed = "and c.document_id = :document" if document_id else ""
        rows = await self._database.rows(
            f"select {CHUNK}, c.job_id, c.extraction_key, c.extraction, c.live, c.folded, c.gone,"
            f" c.indexed from chunks c where c.workspace = :workspace and c.id > :after {narrowed}"
            " order by c.id limit :limit",
            {**self._page(after, limit), "document": document_id},
        )
        return [
            HeldChunk(
                chunk_of(row), row["job_id"], row["extraction_key"],
                extraction_of(row["extraction"]) if row["extraction"] else None,
                bool(row["live"]), bool(row["folded"]), bool(row["gone"]), bool(row["indexed"]),
            )
            for row in rows
        ]  # fmt: skip

    async def names(self, *, after: str = "", limit: int) -> list[HeldName]:
        rows = await self._database.rows(
            "select key, tally, mentions from names where workspace = :workspace and key > :after"
            " order by key limit :limit",
            self._page(after, limit),
        )
        return [HeldName(row["key"], name_tally_of(row["tally"]), row["mentions"]) for row in rows]

    async def rulings(self, *, after: str = "", limit: int) -> list[Ruling]:
        one, other, author = after.split("\t") if after else ("", "", "")
        rows = await self._database.rows(
            "select one, other, same, author, note, at from rulings"
            " where workspace = :workspace and (one, other, author) > (:one, :other, :author)"
            " order by one, other, author limit :limit",
            {**self._page("", limit), "one": one, "other": other, "author": author},
        )
        return [
            Ruling(
                row["one"], row["other"], bool(row["same"]), row["author"], row["note"], row["at"]
            )
            for row in rows
        ]  # fmt: skip

    async def placements(self, *, after: str = "", limit: int) -> list[HeldPlacement]:
        key, _, scope = after.partition("\t")
        rows = await self._database.rows(
            "select key, scope, entity, name, by_hand from placements"
            " where workspace = :workspace and (key, scope) > (:key, :scope)"
            " order by key, scope limit :limit",
            {**self._page(after, limit), "key": key, "scope": scope},
        )
        return [
            HeldPlacement(
                Placement(row["key"], row["scope"], row["entity"], row["name"]),
                bool(row["by_hand"]),
            )
            for row in rows
        ]

    async def evidence(
        self, chunk_ids: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        bound = {"workspace": self._workspace, "ids": listed(chunk_ids)}

        def work(connection: Connection) -> tuple[list[HeldMention], list[HeldAssertion]]:
            return (
                [mention_of(row) for row in connection.execute(_MENTIONS, bound)],
                [assertion_of(row) for row in connection.execute(_ASSERTIONS, bound)],
            )

        return await self._database.read(work)

    async def entities(self, *, after: str = "", limit: int) -> list[HeldEntity]:
        rows = await self._database.rows(
            "select x.key, x.name, x.kind, x.aliases, x.names_tally, x.kinds_tally,"
            f" x.aliases_tally, x.mentions, x.described, x.abouts, x.degree, x.profile, {_PROGRESS}"
            " from entities x where x.workspace = :workspace and x.key > :after"
            " order by x.key limit :limit",
            self._page(after, limit),
        )
        return [
            HeldEntity(
                row["key"], row["name"], row["kind"], tuple(json.loads(row["aliases"])),
                json.loads(row["names_tally"]), json.loads(row["kinds_tally"]),
                json.loads(row["aliases_tally"]), row["mentions"], row["described"], row["abouts"],
                row["degree"], row["profile"], _progress_of(row),
            )
            for row in rows
        ]  # fmt: skip

    async def relations(self, *, after: str = "", limit: int) -> list[HeldRelation]:
        # An end that is not there is shown as none rather than hide the relation.
        rows = await self._database.rows(
            "select x.key, coalesce(s.key, '') as source, coalesce(t.key, '') as target,"
            " x.keywords, x.keywords_tally, x.weight, x.mentions, x.described, x.profile,"
            f" {_PROGRESS} from relations x left join entities s on s.seq = x.source"
            " left join entities t on t.seq = x.target"
            " where x.workspace = :workspace and x.key > :after order by x.key limit :limit",
            self._page(after, limit),
        )
        return [
            HeldRelation(
                row["key"], row["source"], row["target"], tuple(json.loads(row["keywords"])),
                json.loads(row["keywords_tally"]), row["weight"], row["mentions"],
                row["described"], row["profile"], _progress_of(row),
            )
            for row in rows
        ]  # fmt: skip

    async def aliases(self, *, after: str = "", limit: int) -> list[HeldAlias]:
        rows = await self._database.rows(
            "select a.key as alias, coalesce(e.key, '') as entity, a.count"
            " from (select distinct key from aliases where workspace = :workspace"
            "  and key > :after order by key limit :limit) k"
            " cross join aliases a left join entities e on e.seq = a.entity"
            " where a.workspace = :workspace and a.key = k.key order by a.key, e.key",
            self._page(after, limit),
        )
        return [
            HeldAlias(alias, tuple((row["entity"], row["count"]) for row in group))
            for alias, group in groupby(rows, key=lambda row: row["alias"])
        ]

    async def admit_names(
        self, rulings: Sequence[Ruling], placements: Sequence[HeldPlacement]
    ) -> None:
        def work(connection: Connection) -> None:
            connection.executemany(
                "insert or replace into rulings (workspace, one, other, author, same, note, at)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                [
                    (self._workspace, one.one, one.other, one.by, one.same, one.note, one.at)
                    for one in rulings
                ],
            )
            connection.executemany(
                "insert or replace into placements (workspace, key, scope, entity, name, by_hand)"
                " values (?, ?, ?, ?, ?, ?)",
                [(self._workspace, *one.placement, one.by_hand) for one in placements],
            )

        await self._database.write(work, durable=True)

    async def dates(self, document_ids: Sequence[str]) -> dict[str, str]:
        rows = await self._database.rows(
            "select f.document_id, f.value from json_each(:ids) i cross join fields f"
            " where f.workspace = :workspace and f.document_id = i.value and f.live = 1"
            " and f.name = 'date'",
            {"workspace": self._workspace, "ids": listed(document_ids)},
        )
        return {row["document_id"]: row["value"] for row in rows}

    async def admit(self, document: Document, date: str) -> None:
        def work(connection: Connection) -> None:
            bound = {"workspace": self._workspace, "document": document.id}
            connection.execute(
                "update documents set version = :version, warnings = :warnings,"
                " llm_calls = :calls, prompt_tokens = :prompt, completion_tokens = :completion,"
                " cost = :cost, created_at = :created, updated_at = :updated"
                " where workspace = :workspace and id = :document",
                {
                    **bound, "version": document.version, "warnings": dump(document.warnings),
                    "calls": document.usage.llm_calls, "prompt": document.usage.prompt_tokens,
                    "completion": document.usage.completion_tokens, "cost": document.usage.cost,
                    "created": document.created_at, "updated": document.updated_at,
                },
            )  # fmt: skip
            connection.execute(
                "update jobs set updated_at = :updated where workspace = :workspace"
                " and document_id = :document and latest = 1"
                " and state not in ('queued', 'running')",
                {**bound, "updated": document.updated_at},
            )
            connection.execute(
                "update fields set value = :date where workspace = :workspace"
                " and document_id = :document and live = 1 and name = 'date'",
                {**bound, "date": date},
            )

        await self._database.write(work, durable=True)

    def _page(self, after: str, limit: int) -> dict[str, object]:
        return {"workspace": self._workspace, "after": after, "limit": limit}


_MENTIONS = """
    select m.chunk_id, m.document_id, e.key, m.name, m.kind, m.description, m.aliases,
        m.alias_keys, m.about, m.surfaces
    from json_each(:ids) i cross join chunks c cross join mentions m cross join entities e
    where c.workspace = :workspace and c.id = i.value and m.chunk = c.seq and e.seq = m.entity
    order by m.chunk_id, e.key
"""
_ASSERTIONS = """
    select a.chunk_id, a.document_id, r.key, a.source, a.target, a.description, a.keywords,
        a.strength
    from json_each(:ids) i cross join chunks c cross join assertions a cross join relations r
    where c.workspace = :workspace and c.id = i.value and a.chunk = c.seq and r.seq = a.relation
    order by a.chunk_id, r.key
"""


def _progress_of(row: Row) -> Progress:
    return Progress(
        row["revision"], row["profiled"], row["indexed"], row["covered"], row["digest"]
    )  # fmt: skip
