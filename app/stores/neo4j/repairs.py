"""What is counted, counted anew from evidence; evidence, made anew from what chunks say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

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
from app.stores.neo4j.communities import take_back
from app.stores.neo4j.database import Again, Database, Row, Transaction
from app.stores.neo4j.jobs import close_job
from app.stores.neo4j.placements import count_names, lock_names, placements_of
from app.stores.neo4j.tallies import (
    lock_entities,
    lock_relations,
    note_renamed,
    put_entities,
    put_relations,
)
from app.stores.records import extraction_of, strength, thousandths, unique, worker_lost


class Neo4jRepairs:
    """Implements `app.ports.Repairs`."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    # --- reading ---------------------------------------------------------------------------------

    async def told_of(
        self, kind: Kind, keys: Sequence[str]
    ) -> tuple[list[HeldMention], list[HeldAssertion]]:
        async def work(tx: Transaction) -> tuple[list[HeldMention], list[HeldAssertion]]:
            if kind is Kind.ENTITY:
                return [mention_of(row) for row in await self._mentions(tx, keys)], []
            return [], [assertion_of(row) for row in await self._assertions(tx, keys)]

        return await self._database.transaction(work)

    async def degrees(self, keys: Sequence[str]) -> dict[str, int]:
        rows = await self._database.read(
            """
            UNWIND $keys AS key
            MATCH (e:Entity {workspace: $workspace, key: key})
            RETURN key, COUNT { (e)-[r:RELATES]-() WHERE r.mentions > 0 } AS degree
            """,
            workspace=self._workspace, keys=unique(keys),
        )  # fmt: skip
        return {row["key"]: row["degree"] for row in rows}

    async def placements_of(self, names: Sequence[str]) -> list[Placement]:
        async def work(tx: Transaction) -> list[Placement]:
            return sorted(await placements_of(tx, self._workspace, names))

        return await self._database.transaction(work)

    async def strays(self) -> list[Ref]:
        rows = await self._database.read(
            """
            MATCH (c:Chunk) WHERE c.workspace = $workspace AND c.id IS NOT NULL AND NOT c.live
            MATCH (c)-[m:MENTIONS|STATES]->(e)
            RETURN DISTINCT type(m) AS type,
                CASE type(m) WHEN 'MENTIONS' THEN e.key ELSE m.relation END AS key
            """,
            workspace=self._workspace,
        )
        kinds = {"MENTIONS": Kind.ENTITY, "STATES": Kind.RELATION}
        return [Ref(kinds[row["type"]], row["key"]) for row in rows]

    async def counted(self) -> Stats:
        [row] = await self._database.read(
            """
            CALL () { MATCH (d:Document) WHERE d.workspace = $workspace AND d.id IS NOT NULL
                AND d.live IS NOT NULL RETURN count(d) AS documents }
            CALL () { MATCH (c:Chunk) WHERE c.workspace = $workspace AND c.id IS NOT NULL
                AND c.live RETURN count(c) AS chunks }
            CALL () { MATCH (e:Entity) WHERE e.workspace = $workspace AND e.key IS NOT NULL
                AND e.mentions > 0 RETURN count(e) AS entities }
            CALL () { MATCH ()-[r:RELATES]->() WHERE r.workspace = $workspace
                AND r.key IS NOT NULL AND r.mentions > 0 RETURN count(r) AS relations }
            RETURN documents, chunks, entities, relations
            """,
            workspace=self._workspace,
        )
        return Stats(**row)

    # --- mending ---------------------------------------------------------------------------------

    async def refold(self, chunk_ids: Sequence[str]) -> None:
        async def work(tx: Transaction) -> None:
            chunks = await tx.run(
                """
                UNWIND $ids AS id
                MATCH (c:Chunk {workspace: $workspace, id: id}) SET c.locked = true
                WITH c WHERE c.live AND c.extraction IS NOT NULL
                SET c.folded = true
                RETURN c.id AS id, c.document_id AS document_id, c.extraction AS extraction
                """,
                workspace=self._workspace, ids=sorted(set(chunk_ids)),
            )  # fmt: skip
            ids = [chunk["id"] for chunk in chunks]
            said = await self._described(tx, ids)
            touched = await self._drop(tx, ids)
            for chunk in chunks:
                touched |= await self._add(tx, chunk)
            await self._recount(tx, touched)
            owners = [ref.key for ref in touched if ref.kind is Kind.ENTITY]
            await take_back(tx, self._workspace, owners)
            lost = said - await self._described(tx, ids)
            await self._cover(tx, {ref: 0 for ref, _ in lost})

        await self._database.transaction(work)

    async def recount(self, refs: Sequence[Ref]) -> None:
        await self._database.transaction(lambda tx: self._recount(tx, refs))

    async def recount_names(self, keys: Sequence[str]) -> None:
        async def work(tx: Transaction) -> None:
            await lock_names(tx, self._workspace, keys)
            rows = await tx.run(
                """
                MATCH (c:Chunk)-[m:MENTIONS]->()
                WHERE c.workspace = $workspace AND c.id IS NOT NULL AND c.live
                    AND any(name IN m.names WHERE name IN $keys)
                RETURN m.surfaces AS surfaces
                """,
                workspace=self._workspace, keys=unique(keys),
            )  # fmt: skip
            wanted = set(keys)
            surfaces = [
                surface
                for row in rows
                for surface in surfaces_of(row["surfaces"])
                if surface.key in wanted
            ]
            await tx.run(
                """
                UNWIND $keys AS key
                MATCH (n:Name {workspace: $workspace, key: key})
                SET n.tally = '{}', n.mentions = 0
                """,
                workspace=self._workspace, keys=unique(keys),
            )  # fmt: skip
            await count_names(tx, self._workspace, [], surfaces)
            await tx.run(
                """
                UNWIND $keys AS key
                MATCH (n:Name {workspace: $workspace, key: key})
                WHERE n.mentions = 0 AND n.facts <> ''
                SET n.facts = '', n.revision = n.revision + 1, n.open = true
                """,
                workspace=self._workspace, keys=unique(keys),
            )  # fmt: skip

        await self._database.transaction(work)

    async def recount_totals(self) -> None:
        counted = await self.counted()
        await self._database.write(
            """
            MERGE (first:Total {workspace: $workspace, part: 0})
            WITH first
            OPTIONAL MATCH (t:Total) WHERE t.workspace = $workspace AND t.part > 0
            SET t.documents = 0, t.chunks = 0, t.entities = 0, t.relations = 0
            WITH DISTINCT first
            SET first.documents = $documents, first.chunks = $chunks, first.entities = $entities,
                first.relations = $relations
            """,
            workspace=self._workspace, documents=counted.documents, chunks=counted.chunks,
            entities=counted.entities, relations=counted.relations,
        )  # fmt: skip

    async def _drop(self, tx: Transaction, ids: Sequence[str]) -> set[Ref]:
        rows = await tx.run(
            """
            UNWIND $ids AS id
            MATCH (:Chunk {workspace: $workspace, id: id})-[m:MENTIONS|STATES]->(e)
            WITH m, m.relation AS relation, e.key AS entity
            DELETE m
            RETURN DISTINCT relation, entity
            """,
            workspace=self._workspace, ids=ids,
        )  # fmt: skip
        return {
            Ref(Kind.RELATION, row["relation"])
            if row["relation"]
            else Ref(Kind.ENTITY, row["entity"])
            for row in rows
        }

    async def _add(self, tx: Transaction, chunk: Row) -> set[Ref]:
        extraction = extraction_of(chunk["extraction"])
        names = name_keys(extraction)
        placements = await placements_of(tx, self._workspace, names)
        mentions, assertions = collate(extraction, Places(placements), chunk["document_id"])
        where = {"chunk": chunk["id"], "document": chunk["document_id"]}
        await lock_entities(tx, self._workspace, {row.key for row in mentions})
        if await placements_of(tx, self._workspace, names) != placements:  # as a fold does
            raise Again
        await tx.run(
            """
            MATCH (c:Chunk {workspace: $workspace, id: $chunk})
            CALL (c) {
                UNWIND $mentions AS row
                MATCH (e:Entity {workspace: $workspace, key: row.entity})
                CREATE (c)-[m:MENTIONS]->(e) SET m = row, m.workspace = $workspace
            }
            CALL (c) {
                UNWIND $assertions AS row
                MATCH (e:Entity {workspace: $workspace, key: row.source})
                CREATE (c)-[s:STATES]->(e) SET s = row, s.workspace = $workspace
            }
            """,
            workspace=self._workspace, chunk=chunk["id"],
            mentions=[{**where, **_mention(row, chunk["id"])} for row in mentions],
            assertions=[{**where, **_assertion(row, chunk["id"])} for row in assertions],
        )  # fmt: skip
        return {
            *(Ref(Kind.ENTITY, row.key) for row in mentions),
            *(Ref(Kind.RELATION, row.key) for row in assertions),
        }

    async def _recount(self, tx: Transaction, refs: Iterable[Ref]) -> None:
        relations = sorted({ref.key for ref in refs if ref.kind is Kind.RELATION})
        ends = {end for key in relations for end in relation_ends(key)}
        entities = sorted(ends | {ref.key for ref in refs if ref.kind is Kind.ENTITY})
        totals = await lock_entities(tx, self._workspace, entities)
        lost = await self._strayed(tx, entities, relations)
        before = {key: total.mentions for key, total in totals.items()}
        await self._recount_relations(tx, relations)
        held = [mention_of(row) for row in await self._mentions(tx, entities, mend=True)]
        degrees = await tx.run(
            """
            UNWIND $keys AS key
            MATCH (e:Entity {workspace: $workspace, key: key})
            RETURN key, COUNT { (e)-[r:RELATES]-() WHERE r.mentions > 0 } AS degree
            """,
            workspace=self._workspace, keys=entities,
        )  # fmt: skip
        degree = {row["key"]: row["degree"] for row in degrees}
        aliases: Counter[tuple[str, str]] = Counter()
        for key, total in totals.items():
            total.tally, total.lost = EntityTally({}, {}, {}), True
            total.mentions = total.described = total.abouts = 0
            total.degree = degree[key]
        for one in held:
            totals[one.row.key].count(one.row, 1)
            aliases.update((alias, one.row.key) for alias in one.alias_keys)
        await put_entities(tx, self._workspace, totals.values())
        await self._cover(
            tx, {Ref(Kind.ENTITY, one.key): one.progress.covered for one in totals.values()}
        )
        await self._put_aliases(tx, entities, aliases)
        for total in totals.values():
            total.name = total.name or " "  # whatever it was called: relations show it
        await note_renamed(tx, self._workspace, totals.values(), relations)
        lost |= {key for key, total in totals.items() if total.mentions < before[key]}
        await take_back(tx, self._workspace, sorted(lost))

    async def _strayed(
        self, tx: Transaction, entities: Sequence[str], relations: Sequence[str]
    ) -> set[str]:
        """Entities with evidence by chunks that are not visible, of their own or of relations."""
        rows = await tx.run(
            """
            CALL () {
                UNWIND $entities AS key
                MATCH (:Entity {workspace: $workspace, key: key})<-[:MENTIONS]-(c)
                WHERE NOT c.live
                RETURN collect(DISTINCT key) AS own
            }
            CALL () {
                UNWIND $relations AS key
                MATCH (c)-[s:STATES]->() USING INDEX SEEK s:STATES(workspace, relation, chunk)
                WHERE s.workspace = $workspace AND s.relation = key AND s.chunk IS NOT NULL
                    AND NOT c.live
                RETURN collect(DISTINCT key) AS theirs
            }
            RETURN own, theirs
            """,
            workspace=self._workspace, entities=list(entities), relations=list(relations),
        )  # fmt: skip
        return {*rows[0]["own"], *(end for key in rows[0]["theirs"] for end in relation_ends(key))}

    async def _recount_relations(self, tx: Transaction, keys: Sequence[str]) -> None:
        await tx.run(
            """
            UNWIND $rows AS row
            MATCH (s)-[r:RELATES {workspace: $workspace, key: row[0]}]->(t)
            WHERE s.key <> row[1] OR t.key <> row[2]
            DELETE r
            """,
            workspace=self._workspace, rows=[[key, *relation_ends(key)] for key in keys],
        )  # fmt: skip
        totals = await lock_relations(tx, self._workspace, keys)
        for total in totals.values():
            total.tally, total.lost = {}, True
            total.weight = total.mentions = total.described = 0
        for row in await self._assertions(tx, keys, mend=True):
            totals[row["relation"]].count(assertion_of(row).row, 1)
        await put_relations(tx, self._workspace, list(totals.values()))
        await self._cover(
            tx, {Ref(Kind.RELATION, one.key): one.progress.covered for one in totals.values()}
        )

    async def _described(
        self, tx: Transaction, ids: Sequence[str]
    ) -> set[tuple[Ref, tuple[str, str]]]:
        """What these chunks say of entities and relations, as counted: (chunk, description)."""
        rows = await tx.run(
            """
            UNWIND $ids AS id
            MATCH (:Chunk {workspace: $workspace, id: id})-[m:MENTIONS|STATES]->(e)
            WHERE m.description <> ''
            RETURN id, m.relation AS relation, e.key AS entity, m.description AS description
            """,
            workspace=self._workspace, ids=ids,
        )  # fmt: skip
        return {
            (
                Ref(Kind.RELATION, row["relation"])
                if row["relation"]
                else Ref(Kind.ENTITY, row["entity"]),
                (row["id"], row["description"]),
            )
            for row in rows
        }

    async def _cover(self, tx: Transaction, covered: Mapping[Ref, int]) -> None:
        """How much evidence a model's summary covers: what it was, unless a description went."""
        rows = {
            kind.value: [[ref.key, n] for ref, n in sorted(covered.items()) if ref.kind is kind]
            for kind in (Kind.ENTITY, Kind.RELATION)
        }
        await tx.run(
            """
            CALL () {
                UNWIND $rows.entity AS row
                MATCH (e:Entity {workspace: $workspace, key: row[0]}) SET e.covered = row[1]
            }
            CALL () {
                UNWIND $rows.relation AS row
                MATCH ()-[r:RELATES {workspace: $workspace, key: row[0]}]->()
                SET r.covered = row[1]
            }
            """,
            workspace=self._workspace, rows=rows,
        )  # fmt: skip

    async def _mentions(
        self, tx: Transaction, keys: Sequence[str], *, mend: bool = False
    ) -> list[Row]:
        if mend:
            await tx.run(
                """
                UNWIND $keys AS key
                MATCH (:Entity {workspace: $workspace, key: key})<-[m:MENTIONS]-(c)
                WHERE NOT c.live
                DELETE m
                """,
                workspace=self._workspace, keys=keys,
            )  # fmt: skip
        rows = await tx.run(
            """
            UNWIND $keys AS key
            MATCH (e:Entity {workspace: $workspace, key: key})<-[m:MENTIONS]-(c) WHERE c.live
            RETURN m {.*, key: key} AS m
            """,
            workspace=self._workspace, keys=keys,
        )  # fmt: skip
        return [row["m"] for row in rows]

    async def _assertions(
        self, tx: Transaction, keys: Sequence[str], *, mend: bool = False
    ) -> list[Row]:
        rows = await tx.run(
            """
            UNWIND $keys AS key
            MATCH (c)-[s:STATES]->() USING INDEX SEEK s:STATES(workspace, relation, chunk)
            WHERE s.workspace = $workspace AND s.relation = key AND s.chunk IS NOT NULL
            WITH c, s, c.live AS live, properties(s) AS row
            FOREACH (_ IN CASE WHEN $mend AND NOT live THEN [1] ELSE [] END | DELETE s)
            WITH live, row WHERE live
            RETURN row
            """,
            workspace=self._workspace, keys=keys, mend=mend,
        )  # fmt: skip
        return [row["row"] for row in rows]

    async def _put_aliases(
        self, tx: Transaction, entities: Sequence[str], counts: Counter[tuple[str, str]]
    ) -> None:
        await tx.run(
            """
            UNWIND $keys AS key
            MATCH (a:Alias)-[n:NAMES]->(:Entity {workspace: $workspace, key: key})
            DELETE n
            WITH DISTINCT a WHERE NOT EXISTS { (a)-[:NAMES]->() }
            DELETE a
            """,
            workspace=self._workspace, keys=entities,
        )  # fmt: skip
        await tx.run(
            """
            UNWIND $rows AS row
            MERGE (a:Alias {workspace: $workspace, key: row.alias})
            SET a.locked = true, a.name = row.alias
            WITH a, row
            MATCH (e:Entity {workspace: $workspace, key: row.entity})
            MERGE (a)-[n:NAMES]->(e) SET n.count = row.count
            """,
            workspace=self._workspace,
            rows=[
                {"alias": alias, "entity": entity, "count": count}
                for (alias, entity), count in sorted(counts.items())
            ],
        )

    # --- journal ---------------------------------------------------------------------------------

    async def job_faults(self) -> list[JobFault]:
        rows = await self._database.read(
            """
            CALL () {
                MATCH (j:Job) USING INDEX SEEK j:Job(workspace, state, order)
                WHERE j.workspace = $workspace AND j.state IN ['queued', 'running']
                    AND j.order IS NOT NULL AND NOT EXISTS { (j)-[:HAS_STEP]->() }
                RETURN 'stepless' AS kind, j.id AS id, j.document_id AS document, j.plan AS plan
              UNION
                MATCH (s:Step) USING INDEX SEEK s:Step(overdue_at) WHERE s.overdue_at > 0
                MATCH (j:Job)-[:HAS_STEP]->(s) WHERE j.workspace = $workspace
                    AND NOT j.state IN ['queued', 'running']
                RETURN DISTINCT 'ended' AS kind, j.id AS id, j.document_id AS document,
                    j.plan AS plan
              UNION
                MATCH (d:Document) WHERE d.workspace = $workspace AND d.id IS NOT NULL
                    AND NOT EXISTS { MATCH (:Job {id: d.job_id}) }
                RETURN 'jobless' AS kind, d.job_id AS id, d.id AS document, 'ingest' AS plan
            }
            RETURN kind, id, document, plan ORDER BY kind, id
            """,
            workspace=self._workspace,
        )
        return [
            JobFault(row["kind"], row["id"], row["document"], Plan(row["plan"])) for row in rows
        ]

    async def mend_job(self, fault: JobFault) -> None:
        async def work(tx: Transaction) -> None:
            if fault.kind == "ended":
                await tx.run("MATCH (:Job {id: $id})-[:HAS_STEP]->(s) DETACH DELETE s", id=fault.id)
            elif fault.kind == "stepless":
                lost = worker_lost(0, "")
                await close_job(tx, self._workspace, fault.id, State.FAILED, lost)
            else:
                await self._replace_job(tx, fault)

        await self._database.transaction(work)

    async def _replace_job(self, tx: Transaction, fault: JobFault) -> None:
        await tx.run(
            """
            MATCH (d:Document {workspace: $workspace, id: $document}) SET d.locked = true
            MERGE (j:Job {id: d.job_id})
            ON CREATE SET j.name = 'ingest', j.workspace = $workspace, j.plan = 'ingest',
                j.document_id = $document, j.latest_of = $document, j.stage = '',
                j.state = CASE WHEN d.pending IS NULL THEN 'done' ELSE 'failed' END,
                j.status = CASE WHEN d.pending IS NULL THEN 'ready' ELSE 'failed' END,
                j.done = 0, j.total = 0, j.attempts = 0, j.created_at = timestamp(),
                j.updated_at = timestamp(), j.order = timestamp() * 1000000
            MERGE (d)-[:HAS_JOB]->(j)
            """,
            workspace=self._workspace, document=fault.document_id,
        )  # fmt: skip


