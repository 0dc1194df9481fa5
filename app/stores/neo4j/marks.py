"""Profiles and index marks: the writing half of the graph behind the fold.

Flags such as `unindexed` are kept beside the counters that they follow from, and absent where they
do not hold, so that what is left to do is read from small indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import LiteralString, TypeVar

from app.domain import Kind, Mark, Profile, Ref, Stale
from app.stores.neo4j.database import Database, Row

Given = TypeVar("Given", Profile, Mark)
# Of an entity or relation `x` and the `row` of a profile for it.
_NEWER: LiteralString = """
    x.shrunk <= row.revision AND row.revision <= x.revision AND row.revision > x.profiled
    """
_SET_PROFILE: LiteralString = """
    WITH x, row,
        CASE WHEN row.revision >= x.evidenced THEN x.revision ELSE row.revision END AS profiled
    SET x.profile = row.text, x.covered = row.covered, x.profiled = profiled,
        x.unprofiled = CASE WHEN profiled < x.revision THEN true END,
        x.unindexed = CASE WHEN x.indexed < profiled THEN true END
    """


class Neo4jMarks:
    """The part of `app.ports.GraphWriter` about profiles and vectors."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    async def unprofiled(self, document_id: str = "") -> list[Ref]:
        if document_id:
            [row] = await self._database.read(
                """
                CALL () {
                    MATCH (:Document {workspace: $workspace, id: $document})
                        -[:HAS_CHUNK]->()-[:MENTIONS]->(e)
                    WITH DISTINCT e WHERE e.unprofiled
                    RETURN collect(e.key) AS entities
                }
                CALL () {
                    MATCH (:Document {workspace: $workspace, id: $document})
                        -[:HAS_CHUNK]->()-[s:STATES]->()
                    WITH DISTINCT s.relation AS key
                    MATCH ()-[r:RELATES {workspace: $workspace, key: key}]->() WHERE r.unprofiled
                    RETURN collect(key) AS relations
                }
                RETURN entities, relations
                """,
                workspace=self._workspace, document=document_id,
            )  # fmt: skip
        else:
            [row] = await self._database.read(
                """
                CALL () {
                    MATCH (e:Entity) USING INDEX SEEK e:Entity(workspace, unprofiled)
                    WHERE e.workspace = $workspace AND e.unprofiled = true
                    RETURN collect(e.key) AS entities
                }
                CALL () {
                    MATCH ()-[r:RELATES]->() USING INDEX SEEK r:RELATES(workspace, unprofiled)
                    WHERE r.workspace = $workspace AND r.unprofiled = true
                    RETURN collect(r.key) AS relations
                }
                RETURN entities, relations
                """,
                workspace=self._workspace,
            )  # fmt: skip
        return [
            *(Ref(Kind.ENTITY, key) for key in sorted(row["entities"])),
            *(Ref(Kind.RELATION, key) for key in sorted(row["relations"])),
        ]

    async def put_profiles(self, profiles: Sequence[Profile]) -> None:
        """Where only names changed since it was read, a profile covers the present."""
        rows = _by_kind(profiles, _profile_row)
        await self._database.write(
            f"""
            CALL () {{
                UNWIND $entities AS row
                MATCH (x:Entity {{workspace: $workspace, key: row.key}}) SET x.locked = true
                WITH x, row WHERE x.mentions > 0 AND {_NEWER}
                {_SET_PROFILE}
            }}
            CALL () {{
                UNWIND $relations AS row
                MATCH ()-[x:RELATES {{workspace: $workspace, key: row.key}}]->() SET x.locked = true
                WITH x, row WHERE {_NEWER}
                {_SET_PROFILE}
            }}
            """,
            workspace=self._workspace, entities=rows[Kind.ENTITY],
            relations=rows[Kind.RELATION],
        )  # fmt: skip

    async def unindexed(self, document_id: str = "") -> list[Stale]:
        if document_id:
            row = await self._unindexed_of_document(document_id)
        else:
            row = await self._unindexed_of_workspace()
        return [
            Stale(Ref(kind, key), gone)
            for kind in Kind
            if kind.value in row
            for key, gone in sorted(map(tuple, row[kind.value]))
        ]

    async def _unindexed_of_document(self, document_id: str) -> Row:
        """Also relations that the document may not support itself, but whose end it renamed."""
        [row] = await self._database.read(
            """
            CALL () {
                MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, document_id, position)
                WHERE c.workspace = $workspace AND c.document_id = $document
                    AND c.position IS NOT NULL AND c.unindexed
                RETURN collect([c.id, NOT c.live]) AS chunk
            }
            CALL () {
                MATCH (:Document {workspace: $workspace, id: $document})
                    -[:HAS_CHUNK]->()-[:MENTIONS]->(e)
                WITH DISTINCT e WHERE e.unindexed
                RETURN collect([e.key, e.mentions = 0]) AS entity
            }
            CALL () {
                CALL () {
                    MATCH (:Document {workspace: $workspace, id: $document})
                        -[:HAS_CHUNK]->()-[s:STATES]->()
                    WITH DISTINCT s.relation AS key
                    MATCH ()-[r:RELATES {workspace: $workspace, key: key}]->() WHERE r.unindexed
                    RETURN key
                  UNION
                    MATCH (:Document {workspace: $workspace, id: $document})
                        -[:HAS_CHUNK]->()-[:MENTIONS]->(e)
                    WITH DISTINCT e
                    MATCH ()-[r:RELATES]->() USING INDEX SEEK r:RELATES(workspace, source, renamed)
                    WHERE r.workspace = $workspace AND r.source = e.key
                        AND r.renamed IS NOT NULL AND r.unindexed
                    RETURN r.key AS key
                  UNION
                    MATCH (:Document {workspace: $workspace, id: $document})
                        -[:HAS_CHUNK]->()-[:MENTIONS]->(e)
                    WITH DISTINCT e
                    MATCH ()-[r:RELATES]->() USING INDEX SEEK r:RELATES(workspace, target, renamed)
                    WHERE r.workspace = $workspace AND r.target = e.key
                        AND r.renamed IS NOT NULL AND r.unindexed
                    RETURN r.key AS key
                }
                RETURN collect([key, false]) AS relation
            }
            RETURN chunk, entity, relation
            """,
            workspace=self._workspace, document=document_id,
        )  # fmt: skip
        return row

    async def _unindexed_of_workspace(self) -> Row:
        [row] = await self._database.read(
            """
            CALL () {
                MATCH (c:Chunk) USING INDEX SEEK c:Chunk(workspace, unindexed)
                WHERE c.workspace = $workspace AND c.unindexed = true
                RETURN collect([c.id, NOT c.live]) AS chunk
            }
            CALL () {
                MATCH (e:Entity) USING INDEX SEEK e:Entity(workspace, unindexed)
                WHERE e.workspace = $workspace AND e.unindexed = true
                RETURN collect([e.key, e.mentions = 0]) AS entity
            }
            CALL () {
                MATCH ()-[r:RELATES]->() USING INDEX SEEK r:RELATES(workspace, unindexed)
                WHERE r.workspace = $workspace AND r.unindexed = true
                RETURN collect([r.key, false]) AS live
            }
            CALL () {
                MATCH (f:FormerRelation)
                WHERE f.workspace = $workspace AND f.key IS NOT NULL
                RETURN collect([f.key, true]) AS former
            }
            CALL () {
                MATCH (c:Community) USING INDEX SEEK c:Community(workspace, unindexed)
                WHERE c.workspace = $workspace AND c.unindexed = true
                RETURN collect([c.id, c.report IS NULL]) AS community
            }
            RETURN chunk, entity, live + former AS relation, community
            """,
            workspace=self._workspace,
        )  # fmt: skip
        return row

    async def mark_indexed(self, marks: Sequence[Mark]) -> None:
        rows = _by_kind(marks, _mark_row)
        await self._database.write(
            """
            CALL () {
                UNWIND $chunks AS id
                MATCH (c:Chunk {workspace: $workspace, id: id}) SET c.locked = true
                WITH c WHERE c.live
                SET c.indexed = true, c.unindexed = null
            }
            CALL () {
                UNWIND $entities AS row
                MATCH (x:Entity {workspace: $workspace, key: row.key}) SET x.locked = true
                WITH x, row WHERE x.mentions > 0
                    AND x.indexed <= row.revision AND row.revision <= x.profiled
                SET x.indexed = row.revision, x.digest = row.digest,
                    x.unindexed = CASE WHEN row.revision < x.profiled THEN true END
            }
            CALL () {
                UNWIND $relations AS row
                MATCH ()-[x:RELATES {workspace: $workspace, key: row.key}]->() SET x.locked = true
                WITH x, row WHERE x.indexed <= row.revision AND row.revision <= x.profiled
                SET x.indexed = row.revision, x.digest = row.digest,
                    x.renamed = CASE WHEN row.revision < x.renamed THEN x.renamed END,
                    x.unindexed = CASE WHEN row.revision < x.profiled THEN true END
            }
            CALL () {
                UNWIND $communities AS row
                MATCH (x:Community {workspace: $workspace, id: row.key}) SET x.locked = true
                WITH x, row WHERE x.version = row.revision AND x.report IS NOT NULL
                SET x.indexed = true, x.digest = row.digest, x.unindexed = null
            }
            """,
            workspace=self._workspace, entities=rows[Kind.ENTITY],
            relations=rows[Kind.RELATION], communities=rows[Kind.COMMUNITY],
            chunks=[row["key"] for row in rows[Kind.CHUNK]],
        )  # fmt: skip

    async def forget(self, refs: Sequence[Ref]) -> None:
        """What has evidence again lost its point all the same."""
        keys = {
            kind.value: sorted({ref.key for ref in refs if ref.kind is kind}) for kind in Kind
        }  # fmt: skip
        await self._database.write(
            """
            CALL () {
                UNWIND $keys.chunk AS id
                MATCH (c:Chunk {workspace: $workspace, id: id}) SET c.locked = true
                WITH c, c.gone AS gone
                FOREACH (_ IN CASE WHEN gone THEN [1] ELSE [] END | DETACH DELETE c)
                FOREACH (_ IN CASE WHEN gone THEN [] ELSE [1] END |
                    SET c.indexed = false, c.unindexed = CASE WHEN c.live THEN true END)
            }
            CALL () {
                UNWIND $keys.entity AS key
                MATCH (e:Entity {workspace: $workspace, key: key}) SET e.locked = true
                WITH e, e.mentions = 0 AS dead
                FOREACH (_ IN CASE WHEN dead THEN [1] ELSE [] END | DETACH DELETE e)
                FOREACH (_ IN CASE WHEN dead THEN [] ELSE [1] END |
                    SET e.indexed = 0, e.digest = '',
                        e.unindexed = CASE WHEN e.profiled > 0 THEN true END)
            }
            CALL () {
                UNWIND $keys.relation AS key
                MATCH ()-[r:RELATES {workspace: $workspace, key: key}]->() SET r.locked = true
                SET r.indexed = 0, r.digest = '',
                    r.unindexed = CASE WHEN r.profiled > 0 THEN true END
            }
            CALL () {
                UNWIND $keys.relation AS key
                MATCH (f:FormerRelation {workspace: $workspace, key: key})
                DETACH DELETE f
            }
            CALL () {
                UNWIND $keys.community AS id
                MATCH (c:Community {workspace: $workspace, id: id}) SET c.locked = true
                WITH c, c.gone IS NOT NULL AS gone
                FOREACH (_ IN CASE WHEN gone THEN [1] ELSE [] END | DETACH DELETE c)
                FOREACH (_ IN CASE WHEN gone THEN [] ELSE [1] END |
                    SET c.indexed = false, c.digest = '',
                        c.pointed = CASE WHEN c.report IS NOT NULL THEN true END,
                        c.unindexed = CASE WHEN c.report IS NOT NULL THEN true END)
            }
            """,
            workspace=self._workspace, keys=keys,
        )  # fmt: skip


def _by_kind(given: Sequence[Given], row: Callable[[Given], Row]) -> dict[Kind, list[Row]]:
    """In the order of keys, in which all transactions take their locks."""
    ordered = sorted(given, key=lambda one: one.ref.key)
    return {kind: [row(one) for one in ordered if one.ref.kind is kind] for kind in Kind}


def _profile_row(profile: Profile) -> Row:
    return {
        "key": profile.ref.key,
        "text": profile.text,
        "revision": profile.revision,
        "covered": profile.covered,
    }


def _mark_row(mark: Mark) -> Row:
    return {"key": mark.ref.key, "revision": mark.revision, "digest": mark.digest}
