"""A settlement inside a transaction: everything that one decision changes at once.

The lock of the workspace's settlement node keeps settlements one after the other, so only folds,
moves and people's words go on beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.domain import Placement
from app.resolution.settlement import Resolved, Reviewed, Settlement
from app.stores.neo4j.database import Row, Transaction
from app.stores.neo4j.placements import (
    add_moves,
    followers,
    lock_ends,
    open_names,
    wholes_of,
)
from app.stores.neo4j.ties import together
from app.stores.placing import Placing, placing, settled_keys
from app.stores.records import dump


def rank_of(score: float) -> int:
    return -round(score * 1000)


async def settle(tx: Transaction, workspace: str, settlement: Settlement) -> bool:
    if not await _next_version(tx, workspace, settlement.version):
        return False
    before = await _placements_before(tx, workspace, settled_keys(settlement))
    change = placing(before, settlement)
    change.lead(
        await followers(tx, workspace, change.was) if change.was else [],
        await wholes_of(tx, workspace, change.entities) if change.entities else {},
    )
    keys = [*(one.key for one in settlement.resolved), *settlement.gone]
    await lock_ends(tx, workspace, change.entities)
    await _lock_names(tx, workspace, {*keys, *settlement.reopen})
    if settlement.tying and settlement.tied != await together(tx.run, workspace, settlement.tying):
        return False
    await _drop_pairs(tx, workspace, keys)
    await _post(tx, workspace, settlement.resolved, settlement.gone)
    await _record(tx, workspace, settlement.pairs, settlement.decisions)
    await _set_places(tx, workspace, change)
    await _forget_gone(tx, workspace, settlement.gone)
    await open_names(tx, workspace, settlement.reopen)
    await add_moves(tx, workspace, [(name, entity, "") for name, entity in change.moves])
    return True


async def _lock_names(tx: Transaction, workspace: str, keys: set[str]) -> None:
    await tx.run(
        """
        UNWIND $keys AS key
        MATCH (n:Name {workspace: $workspace, key: key}) SET n.locked = true
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip


async def _next_version(tx: Transaction, workspace: str, version: int) -> bool:
    rows = await tx.run(
        """
        MERGE (s:Settlement {workspace: $workspace})
        ON CREATE SET s.version = 0, s.name = 'settlements'
        SET s.locked = true
        WITH s WHERE s.version = $version
        SET s.version = $version + 1
        RETURN s.version
        """,
        workspace=workspace, version=version,
    )  # fmt: skip
    return bool(rows)


async def _placements_before(tx: Transaction, workspace: str, keys: set[str]) -> list[Placement]:
    rows = await tx.run(
        """
        UNWIND $keys AS key
        MATCH (p:Placement) USING INDEX SEEK p:Placement(workspace, key, scope)
        WHERE p.workspace = $workspace AND p.key = key AND p.scope IS NOT NULL
            AND p.by_hand IS NULL
        RETURN p.key AS key, p.scope AS scope, p.entity AS entity, p.shown AS shown
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    return [Placement(row["key"], row["scope"], row["entity"], row["shown"]) for row in rows]


async def _drop_pairs(tx: Transaction, workspace: str, keys: Sequence[str]) -> None:
    await tx.run(
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
        DELETE p
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip


async def _post(
    tx: Transaction, workspace: str, resolved: Sequence[Resolved], gone: Sequence[str]
) -> None:
    rows: list[Row] = [
        {"key": one.key, "blocks": sorted(set(one.blocks)), "revision": one.revision}
        for one in resolved
    ]
    rows += [{"key": key, "blocks": [], "revision": 0} for key in gone]
    await tx.run(
        """
        UNWIND $rows AS row
        MATCH (n:Name {workspace: $workspace, key: row.key})
        CALL (n, row) {
            UNWIND [block IN n.blocks WHERE NOT block IN row.blocks] AS block
            MATCH (p:Posting {workspace: $workspace, block: block, name: row.key})
            DELETE p
        }
        CALL (n, row) {
            UNWIND [block IN row.blocks WHERE NOT block IN n.blocks] AS block
            MERGE (:Posting {workspace: $workspace, block: block, name: row.key})
        }
        SET n.blocks = row.blocks,
            n.settled = CASE WHEN n.settled < row.revision THEN row.revision ELSE n.settled END
        SET n.open = CASE WHEN n.settled < n.revision THEN true END
        """,
        workspace=workspace, rows=rows,
    )  # fmt: skip


async def _record(
    tx: Transaction, workspace: str, pairs: Sequence[Reviewed],
    decisions: Sequence[tuple[str, str, str]],
) -> None:  # fmt: skip
    await tx.run(
        """
        CALL () {
            UNWIND $rows AS row
            MERGE (p:Pair {workspace: $workspace, one: row.one, other: row.other})
            SET p += row
        }
        CALL () {
            UNWIND $decisions AS row
            MATCH (p:Pair {workspace: $workspace, one: row[0], other: row[1]})
            SET p.decision = row[2]
        }
        """,
        workspace=workspace, rows=[_pair_row(one) for one in pairs],
        decisions=[list(one) for one in decisions],
    )  # fmt: skip


def _pair_row(reviewed: Reviewed) -> Row:
    pair = reviewed.pair
    return {
        "one": pair.one,
        "other": pair.other,
        "name": f"{pair.one} ~ {pair.other}",
        "relation": pair.relation,
        "base": pair.base,
        "score": round(pair.score, 3),
        "rank": rank_of(pair.score),
        "veto": pair.veto,
        "features": dump(dict(pair.features)),
        "leaf": pair.leaf,
        "decision": reviewed.decision,
        "tie": reviewed.tie or None,
    }


async def _set_places(tx: Transaction, workspace: str, change: Placing) -> None:
    await tx.run(
        """
        CALL () {
            UNWIND $drop AS row
            MATCH (p:Placement {workspace: $workspace, key: row[0], scope: row[1]})
            WHERE p.by_hand IS NULL
            DELETE p
        }
        CALL () {
            UNWIND $put AS row
            MERGE (p:Placement {workspace: $workspace, key: row.key, scope: row.scope})
            WITH p, row WHERE p.by_hand IS NULL
            SET p.entity = row.entity, p.shown = row.name, p.name = row.key + ' → ' + row.entity,
                p.whole = CASE row.scope WHEN '' THEN row.entity END
        }
        """,
        workspace=workspace, drop=[list(one) for one in change.drop],
        put=[one._asdict() for one in change.put],
    )  # fmt: skip


async def _forget_gone(tx: Transaction, workspace: str, keys: Sequence[str]) -> None:
    """Unless they came back since the settlement was made."""
    await tx.run(
        """
        UNWIND $keys AS key
        MATCH (n:Name {workspace: $workspace, key: key}) WHERE n.mentions = 0
        DELETE n
        """,
        workspace=workspace, keys=list(keys),
    )  # fmt: skip
    await tx.run(
        """
        UNWIND $keys AS key
        CALL (key) {
            MATCH (r:Ruling) USING INDEX SEEK r:Ruling(workspace, one, other, author)
            WHERE r.workspace = $workspace AND r.one = key AND r.other IS NOT NULL
                AND r.author = 'model'
            RETURN r
          UNION
            MATCH (r:Ruling) USING INDEX SEEK r:Ruling(workspace, other, one)
            WHERE r.workspace = $workspace AND r.other = key AND r.one IS NOT NULL
                AND r.author = 'model'
            RETURN r
        }
        WITH DISTINCT r
        DELETE r
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
