"""Chinese, Japanese and Korean: words, and which of them are names.

Chinese words come from `jieba` (Viterbi over its dictionary, and a hidden Markov model for words
that are not in it); their classes are looked up in the same dictionary file.
"""

from __future__ import annotations

import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from app.domain import Keywords
from app.rules.lexicon import chinese
from app.rules.reading import Found, Reading, Spot
from app.rules.tokens import HARD, JOINED, SOFT, Sentence, Token

if TYPE_CHECKING:
    import jieba

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA = re.compile("[\u3040-\u30ff]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_LATIN = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_SENTENCE = re.compile(r"[^。！？!?；\n]{1,300}[。！？!?；]*[”」』’\"）)]*")
_BOOK = re.compile(r"《([^《》\n]{1,30})》")
_WORDLIKE = re.compile(r"[\w·・]+")
_CLASSES = {"n": "N", "v": "V", "a": "J", "m": "M", "d": "R", "j": "N", "i": "N", "l": "N"}
_KINDS = {"nr": "person", "nrt": "person", "nrfg": "person", "ns": "location", "nt": "organization"}
KNOWN = 20  # occurrences in jieba's corpus from which a person's name is taken as it is
FREQUENT, FREQUENT_LONG = 3, 2  # occurrences that make a noun of two, of more characters a term
_lock = threading.Lock()


class Word(NamedTuple):
    text: str
    start: int
    kind: str  # person, location, organization, concept (listed names), term (nouns), "" others
    tag: str  # class of the dictionary, "" for words that are not in it


def is_chinese(text: str) -> bool:
    """Whether the text is (mostly) Chinese: Han characters outweigh words of other scripts."""
    han = len(_HAN.findall(text))
    return (
        han > len(_LATIN.findall(text))
        and han > 3 * len(_KANA.findall(text))
        and han > len(_HANGUL.findall(text))
    )


def is_unspaced(text: str) -> bool:
    """Whether the text is mostly Chinese, Japanese or Korean."""
    own = len(_HAN.findall(text)) + len(_KANA.findall(text)) + len(_HANGUL.findall(text)) / 2
    return own > 1.5 * len(_LATIN.findall(text))


# --- the dictionary ------------------------------------------------------------------------------


@cache
def _segmenter() -> tuple[jieba.Tokenizer, dict[str, str]]:
    """jieba's tokenizer, without its cache file in a shared folder, and the classes of words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its use of old interfaces
        import jieba  # noqa: PLC0415 - slow, and for Chinese only

        tokenizer = jieba.Tokenizer()
        with tokenizer.get_dict_file() as lines:
            rows = [line.decode("utf-8").split() for line in lines]
        with tokenizer.get_dict_file() as lines:
            tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(lines)
    tokenizer.initialized = True
    return tokenizer, {row[0]: sys.intern(row[2]) for row in rows if len(row) > 2}


def cut(text: str, start: int = 0) -> list[Word]:
    """Words with offsets (`start` is that of the text), names joined and told from other words."""
    with _lock:
        tokenizer, tags = _segmenter()
    place = start
    plain: list[Word] = []
    for part in tokenizer.cut(text, HMM=True):
        if _WORDLIKE.fullmatch(part):
            known = tokenizer.FREQ.get(part, 0) >= KNOWN
            plain += _classified(part, place, tags.get(part, ""), known=known)
        place += len(part)
    return _joined(plain)


def _classified(word: str, start: int, tag: str, *, known: bool) -> list[Word]:
    """The word with its kind. Persons that the dictionary has seldom or never seen may carry the
    verb that follows them: that becomes a word of its own."""
    lists = chinese()
    if word in lists["stop"] or word in lists["empty"]:
        return [Word(word, start, "", "u")]
    kind = _KINDS.get(tag, "") if len(word) > 1 else ""
    if word in lists["not-name"]:
        return [Word(word, start, "term", "n")]
    if kind == "person" and known:
        return [Word(word, start, kind, tag)]
    if kind == "person" or (not tag and _HAN.match(word)):
        person = _person(word, listed=bool(tag))
        rest = word[len(person) :]
        found = [Word(person, start, "person", "nr")] if person else []
        return found + ([Word(rest, start + len(person), "", "v")] if rest else [])
    if kind:
        return [Word(word, start, kind, tag)]
    if tag == "nz" and len(word) > 1:
        return [Word(word, start, "concept", tag)]
    if tag in ("n", "j", "vn", "an", "l", "i") and len(word) > 1:
        return [Word(word, start, "term", tag)]
    return [Word(word, start, "", tag)]


def _person(word: str, *, listed: bool) -> str:
    """The name that an uncertain word starts with, or "": a surname and one or two characters;
    without a surname only what the dictionary lists as a person."""
    lists = chinese()
    double = word[:2] in lists["double-surname"]
    while len(word) > 1 and word[-1] in lists["person-tail"]:
        word = word[:-1]
    if not 2 <= len(word) <= (4 if double else 3):
        return ""
    surname = double or (word[0] in lists["surname"] and word[0] not in lists["not-surname"])
    return word if surname or listed else ""


def _joined(words: Sequence[Word]) -> list[Word]:
    found: list[Word] = []
    for word in words:
        last = found[-1] if found else None
        if last is None or last.start + len(last.text) != word.start:
            found.append(word)
            continue
        kind = _together(last, word)
        if kind:
            found[-1] = Word(last.text + word.text, last.start, kind, "n")
        else:
            found.append(word)
    return found


def _together(one: Word, other: Word) -> str:
    """Kind of the two words as one name, or "" if they are two."""
    lists = chinese()
    surname = one.text in lists["double-surname"] or (
        one.text in lists["surname"]
        and one.text not in lists["not-surname"]
        and one.text not in lists["weak-surname"]
    )
    given = len(other.text) <= 2 and other.text[-1] not in lists["person-tail"]
    if surname and given and other.tag in ("", "nr", "nrt", "nz"):
        return "person"
    if one.kind == "location" and other.text in lists["place-tail"]:
        return "location"
    company = one.kind in ("location", "organization", "term", "concept")
    return "organization" if company and other.text in lists["institution"] else ""


# --- a chunk -------------------------------------------------------------------------------------


def read_chinese(title: str, text: str) -> tuple[Reading, list[Found]]:
    """Sentences of words, as `app.rules.reading.read` makes them of spaced text, and the candidate
    entities: names that stand once, nouns that stand more often, works in 《…》, and the title."""
    sentences: list[Sentence] = []
    kinds: dict[str, str] = {}
    spots: dict[str, list[Spot]] = {}
    for match in _SENTENCE.finditer(text):
        words = cut(match.group(), match.start())
        if not words:
            continue
        for place, word in enumerate(words):
            if word.kind:
                kinds.setdefault(word.text, word.kind)
                spots.setdefault(word.text, []).append(Spot(len(sentences), place, place + 1))
        sentences.append(_sentence(text, match, words))
    size = sum(len(sentence.tokens) for sentence in sentences)
    reading = Reading(title, text, "zh", sentences, frozenset(), Counter(), size)
    _cut_back(text, kinds, spots)
    found = [_entry(name, kinds[name], places) for name, places in spots.items()]
    kept = [entry for entry in found if entry.origin == "name" or _is_frequent(entry)]
    kept.sort(key=lambda entry: (entry.origin == "term", -len(entry.spots), entry.name))
    named = _titles(reading, {entry.name for entry in kept})
    return reading, [*named, *kept[: 24 + size // 20]]


def _cut_back(text: str, kinds: Mapping[str, str], spots: dict[str, list[Spot]]) -> None:
    """A person whose first or last characters are another one's name is that one (张飞性: 张飞);
    what starts with a word that is seldom a surname must stand twice."""
    for name in sorted(spots):
        if kinds[name] != "person":
            continue
        if len(name) > 2:
            for shorter in (name[:-1], name[1:], name[2:]):
                known = len(shorter) > 1 and kinds.get(shorter) == "person" and shorter in spots
                if known and text.count(shorter) > 2 * text.count(name):
                    spots[shorter] = sorted(spots[shorter] + spots.pop(name))
                    break
        if name in spots and len(spots[name]) == 1 and name[0] in chinese()["rare-surname"]:
            del spots[name]


def _sentence(text: str, match: re.Match[str], words: Sequence[Word]) -> Sentence:
    part = match.group()
    lead = len(part) - len(part.lstrip(" \t\u3000"))
    tokens: list[Token] = []
    end = words[0].start
    for word in words:
        gap = text[end : word.start]
        before = HARD if not tokens else SOFT if gap.strip() else JOINED
        end = word.start + len(word.text)
        number = word.text.isdigit()
        tokens.append(
            Token(word.text, word.text, word.start, end, before, gap, False, number, False)
        )
    classes = [_CLASSES.get(word.tag[:1], "N" if word.kind else "F") for word in words]
    return Sentence(match.start() + lead, match.start() + len(part.rstrip()), tokens, kinds=classes)


def _entry(name: str, kind: str, spots: list[Spot]) -> Found:
    entry = Found(name, "term" if kind == "term" else "name", spots)
    if kind not in ("term", "concept"):
        entry.cues[kind] += 3
    return entry


def _is_frequent(entry: Found) -> bool:
    return len(entry.spots) >= (FREQUENT_LONG if len(entry.name) > 2 else FREQUENT)


def _titles(reading: Reading, known: set[str]) -> list[Found]:
    """Works in 《…》, and the document's title where the text has it or is short."""
    found: dict[str, Found] = {}
    for match in _BOOK.finditer(reading.text):
        entry = found.setdefault(match.group(1), Found(match.group(1), "quote"))
        entry.cues["work"] += 3
        spot = _spot(reading, match.start(1), match.end(1))
        if spot:
            entry.spots.append(spot)
    title = reading.title.strip("《》 ")
    if _HAN.search(title) and len(title) <= 20 and "." not in title and title not in found:
        at = reading.text.find(title)
        spot = _spot(reading, at, at + len(title)) if at >= 0 else None
        if spot or reading.size < 200:
            found[title] = Found(title, "title", [spot] if spot else [])
    return [entry for name, entry in found.items() if name not in known]


def _spot(reading: Reading, start: int, end: int) -> Spot | None:
    for index, sentence in enumerate(reading.sentences):
        if sentence.start <= start < sentence.end:
            inside = [n for n, t in enumerate(sentence.tokens) if t.start < end and t.end > start]
            return Spot(index, inside[0], inside[-1] + 1) if inside else None
    return None


def keywords_of_chinese(question: str) -> Keywords:
    """Names, or the nouns where there is none; then other nouns and verbs."""
    low: list[str] = [match.group(1) for match in _BOOK.finditer(question)]
    nouns: list[str] = []
    verbs: list[str] = []
    for word in cut(question):
        if word.kind and word.kind != "term":
            low.append(word.text)
        elif word.kind == "term" or (not word.tag and len(word.text) > 1):
            nouns.append(word.text)
        elif word.tag.startswith(("v", "a")) and len(word.text) > 1:
            verbs.append(word.text)
    if not low:
        low, nouns = nouns, []
    high = [word for word in [*nouns, *verbs] if word not in low]
    return Keywords(tuple(dict.fromkeys(low))[:8], tuple(dict.fromkeys(high))[:6])
