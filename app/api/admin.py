"""API keys and workspaces."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.api import rebuilding, upkeep
from app.api.auth import make_key
from app.api.deps import WORKSPACE, Administrator, Caller, Deployed, JsonOnly
from app.api.fields import Body
from app.api.problems import responses
from app.api.schemas import moment
from app.domain import ApiKey, Scope
from app.errors import Conflict, Forbidden, NotFound

router = APIRouter(prefix="/admin", tags=["admin"])
router.include_router(upkeep.router)
router.include_router(rebuilding.router)


class NewKeyBody(Body):
    """A key to make."""

    scope: Scope = Field(
        Scope.READ, description="What it may do; each scope includes the ones before it."
    )
    workspaces: list[Annotated[str, StringConstraints(pattern=WORKSPACE)]] = Field(
        default_factory=list,
        max_length=100,
        description="Workspaces that it may use; empty means all.",
        examples=[["default"]],
    )
    label: str = Field(
        "", max_length=200, pattern=r"^[^\x00-\x1f]*$", description="What it is for.",
        examples=["reporting"],
    )  # fmt: skip


class KeyBody(BaseModel):
    """A key, without its secret."""

    id: str = Field(description="Id of the key.")
    scope: Scope = Field(description="What it may do.")
    workspaces: list[str] = Field(description="Where; empty means everywhere.")
    label: str = Field(description="What it is for.")
    created_at: datetime = Field(description="When it was made.")

    @classmethod
    def of(cls, key: ApiKey) -> KeyBody:
        return cls(
            id=key.id,
            scope=key.scope,
            workspaces=list(key.workspaces),
            label=key.label,
            created_at=moment(key.created_at),
        )


class MadeKeyBody(KeyBody):
    secret: str = Field(description="The key itself. It is shown this once and not stored.")


class KeyListBody(BaseModel):
    keys: list[KeyBody] = Field(description="All keys that the caller may see.")


class WorkspaceBody(BaseModel):
    name: str = Field(description="Name of the workspace.")


class WorkspaceListBody(BaseModel):
    workspaces: list[WorkspaceBody] = Field(description="Those that hold documents.")


@router.get("/workspaces", summary="List workspaces", responses=responses(401, 403, 503))
async def list_workspaces(called: Administrator, deployed: Deployed) -> WorkspaceListBody:
    """Workspaces that hold documents and that the caller's key may use."""
    names = await deployed.services.keyring.workspaces()
    return WorkspaceListBody(
        workspaces=[WorkspaceBody(name=name) for name in sorted(names) if called.may_use(name)]
    )


@router.get("/keys", summary="List API keys", responses=responses(401, 403, 503))
async def list_keys(called: Administrator, deployed: Deployed) -> KeyListBody:
    keys = await deployed.services.keyring.all()
    return KeyListBody(keys=[KeyBody.of(key) for key in keys if _within(called, key.workspaces)])


@router.post(
    "/keys",
    status_code=201,
    summary="Make an API key",
    dependencies=[JsonOnly],
    responses=responses(400, 401, 403, 415, 422, 503),
)
async def create_key(
    body: NewKeyBody, called: Administrator, deployed: Deployed, response: Response
) -> MadeKeyBody:
    """The secret is in this answer and nowhere else. The first key closes an open service: from
    then on every request needs one, so make it an admin key."""
    if not _within(called, body.workspaces):
        raise Forbidden(
            "A key can make keys only for workspaces that it may use itself.",
            code="workspace_forbidden",
        )
    first = called.key is None
    if first and (body.scope is not Scope.ADMIN or body.workspaces):
        raise Forbidden(
            "The first key must have the scope admin and no workspaces: it closes this service, "
            "and nobody could make or revoke keys any more.",
            code="admin_key_first",
        )
    secret, key = make_key(
        body.label, body.scope, list(dict.fromkeys(body.workspaces)), now=time.time()
    )
    await deployed.services.keyring.add(key)
    deployed.gate.forget()
    response.headers["Cache-Control"] = "no-store"
    return MadeKeyBody(**KeyBody.of(key).model_dump(), secret=secret)


@router.delete(
    "/keys/{key_id}",
    status_code=204,
    summary="Revoke an API key",
    responses=responses(401, 403, 404, 409, 422, 503),
)
async def revoke_key(
    key_id: Annotated[str, Path(max_length=64, description="Id of the key.")],
    called: Administrator,
    deployed: Deployed,
) -> None:
    """Works at once here and within five seconds in other processes."""
    keys = {key.id: key for key in await deployed.services.keyring.all()}
    key = keys.get(key_id)
    if key is None or not _within(called, key.workspaces):
        raise NotFound("There is no such key.")
    if len(keys) == 1:
        raise Conflict(
            "This is the last key; without it the service would be open to whoever reaches it. "
            "Make another one first, or revoke it with: python -m app.cli keys revoke",
            code="last_key",
        )
    await deployed.services.keyring.revoke(key_id)
    deployed.gate.forget()


@router.api_route(
    "/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
)
async def refuse(request: Request, called: Administrator) -> None:
    """Last of all. Who may not administer is told so, and not what there is to administer."""
    scope = {**request.scope, "path": request.url.path.removeprefix("/v1"), "root_path": ""}
    near = [one for one in router.routes if one.matches(scope)[0] is Match.PARTIAL]
    allowed = sorted({method for one in near for method in getattr(one, "methods", None) or ()})
    raise HTTPException(405 if near else 404, headers={"Allow": ", ".join(allowed)} if near else {})


def _within(called: Caller, workspaces: list[str] | tuple[str, ...]) -> bool:
    """Whether a key for these workspaces lies within what the caller may use."""
    if not called.workspaces:
        return True
    return bool(workspaces) and all(called.may_use(name) for name in workspaces)
