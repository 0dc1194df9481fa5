"""What the figures are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Aim:
    """`figure` of the rows of a part that match `what` is to be at most (or at least) `bound`."""

    label: str
    part: str
    what: Mapping[str, Any]
    figure: str
    bound: float
    least: bool = False


def _at(stack: str, **more: Any) -> dict[str, Any]:
    return {"system": "heliograph", "stack": stack, **more}


MOST = 10_000  # documents that queries and updates are held to
EMBEDDED, NEO4J = "embedded", "neo4j"
MIX = {"n": MOST, "mode": "mix"}

AIMS: tuple[Aim, ...] = (
    Aim("ingestion embedded, CPU-ms", "ingest", _at(EMBEDDED, chat_ms=0.0), "cpu_ms", 10),
    Aim("ingestion Neo4j, CPU-ms", "ingest", _at(NEO4J, chat_ms=0.0), "cpu_ms", 25),
    Aim("model calls a chunk", "ingest", _at(EMBEDDED, chat_ms=0.0), "calls", 1.05),
    Aim("prompt tokens a chunk beside its text", "ingest", _at(EMBEDDED, chat_ms=0.0),
        "overhead_tokens", 1200),
    Aim("wall embedded, of the bound at 50 ms", "ingest", _at(EMBEDDED, chat_ms=50.0),
        "over_bound", 1.15),
    Aim("wall Neo4j, of the bound at 50 ms", "ingest", _at(NEO4J, chat_ms=50.0), "over_bound", 1.3),
    Aim("query embedded, CPU-ms", "query", _at(EMBEDDED, clients=1, **MIX), "cpu_ms", 10),
    Aim("query embedded, p50 ms", "query", _at(EMBEDDED, clients=1, **MIX), "p50_ms", 10),
    Aim("query embedded, p95 ms", "query", _at(EMBEDDED, clients=1, **MIX), "p95_ms", 30),
    Aim("query Neo4j, p50 ms", "query", _at(NEO4J, clients=1, **MIX), "p50_ms", 25),
    Aim("query Neo4j, p95 ms", "query", _at(NEO4J, clients=1, **MIX), "p95_ms", 60),
    Aim("queries a second, 16 clients, embedded", "query", _at(EMBEDDED, clients=16, **MIX),
        "rate", 150, least=True),
    Aim("p95 while documents come in, of that at rest", "query",
        _at(EMBEDDED, n=MOST, mode="busy"), "p95_ratio", 2),
    Aim("delete one of 10,000, CPU-ms", "update", _at(EMBEDDED, n=MOST, what="delete one"),
        "cpu_ms", 50),
    Aim("largest process, MiB", "scale", _at(EMBEDDED, what="ingest"), "process_mib", 1024),
    Aim("API ready, s", "start", {"role": "api"}, "wall_s", 1.5),
    Aim("worker ready, s", "start", {"role": "worker"}, "wall_s", 1.5),
)  # fmt: skip
