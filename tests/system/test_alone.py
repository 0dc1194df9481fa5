"""The all-in-one process as its users and its enemies meet it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.servers import free_port
from tests.system.stack import ROOT, Service, _environment, _process, _wait_up, embedded


def start(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """A start that is to be refused."""
    env = _environment({"HELIOGRAPH_DATA_DIR": str(folder), **settings})
    return subprocess.run(
        [sys.executable, "-m", "workers.standalone"], cwd=ROOT, env=env, check=False,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"HELIOGRAPH_HOST": "0.0.0.0", "HELIOGRAPH_PORT": "0"}, "no API key"),
        ({"HELIOGRAPH_PROT": "1"}, "HELIOGRAPH_PORT"),
        ({"HELIOGRAPH_LLM_URL": "openai+http://127.0.0.1:9/v1"}, "HELIOGRAPH_LLM_MODEL"),
        ({"HELIOGRAPH_OPTIONS__CHUNK_TOKENS": "-5"}, "CHUNK_TOKENS"),
    ],
)
def test_a_refused_start_is_one_sentence_that_names_the_cause(
    tmp_path: Path, settings: dict[str, str], named: str
) -> None:
    refused = start(tmp_path, **settings)
    assert refused.returncode == 1
    assert named in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_second_process_on_the_same_folder_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    with embedded(tmp_path) as service:
        refused = start(tmp_path / "data", HELIOGRAPH_PORT=str(free_port()))
        assert refused.returncode == 1
        assert "in use by another process" in refused.stderr
        assert service.json("GET", "/readyz")["ready"]
        taken = start(tmp_path / "other", HELIOGRAPH_PORT=service.url.rpartition(":")[2])
        assert "Cannot listen" in taken.stderr


def test_what_was_answered_202_survives_a_kill(tmp_path: Path) -> None:
    port = free_port()
    env = _environment(
        {"HELIOGRAPH_DATA_DIR": str(tmp_path / "data"), "HELIOGRAPH_PORT": str(port)}
    )
    command = [sys.executable, "-m", "workers.standalone"]
    texts = [
        {"id": f"d{n}", "text": f"Ada Lovelace wrote note {n} for Charles Babbage in London."}
        for n in range(40)
    ]
    service = Service(f"http://127.0.0.1:{port}", tmp_path / "log")
    with _process(command, env, tmp_path / "log") as process:
        _wait_up(service, process)
        ids = service.add(*texts)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with _process(command, env, tmp_path / "log") as process:
        _wait_up(service, process)
        assert {one["status"] for one in service.wait(ids)} == {"ready"}
        assert service.entities()["Ada Lovelace"] == len(texts)
        service.close()


def test_sigterm_ends_it_cleanly_under_load(tmp_path: Path) -> None:
    port = free_port()
    env = _environment(
        {"HELIOGRAPH_DATA_DIR": str(tmp_path / "data"), "HELIOGRAPH_PORT": str(port)}
    )
    service = Service(f"http://127.0.0.1:{port}", tmp_path / "log")
    with _process([sys.executable, "-m", "workers.standalone"], env, tmp_path / "log") as process:
        _wait_up(service, process)
        service.add(*({"text": f"Niels Bohr wrote letter {n} to Max Planck."} for n in range(50)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    assert "Traceback" not in service.tail()
    service.close()


def test_no_request_that_the_schema_allows_or_forbids_breaks_the_service(tmp_path: Path) -> None:
    """schemathesis: examples, boundary values and fuzzing over the whole interface."""
    with embedded(tmp_path) as service:
        service.wait(service.add({"id": "d", "text": "Ada Lovelace met Charles Babbage."}))
        schemathesis = Path(sys.executable).with_name("schemathesis")
        run = subprocess.run(
            [
                str(schemathesis), "run", f"{service.url}/openapi.json",
                "--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1",
                "--exclude-path-regex", "(events|admin/(keys|reindex)|/restore)", "--checks",
                "not_a_server_error,content_type_conformance,response_schema_conformance,"
                "status_code_conformance",
            ],
            check=False, capture_output=True, text=True, cwd=tmp_path, timeout=900,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        assert run.returncode == 0, run.stdout[-6000:]
        assert service.json("GET", "/readyz")["ready"]
        assert "Traceback" not in service.tail()
        with httpx.Client(base_url=service.url) as client:
            assert client.get("/healthz").status_code == 200
