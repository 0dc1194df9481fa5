"""Rankings made comparable and merged. Pure; ties are broken by key, never by order of input."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from app.domain import Hit

RRF = 60


def fuse(rankings: Iterable[Sequence[str]], *, k: int = RRF) -> list[Hit]:
    """Reciprocal rank fusion (Cormack et al. 2009): places count, raw scores do not."""
    scores: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for place, key in enumerate(ranking, start=1):
            scores[key] += 1 / (k + place)
    return best_first(scores)


def best_first(scores: Mapping[str, float]) -> list[Hit]:
    return [Hit(key, -score) for score, key in sorted((-scores[key], key) for key in scores)]


def spread(hits: Sequence[Hit], limit: int) -> dict[str, float]:
    """Scores of the first `limit` hits stretched to [0, 1]: the best is 1, the last 0. When fewer
    were found, the floor is a score of 0, so that a single hit counts."""
    top = hits[:limit]
    if not top:
        return {}
    high = top[0].score
    low = top[-1].score if len(top) == limit and limit > 1 else min(0.0, top[-1].score)
    if high <= low:
        return {hit.key: 1.0 for hit in top}
    return {hit.key: (hit.score - low) / (high - low) for hit in top}


def standardised(scores: Mapping[str, float]) -> dict[str, float]:
    """z-scores; all 0 when nothing varies."""
    if len(scores) < 2:
        return dict.fromkeys(scores, 0.0)
    mean = statistics.fmean(scores.values())
    deviation = statistics.pstdev(scores.values(), mean)
    if deviation < 1e-12:
        return dict.fromkeys(scores, 0.0)
    return {key: (score - mean) / deviation for key, score in scores.items()}


def take_turns(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Round robin without repeats: the firsts of all, then the seconds; scores fall with place."""
    kept = dict.fromkeys(
        hit.key for row in zip_longest(*rankings) for hit in row if hit is not None
    )
    return [Hit(key, 1 / place) for place, key in enumerate(kept, start=1)]
