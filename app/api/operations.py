"""For operators: alive, ready, counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from app import __version__
from app.api.deps import Deployed
from app.domain import Plan, State
from app.errors import AppError
from app.notices import NO_ENTITIES
from app.ports import Pingable, Services

router = APIRouter(tags=["operations"])

PATIENCE = 5.0  # seconds until a silent dependency counts as away
RECENT = 10  # documents whose warnings, if all alike, deserve a notice
LOOKED_AT = 20  # workspaces


class AliveBody(BaseModel):
    status: Literal["ok"] = Field(description="Always ok: the process answers.")
    version: str = Field(description="Version of the service.")


class DependencyBody(BaseModel):
    ok: bool = Field(description="Whether it answers.")
    version: str | None = Field(description="Its version.")
    latency_ms: float = Field(description="How long its answer took.")
    error: str | None = Field(description="What is wrong with it.")


class ReadyBody(BaseModel):
    ready: bool = Field(description="Whether all dependencies answer.")
    dependencies: dict[str, DependencyBody] = Field(description="Each by its name.")
    notices: list[str] = Field(description="What works and still deserves a look.")


def version() -> str:
    return __version__


@router.get("/healthz", summary="Is the process alive?")
async def healthz() -> AliveBody:
    return AliveBody(status="ok", version=version())


@router.get(
    "/readyz",
    summary="Can it do its work?",
    responses={503: {"model": ReadyBody, "description": "A dependency is away."}},
)
async def readyz(deployed: Deployed) -> Response:
    """Asks every store, queue and model server for its version."""
    dependencies = await _ask_all(deployed.services.dependencies)
    ready = all(one.ok for one in dependencies.values())
    notices = await _notices(deployed.services) if ready else []
    if scorers := deployed.services.models.scorers:
        notices += scorers.notices()
    body = ReadyBody(ready=ready, dependencies=dependencies, notices=notices)
    return JSONResponse(body.model_dump(), status_code=200 if ready else 503)


async def _notices(services: Services) -> list[str]:
    """Names no workspace: this answers without a key."""
    try:
        async with asyncio.timeout(PATIENCE):
            names = (await services.keyring.workspaces())[:LOOKED_AT]
            weak = sum([await _finds_nothing(services, name) for name in names])
    except (AppError, TimeoutError):
        return []
    if not weak:
        return []
    return [
        f"{NO_ENTITIES}in {weak} workspace{'s' if weak > 1 else ''} the model found no entity in "
        f"any of the last {RECENT} documents; it may be too weak for extraction"
    ]


async def _finds_nothing(services: Services, workspace: str) -> bool:
    """Whether the last documents that became ready all carry that warning."""
    jobs = await services.journal.jobs(workspace, state=State.DONE, limit=2 * RECENT)
    latest = dict.fromkeys(job.document_id for job in jobs if job.plan is Plan.INGEST)
    found = await services.workspace(workspace).documents.many(list(latest)[:RECENT])
    return len(found) == RECENT and all(
        any(warning.startswith(NO_ENTITIES) for warning in one.warnings) for one in found
    )


async def _ask_all(dependencies: Mapping[str, Pingable]) -> dict[str, DependencyBody]:
    answers = await asyncio.gather(*(_ask(one) for one in dependencies.values()))
    return dict(zip(dependencies, answers, strict=True))


async def _ask(dependency: Pingable) -> DependencyBody:
    began = time.perf_counter()
    found, error = None, None
    try:
        async with asyncio.timeout(PATIENCE):
            found = await dependency.ping()
    except AppError as away:
        error = away.detail
    except TimeoutError:
        error = f"No answer within {PATIENCE:.0f} seconds."
    latency = round((time.perf_counter() - began) * 1000, 1)
    return DependencyBody(ok=error is None, version=found, latency_ms=latency, error=error)


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
)
async def metrics(deployed: Deployed) -> Response:
    try:
        async with asyncio.timeout(PATIENCE):
            deployed.metrics.queue_depth.set(await deployed.services.queue.depth())
    except (AppError, TimeoutError):
        deployed.metrics.queue_depth.set(float("nan"))
    return Response(deployed.metrics.render(), media_type=CONTENT_TYPE_LATEST)
