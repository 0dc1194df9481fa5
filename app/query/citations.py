"""Citations that are checked: every mark of an answer resolves to a span of a source, or goes.

Marks are `[1]`, `[1][2]`, `[1, 2]`, `[1-3]`, also in full-width brackets; in the checked answer
they all read `[1][2]`. The quote of a mark is the verbatim slice of the source that best supports
the sentence before the mark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.domain import Citation, Source
from app.terms import terms

_NUMBER = r"#?[0-9]{1,4}"
MARK = re.compile(
    r"(?P<lead>[ \t]*)[\[【［〔]\s*"
    r"(?:(?:sources?|chunks?|passages?|documents?|docs?|refs?)\s*:?\s*|\^)?"
    rf"(?P<numbers>{_NUMBER}(?:\s*(?:[,;，、;&]|[-–—]|and)\s*{_NUMBER})*)"
    r"\s*(?:†[^\]】］〕]*)?[\]】］〕]",
    re.IGNORECASE,
)
UNFINISHED = re.compile(r"[ \t]*(?:[\[【［〔][^\]】］〕\n]{0,48})?$")
SENTENCE = re.compile(r"(?:[.!?…]+[\"”'’)\]]*(?=\s)|[。！？]+[」』”]*|\n)\s*")
NOT_AN_END = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|No|vs|ca|e\.g|i\.e|approx|Gen|Col|Prof|Mt|fig|al)|\b[A-Z])\.\s*$"
)
WRAPPED = 45  # characters; a shorter line ended for a reason of its own
ITEM = re.compile(r"[-*•#>|]|[0-9]+[.)]\s|[\w .'-]{1,30}:\s")
_BEHIND = re.compile(r"([.!?…。！？][\"”'’)」』]*)((?:[ \t]*\[[0-9]+\])+)")  # marks after the stop
MOST_RANGE = 20
QUOTE = 600  # characters
CONTEXT = 12  # characters before a bracket that show that it belongs to quoted text
MIN_CLAIM_WORDS = 4


class Sentence(NamedTuple):
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Checked:
    """`dropped` are marks that resolved to nothing, `unsourced` sentences without any mark."""

    text: str
    citations: tuple[Citation, ...]
    dropped: tuple[str, ...]
    unsourced: tuple[str, ...]


def check(answer: str, sources: Sequence[Source]) -> Checked:
    by_number = {source.number: source for source in sources}
    dropped: list[str] = []
    text = resolved(answer, by_number, dropped=dropped).strip()
    citations: dict[tuple[int, int, int], Citation] = {}
    for mark in _marks(text, by_number):
        claim = _claim(text[: mark.start()])
        for number in _numbers(mark["numbers"]):
            citation = _citation(claim, by_number[number])
            citations.setdefault((number, citation.start, citation.end), citation)
    return Checked(text, tuple(citations.values()), tuple(dropped), tuple(_unsourced(text)))


def resolved(
    text: str, sources: Mapping[int, Source], *, before: str = "", dropped: list[str] | None = None
) -> str:
    """The text with each mark rewritten as `[n]`s of existing sources, or removed. `before` is what
    was written earlier; brackets that are part of text quoted from a source stay as they are."""

    def rewrite(match: re.Match[str]) -> str:
        if _is_quoted(before + text, len(before) + match.start(), match[0], sources):
            return match[0]
        numbers = [number for number in _numbers(match["numbers"]) if number in sources]
        if dropped is not None and len(numbers) < len(_numbers(match["numbers"])):
            dropped.append(match[0].strip())
        if not numbers:
            return ""
        return match["lead"] + "".join(f"[{number}]" for number in numbers)

    return MARK.sub(rewrite, text)


class Stream:
    """Pieces of an answer as they come, marks resolved; what may be an unfinished mark waits."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._waiting = ""
        self._before = ""

    def feed(self, piece: str) -> str:
        self._waiting += piece
        unfinished = UNFINISHED.search(self._waiting)
        cut = unfinished.start() if unfinished else len(self._waiting)
        return self._release(cut)

    def end(self) -> str:
        return self._release(len(self._waiting)).rstrip()

    def _release(self, cut: int) -> str:
        ready, self._waiting = self._waiting[:cut], self._waiting[cut:]
        text = resolved(ready, self._sources, before=self._before)
        self._before = (self._before + ready)[-CONTEXT:]
        return text


# --- marks ---------------------------------------------------------------------------------------


