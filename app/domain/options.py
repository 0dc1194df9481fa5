"""Knobs and keys that core code sees."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What an API key may do; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Options:
    """Knobs of ingestion and retrieval; plain data, so core code never sees the settings."""

    chunk_tokens: int = 1200
    chunk_overlap: int = 100
    chunks_per_step: int = 8
    parse_seconds: float = 120.0
    parse_memory_mb: int = 1024
    gleanings: int = 0
    profile_tokens: int = 500
    summary_threshold: int = 1200  # tokens of descriptions beyond which a profile is summarised
    entity_kinds: tuple[str, ...] = (
        "person", "organization", "location", "event", "work", "method", "concept", "other",
    )  # fmt: skip
    language: str = ""
    dense_weight: float = 0.4
    report_tokens: int = 8000  # of facts that a community's report is made from
    report_size: int = 3  # entities below which rules write the report, model or not
    community_reports: int = 64  # that a question is put to, those that matter most
    community_calls: int = 8  # model calls at a time for one such question


@dataclass(frozen=True, slots=True)
class ApiKey:
    """`digest` is the SHA-256 of the secret. No workspace listed means: all of them."""

    id: str
    digest: str
    scope: Scope
    workspaces: tuple[str, ...]
    label: str
    created_at: float
