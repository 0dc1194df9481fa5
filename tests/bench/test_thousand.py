"""A thousand real passages through the scripted model: nothing is lost, nothing is paid for twice,
and the thousandth costs what the first did."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.system.stack import embedded, model_server, model_settings

PASSAGES = 1000
PART = 200
# Hubs grow, and with them their tallies and summaries; doubling would mean that stores are scanned.
MOST_GROWTH = 1.5


@pytest.mark.slow
@pytest.mark.shared
def test_a_thousand_passages(tmp_path: Path, shared_dir: Path) -> None:
    with gzip.open(shared_dir / "data/2wiki-101/corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][:PASSAGES]
    folders = [tmp_path / "model", tmp_path / "service"]
    for folder in folders:
        folder.mkdir()
    with (
        model_server(folders[0]) as model,
        embedded(folders[1], model_settings(model)) as service,
    ):
        parts = []
        for i in range(0, PASSAGES, PART):
            before = service.cpu_seconds()
            service.add(
                *(
                    {"id": r["id"], "name": r["title"], "text": r["text"]}
                    for r in rows[i : i + PART]
                )
            )
            counts = service.wait_idle(600)
            parts.append((service.cpu_seconds() - before) * 1000 / PART)
        kinds = model.get("/stats").json()["kinds"]
        stats = service.json("GET", "/graph/stats")
        documents = service.json("GET", "/documents", params={"limit": 1})["documents"]
    print(f"CPU ms a document, by {PART}: {[round(part, 1) for part in parts]}; calls: {kinds}")
    assert (counts["ready"], counts["failed"]) == (PASSAGES, 0)
    assert stats["documents"] == PASSAGES
    assert documents[0]["usage"]["llm_calls"] >= 1
    distinct = len({(r["title"], r["text"]) for r in rows})
    assert kinds["extract"]["calls"] == stats["chunks"] - (PASSAGES - distinct)
    # Hubs alone have evidence beyond the threshold; each is summarised once in a while, not always.
    assert kinds["summary"]["calls"] < PASSAGES / 5
    assert parts[-1] < MOST_GROWTH * min(parts[:2]), parts
