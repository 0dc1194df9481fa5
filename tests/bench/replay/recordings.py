"""What large models extracted from the passages of the evaluation data, found by passage text."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.rules.sentences import pieces
from tests.bench.extraction import rows, shared

PREFIX = 200  # normalised characters that identify a passage whose end was cut off
# Sets by the form of their recording.
TRIPLES = ("musique-train",)
GRAPHS = ("graphrag-bench-medical",)
REPLIES = ("covid-review-lightrag",)
RECORDED = (*TRIPLES, *GRAPHS, *REPLIES)


@dataclass(frozen=True, slots=True)
class Entity:
    name: str
    kind: str
    description: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """`target` is empty where the model wrote a triple without one."""

    source: str
    target: str
    keywords: tuple[str, ...]
    description: str
    strength: float = 5.0


@dataclass(frozen=True, slots=True)
class Recording:
    """What was said of one passage: records, or replies as they came (extraction, gleaning)."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    replies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """`recording` is None where the built-in extractor is to read it."""

    id: str
    title: str
    text: str
    recording: Recording | None = None


class Decomposition(NamedTuple):
    """Sub-questions as they were written (`#1` stands for the first answer), and with the answers
    in them: what a perfect reader would ask, so a bound and no measurement of a model."""

    raw: list[str]
    resolved: list[str]


@dataclass(slots=True)
class Library:
    """Passages by their text, with and without the title above it."""

    passages: dict[str, Passage] = field(default_factory=dict)
    prefixes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    decompositions: dict[str, Decomposition] = field(default_factory=dict)
    bridges: dict[str, str] = field(default_factory=dict)  # sub-question to its answer
    found: Counter[str] = field(default_factory=Counter)  # requests by how the passage was found

    def add(self, passage: Passage) -> None:
        titled = f"{passage.title}\n{passage.text}"
        bare = Passage(passage.id, "", passage.text, passage.recording)
        for text, one in ((passage.text, bare), (titled, passage)):
            self.passages.setdefault(digest(text), one)
            self.prefixes[digest(normal(text)[:PREFIX])].add(digest(text))

    def find(self, text: str) -> Passage | None:
        """By the whole text; else by its beginning, if only one passage begins so."""
        whole = self.passages.get(digest(text))
        if whole:
            self.found["exact"] += 1
            return whole
        alike = self.prefixes.get(digest(normal(text)[:PREFIX]), set())
        if len(alike) == 1 and len(normal(text)) >= PREFIX:
            self.found["beginning"] += 1
            return self.passages[next(iter(alike))]
        self.found["unknown"] += 1
        return None

    def add_steps(self, question: str, steps: Sequence[Mapping[str, Any]]) -> None:
        """Sub-questions of a question, with the answers of earlier ones in place of `#1`, too."""
        resolved = []
        for step in steps:
            text = step["question"]
            for number, earlier in enumerate(steps, start=1):
                text = text.replace(f"#{number}", earlier["answer"])
            resolved.append(text)
            self.bridges[normal(text)] = step["answer"]
        raw = [step["question"] for step in steps]
        self.decompositions[normal(question)] = Decomposition(raw, resolved)

    def decomposition(self, prompt: str) -> Decomposition | None:
        """Of the known question that the prompt asks."""
        asked = normal(prompt)
        named = [text for text in self.decompositions if text in asked]
        return self.decompositions[max(named, key=len)] if named else None


def normal(text: str) -> str:
    return " ".join(text.split()).casefold()


def digest(text: str) -> str:
    return hashlib.sha256(normal(text).encode()).hexdigest()


def library(sets: Iterable[str], *, recorded: bool = True) -> Library:
    """The passages of some sets; without `recorded` all are left to the built-in extractor."""
    books = Library()
    for name in filter(None, sets):
        recordings = _recordings(name) if recorded else {}
        for row in rows(name) if (shared() / name / "corpus.jsonl.gz").exists() else []:
            recording = recordings.get(row["id"])
            books.add(Passage(row["id"], row.get("title") or "", row["text"], recording))
        if (shared() / name / "questions.jsonl.gz").exists():
            for question in rows(name, "questions"):
                if steps := question.get("decomposition"):
                    books.add_steps(question["question"], steps)
    return books


def _recordings(name: str) -> dict[str, Recording]:
    if name in TRIPLES:
        return {row["id"]: of_triples(row) for row in rows(name)}
    if name in GRAPHS:
        return _of_graph(rows(name, "entities"), rows(name, "relations"))
    if name in REPLIES:
        return _of_replies(rows(name, "llm_responses"))
    return {}


# --- triples -------------------------------------------------------------------------------------


def of_triples(row: Mapping[str, Any]) -> Recording:
    """Entities are described by the triples that name them, else by a sentence that does: the
    recording holds no descriptions, and a graph without any would be none that a model makes."""
    relations = tuple(_of_triple(triple) for triple in row["triples"] if triple)
    said: dict[str, list[str]] = defaultdict(list)
    for relation in relations:
        for end in {relation.source, relation.target}:
            said[end].append(relation.description)
    sentences = [row["text"][p.start : p.end] for p in pieces(row["text"])]
    entities = []
    for name in row["entities"]:
        facts = said.get(name) or [s for s in sentences if name.lower() in s.lower()][:1]
        entities.append(Entity(name, "other", " ".join(facts) or name))
    return Recording(tuple(entities), relations)


def _of_triple(triple: Sequence[str]) -> Relation:
    """Longer ones: the first and last part with all between as predicate. Pairs lack an end and
    stay as the model wrote them, for readers to drop."""
    said = f"{' '.join(triple)}."
    if len(triple) < 3:
        return Relation(triple[0], "", tuple(triple[1:]), said)
    return Relation(triple[0], triple[-1], (" ".join(triple[1:-1]),), said)


# --- merged graphs -------------------------------------------------------------------------------


def _of_graph(
    entities: Sequence[Mapping[str, Any]], relations: Sequence[Mapping[str, Any]]
) -> dict[str, Recording]:
    """Each chunk gets back the description that it gave, where the graph still tells; after a
    merge into fewer descriptions the chunks share the last one."""
    named: dict[str, list[Entity]] = defaultdict(list)
    joined: dict[str, list[Relation]] = defaultdict(list)
    for one in entities:
        for place, chunk in enumerate(one["chunk_ids"]):
            named[chunk].append(Entity(one["name"], one["type"], _nth(one["descriptions"], place)))
    for one in relations:
        for place, chunk in enumerate(one["chunk_ids"]):
            words = tuple(w.strip() for w in _nth(one["keywords"], place).split(",") if w.strip())
            said = _nth(one["descriptions"], place)
            joined[chunk].append(Relation(one["source"], one["target"], words, said))
    return {
        chunk: Recording(tuple(named[chunk]), tuple(joined[chunk])) for chunk in {**named, **joined}
    }


def _nth(values: Sequence[str], place: int) -> str:
    return values[min(place, len(values) - 1)] if values else ""


# --- raw replies ---------------------------------------------------------------------------------


def _of_replies(replies: Sequence[Mapping[str, Any]]) -> dict[str, Recording]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for reply in replies:
        if reply["kind"] in ("extraction", "gleaning"):
            found[reply["chunk_id"]][reply["kind"]] = reply["response"]
    return {
        chunk: Recording(replies=(kinds["extraction"], kinds.get("gleaning", "")))
        for chunk, kinds in found.items()
    }


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
