"""Breadth first along relations, whatever store they are read from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

Node = TypeVar("Node", bound=Hashable)


class Edge(NamedTuple, Generic[Node]):
    """A relation between two entities; both are named by what the store finds them by."""

    key: str
    source: Node
    target: Node
    weight: float


class Walk(Generic[Node]):
    """Entities level by level, those behind heavier relations first, and the relations among them.

    The caller reads the relations of `frontier`, of each entity up to `limit`, and hands them to
    `follow`, or at the last level to `end`, which finds relations but no further entities.
    """

    def __init__(self, seeds: Sequence[Node], *, limit: int) -> None:
        self.limit = limit  # of entities
        self.found = dict.fromkeys(seeds[:limit])  # in the order in which they were reached
        self.truncated = len(seeds) > limit
        self.frontier = list(self.found)
        self._seen: dict[str, Edge[Node]] = {}

    def follow(self, edges: Iterable[Edge[Node]]) -> None:
        reached = {edge.key: edge for edge in edges}
        self._seen |= reached
        self.frontier = []
        for edge in _heaviest_first(reached.values()):
            for end in (edge.source, edge.target):
                if end in self.found:
                    continue
                if len(self.found) == self.limit:
                    self.truncated = True
                    continue
                self.found[end] = None
                self.frontier.append(end)

    def end(self, edges: Iterable[Edge[Node]]) -> list[str]:
        """The keys of all relations among the entities found, heaviest first."""
        self._seen |= {edge.key: edge for edge in edges}
        inside = [
            edge for edge in self._seen.values() if {edge.source, edge.target} <= self.found.keys()
        ]
        return [edge.key for edge in _heaviest_first(inside)]


def _heaviest_first(edges: Iterable[Edge[Node]]) -> list[Edge[Node]]:
    return sorted(edges, key=lambda edge: (-edge.weight, edge.key))
