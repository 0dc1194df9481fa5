"""Figures of one question: what was found of what was to be found, and what was answered.

All are pure. Ranks count from 1; shares lie between 0 and 1. A figure that a question says nothing
about (no gold, no answer) is left out, never 0.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from app.evaluation.questions import Case, Gold, Triple
from app.names import key
from app.terms import terms
from app.words import stop_words

COVERED = 0.8  # share of a statement's content words that one chunk must have
RECALL_AT = (2, 5, 10)
COVERAGE_AT = (2, 5, 10)
TRIPLES_AT = (10, 50, 100)
ALL_GOLD_AT = 8
NDCG_AT = 10


Ranking = Sequence[frozenset[int]]  # which of the golds (by place) each ranked unit satisfies


# --- what was to be found ------------------------------------------------------------------------


def recall(ranking: Ranking, golds: int, k: int) -> float:
    """Share of the golds that the first `k` units satisfy."""
    return len(frozenset().union(*ranking[:k])) / golds


def all_gold(ranking: Ranking, golds: int, k: int) -> float:
    """1 if the first `k` units satisfy every gold, else 0."""
    return float(recall(ranking, golds, k) == 1.0)


def reciprocal_rank(ranking: Ranking) -> float:
    """1 / rank of the first unit that satisfies any gold; 0 if none does."""
    return next((1 / rank for rank, unit in enumerate(ranking, start=1) if unit), 0.0)


def ndcg(ranking: Ranking, golds: int, k: int = NDCG_AT) -> float:
    """Normalised discounted cumulative gain with binary gains (Järvelin and Kekäläinen 2002): a
    unit gains by golds that no earlier one satisfied; at best each rank gains one."""
    seen: set[int] = set()
    gained = 0.0
    for rank, unit in enumerate(ranking[:k], start=1):
        gained += len(unit - seen) / math.log2(rank + 1)
        seen |= unit
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(golds, k) + 1))
    return min(1.0, gained / best)


def set_recall(ranked: Iterable[Hashable], gold: Iterable[Hashable], k: int) -> float:
    """Share of the golds among the first `k` ranked keys."""
    wanted = set(gold)
    return len(wanted & set(list(ranked)[:k])) / len(wanted)


class Found(NamedTuple):
    """A ranked chunk as a server gave it."""

    document_id: str
    document_name: str
    text: str


def ranking_of(chunks: Sequence[Found], golds: Sequence[Gold]) -> Ranking:
    """Chunks of one document count as one unit, at the rank of the first, where every gold is a
    document; where quotes are looked for each chunk is a unit."""
    quoted = any(gold.by == "quote" for gold in golds)
    units: dict[Hashable, frozenset[int]] = {}
    for place, chunk in enumerate(chunks):
        key: Hashable = place if quoted else (chunk.document_id, chunk.document_name)
        if key not in units:
            units[key] = frozenset(n for n, gold in enumerate(golds) if _satisfies(chunk, gold))
    return list(units.values())


def _satisfies(chunk: Found, gold: Gold) -> bool:
    match gold.by:
        case "id":
            return chunk.document_id == gold.value
        case "name":
            return chunk.document_name == gold.value
        case _:
            return _plain(gold.value) in _plain(chunk.text)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


# --- evidence statements -------------------------------------------------------------------------


def content_words(text: str) -> frozenset[str]:
    """Normal forms of the words that carry meaning; all words of a text that has no other."""
    every = frozenset(terms(text))
    return every - _stop_terms() or every


@cache
def _stop_terms() -> frozenset[str]:
    return frozenset(terms(" ".join(stop_words()["en"])))


def covers(chunk: frozenset[str], statement: frozenset[str]) -> bool:
    """Whether a chunk (its words) has enough of the content words of a statement."""
    return len(statement & chunk) >= COVERED * len(statement)


class Coverable:
    """The statements of a set that some text of the corpus covers: only these count, so that a
    statement which nobody could find lowers nobody's figure."""

    def __init__(self, statements: Iterable[str], texts: Iterable[str]) -> None:
        open_ = {one: content_words(one) for one in set(statements)}
        self._words = dict(open_)
        self._covered: set[str] = set()
        for text in texts if open_ else ():
            words = frozenset(terms(text))
            done = [one for one, wanted in open_.items() if covers(words, wanted)]
            self._covered.update(done)
            for one in done:
                del open_[one]

    @property
    def covered(self) -> frozenset[str]:
        return frozenset(self._covered)

    def of(self, case: Case) -> list[frozenset[str]]:
        """Content words of each statement of the case that counts."""
        return [self._words[one] for one in case.evidence if one in self._covered]


