"""Everything that is held of a workspace, page by page along the keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import LiteralString

from app.domain import Document, Placement, Ruling
from app.folding import document_of
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
from app.stores.neo4j.database import Row
from app.stores.neo4j.repairs import Neo4jRepairs, assertion_of, mention_of
from app.stores.neo4j.rows import chunk_of
from app.stores.records import extraction_of, unique

# Which chunks a page has; what is read of them comes behind.
_CHUNKS: LiteralString = """(c:Chunk) WHERE c.workspace = $workspace AND c.id > $after
    WITH c ORDER BY c.workspace, c.id LIMIT $limit"""
_CHUNKS_OF_DOCUMENT: LiteralString = """(c:Chunk)
    USING INDEX SEEK c:Chunk(workspace, document_id, position)
    WHERE c.workspace = $workspace AND c.document_id = $document AND c.position IS NOT NULL
        AND c.id > $after
    WITH c ORDER BY c.id LIMIT $limit"""


class Neo4jArchive(Neo4jRepairs):
    """Implements `app.ports.Archive`."""

    async def chunks(
        self, *, document_id: str = "", after: str = "", limit: int
    ) -> list[HeldChunk]:
        found = _CHUNKS_OF_DOCUMENT if document_id else _CHUNKS
        rows = await self._database.read(
            f"""
            MATCH {found}
            RETURN c {{.id, .document_id, .position, .start, .end, .text, .tokens, .headings,
                .page, .page_end}} AS c, c.job_id AS job_id, c.extraction_key AS extraction_key,
                c.extraction AS extraction, c.live AS live, c.folded AS folded, c.gone AS gone,
                c.indexed AS indexed
            ORDER BY c.id
            """,
            workspace=self._workspace, document=document_id, after=after, limit=limit,
        )  # fmt: skip
        return [
            HeldChunk(
                chunk_of(row["c"]), row["job_id"], row["extraction_key"],
                extraction_of(row["extraction"]) if row["extraction"] else None,
                bool(row["live"]), bool(row["folded"]), bool(row["gone"]), bool(row["indexed"]),
            )
            for row in rows
        ]  # fmt: skip

    async def names(self, *, after: str = "", limit: int) -> list[HeldName]:
        rows = await self._database.read(
            """
            MATCH (n:Name) WHERE n.workspace = $workspace AND n.key > $after
            WITH n ORDER BY n.workspace, n.key LIMIT $limit
            RETURN n.key AS key, n.tally AS tally, n.mentions AS mentions ORDER BY key
            """,
            workspace=self._workspace, after=after, limit=limit,
        )  # fmt: skip
        return [HeldName(row["key"], name_tally_of(row["tally"]), row["mentions"]) for row in rows]

    async def rulings(self, *, after: str = "", limit: int) -> list[Ruling]:
        one, other, author = after.split("\t") if after else ("", "", "")
        rows = await self._database.read(
            """
            MATCH (r:Ruling) USING INDEX SEEK r:Ruling(workspace, one, other, author)
            WHERE r.workspace = $workspace AND r.one >= $one AND r.other IS NOT NULL
                AND r.author IS NOT NULL
                AND (r.one > $one OR r.other > $other OR (r.other = $other AND r.author > $author))
            WITH r ORDER BY r.workspace, r.one, r.other, r.author LIMIT $limit
            RETURN properties(r) AS r ORDER BY r.one, r.other, r.author
            """,
            workspace=self._workspace, one=one, other=other, author=author, limit=limit,
        )  # fmt: skip
        return [
            Ruling(r["one"], r["other"], r["same"], r["author"], r["note"], r["at"])
            for r in (row["r"] for row in rows)
        ]

    async def placements(self, *, after: str = "", limit: int) -> list[HeldPlacement]:
        key, _, scope = after.partition("\t")
        rows = await self._database.read(
            """
            MATCH (p:Placement) USING INDEX SEEK p:Placement(workspace, key, scope)
            WHERE p.workspace = $workspace AND p.key >= $key AND p.scope IS NOT NULL
                AND (p.key > $key OR p.scope > $scope)
            WITH p ORDER BY p.workspace, p.key, p.scope LIMIT $limit
            RETURN p.key AS key, p.scope AS scope, p.entity AS entity, p.shown AS shown,
                p.by_hand IS NOT NULL AS by_hand
            ORDER BY key, scope
            """,
            workspace=self._workspace, key=key, scope=scope, limit=limit,
        )  # fmt: skip
        return [
            HeldPlacement(
                Placement(row["key"], row["scope"], row["entity"], row["shown"]), row["by_hand"]
            )
            for row in rows
        ]

    async def evidence(
        self, chunk_ids: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        rows = await self._database.read(
            """
            UNWIND $ids AS id
            MATCH (c:Chunk {workspace: $workspace, id: id})
            RETURN [(c)-[m:MENTIONS]->(e) | m {.*, key: e.key}] AS mentions,
                [(c)-[s:STATES]->() | properties(s)] AS assertions
            """,
            workspace=self._workspace, ids=unique(chunk_ids),
        )  # fmt: skip
        mentions = [mention_of(m) for row in rows for m in row["mentions"]]
        assertions = [assertion_of(s) for row in rows for s in row["assertions"]]
        return (
            sorted(mentions, key=lambda one: (one.chunk_id, one.row.key)),
            sorted(assertions, key=lambda one: (one.chunk_id, one.row.key)),
        )

    async def entities(self, *, after: str = "", limit: int) -> list[HeldEntity]:
        rows = await self._database.read(
            """
            MATCH (e:Entity) WHERE e.workspace = $workspace AND e.key > $after
            WITH e ORDER BY e.workspace, e.key LIMIT $limit
            RETURN properties(e) AS e ORDER BY e.key
            """,
            workspace=self._workspace, after=after, limit=limit,
        )  # fmt: skip
        return [_entity_of(row["e"]) for row in rows]

    async def relations(self, *, after: str = "", limit: int) -> list[HeldRelation]:
        rows = await self._database.read(
            """
            MATCH (s)-[r:RELATES]->(t) WHERE r.workspace = $workspace AND r.key > $after
            WITH s, r, t ORDER BY r.workspace, r.key LIMIT $limit
            RETURN properties(r) AS r, s.key AS source, t.key AS target ORDER BY r.key
            """,
            workspace=self._workspace, after=after, limit=limit,
        )  # fmt: skip
        return [_relation_of(row["r"], row["source"], row["target"]) for row in rows]

    async def aliases(self, *, after: str = "", limit: int) -> list[HeldAlias]:
        rows = await self._database.read(
            """
            MATCH (a:Alias) WHERE a.workspace = $workspace AND a.key > $after
            WITH a ORDER BY a.workspace, a.key LIMIT $limit
            RETURN a.key AS key, [(a)-[n:NAMES]->(e) | [e.key, n.count]] AS entities
            ORDER BY key
            """,
            workspace=self._workspace, after=after, limit=limit,
        )  # fmt: skip
        return [
            HeldAlias(row["key"], tuple((key, count) for key, count in sorted(row["entities"])))
            for row in rows
        ]

    async def admit_names(
        self, rulings: Sequence[Ruling], placements: Sequence[HeldPlacement]
    ) -> None:
        await self._database.write(
            """
            CALL () {
                UNWIND $rulings AS row
                MERGE (r:Ruling {
                    workspace: $workspace, one: row.one, other: row.other, author: row.by})
                SET r.same = row.same, r.note = row.note, r.at = row.at,
                    r.name = row.one + CASE WHEN row.same THEN ' = ' ELSE ' ≠ ' END + row.other
            }
            CALL () {
                UNWIND $placements AS row
                MERGE (p:Placement {workspace: $workspace, key: row.key, scope: row.scope})
                SET p.entity = row.entity, p.shown = row.shown, p.by_hand = row.by_hand,
                    p.document_id = row.document, p.name = row.key + ' → ' + row.entity,
                    p.whole = CASE row.scope WHEN '' THEN row.entity END
            }
            """,
            workspace=self._workspace,
            rulings=[one._asdict() for one in sorted(rulings)],
            placements=[
                {
                    "key": one.placement.key, "scope": one.placement.scope,
                    "entity": one.placement.entity, "shown": one.placement.name,
                    "by_hand": True if one.by_hand else None,
                    "document": document_of(one.placement.scope) if one.by_hand else None,
                }
                for one in placements
            ],
        )  # fmt: skip

    async def dates(self, document_ids: Sequence[str]) -> dict[str, str]:
        rows = await self._database.read(
            """
            UNWIND $ids AS id
            MATCH (:Document {workspace: $workspace, id: id})-[:HAS_FIELD]->(f)
            WHERE f.live AND f.name = 'date'
            RETURN id, f.value AS date
            """,
            workspace=self._workspace, ids=unique(document_ids),
        )  # fmt: skip
        return {row["id"]: row["date"] for row in rows}

    async def admit(self, document: Document, date: str) -> None:
        await self._database.write(
            """
            MATCH (d:Document {workspace: $workspace, id: $id})
            SET d.locked = true
            SET d.version = $version, d.warnings = $warnings, d.llm_calls = $calls,
                d.prompt_tokens = $prompt, d.completion_tokens = $completion, d.cost = $cost,
                d.created_at = $created, d.updated_at = $updated
            WITH d
            CALL (d) {
                MATCH (d)-[:HAS_FIELD]->(f) WHERE f.live AND f.name = 'date'
                SET f.value = $date
            }
            WITH d MATCH (j:Job {id: d.job_id}) WHERE NOT j.state IN ['queued', 'running']
            SET j.updated_at = $updated
            """,
            workspace=self._workspace, id=document.id, date=date, version=document.version,
            warnings=list(document.warnings), calls=document.usage.llm_calls,
            prompt=document.usage.prompt_tokens, completion=document.usage.completion_tokens,
            cost=document.usage.cost, created=_milliseconds(document.created_at),
            updated=_milliseconds(document.updated_at),
        )  # fmt: skip


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _entity_of(e: Row) -> HeldEntity:
    return HeldEntity(
        e["key"], e["name"], e["kind"], tuple(e["aliases"]), json.loads(e["names_tally"]),
        json.loads(e["kinds_tally"]), json.loads(e["aliases_tally"]), e["mentions"],
        e["described"], e["abouts"], e["degree"], e["profile"], _progress_of(e),
    )  # fmt: skip


def _relation_of(r: Row, source: str, target: str) -> HeldRelation:
    return HeldRelation(
        r["key"], source, target, tuple(r["keywords"]), json.loads(r["keywords_tally"]),
        -r["lightness"], r["mentions"], r["described"], r["profile"], _progress_of(r),
    )  # fmt: skip


def _progress_of(row: Row) -> Progress:
    return Progress(
        row["revision"], row["profiled"], row["indexed"], row["covered"], row["digest"]
    )  # fmt: skip
