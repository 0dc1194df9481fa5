"""Filters as parameters of a Cypher condition over the fields of documents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import LiteralString

from app.ports import Filters
from app.stores.filters import Test, tests_of
from app.stores.neo4j.database import Row

LONGEST_VALUE = 1000  # characters of a field that filters compare as they are
EVERY_DOCUMENT = Test("document_id", "text", limits={"gte": ""})

# Whether document `d` meets all of `$filters`: with its visible revision, else the coming one.
MATCHES: LiteralString = """
    all(tests IN $filters WHERE EXISTS {
        MATCH (d)-[:HAS_FIELD]->(f) WHERE f.live = (d.live IS NOT NULL)
        AND any(t IN tests WHERE f.name = t.name AND (f.value IN t.values OR (
            t.ranged AND (t.gte IS NULL OR f.value >= t.gte)
            AND (t.gt IS NULL OR f.value > t.gt)
            AND (t.lte IS NULL OR f.value <= t.lte)
            AND (t.lt IS NULL OR f.value < t.lt))))
    })
    """


def parameters_of(filters: Filters) -> list[list[Row]]:
    return [parameters(tests) for tests in tests_of(filters)]


def parameters(tests: Sequence[Test]) -> list[Row]:
    return [
        {
            "name": test.name,
            "values": [indexable(value) for value in test.values],
            "ranged": bool(test.limits),
            **{operator: indexable(value) for operator, value in test.limits.items()},
        }
        for test in tests
    ]


def indexable(value: str | int | float | bool) -> str | int | float | bool:
    """An index takes 8 kB at most. Long texts keep their beginning, and a hash for equality."""
    if not isinstance(value, str) or len(value) <= LONGEST_VALUE:
        return value
    return value[:LONGEST_VALUE] + hashlib.sha256(value.encode()).hexdigest()
