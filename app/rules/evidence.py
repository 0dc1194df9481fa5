"""Which sentences of the retrieved passages answer a question, and a choice without repeats."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app import words
from app.domain import Source, Vector
from app.names import key
from app.rules.candidates import names_of
from app.rules.chinese import cut, is_chinese
from app.rules.reading import read
from app.rules.sentences import Piece, stem, stems
from app.subjects import title_of as document_title
from app.terms import terms

PASSAGES = 8
EMBEDDED = 40  # best sentences by words, whose meaning is compared as well
W_LEX, W_COSINE, W_ENTITY, W_PLACE, W_RANK, W_TYPE = 1.0, 0.8, 0.15, 0.3, 0.3, 0.4
RELEVANCE, REDUNDANCY = 0.75, 0.25
MAX_SENTENCES, MAX_WORDS = 5, 130
STOP = 0.3  # share of the best score below which nothing is added
_TIME = re.compile(
    r"\b(?:1\d{3}|20\d\d)s?\b|\b\d{1,2}(?::\d\d|\s?[ap]\.?m\b)|\d\s?[年月日点時时]|世纪"
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand"
    r"|million|billion|dozen|half|twice)\b|[一二三四五六七八九十百千万]",
    re.IGNORECASE,
)
_CAPITAL = re.compile(r"[A-ZÀ-ÖØ-Þ][\w'’-]+")
_WHEN = re.compile(
    r"^(?:when|(?:in |on )?(?:what|which) (?:year|date|day|month|time))\b"
    r"|\bwhen (?:did|was|is|were|will|do|does)\b|\bwhat (?:time|day|date|year)\b"
    r"|^(?:wann|quand|cuándo|quando|wanneer)\b|何时|什么时候|哪一?年|いつ",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    r"\bhow (?:many|much|long|old|often|far|tall|big|large|high|deep)\b"
    r"|^(?:wie ?viele?|combien|cuánt[oa]s?|quant[io])\b|多少|几[个位岁年次]|いくつ",
    re.IGNORECASE,
)
_WHO = re.compile(
    r"\b(?:who|whom|whose|where)\b"
    r"|\b(?:what|which) (?:city|country|person|place|town|state|team)\b"
    r"|^(?:wer|wo|qui|où|quién|dónde|chi|dove)\b|谁|哪里|哪儿|何处",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence of a source. `place`: its number in the passage; `rank`: that of the passage."""

    source: Source
    piece: Piece
    place: int
    rank: int
    lexical: float = 0.0
    score: float = 0.0

    @property
    def text(self) -> str:
        return self.source.chunk.text[self.piece.start : self.piece.end]

    @property
    def embedded(self) -> str:
        """What is compared by meaning: the sentence after its document's title."""
        title = title_of(self.source)
        return f"{title}. {self.text}" if title else self.text


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question asks for."""

    text: str
    stems: frozenset[str]
    names: tuple[frozenset[str], ...]  # content words of each name
    words: frozenset[str]  # all its words, folded

    @property
    def when(self) -> bool:
        return bool(_WHEN.search(self.text))


def title_of(source: Source) -> str:
    """Name of the document, without a file's extension."""
    return document_title(source.document_name, "")


def asked(text: str) -> Asked:
    if is_chinese(text):
        names = [word.text for word in cut(text) if word.kind and word.kind != "term"]
    else:
        names = [entry.name for entry in names_of(read("", text))]
    parts = [frozenset(stem(term) for term in terms(name)) for name in names]
    return Asked(text, stems(text), tuple(p for p in parts if p), frozenset(terms(text)))


def scored(question: Asked, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates with the part of the score that needs no vectors, best first."""
    weights = _weights(question.stems, candidates)
    titles = {c.source.number: stems(title_of(c.source)) for c in candidates}
    found = []
    for candidate in candidates:
        lexical = _lexical(weights, candidate.piece.stems, titles[candidate.source.number])
        score = (
            W_LEX * lexical
            + W_ENTITY
            * _entity(question.names, candidate.piece.stems | titles[candidate.source.number])
            + W_PLACE / (1 + candidate.place)
            + W_RANK / (1 + candidate.rank)
            + W_TYPE * _type(question, candidate.text)
        )
        found.append(
            Candidate(
                candidate.source, candidate.piece, candidate.place, candidate.rank, lexical, score
            )
        )
    return sorted(found, key=lambda c: (-c.score, c.rank, c.place))


def _weights(wanted: frozenset[str], candidates: Sequence[Candidate]) -> dict[str, float]:
    """Weights of the question's words: rare among the sentences, rare in the language."""
    frequency = Counter(s for candidate in candidates for s in candidate.piece.stems & wanted)
    total = len(candidates)
    weights = {
        s: math.log(1 + total / (1 + frequency[s])) * (0.4 + 0.6 * (1 - words.score(s) / 32))
        for s in wanted
    }
    whole = sum(weights[s] for s in sorted(weights))
    return {s: weight / whole for s, weight in weights.items()} if whole else {}


def _lexical(weights: Mapping[str, float], own: frozenset[str], title: frozenset[str]) -> float:
    return sum(
        weight if s in own else 0.5 * weight if s in title else 0.0
        for s, weight in sorted(weights.items())
    )


def _entity(names: Sequence[frozenset[str]], own: frozenset[str]) -> float:
    return max((len(name & own) / len(name) for name in names), default=0.0)


def names_a_time(sentence: str) -> bool:
    return bool(_TIME.search(sentence))


def _type(question: Asked, sentence: str) -> float:
    if question.when:
        return 1.0 if names_a_time(sentence) else 0.0
    if _HOW_MANY.search(question.text):
        return 1.0 if _NUMBER.search(sentence) else 0.0
    if _WHO.search(question.text):
        capitals = _CAPITAL.findall(sentence[1:])
        return 0.6 if any(key(word) not in question.words for word in capitals) else 0.0
    return 0.0


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def chosen(
    candidates: Sequence[Candidate],
    vectors: Mapping[str, Vector],
    *,
    sentences: int = MAX_SENTENCES,
    room: int = MAX_WORDS,
) -> list[Candidate]:
    """Maximal marginal relevance (Carbonell and Goldstein 1998) within a limit of words."""
    if not candidates:
        return []
    best = candidates[0].score
    rest = [c for c in candidates if c.score >= STOP * best]
    picked: list[Candidate] = []
    redundancy = dict.fromkeys(range(len(rest)), 0.0)
    while redundancy and len(picked) < sentences:
        place = max(
            redundancy,
            key=lambda n: (RELEVANCE * rest[n].score - REDUNDANCY * best * redundancy[n], -n),
        )
        redundancy.pop(place)
        size = len(terms(rest[place].text))
        if size > room and picked:
            continue
        room -= size
        picked.append(rest[place])
        for other in redundancy:
            redundancy[other] = max(redundancy[other], _likeness(rest[place], rest[other], vectors))
    return picked


def _likeness(one: Candidate, other: Candidate, vectors: Mapping[str, Vector]) -> float:
    shorter = min(len(one.piece.stems), len(other.piece.stems))
    shared = len(one.piece.stems & other.piece.stems) / shorter if shorter else 0.0
    a, b = vectors.get(one.embedded), vectors.get(other.embedded)
    return max(shared, cosine(a, b)) if a and b else shared
