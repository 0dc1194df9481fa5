"""What a chunk is about: its title or heading, else the subject of its first sentence.

The walk of `app.query.walk` trusts a passage about a name ten times more than one that mentions it.
Pure rules over (title, headings, text), so they belong to the extraction and are cached with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from app.domain import EntityMention, Extraction
from app.names import key
from app.words import word_sets

MAX_NAME_WORDS = 9
MAX_LOWER_WORDS = 7  # in text that has no capital at all
MAX_TERM_WORDS = 4  # "An actor or actress is"
SHORT_SENTENCE = 60  # characters; a shorter first sentence is read with the second
BRACKET_WITHIN = 120  # characters; "Name (1887 – 1957)" counts as a definition without a verb
HEAD = 1200  # characters of a chunk that can matter

NUMBERING = re.compile(
    r"^(?:(?:chapter|section|part|appendix|article|kapitel|chapitre|capítulo|teil|stave|book|slide"
    r"|sheet|page)\s+(?:[0-9]+|[ivxlc]+|one|two|three|four|five|six|seven|eight|nine|ten)\b"
    r"[.:)\s–—-]*|(?:[0-9]+\.)*[0-9]+[.)]?\s+|[IVXLC]+\.\s+"
    r"|第[0-9〇零一二三四五六七八九十百]+[回章节節卷部篇]\s*)",
    re.IGNORECASE,
)
CONVERTED = re.compile(r"^microsoft (?:word|powerpoint|excel) ?- ?", re.IGNORECASE)
TITLE_BRACKET = re.compile(r"^(.*\S)\s*[(（]([^()（）]+)[)）]$", re.DOTALL)

CJK = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
CJK_SUBJECT = re.compile(
    rf"(?=[A-Za-z0-9]{{0,6}}[{CJK}])([{CJK}A-Za-z0-9]{{2,14}}?)\s*"
    "(?=[（(]|是[^否]|とは|は、|，是|，又名|，又称)"
)
CJK_PRONOUNS = "他她它我你您这那此其该本某有在从当"

ENGLISH_VERB = re.compile(r"\s(?:is|was|are|were|refers to|means|has been)\b")
OTHER_VERB = re.compile(
    r"\s(?:ist|war|sind|waren|bezeichnet|est|était|sont|fut|es|era|fue|son|è|sono|é|foi|zijn)\b"
)
BREAK = re.compile(r"\s*[(\[（,;:\n]|\s[–—-]{1,2}\s")
BRACKET = re.compile(r"\s*[(\[（]([^)\]）]*)[)\]）]?")
QUOTED = re.compile(r"[\"“”„«»](?P<inner>[^\"“”„«»]{1,40})[\"“”„«»]|``(?P<tex>[^`']{1,40})''")
QUOTES = re.compile(r"[\"“”„«»]|``|''")
CAPITAL_RUN = (
    r"(?P<name>[A-Z0-9À-ÖØ-Þ][\w.'’&-]*"
    r"(?:\s+(?:(?:of|the|de|la|le|van|von|der|del|di|da|and|&|y|al|el|bin|ibn)\s+){0,2}"
    r"[A-Z0-9À-ÖØ-Þ][\w.'’&-]*){0,6})"
)
KNOWN_AS = re.compile(
    r"\b(?:known|styled|billed|credited|released|abbreviated|referred to)"
    r"(?:\s+\w+){0,3}?\s+(?:as|by|under)(?:\s+(?:his|her|their|its|the))?"
    r"(?:\s+(?:stage|pen|ring|professional)?\s*(?:name|names|title|mononym|moniker|pseudonym)"
    r"(?:\s+of)?)?\s+(?:the\s+)?[\"“`']*" + CAPITAL_RUN
)
CALLED = re.compile(
    r"\b(?:nicknamed|née|nee|né|a\.k\.a\.|aka|alias|abbreviated|stage name|pen name)"
    r"(?:\s+(?:is|was))?,?\s+(?:the\s+)?[\"“`']*" + CAPITAL_RUN
)
BORN = re.compile(r"\bborn(?:\s+as)?\s+[\"“`']*" + CAPITAL_RUN)
OR_NAME = re.compile(r"\bor\s+(?:the\s+)?[\"“`']*" + CAPITAL_RUN)
LIFE_DATES = re.compile(r"\bborn\b|\bdied\b|\b[0-9]{3,4}\s*[-–—]|\b(?:b|d|c)\.\s*[0-9]{3}")
COURTESY = re.compile(
    r"^(?:(?:(?:[A-Z][a-z]+-)?General|Sir|Dame|Lord|Lady|Dr|Prof|Professor|Rev|Reverend|Mr|Mrs|Ms|"
    r"Miss|Gen|Colonel|Col|Major|Maj|Captain|Capt|Lieutenant|Lt|Sergeant|Sgt|Admiral|Hon|"
    r"The Honourable|The Right Honourable|Right Reverend|Saint|St|Father|Sister|Brother|President|"
    r"Senator)\b\.?\s+)+"
)
GENERATION = re.compile(r",?\s(?:Jr|Sr|II|III|IV)\.?$")
ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|No|vs|ca?|b|d|e\.g|i\.e|approx|Inc|Ltd|Co|Corp|Gen|Col|Lt|Sgt|"
    r"Capt|Rev|Hon|Prof|Mt|Ft|est|fl|r)|\b[A-Z])\.$"
)
SENTENCE_END = re.compile(r"[.!?][\"”'’)\]]*(?=\s+[\"“'(\[]?[A-Z0-9À-ÖØ-Þ]|\s*$)|[。！？]|\n\s*\n")


@cache
def _words() -> Mapping[str, frozenset[str]]:
    sets = word_sets("app", "data/subjects.txt")
    return {name: frozenset(w.replace("_", " ") for w in words) for name, words in sets.items()}


@cache
def _occupation() -> re.Pattern[str]:
    """'is a … footballer'"""
    words = "|".join(sorted(_words()["occupation"]))
    return re.compile(
        rf"\b(?:is|was)\s+(?:an?|the)\s+(?:[\w'’,-]+\s+){{0,7}}?(?:\w*player|{words})\b"
    )


@dataclass(frozen=True, slots=True)
class Subjects:
    """Names of the things that a chunk is about, and further names of each. Those are aliases and
    no things of their own: the graph shows one node, and look-ups by alias find it."""

    about: tuple[str, ...] = ()
    aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()  # names with their aliases


def title_of(name: str, parsed_title: str) -> str:
    """Title of a document: its name, unless that is a file name; then what the parser found, else
    the stem. Names that come with JSON text are titles already."""
    if not _is_file_name(name):
        return name.strip()
    title = " ".join(CONVERTED.sub("", parsed_title).split())
    if _is_file_name(title):
        title = _stem(title)
    if title and title.casefold() not in _words()["generic-title"]:
        return title
    return _stem(name)


def naming_title(name: str, parsed_title: str) -> str:
    """The title if it can name what the document is about. The bare stem of a file name without a
    capital ("meeting-notes.txt") describes a file; "Emma.txt" and titles given as such name."""
    title = title_of(name, parsed_title)
    from_stem = _is_file_name(name) and title == _stem(name)
    return "" if from_stem and title == title.lower() and title.isascii() else title


def subjects(title: str, headings: Sequence[str], text: str) -> Subjects:
    """A usable title and innermost heading, else the subject of the first sentence; never both. Of
    a title that the text defines ("An actor or actress is …") the other terms are aliases."""
    heading = next((names for h in reversed(headings) if (names := _usable(h))), [])
    given = [names for names in (_usable(title), heading) if names]
    if not given:
        return _derived(text[:HEAD])
    aliases = {
        name: others
        for name, *shorter in given
        if (others := (*shorter, *_other_terms(name, text[:HEAD])))
    }
    return Subjects(_distinct(name for name, *_ in given), tuple(aliases.items()))


def about(extraction: Extraction, title: str, headings: Sequence[str], text: str) -> Extraction:
    """The extraction with the names that the chunk is about, and their aliases, added. What the
    extraction calls by another name, with this one as an alias, keeps that name."""
    found = subjects(title, headings, text)
    if not found.about:
        return extraction
    known = {key(alias): one.name for one in extraction.entities for alias in one.aliases}
    known |= {key(one.name): one.name for one in extraction.entities}
    called = {name: known.get(key(name), name) for name in found.about}
    entities = (
        *extraction.entities,
        *(EntityMention(called[name], "", "", aliases) for name, aliases in found.aliases),
    )
    names = _distinct([*extraction.about, *called.values()])
    return replace(extraction, entities=entities, about=names)


# --- titles and headings -------------------------------------------------------------------------


def _usable(title: str) -> list[str]:
    """The names in a title: itself, and without its bracket; nothing if it is no name."""
    name = " ".join(title.split())
    if _is_file_name(name):
        name = naming_title(name, "")
    name = NUMBERING.sub("", name).strip(" .:#*_-–—")
    if not _looks_like_name(name):
        return []
    match = TITLE_BRACKET.match(name)
    return [name, match[1]] if match and _looks_like_name(match[1]) else [name]


def _looks_like_name(name: str) -> bool:
    return (
        bool(re.search(r"[^\W\d_]", name))
        and "_" not in name
        and "://" not in name
        and len(name) <= 120
        and len(name.split()) <= MAX_NAME_WORDS
        and name.casefold() not in _words()["generic-title"]
        and not name.endswith(("?", "!", ";"))
    )


def _is_file_name(name: str) -> bool:
    ending = name.rstrip().rpartition(".")
    return bool(ending[0]) and ending[2].casefold() in _words()["file-ending"]


def _stem(name: str) -> str:
    """File names join words for want of blanks."""
    stem = re.split(r"[\\/]", name.strip())[-1].rpartition(".")[0]
    return stem if " " in stem else " ".join(re.split(r"[-_]+", stem)).strip()


# --- the first sentence --------------------------------------------------------------------------


def _derived(text: str) -> Subjects:
    text = text.strip()
    if match := CJK_SUBJECT.match(text):
        name = match[1]
        return Subjects((name,)) if name[0] not in CJK_PRONOUNS else Subjects()
    first, second, own = _opening(text)
    if terms := _terms(first):
        return Subjects(_distinct(terms))
    verb = ENGLISH_VERB.search(first) or OTHER_VERB.search(first)
    bracket = BRACKET.search(first)
    if not verb and not (bracket and bracket.start() <= BRACKET_WITHIN):
        return Subjects()
    stop = BREAK.search(first)
    ends = [m.start() for m in (stop, verb) if m]
    phrase = first[: min(ends)] if ends else ""
    name = _clean(phrase)
    if len(phrase) >= own or first[len(phrase) :].lstrip().startswith(":"):  # a greeting, a label
        return Subjects()
    if not _is_subject(name, has_capitals=text != text.lower()):
        return Subjects()
    return _with_aliases(name, phrase, first, second)


def _opening(text: str) -> tuple[str, str, int]:
    """The first sentence (with the second, if it is short), the one behind it, and the length of
    the first alone."""
    sentences = _sentences(text)
    first = next(sentences, "")
    own = len(first)
    if own < SHORT_SENTENCE:
        first = f"{first} {next(sentences, '')}".strip()
    return first, next(sentences, ""), own


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for match in SENTENCE_END.finditer(text):
        sentence = text[start : match.end()]
        if ABBREVIATION.search(sentence) and match.end() < len(text):
            continue
        if sentence.strip():
            yield sentence.strip()
        start = match.end()
    if text[start:].strip():
        yield text[start:].strip()


def _terms(sentence: str) -> list[str]:
    """'An actor or actress is …' is about both terms."""
    match = re.match(
        r"(?:A|An|a|an)\s+([^,.;:()\[\]]{2,60}?)\s*(?:\([^)]*\)\s*)?(?:,[^.;]{0,80})?,?"
        r"\s(?:is|was|are|refers to)\b",
        sentence,
    )
    if not match:
        return []
    terms = [term.strip() for term in re.split(r"\s+or\s+(?:an?\s+)?", match[1])]
    if any(not term or len(term.split()) > MAX_TERM_WORDS for term in terms):
        return []
    return [term.lower() if term[1:] == term[1:].lower() else term for term in terms]


def _other_terms(name: str, text: str) -> list[str]:
    found = _terms(_opening(text.strip())[0])
    wanted = key(name)
    if not any(key(term) == wanted for term in found):
        return []
    return [term for term in found if key(term) != wanted]


def _clean(phrase: str) -> str:
    return " ".join(QUOTES.sub(" ", phrase).split()).strip(" .'’*_#-")


def _is_subject(name: str, *, has_capitals: bool) -> bool:
    words = name.split()
    if not words or not re.search(r"[^\W\d_]", name):
        return False
    marked = [word for word in words if word[0].isupper() or any(c.isdigit() for c in word)]
    if has_capitals:
        if len(words) > MAX_NAME_WORDS or 2 * len(marked) < len(words):
            return False
    elif len(words) > MAX_LOWER_WORDS:
        return False
    if words[0].casefold() not in _words()["never-first"]:
        return True
    return len(words) >= 3 and all(word[0].isupper() for word in words)  # It Happened One Night


# --- aliases -------------------------------------------------------------------------------------


def _with_aliases(name: str, phrase: str, first: str, second: str) -> Subjects:
    after = first[len(phrase) :]
    bracket = BRACKET.match(after)
    is_person = bool((bracket and LIFE_DATES.search(bracket[1])) or _occupation().search(first))
    found = [*_joined(name, after), *_untitled(name), *_nicknames(phrase)]
    if is_person:
        for full in [name, *_untitled(name)][-1:]:
            found += _short_names(full)
    verb = ENGLISH_VERB.search(first)
    found += _named_elsewhere(f"{first} {second}", first[: verb.start()] if verb else "")
    aliases = tuple(alias for alias in _distinct(found) if key(alias) != key(name))
    return Subjects((name,), ((name, aliases),) if aliases else ())


def _joined(name: str, after: str) -> list[str]:
    """'Stone, Staffordshire' and 'Newton Wallop, 6th Earl of Portsmouth'."""
    match = re.match(r",\s+((?:[\w'’.-]+\s?){1,6})(?=[,(]|\s(?:is|was|are|were)\b)", after)
    if not match:
        return []
    words = match[1].split()
    marked = sum(word[0].isupper() or word[0].isdigit() for word in words)
    if not words[0][0].isupper() and not words[0][0].isdigit():
        return []
    return [f"{name}, {' '.join(words)}"] if 2 * marked >= len(words) else []


def _untitled(name: str) -> list[str]:
    bare = COURTESY.sub("", name)
    return [bare] if bare and bare != name else []


def _nicknames(phrase: str) -> list[str]:
    match = QUOTED.search(phrase)
    if not match or not phrase[: match.start()].strip():
        return []
    nickname = (match["inner"] or match["tex"]).strip()
    rest = _clean(phrase[: match.start()] + " " + phrase[match.end() :]).split()
    if len(rest) < 2:
        return []
    return [" ".join(rest), f"{nickname} {rest[-1]}"]


def _short_names(name: str) -> list[str]:
    words = GENERATION.sub("", name).split()
    if len(words) < 3 or not (words[0][0].isupper() and words[-1][0].isupper()):
        return []
    found = [f"{words[0]} {words[-1]}", " ".join(words[1:])]
    if len(words) > 3:
        found.append(f"{words[0]} {words[1]} {words[-1]}")
    return found


def _named_elsewhere(text: str, before_verb: str) -> list[str]:
    matches = [*KNOWN_AS.finditer(text), *CALLED.finditer(text), *BORN.finditer(text)]
    matches += OR_NAME.finditer(before_verb)
    names = (_clean(match["name"]) for match in matches)
    return [name for name in names if re.search(r"[^\W\d_]{2}", name) and not _is_date(name)]


def _is_date(name: str) -> bool:
    return bool(
        re.match(
            r"(?:[0-9]|c\b|on\b|in\b|(?:January|February|March|April|May|June|July|August|September|"
            r"October|November|December)\b)",
            name,
        )
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """One spelling per key, in order."""
    seen: dict[str, str] = {}
    for name in names:
        seen.setdefault(key(name), name)
    return tuple(seen.values())
