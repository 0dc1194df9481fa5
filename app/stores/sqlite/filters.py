"""Filters as conditions over the typed values of documents."""

from __future__ import annotations

from collections.abc import Callable

from app.ports import Filters
from app.stores.filters import Test, tests_of

_RANGE = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


def select_matching(filters: Filters, *, live: str) -> tuple[list[str], dict[str, object]]:
    """One sub-select of document ids per filter, and the parameters of all. `live` is an SQL
    expression for the revision to look at; `:workspace` is the caller's."""
    selects: list[str] = []
    parameters: dict[str, object] = {}

    def bound(value: object) -> str:
        parameters[f"f{len(parameters)}"] = value
        return f":f{len(parameters) - 1}"

    for name, tests in zip(filters, tests_of(filters), strict=True):
        either = " or ".join(f"({_condition(test, bound)})" for test in tests) or "0"
        selects.append(
            "select document_id from fields where workspace = :workspace"
            f" and name = {bound(name)} and live = {live} and ({either})"
        )
    return selects, parameters


def _condition(test: Test, bound: Callable[[object], str]) -> str:
    kind = f"kind = {bound(test.kind)}"
    if test.limits:
        limits = [f"value {_RANGE[name]} {bound(value)}" for name, value in test.limits.items()]
        return " and ".join([kind, *limits])
    return f"{kind} and value in ({', '.join(map(bound, test.values))})"
