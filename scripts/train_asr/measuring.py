"""Recall of gold chunks (or gold relations) at k of a scorer, over examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

import numpy as np

from app.query.anchored import prior
from app.query.anchored.chosen import SECOND
from app.query.anchored.distances import Floats
from app.query.anchored.features import Features, View, features
from app.query.anchored.network import Network
from scripts.train_asr.examples import Example

TOP = 80  # relations whose chunks count, as at run time with the default top_k

Scorer = Callable[[View, Features], Floats]


def score_all(
    scorer: Network | Scorer, examples: Sequence[Example], *, without: Collection[str] = ()
) -> list[Floats]:
    found = []
    for one in examples:
        seen = features(one.view, without=without)
        if isinstance(scorer, Network):
            found.append(scorer.scores(one.view, seen))
        else:
            found.append(scorer(one.view, seen))
    return found


def by_prior(view: View, seen: Features) -> Floats:
    return prior.score(view, seen)


def by_cosine(view: View, seen: Features) -> Floats:
    return view.relation


def ranked_chunks(example: Example, scores: Floats) -> list[int]:
    """As `app.query.anchored.chosen.chunk_hits` ranks them, from the kept relations; of a relation
    example, its relations."""
    order = np.lexsort((np.arange(len(scores)), -scores))
    if (
        len(example.support) == len(scores)
        and (example.support[:, 0] == example.support[:, 1]).all()
    ):
        return [int(row) for row in order]
    low = float(scores.min())
    whole = (float(scores.max()) - low) or 1.0
    kept = {int(row): (float(scores[row]) - low) / whole for row in order[:TOP]}
    found: defaultdict[int, list[float]] = defaultdict(list)
    for row, chunk in example.support.tolist():
        if row in kept:
            found[chunk].append(kept[row])
    total = {
        chunk: max(its) + SECOND * (sorted(its)[-2] if len(its) > 1 else 0.0)
        for chunk, its in found.items()
    }
    return sorted(total, key=lambda chunk: (-total[chunk], chunk))


def recall_of(examples: Sequence[Example], scores: Sequence[Floats], k: int) -> float:
    """Mean share of gold among the first k, in percent."""
    shares = [
        len((set(one.gold.tolist()) - {-1}) & set(ranked_chunks(one, its)[:k])) / len(one.gold)
        for one, its in zip(examples, scores, strict=True)
        if len(one.gold)
    ]
    return 100 * sum(shares) / max(1, len(shares))
