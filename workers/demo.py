"""`make run`: the service at work on the sample documents, seen through its own HTTP interface.

Starts the all-in-one service, uploads `samples/`, follows the progress, asks a few questions in
several modes and prints the cited answers; then goes on serving until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from app.errors import AppError, Unauthenticated
from app.settings import load
from workers.standalone import serving

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
FINAL = ("ready", "failed")


@dataclass(frozen=True, slots=True)
class Asked:
    query: str
    mode: str


QUESTIONS = (
    Asked("What chain did Marley's Ghost wear?", "mix"),
    Asked("To whom was Scrooge apprenticed?", "ppr"),
    Asked("How many senators does each state have?", "naive"),
    Asked("刘备是什么人？", "local"),
    Asked("How is the trustee related to the debtor and the court?", "global"),
    Asked("How does one change the oil filter of a tractor?", "mix"),
)


async def main() -> int:
    console = Console()
    try:
        settings = load()
        async with serving(settings) as stopped:
            base = f"http://{settings.host}:{settings.port}"
            async with httpx.AsyncClient(base_url=base, timeout=120) as client:
                show = asyncio.create_task(_show(client, console, base))
                await asyncio.wait([show, stopped], return_when=asyncio.FIRST_COMPLETED)
                if not show.done():
                    show.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await show
            await stopped
    except AppError as error:
        console.print(f"[red]{escape(error.title)}[/]: {escape(error.detail)}")
        return 1
    return 0


async def _show(client: httpx.AsyncClient, console: Console, base: str) -> None:
    console.rule("[bold]Heliograph[/]: the sample documents")
    await _upload(client, console)
    await _graph(client, console)
    for asked in QUESTIONS:
        await _ask(client, console, asked)
    console.rule()
    console.print(f"Serving at [bold]{base}[/] (interface: {base}/docs). Ctrl-C ends it. Try:")
    console.print(
        f"  curl -F files=@your.pdf {base}/documents\n"
        f"  curl {base}/query -H 'content-type: application/json' "
        "-d '{\"query\": \"…\", \"mode\": \"mix\"}'",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


async def _upload(client: httpx.AsyncClient, console: Console) -> None:
    paths = sorted(p for p in SAMPLES.iterdir() if p.is_file() and p.name != "README.md")
    files = [("files", (path.name, path.read_bytes())) for path in paths]
    reply = await _json(client, "POST", "/documents", files=files)
    ids = [document["id"] for document in reply["documents"]]
    with Progress(
        TextColumn("{task.fields[name]:<34}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"), console=console,
    ) as progress:  # fmt: skip
        bars = {
            one["id"]: progress.add_task("", name=one["name"], status=one["status"], total=1)
            for one in reply["documents"]
        }
        await asyncio.gather(*(_follow(client, progress, bars[one], one) for one in ids))


async def _follow(client: httpx.AsyncClient, progress: Progress, bar: Any, document: str) -> None:
    while True:
        seen = await _json(client, "GET", f"/documents/{document}")
        status, counts = seen["status"], seen["progress"]
        total = max(counts["total"], 1)
        done = total if status in FINAL else counts["done"]
        text = seen["error"]["message"] if seen["error"] else status
        progress.update(bar, completed=done, total=total, status=escape(text))
        if status in FINAL:
            return
        await asyncio.sleep(0.2)


async def _graph(client: httpx.AsyncClient, console: Console) -> None:
    stats = await _json(client, "GET", "/graph/stats")
    found = await _json(client, "GET", "/graph/entities", params={"limit": 12})
    table = Table(
        title=f"The graph: {stats['entities']} entities, {stats['relations']} relations, "
        f"{stats['chunks']} chunks"
    )
    for column in ("entity", "type", "mentions", "degree"):
        table.add_column(column)
    for entity in found["entities"]:
        table.add_row(
            escape(entity["name"]), entity["type"], str(entity["mentions"]), str(entity["degree"])
        )
    console.print(table)


async def _ask(client: httpx.AsyncClient, console: Console, asked: Asked) -> None:
    body = {"query": asked.query, "mode": asked.mode, "top_k": 20, "chunk_top_k": 8}
    reply = await _json(client, "POST", "/query", json=body)
    lines = [escape(reply["answer"])]
    if reply["citations"]:
        lines.append("")
    for one in reply["citations"]:
        page = f", page {one['page']}" if one["page"] else ""
        lines.append(
            f"[dim]\\[{one['number']}] {escape(one['document_name'])}{page}, "
            f"characters {one['start']}–{one['end']}[/]"
        )
    took = reply["timings_ms"]["total"]
    console.print(
        Panel(
            "\n".join(lines),
            title=f"[bold]{escape(asked.query)}[/]",
            title_align="left",
            subtitle=f"mode {asked.mode}, {took:.0f} ms",
            subtitle_align="right",
        )
    )


async def _json(client: httpx.AsyncClient, method: str, path: str, **request: Any) -> Any:
    reply = await client.request(method, path, **request)
    if reply.status_code == httpx.codes.UNAUTHORIZED:
        raise Unauthenticated(
            "The samples are shown without an API key, and this service has one. `make serve` "
            "serves it; HELIOGRAPH_DATA_DIR names another folder for the samples."
        )
    if reply.is_error:
        raise AppError(f"{method} {path}: {reply.status_code} {reply.text[:300]}")
    return reply.json()


def _hint(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise SystemExit("python -m workers.demo takes no arguments; settings: .env.example")


if __name__ == "__main__":
    _hint(sys.argv)
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(asyncio.run(main()))
