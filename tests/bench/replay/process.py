"""The replaying model as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx

from tests.bench.extraction import shared
from tests.bench.replay.server import CHAT_MODEL, EMBED_MODEL
from tests.servers import free_port
from tests.system.stack import PATIENCE, ROOT, clean_environment


@contextmanager
def replaying(sets: Sequence[str], *, rules: bool = False) -> Iterator[str]:
    """Its address. `rules`: the built-in extractor reads all passages, recorded or not."""
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.replay", "--port", str(port)]
    command += ["--sets", ",".join(sets), *(["--rules"] if rules else [])]
    environment = {**clean_environment(), "HELIOGRAPH_SHARED": str(shared().parent)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
    try:
        _wait_up(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def settings(url: str, *, embeddings: bool = False) -> dict[str, str]:
    """Settings of a service that asks the replaying model; with `embeddings` also for vectors."""
    told = {
        "HELIOGRAPH_LLM_URL": f"openai+{url}/v1", "HELIOGRAPH_LLM_MODEL": CHAT_MODEL,
        "HELIOGRAPH_LLM_CONTEXT_TOKENS": "65536",
    }  # fmt: skip
    if embeddings:
        told |= {
            "HELIOGRAPH_EMBED_URL": f"openai+{url}/v1", "HELIOGRAPH_EMBED_MODEL": EMBED_MODEL,
        }  # fmt: skip
    return told


def _wait_up(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "the replaying model ended early"
        assert time.monotonic() < until, "the replaying model does not come up"
        try:
            if httpx.get(f"{url}/v1/models", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
