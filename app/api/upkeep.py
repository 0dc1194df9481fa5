"""Care for a workspace: its fingerprint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.deps import WORKSPACE, Administrator, Deployed
from app.api.problems import responses
from app.errors import Forbidden
from app.ports import Workspace
from app.upkeep.fingerprint import Fingerprint, dump, fingerprint

router = APIRouter(prefix="/workspaces/{workspace}")

NDJSON = "application/x-ndjson"


def _workspace(
    workspace: Annotated[
        str, Path(pattern=WORKSPACE, description="Name of the workspace.", examples=["default"])
    ],
    called: Administrator,
    deployed: Deployed,
) -> Workspace:
    if not called.may_use(workspace):
        raise Forbidden(
            f"This key may not use the workspace {workspace}.", code="workspace_forbidden"
        )
    return deployed.services.workspace(workspace)


Kept = Annotated[Workspace, Depends(_workspace)]


class PartBody(BaseModel):
    count: int = Field(description="How many records it has.")
    hash: str = Field(description="Their hash, in which their order does not matter.")


class FingerprintBody(BaseModel):
    workspace: str = Field(description="Name of the workspace.")
    fingerprint: str = Field(description="One hash of everything.")
    parts: dict[str, PartBody] = Field(description="The same of each kind of record.")

    @classmethod
    def of(cls, workspace: str, found: Fingerprint) -> FingerprintBody:
        return cls(
            workspace=workspace,
            fingerprint=found.hash,
            parts={
                name: PartBody(count=part.count, hash=part.hash)
                for name, part in found.parts.items()
            },
        )


@router.get(
    "/fingerprint",
    summary="Fingerprint of a workspace",
    response_model=FingerprintBody,
    responses={
        **responses(401, 403, 422, 503),
        200: {
            "model": FingerprintBody,
            "description": "The hashes; with `dump`, each record as a line of JSON.",
            "content": {NDJSON: {"schema": {"type": "string"}}},
        },
    },
)
async def read_fingerprint(
    workspace: Kept,
    records: Annotated[
        bool, Query(alias="dump", description="Stream the records that it is made of instead.")
    ] = False,
) -> FingerprintBody | StreamingResponse:
    """Equal for equal documents, whatever the stores, the name of the workspace, the order in which
    they came and what was deleted since. It reads everything: seconds for thousands of chunks.
    While documents are on their way it shows a state in between."""
    if records:
        return StreamingResponse(_lines(workspace), media_type=NDJSON)
    return FingerprintBody.of(workspace.name, await fingerprint(workspace))


async def _lines(workspace: Workspace) -> AsyncIterator[str]:
    async for line in dump(workspace):
        yield line + "\n"
