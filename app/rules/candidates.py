"""Candidate entities of a chunk: names, titles, quotes, acronyms, rows, speakers and terms."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter

from app import words
from app.names import key
from app.rules.acronyms import pairs
from app.rules.foreign import foreign_kind, foreign_runs, foreign_terms
from app.rules.lexicon import english
from app.rules.noun_phrases import FILL_FLOOR, FLOOR, Term, limit, terms
from app.rules.proper_names import MAX_CHARACTERS, name_of, quoted, runs
from app.rules.reading import Found, Reading, Spot, is_shouting
from app.rules.tables import is_text, spoken_name
from app.rules.tokens import sentences

_EXTENSION = re.compile(r"\.\w{1,5}$")
_BRACKET = re.compile(r"\s*\(([^()]+)\)$")
_CERTAIN = frozenset({"title", "acronym", "quote", "row", "speaker"})
MAX_CELL_WORDS = 9
SHORT_CHUNK = 300  # words; a shorter chunk is about its document's title


class Gathering:
    """Candidates by key while a chunk is read; `taken` are the tokens that belong to them."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.found: dict[str, Found] = {}
        self.taken: list[set[int]] = [set() for _ in reading.sentences]

    def add(self, name: str, origin: str, spot: Spot | None, *aliases: str) -> Found:
        entry = self.found.setdefault(key(name), Found(name, origin))
        if origin in _CERTAIN and entry.origin not in _CERTAIN:
            entry.origin = origin
        if spot:
            entry.spots.append(spot)
            self.taken[spot.sentence].update(range(spot.first, spot.last))
        entry.aliases += [alias for alias in aliases if alias not in entry.aliases]
        return entry


def gather(reading: Reading) -> list[Found]:
    """Names of the chunk (capped) and its best terms."""
    gathering = Gathering(reading)
    kept = _capped(_names(gathering), reading.size)
    return kept + _best_terms(gathering, kept)


def names_of(reading: Reading) -> list[Found]:
    """Names, quotes and acronyms in the order of the text."""
    names = _names(Gathering(reading))
    return sorted(names, key=lambda entry: (min(entry.spots, default=Spot(0, 0, 0)), entry.name))


def _names(gathering: Gathering) -> list[Found]:
    _add_rows_and_speakers(gathering)
    _add_title(gathering)
    shorts = _add_acronyms(gathering)
    _add_quotes(gathering)
    _add_runs(gathering)
    _merge_acronyms(gathering, shorts)
    _merge_plurals(gathering)
    return _merge_short_names(gathering)


# --- names ---------------------------------------------------------------------------------------


def _add_rows_and_speakers(gathering: Gathering) -> None:
    for index, sentence in enumerate(gathering.reading.sentences):
        if sentence.cells:  # names of columns are no entities of the row
            gathering.taken[index].update(range(len(sentence.tokens)))
        for cell in sentence.cells:
            _add_cell(gathering, index, cell)
        if sentence.speaker:
            name = spoken_name(sentence.speaker)
            aliases = [sentence.speaker] if name != sentence.speaker else []
            width = len(sentence.speaker.split())
            entry = gathering.add(name, "speaker", Spot(index, 0, width), *aliases)
            entry.cues["person"] += 4


def _add_cell(gathering: Gathering, index: int, cell: tuple[str, int, int]) -> None:
    """A short text cell is an entity, its column may say of which kind; longer ones are prose."""
    header, first, last = cell
    reading = gathering.reading
    tokens = reading.sentences[index].tokens[first:last]
    if len(tokens) > MAX_CELL_WORDS:
        gathering.taken[index].difference_update(range(first, last))
        return
    span = reading.text[tokens[0].start : tokens[-1].end]
    if span.count("(") > span.count(")"):
        span += ")"
    if len(span) > MAX_CHARACTERS or not is_text(span):
        return
    entry = gathering.add(" ".join(span.split()), "row", Spot(index, first, last))
    for word in header.lower().split():
        kind = kind_of_word(word, reading.language)
        if kind:
            entry.cues[kind] += 3


def _add_acronyms(gathering: Gathering) -> dict[str, str]:
    """Long forms as entities; the result maps the key of a short form to that of its long form."""
    shorts: dict[str, str] = {}
    text = gathering.reading.text
    for index, sentence in enumerate(gathering.reading.sentences):
        for pair in pairs(sentence.tokens):
            if gathering.taken[index].intersection(range(pair.first, pair.last)):
                continue
            long = name_of(text, sentence.tokens[pair.first : pair.last])
            short = sentence.tokens[pair.short].text
            if key(long) == key(short) or len(long) > MAX_CHARACTERS + 20:
                continue
            entry = gathering.add(long, "acronym", Spot(index, pair.first, pair.last), short)
            entry.spots.append(Spot(index, pair.short, pair.short + 1))
            gathering.taken[index].add(pair.short)
            shorts.setdefault(key(short), key(long))
    return shorts


