"""Keywords of a question by rules: its names and rare terms, and the themes it asks about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app import words
from app.domain import Keywords, Question
from app.names import key
from app.rules.candidates import names_of
from app.rules.chinese import is_chinese, keywords_of_chinese
from app.rules.lexicon import english
from app.rules.noun_phrases import phrases, rarity
from app.rules.reading import Found, Reading, class_of, read
from app.rules.wording import question_language

MOST_LOW = 8
MOST_HIGH = 6
RARE = 24  # list score below which a term stands in for a name
THEME = 31  # list score below which a word is a theme
_WORD = re.compile(r"[^\W\d_][\w'-]*")


class RuleKeyworder:
    """The port `Keyworder`, played by rules."""

    by_model = False

    async def keywords(self, question: Question) -> Keywords:
        return keywords(question.text)


def keywords(question: str) -> Keywords:
    """Low: names, or the rarest terms where there is none; high: other terms, nouns and verbs."""
    if is_chinese(question):
        return keywords_of_chinese(question)
    language = question_language(question)
    reading = read("", question)
    barred = english()["instruction"] | english()["asker"]
    entries = [entry for entry in names_of(reading) if entry.name.lower() not in barred]
    names = [entry.name for entry in entries]
    names += [alias for entry in entries for alias in entry.aliases]
    if language != "en":
        return _foreign(question, language, names)
    terms = _terms(reading, entries, barred)
    low = list(names)
    if not low:
        low = sorted((t for t in terms if _is_rare(t)), key=lambda t: (-_rarity(t), terms.index(t)))
        low = [term for term in terms if term in low[:MOST_LOW]]
    high = [term for term in terms if term not in low]
    inside = {word for term in [*terms, *low] for word in term.lower().split()}
    high += [word for word in _themes(reading, barred) if word not in inside]
    return Keywords(_distinct(low)[:MOST_LOW], _distinct(high)[:MOST_HIGH])


def _terms(reading: Reading, names: Sequence[Found], barred: frozenset[str]) -> list[str]:
    """Noun phrases outside the names, as written, in order."""
    spots = [spot for entry in names for spot in entry.spots]
    found: list[str] = []
    for index, sentence in enumerate(reading.sentences):
        taken = {
            n for spot in spots if spot.sentence == index for n in range(spot.first, spot.last)
        }
        for first, last in phrases(sentence, frozenset(taken)):
            inside = [t.low for t in sentence.tokens[first:last] if t.low not in barred]
            if inside:
                found.append(" ".join(inside))
    return found


def _themes(reading: Reading, barred: frozenset[str]) -> list[str]:
    """Single nouns and verbs that say what is asked."""
    lists = english()
    return [
        token.low
        for sentence in reading.sentences
        for token in sentence.tokens
        if not token.cap
        and class_of(token.low) in ("N", "n", "V", "v", "D", "P", "G")
        and words.score(token.low) < THEME
        and token.low not in barred
        and token.low not in lists["empty"]
        and token.low not in lists["auxiliary"]
        and not words.is_stop_word(token.low)
    ]


def _foreign(question: str, language: str, names: list[str]) -> Keywords:
    """Words outside the stop list; names in lower case are found by the question's spans."""
    lower = {name.lower() for name in names}
    themes = [
        word
        for word in _WORD.findall(question)
        if len(word) > 3
        and not words.is_stop_word(word.lower(), language)
        and not any(word.lower() in name for name in lower)
    ]
    low, high = (names, themes) if names else (themes, [])
    return Keywords(_distinct(low)[:MOST_LOW], _distinct(high)[:MOST_HIGH])


def _is_rare(term: str) -> bool:
    parts = term.split()
    return len(parts) > 1 or words.score(parts[0]) < RARE


def _rarity(term: str) -> float:
    parts = term.split()
    return sum(map(rarity, parts)) / len(parts) + 0.3 * (len(parts) > 1)


def _distinct(found: list[str]) -> tuple[str, ...]:
    by_key: dict[str, str] = {}
    for item in found:
        by_key.setdefault(key(item), item)
    return tuple(by_key.values())
