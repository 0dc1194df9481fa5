"""The bench of performance, at tiny sizes: every part finds its figures, none is held to a time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.bench.performance import corpus, measuring, page
from tests.bench.performance.client import Connection, Refused, connections, side_by_side
from tests.bench.performance.measuring import Wanted
from tests.bench.performance.processes import Meter, children, cpu_seconds
from tests.bench.performance.records import Record, Row
from tests.bench.performance.stacks import ScriptedModel, scripted_model
from tests.system.stack import ROOT, clean_environment

LOCK = "requirements.lock"
BURN = "import time\nwhile time.process_time() < 0.4: pass"


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as found:
        yield found


def wanted(folder: Path) -> Wanted:
    return Wanted(
        folder,
        sizes=(6,),
        runs=1,
        queries=2,
        changed=1,
        together=2,
        minutes=5,
        chat_ms=(1.0,),
        modes=("naive", "mix"),
        rest=0.1,
    )


def test_a_tree_counts_what_its_ended_processes_used_and_leaves_out_what_is_apart() -> None:
    code = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {BURN!r}])"
    code += f"\nsubprocess.Popen([sys.executable, '-c', {BURN!r} + '\\ntime.sleep(60)'])"
    code += "\nprint(flush=True)\ntime.sleep(60)"
    command = [sys.executable, "-c", code]
    with (
        Meter({"service": [os.getpid()]}) as used,
        subprocess.Popen(command, stdout=subprocess.PIPE) as parent,
    ):
        assert parent.stdout is not None
        parent.stdout.readline()
        (child,) = children(parent.pid)
        while cpu_seconds([child]) < 0.3:
            time.sleep(0.02)
        both, alone = cpu_seconds([parent.pid]), cpu_seconds([parent.pid], apart=[child])
        os.kill(child, 9)
        parent.kill()
    assert both >= 0.6
    assert 0.3 <= alone < both
    assert used.cpu >= 0.3
    assert used.peak_mib["service"] >= used.largest_mib > 0


async def test_the_scripted_model_counts_calls_and_waits_beside_others(
    model: ScriptedModel,
) -> None:
    model.reset(chat_ms=50)
    body = {"messages": [{"role": "user", "content": "Say something."}]}

    async def ask(connection: Connection, _: int) -> None:
        reply = await connection.call("POST", "/v1/chat/completions", body)
        assert reply["usage"]["prompt_tokens"] == 4

    took = await side_by_side(model.url, 8, range(8), ask)
    stats = await asyncio.to_thread(model.stats)
    assert (stats["kinds"]["other"]["calls"], stats["most_running"]) == (8, 8)
    assert min(took) >= 0.05
    async with connections(model.url, 1) as (connection,):
        texts = {"input": ["Scrooge was a miser.", ""], "dimensions": 8}
        rows = (await connection.call("POST", "/v1/embeddings", texts))["data"]
    assert [round(sum(x * x for x in row["embedding"]), 3) for row in rows] == [1.0, 1.0]
    model.reset(chat_ms=0)


def test_documents_are_distinct_and_the_same_each_time() -> None:
    some = [*corpus.documents(50, 20_000)]
    assert some == [*corpus.documents(50, 20_000)]
    assert some[10:20] == [*corpus.documents(10, 20_010)]
    real = [*islice(corpus.documents(1000), 1000)]
    assert len({(one.title, one.text) for one in [*real, *some]}) == 1050
    assert len(set(corpus.questions(100))) == 100


def test_every_part_finds_its_figures_and_the_page_shows_them(tmp_path: Path) -> None:
    told = wanted(tmp_path / "performance")
    for part in (measuring.measure_ingest, measuring.measure_query, measuring.measure_update):
        part(told)
    measuring.measure_scale(told)
    records = {part: Record.read(told.results, part) for part in page.PARTS}
    ingest = one(records["ingest"], n=6, chat_ms=1.0)
    assert ingest.runs[0]["calls"] >= 1
    assert 0 < ingest.runs[0]["service_cpu_ms"] < ingest.runs[0]["cpu_ms"] + 1
    assert ingest.runs[0]["bound_s"] > 0
    for clients in (1, 16):
        assert one(records["query"], mode="mix", clients=clients).runs[0]["p50_ms"] > 0
    assert one(records["query"], mode="busy").runs[0]["documents"] == 6
    changes = {row.what["what"] for row in records["update"].where(n=6)}
    assert changes == {"add one", "replace one", "delete many", "delete one"}
    assert one(records["update"], n=6, what="add one").runs[0]["chats"] >= 1
    grown = {row.what["what"]: row.runs[0] for row in records["scale"].where(n=6)}
    assert {"ingest", "disk", "query mix", "delete", "restart", "backup"} <= set(grown)
    assert grown["backup"]["archive_mib"] > 0
    page.write(told.results, tmp_path / "performance.md")
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "{{" not in text
    assert "| heliograph | embedded | 6 |" in text
    assert (told.results / "scale-disk.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_a_start_is_timed_and_its_imports_listed(tmp_path: Path) -> None:
    measuring.measure_start(wanted(tmp_path))
    record = Record.read(tmp_path, "start")
    for role in ("api", "worker", "alone"):
        found = one(record, role=role, models="endpoints").runs[0]
        assert found["cpu_s"] > 0 < found["mib"]
    packages = {run["package"] for run in one(record, **{"packages of": "app.main"}).runs}
    assert "pydantic" in packages
    assert "heliograph" in {run["package"] for run in one(record, installed=LOCK).runs}


def test_simulated_workers_read_every_document_once(tmp_path: Path) -> None:
    """In a process of its own: it stretches the pauses of the code that it runs."""
    told = "--workers 3 --documents 6 --dilation 1 --settling 0.5 --stack embedded --results"
    command = [sys.executable, "-m", "tests.bench.performance.simulation", *told.split(), tmp_path]
    subprocess.run(command, cwd=ROOT, env=clean_environment(), check=True, capture_output=True)
    (found,) = Record.read(tmp_path, "simulation").rows
    assert (found.what["workers"], found.runs[0]["documents"]) == (3, 6)
    assert found.runs[0]["extracted_twice"] == 0
    assert 0 < found.runs[0]["most_running"] <= 3
    assert found.runs[0]["redis_cpu_ms"] > 0


def test_a_row_is_replaced_and_shows_its_spread(tmp_path: Path) -> None:
    record = Record.read(tmp_path, "ingest")
    record.put({"n": 1}, [{"cpu_ms": 1.0}])
    record.put({"n": 1}, [{"cpu_ms": 2.0}, {"cpu_ms": 4.0}, {"cpu_ms": 3.0}])
    (known,) = Record.read(tmp_path, "ingest").rows
    assert known.shown("cpu_ms") == "3.0 (2.0–4.0)"
    assert known.shown("missing") == "–"
    assert known.code


async def test_a_refused_request_is_told_with_its_status(model: ScriptedModel) -> None:
    with pytest.raises(Refused, match="404"):
        async with connections(model.url, 1) as (connection,):
            await connection.call("GET", "/nowhere")


def one(record: Record, **what: object) -> Row:
    (found,) = record.where(**what)
    return found