def _add_quotes(gathering: Gathering) -> None:
    reading = gathering.reading
    starts = [sentence.start for sentence in reading.sentences]
    for start, end in quoted(reading.text):
        index = bisect_left(starts, start + 1) - 1
        if index < 0:
            continue
        tokens = reading.sentences[index].tokens
        inside = [n for n, token in enumerate(tokens) if start <= token.start and token.end <= end]
        if not inside or gathering.taken[index].intersection(inside):
            continue
        if len(inside) == 1 and words.is_stop_word(tokens[inside[0]].low):
            continue
        spot = Spot(index, inside[0], inside[-1] + 1)
        name = " ".join(reading.text[start:end].split())
        gathering.add(name, "quote", spot).cues["work"] += 2


def _add_runs(gathering: Gathering) -> None:
    reading = gathering.reading
    for index, sentence in enumerate(reading.sentences):
        shouting = is_shouting(sentence)
        blocked = frozenset(gathering.taken[index])
        find = runs if reading.language == "en" else foreign_runs
        for run in find(reading, sentence, blocked):
            tokens = sentence.tokens[run.first : run.last]
            name = name_of(reading.text, tokens, shouting=shouting)
            entry = gathering.add(name, "name", Spot(index, run.first, run.last))
            for kind, points in run.cues:
                entry.cues[kind] += points


def _merge_acronyms(gathering: Gathering, shorts: dict[str, str]) -> None:
    for short, long in shorts.items():
        entry = gathering.found.get(short)
        if entry and short != long and entry.origin == "name":
            _merge(gathering, short, long, entry.name)


def _merge(gathering: Gathering, source: str, target: str, alias: str) -> None:
    entry, into = gathering.found.pop(source), gathering.found[target]
    into.spots = sorted({*into.spots, *entry.spots})
    for kind, points in entry.cues.items():
        into.cues[kind] += points
    for other in (alias, *entry.aliases):
        if other not in into.aliases and other != into.name:
            into.aliases.append(other)


# --- title and short names -----------------------------------------------------------------------


def title_name(title: str) -> tuple[str, str]:
    """The name in a title and the qualifier in its bracket; empty where it looks like none."""
    title = " ".join(title.split())
    if not title or _EXTENSION.search(title) or "_" in title or len(title) > MAX_CHARACTERS:
        return "", ""
    bracket = _BRACKET.search(title)
    name = title[: bracket.start()] if bracket else title
    if not name or len(name.split()) > 9 or not any(char.isalpha() for char in name):
        return "", ""
    if name.isascii() and name == name.lower():  # the stem of a file name, or lower-case prose
        return "", ""
    return name, bracket.group(1) if bracket else ""


def _add_title(gathering: Gathering) -> None:
    reading = gathering.reading
    name, qualifier = title_name(reading.title)
    if not name:
        return
    wanted = {w for w in re.findall(r"\w+", name.lower()) if not words.is_stop_word(w)}
    if reading.size > SHORT_CHUNK:
        present = {token.low for sentence in reading.sentences for token in sentence.tokens}
        enough = len(wanted) if len(wanted) < 3 else (len(wanted) + 1) // 2
        if len(wanted & present) < enough or not wanted:
            return
    entry = gathering.add(name, "title", None)
    for spot in _occurrences(reading, name):
        gathering.add(name, "title", spot)
    if qualifier:
        entry.aliases.append(" ".join(reading.title.split()))
        for word in qualifier.lower().split():
            kind = kind_of_word(word, reading.language)
            if kind:
                entry.cues[kind] += 4


def _occurrences(reading: Reading, name: str) -> list[Spot]:
    """Where the text has the words of the name, with a capital if the name has one."""
    wanted = [token.low for sentence in sentences(name) for token in sentence.tokens]
    found: list[Spot] = []
    for index, sentence in enumerate(reading.sentences if wanted else ()):
        tokens = sentence.tokens
        for first in range(len(tokens) - len(wanted) + 1):
            if tokens[first].low != wanted[0] or (name[0].isupper() and not tokens[first].cap):
                continue
            if [token.low for token in tokens[first : first + len(wanted)]] == wanted:
                found.append(Spot(index, first, first + len(wanted)))
    return found


