"""Names in running text: runs of words with capitals, and what starts, joins and ends them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app import words
from app.rules.lexicon import english
from app.rules.reading import Reading, class_of, is_shouting, opens_quote, singular, word_class
from app.rules.tokens import JOINED, Sentence, Token

_WOMEN = frozenset({"mrs", "miss", "lady"})
MAX_WORDS = 9
MAX_CHARACTERS = 80
FREQUENT = 20  # list score from which one common word with a capital is no name
_ROMAN = re.compile(r"[IVXLC]+")
_YEAR = re.compile(r"1[0-9]{3}|20[0-9]{2}")
_CONTRACTION = re.compile(r"'(?:ll|m|ve|d|re|t)$")
_SPACES = re.compile(r"[\s\u00ad]+")


class Run(NamedTuple):
    """Tokens `first` up to `last` of a sentence are a name; `cues` are kinds with points."""

    first: int
    last: int
    cues: tuple[tuple[str, float], ...] = ()


def runs(reading: Reading, sentence: Sentence, blocked: frozenset[int] = frozenset()) -> list[Run]:
    """Names of a sentence from left to right; tokens in `blocked` belong to other things."""
    tokens = sentence.tokens
    capital = _capitals(reading, sentence, blocked)
    found: list[Run] = []
    place = 0
    while place < len(tokens):
        if not capital[place]:
            place += 1
            continue
        last = _end(tokens, capital, place)
        run = _trimmed(tokens, _with_year(tokens, place, last), last)
        if run and _is_name(reading, sentence, run):
            found.append(run)
        place = last
    return found


def name_of(text: str, tokens: Sequence[Token], *, shouting: bool = False) -> str:
    """The name as people write it: one space between words, straight apostrophes."""
    parts: list[str] = []
    for number, token in enumerate(tokens):
        word = token.text
        if shouting and words.is_stop_word(word.lower()):
            word = word.lower()
        elif shouting and len(word) > 3 and word.isupper() and word.isalpha():
            word = word.capitalize()
        possessive = token.possessive and number < len(tokens) - 1
        gap = (
            ""
            if not number
            else ". "
            if token.gap[:1] == "."
            else ", "
            if "," in token.gap
            else " "
        )
        parts.append(gap + word + ("'s" if possessive else ""))
    name = _SPACES.sub(" ", "".join(parts))
    if (
        tokens[-1].text in ("Jr", "Sr", "Inc", "Co")
        and text[tokens[-1].end : tokens[-1].end + 1] == "."
    ):
        name += "."
    return name


# --- what counts as a capital --------------------------------------------------------------------


def _capitals(reading: Reading, sentence: Sentence, blocked: frozenset[int]) -> list[bool]:
    tokens = sentence.tokens
    flags = [
        token.cap and place not in blocked and not _CONTRACTION.search(token.low)
        for place, token in enumerate(tokens)
    ]
    shouting = is_shouting(sentence)
    lists = english()
    for place, token in enumerate(tokens):
        if not flags[place]:
            continue
        if shouting and not any(char.isdigit() for char in token.text):
            flags[place] = reading.capital[token.low] > 0
        elif sentence.heading and not _plainly_a_name(token):
            flags[place] = _names_in_heading(reading, tokens, place)
        elif place == 0 or opens_quote(token):
            flags[place] = _starts_name(reading, tokens, place)
        elif token.low in lists["pronoun"] and not _spelt_out(token):
            flags[place] = False
        elif token.low == "al" and tokens[place - 1].low == "et":
            flags[place - 1] = flags[place] = False
    return flags


def _spelt_out(token: Token) -> bool:
    """Whether a word is in capitals throughout: WHO and US are no pronouns."""
    return len(token.text) > 1 and token.text.isupper()


def _plainly_a_name(token: Token) -> bool:
    inner = sum(char.isupper() for char in token.text) > 1 or any(c.isdigit() for c in token.text)
    return inner and not words.is_stop_word(token.low)


def _names_in_heading(reading: Reading, tokens: Sequence[Token], place: int) -> bool:
    """Where every word has a capital, listed words count as lower case."""
    low = tokens[place].low
    if reading.capital[low]:
        return True
    if words.is_stop_word(low) or low in reading.lower:
        return False
    if not is_known(low):
        return True
    follower = tokens[place + 1] if place + 1 < len(tokens) else None
    return (
        low in english()["opener"]
        and follower is not None
        and follower.cap
        and follower.before == JOINED
        and not is_known(follower.low)
    )


def is_known(low: str) -> bool:
    """Whether a word, or each part of a compound, is in the word list."""
    if words.listed(low):
        return True
    parts = low.split("-")
    return len(parts) > 1 and all(
        words.listed(part) or words.listed(singular(part)) for part in parts
    )


def _starts_name(reading: Reading, tokens: Sequence[Token], place: int) -> bool:
    """Whether a word with a capital at the start of a sentence would have one elsewhere too."""
    token = tokens[place]
    lists = english()
    low = token.low
    follower = tokens[place + 1] if place + 1 < len(tokens) else None
    joined = follower is not None and follower.before == JOINED and follower.cap
    if words.is_stop_word(low) or low in lists["pronoun"] or low in lists["determiner"]:
        return False
    if len(token.text) > 1 and (token.text.isupper() or any(c.isupper() for c in token.text[1:])):
        return True
    if low in lists["month"] or low in lists["weekday"] or low in lists["greeting"]:
        return joined and low in lists["month"]
    if reading.capital[low] and not (low in reading.lower and words.listed(low)):
        return True
    if low in lists["courtesy"] or low in lists["honoured"]:
        return joined
    if joined and follower is not None and is_known(follower.low) and is_known(low):
        return class_of(low) in ("J", "N", "n") and follower.low not in reading.lower
    if joined and any(low in lists[name] for name in ("opener", "person", "place", "organization")):
        return True
    if is_known(low) or low in reading.lower:
        return bool(joined and reading.capital[low])
    if joined or token.possessive:
        return class_of(low) != "R"
    return reading.text[token.end : token.end + 1] not in _CALLS and _lone_start(token, follower)


def _lone_start(token: Token, follower: Token | None) -> bool:
    """A first word that is not seen elsewhere must look like a noun, be singular and not stand
    before a noun or adjective."""
    low = token.low
    if class_of(low) != "N" or low in english()["adverb"] or low.endswith(_COMMON_ENDINGS):
        return False
    if singular(low) != low and words.listed(singular(low)):
        return False
    if follower is None or follower.before != JOINED or follower.cap:
        return True
    if low.endswith("s") and follower.low in ("are", "were", "have"):
        return False
    lists = english()
    if follower.low in lists["auxiliary"] or follower.low in lists["modal"]:
        return True
    return word_class(follower) in ("D", "V", "v", "P", "R") or follower.low in _AFTER_NAMES


_AFTER_NAMES = frozenset({"and", "or", "in", "at", "on", "from", "of", "who", "which", "'s", "has"})
_CALLS = frozenset("!?-—")
_COMMON_ENDINGS = (
    "tion", "sion", "ment", "ness", "ance", "ence", "ity", "ship", "ism", "hood", "ier", "iest",
)  # fmt: skip


# --- where a run ends ----------------------------------------------------------------------------


def _end(tokens: Sequence[Token], capital: Sequence[bool], first: int) -> int:
    lists = english()
    institution = tokens[first].low in lists["organization"]
    seen = {tokens[first].low}
    last = first + 1
    while last < len(tokens) and last - first < MAX_WORDS:
        token = tokens[last]
        if tokens[last - 1].possessive and not _opens_institution(tokens, last):
            break
        if _adds_suffix(token):
            last += 1
            continue
        if token.before != JOINED:
            break
        if capital[last]:
            if (
                _starts_date(tokens, last)
                or (token.low in seen and len(token.low) > 2)
                or _glued(tokens, capital, last)
            ):
                break
            seen.add(token.low)
            institution = institution or token.low in lists["organization"]
            last += 1
        elif token.number:
            if len(token.text) <= 3 and token.text.isdigit() and not _counts(tokens, last):
                last += 1
            break
        else:
            step = _connected(
                tokens, capital, last, institution and tokens[first].low in lists["organization"]
            )
            if not step:
                break
            last += step
    return last


def _starts_date(tokens: Sequence[Token], place: int) -> bool:
    """Whether a month with its day or year follows, which is no part of a name."""
    follows = tokens[place + 1] if place + 1 < len(tokens) else None
    return tokens[place].low in english()["month"] and follows is not None and follows.number


def _opens_institution(tokens: Sequence[Token], place: int) -> bool:
    lists = english()
    token = tokens[place]
    return (
        token.cap
        and token.before == JOINED
        and (
            token.low in lists["organization"]
            or token.low in lists["place"]
            or token.low in lists["event"]
        )
    )


def _adds_suffix(token: Token) -> bool:
    return token.cap and token.low in english()["suffix"] and token.gap.strip() in ("", ",")


def _glued(tokens: Sequence[Token], capital: Sequence[bool], place: int) -> bool:
    """Whether a capital word belongs to a new sentence that lost its mark (headings in PDFs)."""
    token = tokens[place]
    follows = tokens[place + 1] if place + 1 < len(tokens) else None
    before_lower = (
        follows is not None and follows.before == JOINED and not follows.cap and not follows.number
    )
    if not before_lower or follows is None:
        return False
    if words.is_stop_word(token.low) and token.low not in english()["connector"]:
        return True
    kind = word_class(token)
    if kind in ("R", "V", "D") and words.listed(token.low):
        return True
    before = tokens[place - 1].text
    return (
        before.isupper() and len(before) > 1 and kind in ("N", "n") and words.listed(token.low)
        and follows.low not in english()["connector"]
    )  # fmt: skip


def _counts(tokens: Sequence[Token], place: int) -> bool:
    """Whether a number counts what follows it instead of closing a name."""
    if place + 1 >= len(tokens):
        return False
    follows = tokens[place + 1]
    plural = singular(follows.low) != follows.low
    return follows.before == JOINED and not follows.cap and (plural or word_class(follows) == "M")


def _connected(
    tokens: Sequence[Token], capital: Sequence[bool], place: int, institution: bool
) -> int:
    """Number of small words that join a run to the capital behind them."""
    lists = english()
    low = tokens[place].low
    joins = low in lists["connector"] or (institution and low in ("and", "for"))
    if not joins or tokens[place].before != JOINED:
        return 0
    for step in (1, 2):
        behind = place + step
        if behind >= len(tokens) or tokens[behind].before != JOINED:
            return 0
        if capital[behind]:
            return 0 if words.is_stop_word(tokens[behind].low) else step
        if tokens[behind].low not in ("the", "la", "las", "los", "der", "den"):
            return 0
    return 0


def _with_year(tokens: Sequence[Token], first: int, last: int) -> int:
    """A year before an event belongs to its name (1920 Summer Olympics)."""
    if not first or tokens[first].before != JOINED or not _YEAR.fullmatch(tokens[first - 1].text):
        return first
    events = english()["event"] | {"olympics", "prix", "draft", "riots", "open"}
    return first - 1 if any(token.low in events for token in tokens[first:last]) else first


# --- what is cut, and what is no name ------------------------------------------------------------


def _trimmed(tokens: Sequence[Token], first: int, last: int) -> Run | None:
    lists = english()
    cues: list[tuple[str, float]] = []
    while first < last:
        low = tokens[first].low
        if low in lists["courtesy"]:
            cues.append(("person", 4))
            if low in _WOMEN and last - first == 2:
                break  # Mrs. Cratchit is not Cratchit
        elif low not in lists["greeting"] and not (
            words.is_stop_word(low)
            and (low != "the" or first == 0)
            and not _spelt_out(tokens[first])
        ):
            break
        first += 1
    while (
        last > first
        and not tokens[last - 1].number
        and (
            (words.is_stop_word(tokens[last - 1].low) and not _spelt_out(tokens[last - 1]))
            or not tokens[last - 1].cap
        )
    ):
        last -= 1
    if last - first == 1 and tokens[first].low == "the":
        return None
    return Run(first, last, tuple(cues)) if first < last else None


def _is_name(reading: Reading, sentence: Sentence, run: Run) -> bool:
    tokens = sentence.tokens[run.first : run.last]
    if tokens[-1].end - tokens[0].start > MAX_CHARACTERS:
        return False
    lists = english()
    empty = lists["month"] | lists["weekday"] | lists["suffix"] | lists["courtesy"]
    if all(
        t.number or t.low in empty or _ROMAN.fullmatch(t.text) or len(t.text) == 1 for t in tokens
    ):
        return False
    if len(tokens) > 1:
        return True
    return _lone_word_is_name(reading, sentence, tokens[0])


def _lone_word_is_name(reading: Reading, sentence: Sentence, token: Token) -> bool:
    """One common word with a capital is no name."""
    low = token.low
    kind = words.word_class(low)
    if low in english()["heading"]:
        return False
    if low in english()["given"] and low not in reading.lower:
        return True
    if _spelt_out(token) and not is_shouting(sentence):
        return not kind or (len(low) < 5 and low not in reading.lower and kind != "M")
    if low in reading.lower and (kind or singular(low) in reading.lower):
        return False
    if not kind:
        if low in english()["adverb"]:
            return False
        stem = singular(low)
        if is_known(low) or low in reading.lower:
            return False
        return not (stem != low and words.score(stem) >= FREQUENT)
    return kind in ("N", "n") and words.score(low) < FREQUENT


# --- quoted titles -------------------------------------------------------------------------------

_QUOTES = re.compile(
    r"“([^“”\n]{1,100})”|«\s?([^«»\n]{1,100})\s?»|``([^`'\n]{1,100})''|\"([^\"\n]{1,100})\""
    r"|(?<![*\w])\*(?![*\s])([^*\n]{1,80})(?<!\s)\*(?![*\w])|(?<![_\w])_(?![_\s])([^_]{1,80})(?<!\s)_(?![_\w])"
)
MAX_TITLE_WORDS = 8


def quoted(text: str) -> Iterator[tuple[int, int]]:
    """Stretches in quotes or emphasis that are written like titles."""
    for match in _QUOTES.finditer(text):
        group = match.lastindex or 0
        start, end = match.span(group)
        inner = match.group(group)
        start += len(inner) - len(inner.lstrip())
        end -= len(inner) - len(inner.rstrip())
        if _is_title(text[start:end]):
            yield start, end


def _is_title(inner: str) -> bool:
    parts = inner.split()
    if (
        not parts
        or len(parts) > MAX_TITLE_WORDS
        or inner[-1] in ",.!?;:-"
        or not inner[0].isupper()
    ):
        return False
    return sum(part[0].isupper() or part[0].isdigit() for part in parts) >= len(parts) / 2
