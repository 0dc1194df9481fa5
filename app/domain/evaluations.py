"""Evaluations of modes, and what a judge says in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.jobs import Usage


@dataclass(frozen=True, slots=True)
class Compared:
    """Which of two answers is better on each criterion: 1 or 2, 0 where neither is. Criteria that
    the reply says nothing usable about are missing."""

    better: Mapping[str, int]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Proposed:
    """Lines that were asked for, in order, without repeats; fewer where the reply has no more."""

    lines: tuple[str, ...]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Modes measured on questions by a job of the same id. `request` and `result` are JSON as
    `app.evaluation` writes it, `result` "" until all is done; `measured` of `total` outcomes are
    there. Lists leave both texts out."""

    id: str
    name: str
    request: str
    total: int
    measured: int = 0
    result: str = ""
    created_at: float = 0.0
