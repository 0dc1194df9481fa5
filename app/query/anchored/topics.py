"""What a question is about: entities that it names, then those whose vectors are nearest to it.

SubgraphRAG and its anchored form are given their topics; a service has to find them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain import Hit
from app.query.links import Link, Linked, nearest_spelling

MOST_TOPICS = 8
BY_VECTOR = 3


@dataclass(frozen=True, slots=True)
class Topic:
    """`score` in [0, 1]: how surely the question names it; 0 where only its vector is near."""

    key: str
    name: str  # as the question has it, else the key
    how: str  # name | spelling | vector
    score: float


def topics_of(
    linked: Linked, candidates: Sequence[Sequence[Hit]], nearest: Sequence[Hit]
) -> list[Topic]:
    """At most 8: by name, by almost the same spelling (`candidates` of each unmatched name), then
    by vector. Each entity once, as what it was first found."""
    found = [_by_name(link) for link in linked.links]
    for name, hits in zip(linked.unmatched, candidates, strict=True):
        if spelling := nearest_spelling(name, [hit.key for hit in hits]):
            key, likeness = spelling
            found.append(Topic(key, name, "spelling", likeness))
    found += [Topic(hit.key, hit.key, "vector", 0.0) for hit in nearest[:BY_VECTOR]]
    unique: dict[str, Topic] = {}
    for topic in found:
        unique.setdefault(topic.key, topic)
    return list(unique.values())[:MOST_TOPICS]


def name_scores(topics: Sequence[Topic]) -> Mapping[str, float]:
    return {topic.key: topic.score for topic in topics if topic.score}


def _by_name(link: Link) -> Topic:
    return Topic(link.entity.key, link.name, "name", link.weight)
