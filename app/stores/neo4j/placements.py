"""Names inside a transaction: what the fold counts of them, where it looks up what they mean.

Locks are taken in this order by whoever needs several: settlement, document, chunks, entities,
names, relations, former relations, aliases, totals, moves; and those of one sort in the order of
their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain import Placement
from app.folding import Surface
from app.stores.counts import NameCount, name_tally_json, name_tally_of
from app.stores.neo4j.database import Row, Transaction
from app.stores.placing import following, targets

PATIENCE = 2  # tries


@dataclass(slots=True, kw_only=True)
class NameTotal(NameCount):
    before: str  # facts
    revision: int
    settled: int


async def insist(tx: Transaction, workspace: str) -> None:
    """A fold that met with decisions again and again has none made until it is through. To be
    called first."""
    if tx.attempt > PATIENCE:
        await tx.run(
            "MATCH (s:Settlement {workspace: $workspace}) SET s.locked = true", workspace=workspace
        )


async def placements_of(tx: Transaction, workspace: str, keys: Iterable[str]) -> set[Placement]:
    """Where these names lead, to the end."""
    found = await _placements(tx, workspace, keys)
    led = targets(found)
    return set(following(found, await wholes_of(tx, workspace, led) if led else {}))


async def wholes_of(tx: Transaction, workspace: str, keys: Iterable[str]) -> dict[str, str]:
    """What these names mean as a whole, of those that do not mean themselves."""
    rows = await tx.run(
        """
        UNWIND $keys AS key
        MATCH (p:Placement {workspace: $workspace, key: key, scope: ''})
        RETURN p.key AS key, p.entity AS entity
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    return {row["key"]: row["entity"] for row in rows}


