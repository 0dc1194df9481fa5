"""A settlement inside a transaction: everything that one decision changes at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from app.domain import Placement
from app.resolution.settlement import Resolved, Reviewed, Settlement
from app.stores.placing import Placing, placing, settled_keys
from app.stores.records import dump
from app.stores.sqlite.placements import add_moves, followers, open_names, wholes_of
from app.stores.sqlite.rows import listed
from app.stores.sqlite.ties import together


def version(connection: Connection, workspace: str) -> int:
    row = connection.execute(
        "select version from settlements where workspace = ?", (workspace,)
    ).fetchone()
    return row["version"] if row else 0


def settle(connection: Connection, workspace: str, settlement: Settlement) -> bool:
    if version(connection, workspace) != settlement.version:
        return False
    if settlement.tied != together(connection, workspace, settlement.tying):
        return False
    connection.execute(
        "insert into settlements (workspace, version) values (?, ?)"
        " on conflict (workspace) do update set version = excluded.version",
        (workspace, settlement.version + 1),
    )
    before = _placements_before(connection, workspace, settled_keys(settlement))
    change = placing(before, settlement)
    change.lead(
        followers(connection, workspace, change.was),
        wholes_of(connection, workspace, change.entities),
    )
    keys = [*(one.key for one in settlement.resolved), *settlement.gone]
    _drop_pairs(connection, workspace, keys)
    _post(connection, workspace, settlement.resolved, settlement.gone)
    _record(connection, workspace, settlement.pairs, settlement.decisions)
    _set_places(connection, workspace, change)
    _forget_gone(connection, workspace, settlement.gone)
    open_names(connection, workspace, settlement.reopen)
    moves = [(name, entity, "") for name, entity in sorted(change.moves)]
    add_moves(connection, workspace, moves)
    return True


def _among(workspace: str, keys: Iterable[str]) -> dict[str, object]:
    return {"workspace": workspace, "keys": listed(keys)}


def _placements_before(connection: Connection, workspace: str, keys: set[str]) -> list[Placement]:
    rows = connection.execute(
        "select p.key, p.scope, p.entity, p.name from json_each(:keys) k cross join placements p"
        " where p.workspace = :workspace and p.key = k.value and p.by_hand = 0",
        _among(workspace, sorted(keys)),
    )
    return [Placement(*row) for row in rows]


def _drop_pairs(connection: Connection, workspace: str, keys: Sequence[str]) -> None:
    for end, index in (("one", ""), ("other", "indexed by pairs_by_other")):
        connection.execute(
            f"delete from pairs {index} where workspace = :workspace and {end} in"
            " (select value from json_each(:keys))",
            _among(workspace, keys),
        )


def _post(
    connection: Connection, workspace: str, resolved: Sequence[Resolved], gone: Sequence[str]
) -> None:
    connection.execute(
        "delete from blocks where workspace = :workspace and (block, name) in ("
        " select b.value, n.key from json_each(:keys) k cross join names n"
        " cross join json_each(n.blocks) b where n.workspace = :workspace and n.key = k.value)",
        _among(workspace, [*(one.key for one in resolved), *gone]),
    )
    connection.executemany(
        "insert or ignore into blocks (workspace, block, name) values (?, ?, ?)",
        [(workspace, block, one.key) for one in resolved for block in one.blocks],
    )
    connection.executemany(
        "update names set blocks = ?, settled = max(settled, ?) where workspace = ? and key = ?",
        [(dump(sorted(set(one.blocks))), one.revision, workspace, one.key) for one in resolved],
    )
    connection.execute(
        "update names set blocks = '[]' where workspace = :workspace and key in"
        " (select value from json_each(:keys))",
        _among(workspace, gone),
    )


def _record(
    connection: Connection, workspace: str, pairs: Sequence[Reviewed],
    decisions: Sequence[tuple[str, str, str]],
) -> None:  # fmt: skip
    connection.executemany(
        "insert or replace into pairs (workspace, one, other, relation, base, score, veto,"
        " features, leaf, decision, tie) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                workspace, pair.one, pair.other, pair.relation, pair.base, round(pair.score, 3),
                pair.veto, dump(dict(pair.features)), pair.leaf, decision, tie,
            )
            for pair, decision, tie in ((one.pair, one.decision, one.tie) for one in pairs)
        ],
    )  # fmt: skip
    connection.executemany(
        "update pairs set decision = ? where workspace = ? and one = ? and other = ?",
        [(decision, workspace, one, other) for one, other, decision in decisions],
    )


def _set_places(connection: Connection, workspace: str, change: Placing) -> None:
    connection.executemany(
        "delete from placements where workspace = ? and key = ? and scope = ? and by_hand = 0",
        [(workspace, key, scope) for key, scope in change.drop],
    )
    connection.executemany(
        "insert into placements (workspace, key, scope, entity, name, by_hand)"
        " values (?, ?, ?, ?, ?, 0) on conflict (workspace, key, scope)"
        " do update set entity = excluded.entity, name = excluded.name where by_hand = 0",
        [(workspace, *one) for one in change.put],
    )


def _forget_gone(connection: Connection, workspace: str, keys: Sequence[str]) -> None:
    """Unless they came back since the settlement was made."""
    connection.execute(
        "delete from names where workspace = :workspace and mentions = 0 and key in"
        " (select value from json_each(:keys))",
        _among(workspace, keys),
    )
    for end, index in (("one", ""), ("other", "indexed by rulings_by_other")):
        connection.execute(
            f"delete from rulings {index} where workspace = :workspace and author = 'model'"
            f" and {end} in (select value from json_each(:keys))",
            _among(workspace, keys),
        )
