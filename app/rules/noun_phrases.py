"""Terms: noun phrases in lower case, weighed by how often they stand and how rare they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from app import words
from app.rules.lexicon import english
from app.rules.reading import Reading, Spot, class_of, singular
from app.rules.tokens import JOINED, Sentence, Token

MAX_WORDS = 4
FLOOR = 2.2  # score of a term that is kept
FILL_FLOOR = 0.8  # … where the chunk has few entities
FREQUENT = 26
TECHNICAL = 3.5  # factor for one-word names of substances and diseases
UNLISTED = 2  # list score of a word that is not listed
_NOUN = frozenset({"N", "n"})
_INNER = frozenset({"N", "n", "J", "P", "G", "v"})


@dataclass(slots=True)
class Term:
    """`name` is its singular; `forms` are the ways it is written."""

    name: str
    spots: list[Spot] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    score: float = 0.0


def terms(reading: Reading, taken: Sequence[frozenset[int]]) -> list[Term]:
    """Terms outside the tokens `taken` by names (one set per sentence), best first."""
    found: dict[str, Term] = {}
    nested: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for index, sentence in enumerate(reading.sentences):
        for first, last in phrases(sentence, taken[index]):
            term = _add(found, sentence.tokens, Spot(index, first, last))
            for inner_first, inner_last in _parts(sentence.tokens, first, last):
                inner = lemma(sentence.tokens[inner_first:inner_last])
                nested[inner][term.name] += 1
    for term in found.values():
        term.score = _score(term, nested[term.name])
    return sorted(found.values(), key=lambda term: (-term.score, term.name))


def phrases(sentence: Sentence, taken: frozenset[int] = frozenset()) -> list[tuple[int, int]]:
    """Noun phrases of a sentence as ranges of its tokens."""
    tokens = sentence.tokens
    if is_foreign(sentence):
        return []
    kinds = [_kind_in_place(sentence, place) for place in range(len(tokens))]
    found: list[tuple[int, int]] = []
    first = 0
    while first < len(tokens):
        if first in taken or kinds[first] not in _INNER:
            first += 1
            continue
        last = first
        while last < len(tokens) and last not in taken and kinds[last] in _INNER:
            if last > first and tokens[last].before != JOINED:
                break
            last += 1
            if kinds[last - 1] in _NOUN and tokens[last - 1].possessive:
                break
            if kinds[last - 1] in _NOUN and singular(tokens[last - 1].low) != tokens[last - 1].low:
                break
        phrase = _phrase(tokens, kinds, first, last)
        if phrase:
            found.append(phrase)
        first = last
    return found


def is_foreign(sentence: Sentence) -> bool:
    """Whether a sentence in an English text is in another language, going by its stop words."""
    if len(sentence.tokens) < 5:
        return False
    other = _foreign_stop_words()
    lows = [token.low for token in sentence.tokens]
    count = sum(low in other for low in lows)
    return count > 2 and count > sum(words.is_stop_word(low) for low in lows)


@cache
def _foreign_stop_words() -> frozenset[str]:
    lists = words.stop_words()
    others = frozenset().union(*(lists[language] for language in lists if language != "en"))
    return frozenset(
        word for word in others - lists["en"] if not words.listed(word) or len(word) < 3
    )


def lemma(tokens: Sequence[Token]) -> str:
    """The phrase in lower case with its last word in singular."""
    return " ".join([*(token.low for token in tokens[:-1]), singular(tokens[-1].low)])


def rarity(word: str) -> float:
    """0 for the most frequent word, near 1 for a rare one."""
    return 1 - (words.score(word) or words.score(singular(word)) or UNLISTED) / 32


def _kind_in_place(sentence: Sentence, place: int) -> str:
    """Class of a token where it stands: noun-or-verb words are verbs after to, modals, pronouns."""
    tokens = sentence.tokens
    token = tokens[place]
    kind = sentence.kinds[place]
    if kind not in ("n", "v", "V"):
        return kind
    before = tokens[place - 1] if place and token.before == JOINED else None
    lists = english()
    if before is None:
        return "V" if kind == "v" else kind
    if before.low == "to" or before.low in lists["modal"] or before.low in _SUBJECTS:
        return "V"
    if kind in ("v", "V"):
        nominal = (
            before.low in lists["determiner"] or before.low == "of" or class_of(before.low) == "J"
        )
        return "n" if nominal and kind == "v" else "V"
    return kind


_SUBJECTS = frozenset({"i", "you", "he", "she", "it", "we", "they", "who", "which", "that", "not"})


def _phrase(
    tokens: Sequence[Token], kinds: Sequence[str], first: int, last: int
) -> tuple[int, int] | None:
    lists = english()
    while last > first and kinds[last - 1] not in _NOUN:
        last -= 1
    if last - first > MAX_WORDS:
        first = last - MAX_WORDS
    while first < last:
        low, kind = tokens[first].low, kinds[first]
        before = tokens[first - 1] if first and tokens[first].before == JOINED else None
        if (
            low in lists["vague"]
            or kind in ("G", "v")
            or (
                kind == "P"
                and not (
                    before
                    and (
                        before.low in lists["determiner"]
                        or before.low in ("of", "for", "with", "in")
                    )
                )
            )
        ):
            first += 1
        else:
            break
    if first >= last:
        return None
    head = singular(tokens[last - 1].low)
    if head in lists["empty"] or tokens[last - 1].low in lists["empty"]:
        return None
    if last - first == 1 and (len(head) < 4 or "'" in head):
        return None
    return first, last


def _parts(tokens: Sequence[Token], first: int, last: int) -> list[tuple[int, int]]:
    """Shorter phrases inside a phrase that could stand alone."""
    size = last - first
    found = []
    for begin in range(first, last):
        for end in range(begin + 1, last + 1):
            if end - begin < size and class_of(tokens[end - 1].low) in _NOUN:
                found.append((begin, end))
    return found


def _add(found: dict[str, Term], tokens: Sequence[Token], spot: Spot) -> Term:
    inside = tokens[spot.first : spot.last]
    name = lemma(inside)
    term = found.setdefault(name, Term(name))
    term.spots.append(spot)
    term.forms[" ".join(token.low for token in inside)] += 1
    return term


def _score(term: Term, longer: Counter[str]) -> float:
    """Frequency as in C-value (Frantzi et al. 2000), rarity and length."""
    parts = term.name.split(" ")
    inside = longer.total()
    frequency = max(0.0, len(term.spots) + 0.5 * inside - (inside / len(longer) if longer else 0))
    rare = sum(map(rarity, parts)) / len(parts)
    score: float = frequency**0.8 * (0.25 + rare) * (1 + 0.35 * min(len(parts) - 1, 2))
    if len(parts) == 1:
        score *= 0.55
        if words.score(term.name) >= FREQUENT:
            score *= 0.5
        if is_technical(term.name):
            score *= TECHNICAL
    return score * (1.2 if term.spots[0].sentence == 0 else 1)


def is_technical(word: str) -> bool:
    """Whether an unlisted word ends like the name of a substance or a disease."""
    return len(word) > 6 and word.endswith(_TECHNICAL) and not words.listed(word)


_TECHNICAL = (
    "vir", "mab", "nib", "mide", "cillin", "mycin", "statin", "zole", "pril", "sartan", "quine",
    "xaban", "parin", "platin", "taxel", "rubicin", "ciclib", "itis", "osis", "emia", "aemia",
    "oma", "pathy", "plasty", "ectomy", "scopy", "ase",
)  # fmt: skip


def limit(size: int) -> int:
    """How many terms a chunk of `size` words may have."""
    return int(min(22, 1.5 + 0.055 * size))
