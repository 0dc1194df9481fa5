"""Direct search: passages by their own words and meaning, and by the relations that they assert.

The direct score of a passage p (`mm` stretches a ranking's first k scores to [0, 1]):

    d(p) = [mm(bm25) + w·mm(dense) + 0.2·mm(best dense relation of p)
            + 0.2·mm(best sparse relation of p)] / (1 + w + 0.4)

with w = `Options.dense_weight`: 0.4 suits the built-in encoder, stronger ones deserve up to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain import Hit, Kind, Sparse, Vector, VectorQuery
from app.query.ranking import spread
from app.query.scope import Scope

CHUNK_LEG = 50
RELATION_LEG = 100
RESIDUAL_LEG = 200
RELATION_WEIGHT = 0.2
NO_TERMS = Sparse((), ())


@dataclass(frozen=True, slots=True)
class Legs:
    """Hits of the searches with the question itself, and with its words beside names."""

    chunk_dense: Sequence[Hit] = ()
    chunk_sparse: Sequence[Hit] = ()
    chunk_residual: Sequence[Hit] = ()
    relation_dense: Sequence[Hit] = ()
    relation_sparse: Sequence[Hit] = ()

    @property
    def likeness(self) -> float:
        """Cosine of the nearest chunk, 0 without one."""
        return self.chunk_dense[0].score if self.chunk_dense else 0.0

    def relation_keys(self) -> list[str]:
        return sorted({hit.key for hit in (*self.relation_dense, *self.relation_sparse)})


def by_meaning(
    kind: Kind, limit: int, vector: Vector, *,
    within: Sequence[str] | None = None, documents: Sequence[str] | None = None,
) -> VectorQuery:  # fmt: skip
    """A search by dense vector. Text without a word ("???") has none with a direction: the search
    then finds nothing, as one for no terms does."""
    if any(vector):
        return VectorQuery(kind, limit, dense=vector, within=within, documents=documents)
    return VectorQuery(kind, limit, sparse=NO_TERMS, within=within, documents=documents)


def chunk_queries(dense: Vector, sparse: Sparse, scope: Scope) -> list[VectorQuery]:
    documents = scope.documents
    return [
        by_meaning(Kind.CHUNK, CHUNK_LEG, dense, documents=documents),
        VectorQuery(Kind.CHUNK, CHUNK_LEG, sparse=sparse, documents=documents),
    ]


def residual_query(residual: Sparse, scope: Scope) -> VectorQuery:
    return VectorQuery(Kind.CHUNK, RESIDUAL_LEG, sparse=residual, documents=scope.documents)


def relation_queries(dense: Vector, sparse: Sparse, scope: Scope) -> list[VectorQuery]:
    within = scope.relations
    return [
        by_meaning(Kind.RELATION, RELATION_LEG, dense, within=within),
        VectorQuery(Kind.RELATION, RELATION_LEG, sparse=sparse, within=within),
    ]


def direct_scores(
    legs: Legs, relation_chunks: Mapping[str, Sequence[str]], *, dense_weight: float
) -> dict[str, float]:
    """d(p) in [0, 1] of every passage that a leg reaches."""
    parts = [
        (1.0, spread(legs.chunk_sparse, CHUNK_LEG)),
        (dense_weight, spread(legs.chunk_dense, CHUNK_LEG)),
        (RELATION_WEIGHT, _by_chunk(legs.relation_dense, relation_chunks)),
        (RELATION_WEIGHT, _by_chunk(legs.relation_sparse, relation_chunks)),
    ]
    whole = sum(weight for weight, _ in parts)
    scores: dict[str, float] = {}
    for weight, part in parts:
        for key, score in part.items():
            scores[key] = scores.get(key, 0.0) + weight * score / whole
    return scores


def residual_scores(legs: Legs) -> dict[str, float]:
    """r(p): how much of what the question says beside names the passage has, the best has 1. The
    last passage of a chain shares no name with the question, but often a word of what is asked."""
    top = max((hit.score for hit in legs.chunk_residual), default=0.0) or 1.0
    return {hit.key: hit.score / top for hit in legs.chunk_residual}


def _by_chunk(
    relations: Sequence[Hit], relation_chunks: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Best score of a relation that the chunk asserts, stretched."""
    best: dict[str, float] = {}
    for key, score in spread(relations, RELATION_LEG).items():
        for chunk in relation_chunks.get(key, ()):
            best[chunk] = max(best.get(chunk, 0.0), score)
    return best
