"""What is kept of a decision, and everything that one decision changes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.resolution.model import Pair


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A recorded pair of names and what became of it: merge, ask or apart. `tie`: whether a passage
    names both (`has`, `lacks`), where that decides; else empty."""

    pair: Pair
    decision: str
    tie: str = ""

    @property
    def place(self) -> str:
        """Where it stands in a list by score; readable by nobody else."""
        return f"{self.pair.score:.3f}\t{self.pair.one}\t{self.pair.other}"


class Resolved(NamedTuple):
    """A name as it was when it was settled. `apart`: scope -> form of the entity that mentions of
    this scope mean instead (`app.resolution.senses`)."""

    key: str
    revision: int
    blocks: tuple[str, ...]
    apart: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Settlement:
    """`pairs` are all recorded pairs of the resolved names, in place of those before; `decisions`
    are those of other pairs; `placed` says which entity names mean as a whole; `reopen` lists names
    that are to be resolved anew, since a block that they share has filled up or emptied."""

    version: int
    resolved: Sequence[Resolved] = ()
    gone: Sequence[str] = ()
    pairs: Sequence[Reviewed] = ()
    decisions: Sequence[tuple[str, str, str]] = ()  # (one, other, decision)
    placed: Mapping[str, str] = field(default_factory=dict)
    reopen: Sequence[str] = ()

    @property
    def tying(self) -> list[tuple[str, str]]:
        """Pairs that a passage with both names decides."""
        return [one.pair.keys for one in self.pairs if one.tie]

    @property
    def tied(self) -> set[tuple[str, str]]:
        """Those for which there was one."""
        return {one.pair.keys for one in self.pairs if one.tie == "has"}
