"""Care for a workspace: its fingerprint, a copy of it, a copy into it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.deps import WORKSPACE, Administrator, Deployed
from app.api.problems import responses
from app.errors import Forbidden, Unavailable
from app.ports import Workspace
from app.upkeep.backup import backup
from app.upkeep.check import check, repaired
from app.upkeep.container import compressed
from app.upkeep.differences import DOES, Difference
from app.upkeep.fingerprint import Fingerprint, dump, fingerprint
from app.upkeep.restore import restore

router = APIRouter(prefix="/workspaces/{workspace}")

NDJSON = "application/x-ndjson"
TAR = "application/x-tar"
GZIP = "application/gzip"


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


class RestoredBody(BaseModel):
    workspace: str = Field(description="Where it is now.")
    documents: int = Field(description="How many documents it has.")
    chunks: int = Field(description="How many chunks can be found at once.")
    queued: int = Field(description="Documents that were on their way, and wait for a worker.")
    vectors: bool = Field(
        description="Whether vectors came along; those of another embedding model are made anew."
    )


@router.get(
    "/backup",
    summary="Back a workspace up",
    response_class=StreamingResponse,
    responses={
        **responses(401, 403, 422, 503),
        200: {
            "description": "The archive.",
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}} for kind in (TAR, GZIP)
            },
        },
    },
)
async def back_up_workspace(
    workspace: Kept,
    deployed: Deployed,
    gzip: Annotated[bool, Query(description="Compress it.")] = False,
) -> StreamingResponse:
    """Documents, what was read in them, rulings, vectors and files as one tar, for `restore` on any
    stores. The service goes on meanwhile. An archive that was cut off is refused by `restore`. Keys
    are not in it."""
    stream = backup(workspace, deployed.services.models.embedder, now=time.time())
    name = f"{workspace.name}.tar{'.gz' if gzip else ''}"
    return StreamingResponse(
        compressed(stream) if gzip else stream,
        media_type=GZIP if gzip else TAR,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@router.post(
    "/restore",
    status_code=201,
    summary="Restore a workspace",
    responses=responses(400, 401, 403, 409, 413, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "An archive of `backup`, plain or compressed.",
            "content": {TAR: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def restore_workspace(workspace: Kept, request: Request, deployed: Deployed) -> RestoredBody:
    """Fill an empty workspace, under any name. Nothing is stored before the whole archive was
    checked; it is kept in a temporary file until then. One larger than the limit, unpacked, is
    refused (413); a record that no backup writes is named with its line (422 `bad_record`)."""
    with tempfile.TemporaryFile() as file:
        async for piece in request.stream():
            try:
                await asyncio.to_thread(file.write, piece)
            except OSError as error:
                raise Unavailable("There is no room on the disk for this archive.") from error
        done = await restore(
            deployed.services, workspace.name, file, limit=deployed.settings.max_restore_bytes
        )
    return RestoredBody(**asdict(done))


class DifferenceBody(BaseModel):
    area: Literal["graph", "vectors", "blobs", "queue"] = Field(description="Where it is.")
    what: str = Field(description="What differs, in words.")
    repair: str = Field(description="What `repair` does, or did, about it.")

    @classmethod
    def of(cls, one: Difference) -> DifferenceBody:
        return cls(area=one.area, what=one.what, repair=DOES[one.action])


class CheckedBody(BaseModel):
    workspace: str = Field(description="Name of the workspace.")
    differences: list[DifferenceBody] = Field(description="What was found.")
    remaining: list[DifferenceBody] = Field(
        description="What is still there: the same without `repair`, else what it did not mend."
    )


@router.post(
    "/check",
    summary="Check a workspace",
    responses=responses(401, 403, 422, 503),
)
async def check_workspace(
    workspace: Kept,
    called: Administrator,
    deployed: Deployed,
    mend: Annotated[
        bool, Query(alias="repair", description="Mend what can be, then look again.")
    ] = False,
) -> CheckedBody:
    """Compares evidence with what chunks say, counters with evidence, and vectors, files and queue
    with the record. What is found at a first look counts only if a second one, seconds later,
    agrees. Files that no workspace refers to are looked for with a key of all workspaces only."""
    services, everywhere = deployed.services, not called.workspaces
    found = await check(services, workspace, blobs=everywhere)
    remaining = found
    if mend and found:
        remaining = await repaired(services, workspace, found, blobs=everywhere)
    return CheckedBody(
        workspace=workspace.name,
        differences=[DifferenceBody.of(one) for one in found],
        remaining=[DifferenceBody.of(one) for one in remaining],
    )
