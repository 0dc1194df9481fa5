"""Folders of documents and questions: the format, its variants, and what is wrong with a file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.errors import Invalid
from app.evaluation.questions import Gold, Passage, case_of, in_windows, read_corpus, read_folder

PASSAGES = [
    {"id": "p1", "title": "Amber", "text": "Amber is fossil resin.", "kept": True},
    {"id": "p2", "title": "", "text": "Basalt is a volcanic rock."},
]
QUESTIONS = [
    {"id": "q1", "question": "What is Amber?", "answer": "resin", "gold_passage_ids": ["p1"]},
    {"id": 2, "question": "What is basalt?", "answers": ["rock", "a rock"], "evidence": ["x y"]},
]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    data = "\n".join(json.dumps(row) for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture(params=["corpus.jsonl", "corpus.jsonl.gz", "documents.jsonl.gz"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write(tmp_path / request.param, PASSAGES)
    write(tmp_path / "questions.jsonl.gz", QUESTIONS)
    return tmp_path


def test_a_folder_is_read(folder: Path) -> None:
    found = read_folder(folder)
    assert found.passages[0] == Passage("p1", "Amber", "Amber is fossil resin.")
    one, other = found.cases
    assert (one.id, one.gold, one.answers) == ("q1", (Gold("id", "p1"),), ("resin",))
    assert (other.id, other.answers, other.evidence) == ("2", ("rock", "a rock"), ("x y",))


def test_variants_leave_titles_out_and_ask_in_lower_case(folder: Path) -> None:
    found = read_folder(folder, titles=False, lower=True, limit=1)
    assert [one.title for one in found.passages] == ["", ""]
    assert [case.question for case in found.cases] == ["what is amber?"]
    assert found.digest != read_folder(folder).digest


def test_only_some_passages_may_be_wanted(folder: Path) -> None:
    assert [one.id for one in read_corpus(folder, only="kept")] == ["p1"]
    with pytest.raises(Invalid, match="no passages with other true"):
        read_corpus(folder, only="other")


def test_questions_may_lie_in_another_folder(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "asked"
    other.mkdir()
    write(other / "questions.jsonl", [{"id": "x", "question": "Why?"}])
    assert [case.id for case in read_folder(folder, questions=other).cases] == ["x"]


def test_the_digest_does_not_depend_on_the_order(tmp_path: Path) -> None:
    digests = set()
    for place, rows in enumerate((PASSAGES, PASSAGES[::-1])):
        folder = tmp_path / str(place)
        folder.mkdir()
        write(folder / "corpus.jsonl", rows)
        write(folder / "questions.jsonl", QUESTIONS)
        digests.add(read_folder(folder).digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ('{"question": "x"}', "id must be a string"),
        ('{"id": "q", "question": " "}', "question must be a string"),
        ('{"id": "q", "question": "\\ud800"}', "not valid Unicode"),
        ('{"id": "a", "question": "x"}', "the id 'a' is there twice"),
        ('{"id": "q", "question": "x", "gold_passage_ids": ["no"]}', "'no' is not in the corpus"),
        ('{"id": "q", "question": "x", "gold_document_names": ["N"]}', "has the title 'N'"),
        ('{"id": "q", "question": "x", "gold_passage_ids": "p1"}', "must be a list of strings"),
        ('{"id": "q", "question": "x", "answer": 7}', "answer must be a string, a list"),
        ('{"id": "q", "question": "x", "unanswerable": "no"}', "must be true or false"),
        ('{"id": "q", "question": "x", "type": "Null", "gold_passage_ids": ["p1"]}', "no gold"),
        ('{"id": "q", "question": "x", "gold_triple_ids": [3]}', "the triple 3 is not in"),
        ('{"id": "q", "question": "x", "gold_triples": [["a", "b"]]}', "gold_triples must be"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, line: str, said: str) -> None:
    write(tmp_path / "corpus.jsonl", PASSAGES)
    first = '{"id": "a", "question": "first"}'
    (tmp_path / "questions.jsonl").write_text(f"{first}\n\n{line}\n")
    with pytest.raises(Invalid) as caught:
        read_folder(tmp_path)
    assert caught.value.detail.startswith("questions.jsonl, line 3: ")
    assert said in caught.value.detail


def test_a_gzip_that_is_cut_off_or_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    write(path, PASSAGES * 200)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Invalid, match=r"corpus.jsonl.gz, after line \d+: it is cut off"):
        read_corpus(tmp_path)
    path.write_bytes(b"no gzip at all")
    with pytest.raises(Invalid, match="it is damaged or no gzip"):
        read_corpus(tmp_path)
    path.write_bytes(whole[:20] + b"\x00" * 40 + whole[60:])
    with pytest.raises(Invalid, match=r"corpus.jsonl.gz"):
        read_corpus(tmp_path)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match=r"corpus\.jsonl, line 1: it is not UTF-8"):
        read_corpus(tmp_path)


def test_missing_and_empty_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"is no folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(Invalid, match=r"has no corpus\.jsonl"):
        read_folder(tmp_path)
    write(tmp_path / "corpus.jsonl", PASSAGES)
    with pytest.raises(Invalid, match=r"has no questions\.jsonl"):
        read_folder(tmp_path)
    (tmp_path / "questions.jsonl").write_text("\n")
    with pytest.raises(Invalid, match=r"questions\.jsonl has no questions"):
        read_folder(tmp_path)


def test_triples_are_named_by_id(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", PASSAGES)
    write(tmp_path / "triples.jsonl.gz", [{"id": 7, "s": "a", "p": "b", "o": "c"}])
    write(tmp_path / "questions.jsonl", [{"id": "q", "question": "?", "gold_triple_ids": [7]}])
    assert read_folder(tmp_path).cases[0].triples == (("a", "b", "c"),)


def test_a_null_question_is_unanswerable() -> None:
    case = case_of({"id": "q", "question": "?", "type": "Null", "answer": "Insufficient"})
    assert case.unanswerable
    assert case.answers == ()


def test_windows_overlap_and_cover_everything() -> None:
    text = "".join(chr(97 + n % 26) for n in range(101))
    windows = list(in_windows([Passage("a", "", text)], size=40))
    assert windows[0] == text[:40]
    assert windows[1] == text[20:60]
    assert windows[-1].endswith(text[-1])
    assert list(in_windows([Passage("a", "T", "short")], size=40)) == ["T\nshort"]


@pytest.mark.shared
def test_every_shared_set_with_passages_is_read(shared_dir: Path) -> None:
    data = shared_dir / "data"
    for name in (
        "musique-train", "hotpotqa-train", "2wiki-101", "popqa", "lihua-world",
        "graphrag-bench-medical", "graphrag-bench-novel", "ultradomain-mix",
    ):  # fmt: skip
        found = read_folder(data / name)
        assert found.cases
        assert found.passages
    assert len(read_folder(data / "2wiki-101", only="subset101").passages) == 780
    lihua = read_folder(data / "lihua-world")
    assert sum(case.unanswerable for case in lihua.cases) == 30
