"""Along relations: the heaviest of an entity first, and breadth first from some entities."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from sqlite3 import Connection, Row

from app.stores.sqlite.rows import ENDS, RELATION
from app.stores.walk import Edge, Walk


def heaviest(connection: Connection, seq: int) -> Iterator[Row]:
    """An entity's relations, heaviest first, then by key; read only as far as it is iterated."""
    sides = [
        connection.execute(
            f"select {RELATION}, r.source as source_seq, r.target as target_seq from relations r"
            f" {ENDS} where r.{end} = ? and r.mentions > 0 order by r.weight desc, r.key",
            (seq,),
        )
        for end in ("source", "target")
    ]
    return heapq.merge(*sides, key=lambda row: (-row["weight"], row["key"]))


def heaviest_keys(connection: Connection, seq: int) -> Iterator[tuple[int, str]]:
    """Row and key of each, as `heaviest`, from the index alone."""
    sides = [
        connection.execute(
            f"select seq, key, weight from relations where {end} = ? and mentions > 0"
            " order by weight desc, key",
            (seq,),
        )
        for end in ("source", "target")
    ]
    for row in heapq.merge(*sides, key=lambda row: (-row["weight"], row["key"])):
        yield row["seq"], row["key"]


def neighbourhood(
    connection: Connection, seeds: Sequence[int], *, depth: int, limit: int
) -> tuple[Walk[int], list[str]]:
    """Entities and the keys of relations among them. A hub is read up to `limit` relations."""
    walk = Walk(seeds, limit=limit)
    for _ in range(depth):
        walk.follow(_edges(connection, walk))
    return walk, walk.end(_edges(connection, walk))


def _edges(connection: Connection, walk: Walk[int]) -> Iterator[Edge[int]]:
    for seq in list(walk.frontier):
        rows = heaviest(connection, seq)
        for row in islice(rows, walk.limit):
            yield Edge(row["key"], row["source_seq"], row["target_seq"], row["weight"])
        walk.truncated |= next(rows, None) is not None
