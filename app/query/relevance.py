"""Whether anything that was found has to do with the question; if not, no answer is made up.

Words and names decide first, since they mean the same under every embedding model; likeness of
vectors counts only where the model's own scale is known.
"""

from __future__ import annotations

from app.domain import Context, Question
from app.query.found import Found
from app.terms import terms
from app.words import score, stop_words

MIN_SHARE = 0.2  # of the question's words, by rarity, that one source must hold
MIN_LIKENESS = 0.25  # cosine of the question and the nearest passage
MOST_SCORE = 32  # of the word list: "the"


def is_relevant(question: Question, found: Found, context: Context) -> bool:
    if context.empty:
        return False
    return (
        found.named
        or found.likeness >= MIN_LIKENESS
        or covered(question.text, context) >= MIN_SHARE
    )


def covered(question: str, context: Context) -> float:
    """Largest share of the question's content words that one source, entity or relation holds;
    rare words weigh more."""
    weights = {term: _rarity(term) for term in terms(question) if not _is_stop_word(term)}
    whole = sum(weights.values())
    if not whole:
        return 1.0  # only stop words: nothing to go by
    texts = [
        *(f"{source.document_name} {source.chunk.text}" for source in context.sources),
        *(f"{one.entity.name} {one.text}" for one in context.entities),
        *(f"{one.relation.source_name} {one.text}" for one in context.relations),
    ]
    best = 0.0
    for text in texts:
        held = set(terms(text))
        best = max(best, sum(w for term, w in weights.items() if term in held) / whole)
    return best


def _rarity(term: str) -> float:
    return 0.4 + 0.6 * (1 - min(score(term), MOST_SCORE) / MOST_SCORE)


def _is_stop_word(term: str) -> bool:
    return any(term in words for words in stop_words().values())