def _mention(row: MentionRow, chunk: str) -> Row:
    return {
        "entity": row.key, "name": row.name, "kind": row.kind, "description": row.description,
        "aliases": list(row.aliases), "alias_keys": alias_keys(row),
        "names": sorted({surface.key for surface in row.surfaces}),
        "surfaces": surfaces_json(row),
        "described": chunk if row.description else None, "about": chunk if row.about else None,
    }  # fmt: skip


def _assertion(row: AssertionRow, chunk: str) -> Row:
    return {
        "relation": row.key, "source": row.source, "target": row.target,
        "description": row.description, "keywords": list(row.keywords),
        "strength": thousandths(row.strength), "described": chunk if row.description else None,
    }  # fmt: skip


def mention_of(m: Row) -> HeldMention:
    row = MentionRow(
        m["key"], m["name"], m["kind"], m["description"], tuple(m["aliases"]), "about" in m,
        surfaces_of(m.get("surfaces", "[]")),
    )  # fmt: skip
    return HeldMention(m["chunk"], m["document"], row, tuple(m["alias_keys"]))


def assertion_of(s: Row) -> HeldAssertion:
    row = AssertionRow(
        s["relation"], s["source"], s["target"], s["description"], tuple(s["keywords"]),
        strength(s["strength"]),
    )  # fmt: skip
    return HeldAssertion(s["chunk"], s["document"], row)
