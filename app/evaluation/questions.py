"""Documents and questions to measure with, read from a folder of JSON Lines (docs/evaluate.md).

`corpus.jsonl[.gz]` (passages) or `documents.jsonl[.gz]` (whole documents), `questions.jsonl[.gz]`,
and `triples.jsonl[.gz]` where questions name triples. Every error says which file and line.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

from app.errors import Invalid

MAX_LINE = 64_000_000  # bytes; a file that is no JSON Lines must not be read as one line
CORPUS_FILES = ("corpus", "documents")
UNANSWERABLE = frozenset({"null", "unanswerable"})  # values of `type`

Row = Mapping[str, Any]
Triple = tuple[str, str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Passage:
    """A document to ingest. `title` is "" where it has none, or none is to be shown."""

    id: str
    title: str
    text: str


class Gold(NamedTuple):
    """One thing that is to be found: a document by its id or name, or the chunk with a quote."""

    by: Literal["id", "name", "quote"]
    value: str


@dataclass(frozen=True, slots=True)
class Case:
    """A question with what is known of a good result; each part may be missing.

    `answers`: any of them is right. `unanswerable`: the documents do not tell. `kind`: a group that
    reports may tell apart."""

    id: str
    question: str
    gold: tuple[Gold, ...] = ()
    answers: tuple[str, ...] = ()
    unanswerable: bool = False
    evidence: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """What one evaluation works on; `passages` are empty where the documents are known already."""

    name: str
    passages: tuple[Passage, ...]
    cases: tuple[Case, ...]
    triples: Mapping[str, Triple] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Of the passages: equal for equal corpora, whatever the order of the lines."""
        lines = sorted(json.dumps([one.id, one.title, one.text]) for one in self.passages)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_folder(
    folder: Path, *, questions: Path | None = None, titles: bool = True, lower: bool = False,
    only: str = "", limit: int | None = None,
) -> QuestionSet:  # fmt: skip
    """The set in a folder. `questions`: another folder that holds them. `titles` False leaves
    titles out, `lower` asks in lower case, `only` keeps passages whose field of that name is true,
    `limit` the first questions. Raises `Invalid`."""
    passages = read_corpus(folder, titles=titles, only=only)
    asked = questions or folder
    path = _file(asked, "questions")
    if path is None:
        raise Invalid(f"{_shown(asked)} has no questions.jsonl or questions.jsonl.gz.")
    triples = _triples(_file(folder, "triples"))
    known, names = {one.id for one in passages}, {one.title for one in passages}
    cases: list[Case] = []
    for case in _distinct(path, lambda row: _known(case_of(row, triples), known, names)):
        cases.append(replace(case, question=case.question.lower()) if lower else case)
    if not cases:
        raise Invalid(f"{path.name} has no questions.")
    return QuestionSet(folder.resolve().name, passages, tuple(cases[:limit]), triples)


def read_corpus(folder: Path, *, titles: bool = True, only: str = "") -> tuple[Passage, ...]:
    """The passages or documents of a folder, in the order of the file. Raises `Invalid`."""
    path = _file(folder, *CORPUS_FILES)
    if path is None:
        raise Invalid(f"{_shown(folder)} has no corpus.jsonl or documents.jsonl (plain or .gz).")
    found = _distinct(path, lambda row: _Kept(passage_of(row, titles), row.get(only) is True))
    passages = tuple(one.passage for one in found if one.kept or not only)
    if not passages:
        raise Invalid(f"{path.name} has no passages{f' with {only} true' if only else ''}.")
    return passages


def passage_of(row: Row, titles: bool) -> Passage:
    """A row of `corpus.jsonl` or `documents.jsonl`; its title only where `titles` are wanted."""
    title = row.get("title") or ""
    if not isinstance(title, str):
        raise ValueError("title must be a string")
    return Passage(_text(row, "id"), title.strip() if titles else "", _text(row, "text"))


def case_of(row: Row, triples: Mapping[str, Triple] | None = None) -> Case:
    """A question as a row of `questions.jsonl` says it. ValueError says what is wrong."""
    kind = row.get("type")
    unanswerable = row.get("unanswerable", str(kind or "").lower() in UNANSWERABLE)
    if not isinstance(unanswerable, bool):
        raise ValueError("unanswerable must be true or false")
    gold = [Gold("id", one) for one in _texts(row, "gold_passage_ids")]
    gold += [Gold("name", one) for one in _texts(row, "gold_document_names")]
    gold += [Gold("quote", one) for one in _texts(row, "gold_quotes")]
    if unanswerable and gold:
        raise ValueError("a question that is unanswerable has no gold")
    return Case(
        id=_text(row, "id"),
        question=_text(row, "question").strip(),
        gold=tuple(gold),
        answers=() if unanswerable else _answers(row),
        unanswerable=unanswerable,
        evidence=tuple(_texts(row, "evidence")),
        triples=tuple(dict.fromkeys(_gold_triples(row, triples or {}))),
        kind=kind if isinstance(kind, str) else "",
    )


