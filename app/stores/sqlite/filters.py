"""Metadata as rows of typed values, and filters as conditions over them.

A value is text, a number or a truth value; kinds never match across, so `"1"`, `1` and `True` are
three different things. A list-valued field has one row per element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from app.domain import Revision, Scalar
from app.errors import Invalid
from app.ports import Condition, Filters

RESERVED = ("document_id", "name", "date")
_RANGE = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
_LARGEST = 2**63 - 1

Field = tuple[str, str, str | int | float]  # name, kind, value


def fields_of(document_id: str, revision: Revision, uploaded_at: float) -> list[Field]:
    """All that filters can ask about a revision. Reserved names win over metadata."""
    date = revision.date or datetime.fromtimestamp(uploaded_at, UTC).isoformat(timespec="seconds")
    found: set[Field] = {
        ("document_id", "text", document_id),
        ("name", "text", revision.name),
        ("date", "text", date),
    }
    for name, value in revision.metadata.items():
        if name in RESERVED:
            continue
        for one in [value] if isinstance(value, str) or not isinstance(value, Sequence) else value:
            found.add((name, *_typed(one)))
    return sorted(found, key=repr)


def select_matching(filters: Filters, *, live: str) -> tuple[list[str], dict[str, object]]:
    """One sub-select of document ids per filter, and the parameters of all. `live` is an SQL
    expression for the revision to look at; `:workspace` is the caller's."""
    selects: list[str] = []
    parameters: dict[str, object] = {}

    def bound(value: object) -> str:
        parameters[f"f{len(parameters)}"] = value
        return f":f{len(parameters) - 1}"

    for name, condition in filters.items():
        tests = [
            f"kind = {bound(kind)} and {' and '.join(f'value {op} {bound(v)}' for op, v in terms)}"
            for kind, terms in _alternatives(name, condition)
        ]
        either = " or ".join(f"({test})" for test in tests) or "0"
        selects.append(
            "select document_id from fields where workspace = :workspace"
            f" and name = {bound(name)} and live = {live} and ({either})"
        )
    return selects, parameters


Terms = list[tuple[str, str | int | float]]  # comparisons that one element must all meet


def _alternatives(name: str, condition: Condition) -> list[tuple[str, Terms]]:
    if isinstance(condition, Mapping):
        return [_range(name, condition)]
    listed = isinstance(condition, Sequence) and not isinstance(condition, str)
    values: Sequence[Any] = condition if listed else [condition]  # type: ignore[assignment]  # narrowed by `listed`
    return [(kind, [("=", value)]) for kind, value in map(_typed, values)]


def _range(name: str, condition: Mapping[Any, Any]) -> tuple[str, Terms]:
    if not condition or not condition.keys() <= _RANGE.keys():
        raise Invalid(f"The range for '{name}' must consist of gte, gt, lte or lt.")
    typed = [(operator, *_typed(value)) for operator, value in condition.items()]
    kinds = {kind for _, kind, _ in typed}
    if len(kinds) > 1 or "bool" in kinds:
        raise Invalid(f"The limits of the range for '{name}' must be all text or all numbers.")
    return kinds.pop(), [(_RANGE[operator], value) for operator, _, value in typed]


def _typed(value: Scalar) -> tuple[str, str | int | float]:
    if isinstance(value, bool):
        return "bool", int(value)
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
