"""Commands of the operator that look after what is stored.

Where vectors or queue are embedded they belong to one process: stop the service first, or ask it by
its admin endpoints.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from app.api.deps import WORKSPACE
from app.errors import Invalid
from app.ports import Services
from app.settings import load
from app.upkeep.difference import difference
from app.upkeep.fingerprint import Fingerprint, dump
from app.wiring import embedded_queue, open_services

Run = Callable[[Coroutine[Any, Any, Any]], Any]
One = Annotated[str, typer.Option(help="Only this workspace; else all that hold documents.")]


def install(cli: typer.Typer, run: Run) -> None:
    """Add the commands; `run` carries a coroutine out and turns its errors into sentences."""

    @cli.command("fingerprint")
    def show_fingerprint(
        workspace: One = "",
        dump: Annotated[
            Path | None, typer.Option(help="Write the records here, for `diff`.", dir_okay=False)
        ] = None,
    ) -> None:
        """Print one hash of all that is stored of a workspace, and of each part of it."""
        run(_fingerprint(workspace, dump))

    @cli.command("diff")
    def show_difference(
        ours: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
        theirs: Annotated[Path, typer.Argument(exists=True, dir_okay=False)],
    ) -> None:
        """Name what differs between two dumps of `fingerprint`; status 1 if anything does."""
        if run(_difference(ours, theirs)):
            raise typer.Exit(1)


async def _fingerprint(workspace: str, file: Path | None) -> None:
    async with _services() as services:
        names = await _names(services, workspace)
        if file is not None and len(names) != 1:
            raise Invalid("A dump is of one workspace: name it with --workspace.")
        for name in names:
            found = Fingerprint()
            with ExitStack() as stack:
                out = file and stack.enter_context(file.open("w", encoding="utf-8"))
                async for line in dump(services.workspace(name), found):
                    if out:
                        out.write(line + "\n")
            typer.echo(f"{found.hash}  {name}")
            for part, counted in found.parts.items():
                typer.echo(f"  {part:<12} {counted.count:>8}  {counted.hash[:16]}")


async def _difference(ours: Path, theirs: Path) -> int:
    found = 0
    with ours.open(encoding="utf-8") as one, theirs.open(encoding="utf-8") as other:
        for line in difference(one, other):
            typer.echo(line)
            found += 1
    return found


async def _names(services: Services, workspace: str) -> list[str]:
    if not workspace:
        return sorted(await services.keyring.workspaces())
    if not re.fullmatch(WORKSPACE, workspace):
        raise Invalid(f"{workspace!r} cannot be a workspace: letters, digits, . _ -, at most 64.")
    return [workspace]


@asynccontextmanager
async def _services() -> AsyncIterator[Services]:
    async with embedded_queue(load()) as wired, open_services(wired) as services:
        yield services
