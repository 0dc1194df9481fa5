"""What the two vector engines share: names, checks, batches and the order of hits."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from app.domain import Hit, Kind, Point, Ref, Sparse, Vector, VectorQuery, derive_id
from app.errors import BadModelOutput, Invalid, Misconfigured, Unavailable

DENSE = "dense"
TERMS = "terms"
COLLECTIONS: Mapping[Kind, str] = {
    Kind.CHUNK: "chunks",
    Kind.ENTITY: "entities",
    Kind.RELATION: "relations",
    Kind.COMMUNITY: "communities",
}
# A batch stays far below the 32 MB that a Qdrant server takes; bytes are those of JSON.
MAX_BATCH_BYTES = 8_000_000
MAX_BATCH_POINTS = 256
MAX_BATCH_IDS = 1_000
_BYTES_PER_FLOAT = 22
_BYTES_PER_TERM = 34
_BYTES_PER_POINT = 400


def collection_name(prefix: str, kind: Kind, model: str, dimension: int) -> str:
    return f"{prefix}_{COLLECTIONS[kind]}__{model_slug(model)}_{dimension}"


def slots(prefix: str, model: str, dimension: int) -> tuple[dict[Kind, str], dict[Kind, str]]:
    """Names of two sets of collections, so that one can be made while the other is in use."""
    first = {kind: collection_name(prefix, kind, model, dimension) for kind in Kind}
    return first, {kind: f"{name}_b" for kind, name in first.items()}


def model_slug(model: str) -> str:
    """The model's name in letters that every file system and URL takes; different models differ."""
    slug = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.")[:60]
    if slug == model:
        return slug
    return f"{slug}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"


def point_id(workspace: str, ref: Ref) -> str:
    return derive_id(workspace, ref.kind, ref.key)


def payload(workspace: str, point: Point) -> dict[str, str]:
    return {
        "workspace": workspace, "key": point.ref.key, "document_id": point.document_id,
        "digest": point.digest,
    }  # fmt: skip


def stored_point(kind: Kind, payload: Mapping[str, Any] | None, named: object) -> Point:
    """A point as an engine gives it back, with its vectors by name."""
    assert payload is not None, "every point is stored with its key"
    assert isinstance(named, dict), "every point has a vector of terms"
    terms: Any = named[TERMS]  # of a class of the engine's own
    return Point(
        Ref(kind, payload["key"]), tuple(named.get(DENSE) or ()),
        Sparse(tuple(terms.indices), tuple(terms.values)), payload["document_id"],
        payload.get("digest", ""),
    )  # fmt: skip


def stored_digest(kind: Kind, payload: Mapping[str, Any] | None) -> tuple[Ref, str]:
    assert payload is not None, "every point is stored with its key"
    return Ref(kind, payload["key"]), payload.get("digest", "")


def refuse_other_model(*, stored: str, model: str, dimension: int) -> Misconfigured:
    return Misconfigured(
        f"The vector store was built with {stored}, but the embedding model is now {model} "
        f"({dimension} dimensions). Run `python -m app.cli reindex`, or set the former model again."
    )


def being_switched() -> Unavailable:
    return Unavailable(
        "New vectors take over in a moment; until then nothing is written to the old.",
        code="vectors_switching", retry_after=2, blameless=True,
    )  # fmt: skip


def moved_on() -> Unavailable:
    return Unavailable(
        "The vectors are of another embedding model now. This process answers from the former and "
        "writes nothing: start it with the settings of the new model.",
        code="vectors_moved", retry_after=30, blameless=True,
    )  # fmt: skip


def dense_part(vector: Vector) -> dict[str, list[float]]:
    return {DENSE: list(vector)} if vector else {}


def check_points(points: Sequence[Point], *, model: str, dimension: int) -> None:
    """An engine stores NaN without a word and then returns it as the best hit."""
    for point in points:
        _check_dense(point.dense, dimension, model, f"{point.ref.kind} {point.ref.key!r}")
        _check_sparse(point.sparse, f"{point.ref.kind} {point.ref.key!r}")


def places_by_kind(
    queries: Sequence[VectorQuery], *, model: str, dimension: int
) -> dict[Kind, list[int]]:
    """Places in `queries` of those that can match something, for one call per collection."""
    places: dict[Kind, list[int]] = {}
    for place, query in enumerate(queries):
        if _runnable(query, model=model, dimension=dimension):
            places.setdefault(query.kind, []).append(place)
    return places


def fetch_limit(limit: int) -> int:
    """Somewhat more than asked, so that ties at the cut are broken by key and not by chance."""
    return limit + max(16, limit // 4)


def ranked(hits: Iterable[tuple[str, float]], limit: int) -> list[Hit]:
    """Engines sum in single precision and in any order: scores are equal from 1e-6 on."""
    best = sorted((-round(score, 6), key) for key, score in hits)
    return [Hit(key, -score) for score, key in best[:limit]]


def by_kind(points: Sequence[Point]) -> Iterator[tuple[Kind, list[Point]]]:
    """Batches of one kind each. Of points with the same reference the last one counts."""
    latest = {point.ref: point for point in points}
    for kind, group in groupby(sorted(latest.values(), key=attrgetter("ref")), _kind):
        for batch in _batches(list(group)):
            yield kind, batch


def refs_by_kind(refs: Sequence[Ref]) -> Iterator[tuple[Kind, list[Ref]]]:
    for kind, group in groupby(sorted(set(refs)), attrgetter("kind")):
        same = list(group)
        for start in range(0, len(same), MAX_BATCH_IDS):
            yield kind, same[start : start + MAX_BATCH_IDS]


def _runnable(query: VectorQuery, *, model: str, dimension: int) -> bool:
    """False: nothing can match, so no call is needed."""
    if (query.dense is None) == (query.sparse is None):
        raise Invalid("A vector query needs either a dense or a sparse vector.")
    if query.dense is not None:
        _check_dense(query.dense, dimension, model, "the query")
    elif query.sparse is not None:
        _check_sparse(query.sparse, "the query")
        if not query.sparse.indices:
            return False
    empty = (query.within is not None and not query.within) or (
        query.documents is not None and not query.documents
    )
    return query.limit > 0 and not empty


def _kind(point: Point) -> Kind:
    return point.ref.kind


def _batches(points: Sequence[Point]) -> Iterator[list[Point]]:
    batch: list[Point] = []
    size = 0
    for point in points:
        cost = _BYTES_PER_POINT + 4 * len(point.ref.key)
        cost += _BYTES_PER_FLOAT * len(point.dense) + _BYTES_PER_TERM * len(point.sparse.indices)
        if batch and (len(batch) == MAX_BATCH_POINTS or size + cost > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += cost
    if batch:
        yield batch


def _check_dense(vector: Vector, dimension: int, model: str, owner: str) -> None:
    if not vector:  # the model had none for this text; its words find it
        return
    if len(vector) != dimension:
        raise Invalid(
            f"The vector of {owner} has {len(vector)} dimensions, but the store was opened for "
            f"{model} with {dimension}. After a change of embedding model run "
            "`python -m app.cli reindex`."
        )
    # hypot is finite only if every part is, and zero only if every part is.
    length = math.hypot(*vector)
    if not math.isfinite(length) or length == 0:
        raise BadModelOutput(f"The embedding model gave {owner} a vector without a direction.")


def _check_sparse(sparse: Sparse, owner: str) -> None:
    if len(set(sparse.indices)) != len(sparse.values) or not all(map(math.isfinite, sparse.values)):
        raise Invalid(f"The sparse vector of {owner} needs unique indices and finite values.")
