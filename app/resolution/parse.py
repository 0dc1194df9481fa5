"""A name taken apart once: its words, core, numbers, qualifier and script."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from app.names import abbreviates, key
from app.resolution import numbers
from app.resolution.lists import impersonal, legal_phrases, simplify, states, words, world
from app.words import is_stop_word

_CJ = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CJ_RUN = re.compile(f"[{_CJ}]+")
_WORD = re.compile(
    r"(?:[^\W\d_]\.){2,}(?:[^\W\d_](?![^\W_]))?"
    r"|[^\W_]+(?:(?:(?<=\d)[.,](?=\w)|(?<=\w)[.,](?=\d)|'(?=\w))[^\W_]+)*(?:[%°#]|\+\+)?"
)
_APOSTROPHES = dict.fromkeys(map(ord, "’‘ʼ′`´＇"), "'")
_BRACKET = re.compile(r"\s*[(\[]([^()\[\]]+)[)\]]$")
_CAMEL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")
_TAIL = re.compile(r", +(?=[^\W\d_])")
_CAPITALS = re.compile(r"[A-Z]{2,5}")


class _Token(NamedTuple):
    written: str
    folded: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A form taken apart.

    `tokens`: folded words without the qualifier; `core`: the words that count, stemmed, numbers
    canonical, the qualifier's last; `head`: the core without the qualifier; `aliases`: keys that a
    bracket states for it.
    """

    key: str
    base: str
    tokens: tuple[str, ...]
    core: tuple[str, ...]
    cores: frozenset[str]
    head: tuple[str, ...]
    qualifier: frozenset[str]
    aliases: frozenset[str]
    joined: str
    numbers: tuple[str, ...]
    plain_numbers: bool
    letters: frozenset[str]
    script: str
    capitalised: bool
    comma: bool
    legal: bool
    front: str  # what was left off in front: a title, or the head of `City of X`
    possessive: bool
    conjunction: bool
    world: int  # number of the thing that the whole world calls so; -1 for any other name

    @property
    def short(self) -> bool:
        """One token that may be an acronym."""
        return len(self.tokens) == 1 and 2 <= len(self.joined) <= 7 and self.base[-1:] != "."

    @property
    def weight(self) -> int:
        """Core tokens; a character of a script without spaces is one."""
        return len(self.joined) if self.script == "cj" else len(self.core)


@lru_cache(maxsize=1 << 16)
def parse(form: str) -> Parsed:
    """The parts of a form; total, for any text."""
    text = form if form.isascii() else unicodedata.normalize("NFKC", form.translate(_APOSTROPHES))
    base, aliases, bracket = _bracket(text.strip())
    comma = _TAIL.search(base)
    tail = ""
    if comma and "," not in base[comma.end() :] and not _lists(base, comma):
        tail = base[comma.end() :]
        if all(token.folded in words("legal") for token in _tokens(tail)):
            base, tail = f"{base[: comma.start()]} {tail}", ""
    named = base[: comma.start()] if comma and tail else base
    tokens = _tokens(named)
    head, legal, front = _core(tokens)
    tail_tokens = _tokens(tail) if tail else []
    tail_tokens = [_Token(written, _state(folded)) for written, folded in tail_tokens]
    extra = tail_tokens + (_tokens(bracket) if bracket else [])
    tail_core, tail_legal, _ = _core(extra) if extra else ((), False, "")
    core = head + tail_core
    joined = _joined(tokens)
    cj = bool(_CJ_RUN.search(base)) if not base.isascii() else False
    found = [token[1:] for token in core if token[0] == "#"]
    if cj:
        found += [number[1:] for number in numbers.chinese_numbers(base)]
    plain = any(number.isdecimal() for number in found)
    if plain:
        found += [f"m{n}" for token in tokens if (n := numbers.month(token.folded))]
    return Parsed(
        key=key(form),
        base=named,
        tokens=tuple(token.folded for token in tokens),
        core=core,
        cores=frozenset(core),
        head=head,
        qualifier=frozenset(tail_core),
        aliases=aliases,
        joined=joined,
        numbers=tuple(sorted(found)),
        plain_numbers=plain,
        letters=frozenset(t for t in core if len(t) == 1 and t.isalpha() and t < "\u0530"),
        script=_script(named, cj=cj),
        capitalised=_capitalised(tokens),
        comma=bool(comma),
        legal=legal or tail_legal,
        front=front,
        possessive=any(token.written[-2:] in ("'s", "'S") for token in tokens[:-1]),
        conjunction="&" in base or any(map(_joins, tokens)),
        world=world().get(key(form), -1),
    )


