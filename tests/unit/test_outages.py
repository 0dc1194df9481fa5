"""A store that is away is no fault of the document at hand: it uses up no try."""

from __future__ import annotations

import sqlite3

import pytest
from neo4j.exceptions import ServiceUnavailable

from app.errors import Unavailable
from app.stores import blobs
from app.stores.neo4j import database as neo4j
from app.stores.sqlite import database as sqlite


def full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


@pytest.mark.parametrize(
    ("border", "fault"),
    [
        (sqlite._translated, full()),
        (neo4j._translated, ServiceUnavailable("refused")),
        (neo4j._translated, TimeoutError()),
        (blobs._errors, OSError(28, "No space left on device")),
    ],
)
def test_an_outage_uses_up_no_try(border: object, fault: Exception) -> None:
    with pytest.raises(Unavailable) as caught, border():  # type: ignore[operator]
        raise fault
    assert caught.value.transient and caught.value.blameless
