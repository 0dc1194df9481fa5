"""Another encoder than the built-in one, behind the embeddings endpoint of the service."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.bench.evaluation.records import Record
from tests.bench.tables import head, row
from tests.servers import free_port
from tests.system.stack import PATIENCE, clean_environment

MINILM = "minilm"
SYSTEMS = ("mix", "dense", "naive")  # that it is measured with
SERVER = Path(__file__).with_name("minilm.py")
REQUIREMENTS = Path(__file__).with_name("requirements-minilm.txt")


@contextmanager
def encoding(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """Settings of a service that asks this encoder; it runs meanwhile, in an environment of its
    own in a folder. "" is the built-in one, which needs neither."""
    if not name:
        yield {}
        return
    assert name == MINILM, f"no encoder {name!r}"
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    with (folder / "encoder.log").open("ab") as log:
        process = subprocess.Popen(
            [_python(folder / "venv"), SERVER, "--port", str(port)], env=clean_environment(),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_up(f"{url}/models", process)
        yield {
            "HELIOGRAPH_EMBED_URL": f"openai+{url}", "HELIOGRAPH_EMBED_MODEL": name,
            # It may have little of the processors: small calls, and time for each.
            "HELIOGRAPH_EMBED_BATCH": "16", "HELIOGRAPH_EMBED_CONCURRENCY": "2",
            "HELIOGRAPH_EMBED_TIMEOUT": "600",
        }  # fmt: skip
    finally:
        process.terminate()
        process.wait(20)


def _python(venv: Path) -> Path:
    python, done = venv / "bin" / "python", venv / "installed.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        install = [python, "-m", "pip", "install", "-q", "--no-deps", "-r", REQUIREMENTS]
        subprocess.run(install, check=True)
        done.write_text(wanted, encoding="utf-8")
    return python


def _wait_up(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "the encoder ended early; see encoder.log"
        assert time.monotonic() < until, "the encoder does not come up"
        try:
            httpx.get(url, timeout=5).raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.1)


def shown(pairs: Iterable[tuple[str, Record, Record]]) -> Iterator[str]:
    """Of each set the record with the built-in encoder and that with the other; each system over
    the questions that it was asked with both."""
    names = [f"`{name}`" if name != "dense" else name for name in SYSTEMS]
    yield from head(
        "set", "figure", names[0], "MiniLM", "difference", *(
            title for name in names[1:] for title in (name, "MiniLM")
        ), "questions", "code", "MiniLM",
    )  # fmt: skip
    for label, ours, other in pairs:
        if "mix" not in other.systems or "mix" not in ours.systems or not ours.fits(other):
            continue
        for figure in ("recall@5", "all@8") if not ours.statements else ("recall@5",):
            yield _row(label, figure, ours, other)
    yield ""


def _row(label: str, figure: str, ours: Record, other: Record) -> str:
    cells: list[str] = []
    for name in SYSTEMS:
        both = _both(ours, other, name)
        if len(both.systems) < 2:
            cells += ["–", "–"]
            continue
        places = both.common(["ours", "other"])
        cells += [f"{100 * both.mean(key, figure, places).value:.1f}" for key in ("ours", "other")]
        if name == "mix":
            asked = len(places)
            gain = both.gain("other", "ours", figure, places)
            value = f"{100 * gain.value:+.1f} [{100 * gain.low:.1f}, {100 * gain.high:.1f}]"
            cells.append(f"**{value}**" if gain.value < 0 else value)
    codes = (ours.systems["mix"].code, other.systems["mix"].code)
    shown = {"recall@5": "coverage@5"}.get(figure, figure) if ours.statements else figure
    return row(label, shown, *cells, str(asked), *codes)


def _both(ours: Record, other: Record, name: str) -> Record:
    """One system with each encoder, as two systems of one record."""
    found = Record(ours.ground, ours.questions, ours.golds, ours.statements, ours.kinds)
    for key, record in (("ours", ours), ("other", other)):
        if name in record.systems:
            found.systems[key] = record.systems[name]
    return found