# --- rows ----------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    passage: Passage
    kept: bool

    @property
    def id(self) -> str:
        return self.passage.id


def _known(case: Case, ids: Collection[str], names: Collection[str]) -> Case:
    for gold in case.gold:
        if gold.by == "id" and gold.value not in ids:
            raise ValueError(f"the gold passage {gold.value!r} is not in the corpus")
        if gold.by == "name" and gold.value not in names:
            raise ValueError(f"no document of the corpus has the title {gold.value!r}")
    return case


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a string that is not empty")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError(f"{name} is not valid Unicode")
    return value


def _texts(row: Row, name: str) -> list[str]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(x, str) and x.strip() for x in value):
        raise ValueError(f"{name} must be a list of strings that are not empty")
    return list(dict.fromkeys(value))


def _answers(row: Row) -> tuple[str, ...]:
    """`answer` or `answers`: a string, or several of which any is right; `answer_aliases` too."""
    found: list[str] = []
    for name in ("answer", "answers", "answer_aliases"):
        value = row.get(name)
        given = [value] if isinstance(value, str) else value or []
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise ValueError(f"{name} must be a string, a list of strings, or null")
        found += [one for one in given if one.strip()]
    return tuple(dict.fromkeys(found))


def _gold_triples(row: Row, triples: Mapping[str, Triple]) -> Iterator[Triple]:
    for id in row.get("gold_triple_ids") or ():
        if str(id) not in triples:
            raise ValueError(f"the triple {id!r} is not in triples.jsonl")
        yield triples[str(id)]
    for one in row.get("gold_triples") or ():
        if not isinstance(one, list) or len(one) != 3 or not all(isinstance(x, str) for x in one):
            raise ValueError("gold_triples must be a list of [subject, predicate, object]")
        yield (one[0], one[1], one[2])


class _Stated(NamedTuple):
    id: str
    triple: Triple


def _triples(path: Path | None) -> dict[str, Triple]:
    """By id; without ids, by the number of the line from 0."""
    if path is None:
        return {}

    def triple_of(row: Row) -> _Stated:
        parts = [row.get(name) for name in "spo"]
        if not all(isinstance(part, str) for part in parts) or "id" not in row:
            raise ValueError("a triple has an id, and the strings s, p and o")
        return _Stated(str(row["id"]), (row["s"], row["p"], row["o"]))

    return {one.id: one.triple for one in _distinct(path, triple_of)}


# --- files ---------------------------------------------------------------------------------------


def _file(folder: Path, *names: str) -> Path | None:
    if not folder.is_dir():
        raise Invalid(f"{_shown(folder)} is no folder.")
    candidates = [folder / f"{name}.jsonl{end}" for name in names for end in ("", ".gz")]
    return next((path for path in candidates if path.is_file()), None)


def _shown(folder: Path) -> str:
    return folder.name or str(folder)


def _distinct(path: Path, make: Callable[[Row], T]) -> list[T]:
    """What `make` makes of each line; ids may not repeat."""
    found: dict[str, T] = {}
    for number, row in _rows(path):
        try:
            one = make(row)
            id = str(getattr(one, "id"))  # noqa: B009  all that is made here has one
            if id in found:
                raise ValueError(f"the id {id!r} is there twice")
        except ValueError as error:
            raise Invalid(f"{path.name}, line {number}: {error}.") from None
        found[id] = one
    return list(found.values())


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Numbered lines that are not blank, as objects."""
    number = 0
    try:
        with _opened(path) as file:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if line.strip():
                    yield number, _object(line)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        said = "it is cut off" if isinstance(error, EOFError) else "it is damaged or no gzip"
        raise Invalid(f"{path.name}, after line {number}: {said}.") from None
    except OSError as error:
        raise Invalid(f"{path.name} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise Invalid(f"{path.name}, line {number}: {error}.") from None


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _object(line: bytes) -> Row:
    if len(line) > MAX_LINE:
        raise ValueError("the line is too long: one JSON object a line is expected")
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def in_windows(passages: Sequence[Passage], size: int = 4800) -> Iterator[str]:
    """Texts as a server might cut them: passages as they are, longer ones in windows of `size`
    characters that overlap by half, so that nothing of a quarter of it is cut apart."""
    for passage in passages:
        text = f"{passage.title}\n{passage.text}" if passage.title else passage.text
        for start in range(0, max(1, len(text) - size // 2), size // 2):
            yield text[start : start + size]
