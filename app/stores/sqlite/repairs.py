"""What is counted, counted anew from the rows of evidence; rows, made anew from what chunks say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from sqlite3 import Connection, Row

from app.domain import Kind, Placement, Plan, Ref, State, Stats, relation_ends
from app.folding import (
    AssertionRow,
    EntityTally,
    MentionRow,
    Places,
    alias_keys,
    collate,
    name_keys,
    surfaces_json,
    surfaces_of,
)
from app.holdings import HeldAssertion, HeldMention, JobFault
from app.stores.counts import EntityCount, RelationCount
from app.stores.records import dump, extraction_of, strength, thousandths, worker_lost
from app.stores.sqlite.communities import take_back
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.jobs import close_job
from app.stores.sqlite.placements import count_names, placements_of
from app.stores.sqlite.rows import EVIDENCE, TABLES, listed

_LIVE = "exists (select 1 from chunks c where c.seq = m.chunk and c.live = 1)"
_MENTION = (
    "m.chunk_id, m.document_id, e.key, m.name, m.kind, m.description, m.aliases, m.alias_keys,"
    " m.about, m.surfaces"
)
_ASSERTION = (
    "m.chunk_id, m.document_id, r.key, m.source, m.target, m.description, m.keywords, m.strength"
)
# What changed is profiled and indexed again: `shrunk` refuses profiles of before. What a model's
# summary covers is what it was, unless a description went.
_TOUCHED = """
    revision = revision + 1, evidenced = revision + 1, shrunk = revision + 1,
    profile = case when :mentions = 0 then '' else profile end,
    digest = case when :mentions = 0 then '' else digest end
