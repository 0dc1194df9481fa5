"""What a workspace holds, as the service's own fingerprint sees it, and what is outside of that:
the bytes of originals and texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.upkeep.difference import difference
from tests.faults.workload import Client

WHERE = "/admin/workspaces/default/fingerprint"
SHOWN = 20


@dataclass(frozen=True)
class Held:
    """The hash, and the records that it is made of."""

    hash: str
    records: Sequence[str]


def held(client: Client) -> Held:
    found = client.call("GET", WHERE)["fingerprint"]
    return Held(found, client.text("GET", WHERE, params={"dump": "true"}).splitlines())


def differences(expected: Held, found: Held) -> list[str]:
    """Lines that name each difference; none if there is none."""
    if expected.hash == found.hash:
        return []
    return list(difference(expected.records, found.records))[:SHOWN] or ["only the hashes differ"]


def stray_blobs(client: Client, folder: Path, documents: Sequence[str]) -> list[str]:
    """Files of the blob store that no document refers to, and those that are missing."""
    wanted = set()
    for one in documents:
        for part in ("original", "text"):
            data = client.text("GET", f"/documents/{one}/{part}")
            wanted.add(hashlib.sha256(data.encode()).hexdigest())
    there = {file.name for file in folder.rglob("*") if file.is_file()}
    return [
        *(f"blob missing: {key}" for key in sorted(wanted - there)),
        *(f"blob left behind: {key}" for key in sorted(there - wanted)),
    ]
