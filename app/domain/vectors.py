"""Vectors, points and hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.ids import Kind, Ref
from app.domain.jobs import Usage

Vector = tuple[float, ...]


class Sparse(NamedTuple):
    """Term weights: hashed term ids (unique) and their values."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Embeddings:
    """A vector for each text, and what they cost; their tokens count as prompt tokens."""

    vectors: Sequence[Vector]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Point:
    """`dense` is () where the model has no vector for the text: then only its words find it.
    `digest` identifies the text."""

    ref: Ref
    dense: Vector
    sparse: Sparse
    document_id: str = ""  # chunks only
    digest: str = ""


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """One search: by dense or by sparse vector. `within` limits to these keys, `documents` (chunks
    only) to these documents; None means no limit."""

    kind: Kind
    limit: int
    dense: Vector | None = None
    sparse: Sparse | None = None
    within: Sequence[str] | None = None
    documents: Sequence[str] | None = None


class Hit(NamedTuple):
    key: str
    score: float
