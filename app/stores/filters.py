"""What filters can ask about a document, and the tests that they consist of.

A value is text, a number or a truth value, and kinds never match across, so `"1"`, `1` and `True`
are three different things. A list-valued field counts as one field per element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from app.domain import Revision, Scalar
from app.errors import Invalid
from app.ports import Condition, Filters

RESERVED = ("document_id", "name", "date")
_LARGEST = 2**63 - 1


class Field(NamedTuple):
    """One filterable value; `kind` is text, number or bool."""

    name: str
    kind: str
    value: str | int | float | bool


class Test(NamedTuple):
    """A condition on one field: a value of `kind` that is one of `values`, or, if there are
    `limits` (gte, gt, lte, lt), meets all of them."""

    name: str
    kind: str
    values: tuple[str | int | float | bool, ...] = ()
    limits: Mapping[str, str | int | float | bool] = {}


def fields_of(document_id: str, revision: Revision, uploaded_at: float) -> list[Field]:
    """All that filters can ask about a revision. Reserved names win over metadata."""
    date = revision.date or datetime.fromtimestamp(uploaded_at, UTC).isoformat(timespec="seconds")
    found = {
        Field("document_id", "text", document_id),
        Field("name", "text", revision.name),
        Field("date", "text", date),
    }
    for name, value in revision.metadata.items():
        if name not in RESERVED:
            found.update(Field(name, *_typed(one)) for one in _elements(value))
    return sorted(found, key=repr)


def tests_of(filters: Filters) -> list[list[Test]]:
    """Per filter the tests of which one must hold. Raises `Invalid`."""
    return [_alternatives(name, condition) for name, condition in filters.items()]


def _alternatives(name: str, condition: Condition) -> list[Test]:
    if isinstance(condition, Mapping):
        return [_range(name, condition)]
    typed = [_typed(value) for value in _elements(condition)]
    return [
        Test(name, kind, tuple(value for one, value in typed if one == kind))
        for kind in sorted({kind for kind, _ in typed})
    ]


def _range(name: str, condition: Mapping[Any, Any]) -> Test:
    if not condition or not condition.keys() <= {"gte", "gt", "lte", "lt"}:
        raise Invalid(f"The range for '{name}' must consist of gte, gt, lte or lt.")
    typed = {operator: _typed(value) for operator, value in condition.items()}
    kinds = {kind for kind, _ in typed.values()}
    if len(kinds) > 1 or "bool" in kinds:
        raise Invalid(f"The limits of the range for '{name}' must be all text or all numbers.")
    return Test(name, kinds.pop(), limits={op: value for op, (_, value) in typed.items()})


def _elements(value: Scalar | Sequence[Scalar]) -> Sequence[Scalar]:
    return [value] if isinstance(value, str | int | float) else value


def _typed(value: Scalar) -> tuple[str, str | int | float | bool]:
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, str):
        return "text", value
    if isinstance(value, int):
        if abs(value) <= _LARGEST:
            return "number", value
        return "number", math.copysign(float(_LARGEST), value)
    if isinstance(value, float) and math.isfinite(value):
        return "number", value
    raise Invalid(
        "A metadata value must be text, a finite number, true or false, or a list of those."
    )
