"""The numbers of the walk: how far to trust it, where it begins, and what its mass is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.domain import EntityLinks, Hit, Vector, relation_ends
from app.query import direct
from app.query.late import expected_passages
from app.query.links import Link, idf
from app.query.ranking import best_first

NOT_ABOUT = 0.7  # trust in a name that no passage is about
LEAST, FULL = 0.4, 0.8  # confidence at which trust begins and is complete
FACT_MASS = 0.1
TOP_PASSAGES = 4
WALK_FLOOR = 0.25
SUBJECT = 0.3  # share of the mass of what a passage is about
RESIDUAL = 0.5  # a passage with all the rest of the question counts half as much again
TIE_BREAK = 1e-6
TYPICAL_WORDS = 80  # of a passage, where none has been read yet


@dataclass(frozen=True, slots=True)
class Start:
    """All that the first round of reads finds out about a question."""

    links: tuple[Link, ...]
    legs: direct.Legs
    direct: Mapping[str, float]
    facts: Mapping[str, float]  # relation key -> score
    known: Mapping[str, EntityLinks]
    dense: Vector
    passages: int
    residual: Mapping[str, float] = field(default_factory=dict)  # by passage, the best is 1

    def rarity(self, link: Link) -> float:
        """Of a name in the text of the workspace. A word in lower case ("time") may be the name of
        one page only and stand everywhere: then its frequency in general English counts."""
        mentions: float = self.known[link.entity.key].mentions
        if link.plain:
            common = expected_passages(link.entity.key, self.passages, TYPICAL_WORDS)
            mentions = max(mentions, common)
        return idf(mentions, self.passages)


def trust(start: Start) -> float:
    """κ in [0, 1]: full when the question names something rare that a passage is about, none when
    it names nothing or only hubs."""
    confidence = max((_confidence(start, link) for link in start.links), default=0.0)
    return max(0.0, min(1.0, (confidence - LEAST) / (FULL - LEAST)))


def _confidence(start: Start, link: Link) -> float:
    row = start.known[link.entity.key]
    return link.weight * start.rarity(link) * (1.0 if row.about else NOT_ABOUT)


def restart(start: Start, kappa: float) -> tuple[dict[str, float], dict[str, float]]:
    """Where the walk begins: by entity key, and by passage id."""
    rarity = {key: idf(row.mentions, start.passages) for key, row in start.known.items()}
    links: dict[str, float] = {}
    for link in start.links:
        links[link.entity.key] = link.weight * start.rarity(link)
    facts: dict[str, float] = {}
    for fact, score in start.facts.items():
        ends = [end for end in relation_ends(fact) if end in rarity]
        for end in ends:
            facts[end] = facts.get(end, 0.0) + score * rarity[end] / len(ends) ** 0.5
    entities = _shared(links, 1.0)
    for key, mass in _shared(facts, FACT_MASS).items():
        entities[key] = entities.get(key, 0.0) + mass
    top = best_first(start.direct)[:TOP_PASSAGES]
    passages = _shared({hit.key: hit.score**2 for hit in top}, 1 - 0.9 * kappa)
    return entities, passages


def _shared(weights: Mapping[str, float], total: float) -> dict[str, float]:
    whole = sum(weights.values())
    return {key: total * weight / whole for key, weight in weights.items()} if whole > 0 else {}


def final_scores(
    mass: Mapping[str, float],
    scores: Mapping[str, float],
    kappa: float,
    *,
    subjects: Mapping[str, float],
    residual: Mapping[str, float],
) -> list[Hit]:
    """s = [(0.25 + 0.75κ)·g/max g + (1 − κ)·d/max d + 0.3·u/max u]·(1 + 0.5·κ·r), with g the mass
    of the passage, u that of what it is about and r its residual, which says nothing beside d where
    no name is trusted. Passages that the walk did not reach keep d."""
    most, highest = _top(mass), _top(subjects)
    top = _top(scores)
    share = WALK_FLOOR + (1 - WALK_FLOOR) * kappa
    final = {}
    for key in {*mass, *scores}:
        score = share * mass.get(key, 0.0) / most + SUBJECT * subjects.get(key, 0.0) / highest
        score += (1 - kappa + TIE_BREAK) * scores.get(key, 0.0) / top
        final[key] = score * (1 + RESIDUAL * kappa * residual.get(key, 0.0))
    return best_first(final)


def _top(weights: Mapping[str, float]) -> float:
    return max(weights.values(), default=0.0) or 1.0
