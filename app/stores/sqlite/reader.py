"""The reading half of the graph: batched look-ups, each along an index and bounded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from sqlite3 import Connection, Row

import orjson

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
from app.stores.records import dump, in_order, relation_name, unique
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.rows import (
    CHUNK,
    ENDS,
    ENTITY,
    EVIDENCE,
    RELATION,
    TABLES,
    chunk_of,
    entity_of,
    listed,
    relation_of,
)
from app.stores.sqlite.walk import heaviest, heaviest_keys, neighbourhood

_ENTITIES = (
    f"select e.seq, {ENTITY}, e.covered, e.described"
    " from json_each(:keys) k cross join entities e"
    " where e.workspace = :workspace and e.key = k.value and e.mentions > 0"
)
_RELATIONS = (
    f"select {RELATION}, r.covered, r.described from json_each(:keys) k cross join relations r"
    f" {ENDS} where r.workspace = :workspace and r.key = k.value and r.mentions > 0"
)


class SqliteGraphReader:
    """Implements `app.ports.GraphReader`."""

    def __init__(self, database: SqliteDatabase, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    async def stats(self) -> Stats:
        rows = await self._database.rows(
            "select documents, chunks, entities, relations from totals"
            " where workspace = :workspace",
            {"workspace": self._workspace},
        )
        return Stats(*rows[0]) if rows else Stats(0, 0, 0, 0)

    # --- by key ----------------------------------------------------------------------------------

    async def chunks(self, ids: Sequence[str]) -> list[Chunk]:
        rows = await self._database.rows(
            f"select {CHUNK} from json_each(:keys) k cross join chunks c"
            " where c.workspace = :workspace and c.id = k.value and c.live = 1",
            self._with(ids),
        )
        return [chunk_of(row) for row in in_order(rows, ids, by="id")]

    async def document_chunks(
        self, document_id: str, *, after: int = -1, limit: int = 100
    ) -> list[Chunk]:
        rows = await self._database.rows(
            f"select {CHUNK} from chunks c where c.workspace = :workspace"
            " and c.document_id = :document and c.position > :after and c.live = 1"
            " order by c.position, c.id limit :limit",
            {**self._with(), "document": document_id, "after": after, "limit": limit},
        )
        return [chunk_of(row) for row in rows]

    async def entities(self, keys: Sequence[str]) -> list[Entity]:
        rows = await self._database.rows(_ENTITIES, self._with(keys))
        return [entity_of(row) for row in in_order(rows, keys, by="key")]

    async def relations(self, keys: Sequence[str]) -> list[Relation]:
        rows = await self._database.rows(_RELATIONS, self._with(keys))
        return [relation_of(row) for row in in_order(rows, keys, by="key")]

    # --- by name ---------------------------------------------------------------------------------

    async def find(self, keys: Sequence[str], *, about: bool = False) -> dict[str, Entity]:
        narrowed = "and e.abouts > 0" if about else ""

        def work(connection: Connection) -> dict[str, Entity]:
            found = {
                row["key"]: entity_of(row)
                for row in connection.execute(f"{_ENTITIES} {narrowed}", self._with(keys))
            }
            by_alias = connection.execute(
                f"select k.value as alias, {ENTITY} from json_each(:keys) k"
                " cross join aliases a cross join entities e"
                " where a.workspace = :workspace and a.key = k.value and e.seq = a.entity"
                f" and e.mentions > 0 {narrowed} order by e.mentions desc, e.key",
                self._with([key for key in keys if key not in found]),
            )
            for row in by_alias:
                found.setdefault(row["alias"], entity_of(row))
            return {key: found[key] for key in unique(keys) if key in found}

        return await self._database.read(work)

    async def search(self, text: str, *, limit: int, after: str = "") -> list[Entity]:
        words = {f"w{n}": word for n, word in enumerate(text.casefold().split())}
        narrowed = "".join(f" and instr(e.words, :{name}) > 0" for name in words)
        if after:
            narrowed += (
                " and (-e.mentions, e.key) > (select -mentions, key from entities"
                " where workspace = :workspace and key = :after)"
            )
        # The index that leads by mentions has the words in it, so that rows are read only if shown.
        rows = await self._database.rows(
            f"select {ENTITY} from (select e.seq as found from entities e"
            f" indexed by entities_by_mentions where e.workspace = :workspace and e.mentions > 0"
            f" {narrowed} order by e.mentions desc, e.key limit :limit)"
            " cross join entities e where e.seq = found",
            {**self._with(), **words, "after": after, "limit": limit},
        )
        return [entity_of(row) for row in rows]

    # --- links -----------------------------------------------------------------------------------

    async def failed(self, document_id: str) -> dict[str, str]:
        rows = await self._database.rows(
            "select id, extraction ->> 'error' as why from chunks where workspace = :workspace"
            " and document_id = :document and live = 1 and failed = 1 order by position, id",
            {"workspace": self._workspace, "document": document_id},
        )
        return {row["id"]: row["why"] for row in rows}

    async def chunk_links(self, ids: Sequence[str]) -> list[ChunkLinks]:
        def work(connection: Connection) -> list[ChunkLinks]:
            entities: defaultdict[str, list[Row]] = defaultdict(list)
            relations: defaultdict[str, list[Row]] = defaultdict(list)
            for table, column, owner, extra, links in (
                ("mentions", "entity", "entities", "m.about", entities),
                ("assertions", "relation", "relations", "0", relations),
            ):
                for row in connection.execute(
                    f"select m.chunk_id, x.key, {extra} as about from json_each(:keys) k"
                    f" cross join chunks c cross join {table} m cross join {owner} x"
                    " where c.workspace = :workspace and c.id = k.value and m.chunk = c.seq"
                    f" and x.seq = m.{column} order by x.key",
                    self._with(ids),
                ):
                    links[row["chunk_id"]].append(row)
            chunks = connection.execute(
                "select c.id, c.document_id from json_each(:keys) k cross join chunks c"
                " where c.workspace = :workspace and c.id = k.value and c.live = 1",
                self._with(ids),
            )
            return [
                ChunkLinks(
                    row["id"], row["document_id"],
                    tuple(link["key"] for link in entities[row["id"]]),
                    tuple(link["key"] for link in relations[row["id"]]),
                    tuple(link["key"] for link in entities[row["id"]] if link["about"]),
                )
                for row in in_order(chunks, ids, by="id")
            ]  # fmt: skip

        return await self._database.read(work)

    async def entity_links(
        self, keys: Sequence[str], *, chunks: int, about: int,
        documents: Sequence[str] | None = None,
    ) -> list[EntityLinks]:  # fmt: skip
        rows = await self._database.rows(
            _ENTITY_LINKS,
            {**self._with(keys), **_only(documents), "chunks": chunks, "about": about},
        )
        links = [
            EntityLinks(
                row["key"], row["name"], row["mentions"],
                tuple(orjson.loads(row["chunks"])), tuple(orjson.loads(row["about"])),
            )
            for row in in_order(rows, keys, by="key")
        ]  # fmt: skip
        if documents is None:
            return links
        return [link for link in links if link.chunks or link.about]

    async def relations_of(
        self, keys: Sequence[str], *, per_entity: int, documents: Sequence[str] | None = None
    ) -> list[Relation]:
        among = _among(documents)

        def work(connection: Connection) -> list[Relation]:
            def counts(relation: Row) -> bool:
                if documents is None:
                    return True
                rows = connection.execute(
                    "select document_id from assertions where relation = ?", (relation["seq"],)
                )
                return next(among(rows), None) is not None

            found: dict[str, Relation] = {}
            for entity in self._by_key(connection, _ENTITIES, keys):
                rows = filter(counts, heaviest(connection, entity["seq"]))
                for row in islice(rows, per_entity):
                    found.setdefault(row["key"], relation_of(row))
            return list(found.values())

        return await self._database.read(work)

    async def heaviest(
        self, keys: Sequence[str], *, per_entity: int, documents: Sequence[str] | None = None
    ) -> dict[str, list[str]]:
        among = _among(documents)

        def work(connection: Connection) -> dict[str, list[str]]:
            def counts(seq: int) -> bool:
                rows = connection.execute(
                    "select document_id from assertions where relation = ?", (seq,)
                )
                return next(among(rows), None) is not None

            found = {}
            for row in connection.execute(
                "select e.seq, e.key from json_each(?) k cross join entities e"
                " where e.workspace = ? and e.key = k.value and e.mentions > 0",
                (listed(keys), self._workspace),
            ):
                relations = (
                    key
                    for seq, key in heaviest_keys(connection, row["seq"])
                    if documents is None or counts(seq)
                )
                if first := list(islice(relations, per_entity)):
                    found[row["key"]] = first
            return found

        return await self._database.read(work)

    async def relation_chunks(
        self, keys: Sequence[str], *, per_relation: int, documents: Sequence[str] | None = None
    ) -> dict[str, list[str]]:
        rows = await self._database.rows(
            _RELATION_CHUNKS, {**self._with(keys), **_only(documents), "chunks": per_relation}
        )
        found = {row["key"]: orjson.loads(row["chunks"]) for row in in_order(rows, keys, by="key")}
        return {key: ids for key, ids in found.items() if ids}

    # --- evidence --------------------------------------------------------------------------------

    async def evidence(
        self, refs: Sequence[Ref], *, limit: int = 64, documents: Sequence[str] | None = None
    ) -> list[Evidence]:
        among = _among(documents)

        def work(connection: Connection) -> list[Evidence]:
            found: dict[Ref, Evidence] = {}
            for kind, (table, column) in EVIDENCE.items():
                sql = _ENTITIES if kind is Kind.ENTITY else _RELATIONS
                keys = [ref.key for ref in refs if ref.kind is kind]
                for row in self._by_key(connection, sql, keys):
                    rows = connection.execute(
                        f"select description, document_id from {table}"
                        f" indexed by {table}_described"
                        f" where {column} = ? and description <> '' order by chunk_id",
                        (row["seq"],),
                    )
                    texts = tuple(one["description"] for one in islice(among(rows), limit))
                    if documents is not None and not texts:
                        continue
                    ref = Ref(kind, row["key"])
                    found[ref] = Evidence(
                        ref, _name(row), row["revision"], texts, row["described"],
                        row["profile"], row["covered"],
                    )  # fmt: skip
            return [found[ref] for ref in dict.fromkeys(refs) if ref in found]

        return await self._database.read(work)

    async def mentions(self, ref: Ref, *, after: str = "", limit: int = 50) -> list[Mention]:
        if ref.kind is Kind.CHUNK:
            return []
        sql = _MENTIONS if ref.kind is Kind.ENTITY else _ASSERTIONS
        rows = await self._database.rows(
            sql, {**self._with(), "key": ref.key, "after": after, "limit": limit}
        )
        return [Mention(*row) for row in rows]

    async def supported(self, kind: Kind, documents: Sequence[str], *, limit: int) -> list[str]:
        if kind is Kind.CHUNK:
            return []
        table, column = EVIDENCE[kind]
        # Chunks that are not visible have no evidence rows.
        rows = await self._database.rows(
            f"select distinct x.key from json_each(:keys) k cross join chunks c"
            f" cross join {table} m cross join {TABLES[kind]} x"
            " where c.workspace = :workspace and c.document_id = k.value and m.chunk = c.seq"
            f" and x.seq = m.{column} limit :limit",
            {**self._with(documents), "limit": limit},
        )
        return sorted(row["key"] for row in rows)

    async def subgraph(self, keys: Sequence[str], *, depth: int, limit: int) -> Subgraph:
        def work(connection: Connection) -> Subgraph:
            seeds = [row["seq"] for row in self._by_key(connection, _ENTITIES, keys)]
            walk, relations = neighbourhood(connection, seeds, depth=depth, limit=limit)
            entities = connection.execute(
                f"select {ENTITY} from json_each(:seqs) k cross join entities e"
                " where e.seq = k.value order by k.key",
                {"seqs": dump(list(walk.found))},
            )
            return Subgraph(
                tuple(map(entity_of, entities)),
                tuple(map(relation_of, self._by_key(connection, _RELATIONS, relations))),
                walk.truncated,
            )

        return await self._database.read(work)

    # --- inside a transaction --------------------------------------------------------------------

    def _with(self, keys: Sequence[str] = ()) -> dict[str, object]:
        return {"workspace": self._workspace, "keys": listed(keys)}

    def _by_key(self, connection: Connection, sql: str, keys: Sequence[str]) -> list[Row]:
        return in_order(connection.execute(sql, self._with(keys)).fetchall(), keys, by="key")


def _ids(table: str, which: str, limit: str) -> str:
    """Chunk ids as JSON. In one statement with what they hang on: a statement for each of some
    hundred entities costs twice as much."""
    return (
        f"(select json_group_array(chunk_id) from (select chunk_id from {table} where {which}"
        " and (:documents is null or document_id in (select value from json_each(:documents)))"
        f" order by chunk_id limit :{limit}))"
    )


_ENTITY_LINKS = (
    f"select e.key, e.name, e.mentions, {_ids('mentions', 'entity = e.seq', 'chunks')} as chunks,"
    f" {_ids('mentions indexed by mentions_about', 'entity = e.seq and about = 1', 'about')}"
    " as about from json_each(:keys) k cross join entities e"
    " where e.workspace = :workspace and e.key = k.value and e.mentions > 0"
)
_RELATION_CHUNKS = (
    f"select r.key, {_ids('assertions', 'relation = r.seq', 'chunks')} as chunks"
    " from json_each(:keys) k cross join relations r"
    " where r.workspace = :workspace and r.key = k.value and r.mentions > 0"
)
_MENTIONS = (
    "select m.chunk_id, m.document_id, m.name, m.kind, m.description"
    " from entities e cross join mentions m"
    " where e.workspace = :workspace and e.key = :key and m.entity = e.seq"
    " and m.chunk_id > :after order by m.chunk_id limit :limit"
)
_ASSERTIONS = (
    "select a.chunk_id, a.document_id, s.name || ' → ' || t.name, '', a.description"
    " from relations r cross join assertions a cross join entities s cross join entities t"
    " where r.workspace = :workspace and r.key = :key and a.relation = r.seq"
    " and s.workspace = :workspace and s.key = a.source"
    " and t.workspace = :workspace and t.key = a.target"
    " and a.chunk_id > :after order by a.chunk_id limit :limit"
)


def _only(documents: Sequence[str] | None) -> dict[str, str | None]:
    return {"documents": None if documents is None else listed(documents)}


def _among(documents: Sequence[str] | None) -> Callable[[Iterable[Row]], Iterator[Row]]:
    """Keeps rows of these documents, lazily, so that reading ends where the caller has enough."""
    if documents is None:
        return iter
    wanted = frozenset(documents)
    return lambda rows: (row for row in rows if row["document_id"] in wanted)


def _name(row: Row) -> str:
    if "name" in row.keys():  # noqa: SIM118  (a Row has no `in` by name)
        return str(row["name"])
    return relation_name(row["source_name"], row["target_name"])
