"""Headings of chapters in plain text, by the few patterns that nothing else is written in.

A heading is a short line between blank lines that names a part and its number ("STAVE ONE",
"CHAPTER IV. The Return", "第一回 …"). A bare one takes in its title: a second line before the next
blank one, or a line of capitals after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.parsing.layout import Heading

_LONGEST = 90  # characters of a heading's line
_TITLE = 60  # of a title on a line of its own

_UNITS = "one|two|three|four|five|six|seven|eight|nine"
_NUMBER = (
    rf"(?:\d{{1,3}}|[IVXLC]{{1,8}}|(?i:(?:twenty|thirty|forty|fifty)(?:[- ](?:{_UNITS}))?|{_UNITS}|"
    "ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|the (?:first|second|third|last)|"
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|"
    "premier|première|primero|primera|primo|prima|erstes|первая))"
)
# What parts of a work are called, as (level, names), in lower case.
_NAMES: tuple[tuple[int, str], ...] = (
    (1, "part book volume act teil buch band livre partie tome acte libro parte acto atto livro "
        "часть книга том część"),
    (2, "chapter stave canto letter lecture lesson kapitel chapitre chant lettre capítulo capitulo "
        "canto carta capitolo hoofdstuk глава kapitola rozdział"),
    (3, "scene section szene abschnitt scène escena sección scena sezione сцена"),
)  # fmt: skip
_LEVELS = {name: level for level, names in _NAMES for name in names.split()}
# The name is capitalised; a title on the same line is set off by a sign, or capitalised too.
_NAMED = re.compile(
    rf"(?P<name>[^\W\d_]{{3,10}}) {_NUMBER}"
    r"(?P<rest>[.:]?|(?:[.:]|[.:]? ?[-–—]{1,2}) ?(?P<title>\S.*)|[.:]? (?P<bare>[^\W_a-z].*))"
)
_NUMERAL = "[〇零一二三四五六七八九十百千两兩0-9０-９]{1,7}"
_EAST_LEVELS = dict.fromkeys("卷部編编篇集幕부편", 1) | dict.fromkeys("回章话話장화", 2)
_EAST_LEVELS |= dict.fromkeys("节節场場절", 3)
_EAST = re.compile(
    rf"[第제] ?(?:{_NUMERAL}) ?(?P<name>[{''.join(_EAST_LEVELS)}])"
    r"(?P<rest>(?:[\s:：、.．·—-]+(?P<title>\S.*))?)"
)
_ALONE = re.compile(
    r"(?:(?:PRO|EPI)LOGUE|(?:Pro|Epi)logue|PREFACE|Preface|FOREWORD|Foreword|AFTERWORD|Afterword|"
    r"INTRODUCTION|Introduction)\.?|[楔引]子|序[章言幕]?|前言|自序|尾[声聲]|[后後][记記]|終章|终章"
)
# Lines of a table of contents, and sentences that begin like a heading.
_NO_HEADING = re.compile(r"\.{3}|(?:\. )+\.|\s{3,}|\s{2}\d+$|[,;，。；！？”\"]$")


def chapters(text: str) -> Iterator[Heading]:
    """In the order of the text, which has line feeds as line ends."""
    bare: Heading | None = None  # waits for a title in the block behind it
    for start, lines in _blocks(text):
        if bare is not None:
            title = lines[0].strip()
            shouted = len(lines) == 1 and title.isupper() and len(title) <= _TITLE
            if shouted and _heading(start, lines) is None:
                yield _with(bare, title, start + len(lines[0].rstrip()))
                bare = None
                continue
            yield bare
        bare = _heading(start, lines)
        if bare is not None and not _is_bare(bare.text):
            yield bare
            bare = None
    if bare is not None:
        yield bare


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines that are not blank, with the offset where each begins."""
    offset = start = 0
    lines: list[str] = []
    for line in text.split("\n"):
        if line.strip():
            start = start if lines else offset
            lines.append(line)
        elif lines:
            yield start, lines
            lines = []
        offset += len(line) + 1
    if lines:
        yield start, lines


def _heading(start: int, lines: list[str]) -> Heading | None:
    first = lines[0].strip()
    if len(lines) > 2 or len(first) > _LONGEST or _NO_HEADING.search(first):
        return None
    level = _level(first)
    if not level:
        return None
    indent = len(lines[0]) - len(lines[0].lstrip())
    heading = Heading(
        start + indent, start + len(lines[0].rstrip()), level, " ".join(first.split())
    )
    if len(lines) == 1:
        return heading
    second = lines[1].strip()
    if not _is_bare(first) or len(second) > _TITLE or _NO_HEADING.search(second) or _level(second):
        return None
    return _with(heading, second, start + len(lines[0]) + 1 + len(lines[1].rstrip()))


def _with(heading: Heading, title: str, end: int) -> Heading:
    words = " ".join((heading.text, *title.split()))
    return Heading(heading.start, end, heading.level, words)


def _level(line: str) -> int:
    if _ALONE.fullmatch(line):
        return 2
    if found := _EAST.fullmatch(line):
        return _EAST_LEVELS[found["name"]]
    found = _NAMED.fullmatch(line)
    if found is None or not found["name"][0].isupper():
        return 0
    name = found["name"]
    return _LEVELS.get(name.lower(), 0) if name.isupper() or name[1:].islower() else 0


def _is_bare(line: str) -> bool:
    found = _EAST.fullmatch(line) or _NAMED.fullmatch(line)
    return found is not None and found["rest"] in ("", ".", ":")
