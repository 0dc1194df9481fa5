"""Commands of the operator that look after what is stored.

Where vectors or queue are embedded they belong to one process: stop the service first, or ask it by
its admin endpoints.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from app.api.deps import WORKSPACE
from app.errors import Invalid, NotFound
from app.ports import Services
from app.settings import load
from app.upkeep.backup import backup
from app.upkeep.check import check, repaired
from app.upkeep.container import compressed
from app.upkeep.difference import difference
from app.upkeep.fingerprint import Fingerprint, dump
from app.upkeep.restore import Restored, restore
from app.upkeep.verify import header
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

    @cli.command("backup")
    def write_backup(
        workspace: Annotated[str, typer.Argument(help="Workspace to write.")],
        file: Annotated[
            Path,
            typer.Argument(
                help="Where to; - for standard output.", dir_okay=False, allow_dash=True
            ),
        ],
        gzip: Annotated[
            bool, typer.Option("--gzip", help="Compress; a name that ends with .gz does it too.")
        ] = False,
    ) -> None:
        """Write a workspace as one archive: documents, what was read in them, vectors, files."""
        with _written(file) as out:
            run(_backup(workspace, out, packed=gzip or file.suffix == ".gz"))

    @cli.command("restore")
    def read_backup(
        file: Annotated[
            Path,
            typer.Argument(
                help="An archive; - for standard input.",
                exists=True,
                dir_okay=False,
                allow_dash=True,
            ),
        ],
        workspace: Annotated[
            str, typer.Option(help="Empty workspace to fill; else the one of the archive.")
        ] = "",
    ) -> None:
        """Fill an empty workspace from an archive, on whatever stores are set."""
        with _read(file) as source:
            run(_restore(source, workspace))

    @cli.command("clone")
    def copy_workspace(
        workspace: Annotated[str, typer.Argument(help="Workspace to copy.")],
        new: Annotated[str, typer.Argument(help="Empty workspace to fill.")],
    ) -> None:
        """Copy a workspace, without a model call."""
        run(_clone(workspace, new))

    @cli.command("check")
    def compare(
        workspace: One = "",
        mend: Annotated[
            bool, typer.Option("--repair", help="Mend what can be, then look again.")
        ] = False,
    ) -> None:
        """Compare graph, vectors, files and queue with the record; status 1 if differences remain.
        Safe while the service runs: what is in motion is looked at twice."""
        if run(_check(workspace, mend=mend)):
            raise typer.Exit(1)


async def _check(workspace: str, *, mend: bool) -> int:
    remaining = 0
    async with _services() as services:
        for place, name in enumerate(await _names(services, workspace)):
            space = services.workspace(name)
            found = await check(services, space, blobs=not place)  # files belong to all of them
            for one in found:
                typer.echo(f"{name}: {one}")
            if found and mend:
                found = await repaired(services, space, found, blobs=not place)
                for one in found:
                    typer.echo(f"{name}: remains: {one}")
            remaining += len(found)
    if not remaining:
        typer.echo("No difference.")
    return remaining


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


async def _backup(workspace: str, out: IO[bytes], *, packed: bool) -> None:
    async with _services() as services:
        await _refuse_nothing(services, workspace)
        stream = backup(services.workspace(workspace), services.models.embedder, now=time.time())
        async for piece in compressed(stream) if packed else stream:
            out.write(piece)


async def _restore(source: IO[bytes], workspace: str) -> None:
    name = workspace or header(source).workspace
    async with _services() as services:
        await _names(services, name)
        _tell(await restore(services, name, source))


@contextmanager
def _written(file: Path) -> Iterator[IO[bytes]]:
    """A file gets its name once it is whole."""
    if str(file) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    draft = file.with_name(f"{file.name}.part")
    try:
        with draft.open("wb") as out:
            yield out
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _read(file: Path) -> Iterator[IO[bytes]]:
    """Seekable: what comes from a pipe goes to the disk first."""
    if str(file) != "-":
        with file.open("rb") as source:
            yield source
        return
    with tempfile.TemporaryFile() as spooled:
        shutil.copyfileobj(sys.stdin.buffer, spooled)
        yield spooled


async def _clone(workspace: str, new: str) -> None:
    async with _services() as services:
        await _names(services, new)
        await _refuse_nothing(services, workspace)
        with tempfile.TemporaryFile() as file:
            space, embedder = services.workspace(workspace), services.models.embedder
            async for piece in backup(space, embedder, now=time.time()):
                file.write(piece)
            _tell(await restore(services, new, file))


def _tell(done: Restored) -> None:
    typer.echo(f"{done.documents} documents and {done.chunks} chunks are in {done.workspace}.")
    if done.queued:
        typer.echo(f"{done.queued} of them were on their way and wait for a worker.")
    if not done.vectors:
        typer.echo("Their vectors are of another embedding model: a worker makes them anew.")


async def _refuse_nothing(services: Services, workspace: str) -> None:
    [name] = await _names(services, workspace)
    if not await services.workspace(name).documents.page(limit=1):
        raise NotFound(f"The workspace {name} has no documents.")


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
