"""The relations that are scored: anchors, what lies around topics and anchors, similar ones.

Read in a constant number of calls whatever the size of the graph; hubs are cut by weight.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import Anchoring, Hit, relation_ends
from app.ports import GraphReader
from app.query.anchored.topics import Topic

NEAR, FAR = 48, 16  # relations of an entity that are read at the first hop, and beyond
PER_ENTITY = 6  # anchors, so that one hub does not take all; a pair of entities has one relation
SPARE = 2  # times as many candidates as anchors: some may have no evidence here
MOST_EXPANDED = 400  # entities of one hop


@dataclass(frozen=True, slots=True)
class Reach:
    """What was read: relation keys by where they were met, and whether anything was left out."""

    topic_hops: Sequence[Sequence[str]] = ()
    anchor_hops: Sequence[Sequence[str]] = ()
    truncated: bool = False
    late: bool = False  # the deadline cut it


@dataclass(frozen=True, slots=True)
class Pool:
    """Relation keys in the order of admission. `met`: how many came from where."""

    relations: tuple[str, ...]
    topics: tuple[Topic, ...]
    anchors: Mapping[str, float]  # relation key -> cosine
    truncated: bool = False
    late: bool = False
    met: Mapping[str, int] = field(default_factory=dict)

    @property
    def entities(self) -> list[str]:
        return sorted({end for key in self.relations for end in relation_ends(key)})


def choose_anchors(hits: Iterable[Hit], most: int) -> dict[str, float]:
    """The most similar relations, at most 6 of an entity."""
    chosen: dict[str, float] = {}
    entities: Counter[str] = Counter()
    for hit in hits:
        if len(chosen) >= most:
            break
        ends = relation_ends(hit.key)
        if any(entities[end] >= PER_ENTITY for end in ends):
            continue
        chosen[hit.key] = hit.score
        entities.update(set(ends))
    return chosen


def ends_of(relations: Iterable[str]) -> list[str]:
    """Each entity once, in the order of the relations."""
    return list(dict.fromkeys(end for key in relations for end in relation_ends(key)))


async def reach(
    graph: GraphReader, topics: Sequence[str], anchors: Sequence[str], options: Anchoring, *,
    documents: Sequence[str] | None,
) -> Reach:  # fmt: skip
    """Reads around topics and the ends of anchors, one call a hop, until the deadline."""
    end = asyncio.get_running_loop().time() + options.deadline_ms / 1000
    seen = {"topic": dict.fromkeys(topics), "anchor": dict.fromkeys(ends_of(anchors))}
    hops = {"topic": options.hops_topic, "anchor": options.hops_anchor}
    frontier = {side: list(found) for side, found in seen.items()}
    met: dict[str, list[list[str]]] = {"topic": [], "anchor": []}
    truncated = False
    for hop in range(max(hops.values())):
        sides = [side for side in frontier if hop < hops[side]]
        wanted = list(dict.fromkeys(key for side in sides for key in frontier[side]))
        if not wanted:
            break
        cap = FAR if hop else NEAR
        read = graph.heaviest(wanted[:MOST_EXPANDED], per_entity=cap + 1, documents=documents)
        try:
            async with asyncio.timeout_at(end):
                found = await read
        except TimeoutError:
            return Reach(met["topic"], met["anchor"], truncated, late=True)
        truncated |= len(wanted) > MOST_EXPANDED or any(len(its) > cap for its in found.values())
        for side in sides:
            level = dict.fromkeys(k for e in frontier[side] for k in found.get(e, ())[:cap])
            met[side].append(list(level))
            frontier[side] = [end for end in ends_of(level) if end not in seen[side]]
            seen[side].update(dict.fromkeys(frontier[side]))
    return Reach(met["topic"], met["anchor"], truncated)


def admit(
    reach: Reach, topics: Sequence[Topic], anchors: Mapping[str, float],
    similar: Iterable[str], budget: int,
) -> Pool:  # fmt: skip
    """Anchors, hops of topics, hops of anchors, then the most similar, until the budget is full.
    Topics without a relation in the pool are none."""
    chosen: dict[str, str] = {}
    cut = False
    for where, keys in (
        ("anchors", anchors),
        *((f"topic_hop_{n}", level) for n, level in enumerate(reach.topic_hops, 1)),
        *((f"anchor_hop_{n}", level) for n, level in enumerate(reach.anchor_hops, 1)),
        ("similar", similar),
    ):
        for key in keys:
            if key in chosen:
                continue
            if len(chosen) >= budget:
                cut |= where != "similar"
                break
            chosen[key] = where
    inside = {end for key in chosen for end in relation_ends(key)}
    return Pool(
        tuple(chosen),
        tuple(topic for topic in topics if topic.key in inside),
        {key: cosine for key, cosine in anchors.items() if key in chosen},
        reach.truncated or cut,
        reach.late,
        dict(Counter(chosen.values())),
    )