async def followers(tx: Transaction, workspace: str, keys: Iterable[str]) -> list[tuple[str, str]]:
    """Names of which some mentions are placed to one of these, and to which."""
    rows = await tx.run(
        """
        UNWIND $keys AS target
        MATCH (p:Placement) USING INDEX SEEK p:Placement(workspace, entity, key)
        WHERE p.workspace = $workspace AND p.entity = target AND p.key IS NOT NULL
            AND p.scope <> ''
        RETURN DISTINCT p.key AS key, target
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    return [(row["key"], row["target"]) for row in rows]


async def _placements(tx: Transaction, workspace: str, keys: Iterable[str]) -> set[Placement]:
    rows = await tx.run(
        """
        UNWIND $keys AS key
        MATCH (p:Placement) USING INDEX SEEK p:Placement(workspace, key, scope)
        WHERE p.workspace = $workspace AND p.key = key AND p.scope IS NOT NULL
        RETURN p.key AS key, p.scope AS scope, p.entity AS entity, p.shown AS shown
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    return {Placement(row["key"], row["scope"], row["entity"], row["shown"]) for row in rows}


async def lock_ends(tx: Transaction, workspace: str, keys: Iterable[str]) -> None:
    """Entities, also such as there may be soon, against folds that would make them or add to them
    meanwhile. The lock of a deleted node stays until the transaction ends."""
    await tx.lock(
        """
        UNWIND $keys AS key
        MERGE (e:Entity {workspace: $workspace, key: key})
        ON CREATE SET e.unborn = true
        SET e.locked = true
        WITH e, e.key IS NOT NULL AS there, e.unborn AS unborn
        FOREACH (_ IN CASE WHEN unborn THEN [1] ELSE [] END | DELETE e)
        RETURN there
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip


# --- counting ------------------------------------------------------------------------------------


async def count_names(
    tx: Transaction, workspace: str, taken: Sequence[Surface], added: Sequence[Surface]
) -> None:
    """A name whose facts change is open for decisions from then on."""
    names = await lock_names(tx, workspace, {surface.key for surface in (*taken, *added)})
    for sign, surfaces in ((-1, taken), (1, added)):
        for surface in surfaces:
            names[surface.key].count(surface, sign)
    await tx.run(
        """
        UNWIND $rows AS row
        MATCH (n:Name {workspace: $workspace, key: row.key})
        SET n += row.properties
        """,
        workspace=workspace, rows=[_name_row(one) for one in names.values()],
    )  # fmt: skip


async def lock_names(tx: Transaction, workspace: str, keys: Iterable[str]) -> dict[str, NameTotal]:
    """Counters by key; names that are new begin at nought."""
    rows = await tx.lock(
        """
        UNWIND $keys AS key
        MERGE (n:Name {workspace: $workspace, key: key})
        ON CREATE SET n.name = '', n.tally = '{}', n.mentions = 0, n.facts = '', n.revision = 0,
            n.settled = 0, n.blocks = []
        SET n.locked = true
        RETURN n {.key, .tally, .mentions, .facts, .revision, .settled} AS n,
            n.key IS NOT NULL AS there
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    return {row["n"]["key"]: _name_of(row["n"]) for row in rows}


async def held_names(tx: Transaction, workspace: str, keys: Iterable[str]) -> set[str]:
    """Those that are there, and stay so until the transaction ends."""
    rows = await tx.lock(
        """
        UNWIND $keys AS key
        MATCH (n:Name {workspace: $workspace, key: key}) SET n.locked = true
        RETURN n.key AS key, n.key IS NOT NULL AS there
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip
    return {row["key"] for row in rows}


def _name_of(n: Row) -> NameTotal:
    return NameTotal(
        key=n["key"], tally=name_tally_of(n["tally"]), mentions=n["mentions"], before=n["facts"],
        revision=n["revision"], settled=n["settled"],
    )  # fmt: skip


def _name_row(one: NameTotal) -> Row:
    facts = one.facts
    revision = one.revision + (facts != one.before)
    properties = {
        "name": one.tally.form or one.key,
        "tally": name_tally_json(one.tally),
        "mentions": one.mentions,
        "facts": facts,
        "revision": revision,
        "open": True if one.settled < revision else None,
    }
    return {"key": one.key, "properties": properties}


async def open_tied(tx: Transaction, workspace: str, keys: Iterable[str], tie: str) -> None:
    """Of pairs among these names, which the fold has locked, that wait for a passage with both, or
    may have lost it."""
    rows = await tx.run(
        """
        UNWIND $keys AS key
        MATCH (p:Pair) USING INDEX SEEK p:Pair(workspace, tie, one, other)
        WHERE p.workspace = $workspace AND p.tie = $tie AND p.one = key AND p.other IS NOT NULL
        // By itself: the index would be asked for each two of the names.
        WITH p.one AS one, p.other AS other WHERE other IN $keys
        RETURN DISTINCT one
        """,
        workspace=workspace, keys=sorted(keys), tie=tie,
    )  # fmt: skip
    if rows:
        await open_names(tx, workspace, [row["one"] for row in rows])


async def open_names(tx: Transaction, workspace: str, keys: Iterable[str]) -> None:
    """Have decisions on these names taken anew."""
    await tx.run(
        """
        UNWIND $keys AS key
        MATCH (n:Name {workspace: $workspace, key: key}) SET n.locked = true
        SET n.revision = n.revision + 1, n.open = true
        """,
        workspace=workspace, keys=sorted(keys),
    )  # fmt: skip


# --- moves ---------------------------------------------------------------------------------------


async def add_moves(tx: Transaction, workspace: str, moves: Iterable[tuple[str, str, str]]) -> None:
    """(name, entity that has its evidence, "") or ("", "", document): to be folded anew. What is
    on its way already begins again, since it may have passed."""
    await tx.lock(
        """
        UNWIND $moves AS move
        MERGE (m:Move {workspace: $workspace, key: move[0], entity: move[1], document_id: move[2]})
        ON CREATE SET m.order = timestamp(), m.name = move[0] + move[2]
        SET m.after = '', m.token = randomUUID()
        RETURN m.key IS NOT NULL AS there
        """,
        workspace=workspace, moves=[list(move) for move in sorted(moves)],
    )  # fmt: skip
