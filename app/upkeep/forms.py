"""Nouns as plain JSON and back, for the members of an archive."""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.domain import (
    Chunk,
    EntityMention,
    Extraction,
    Failure,
    Point,
    Ref,
    RelationMention,
    Revision,
    Sparse,
    Usage,
)

Json = Mapping[str, Any]


def revision_json(revision: Revision | None) -> Json | None:
    return None if revision is None else asdict(revision)


def revision_of(json: Json | None) -> Revision | None:
    return None if json is None else Revision(**json)


def failure_of(json: Json | None) -> Failure | None:
    return None if json is None else Failure(**json)


def chunk_of(json: Json) -> Chunk:
    return Chunk(**{**json, "headings": tuple(json["headings"])})


def extraction_of(json: Json) -> Extraction:
    return Extraction(
        entities=tuple(
            EntityMention(**{**one, "aliases": tuple(one["aliases"])}) for one in json["entities"]
        ),
        relations=tuple(
            RelationMention(**{**one, "keywords": tuple(one["keywords"])})
            for one in json["relations"]
        ),
        about=tuple(json["about"]),
        model=json["model"],
        dropped=json["dropped"],
        error=json["error"],
        usage=Usage(**json["usage"]),
    )


def point_json(point: Point | None) -> Json | None:
    """Floats as base64 of 32 bits each, little-endian, which is what engines keep."""
    if point is None:
        return None
    return {
        "dense": _packed("f", point.dense),
        "indices": _packed("I", point.sparse.indices),
        "values": _packed("f", point.sparse.values),
    }


def point_of(json: Json, ref: Ref, document_id: str = "") -> Point:
    sparse = Sparse(tuple(_unpacked("I", json["indices"])), tuple(_unpacked("f", json["values"])))
    return Point(ref, tuple(_unpacked("f", json["dense"])), sparse, document_id)


def _packed(code: str, numbers: Any) -> str:
    return base64.b64encode(_little(array(code, numbers)).tobytes()).decode("ascii")


def _unpacked(code: str, text: str) -> Any:
    return _little(array(code, base64.b64decode(text)))


def _little(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
