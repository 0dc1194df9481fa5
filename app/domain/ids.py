"""Ids and keys: derived, so that equal things are found again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

Scalar = str | int | float | bool


Metadata = Mapping[str, Scalar | Sequence[Scalar]]


class Kind(StrEnum):
    """What a vector point or graph reference stands for."""

    CHUNK = "chunk"
    ENTITY = "entity"
    RELATION = "relation"
    COMMUNITY = "community"


def derive_id(workspace: str, kind: str, *natural: str) -> str:
    """Deterministic 128-bit UUID of a natural key; the same in every store."""
    digits = hashlib.sha256("\x1f".join((workspace, kind, *natural)).encode()).hexdigest()
    # Variant and version 8 (RFC 9562: custom) by hand: `uuid` takes version 8 from 3.14 on only,
    # and to make one doubles the time; thousands are derived for a question.
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def document_id_of(source: str) -> str:
    """Id of a document that its sender gave none: equal bytes, equal id, in every workspace. What
    depends on the order of ids is so the same in a copy of a workspace."""
    return derive_id("", "document", source)


def chunk_id(
    document_id: str, *, start: int, page: int | None, headings: Sequence[str], text: str
) -> str:
    """Covers all that a chunk shows, so that equal ids mean equal chunks."""
    return derive_id("", "chunk", document_id, str(start), str(page), *headings, text)


def relation_key(one: str, other: str) -> str:
    """Key of the unordered pair of two entity keys."""
    return "\t".join(sorted((one, other)))


def relation_ends(key: str) -> tuple[str, str]:
    first, second = key.split("\t")
    return first, second


class Ref(NamedTuple):
    """Points at a chunk, entity, relation or community of the workspace at hand."""

    kind: Kind
    key: str
