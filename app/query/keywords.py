"""What is searched for: the keywords of a question, and the text that a follow-up stands for."""

from __future__ import annotations

import re
from functools import cache

from app.domain import Keywords, Question
from app.names import spans
from app.ports import Models
from app.query.found import Clock
from app.words import word_sets

REFERRING_UNSPACED = re.compile("[他她它]|这个|那个|此|それ|これ|彼")
WORD = re.compile(r"\w+")
FOLLOW_UP_WORDS = 3  # "And in 2020?" needs what came before, whatever its words are


async def keywords_of(models: Models, question: Question, clock: Clock) -> Keywords:
    """The caller's keywords, else the keyworder's; none where the question itself is searched."""
    if question.keywords is not None:
        return question.keywords
    if question.keyword_source == "query":
        return Keywords()
    with clock.stage("keywords"):
        keywords = await models.keyworder.keywords(question)
    clock.usage += keywords.usage
    return keywords


def standing_alone(question: Question) -> str:
    """The text to retrieve with. A question that refers back (a pronoun and no name of its own, or
    hardly a word) is read after the user's previous turn; others are taken as they are."""
    previous = [turn.content for turn in question.history if turn.role == "user"]
    if not previous or not _refers_back(question.text):
        return question.text
    return f"{previous[-1]}\n{question.text}"


@cache
def _referring() -> frozenset[str]:
    return word_sets("app", "data/questions.txt")["referring"]


def _refers_back(text: str) -> bool:
    words = [word.lower() for word in WORD.findall(text)]
    if len(words) <= FOLLOW_UP_WORDS and not REFERRING_UNSPACED.search(text) and text.isascii():
        return True
    refers = any(word in _referring() for word in words) or bool(REFERRING_UNSPACED.search(text))
    return refers and not _names(text)


def _names(text: str) -> bool:
    """Whether the text names something: a capital or digit beyond its first word."""
    first = re.match(r"\W*\w+", text)
    begin = first.end() if first else 0
    return any(
        span.marked and span.bare and span.start >= begin and span.words == 1
        for span in spans(text, longest=1)
        if text[span.start].isupper() or text[span.start].isdigit()
    )
