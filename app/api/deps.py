"""Who calls, for which workspace: the annotated arguments of the routes."""

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Header, Path, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from app.api import error_shapes
from app.api.auth import Gate
from app.api.budget import Budget
from app.api.requests import SLASH
from app.domain import ApiKey, Scope
from app.errors import AppError, Forbidden, Invalid, Unauthenticated, Unavailable
from app.ports import Services, Workspace
from app.settings import Settings
from app.telemetry import Metrics
from app.upkeep.reindexing import Reindexing

WORKSPACE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
MAKE_A_KEY = "python -m app.cli keys create --scope admin"


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a process serves with."""

    settings: Settings
    services: Services
    metrics: Metrics
    gate: Gate
    uploads: Budget = field(default_factory=Budget)
    reindexing: Reindexing = field(default_factory=Reindexing)


@dataclass(frozen=True, slots=True)
class Caller:
    """`key` is None where the service is open."""

    key: ApiKey | None

    @property
    def workspaces(self) -> tuple[str, ...]:
        """Empty: all of them."""
        return self.key.workspaces if self.key else ()

    def may(self, scope: Scope) -> bool:
        order = list(Scope)
        return self.key is None or order.index(self.key.scope) >= order.index(scope)

    def may_use(self, workspace: str) -> bool:
        return not self.workspaces or workspace in self.workspaces


def deployment(request: Request) -> Deployment:
    found = getattr(request.app.state, "deployment", None)
    if not isinstance(found, Deployment):
        raise Unavailable("The service is starting.", code="starting", retry_after=1)
    return found


Deployed = Annotated[Deployment, Depends(deployment)]

_bearer = HTTPBearer(
    auto_error=False, scheme_name="Bearer", description="An API key as bearer token."
)
_header = APIKeyHeader(
    name="X-API-Key", auto_error=False, scheme_name="ApiKey", description="The same key."
)


async def caller(
    request: Request,
    deployed: Deployed,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    header: Annotated[str | None, Depends(_header)],
) -> Caller:
    secret = bearer.credentials if bearer else header
    if secret:
        key = await deployed.gate.key(secret)
        if key is not None:
            return Caller(key)
        detail = "This API key is unknown or was revoked."
        if not await deployed.gate.has_keys():
            if _is_placeholder_sent(request):
                _only_from_here(request, deployed.settings)
                return Caller(None)
            detail += " The service has no keys yet: leave it out, or make one (see the README)."
        raise Unauthenticated(detail, code="unknown_key")
    if await deployed.gate.has_keys():
        raise Unauthenticated("Send an API key as `Authorization: Bearer <key>` or `X-API-Key`.")
    _only_from_here(request, deployed.settings)
    return Caller(None)


Called = Annotated[Caller, Depends(caller)]


def _is_placeholder_sent(request: Request) -> bool:
    """Where there are no keys: OpenAI's clients cannot leave theirs out, so it means nothing."""
    return error_shapes.of_path(request.scope["path"]) is not None


def _only_from_here(request: Request, settings: Settings) -> None:
    """An open service answers on loopback only, and only what a browser may not have been tricked
    into: a foreign web page could otherwise post to it, or read it through a rebound name."""
    server = request.scope.get("server")
    if server and server[1] is not None and not _is_loopback(server[0]):
        raise Forbidden(
            f"Without API keys this service answers on loopback only. Make a key: {MAKE_A_KEY}",
            code="keys_required",
        )
    host = _netloc(f"//{request.headers.get('host', '')}", host_only=True)
    if host and not _is_loopback(host):
        raise Forbidden(
            f"Without API keys this service answers to localhost only. Make a key: {MAKE_A_KEY}",
            code="keys_required",
        )
    origin = request.headers.get("origin")
    foreign = origin and _netloc(origin) != request.headers.get("host")
    if foreign and origin not in settings.cors_origins:
        raise Forbidden(
            "Without API keys, pages of other sites may not call this service.",
            code="foreign_origin",
        )


def _netloc(url: str, *, host_only: bool = False) -> str:
    """Of an address that anyone may have made up; what cannot be read is nowhere near."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if host_only else parts.netloc
    except ValueError:
        return "unreadable"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _needs(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    async def check(called: Called) -> Caller:
        if not called.may(scope):
            raise Forbidden(
                f"This key has the scope {called.key.scope if called.key else ''}; "
                f"{scope} is needed.",
                code="scope_missing",
            )
        return called

    return check


def _workspace(scope: Scope) -> Callable[..., Awaitable[Workspace]]:
    async def choose(
        request: Request,
        deployed: Deployed,
        called: Annotated[Caller, Depends(_needs(scope))],
        x_workspace: Annotated[
            str | None,
            Header(
                alias="X-Workspace",
                description="Workspace to use, where a key may use several.",
                pattern=WORKSPACE,
                examples=["default"],
            ),
        ] = None,
    ) -> Workspace:
        name = x_workspace or _usual(called, deployed.settings.default_workspace)
        if not called.may_use(name):
            raise Forbidden(
                f"This key may not use the workspace {name}.", code="workspace_forbidden"
            )
        request.state.workspace = name
        return deployed.services.workspace(name)

    return choose


def _usual(called: Caller, default: str) -> str:
    if called.may_use(default):
        return default
    if len(called.workspaces) == 1:
        return called.workspaces[0]
    raise Invalid(
        "This key may use several workspaces; choose one with the header X-Workspace: "
        + ", ".join(called.workspaces),
        code="workspace_needed",
    )


Readable = Annotated[Workspace, Depends(_workspace(Scope.READ))]
Writable = Annotated[Workspace, Depends(_workspace(Scope.WRITE))]
Administrator = Annotated[Caller, Depends(_needs(Scope.ADMIN))]
READER = Depends(_needs(Scope.READ))  # for what is the same in all workspaces


async def json_only(request: Request) -> None:
    """Refuse bodies that are not JSON before their fields are called missing."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise _WrongContentType(
            f"Send the body as application/json, not as {kind[:80] or 'an unnamed type'}."
        )


class _WrongContentType(AppError):
    status, code = 415, "unsupported_content_type"
    title = "Unsupported content type"


JsonOnly = Depends(json_only)


def plain(value: str) -> str:
    """A path parameter with its slashes back (see `requests.RequestMiddleware`)."""
    return value.replace(SLASH, "/")


def _document_id(
    document_id: Annotated[
        str,
        Path(description="Id of a document; percent-encode slashes.", max_length=512),
    ],
) -> str:
    return plain(document_id)


def _entity_id(
    entity_id: Annotated[
        str,
        Path(max_length=2048, description="Id or name of an entity; percent-encode slashes."),
    ],
) -> str:
    return plain(entity_id)


DocumentId = Annotated[str, Depends(_document_id)]
EntityId = Annotated[str, Depends(_entity_id)]
JobId = Annotated[str, Path(description="Id of a job.", max_length=64)]
ChunkId = Annotated[str, Path(description="Id of a chunk.", max_length=64)]
