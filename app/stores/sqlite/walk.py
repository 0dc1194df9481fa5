"""Along relations: the heaviest of an entity first, and breadth first from some entities."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from sqlite3 import Connection, Row

from app.domain import Relation, Subgraph
from app.stores.sqlite.rows import ENTITY, RELATION, dump, entity_of, in_order, listed, relation_of

_ENDS = "cross join entities s on s.seq = r.source cross join entities t on t.seq = r.target"


def heaviest(connection: Connection, seq: int) -> Iterator[Row]:
    """An entity's relations, heaviest first, then by key; read only as far as it is iterated."""
    sides = [
        connection.execute(
            f"select {RELATION}, r.source as source_seq, r.target as target_seq from relations r"
            f" {_ENDS} where r.{end} = ? and r.mentions > 0 order by r.weight desc, r.key",
            (seq,),
        )
        for end in ("source", "target")
    ]
    return heapq.merge(*sides, key=lambda row: (-row["weight"], row["key"]))


def neighbourhood(
    connection: Connection, workspace: str, keys: Sequence[str], *, depth: int, limit: int
) -> Subgraph:
    """Entities level by level, those behind heavier relations first, and the relations among them.
    A hub is read up to `limit` relations."""
    rows = connection.execute(
        "select e.seq, e.key from json_each(:keys) k cross join entities e"
        " where e.workspace = :workspace and e.key = k.value and e.mentions > 0",
        {"workspace": workspace, "keys": listed(keys)},
    ).fetchall()
    seeds = [row["seq"] for row in in_order(rows, keys, by="key")]
    found = dict.fromkeys(seeds[:limit])
    truncated = len(seeds) > limit
    seen: dict[int, Row] = {}
    frontier = list(found)
    for level in range(depth + 1):  # the last level finds relations, but no further entities
        reached: dict[int, Row] = {}
        for seq in frontier:
            for count, row in enumerate(heaviest(connection, seq)):
                if count == limit:
                    truncated = True
                    break
                reached[row["seq"]] = row
        seen |= reached
        frontier = []
        if level == depth:
            break
        for row in sorted(reached.values(), key=lambda row: (-row["weight"], row["key"])):
            for end in (row["source_seq"], row["target_seq"]):
                if end in found:
                    continue
                if len(found) == limit:
                    truncated = True
                    continue
                found[end] = None
                frontier.append(end)
    return Subgraph(
        entities=tuple(
            entity_of(row)
            for row in connection.execute(
                f"select {ENTITY} from json_each(:seqs) k cross join entities e"
                " where e.seq = k.value order by k.key",
                {"seqs": dump(list(found))},
            )
        ),
        relations=_among(seen, found),
        truncated=truncated,
    )


def _among(seen: dict[int, Row], found: dict[int, None]) -> tuple[Relation, ...]:
    inside = [
        row for row in seen.values() if {row["source_seq"], row["target_seq"]} <= found.keys()
    ]
    return tuple(
        relation_of(row) for row in sorted(inside, key=lambda row: (-row["weight"], row["key"]))
    )
