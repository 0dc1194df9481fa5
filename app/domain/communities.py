"""Communities of entities, and reports on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from app.domain.ids import Ref
from app.domain.jobs import Usage


@dataclass(frozen=True, slots=True)
class Clustering:
    """How a graph is divided: levels at most, entities beyond which a community is divided again,
    and the resolution of modularity (more: smaller communities)."""

    levels: int = 3
    size: int = 10
    resolution: float = 1.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A community without its report. `parent` is the id of the one that it is a part of (""), a
    `leaf` is divided no further; members are entity keys, sorted."""

    id: str
    level: int
    parent: str
    leaf: bool
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a report tells, and the entities and relations that it rests on."""

    summary: str
    explanation: str = ""
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a community is about. `rating`: how much it matters, 0 to 10. `model` is empty where
    rules wrote it; `fault` then says why, if a model should have."""

    title: str
    summary: str
    rating: float = 0.0
    findings: tuple[Finding, ...] = ()
    model: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Community:
    """`size` counts its entities and `mentions` theirs, which is all its evidence; a report is made
    from `covered` of it. Evidence that is taken back takes the report with it, so that what a
    report lacks can only have come since. `version` counts what makes a report in the making void.
    `digest` is of the text that was last indexed."""

    id: str
    level: int
    parent: str
    leaf: bool
    size: int
    mentions: int
    version: int
    report: Report | None = None
    covered: int = 0
    indexed: bool = False
    digest: str = ""

    @property
    def fresh(self) -> bool:
        return self.report is not None and self.covered == self.mentions


@dataclass(frozen=True, slots=True)
class Division:
    """The communities of a workspace as a whole: how they were made, the job that did so last, and
    what reports have cost so far."""

    clustering: Clustering
    job_id: str
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Fact:
    """What a report may tell: an entity or relation by name, and what is known of it."""

    ref: Ref
    name: str
    kind: str
    text: str
    weight: float


@dataclass(frozen=True, slots=True)
class Reported:
    """Without a report where the reply was none."""

    report: Report | None
    usage: Usage = Usage()


class KeyPoint(NamedTuple):
    """Something in a report (by its place among those asked) that helps to answer, with 0 to 100
    for how much."""

    report: int
    text: str
    score: float
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyPoints:
    """`readable`: the reply was a list of points, if an empty one."""

    points: tuple[KeyPoint, ...] = ()
    readable: bool = True
    usage: Usage = Usage()
