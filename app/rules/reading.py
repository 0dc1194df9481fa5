"""A chunk as the rules see it: sentences, language, and what its capitals mean."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app import words
from app.rules.lexicon import english
from app.rules.tables import Stretch, stretches
from app.rules.tokens import STOP, Sentence, Token, sentences, whole

_SAMPLE = 4000  # characters that decide the language
_WORD = re.compile(r"[^\W\d_]+")


class Spot(NamedTuple):
    """Tokens `first` up to `last` (not included) of a sentence, by its index."""

    sentence: int
    first: int
    last: int


@dataclass(slots=True)
class Found:
    """A candidate entity of the chunk. `origin` is title, acronym, quote, row, speaker, name or
    term; `cues` are points for its kind."""

    name: str
    origin: str
    spots: list[Spot] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    cues: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    score: float = 0.0  # of a term

    @property
    def words(self) -> int:
        return self.name.count(" ") + 1


@dataclass(frozen=True, slots=True)
class Reading:
    """`lower` holds the words seen in lower case; `capital` counts those seen with a capital where
    that means something (in mid-sentence, outside headings)."""

    title: str
    text: str
    language: str
    sentences: list[Sentence]
    lower: frozenset[str]
    capital: Counter[str]
    size: int  # words
    stops: frozenset[str] = frozenset()

    @property
    def chat(self) -> bool:
        return any(sentence.speaker for sentence in self.sentences)


def read(title: str, text: str, headings: Sequence[str] = ()) -> Reading:
    """Words of the title, and words of the headings that are in no list, count as seen with a
    capital."""
    found: list[Sentence] = []
    for stretch in stretches(text):
        if stretch.kind == "prose":
            found += sentences(text, stretch.start, stretch.end)
            continue
        if stretch.kind == "row" and not stretch.cells:
            continue
        sentence = whole(text, stretch.start, stretch.end)
        sentence.speaker = stretch.speaker
        sentence.cells = _cells(stretch, sentence.tokens)
        found.append(sentence)
    lower: set[str] = set()
    capital: Counter[str] = Counter()
    language = language_of(text)
    stops = words.stop_words()[language]
    for sentence in found:
        if language in ("fr", "it"):
            sentence.tokens = [without_elision(token) for token in sentence.tokens]
        sentence.kinds = [
            word_class(token) if language == "en" else "F" if token.low in stops else "N"
            for token in sentence.tokens
        ]
        _count(sentence, lower, capital)
    for word in _WORD.findall(title):
        if word[0].isupper() and not words.is_stop_word(word.lower()):
            capital[word.lower()] += 1
    for word in _WORD.findall(" ".join(headings)):
        if word[0].isupper() and not words.listed(singular(word.lower())):
            capital[word.lower()] += 1
    size = sum(len(sentence.tokens) for sentence in found)
    return Reading(title, text, language, found, frozenset(lower), capital, size, stops)


def _cells(stretch: Stretch, tokens: list[Token]) -> tuple[tuple[str, int, int], ...]:
    starts = [token.start for token in tokens]
    found = []
    for cell in stretch.cells:
        first, last = bisect_left(starts, cell.start), bisect_left(starts, cell.end)
        if first < last:
            found.append((cell.header, first, last))
    return tuple(found)


def _count(sentence: Sentence, lower: set[str], capital: Counter[str]) -> None:
    shouting = is_shouting(sentence)
    for place, token in enumerate(sentence.tokens):
        if not token.cap:
            if not token.number:
                lower.add(token.low)
        elif place and not (sentence.heading or shouting or opens_quote(token)):
            capital[token.low] += 1


def opens_quote(token: Token) -> bool:
    """Whether the token starts a sentence inside another one."""
    return token.before == STOP or token.gap.endswith(_OPENERS)


_OPENERS = (": ", '"', "“", "«", "‘", " '", "\n'", "`", "_", "*", "[", "—", "--")


def is_shouting(sentence: Sentence) -> bool:
    """Whether the sentence is written in capitals only."""
    letters = [token.text for token in sentence.tokens if not token.number]
    return len(letters) > 1 and sum(word.isupper() for word in letters) >= 0.7 * len(letters)


def language_of(text: str) -> str:
    """Language by its stop words: another than English needs 1.3 times as many, and 8 % of all."""
    counts = Counter(word.lower() for word in _WORD.findall(text[:_SAMPLE]))
    total = sum(counts.values())
    shares = {
        language: sum(counts[word] for word in listed)
        for language, listed in words.stop_words().items()
    }
    best = max(sorted(shares), key=lambda language: shares[language], default="en")
    if best == "en" or shares[best] < 0.08 * total or shares[best] < 1.3 * shares["en"]:
        return "en"
    return best


def word_class(token: Token) -> str:
    """Class of a token as in `app.words`; guessed by its ending where it is not listed."""
    if token.number:
        return "M"
    return class_of(token.low)


def class_of(word: str) -> str:
    listed = words.word_class(word)
    if listed:
        return listed
    if "'" in word or words.is_stop_word(word) or word in english()["function"]:
        return "F"
    if word.endswith("ly") and len(word) > 4:
        return "R"
    if word.endswith("ing") and len(word) > 5:
        return "G"
    if word.endswith("ed") and len(word) > 4:
        return "P"
    if word.endswith(
        ("ous", "ive", "ical", "ial", "ual", "nal", "ic", "able", "ible", "less", "ful")
    ):
        return "J"
    if word.endswith("s") and words.word_class(word[:-1]) == "V":
        return "V"
    return "N"


def singular(word: str) -> str:
    """Singular of a noun, if that is a known word or the ending leaves no doubt."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("oes") and not words.listed(word[:-1]):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return word if words.listed(word[:-1]) else word[:-3] + "y"
    if words.listed(word[:-1]):
        return word[:-1]
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    if words.word_class(word) == "N" and not words.listed(word[:-1]):
        return word[:-1] if word[-2] not in "aiousw" and words.score(word) < 15 else word
    return word[:-1] if word[-2] not in "aious" else word


_ELIDED = re.compile(r"(?:[ldjmtsnc]|qu|dell|nell|sull|all|dall|un|quest)'", re.IGNORECASE)


def without_elision(token: Token) -> Token:
    """`l'Allemagne` as `Allemagne`, with its own offsets."""
    match = _ELIDED.match(token.text)
    if not match or match.end() >= len(token.text):
        return token
    rest = token.text[match.end() :]
    return token._replace(
        text=rest,
        low=rest.lower(),
        start=token.end - len(rest),
        gap=token.gap + token.text[: match.end()],
        cap=rest[0].isupper(),
    )
