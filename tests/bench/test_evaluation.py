"""The evaluation itself: stores filled in one go, records, and the page made from them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.evaluation.metrics import Found, content_words
from app.evaluation.questions import Case, Gold, Passage
from app.settings import Settings
from app.upkeep.fingerprint import fingerprint
from app.wiring import embedded_queue, open_services
from tests.bench.evaluation import page
from tests.bench.evaluation.baselines import Bm25, Piece
from tests.bench.evaluation.grounds import GROUNDS, STORES, chosen
from tests.bench.evaluation.records import Outcome, Record, ranks_of
from tests.bench.evaluation.stores import DATE, WORKSPACE, fill, name_of
from tests.system.stack import embedded

PASSAGES = (
    Passage("p1", "Scrooge and Marley", "Jacob Marley was the partner of Ebenezer Scrooge."),
    Passage("p2", "Ebenezer Scrooge", "Ebenezer Scrooge (born 1786) was a miser in London."),
    Passage("p3", "", "Bob Cratchit was a clerk of Ebenezer Scrooge. He lived in Camden Town."),
    Passage("p4", "Jacob Marley", "Marley was dead. Scrooge was his sole executor."),
)


async def print_of(data: Path, told: Mapping[str, Any] | None = None) -> str:
    settings = Settings(_env_file=None, data_dir=data, **(told or {}))
    async with embedded_queue(settings) as queued, open_services(queued) as services:
        return (await fingerprint(services.workspace(WORKSPACE))).hash


def test_a_store_filled_in_one_go_is_the_one_that_the_service_makes(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with embedded(tmp_path / "served") as service:
        service.add(
            *(
                {"id": p.id, "name": name_of(p), "text": p.text, "date": DATE}
                for p in PASSAGES
            )
        )  # fmt: skip
        assert service.wait_idle()["ready"] == len(PASSAGES)
    settings = Settings(_env_file=None, data_dir=tmp_path / "filled" / "data")
    asyncio.run(fill(settings, PASSAGES, vectors=tmp_path / "vectors"))
    served = asyncio.run(print_of(tmp_path / "served" / "data"))
    assert asyncio.run(print_of(settings.data_dir)) == served
    with embedded(tmp_path / "filled") as service:
        counts = service.json("GET", "/documents/counts")
        found = service.query("Who was the partner of Scrooge?", only_context=True)
    assert counts["ready"] == sum(counts.values()) == len(PASSAGES)
    assert "p1" in {chunk["document_id"] for chunk in found["context"]["chunks"]}


def test_ranks_are_of_the_first_document_or_chunk_that_satisfies() -> None:
    found = [Found("a", "", "x"), Found("a", "", "y"), Found("b", "", "Marley was dead")]
    case = Case("q", "?", gold=(Gold("id", "b"), Gold("id", "c")))
    assert ranks_of(case, found, ()) == [2, 0]
    case = Case("q", "?", evidence=("Marley is dead",))
    assert ranks_of(case, found, [content_words("Marley is dead")]) == [3]


async def test_bm25_finds_words_and_ranks_rare_ones_first() -> None:
    pieces = [Piece(p.id, p.title, p.text) for p in PASSAGES]
    found = await Bm25(pieces).retrieve("Cratchit, clerk, or London?")
    assert [one.document_id for one in found[:2]] == ["p3", "p2"]


def test_sets_are_named_by_pattern_and_no_two_share_a_name() -> None:
    keys = [ground.key for ground in GROUNDS]
    assert len(keys) == len(set(keys))
    assert {ground.key for ground in chosen("2wiki-101,popqa-*")} == {
        "2wiki-101", "popqa-untitled", "popqa-lower",
    }  # fmt: skip
    assert chosen("") == GROUNDS
    assert all(ground.store in STORES for ground in GROUNDS)


def record(key: str = "2wiki-101") -> Record:
    known = Record(key, ["q1", "q2", "q3"], [2, 1, 0], False, ["", "", ""])
    known.systems["mix"] = Outcome([[1, 2], [3], None], "code", tokens=10)
    known.systems["bm25"] = Outcome([[1, 9], None, None], "code")
    known.systems["lightrag-hku mix"] = Outcome([[0, 4], [12], None], "lightrag-hku 1.5.7")
    return known


def test_figures_follow_from_ranks_and_pairs_from_what_both_were_asked(tmp_path: Path) -> None:
    record().write(tmp_path / "r.json")
    known = Record.read(tmp_path / "r.json")
    assert known == record()
    assert known.common(["mix"]) == [0, 1]
    assert known.common(["mix", "bm25"]) == [0]
    assert known.mean("mix", "recall@2", [0, 1]).value == pytest.approx(0.5)
    assert known.mean("mix", "all@8", [0, 1]).value == pytest.approx(1.0)
    assert known.mean("mix", "mrr", [0, 1]).value == pytest.approx(2 / 3)
    assert known.mean("mix", "ndcg@10", [0]).value == pytest.approx(1.0)
    assert known.gain("mix", "bm25", "recall@5", [0]).value == pytest.approx(0.5)


def test_the_page_shows_what_is_recorded_and_says_what_is_not(tmp_path: Path) -> None:
    results = tmp_path / "evaluation"
    record().write(results / "2wiki-101.json")
    page.write(results, tmp_path / "evaluation.md")
    text = (tmp_path / "evaluation.md").read_text(encoding="utf-8")
    assert "{{" not in text
    assert "| 2wiki, 780 | **100.0** | – | 50.0 |" in text
    assert "| popqa: recall@5 | ≥ 87 | not measured |" in text
    assert "lightrag-hku mix" in text
    readme = tmp_path / "README.md"
    readme.write_text(f"Before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
    for _ in range(2):  # writing it again changes nothing
        page.write_summary(results, readme)
        lines = readme.read_text(encoding="utf-8").splitlines()
        assert (lines[0], lines[-1], len(lines)) == ("Before", "after", 7)
    for name in ("recall.svg", "gains.svg"):
        assert (results / name).read_text(encoding="utf-8").startswith("<svg ")
