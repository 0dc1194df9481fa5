"""Commands of the operator that make anew what is derived: a graph from what was read, vectors from
the graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from app.api.deps import WORKSPACE
from app.errors import Invalid, Unavailable
from app.settings import load
from app.upkeep.reindex import reindex
from app.wiring import embedded_queue, open_services


def install(cli: typer.Typer, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    """Add the commands; `run` carries a coroutine out and turns its errors into sentences."""

    @cli.command("rebuild")
    def fold_anew(
        workspace: Annotated[str, typer.Argument(help="Workspace to rebuild.")],
    ) -> None:
        """Fold a graph anew from what was read, without reading again. Workers may go on meanwhile;
        with an embedded store ask the service by POST /admin/workspaces/<name>/rebuild."""
        run(_rebuild(workspace))

    @cli.command("reindex")
    def embed_anew(
        discard: Annotated[
            bool,
            typer.Option(
                "--discard",
                help="Only delete vectors that are not in use: half-made ones, a former model's.",
            ),
        ] = False,
    ) -> None:
        """Embed everything anew with the embedding model of the settings, beside the vectors in
        use, then switch over. On a Qdrant server the service goes on meanwhile; embedded vectors
        belong to it: stop it first, or ask it by POST /admin/reindex."""
        run(_discard() if discard else _reindex())


async def _rebuild(workspace: str) -> None:
    from workers.rebuild import rebuild  # noqa: PLC0415  heavy, and no other command needs it
    from workers.runner import Terms  # noqa: PLC0415  as above

    if not re.fullmatch(WORKSPACE, workspace):
        raise Invalid(f"{workspace!r} cannot be a workspace: letters, digits, . _ -, at most 64.")
    settings = load()
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        terms = Terms(settings.lease_seconds, settings.tries)
        job = await rebuild(services, workspace, terms)
    if job.error is not None:
        raise Unavailable(f"The rebuild failed at {job.error.stage}: {job.error.message}")
    if job.state.final:
        typer.echo(f"{workspace} is rebuilt.")
    else:
        typer.echo(f"Workers go on with the job {job.id}.")


async def _reindex() -> None:
    async with embedded_queue(load()) as wired, open_services(wired, reindex=True) as services:
        done = await reindex(services, services.models.embedder)
    typer.echo(f"{done.texts} texts have vectors of {done.model}; {done.embedded} were embedded.")


async def _discard() -> None:
    async with embedded_queue(load()) as wired, open_services(wired, reindex=True) as services:
        for name in await services.vectors.discard():
            typer.echo(f"Deleted {name}.")