"""


class SqliteRepairs:
    """Implements `app.ports.Repairs`."""

    def __init__(self, database: SqliteDatabase, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    # --- reading ---------------------------------------------------------------------------------

    async def told_of(
        self, kind: Kind, keys: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        bound = {"workspace": self._workspace, "keys": listed(keys)}

        def work(connection: Connection) -> tuple[list[HeldMention], list[HeldAssertion]]:
            if kind is Kind.ENTITY:
                rows = connection.execute(
                    f"select {_MENTION} from json_each(:keys) k cross join entities e"
                    " cross join mentions m where e.workspace = :workspace and e.key = k.value"
                    f" and m.entity = e.seq and {_LIVE}",
                    bound,
                )
                return [mention_of(row) for row in rows], []
            rows = connection.execute(
                f"select {_ASSERTION} from json_each(:keys) k cross join relations r"
                " cross join assertions m where r.workspace = :workspace and r.key = k.value"
                f" and m.relation = r.seq and {_LIVE}",
                bound,
            )
            return [], [assertion_of(row) for row in rows]

        return await self._database.read(work)

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        rows = await self._database.rows(
            "select e.key, (select count(*) from relations r where r.mentions > 0"
            " and r.source = e.seq) + (select count(*) from relations r where r.mentions > 0"
            " and r.target = e.seq) as degree from json_each(:keys) k cross join entities e"
            " where e.workspace = :workspace and e.key = k.value",
            {"workspace": self._workspace, "keys": listed(keys)},
        )
        return {row["key"]: row["degree"] for row in rows}

    async def placements_of(self, names: Sequence[str]) -> list[Placement]:
        return await self._database.read(
            lambda connection: list(placements_of(connection, self._workspace, set(names)))
        )

    async def strays(self) -> list[Ref]:
        def work(connection: Connection) -> list[Ref]:
            return [
                Ref(kind, row["key"])
                for kind, (evidence, column) in EVIDENCE.items()
                for row in connection.execute(
                    f"select distinct x.key from {TABLES[kind]} x cross join {evidence} m"
                    f" where x.workspace = ? and m.{column} = x.seq and not {_LIVE}",
                    (self._workspace,),
                )
            ]

        return await self._database.read(work)

    async def counted(self) -> Stats:
        rows = await self._database.rows(_COUNTED, {"workspace": self._workspace})
        return Stats(*rows[0])

    # --- mending ---------------------------------------------------------------------------------

    async def refold(self, chunk_ids: Sequence[str]) -> None:
        def work(connection: Connection) -> None:
            chunks = connection.execute(
                "select c.seq, c.id, c.document_id, c.extraction from json_each(:ids) i"
                " cross join chunks c where c.workspace = :workspace and c.id = i.value"
                " and c.live = 1 and c.extraction is not null",
                {"workspace": self._workspace, "ids": listed(chunk_ids)},
            ).fetchall()
            touched: set[Ref] = set()
            said = self._described(connection, chunks)
            for chunk in chunks:
                touched |= self._drop_rows(connection, chunk["seq"])
                touched |= self._add_rows(connection, chunk)
                connection.execute("update chunks set folded = 1 where seq = ?", (chunk["seq"],))
            self._recount(connection, touched)
            owners = [ref.key for ref in touched if ref.kind is Kind.ENTITY]
            take_back(connection, self._seqs(connection, Kind.ENTITY, owners).values())
            lost = said - self._described(connection, chunks)
            for kind, table in TABLES.items():
                connection.executemany(
                    f"update {table} set covered = 0 where workspace = ? and key = ?",
                    {(self._workspace, ref.key) for ref, _ in lost if ref.kind is kind},
                )

        await self._database.write(work)

    async def recount(self, refs: Sequence[Ref]) -> None:
        await self._database.write(lambda connection: self._recount(connection, refs))

    async def recount_names(self, keys: Sequence[str]) -> None:
        def work(connection: Connection) -> None:
            bound = {"workspace": self._workspace, "keys": listed(keys)}
            wanted = set(keys)
            surfaces = [
                surface
                for row in connection.execute(_SURFACES, {"workspace": self._workspace})
                for surface in surfaces_of(row["surfaces"])
                if surface.key in wanted
            ]
            connection.execute(
                "update names set tally = '{}', mentions = 0 where workspace = :workspace"
                " and key in (select value from json_each(:keys))",
                bound,
            )
            count_names(connection, self._workspace, [], surfaces)
            connection.execute(
                "update names set facts = '', revision = revision + 1 where workspace = :workspace"
                " and key in (select value from json_each(:keys)) and mentions = 0 and facts <> ''",
                bound,
            )

        await self._database.write(work)

    async def recount_totals(self) -> None:
        def work(connection: Connection) -> None:
            counted = connection.execute(_COUNTED, {"workspace": self._workspace}).fetchone()
            connection.execute(
                "insert or replace into totals (workspace, documents, chunks, entities, relations)"
                " values (?, ?, ?, ?, ?)",
                (self._workspace, *counted),
            )
            connection.execute(
                "update documents set chunks = (select count(*) from chunks c"
                " where c.workspace = documents.workspace and c.document_id = documents.id"
                " and c.live = 1) where workspace = ?",
                (self._workspace,),
            )
            connection.execute(  # of entities that were lost
                "delete from aliases where workspace = ? and not exists ("
                " select 1 from entities e where e.seq = aliases.entity)",
                (self._workspace,),
            )

        await self._database.write(work)

    def _described(
        self, connection: Connection, chunks: Sequence[Row]
    ) -> set[tuple[Ref, tuple[str, str]]]:
        """What these chunks say of entities and relations, as counted: (chunk, description)."""
        bound = {"seqs": dump([chunk["seq"] for chunk in chunks])}
        return {
            (Ref(kind, row["key"]), (row["chunk_id"], row["description"]))
            for kind, (evidence, column) in EVIDENCE.items()
            for row in connection.execute(
                f"select x.key, m.chunk_id, m.description from json_each(:seqs) s cross join"
                f" {evidence} m cross join {TABLES[kind]} x where m.chunk = s.value"
                f" and x.seq = m.{column} and m.description <> ''",
                bound,
            )
        }

    def _drop_rows(self, connection: Connection, chunk: int) -> set[Ref]:
        owners = set()
        for kind, (evidence, column) in EVIDENCE.items():
            for row in connection.execute(
                f"select x.key from {evidence} m cross join {TABLES[kind]} x"
                f" where m.chunk = ? and x.seq = m.{column}",
                (chunk,),
            ):
                owners.add(Ref(kind, row["key"]))
            connection.execute(f"delete from {evidence} where chunk = ?", (chunk,))
        return owners

    def _add_rows(self, connection: Connection, chunk: Row) -> set[Ref]:
        extraction = extraction_of(chunk["extraction"])
        places = Places(placements_of(connection, self._workspace, name_keys(extraction)))
        mentions, assertions = collate(extraction, places, chunk["document_id"])
        seqs = self._seqs(connection, Kind.ENTITY, [row.key for row in mentions])
        connection.executemany(
            "insert into mentions (entity, chunk_id, chunk, document_id, name, kind, description,"
            " aliases, alias_keys, about, surfaces) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    seqs[row.key], chunk["id"], chunk["seq"], chunk["document_id"], row.name,
                    row.kind, row.description, dump(row.aliases), dump(alias_keys(row)), row.about,
                    surfaces_json(row),
                )
                for row in mentions
            ],
        )  # fmt: skip
        seqs = self._seqs(connection, Kind.RELATION, [row.key for row in assertions])
        connection.executemany(
            "insert into assertions (relation, chunk_id, chunk, document_id, source, target,"
            " description, keywords, strength) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    seqs[row.key], chunk["id"], chunk["seq"], chunk["document_id"], row.source,
                    row.target, row.description, dump(row.keywords), thousandths(row.strength),
                )
                for row in assertions
            ],
        )  # fmt: skip
        return {
            *(Ref(Kind.ENTITY, row.key) for row in mentions),
            *(Ref(Kind.RELATION, row.key) for row in assertions),
        }

    def _seqs(self, connection: Connection, kind: Kind, keys: Iterable[str]) -> dict[str, int]:
        """Rows of these keys, made where there are none."""
        found = {}
        for key in keys:
            if kind is Kind.ENTITY:
                connection.execute(
                    "insert or ignore into entities (workspace, key) values (?, ?)",
                    (self._workspace, key),
                )
            else:
                ends = self._seqs(connection, Kind.ENTITY, relation_ends(key))
                connection.execute(
                    "insert into relations (workspace, key, source, target) values (?, ?, ?, ?)"
                    " on conflict (workspace, key) do update set"
                    " source = excluded.source, target = excluded.target",
                    (self._workspace, key, *(ends[end] for end in relation_ends(key))),
                )
            [found[key]] = connection.execute(
                f"select seq from {TABLES[kind]} where workspace = ? and key = ?",
                (self._workspace, key),
            ).fetchone()
        return found

    def _recount(self, connection: Connection, refs: Iterable[Ref]) -> None:
        relations = {ref.key for ref in refs if ref.kind is Kind.RELATION}
        entities = {ref.key for ref in refs if ref.kind is Kind.ENTITY}
        for key in sorted(relations):
            self._recount_relation(connection, key)
            entities.update(relation_ends(key))
        for key in sorted(entities):
            self._recount_entity(connection, key)

    def _recount_relation(self, connection: Connection, key: str) -> None:
        seq = self._seqs(connection, Kind.RELATION, [key])[key]
        strays = connection.execute(
            f"delete from assertions as m where relation = ? and not {_LIVE}", (seq,)
        ).rowcount
        if strays:
            ends = self._seqs(connection, Kind.ENTITY, relation_ends(key))
            take_back(connection, ends.values())
        count = RelationCount(tally={}, weight=0, mentions=0, described=0)
        for row in connection.execute(
            f"select {_ASSERTION} from assertions m cross join relations r"
            " where m.relation = ? and r.seq = m.relation",
            (seq,),
        ):
            count.count(assertion_of(row).row, 1)
        connection.execute(
            "update relations set keywords = :keywords, keywords_tally = :tally, weight = :weight,"
            f" mentions = :mentions, described = :described, {_TOUCHED} where seq = :seq",
            {
                "seq": seq, "keywords": dump(count.keywords), "tally": dump(count.tally),
                "weight": count.weight, "mentions": count.mentions, "described": count.described,
            },
        )  # fmt: skip

    def _recount_entity(self, connection: Connection, key: str) -> None:
        seq = self._seqs(connection, Kind.ENTITY, [key])[key]
        strays = connection.execute(
            f"delete from mentions as m where entity = ? and not {_LIVE}", (seq,)
        ).rowcount
        [mentioned] = connection.execute(
            "select mentions from entities where seq = ?", (seq,)
        ).fetchone()
        count = EntityCount(
            name="", tally=EntityTally({}, {}, {}), mentions=0, described=0, abouts=0, degree=0
        )
        aliases: Counter[str] = Counter()
        for row in connection.execute(
            f"select {_MENTION} from mentions m cross join entities e"
            " where m.entity = ? and e.seq = m.entity",
            (seq,),
        ):
            held = mention_of(row)
            count.count(held.row, 1)
            aliases.update(held.alias_keys)
        connection.execute(
            "update entities set name = :name, kind = :kind, aliases = :aliases, words = :words,"
            " names_tally = :names, kinds_tally = :kinds, aliases_tally = :stated,"
            " mentions = :mentions, described = :described, abouts = :abouts,"
            " degree = (select count(*) from relations r where r.mentions > 0"
            "  and (r.source = :seq or r.target = :seq)),"
            f" {_TOUCHED} where seq = :seq",
            {
                "seq": seq, "name": count.tally.name, "kind": count.tally.kind,
                "aliases": dump(count.tally.shown_aliases), "words": count.words,
                "names": dump(count.tally.names), "kinds": dump(count.tally.kinds),
                "stated": dump(count.tally.aliases), "mentions": count.mentions,
                "described": count.described, "abouts": count.abouts,
            },
        )  # fmt: skip
        if strays or count.mentions < mentioned:
            take_back(connection, [seq])
        connection.execute(
            "delete from aliases where workspace = ? and entity = ?", (self._workspace, seq)
        )
        connection.executemany(
            "insert into aliases (workspace, key, entity, count) values (?, ?, ?, ?)",
            [(self._workspace, alias, seq, times) for alias, times in aliases.items()],
        )
        # Texts of its relations have its name.
        connection.execute(
            "update relations set revision = revision + 1, renamed = revision + 1,"
            " profiled = profiled + (profiled = revision)"
            " where (source = :seq or target = :seq) and mentions > 0",
            {"seq": seq},
        )

    # --- journal ---------------------------------------------------------------------------------

    async def job_faults(self) -> list[JobFault]:
        def work(connection: Connection) -> list[JobFault]:
            bound = {"workspace": self._workspace}
            return [
                JobFault(row["kind"], row["id"], row["document_id"], Plan(row["plan"]))
                for row in connection.execute(_FAULTS, bound)
            ]

        return await self._database.read(work)

    async def mend_job(self, fault: JobFault) -> None:
        def work(connection: Connection) -> None:
            now = self._database.clock()
            if fault.kind == "ended":
                connection.execute("delete from steps where job_id = ?", (fault.id,))
            elif fault.kind == "stepless":
                lost = worker_lost(0, "")
                close_job(connection, fault.id, State.FAILED, now, error=lost)
            else:
                connection.execute(
                    "insert or ignore into jobs (id, workspace, plan, document_id, latest, state,"
                    " status, stage, created_at, updated_at)"
                    " select d.job_id, d.workspace, 'ingest', d.id, 1,"
                    " case when d.pending is null then 'done' else 'failed' end,"
                    " case when d.pending is null then 'ready' else 'failed' end, '', :now, :now"
                    " from documents d where d.workspace = :workspace and d.id = :document",
                    {
                        "workspace": self._workspace, "document": fault.document_id, "now": now,
                    },
                )  # fmt: skip

        await self._database.write(work, durable=True)


_COUNTED = """
    select
        (select count(*) from documents where workspace = :workspace and live is not null),
        (select count(*) from chunks where workspace = :workspace and live = 1),
        (select count(*) from entities where workspace = :workspace and mentions > 0),
        (select count(*) from relations where workspace = :workspace and mentions > 0)
