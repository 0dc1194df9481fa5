"""Triple recall on kgqa-webqsp, by the bench that measures it, noted for the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.evaluation.grounds import shared
from tests.bench.evaluation.stores import fingerprint_of
from tests.system.stack import ROOT, clean_environment

KEY = "kgqa-webqsp"
CODE = ("app/query", "app/rules", "app/stores", "tests/bench/triples.py")


def measure(results: Path, cache: Path, *, anew: bool, keep: bool) -> None:
    """Run the bench unless its result of the same code is known; a minute for the store, then
    about ten for 706 questions."""
    path = results / f"{KEY}.json"
    code = fingerprint_of(ROOT, CODE)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if known and not anew and (keep or known["code"] == code):
        return
    (cache / KEY).mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "tests.bench.triples", "--cache", str(cache), "--store",
        str(cache / KEY),
    ]  # fmt: skip
    environment = {**clean_environment(), "HELIOGRAPH_SHARED": str(shared().parent)}
    reply = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, text=True, stdout=subprocess.PIPE
    )
    lines = [line for line in reply.stdout.splitlines() if not line.startswith("ingested")]
    note = {"code": code, "lines": lines}
    path.write_text(json.dumps(note, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def shown(results: Path) -> list[str]:
    path = results / f"{KEY}.json"
    if not path.exists():
        return ["Not measured with the present code."]
    lines = json.loads(path.read_text(encoding="utf-8"))["lines"]
    return [f"    {line}" for line in lines]
