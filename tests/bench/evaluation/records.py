"""What was measured, as JSON that can be committed: for each question the ranks of what it seeks.

All figures (recall, all gold, MRR, coverage) and their intervals follow from the ranks, so the page
can be made again, with other figures, without measuring again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.evaluation.intervals import Interval, difference, mean
from app.evaluation.metrics import Found, covers, ranking_of
from app.evaluation.questions import Case
from app.terms import terms

SUMMARIES = "Contextual Summarize"  # kind of the questions about themes
Ranks = Sequence[int]  # of each gold the rank of the first unit that satisfies it; 0: none does
Asked = Sequence[Ranks | None]  # by question; None: this system was not asked it


@dataclass(slots=True)
class Outcome:
    """One system on one ground. `code`: what was measured (a version, or a digest of sources);
    tokens, model calls and milliseconds are means over the questions."""

    ranks: list[list[int] | None]
    code: str
    tokens: float = 0.0
    calls: float = 0.0
    ms: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Record:
    """All systems on one ground. `golds`: how many things each question seeks; `statements`:
    these are evidence statements and no passages."""

    ground: str
    questions: list[str]
    golds: list[int]
    statements: bool
    kinds: list[str]
    systems: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record | None:
        if not path.exists():
            return None
        known = json.loads(path.read_text(encoding="utf-8"))
        known["systems"] = {name: Outcome(**one) for name, one in known["systems"].items()}
        return cls(**known)

    def write(self, path: Path) -> None:
        """One line a system: what changed is seen at a glance."""
        path.parent.mkdir(parents=True, exist_ok=True)
        head = {
            "ground": self.ground, "questions": self.questions, "golds": self.golds,
            "statements": self.statements, "kinds": self.kinds,
        }  # fmt: skip
        lines = [f'"{name}":{_compact(_plain(one))}' for name, one in sorted(self.systems.items())]
        body = ",\n".join(f'"{key}":{_compact(value)}' for key, value in head.items())
        path.write_text(
            "{" + body + ',\n"systems":{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8"
        )

    def fits(self, other: Record) -> bool:
        """Whether results of one may stand beside those of the other."""
        return (self.questions, self.golds) == (other.questions, other.golds)

    # --- figures ---------------------------------------------------------------------------------

    def common(self, systems: Sequence[str], kind: str = "") -> list[int]:
        """Questions that all of the systems were asked and that seek something."""
        return [
            n
            for n, golds in enumerate(self.golds)
            if golds and (not kind or self.kinds[n] == kind)
            and all(self.systems[one].ranks[n] is not None for one in systems)
        ]  # fmt: skip

    def figures(self, system: str, figure: str, places: Sequence[int]) -> list[float]:
        ranks = self.systems[system].ranks
        return [self._figure(ranks[n] or [], self.golds[n], figure) for n in places]

    def _figure(self, ranks: Ranks, golds: int, figure: str) -> float:
        name, _, at = figure.partition("@")
        match name:
            case "recall":
                return sum(0 < rank <= int(at) for rank in ranks) / golds
            case "all":
                return float(sum(0 < rank <= int(at) for rank in ranks) == golds)
            case "mrr":
                return max((1 / rank for rank in ranks if rank), default=0.0)
            case "ndcg":
                gained = sum(1 / math.log2(rank + 1) for rank in ranks if 0 < rank <= int(at))
                best = sum(1 / math.log2(n + 2) for n in range(min(golds, int(at))))
                return min(1.0, gained / best)
        raise ValueError(f"no figure {figure!r}")

    def mean(self, system: str, figure: str, places: Sequence[int]) -> Interval:
        return mean(self.figures(system, figure, places))

    def gain(self, one: str, other: str, figure: str, places: Sequence[int]) -> Interval:
        """Of one system over another, paired."""
        return difference(self.figures(one, figure, places), self.figures(other, figure, places))


def ranks_of(
    case: Case, chunks: Sequence[Found], statements: Sequence[frozenset[str]]
) -> list[int]:
    if case.gold:
        ranking = ranking_of(chunks, case.gold)
        golds = range(len(case.gold))
        return [next((r for r, unit in enumerate(ranking, 1) if n in unit), 0) for n in golds]
    found = [words_of(chunk.text) for chunk in chunks]
    return [
        next((r for r, words in enumerate(found, 1) if covers(words, statement)), 0)
        for statement in statements
    ]


@lru_cache(maxsize=4096)
def words_of(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _plain(one: Outcome) -> dict[str, Any]:
    return {
        "code": one.code, "tokens": round(one.tokens), "calls": round(one.calls, 2),
        "ms": round(one.ms, 1), "notes": one.notes, "ranks": one.ranks,
    }  # fmt: skip


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
