"""The reading half of the graph: batched look-ups, each along an index and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from app.domain import (
    Chunk,
    ChunkLinks,
    Entity,
    EntityLinks,
    Evidence,
    Kind,
    Mention,
    Ref,
    Relation,
    Stats,
    Subgraph,
)
from app.stores.neo4j.database import Database, Row
from app.stores.neo4j.pieces import Order, first_pieces
from app.stores.neo4j.rows import chunk_of, entity_of, relation_of
from app.stores.neo4j.walk import heaviest, neighbourhood
from app.stores.records import extraction_of, in_order, relation_name, unique

SHORT = 3  # a trigram index cannot narrow shorter words


class Neo4jReader:
    """Implements `app.ports.GraphReader`."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    async def stats(self) -> Stats:
        [row] = await self._database.read(
            """
            MATCH (t:Total) WHERE t.workspace = $workspace AND t.part IS NOT NULL
            RETURN sum(t.documents) AS documents, sum(t.chunks) AS chunks,
                sum(t.entities) AS entities, sum(t.relations) AS relations
            """,
            workspace=self._workspace,
        )
        return Stats(row["documents"], row["chunks"], row["entities"], row["relations"])

    # --- by key ----------------------------------------------------------------------------------

    async def chunks(self, ids: Sequence[str]) -> list[Chunk]:
        rows = await self._database.read(
            """
            UNWIND $ids AS id
            MATCH (c:Chunk {workspace: $workspace, id: id}) WHERE c.live
            RETURN c {.id, .document_id, .position, .start, .end, .text, .tokens, .headings,
                .page, .page_end} AS c, id
            """,
            workspace=self._workspace, ids=unique(ids),
        )  # fmt: skip
        return [chunk_of(row["c"]) for row in in_order(rows, ids, by="id")]

    async def document_chunks(
        self, document_id: str, *, after: int = -1, limit: int = 100
    ) -> list[Chunk]:
        rows = await self._database.read(
            """
            MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
            WHERE c.workspace = $workspace AND c.document_id = $document
                AND c.position > $after AND c.live
            WITH c ORDER BY c.workspace, c.document_id, c.position, c.id LIMIT $limit
            RETURN c {.id, .document_id, .position, .start, .end, .text, .tokens, .headings,
                .page, .page_end} AS c
            ORDER BY c.position, c.id
            """,
            workspace=self._workspace, document=document_id, after=after, limit=limit,
        )  # fmt: skip
        return [chunk_of(row["c"]) for row in rows]

    async def entities(self, keys: Sequence[str]) -> list[Entity]:
        return [entity_of(row["e"]) for row in await self._entity_rows(keys)]

    async def relations(self, keys: Sequence[str]) -> list[Relation]:
        return [relation_of(row) for row in await self._relation_rows(keys)]

    # --- by name ---------------------------------------------------------------------------------

    async def find(self, keys: Sequence[str], *, about: bool = False) -> dict[str, Entity]:
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            OPTIONAL MATCH (named:Entity {workspace: $workspace, key: key})
                WHERE named.mentions > 0 AND (NOT $about OR named.abouts > 0)
            CALL (key, named) {
                WITH key, named WHERE named IS NULL
                MATCH (:Alias {workspace: $workspace, key: key})-[:NAMES]->(e)
                WHERE e.mentions > 0 AND (NOT $about OR e.abouts > 0)
                RETURN e ORDER BY e.mentions DESC, e.key LIMIT 1
              UNION ALL
                WITH named WHERE named IS NOT NULL
                RETURN named AS e
            }
            RETURN key, properties(e) AS e
            """,
            workspace=self._workspace, keys=unique(keys), about=about,
        )  # fmt: skip
        return {row["key"]: entity_of(row["e"]) for row in in_order(rows, keys, by="key")}

    async def search(self, text: str, *, limit: int, after: str = "") -> list[Entity]:
        words = text.casefold().split()
        longest = max(words, key=len, default="")
        if len(longest) >= SHORT:
            rows = await self._search_words(words, longest, after, limit)
        else:
            rows = await self._search_all(words, after, limit)
        return [entity_of(row["e"]) for row in rows]

    async def _search_words(
        self, words: list[str], longest: str, after: str, limit: int
    ) -> list[Row]:
        return await self._database.read(
            """
            OPTIONAL MATCH (last:Entity {workspace: $workspace, key: $after})
            WITH last WHERE $after = '' OR last IS NOT NULL
            MATCH (e:Entity) USING TEXT INDEX e:Entity(words)
            WHERE e.words CONTAINS $longest AND e.workspace = $workspace AND e.mentions > 0
                AND all(word IN $words WHERE e.words CONTAINS word)
                AND (last IS NULL OR e.rank > -last.mentions
                    OR e.rank = -last.mentions AND e.key > last.key)
            WITH e ORDER BY e.rank, e.key LIMIT $limit
            RETURN properties(e) AS e
            """,
            workspace=self._workspace, words=words, longest=longest, after=after, limit=limit,
        )  # fmt: skip

    async def _search_all(self, words: list[str], after: str, limit: int) -> list[Row]:
        return await self._database.read(
            """
            OPTIONAL MATCH (last:Entity {workspace: $workspace, key: $after})
            WITH last, coalesce(-last.mentions, -9223372036854775807) AS lowest
            WHERE $after = '' OR last IS NOT NULL
            CALL (last, lowest) {
                MATCH (e:Entity) USING INDEX SEEK e:Entity(workspace, rank, key)
                WHERE e.workspace = $workspace AND e.rank >= lowest AND e.key IS NOT NULL
                    AND (last IS NULL OR e.rank > lowest OR e.key > last.key)
                    AND all(word IN $words WHERE e.words CONTAINS word)
                WITH e ORDER BY e.workspace, e.rank, e.key LIMIT $limit
                RETURN e
            }
            RETURN properties(e) AS e ORDER BY e.rank, e.key
            """,
            workspace=self._workspace, words=words, after=after, limit=limit,
        )  # fmt: skip

    # --- links -----------------------------------------------------------------------------------

    async def failed(self, document_id: str) -> dict[str, str]:
        rows = await self._database.read(
            """
            MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
            WHERE c.workspace = $workspace AND c.document_id = $document
                AND c.position IS NOT NULL AND c.live AND c.failed
            RETURN c.id AS id, c.extraction AS extraction ORDER BY c.position, id
            """,
            workspace=self._workspace, document=document_id,
        )  # fmt: skip
        return {row["id"]: extraction_of(row["extraction"]).error for row in rows}

    async def chunk_links(self, ids: Sequence[str]) -> list[ChunkLinks]:
        rows = await self._database.read(
            """
            UNWIND $ids AS id
            MATCH (c:Chunk {workspace: $workspace, id: id}) WHERE c.live
            RETURN id, c.document_id AS document,
                [(c)-[m:MENTIONS]->() | m.entity] AS entities,
                [(c)-[s:STATES]->() | s.relation] AS relations,
                [(c)-[m:MENTIONS]->() WHERE m.about IS NOT NULL | m.entity] AS about
            """,
            workspace=self._workspace, ids=unique(ids),
        )  # fmt: skip
        return [
            ChunkLinks(
                row["id"], row["document"], tuple(sorted(row["entities"])),
                tuple(sorted(row["relations"])), tuple(sorted(row["about"])),
            )
            for row in in_order(rows, ids, by="id")
        ]  # fmt: skip

    async def entity_links(
        self, keys: Sequence[str], *, chunks: int, about: int,
        documents: Sequence[str] | None = None,
    ) -> list[EntityLinks]:  # fmt: skip
        entities, named, subjects = await asyncio.gather(
            self._entity_rows(keys),
            self._first(Kind.ENTITY, keys, limit=chunks, documents=documents),
            self._first(Kind.ENTITY, keys, limit=about, documents=documents, order="about"),
        )
        links = [
            EntityLinks(
                row["key"], row["e"]["name"], row["e"]["mentions"],
                _chunk_ids(named.get(row["key"], ())), _chunk_ids(subjects.get(row["key"], ())),
            )
            for row in entities
        ]  # fmt: skip
        if documents is None:
            return links
        return [link for link in links if link.chunks or link.about]

    async def relations_of(
        self, keys: Sequence[str], *, per_entity: int, documents: Sequence[str] | None = None
    ) -> list[Relation]:
        found = await heaviest(
            self._database, self._workspace, keys, limit=per_entity, documents=documents
        )
        return await self.relations(
            [one["key"] for key in unique(keys) for one in found.get(key, ())]
        )

    async def heaviest(
        self, keys: Sequence[str], *, per_entity: int, documents: Sequence[str] | None = None
    ) -> dict[str, list[str]]:
        found = await heaviest(
            self._database, self._workspace, keys, limit=per_entity, documents=documents
        )
        return {key: [one["key"] for one in found[key]] for key in unique(keys) if found.get(key)}

    async def relation_chunks(
        self, keys: Sequence[str], *, per_relation: int, documents: Sequence[str] | None = None
    ) -> dict[str, list[str]]:
        pieces = await self._first(Kind.RELATION, keys, limit=per_relation, documents=documents)
        return {key: list(_chunk_ids(pieces[key])) for key in unique(keys) if pieces.get(key)}

    # --- evidence --------------------------------------------------------------------------------

    async def evidence(
        self, refs: Sequence[Ref], *, limit: int = 64, documents: Sequence[str] | None = None
    ) -> list[Evidence]:
        keys = {kind: unique(ref.key for ref in refs if ref.kind is kind) for kind in Kind}
        # Revisions are read before descriptions: a profile may then know more than its revision
        # says and be made again, but never less.
        entities, relations = await asyncio.gather(
            self._entity_rows(keys[Kind.ENTITY]), self._relation_rows(keys[Kind.RELATION])
        )
        kinds = (Kind.ENTITY, Kind.RELATION)
        told = await asyncio.gather(
            *(
                self._first(kind, keys[kind], limit=limit, documents=documents, order="described")
                for kind in kinds
            )
        )
        pieces = dict(zip(kinds, told, strict=True))
        found: dict[Ref, Evidence] = {}
        for kind, one, name in (
            *((Kind.ENTITY, row["e"], row["e"]["name"]) for row in entities),
            *(
                (Kind.RELATION, row["r"], relation_name(row["source_name"], row["target_name"]))
                for row in relations
            ),
        ):
            ref = Ref(kind, one["key"])
            texts = tuple(piece["description"] for piece in pieces[kind].get(ref.key, ()))
            if texts or documents is None:
                found[ref] = Evidence(
                    ref, name, one["revision"], texts, one["described"], one["profile"],
                    one["covered"],
                )  # fmt: skip
        return [found[ref] for ref in dict.fromkeys(refs) if ref in found]

    async def mentions(self, ref: Ref, *, after: str = "", limit: int = 50) -> list[Mention]:
        if ref.kind is Kind.CHUNK:
            return []
        pieces = await self._first(ref.kind, [ref.key], limit=limit, after=after)
        found = pieces.get(ref.key, [])
        names: dict[str, str] = {}
        if ref.kind is Kind.RELATION and found:
            ends = await self._entity_rows([found[0]["source"], found[0]["target"]])
            names = {row["key"]: row["e"]["name"] for row in ends}
        return [
            Mention(
                piece["chunk"], piece["document"],
                piece["name"] or relation_name(names[piece["source"]], names[piece["target"]]),
                piece["kind"] or "", piece["description"],
            )
            for piece in found
        ]  # fmt: skip

    async def supported(self, kind: Kind, documents: Sequence[str], *, limit: int) -> list[str]:
        if kind is Kind.CHUNK:
            return []
        if kind is Kind.ENTITY:
            rows = await self._database.read(
                """
                UNWIND $documents AS document
                MATCH (:Document {workspace: $workspace, id: document})
                    -[:HAS_CHUNK]->()-[m:MENTIONS]->()
                RETURN DISTINCT m.entity AS key LIMIT $limit
                """,
                workspace=self._workspace, documents=unique(documents), limit=limit,
            )  # fmt: skip
        else:
            rows = await self._database.read(
                """
                UNWIND $documents AS document
                MATCH (:Document {workspace: $workspace, id: document})
                    -[:HAS_CHUNK]->()-[s:STATES]->()
                RETURN DISTINCT s.relation AS key LIMIT $limit
                """,
                workspace=self._workspace, documents=unique(documents), limit=limit,
            )  # fmt: skip
        return sorted(row["key"] for row in rows)

    async def subgraph(self, keys: Sequence[str], *, depth: int, limit: int) -> Subgraph:
        seeds = [row["key"] for row in await self._entity_rows(keys)]
        walk, keys_of_relations = await neighbourhood(
            self._database, self._workspace, seeds, depth=depth, limit=limit
        )
        entities, relations = await asyncio.gather(
            self.entities(list(walk.found)), self.relations(keys_of_relations)
        )
        return Subgraph(tuple(entities), tuple(relations), walk.truncated)

    # --- rows ------------------------------------------------------------------------------------

    async def _entity_rows(self, keys: Sequence[str]) -> list[Row]:
        if not keys:
            return []
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            MATCH (e:Entity {workspace: $workspace, key: key}) WHERE e.mentions > 0
            RETURN key, e {.key, .name, .kind, .profile, .mentions, .degree, .aliases, .revision,
                .profiled, .indexed, .digest, .described, .covered} AS e
            """,
            workspace=self._workspace, keys=unique(keys),
        )  # fmt: skip
        return in_order(rows, keys, by="key")

    async def _relation_rows(self, keys: Sequence[str]) -> list[Row]:
        if not keys:
            return []
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            MATCH (s)-[r:RELATES {workspace: $workspace, key: key}]->(t)
            RETURN key, properties(r) AS r, s.name AS source_name, t.name AS target_name
            """,
            workspace=self._workspace, keys=unique(keys),
        )  # fmt: skip
        return in_order(rows, keys, by="key")

    async def _first(
        self, kind: Kind, keys: Sequence[str], *, limit: int,
        documents: Sequence[str] | None = None, order: Order = "chunk", after: str = "",
    ) -> dict[str, list[Row]]:  # fmt: skip
        if not keys:
            return {}
        return await first_pieces(
            self._database, self._workspace, kind, unique(keys),
            limit=limit, documents=documents, order=order, after=after,
        )  # fmt: skip


def _chunk_ids(pieces: Iterable[Row]) -> tuple[str, ...]:
    return tuple(piece["chunk"] for piece in pieces)