"""
_SURFACES = """
    select m.surfaces from entities e cross join mentions m cross join chunks c
    where e.workspace = :workspace and m.entity = e.seq and c.seq = m.chunk and c.live = 1
"""
_FAULTS = """
    select 'stepless' as kind, j.id, j.document_id, j.plan from jobs j
    where j.workspace = :workspace and j.state in ('queued', 'running')
        and not exists (select 1 from steps s where s.job_id = j.id)
    union all
    select distinct 'ended', j.id, j.document_id, j.plan from steps s cross join jobs j
    where j.id = s.job_id and j.workspace = :workspace and j.state not in ('queued', 'running')
    union all
    select 'jobless', d.job_id, d.id, 'ingest' from documents d
    where d.workspace = :workspace and not exists (select 1 from jobs j where j.id = d.job_id)
"""


def mention_of(row: Row) -> HeldMention:
    mention = MentionRow(
        row["key"], row["name"], row["kind"], row["description"],
        tuple(json.loads(row["aliases"])), bool(row["about"]), surfaces_of(row["surfaces"]),
    )  # fmt: skip
    keys = tuple(json.loads(row["alias_keys"]))
    return HeldMention(row["chunk_id"], row["document_id"], mention, keys)


def assertion_of(row: Row) -> HeldAssertion:
    assertion = AssertionRow(
        row["key"], row["source"], row["target"], row["description"],
        tuple(json.loads(row["keywords"])), strength(row["strength"]),
    )  # fmt: skip
    return HeldAssertion(row["chunk_id"], row["document_id"], assertion)
