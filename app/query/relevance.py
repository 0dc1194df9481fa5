"""Whether anything that was found has to do with the question; if not, no answer is made up.

Words decide first, since they mean the same under every embedding model: the share of the
question's content words, rare ones counting more, that a single source holds. Likeness of vectors
can only save a passage that says it in other words; a model whose likenesses are always high then
never refuses, which leaves the verdict to the answering model.

Measured on 161 questions to their own three corpora, 60 everyday questions that those cannot
answer, and 240 of other corpora: a share of 0.40 refused 0, 77 and 73 %, one of 0.45 refused 0.6,
83 and 86 %; the limit lies between. What a corpus could answer but does not (31 questions) looks
like the rest to any such measure.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from app.domain import Context, Question
from app.query.absence import language_of
from app.query.found import Found
from app.terms import terms
from app.words import score, stop_words, word_sets

MIN_SHARE = 0.42
MIN_LIKENESS = 0.4  # cosine of the question and the nearest passage
MIN_LIKENESS_ABROAD = 0.3  # where they are in different languages and cannot share words
LONG = 8.0  # rare words; of a longer question a source need not hold a share that grows with it
COMMONEST = 32  # score of the most common words in the word list
LEAST_RARITY = 0.4


def is_relevant(question: Question, found: Found, context: Context) -> bool:
    if context.empty:
        return False
    if is_general(question.text) or is_covered(question.text, found.names, context):
        return True
    return found.likeness >= (
        MIN_LIKENESS_ABROAD if _is_foreign(question.text, context) else MIN_LIKENESS
    )


def is_covered(question: str, names: Iterable[str], context: Context) -> bool:
    """Whether one source, entity or relation holds enough of the question's content words. `names`
    of the question that are in the index count as held, whatever their spelling there. The best
    come first, so where one does, few texts are read."""
    weights = {term: _rarity(term) for term in _content(question)}
    whole = min(sum(weights.values()), LONG) or 1.0
    known = {term for name in names for term in terms(name)}
    for text in _texts(context):
        held = known.union(terms(text))
        if sum(w for term, w in weights.items() if term in held) / whole >= MIN_SHARE:
            return True
    return False


def _texts(context: Context) -> Iterable[str]:
    for source in context.sources:
        yield f"{source.document_name} {' '.join(source.chunk.headings)} {source.chunk.text}"
    for one in context.entities:
        yield f"{one.entity.name} {one.text}"
    for other in context.relations:
        yield f"{other.relation.source_name} {other.relation.target_name} {other.text}"
    for theme in context.themes:
        yield f"{theme.title} {theme.text}"


def _content(text: str) -> set[str]:
    return {term for term in terms(text) if term not in _empty_terms()}


def is_general(text: str) -> bool:
    """Nothing is asked for that a text could lack ('summarise the main topics')."""
    if any(phrase in text for phrase in _words()["general-unspaced"]):
        return True
    return not _content(text) - _general_terms()


def _is_foreign(question: str, context: Context) -> bool:
    return bool(context.sources) and (
        language_of(question) != language_of(context.sources[0].chunk.text)
    )


def _rarity(term: str) -> float:
    rare = 1 - min(score(term), COMMONEST) / COMMONEST
    return float((LEAST_RARITY + (1 - LEAST_RARITY) * rare) ** 2)


@cache
def _empty_terms() -> frozenset[str]:
    stops = {word for words in stop_words().values() for word in words}
    return frozenset(term for word in stops | _words()["asking"] for term in terms(word))


@cache
def _general_terms() -> frozenset[str]:
    return frozenset(term for word in _words()["general"] for term in terms(word))


@cache
def _words() -> dict[str, frozenset[str]]:
    return word_sets("app", "data/questions.txt")
