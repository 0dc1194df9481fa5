"""Mode `auto`: which mode a question gets, by rules that were measured. No model is asked.

Measured is the share of gold passages or evidence among the first chunks (`docs/measurements.md`).
No mode that was measured beats `mix` on any kind of question, so it is taken for all of them; where
nothing is in the graph, `naive` finds the same with fewer reads. A rule for another mode belongs
here once a measurement shows what it gains. The kind of question is told all the same, with the
figures that speak for the choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from app.domain import Mode, Question, Stats
from app.names import spans
from app.ports import Workspace
from app.query.found import Found
from app.query.relevance import is_general
from app.terms import terms
from app.words import word_sets

CHAIN = 2  # words that chain one thing to the next, from which on a question takes several facts

NO_GRAPH = "no_graph"
OVERVIEW = "overview"
COMPARISON = "comparison"
CHAINED = "chained"
PLAIN = "plain"

# Recall in per cent among the first five passages, if not said otherwise; built-in rules and
# encoder, development questions.
WHY: Mapping[str, str] = {
    NO_GRAPH: (
        "No relations are stored: naive finds what mix would, with fewer reads of the stores."
    ),
    OVERVIEW: (
        "The question asks for an overview. On the 142 summary questions of graphrag-bench-medical "
        "the first ten chunks cover 92.9 of the evidence with mix, 92.4 with naive, 91.0 with "
        "hybrid, 86.4 with global."
    ),
    COMPARISON: (
        "The question compares. Over the 24 of 2wiki-101 that do, mix and ppr find 100.0, naive "
        "83.3, local 81.2, hybrid 79.2."
    ),
    CHAINED: (
        "The question chains facts. Over the 32 of musique-train that do, mix finds 76.8, ppr "
        "70.6, local 51.0, hybrid 50.8, naive 47.4."
    ),
    PLAIN: (
        "On no set does another mode find more than mix beyond chance: lihua-world mix 92.7, naive "
        "92.2, hybrid 90.3; graphrag-bench-medical 83.8, 83.7, 81.6."
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    mode: Mode
    kind: str
    stats: Stats

    def explained(self, found: Found) -> dict[str, object]:
        """With what the mode itself found out about the question."""
        return {
            "mode": self.mode.value,
            "why": WHY[self.kind],
            "features": {
                "kind": self.kind,
                "chunks": self.stats.chunks,
                "entities": self.stats.entities,
                "relations": self.stats.relations,
                "names": list(found.names),
                "trust": found.explain.get("trust"),
            },
        }


async def choose(workspace: Workspace, question: Question) -> Choice:
    stats = await workspace.graph.stats()
    if not stats.relations and question.source_text:
        return Choice(Mode.NAIVE, NO_GRAPH, stats)
    return Choice(Mode.MIX, kind_of(question.text), stats)


def kind_of(text: str) -> str:
    """What a question asks for, by its wording."""
    if is_general(text):
        return OVERVIEW
    lower = [word.strip("?!.,;:\"'()“”") for word in text.lower().replace("’", "'").split()]
    named = sum(span.marked and span.bare for span in spans(text, longest=1))
    if named > 1 and any(word in _words()["comparing"] for word in lower):
        return COMPARISON
    chained = sum(word in _words()["chaining"] or word.endswith("'s") for word in lower)
    return CHAINED if chained >= CHAIN and terms(text) else PLAIN


@cache
def _words() -> dict[str, frozenset[str]]:
    return word_sets("app", "data/questions.txt")
