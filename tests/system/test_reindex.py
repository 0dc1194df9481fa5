"""Reindexing as an operator meets it: killed amid, in the serving process, from another process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests import qdrant_standin
from tests.servers import Server, free_port
from tests.system.stack import (
    PATIENCE,
    ROOT,
    Service,
    _environment,
    _process,
    _wait_up,
    distributed,
    model_server,
    model_settings,
)

TEXTS = [
    {"id": f"d{n}", "text": f"Ada Lovelace wrote note {n} for Charles Babbage in town {n}."}
    for n in range(12)
]
STANDALONE = [sys.executable, "-m", "workers.standalone"]


def reindexed(service: Service) -> dict[str, object]:
    until = time.monotonic() + PATIENCE
    while (seen := service.json("GET", "/admin/reindex"))["state"] == "running":
        assert time.monotonic() < until, f"it hangs: {seen}; {service.tail()}"
        time.sleep(0.1)
    assert isinstance(seen, dict)
    return seen


def found(service: Service) -> list[str]:
    seen = service.query("Who wrote note 3 for Babbage?", mode="naive", only_context=True)
    return [one["document_id"] for one in seen["context"]["chunks"]]


def test_killed_amid_a_reindex_the_old_vectors_answer_and_the_next_goes_on(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    with model_server(tmp_path) as model:
        settings = {
            "HELIOGRAPH_DATA_DIR": str(tmp_path / "data"), "HELIOGRAPH_PORT": str(port),
            "HELIOGRAPH_EMBED_BATCH": "4", "HELIOGRAPH_EMBED_CONCURRENCY": "1",
        }  # fmt: skip
        other = {
            "embed_url": model_settings(model)["HELIOGRAPH_EMBED_URL"], "embed_model": "another",
        }  # fmt: skip
        service = Service(f"http://127.0.0.1:{port}", log)
        with _process(STANDALONE, _environment(settings), log) as process:
            _wait_up(service, process)
            service.wait(service.add(*TEXTS))
            before = found(service)
            model.post("/script", json={"latency_s": 0.3})
            service.json("POST", "/admin/reindex", 202, json=other)
            assert found(service) == before
            process.send_signal(signal.SIGKILL)
            process.wait()
        model.post("/script", json={"latency_s": 0.0})
        with _process(STANDALONE, _environment(settings), log) as process:
            _wait_up(service, process)
            assert found(service) == before
            assert service.json("GET", "/admin/reindex")["state"] == "none"
            service.json("POST", "/admin/reindex", 202, json=other)
            done = reindexed(service)
            assert (done["state"], done["model"]) == ("done", "another"), done
            assert found(service) == before  # by the model that this process has
            service.add({"id": "late", "text": "Ada Lovelace wrote a late note."})
            process.send_signal(signal.SIGTERM)
            process.wait()
        settings |= {
            "HELIOGRAPH_EMBED_URL": other["embed_url"], "HELIOGRAPH_EMBED_MODEL": "another",
        }  # fmt: skip
        with _process(STANDALONE, _environment(settings), log) as process:
            _wait_up(service, process)
            [late] = service.wait(["late"])
            assert late["status"] == "ready"
            checked = service.json("POST", "/admin/workspaces/default/check")
            assert checked["differences"] == []
            assert len(found(service)) == len(before) + 1
        service.close()


@pytest.mark.server
def test_from_another_process_while_questions_and_uploads_go_on(
    tmp_path: Path, neo4j: Server, redis_url: str
) -> None:
    with (
        model_server(tmp_path) as model,
        qdrant_standin.running(tmp_path / "qdrant") as qdrant,
    ):
        settings = model_settings(model)
        where = {"neo4j": neo4j, "redis_url": redis_url, "qdrant_url": qdrant.url}
        with distributed(tmp_path, **where, settings=settings) as service:  # type: ignore[arg-type]  # by name
            service.wait(service.add(*TEXTS))
            failures = asking(service)
            env = _environment({
                "HELIOGRAPH_GRAPH_URL": neo4j.url, "HELIOGRAPH_GRAPH_USER": neo4j.user,
                "HELIOGRAPH_GRAPH_PASSWORD": neo4j.password,
                "HELIOGRAPH_VECTOR_URL": qdrant.url, "HELIOGRAPH_QUEUE_URL": redis_url,
                "HELIOGRAPH_DATA_DIR": str(tmp_path / "data"), **settings,
            })  # fmt: skip
            command = [sys.executable, "-m", "app.cli", "reindex"]
            run = subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True,
            )  # fmt: skip
            more = service.add({"id": "late", "text": "Ada Lovelace wrote a late note."})
            said, _ = run.communicate(timeout=PATIENCE)
            assert run.returncode == 0, said
            assert "have vectors of scripted-embedding" in said
            service.wait(more)
            assert failures() == []
            checked = service.json("POST", "/admin/workspaces/default/check")
            assert checked["differences"] == []


def asking(service: Service) -> Callable[[], list[str]]:
    """Questions one after the other; what is returned ends them and tells which missed anything."""
    done, wrong = threading.Event(), list[str]()

    def ask() -> None:
        with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
            while not done.is_set():
                body = {"query": "Who wrote note 3?", "mode": "naive", "only_context": True}
                reply = http.post("/query", json=body)
                if reply.status_code != 200 or len(reply.json()["context"]["chunks"]) < len(TEXTS):
                    wrong.append(reply.text)

    thread = threading.Thread(target=ask)
    thread.start()

    def end() -> list[str]:
        done.set()
        thread.join()
        return wrong

    return end
