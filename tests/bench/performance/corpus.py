"""Documents to measure with: real passages first, then seeded text made of their sentences.

The first 10,000 or so are encyclopaedia passages of the evaluation data, shuffled once. Those
beyond them take a passage, give it a title of its own, and exchange some of its names for others of
the same make; what is left are the names that many passages share, so hubs grow as they do in real
text. Without the evaluation data the sentences are those of `samples/`. Every document is distinct,
and smaller sets are prefixes of larger ones.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import permutations

from tests.bench.evaluation.grounds import shared
from tests.model_answers import NAME, SENTENCE, STARTERS
from tests.system.stack import ROOT

SETS = ("2wiki-101", "hotpotqa-train", "musique-train", "popqa")
SAMPLES = ("a-christmas-carol-stave-one.txt", "us-constitution.md")
SEED = 20
SHORTEST = 60  # characters of a passage
EXCHANGED = 0.5  # share of the names of several words that become others
SENTENCES = 4  # of a passage made of samples
ASKED = 100  # questions are about the first documents, so that they fit every size
FORMS = (
    "Where does {a} come from and what is the connection with {b}?",
    "When did {a} and {b} become important?",
    "Which events or places link {a} with {b}?",
    "Who directed or founded {a}, and how does it compare with {b}?",
)


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    text: str  # without the title


def documents(count: int, start: int = 0) -> Iterator[Document]:
    """`count` documents from the one at `start` on, always the same."""
    return map(_document, range(start, start + count))


def questions(count: int) -> list[str]:
    """Each about two of the first documents; at most some thousand, all distinct."""
    titles = dict.fromkeys(document.title for document in documents(ASKED))
    pairs = [*permutations(titles, 2)]
    random.Random(SEED).shuffle(pairs)
    return [FORMS[n % len(FORMS)].format(a=a, b=b) for n, (a, b) in enumerate(pairs[:count])]


def source() -> str:
    """What the documents are made of, for the records."""
    names = ", ".join(SETS) if shared().is_dir() else "samples"
    return f"{len(_real()):,} passages of {names}; beyond them seeded text of their sentences"


def _document(number: int) -> Document:
    real = _real()
    if number < len(real):
        title, text = real[number]
    else:
        title, text = _made(random.Random(f"{SEED} {number}"), number)
    return Document(f"d{number:06d}", title, text)


def _made(chance: random.Random, number: int) -> tuple[str, str]:
    """A passage like another, about something else. The number makes two of one title distinct."""
    old, text = chance.choice(_real())
    title = _name(chance)
    exchanged = {old: title}
    for name in dict.fromkeys(NAME.findall(text)):
        words = name.split()
        if len(words) > 1 and words[0] not in STARTERS and chance.random() < EXCHANGED:
            exchanged.setdefault(name, _name(chance))
    names = "|".join(re.escape(name) for name in sorted(exchanged, key=len, reverse=True))
    text = re.sub(names, lambda found: exchanged[found[0]], text)
    return title, f"{text} It is number {number} of its list."


def _name(chance: random.Random) -> str:
    first, last = _words()
    return f"{chance.choice(first)} {chance.choice(last)}"


@cache
def _words() -> tuple[Sequence[str], Sequence[str]]:
    """First and last words of the names of several words in real titles."""
    names = [NAME.findall(title) for title, _ in _real()]
    pairs = [name.split() for found in names for name in found if " " in name]
    return [words[0] for words in pairs], [words[-1] for words in pairs]


@lru_cache(maxsize=1)
def _real() -> Sequence[tuple[str, str]]:
    found = dict.fromkeys(_passages() if shared().is_dir() else _samples())
    rows = [(title, text) for title, text in found if len(text) >= SHORTEST and title]
    random.Random(SEED).shuffle(rows)
    return rows


def _passages() -> Iterator[tuple[str, str]]:
    for name in SETS:
        with gzip.open(shared() / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                yield row["title"].strip(), row["text"].strip()


def _samples() -> Iterator[tuple[str, str]]:
    """A few sentences each; the title is the longest name among them."""
    for name in SAMPLES:
        text = " ".join((ROOT / "samples" / name).read_text(encoding="utf-8").split())
        sentences = SENTENCE.split(text)
        for n in range(0, len(sentences), SENTENCES):
            passage = " ".join(sentences[n : n + SENTENCES])
            yield max(NAME.findall(passage), key=len, default=""), passage
