"""Real files through the whole service over HTTP, with the built-in models, on both stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import qdrant_standin
from tests.servers import Server
from tests.system.stack import Service, distributed, embedded

pytestmark = pytest.mark.shared

WORKSPACE = "real-files"  # ids depend on it, so both stacks use the same
REFUSED = {"password.pdf": "encrypted", "password.xlsx": "encrypted", "scan-no-text.pdf": "no_text"}

NUMBERS = {"malformed-from-issue-932.pdf": "2021 3 31"}  # all its text: found, but not quoted first

# What stands in a document, and a question for it in words that are close to its own.
QUESTIONS = {
    "a-christmas-carol.txt": "What did Scrooge say of the knocker and the ghost of Marley?",
    "bilingual.md": "Todos los seres humanos nacen libres e iguales en dignidad y derechos",
    "blog.html": "tuning the inference parameters like model and number of responses",
    "comments.docx": "enable next-gen LLM applications multi-agent conversation framework",
    "datasheet-utf-16.html": "SteelJIS Japanese Steels and Alloys SCM440",
    "encrypted-empty-password.pdf": "pdf encryption test",
    "gb18030.html": "马兴瑞 中国航天科技集团公司总经理",
    "handbook.docx": "US Trustee Handbook purpose of the trustee",
    "japanese-vertical-cmap.pdf": "あらゆる透明な幽霊の複合体",
    "korean-text-with-tables.pdf": "할인점 주유 온라인쇼핑몰 빅포인트 적립",
    "multicolumn.pdf": "Two-Column Document with Lorem Ipsum consectetuer adipiscing elit",
    "nested-tables.docx": "Header Col 1 Header Col 2 Lorem ipsum A link example",
    "nics-background-checks-2015-11.pdf": "NICS Firearm Background Checks Alabama Wyoming",
    "right_to_left_01.pdf": "تحسين الإنتاجية وحل المشكلات من خلال البرمجة بلغة",
    "scan-with-ocr-layer.pdf": "The Yankee Lookout at Vicksburg",
    "scotus-transcript-p1.pdf": "Knowles Mirzayance oral argument before the Supreme Court",
    "segments.xlsx": "Zone NA Underlying Trading operating profit",
    "senate-expenditures.pdf": "CITIBANK TRAVEL CBA CARD airfare Kansas City to Washington",
    "small.epub": "EPUB chapter test content bullet point",
    "table.pptx": "A Slide with a Table",
    "three-kingdoms-chapters-1-5.txt": "宴桃园豪杰三结义 刘备关羽张飞",
    "us-constitution.md": "Congress shall make no law respecting an establishment of religion",
    "utf-16.txt": "test document to use for unit tests Doylestown",
    "windows-1252.html": "Die schöne Frau L'été était très",
}
READ = (*QUESTIONS, *NUMBERS)


@dataclass(frozen=True)
class Library:
    """A service that was given all files; its documents and their chunks by file name."""

    service: Service
    documents: dict[str, Any]
    chunks: dict[str, list[Any]]


@pytest.fixture(scope="module")
def files(shared_dir: Path) -> list[Path]:
    folder = shared_dir / "data"
    return sorted(
        path for part in ("documents", "texts") for path in (folder / part).iterdir()
        if path.name != "index.json"
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, files: list[Path]) -> Iterator[Library]:
    with embedded(tmp_path_factory.mktemp("alone")) as service:
        yield filled(service, files)


@pytest.fixture(scope="module")
def spread(
    tmp_path_factory: pytest.TempPathFactory, files: list[Path], neo4j: Server, redis_url: str
) -> Iterator[Library]:
    with qdrant_standin.running(tmp_path_factory.mktemp("qdrant")) as qdrant:
        folder = tmp_path_factory.mktemp("spread")
        with distributed(
            folder, neo4j=neo4j, redis_url=redis_url, qdrant_url=qdrant.url
        ) as service:
            yield filled(service, files)


@pytest.fixture(params=["alone", pytest.param("spread", marks=pytest.mark.server)])
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.getfixturevalue(request.param)
    return found


def filled(service: Service, files: list[Path]) -> Library:
    service.http.headers["X-Workspace"] = WORKSPACE
    found = service.wait(service.upload(*files), patience=400)
    documents = {document["name"]: document for document in found}
    return Library(
        service, documents, {name: chunks_of(service, one["id"]) for name, one in documents.items()}
    )


def chunks_of(service: Service, document: str) -> list[Any]:
    found: list[Any] = []
    params: dict[str, Any] = {"limit": 200}
    while True:
        page = service.json("GET", f"/documents/{document}/chunks", params=params)
        found += page["chunks"]
        if not page["next"]:
            return found
        params["cursor"] = page["next"]


def text_of(library: Library, name: str) -> str:
    return library.service.http.get(f"/documents/{library.documents[name]['id']}/text").text


def test_every_file_is_covered(files: list[Path]) -> None:
    assert {path.name for path in files} == {*READ, *REFUSED}


def test_every_file_is_ready_or_says_why_not(library: Library) -> None:
    ended = {
        name: one["status"] if one["status"] == "ready" else one["error"]["code"]
        for name, one in library.documents.items()
    }
    assert ended == {**dict.fromkeys(READ, "ready"), **REFUSED}
    assert all(library.documents[name]["error"]["message"].endswith(".") for name in REFUSED)
    assert all(library.chunks[name] == [] for name in REFUSED)


def test_every_chunk_is_its_slice_of_the_text_and_none_of_the_text_is_lost(
    library: Library,
) -> None:
    for name in READ:
        text, covered = text_of(library, name), 0
        for position, chunk in enumerate(library.chunks[name]):
            assert chunk["position"] == position
            assert chunk["text"] == text[chunk["start"] : chunk["end"]] != "", name
            assert text[covered : chunk["start"]].strip() == "", name
            covered = max(covered, chunk["end"])
        assert text[covered:].strip() == "", name
        assert library.documents[name]["chunks"] == len(library.chunks[name]) > 0


def test_chunks_of_pdfs_know_their_pages_and_those_of_texts_have_none(library: Library) -> None:
    for name in READ:
        pages = [(chunk["page"], chunk["page_end"]) for chunk in library.chunks[name]]
        if name.endswith(".pdf"):
            assert all(1 <= first <= last for first, last in pages), name
            assert pages == sorted(pages), name
        elif name.endswith((".md", ".txt", ".html", ".docx")):
            assert set(pages) == {(None, None)}, name
    assert library.chunks["scan-with-ocr-layer.pdf"][-1]["page_end"] == 6


def test_chunks_carry_the_headings_above_them(library: Library) -> None:
    def seen(name: str) -> set[str]:
        return {heading for chunk in library.chunks[name] for heading in chunk["headings"]}

    assert {"United States Constitution", "Amendments", "1. Article I"} <= seen(
        "us-constitution.md"
    )
    assert {"STAVE ONE", "STAVE FIVE"} <= seen("a-christmas-carol.txt")
    assert "第五回 发矫诏诸镇应曹公 破关兵三英战吕布" in seen("three-kingdoms-chapters-1-5.txt")


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_a_document_says_is_answered_with_a_citation_of_its_slice(
    library: Library, name: str
) -> None:
    answer = library.service.query(QUESTIONS[name], mode="naive")
    cited = [one for one in answer["citations"] if one["document_name"] == name]
    assert cited, answer["answer"]
    text, chunks = text_of(library, name), {chunk["id"]: chunk for chunk in library.chunks[name]}
    for citation in cited:
        chunk = chunks[citation["chunk_id"]]
        assert chunk["start"] <= citation["start"] < citation["end"] <= chunk["end"]
        assert citation["quote"] == text[citation["start"] : citation["end"]]
        assert (citation["page"] is not None) == (chunk["page"] is not None)
        assert "](" not in citation["quote"]


def test_a_document_of_numbers_is_found_by_them(library: Library) -> None:
    for name, numbers in NUMBERS.items():
        found = library.service.query(numbers, mode="naive", only_context=True)["context"]["chunks"]
        assert library.documents[name]["id"] in [chunk["document_id"] for chunk in found]


@pytest.mark.server
def test_both_stacks_hold_the_same_chunks_and_entities(alone: Library, spread: Library) -> None:
    def ids(library: Library) -> dict[str, list[str]]:
        return {name: [one["id"] for one in chunks] for name, chunks in library.chunks.items()}

    assert ids(alone) == ids(spread)
    entities = alone.service.entities()
    assert entities == spread.service.entities()
    assert entities["Scrooge"] > 20
    assert sum(len(one["entities"]) for chunks in alone.chunks.values() for one in chunks) == sum(
        len(one["entities"]) for chunks in spread.chunks.values() for one in chunks
    )