def _marks(text: str, sources: Mapping[int, Source]) -> Iterator[re.Match[str]]:
    for match in MARK.finditer(text):
        numbers = _numbers(match["numbers"])
        if all(n in sources for n in numbers) and not _is_quoted(
            text, match.start(), match[0], sources
        ):
            yield match


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in re.split(r"[,;，、&]|and", text, flags=re.IGNORECASE):
        ends = [int(number) for number in re.findall(r"[0-9]+", part)]
        first, last = ends[0], ends[-1]
        numbers += range(first, last + 1) if 0 <= last - first < MOST_RANGE else ends
    return list(dict.fromkeys(numbers))


def _is_quoted(text: str, start: int, mark: str, sources: Mapping[int, Source]) -> bool:
    """'see [3]' copied out of a document is no mark of ours."""
    copied = text[max(0, start - CONTEXT) : start] + mark
    return len(copied) > len(mark) and any(copied in one.chunk.text for one in sources.values())


# --- claims and quotes ---------------------------------------------------------------------------


def _claim(before: str) -> str:
    """The sentence that ends at the end of the text, without marks."""
    plain = MARK.sub("", before).rstrip()
    last = [sentence for sentence in sentences(plain) if sentence.text.strip()][-1:]
    return last[0].text.strip().lstrip("-*•> ") if last else ""


def _citation(claim: str, source: Source) -> Citation:
    start, end, score = best_quote(claim, source.chunk.text)
    chunk = source.chunk
    return Citation(
        source.number, chunk.document_id, source.document_name, chunk.id, chunk.page,
        chunk.start + start, chunk.start + end, chunk.text[start:end], round(score, 4),
    )  # fmt: skip


def best_quote(claim: str, text: str) -> tuple[int, int, float]:
    """Start and end of the slice of the text that supports the claim best, and the share of the
    claim's terms, rare ones counting more, that it holds; 1 if the claim quotes it."""
    candidates = [one for one in sentences(text) if one.text.strip()]
    if claim and (exact := _exact(claim, text)):
        return (*_whole(exact, candidates, text), 1.0)
    if not candidates:
        return 0, min(len(text), QUOTE), 0.0
    bags = [set(terms(one.text)) for one in candidates]
    common = Counter(term for bag in bags for term in bag)
    wanted = set(terms(claim))
    whole = sum(1 / common.get(term, 1) for term in wanted) or 1.0
    scores = [sum(1 / common[term] for term in wanted & bag) / whole for bag in bags]
    best = max(range(len(scores)), key=lambda i: (scores[i], -i))
    start, end = _trimmed(text, candidates[best].start, candidates[best].end)
    return start, min(end, start + QUOTE), min(scores[best], 1.0)


def _exact(claim: str, text: str) -> tuple[int, int] | None:
    pattern = r"\s+".join(re.escape(word) for word in claim.split())
    match = re.search(pattern, text)
    return match.span() if match else None


def _whole(span: tuple[int, int], parts: Sequence[Sentence], text: str) -> tuple[int, int]:
    """The sentences that a quoted part belongs to, unless they are too long."""
    start = max((part.start for part in parts if part.start <= span[0]), default=span[0])
    end = min((part.end for part in parts if part.end >= span[1]), default=span[1])
    return _trimmed(text, start, end) if end - start <= QUOTE else span


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


def sentences(text: str) -> list[Sentence]:
    """Consecutive sentences; line ends separate too, but for those of hard-wrapped prose."""
    found: list[Sentence] = []
    start = 0
    for match in SENTENCE.finditer(text):
        if "\n" not in match[0] and NOT_AN_END.search(text[start : match.end()]):
            continue
        if match[0].count("\n") == 1 and not match[0].strip() and _is_wrap(text, match):
            continue
        found.append(Sentence(start, match.end(), text[start : match.end()]))
        start = match.end()
    if start < len(text):
        found.append(Sentence(start, len(text), text[start:]))
    return found


def _is_wrap(text: str, line_end: re.Match[str]) -> bool:
    """Whether a lone line end was put into running prose to keep its lines short: the line before
    is long, and the next one begins neither an item, nor a row, nor somebody's turn."""
    line = text[text.rfind("\n", 0, line_end.start()) + 1 : line_end.start()]
    return len(line) >= WRAPPED and " | " not in line and not ITEM.match(text, line_end.end())


def _unsourced(text: str) -> list[str]:
    """Sentences that neither hold a mark nor are followed by one. Headings, lead-ins and list
    heads claim nothing."""
    found = []
    for sentence in sentences(_BEHIND.sub(r"\2\1", text)):
        words = sentence.text.strip()
        plain = words.strip("#*- ")
        claims = not words.startswith("#") and not plain.endswith((":", "："))
        unspaced = len(plain) > 12 and not plain.isascii()
        if (
            claims
            and not MARK.search(words)
            and (len(plain.split()) >= MIN_CLAIM_WORDS or unspaced)
        ):
            found.append(plain)
    return found
