"""Pure rules of communities: dividing a graph, and knowing communities again.

A graph is divided as GraphRAG does it (Edge et al. 2024, arXiv 2404.16130): Leiden (Traag et al.
2019) finds communities of entities that are tied to each other more than to the rest, by the weight
of their relations, and each that is too large is divided again. Each connected part of the graph is
divided by itself, so that documents about something else move nothing in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.domain import Cluster, Clustering, derive_id

SEED = 7  # of Leiden's random order: equal graphs are divided alike
LEAST = 0.5  # share of members (of both together) from which on a community is known again


class Edge(NamedTuple):
    """A relation between two entities, by label."""

    source: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class Group:
    """Labels of the entities of a community; `parent` is its place in the list."""

    level: int
    parent: int | None
    members: frozenset[str]


def divided(edges: Iterable[Edge], clustering: Clustering) -> list[Group]:
    """A hierarchy of groups, parents first; groups of a level share no member. Entities without a
    relation are in none. The same for equal edges in any order; memory for all of them at once."""
    groups: list[Group] = []
    for part in _parts(edges):
        members = frozenset(end for edge in part for end in edge[:2])
        if len(members) <= clustering.size:
            groups.append(Group(0, None, members))
        else:
            groups += _shifted(_leiden(part, clustering), len(groups))
    return groups


def _parts(edges: Iterable[Edge]) -> list[list[Edge]]:
    """Edges of each connected part, in order, each pair of ends once."""
    weights: defaultdict[tuple[str, str], float] = defaultdict(float)
    for one in edges:
        if one.source != one.target and one.weight > 0:
            first, second = sorted((one.source, one.target))
            weights[first, second] += one.weight
    root: dict[str, str] = {}

    def find(node: str) -> str:
        root.setdefault(node, node)
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for first, second in weights:
        root[find(second)] = find(first)
    parts: defaultdict[str, list[Edge]] = defaultdict(list)
    for (first, second), weight in sorted(weights.items()):
        parts[find(first)].append(Edge(first, second, weight))
    return sorted(parts.values())


def _leiden(edges: Sequence[Edge], clustering: Clustering) -> list[Group]:
    # Here, since it brings numpy and scipy, which only this needs.
    from graspologic_native import hierarchical_leiden  # noqa: PLC0415

    rows = hierarchical_leiden(
        [tuple(edge) for edge in edges], resolution=clustering.resolution,
        max_cluster_size=clustering.size, seed=SEED,
    )  # fmt: skip
    members: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    parents: dict[tuple[int, int], int | None] = {}
    for row in rows:
        members[row.level, row.cluster].add(row.node)
        parents[row.level, row.cluster] = row.parent_cluster
    return _without_repeats(members, parents, clustering.levels)


def _without_repeats(
    members: Mapping[tuple[int, int], set[str]], parents: Mapping[tuple[int, int], int | None],
    levels: int,
) -> list[Group]:  # fmt: skip
    """A group that its parent has been divided into alone is the parent itself."""
    groups: list[Group] = []
    place: dict[tuple[int, int], int] = {}
    for level, cluster in sorted(members, key=lambda one: (one[0], sorted(members[one]))):
        own, above = frozenset(members[level, cluster]), parents[level, cluster]
        if above is None:
            parent = None
        elif (level - 1, above) in place:
            parent = place[level - 1, above]
        else:
            continue  # below the last level
        if parent is not None and groups[parent].members == own:
            place[level, cluster] = parent
            continue
        depth = 0 if parent is None else groups[parent].level + 1
        if depth < levels:
            place[level, cluster] = len(groups)
            groups.append(Group(depth, parent, own))
    return groups


def _shifted(groups: Sequence[Group], by: int) -> list[Group]:
    return [replace(one, parent=None if one.parent is None else one.parent + by) for one in groups]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be done to communities: put, and drop."""

    put: tuple[Cluster, ...]
    drop: tuple[str, ...]


def changes(groups: Sequence[Group], keys: Mapping[str, str], stored: Sequence[Cluster]) -> Changes:
    """From stored communities to these groups, whose labels stand for entity keys. A community is
    known again, and keeps its id, where it shares more than half of all members with one of the
    same level (no two can); another gets an id that follows from its level and members."""
    former = {one.id: one for one in stored}
    known = _known_again(groups, keys, stored)
    ids: list[str] = []
    taken = set(former)
    for place, group in enumerate(groups):
        ids.append(known.get(place) or _fresh_id(group, taken))
        taken.add(ids[place])
    inner = {group.parent for group in groups if group.parent is not None}
    wanted = [
        Cluster(
            ids[place], group.level, "" if group.parent is None else ids[group.parent],
            place not in inner, tuple(sorted(keys[label] for label in group.members)),
        )
        for place, group in enumerate(groups)
    ]  # fmt: skip
    kept = set(ids)
    return Changes(
        tuple(one for one in wanted if former.get(one.id) != one),
        tuple(sorted(id for id in former if id not in kept)),
    )


def _known_again(
    groups: Sequence[Group], keys: Mapping[str, str], stored: Sequence[Cluster]
) -> dict[int, str]:
    """Place of a group -> id of the community that it goes on with."""
    home = {(one.level, key): one.id for one in stored for key in one.members}
    sizes = {one.id: len(one.members) for one in stored}
    found: dict[int, str] = {}
    for place, group in enumerate(groups):
        shared: defaultdict[str, int] = defaultdict(int)
        for label in group.members:
            if before := home.get((group.level, keys[label])):
                shared[before] += 1
        for id, common in shared.items():
            if common > LEAST * (len(group.members) + sizes[id] - common):
                found[place] = id
    return found


def _fresh_id(group: Group, taken: set[str]) -> str:
    natural = [str(group.level), *sorted(group.members)]
    id = derive_id("", "community", *natural)
    while id in taken:
        natural.append("")
        id = derive_id("", "community", *natural)
    return id