def coverage(chunks: Sequence[str], statements: Sequence[frozenset[str]], k: int) -> float:
    """Share of the statements that one of the first `k` chunks covers."""
    found = [frozenset(terms(text)) for text in chunks[:k]]
    covered = sum(any(covers(words, statement) for words in found) for statement in statements)
    return covered / len(statements)


# --- triples -------------------------------------------------------------------------------------


def pair_of(triple: Triple) -> frozenset[str]:
    """What servers agree on: which two names a triple joins, in either direction."""
    return frozenset((key(triple[0]), key(triple[2])))


# --- answers -------------------------------------------------------------------------------------

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARKS = re.compile(r"\s?\[\d+\]")
REFUSALS = (
    "insufficient information", "not enough information", "no information", "no relevant",
    "nothing relevant", "does not say", "do not say", "does not mention", "do not mention",
    "not mentioned", "cannot be determined", "cannot answer", "can't answer", "unanswerable",
    "i don't know", "i do not know", "do not contain", "does not contain", "not stated",
)  # fmt: skip


def normalise_answer(text: str) -> str:
    """As the official script of SQuAD 1.1 (Rajpurkar et al. 2016): lower case, no punctuation, no
    articles, single blanks. Citation marks of the answer go first."""
    lowered = _MARKS.sub("", text).lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", lowered).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1 if the answer is one of the accepted ones, normalised."""
    said = normalise_answer(answer)
    return float(any(said == normalise_answer(one) for one in accepted))


def f1(answer: str, accepted: Sequence[str]) -> float:
    """The best harmonic mean of token precision and recall over the accepted answers."""
    said = normalise_answer(answer).split()
    return max((_f1(said, normalise_answer(one).split()) for one in accepted), default=0.0)


def _f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    if not said or not wanted:
        return float(said == wanted)
    common = (Counter(said) & Counter(wanted)).total()
    return 2 * common / (len(said) + len(wanted))


def contains_answer(answer: str, accepted: Sequence[str]) -> float:
    """1 if an accepted answer stands in the answer, word for word, normalised: what a long answer
    can reach where exact match cannot."""
    said = f" {normalise_answer(answer)} "
    wanted = [normalise_answer(one) for one in accepted]
    return float(any(one and f" {one} " in said for one in wanted))


def refuses(answer: str) -> bool:
    """Whether an answer says that the documents do not tell. A rule for English, and no more."""
    said = " ".join(answer.lower().replace("’", "'").split())
    return not said or any(words in said for words in REFUSALS)


# --- a question ----------------------------------------------------------------------------------


def retrieval_figures(
    case: Case, chunks: Sequence[Found], triples: Sequence[Triple],
    statements: Sequence[frozenset[str]],
) -> dict[str, float]:  # fmt: skip
    """Of what a server found. `statements`: those of the case that count (`Coverable.of`)."""
    found: dict[str, float] = {}
    if case.gold:
        ranking, golds = ranking_of(chunks, case.gold), len(case.gold)
        found |= {f"recall@{k}": recall(ranking, golds, k) for k in RECALL_AT}
        found[f"all_gold@{ALL_GOLD_AT}"] = all_gold(ranking, golds, ALL_GOLD_AT)
        found["mrr"] = reciprocal_rank(ranking)
        found[f"ndcg@{NDCG_AT}"] = ndcg(ranking, golds)
    if statements:
        texts = [chunk.text for chunk in chunks]
        for k in COVERAGE_AT:
            found[f"coverage@{k}"] = coverage(texts, statements, k)
    if case.triples:
        gold, ranked = {pair_of(one) for one in case.triples}, dict.fromkeys(map(pair_of, triples))
        found |= {f"triple_recall@{k}": set_recall(ranked, gold, k) for k in TRIPLES_AT}
    return found


def answer_figures(case: Case, answer: str, *, found: bool = True) -> dict[str, float]:
    """Of an answer. `found` False: the server itself said that nothing relevant is stored. A
    question that cannot be answered is answered rightly by saying so; then all figures are 1."""
    if case.unanswerable:
        right = float(not found or refuses(answer))
        return {"exact_match": right, "f1": right, "contains": right}
    if not case.answers:
        return {}
    said = answer if found else ""
    return {
        "exact_match": exact_match(said, case.answers),
        "f1": f1(said, case.answers),
        "contains": contains_answer(said, case.answers),
    }
