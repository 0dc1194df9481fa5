"""An evaluation on real processes: killed in the middle it goes on, and asks nothing again."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.servers import free_port
from tests.system.stack import Service, _environment, _process, _wait_up

QUESTIONS = 120


def test_an_evaluation_survives_a_kill(tmp_path: Path) -> None:
    port = free_port()
    env = _environment(
        {
            "HELIOGRAPH_DATA_DIR": str(tmp_path / "data"), "HELIOGRAPH_PORT": str(port),
            "HELIOGRAPH_LEASE_SECONDS": "3",
        }
    )  # fmt: skip
    command = [sys.executable, "-m", "workers.standalone"]
    service = Service(f"http://127.0.0.1:{port}", tmp_path / "log")
    asked: dict[str, Any] = {
        "modes": ["naive", "mix"],
        "questions": [
            {"question": f"Who wrote note {n}?", "gold_passage_ids": ["notes"]}
            for n in range(QUESTIONS)
        ],
    }
    with _process(command, env, tmp_path / "log") as process:
        _wait_up(service, process)
        service.wait(service.add({"id": "notes", "text": "Ada Lovelace wrote notes in London."}))
        id = service.json("POST", "/evaluations", 202, json=asked)["id"]
        while not (before := service.json("GET", f"/evaluations/{id}"))["progress"]["done"]:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert before["state"] == "running"
    with _process(command, env, tmp_path / "log") as process:
        _wait_up(service, process)
        after = service.json("GET", f"/evaluations/{id}")
        assert after["progress"]["done"] >= before["progress"]["done"]
        while (found := service.json("GET", f"/evaluations/{id}"))["state"] in (
            "queued", "running",
        ):  # fmt: skip
            time.sleep(0.2)
        service.close()
    assert found["state"] == "done", found["error"]
    assert found["result"]["modes"]["mix"]["recall@5"]["n"] == QUESTIONS