def stem(word: str) -> str:
    """An English plural's singular, as near as spelling tells; `testing` is `test`."""
    if len(word) < 4 or word[-1] != "s":
        return "test" if word == "testing" else word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word
    if word.endswith(("sses", "xes", "zzes", "ches", "shes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) else word[:-1]


def _bracket(text: str) -> tuple[str, frozenset[str], str]:
    """Name, keys of the aliases in the bracket, and a bracket that is a qualifier."""
    match = _BRACKET.search(text)
    if not match or not match.start():
        return text, frozenset(), ""
    head, inner = text[: match.start()], match.group(1).strip()
    if abbreviates(inner, head):
        return head, frozenset((key(inner),)), ""
    if abbreviates(head, inner):
        return inner, frozenset((key(head),)), ""
    return head, frozenset(), inner


def _state(code: str) -> str:
    """`il` as `illinois`; other words as they are."""
    return states().get(code, code)


def _lists(base: str, comma: re.Match[str]) -> bool:
    """Whether the comma is one of several or stands before a lower-case word."""
    after = base[comma.end()]
    return "," in base[: comma.start()] or after.islower()


def _tokens(text: str) -> list[_Token]:
    if not text.isascii():
        text = _CJ_RUN.sub(lambda match: f" {match.group()} ", text)
    elif " " not in text:
        parts = _CAMEL.split(text)
        if len(parts) > 1 and min(map(len, parts)) > 2 and text.isalpha():
            text = " ".join(parts)
    found = []
    for word in _WORD.findall(text):
        if word.isascii():
            folded = word.lower()
            if "." in folded and not any(char.isdigit() for char in folded):
                folded = folded.replace(".", "")
            if "'" in folded:
                folded = folded[:-2] if folded.endswith("'s") else folded.replace("'", "")
        elif "\u3040" <= word[0] <= "\u9fff":
            folded = simplify(word)
        else:
            folded = key(word).lstrip("^").replace(" ", "")
        if folded:
            found.append(_Token(word, folded))
    return found


def _core(tokens: list[_Token]) -> tuple[tuple[str, ...], bool, str]:
    """Tokens that count, whether a legal form was left off, and what was in front of them."""
    kept, legal = _without_legal(tokens)
    kept, front = _without_front(kept)
    capitals = len(tokens) > 1 and all(token.written.isupper() for token in tokens)
    found: list[str] = []
    skip = False
    glue = words("glue")
    for place, (written, folded) in enumerate(kept):
        if skip:
            skip = False
            continue
        if place + 1 < len(kept) and (pair := numbers.compound(folded, kept[place + 1].folded)):
            found.append(pair)
            skip = True
            continue
        number = numbers.numeral(folded, written, first=place == 0)
        if number:
            found += number
        elif folded not in glue or (len(folded) == 1 and written.isupper()):
            acronym = not capitals and _CAPITALS.fullmatch(written)
            found.append(folded if acronym else stem(folded))
    if not found:
        found = [token.folded for token in kept]
    return tuple(found), legal, front


def _without_legal(tokens: list[_Token]) -> tuple[list[_Token], bool]:
    kept, legal = _without_phrase(tokens)
    forms = words("legal")
    while len(kept) > 1:
        if kept[-1].folded in forms and (legal or kept[-1].folded != "company"):
            kept = kept[:-1]
        elif kept[0].folded in forms and kept[0].written.isupper() and kept[0].folded != "company":
            kept = kept[1:]
        else:
            break
        legal = True
    return kept, legal


def _without_phrase(tokens: list[_Token]) -> tuple[list[_Token], bool]:
    for phrase in legal_phrases() if len(tokens) > 2 else ():
        size = len(phrase)
        if len(tokens) > size:
            if tuple(token.folded for token in tokens[:size]) == phrase:
                return tokens[size:], True
            if tuple(token.folded for token in tokens[-size:]) == phrase:
                return tokens[:-size], True
    return tokens, False


def _without_front(tokens: list[_Token]) -> tuple[list[_Token], str]:
    """Without leading titles, or without `Republic of`; and what that was."""
    kept, front = tokens, ""
    if len(kept) > 1 and kept[0].folded == "the":
        kept = kept[1:]
    if len(kept) > 2 and kept[0].folded in words("heads"):
        if kept[1].folded in ("of", "de") and kept[2].folded != "the":
            return kept[2:], kept[0].folded
        return kept, ""
    if any(token.folded in impersonal() or _is_filler(token.folded) for token in kept):
        return kept, ""
    while len(kept) > 1 and kept[0].folded in words("titles"):
        if kept[1].folded in ("of", "the", "and"):
            break
        kept, front = kept[1:], kept[0].folded
    return kept, front


def _is_filler(word: str) -> bool:
    """`at`, `for`: not in names of persons."""
    return is_stop_word(word) and word not in words("glue") and len(word) > 1


def _joins(token: _Token) -> bool:
    """`and` and its like; of one letter only in lower case (not the E of `Vitamin E`)."""
    return token.folded in words("conjunctions") and (
        len(token.folded) > 1 or token.written.islower()
    )


def _joined(tokens: list[_Token]) -> str:
    """All letters and digits in one; two numbers side by side stay two."""
    text = ""
    for _, folded in tokens:
        text += f".{folded}" if text and text[-1].isdigit() and folded[0].isdigit() else folded
    return text


def _script(text: str, *, cj: bool) -> str:
    if text.isascii():
        return "latin"
    if cj:
        return "cj"
    for char in text:
        if char.isalpha():
            if char < "\u0370" or "\u1e00" <= char < "\u1f00":
                continue
            return unicodedata.name(char, "other").split()[0].lower()
    return "latin"


def _capitalised(tokens: list[_Token]) -> bool:
    """Two to five words in capitals, particles aside: perhaps a person's name."""
    if not 2 <= len(tokens) <= 6:
        return False
    things, roles, glue = impersonal(), words("roles"), words("glue")
    for written, folded in tokens:
        if folded in things or folded in roles or stem(folded) in roles:
            return False
        if folded in ("of", "the", "and") or any(char.isdigit() for char in folded):
            return False
        if not written[0].isupper() and folded not in glue and folded not in ("bin", "ibn", "van"):
            return False
    return True
