"""Under which keys a name is looked for: names that share none are never compared.

A name has at most 40 blocks, however many names a workspace holds. A block is a letter for its
class, a colon and what the names share:

strong: `n` normal key (its own and those of stated aliases), `k` the thing the whole world calls
so, `s` core words in order of the alphabet, `j` all letters in one;
weak: `a` letters of an acronym, `p` first initial and last word, `t` a core word, `e` the first or
last five letters of a single word, `b` two Chinese or Japanese characters, `c` ends of a Chinese
abbreviation.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.resolution import chinese
from app.resolution.model import Name, coarse
from app.resolution.parse import Parsed, parse
from app.words import is_stop_word

SATURATED = 64  # names; a block of more is too common to say anything
MAX_ALIASES = 8
_MAX_WORDS = 10
_MAX_BIGRAMS = 13


@dataclass(frozen=True, slots=True)
class Blocks:
    """`strong`: names that share one are nearly equal. `weak`: they may be. Either is looked up
    only while no more than `SATURATED` names have it."""

    strong: tuple[str, ...]
    weak: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return self.strong + self.weak


def blocks(name: Name) -> Blocks:
    """The blocks of a name; a pure function of its form, key and aliases."""
    parsed = parse(name.form)
    aliases = sorted({parse(alias).key for alias in name.aliases} | parsed.aliases)
    strong = [f"n:{name.key}", *(f"n:{key}" for key in aliases[:MAX_ALIASES])]
    if parsed.world >= 0:
        strong.append(f"k:{parsed.world}")
    if parsed.core:
        strong.append("s:" + " ".join(sorted(parsed.cores)))
    if parsed.joined:
        strong.append("j:" + parsed.joined)
    weak = _characters(parsed) if parsed.script == "cj" else _words(parsed, coarse(name.kind))
    return Blocks(tuple(dict.fromkeys(strong)), tuple(dict.fromkeys(weak)))


def _words(parsed: Parsed, kind: str) -> list[str]:
    found = _acronyms(parsed, least=3 if kind == "person" else 2)
    if 2 <= len(parsed.core) <= 5 and parsed.core[0][0].isalpha():
        found.append(f"p:{parsed.core[0][0]} {(parsed.head or parsed.core)[-1]}")
    found += [f"t:{word}" for word in parsed.core[:_MAX_WORDS] if len(word) > 2]
    letters = parsed.joined
    if len(letters) >= 6 and len(parsed.core) == 1:
        found += [f"e:{letters[:5]}-", f"e:-{letters[-5:]}"]
    return found


def _acronyms(parsed: Parsed, *, least: int) -> list[str]:
    """The letters of a short name; the initials of a long one, with and without stop words. Half
    of all people share two initials with another: those of persons find nothing."""
    if parsed.short:
        letters = parsed.joined
        capitals = sum(char.isupper() for char in parsed.base)
        if capitals < 2:
            return []
        return [f"a:{letters}", *([f"a:{letters[:-1]}"] if parsed.base.endswith("s") else [])]
    whole = "".join(token[0] for token in parsed.tokens)
    content = "".join(token[0] for token in parsed.tokens if not is_stop_word(token))
    return [f"a:{letters}" for letters in (whole, content) if least <= len(letters) <= 7]


def _characters(parsed: Parsed) -> list[str]:
    text = parsed.joined
    found = [f"b:{pair}" for pair in chinese.bigrams(text, _MAX_BIGRAMS)]
    if 2 <= len(text) <= chinese.MAX_SHORT:
        found.append(f"c:{text[0]}{text[-1]}")
    if len(text) >= 4:
        found += [
            f"c:{text[start]}{last}"
            for start in chinese.starts(text)
            for last in dict.fromkeys(text[-4:])
        ]
    found += [f"t:{token}" for token in parsed.core if len(parsed.core) > 1 and len(token) > 1]
    if len(parsed.core) == 1 and len(text) <= 6:
        found.append(f"t:{text}")
    return found
