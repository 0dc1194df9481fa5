"""Types of request fields that several bodies share, with their limits and meanings."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
)

from app.domain import Metadata, Scalar
from app.names import is_blank

MAX_ID = 128
MAX_NAME = 1024
MAX_METADATA_FIELDS = 64
# Words that stand for a route where an id could stand, and path parts that clients resolve.
_RESERVED_IDS = frozenset({"counts", "estimate", "delete", ".", ".."})

_SCALAR_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string", "maxLength": 1024}, {"type": ["number", "boolean"]}]
}


class Body(BaseModel):
    """A request body: unknown fields are mistakes."""

    model_config = ConfigDict(extra="forbid")


def has_control(text: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)


def check_id(value: str) -> str:
    """A caller's document id, or ValueError with the reason."""
    if not value or len(value) > MAX_ID:
        raise ValueError(f"an id has 1 to {MAX_ID} characters")
    if value != value.strip():
        raise ValueError("an id may not begin or end with blanks")
    if has_control(value):
        raise ValueError("an id may not hold control characters")
    if value in _RESERVED_IDS:
        raise ValueError(f"the id {value} is reserved")
    return value


def check_written(value: str) -> str:
    """A name as people write it, or ValueError with the reason."""
    if has_control(value):
        raise ValueError("a name may not hold control characters")
    if is_blank(value):
        raise ValueError("a name has at least one character that can be seen")
    return value


def check_date(value: str) -> str:
    """An ISO 8601 date, or date with time (converted to UTC), in its usual form."""
    try:
        if len(value) <= 10:
            return date.fromisoformat(value).isoformat()
        moment = datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            "write a date as 2024-05-31 or, with time, as 2024-05-31T12:00:00Z"
        ) from None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def check_metadata(value: Mapping[str, Any]) -> dict[str, Any]:
    """Flat JSON: scalars or lists of scalars; ValueError says which field is wrong."""
    if len(value) > MAX_METADATA_FIELDS:
        raise ValueError(f"at most {MAX_METADATA_FIELDS} fields")
    for name, content in value.items():
        if not name or len(name) > 64 or name != name.strip() or has_control(name):
            raise ValueError(
                f"{name[:64]!r} is no field name: 1 to 64 characters, no blanks around"
            )
        if name in ("document_id", "name"):
            raise ValueError(f"{name} is a name of its own in filters; call the field otherwise")
        _check_content(name, content)
    return dict(value)


def _check_content(name: str, content: object) -> None:
    if not isinstance(content, list):
        _check_scalar(name, content)
        return
    if len(content) > 64:
        raise ValueError(f"{name}: a list has at most 64 elements")
    for element in content:
        _check_scalar(name, element)


def _check_scalar(name: str, content: object) -> None:
    if isinstance(content, str):
        if len(content) > 1024:
            raise ValueError(f"{name}: a string has at most 1024 characters")
        if any("\ud800" <= char <= "\udfff" for char in content):
            raise ValueError(f"{name}: not valid Unicode")
    elif isinstance(content, bool):
        return
    elif isinstance(content, int):
        if abs(content) >= 2**63:
            raise ValueError(f"{name}: integers have at most 64 bits")
    elif not isinstance(content, float) or not math.isfinite(content):
        raise ValueError(
            f"{name}: a string, number, true, false, or a list of such; nothing nested"
        )


DocumentKey = Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(check_id)]
DateText = Annotated[str, Field(max_length=40), AfterValidator(check_date)]
MetadataBody = Annotated[
    dict[str, Any],
    Field(
        description="Flat fields for filters: strings, numbers, booleans, or lists of them.",
        examples=[{"author": "Charles Dickens", "year": 1843, "tags": ["novella"]}],
        json_schema_extra={
            "maxProperties": MAX_METADATA_FIELDS,
            "propertyNames": {"minLength": 1, "maxLength": 64},
            "additionalProperties": {
                "anyOf": [
                    *_SCALAR_SCHEMA["anyOf"],
                    {"type": "array", "maxItems": 64, "items": _SCALAR_SCHEMA},
                ]
            },
        },
    ),
    AfterValidator(check_metadata),
]  # fmt: skip
Written = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=512),
    AfterValidator(check_written),
]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

_BOUND_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string", "maxLength": 1024}, {"type": "number"}]
}
_BOUNDS = ("gte", "gt", "lte", "lt")
MAX_ANY_OF = 1000


def check_filters(value: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions on metadata (`app.ports.Filters`); ValueError says which is wrong."""
    if len(value) > 16:
        raise ValueError("at most 16 conditions")
    for name, condition in value.items():
        if not name or len(name) > 64 or has_control(name):
            raise ValueError(f"{name[:64]!r} is no field name: 1 to 64 characters")
        if isinstance(condition, Mapping):
            _check_range(name, condition)
        elif isinstance(condition, list):
            if not 0 < len(condition) <= MAX_ANY_OF:
                raise ValueError(f"{name}: a list has 1 to {MAX_ANY_OF} values, any of which match")
            for one in condition:
                _check_scalar(name, one)
        else:
            _check_scalar(name, condition)
    return dict(value)


def _check_range(name: str, bounds: Mapping[str, Any]) -> None:
    if not bounds or set(bounds) - set(_BOUNDS):
        raise ValueError(f"{name}: a range has the bounds {', '.join(_BOUNDS)}, and at least one")
    for bound in bounds.values():
        _check_scalar(name, bound)
        if isinstance(bound, bool):
            raise ValueError(f"{name}: a bound is a string or a number")


FilterBody = Annotated[
    dict[str, Any],
    Field(
        description="Only documents that meet all conditions. A field is one of the metadata, or "
        "`document_id`, `name`, `date`. A value must be equal, a list means any of, an object is "
        "a range (strings compare by code point, so ISO dates work).",
        examples=[{"author": "Charles Dickens", "year": {"gte": 1840, "lt": 1850}}],
        json_schema_extra={
            "maxProperties": 16,
            "propertyNames": {"minLength": 1, "maxLength": 64},
            "additionalProperties": {
                "anyOf": [
                    *_SCALAR_SCHEMA["anyOf"],
                    {"type": "array", "minItems": 1, "maxItems": MAX_ANY_OF,
                     "items": _SCALAR_SCHEMA},
                    {"type": "object", "minProperties": 1, "additionalProperties": False,
                     "properties": dict.fromkeys(_BOUNDS, _BOUND_SCHEMA)},
                ]
            },
        },
    ),
    AfterValidator(check_filters),
]  # fmt: skip


def date_of(given: str, metadata: Metadata) -> str:
    """The document's date: as given, else the metadata field `date`; ValueError if that is none."""
    stated: Scalar | Any = metadata.get("date", "")
    if given or not stated:
        return given
    if not isinstance(stated, str):
        raise ValueError("the metadata field date must be a date in ISO 8601")
    return check_date(stated)
