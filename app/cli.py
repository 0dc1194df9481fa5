"""`heliograph`: what an operator does beside the API."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer

from app import commands, evaluate_commands, renew_commands
from app.api.auth import make_key
from app.api.deps import WORKSPACE
from app.domain import ApiKey, Scope
from app.errors import AppError, Invalid, NotFound
from app.settings import load
from app.telemetry import configure_logging
from app.wiring import open_keyring

T = TypeVar("T")

cli = typer.Typer(
    name="heliograph",
    help="Questions over your documents. Settings: HELIOGRAPH_… variables or .env (.env.example).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
keys = typer.Typer(help="API keys. They work on the store, whether the service runs or not.")
cli.add_typer(keys, name="keys", no_args_is_help=True)


@cli.command()
def serve() -> None:
    """API and worker in one process. For several hosts: uvicorn app.main:create_app, arq."""
    from workers import standalone  # noqa: PLC0415  heavy, and no other command needs it

    try:
        _run(standalone.main())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@cli.command()
def migrate() -> None:
    """Bring the schema of the graph store up to date."""
    from migrations.__main__ import main as run_migrations  # noqa: PLC0415  as above

    raise typer.Exit(run_migrations())


@keys.command("create")
def create_key(
    scope: Annotated[
        Scope, typer.Option(help="What it may do; each includes the ones before.")
    ] = Scope.READ,
    workspace: Annotated[
        list[str] | None, typer.Option(help="Workspace that it may use; repeat it. None: all.")
    ] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
) -> None:
    """Make a key and print it, this once. The first key closes an open service within seconds."""
    key_id, secret = _run(_create(scope, workspace or [], label))
    typer.echo(f"Key {key_id} ({scope}). Keep this secret, it is not stored:", err=True)
    typer.echo(secret)


@keys.command("list")
def list_keys() -> None:
    """Show all keys, without their secrets."""
    for key in _run(_all()):
        made = datetime.fromtimestamp(key.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        where = ",".join(key.workspaces) or "all workspaces"
        typer.echo(f"{key.id}  {key.scope:<5}  {made}  {where}  {key.label}".rstrip())


@keys.command("revoke")
def revoke_key(key_id: Annotated[str, typer.Argument(help="Id, as `keys list` shows it.")]) -> None:
    """Make a key useless, everywhere, within five seconds."""
    last = _run(_revoke(key_id))
    typer.echo(f"Revoked {key_id}.")
    if last:
        typer.echo(
            "That was the last key: the service is open again, and answers on loopback only.",
            err=True,
        )


async def _create(scope: Scope, workspaces: list[str], label: str) -> tuple[str, str]:
    for name in workspaces:
        if not re.fullmatch(WORKSPACE, name):
            raise Invalid(f"{name!r} cannot be a workspace: letters, digits, . _ -, at most 64.")
    async with open_keyring(load()) as keyring:
        if not await keyring.all() and (scope is not Scope.ADMIN or workspaces):
            raise Invalid(
                "The first key closes the service, so it must be able to make others: "
                "use --scope admin and no --workspace."
            )
        secret, key = make_key(label, scope, workspaces, now=time.time())
        await keyring.add(key)
    return key.id, secret


async def _all() -> list[ApiKey]:
    async with open_keyring(load()) as keyring:
        return await keyring.all()


async def _revoke(key_id: str) -> bool:
    async with open_keyring(load()) as keyring:
        if not await keyring.revoke(key_id):
            raise NotFound(f"There is no key {key_id}.")
        return not await keyring.all()


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except AppError as error:
        typer.echo(f"heliograph: {error.detail}", err=True)
        raise typer.Exit(1) from None


commands.install(cli, _run)
renew_commands.install(cli, _run)
evaluate_commands.install(cli, _run)


def main() -> None:
    configure_logging("WARNING", "text")
    cli()


if __name__ == "__main__":
    main()