def _merge_short_names(gathering: Gathering) -> list[Found]:
    """One-word names join the one longer name that ends (a person's: starts) with them."""
    found = gathering.found
    ends: dict[str, set[str]] = {}
    for longer, entry in found.items():
        parts = entry.name.split()
        if not 2 <= len(parts) <= 4 or entry.origin in ("quote", "row"):
            continue
        if parts[0].rstrip(".").lower() in english()["courtesy"]:
            continue
        for part in {parts[-1], parts[0]}:
            ends.setdefault(key(part), set()).add(longer)
    for short in sorted(found):
        if short not in found:
            continue  # joined as the longer name
        entry = found[short]
        if entry.origin not in ("name", "quote") or " " in entry.name or not entry.spots:
            continue
        candidates = ends.get(short, set()) & found.keys()
        if len(candidates) == 1 and not _stands_alone(gathering, entry):
            _join_names(gathering, short, next(iter(candidates)))
    return list(found.values())


def _merge_plurals(gathering: Gathering) -> None:
    """The Cratchits join Cratchit, where the chunk names both."""
    found = gathering.found
    for plural in sorted(found):
        singular_key = plural.removesuffix("s")
        if plural != singular_key and singular_key in found and found[plural].origin == "name":
            _merge(gathering, plural, singular_key, found[plural].name)


def _join_names(gathering: Gathering, short: str, long: str) -> None:
    found = gathering.found
    entry, into = found[short], found[long]
    first = into.name.split()[0]
    if entry.name == first and not _person_like(into):
        return
    if into.origin == "name" and len(entry.spots) > 3 * len(into.spots):
        if into.cues["person"] or words.word_class(first.lower()) == "J" or _is_given(first):
            _merge(gathering, long, short, into.name)
        return
    _merge(gathering, short, long, entry.name)


def _is_given(first: str) -> bool:
    return first.lower() in english()["given"]


def _person_like(entry: Found) -> bool:
    lists = english()
    barred = lists["organization"] | lists["place"] | lists["event"] | lists["work"]
    parts = entry.name.split()
    return 2 <= len(parts) <= 4 and not any(
        part.lower() in barred or part.islower() or part.isdigit() for part in parts
    )


def _stands_alone(gathering: Gathering, entry: Found) -> bool:
    """Whether a short name looks like a place or a word with a meaning of its own."""
    low = entry.name.lower()
    lists = english()
    if any(low in lists[kind] for kind in ("organization", "place", "event", "work", "opener")):
        return True
    if entry.name.isupper() and len(entry.name) > 1:
        return True
    before: Counter[str] = Counter()
    for spot in entry.spots:
        tokens = gathering.reading.sentences[spot.sentence].tokens
        if spot.first and tokens[spot.first].before == 0:
            before[tokens[spot.first - 1].low] += 1
    return before["in"] + before["near"] > 0


# --- limits --------------------------------------------------------------------------------------


def _capped(names: list[Found], size: int) -> list[Found]:
    order = sorted(
        names,
        key=lambda e: (e.origin not in _CERTAIN, -len(e.spots), e.words == 1, key(e.name)),
    )
    return order[: int(16 + 0.02 * size)]


def _best_terms(gathering: Gathering, names: list[Found]) -> list[Found]:
    reading = gathering.reading
    taken = [frozenset(places) for places in gathering.taken]
    ranked = (terms if reading.language == "en" else foreign_terms)(reading, taken)
    by_key = {key(entry.name): entry for entry in names}
    most = limit(reading.size)
    wanted = 2 + 0.012 * reading.size
    short = reading.size <= SHORT_CHUNK
    kept: list[Found] = []
    for term in ranked:
        few = len(names) + len(kept) < wanted and (short or len(term.spots) > 1)
        if len(kept) >= most or term.score < (FILL_FLOOR if few else FLOOR):
            if short or term.score < FILL_FLOOR:
                break
            continue
        known = by_key.get(key(term.name))
        if known:
            known.spots = sorted({*known.spots, *term.spots})
        else:
            kept.append(_found(term))
    return kept


def _found(term: Term) -> Found:
    forms = [form for form, _ in term.forms.most_common() if form != term.name]
    return Found(term.name, "term", list(term.spots), forms[:2], score=term.score)


def kind_of_word(word: str, language: str = "en") -> str:
    """Kind that a head word stands for, or ""."""
    if language not in ("en", "zh", "ja"):
        return foreign_kind(word, language)
    lists = english()
    for kind in ("person", "organization", "place", "event", "work", "method"):
        if word in lists[kind]:
            return "location" if kind == "place" else kind
    return ""
