"""How much of real models' replies survives the reader, against the graphs built from them.

    HELIOGRAPH_SHARED=../shared python -m tests.bench.reader [--show]

Reads the extraction and gleaning replies of the two replay sets of the evaluation data, and says
how many records were kept, why others were not, and which share of the sets' graph entities and
relations (made by those projects' own parsers from the same replies) is found again. Names are
compared without case.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.llm.reader import Reading, read_extraction

SETS = ("covid-review-lightrag", "christmas-carol")
KINDS = ("extraction", "gleaning")


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def key(name: str) -> str:
    """Without case: one set's names were upper-cased when they were stored."""
    return " ".join(name.casefold().split())


def pair(source: str, target: str) -> tuple[str, ...]:
    return tuple(sorted((key(source), key(target))))


def measure(folder: Path, *, show: bool) -> None:
    replies = [row for row in rows(folder / "llm_responses.jsonl.gz") if row["kind"] in KINDS]
    begin = time.process_time()
    readings = [read_extraction(row["response"]) for row in replies]
    seconds = time.process_time() - begin
    dropped: Counter[str] = sum((reading.dropped for reading in readings), Counter())
    kept = sum(len(reading.entities) + len(reading.relations) for reading in readings)
    print(f"{folder.name}: {len(replies)} replies, {seconds * 1000:.0f} ms")
    print(f"  unreadable replies  {sum(not reading.readable for reading in readings)}")
    print(f"  records kept        {kept}, of them relation ends not listed {_unlisted(readings)}")
    print(f"  records dropped     {dropped.total()} {dict(dropped.most_common())}")
    entities = {key(entity.name) for reading in readings for entity in reading.entities}
    relations = {pair(r.source, r.target) for reading in readings for r in reading.relations}
    _compare("entities", entities, {key(row["name"]): row["name"]
             for row in rows(folder / "entities.jsonl.gz")}, show=show)  # fmt: skip
    _compare("relations", relations, {pair(row["source"], row["target"]): row
             for row in rows(folder / "relations.jsonl.gz")}, show=show)  # fmt: skip


def _unlisted(readings: Sequence[Reading]) -> int:
    return sum(not e.kind and not e.description for reading in readings for e in reading.entities)


def _compare(what: str, found: set[Any], gold: dict[Any, Any], *, show: bool) -> None:
    missing = [gold[item] for item in gold if item not in found]
    share = 1 - len(missing) / len(gold)
    print(f"  graph {what:<13} {share:.1%} of {len(gold)} survive; {len(found)} found")
    if show:
        for item in missing:
            print("     missing", {k: item[k] for k in ("source", "target")}
                  if isinstance(item, dict) else item)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="list what is missing")
    arguments = parser.parse_args()
    shared = Path(os.environ.get("HELIOGRAPH_SHARED", "../shared"))
    for name in SETS:
        measure(shared / "data" / name, show=arguments.show)
