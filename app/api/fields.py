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
    model_validator,
)

from app.domain import Metadata, Scalar

MAX_ID = 128
MAX_NAME = 1024
MAX_METADATA_FIELDS = 64
# Words that stand for a route where an id could stand, and path parts that clients resolve.
_RESERVED_IDS = frozenset({"counts", "estimate", "delete", ".", ".."})


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


DocumentKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_ID,
        description="Your own id; without one it is derived from the content. A known id replaces "
        "that document once the new version is ready.",
        examples=["carol"],
    ),
    AfterValidator(check_id),
]
DateText = Annotated[
    str,
    Field(
        max_length=40,
        description="Date of the content, ISO 8601; without one, the time of the upload.",
        examples=["1843-12-19"],
    ),
    AfterValidator(check_date),
]
MetadataBody = Annotated[
    dict[str, Any],
    Field(
        description="Flat fields for filters: strings, numbers, booleans, or lists of them.",
        examples=[{"author": "Charles Dickens", "year": 1843, "tags": ["novella"]}],
        json_schema_extra={
            "maxProperties": MAX_METADATA_FIELDS,
            "additionalProperties": {
                "anyOf": [
                    {"type": ["string", "number", "boolean"]},
                    {"type": "array", "maxItems": 64,
                     "items": {"type": ["string", "number", "boolean"]}},
                ]
            },
        },
    ),
    AfterValidator(check_metadata),
]  # fmt: skip
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

_Value = Annotated[str, Field(max_length=1024)] | bool | int | float
_Bound = Annotated[str, Field(max_length=1024)] | Annotated[float, Field(allow_inf_nan=False)]


class RangeBody(Body):
    """A range; strings compare by code point, so ISO dates work."""

    gte: _Bound | None = Field(None, description="At least.")
    gt: _Bound | None = Field(None, description="More than.")
    lte: _Bound | None = Field(None, description="At most.")
    lt: _Bound | None = Field(None, description="Less than.")

    @model_validator(mode="after")
    def _has_a_bound(self) -> RangeBody:
        if not self.model_fields_set:
            raise ValueError("a range needs gte, gt, lte or lt")
        return self


def _check_filters(value: dict[str, Any]) -> dict[str, Any]:
    for name, condition in value.items():
        if isinstance(condition, RangeBody):
            continue
        for one in condition if isinstance(condition, list) else [condition]:
            _check_scalar(name, one)
    return value


FilterBody = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=64)],
        _Value | Annotated[list[_Value], Field(max_length=1000)] | RangeBody,
    ],
    Field(
        max_length=16,
        description="Only documents that meet all conditions. A field is one of the metadata, or "
        "`document_id`, `name`, `date`. A value must be equal, a list means any of, an object is "
        "a range.",
        examples=[{"author": "Charles Dickens", "year": {"gte": 1840, "lt": 1850}}],
    ),
    AfterValidator(_check_filters),
]


def filters_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Filters as `app.ports.Filters`."""
    return {
        name: condition.model_dump(exclude_none=True)
        if isinstance(condition, RangeBody)
        else condition
        for name, condition in body.items()
    }


def date_of(given: str, metadata: Metadata) -> str:
    """The document's date: as given, else the metadata field `date`; ValueError if that is none."""
    stated: Scalar | Any = metadata.get("date", "")
    if given or not stated:
        return given
    if not isinstance(stated, str):
        raise ValueError("the metadata field date must be a date in ISO 8601")
    return check_date(stated)
