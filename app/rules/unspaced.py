"""Japanese and Korean without a dictionary: katakana words, n-grams that hold together, and words
without their particles."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from app.rules.reading import Found, Reading, Spot
from app.rules.tokens import HARD, Sentence, Token

MIN_PMI, MIN_ENTROPY = 1.5, 0.5
MAX_LENGTH = 12  # characters of a whole run that stands twice
_SENTENCE = re.compile(r"(?:[^。！？!?.\n]|\.(?!\s)){1,300}[。！？!?.]*[」』”）)]*")
_HANGUL_WORD = re.compile("[\uac00-\ud7af]{2,}")
_KATAKANA = re.compile("[\u30a1-\u30fa][\u30a1-\u30fa\u30fc・]{2,}")
_HAN_RUN = re.compile("[\u3400-\u9fff々]{2,}")
_LATIN = re.compile(r"[A-Z][A-Za-z0-9&.-]+(?: [A-Z][A-Za-z0-9&.-]+)*")
_PARTICLES = re.compile(
    "(?<=[\uac00-\ud7af]{2})(?:에서는|에서|으로|에게|까지|부터|이라는|이다|입니다|은|는|이|가|을|를|의|에|로|와|과|도)$"
)
_ENDINGS = {
    "大学": "organization", "会社": "organization", "銀行": "organization", "学校": "organization",
    "委員会": "organization", "協会": "organization", "省": "organization", "市": "location",
    "県": "location", "都": "location", "町": "location", "村": "location", "山": "location",
    "川": "location", "島": "location", "駅": "location", "대학교": "organization",
    "은행": "organization", "위원회": "organization", "시": "location", "도": "location",
}  # fmt: skip


def read_unspaced(title: str, text: str) -> tuple[Reading, list[Found]]:
    """Sentences whose tokens are the candidates that stand in them, and the candidates."""
    counts = Counter(candidate for _, candidate in _candidates(text))
    solid = _solid(text)
    kept = {
        word
        for word, count in counts.items()
        if word in solid or (count > 1 and len(word) <= MAX_LENGTH) or _LATIN.fullmatch(word)
    }
    spots: dict[str, list[Spot]] = defaultdict(list)
    sentences: list[Sentence] = []
    for match in _SENTENCE.finditer(text):
        tokens = _tokens(match.group(), match.start(), kept)
        for place, token in enumerate(tokens):
            spots[token.text].append(Spot(len(sentences), place, place + 1))
        if tokens:
            sentences.append(_sentence(match, tokens))
    reading = Reading(title, text, "ja", sentences, frozenset(), Counter(), len(text) // 3)
    found = [_entry(name, places) for name, places in spots.items()]
    found.sort(key=lambda entry: (-len(entry.spots), entry.name))
    return reading, found[: 16 + reading.size // 30]


def _entry(name: str, spots: list[Spot]) -> Found:
    entry = Found(name, "name" if len(name) > 2 else "term", spots)
    kind = next((kind for end, kind in _ENDINGS.items() if name.endswith(end) and name != end), "")
    if kind:
        entry.cues[kind] += 3
    return entry


def _sentence(match: re.Match[str], tokens: list[Token]) -> Sentence:
    part = match.group()
    start = match.start() + len(part) - len(part.lstrip())
    return Sentence(start, match.start() + len(part.rstrip()), tokens, kinds=["N"] * len(tokens))


def _candidates(text: str) -> Iterable[tuple[int, str]]:
    """Katakana, Hangul and Latin words with their offsets, and runs of Han characters."""
    for match in _KATAKANA.finditer(text):
        yield match.start(), match.group()
    for match in _HANGUL_WORD.finditer(text):
        yield match.start(), _PARTICLES.sub("", match.group())
    for match in _LATIN.finditer(text):
        yield match.start(), match.group()
    for match in _HAN_RUN.finditer(text):
        yield match.start(), match.group()


def _tokens(part: str, base: int, kept: set[str]) -> list[Token]:
    """Kept words in a sentence from left to right, the longest first where they overlap."""
    found: list[tuple[int, str]] = []
    for start, word in _candidates(part):
        if word in kept:
            found.append((start, word))
        elif _HAN_RUN.fullmatch(word):
            found += _inside(start, word, kept)
    found.sort(key=lambda item: (item[0], -len(item[1])))
    tokens: list[Token] = []
    end = -1
    for start, word in found:
        if start >= end:
            begin = base + start
            end = start + len(word)
            tokens.append(Token(word, word, begin, base + end, HARD, "", False, False, False))
    return tokens


def _inside(start: int, run: str, kept: set[str]) -> list[tuple[int, str]]:
    found = []
    place = 0
    while place < len(run):
        size = next((n for n in (4, 3, 2) if run[place : place + n] in kept), 1)
        if size > 1:
            found.append((start + place, run[place : place + size]))
        place += size
    return found


def _solid(text: str) -> set[str]:
    """N-grams of two to four Han characters that stand twice, hold together (pointwise mutual
    information) and are free at both ends (entropy of the neighbours)."""
    runs = [match.group() for match in _HAN_RUN.finditer(text)]
    grams: Counter[str] = Counter()
    left: defaultdict[str, Counter[str]] = defaultdict(Counter)
    right: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number, run in enumerate(runs):
        for size in (1, 2, 3, 4):
            for place in range(len(run) - size + 1):
                gram = run[place : place + size]
                grams[gram] += 1
                # an end of the run is a neighbour of its own each time
                left[gram][run[place - 1] if place else f"^{number}"] += 1
                end = place + size
                right[gram][run[end] if end < len(run) else f"${number}"] += 1
    total = sum(map(len, runs)) or 1
    return {
        gram
        for gram, count in grams.items()
        if len(gram) > 1 and count > 1
        and _pmi(gram, grams, total) >= MIN_PMI
        and min(_entropy(left[gram]), _entropy(right[gram])) >= MIN_ENTROPY
    }  # fmt: skip


def _pmi(gram: str, grams: Counter[str], total: int) -> float:
    """The weakest joint: the least information that any cut of the n-gram would lose."""
    return min(
        math.log(grams[gram] * total / (grams[gram[:cut]] * grams[gram[cut:]]))
        for cut in range(1, len(gram))
    )


def _entropy(neighbours: Counter[str]) -> float:
    total = neighbours.total()
    return -sum(n / total * math.log(n / total) for n in neighbours.values())
