"""Text as sparse term weights: the words of BM25, the same for documents and queries.

`document_sparse` gives the part of BM25 that depends on one text (term frequency and length);
the vector engine multiplies by the inverse document frequency of the workspace.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache

from app.domain import Kind, Sparse
from app.words import stop_words

K1 = 1.2
B = 0.75
# What a common English word of a question weighs. With a fixed average length its frequency in a
# long text counts too much; over five sets of questions 0.25 finds 1.5 % more passages than 1.
STOP_WEIGHT = 0.25
# Typical number of terms of a text to be indexed. Fixed, so that a point never has to be rewritten
# because its neighbours grew longer; see `document_sparse`.
AVERAGE_TERMS: Mapping[Kind, float] = {
    Kind.CHUNK: 300.0,
    Kind.ENTITY: 40.0,
    Kind.RELATION: 30.0,
    Kind.COMMUNITY: 100.0,
}

# Scripts without spaces between words, and Hangul, whose words carry their particles: Thai, Lao,
# Burmese, Khmer, kana and bopomofo, Han, Hangul, Han of the supplementary planes.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3031-\u3035\u3041-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
# Scripts of India and Tibet, whose vowel signs are no word characters to `re`.
_SIGNED = "\u0900-\u0963\u0966-\u0dff\u0f40-\u0fbc"
_LETTER = rf"(?:[{_SIGNED}]|[^\W_{_UNSPACED}])"
_TOKEN = re.compile(
    rf"(?P<run>[{_UNSPACED}]+)"
    rf"|(?P<initials>(?<!\w)(?:[^\W\d_{_UNSPACED}]\.){{2,}}(?:[^\W\d_{_UNSPACED}](?!\w))?)"
    r"|(?P<number>(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![\w.])\d+\.\d+(?![\w.]))"
    rf"|(?P<word>{_LETTER}+(?:['’]{_LETTER}+)*)"
)
# The same for ASCII; the terms of a passage take 78 µs with it and `_words` cached, 133 without.
_ASCII_TOKEN = re.compile(
    r"(?P<initials>(?<!\w)(?:[A-Za-z]\.){2,}(?:[A-Za-z](?!\w))?)"
    r"|(?P<number>(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![\w.])\d+\.\d+(?![\w.]))"
    r"|(?P<word>[A-Za-z0-9]+(?:'[A-Za-z0-9]+)*)",
    re.ASCII,
)
_POSSESSIVE = re.compile(r"['’][sS]$")
_APOSTROPHE = re.compile(r"['’]")
# Combining marks of Latin, Greek, Cyrillic, Hebrew and Arabic, and characters without width. Marks
# of kana or Indic scripts make other letters and stay.
_MARKS = re.compile(
    "[\u00ad\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0640\u064b-\u0652\u0670"
    "\u200b-\u200d\u2060\ufeff]"
)
# Letters with a stroke or ligatures, which have no canonical decomposition.
_STROKES = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
)


def terms(text: str) -> list[str]:
    """Normal forms of the words of a text, in order, with repeats."""
    return list(_terms(text if text.isascii() else _without_marks(text)))


def document_sparse(text: str, *, average: float) -> Sparse:
    """Term part of BM25 (Robertson and Zaragoza 2009) for a text among texts of `average` terms.

    The average is an argument and not measured: only ratios of weights matter for a ranking, and
    they change little with it, while a measured one would make every stored vector out of date.
    """
    counts = Counter(terms(text))
    norm = K1 * (1 - B + B * counts.total() / average)
    return _sparse({term: n * (K1 + 1) / (n + norm) for term, n in counts.items()})


def query_sparse(text: str) -> Sparse:
    """Weight 1 for each different term, less for stop words; the engine multiplies by idf."""
    stop = _stop_terms()
    return _sparse({term: STOP_WEIGHT if term in stop else 1.0 for term in terms(text)})


def content_terms(text: str) -> list[str]:
    """The different terms of a question that are no stop words, in order."""
    stop = _stop_terms()
    return [term for term in dict.fromkeys(terms(text)) if term not in stop]


def residual_sparse(text: str, names: Iterable[str]) -> Sparse:
    """Content terms of a question that are in none of its names, weight 1 each."""
    named = {term for name in names for term in terms(name)}
    return _sparse({term: 1.0 for term in content_terms(text) if term not in named})


def folded(text: str) -> str:
    """The text as terms are written, but with its punctuation and endings."""
    return text.lower() if text.isascii() else _fold(_without_marks(text))


@cache
def _stop_terms() -> frozenset[str]:
    return frozenset(terms(" ".join(stop_words()["en"])))


def _terms(text: str) -> Iterator[str]:
    for match in (_ASCII_TOKEN if text.isascii() else _TOKEN).finditer(text):
        token = match.group()
        match match.lastgroup:
            case "run":
                yield from _characters(_fold(token))
            case "initials":
                yield _fold(token.replace(".", ""))
            case "number":
                yield token.replace(",", "")
            case _:
                yield from _words(token)


def _characters(run: str) -> Iterator[str]:
    """Single characters and pairs: pairs alone miss words of one character."""
    yield from run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


@lru_cache(maxsize=1 << 14)
def _words(token: str) -> tuple[str, ...]:
    """Words of a token without spaces: O'Brien is two, WolfgangSchulz two and the whole, so that
    both spellings meet. Nine of ten tokens are known already; it takes 3 MiB to know them."""
    words: list[str] = []
    for part in _APOSTROPHE.split(_POSSESSIVE.sub("", token)):
        humps = list(_humps(part))
        if len(humps) > 1:
            words += (_singular(_fold(hump)) for hump in humps)
        words.append(_singular(_fold(part)))
    return tuple(words)


def _humps(word: str) -> Iterator[str]:
    start = 0
    for place in range(1, len(word)):
        if word[place].isupper() and word[place - 1].islower():
            yield word[start:place]
            start = place
    yield word[start:]


def _without_marks(text: str) -> str:
    bare = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare)


def _fold(token: str) -> str:
    return token.lower() if token.isascii() else token.casefold().translate(_STROKES)


def _singular(word: str) -> str:
    """The S-stemmer of Harman (1991), with `-es` cut whole after sibilants (churches, boxes)."""
    if len(word) < 4 or word[-1] != "s" or not word.isascii():
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if word[-2] in "us" or word.endswith(("aes", "ees", "oes")):
        return word
    return word[:-1]


def _sparse(weights: Mapping[str, float]) -> Sparse:
    """Term ids are CRC-32 of the term; the weights of terms that share an id add up."""
    summed: dict[int, float] = {}
    for term, weight in weights.items():
        index = zlib.crc32(term.encode())
        summed[index] = summed.get(index, 0.0) + weight
    return Sparse(tuple(summed), tuple(summed.values()))
