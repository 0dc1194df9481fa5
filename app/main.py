"""The HTTP application: settings in, routes out."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware

from app.api import admin, documents, graph, jobs, openapi, operations, pages, problems, query
from app.api.auth import Gate
from app.api.deps import MAKE_A_KEY, Deployment
from app.api.requests import RequestMiddleware
from app.errors import Misconfigured
from app.ports import Services
from app.settings import Settings, load
from app.telemetry import Metrics, configure_logging

log = logging.getLogger("heliograph.api")

VERSIONED = "/v1"


def create_app(settings: Settings | None = None, services: Services | None = None) -> FastAPI:
    """The service as an ASGI application. Without `services` it opens what the settings name for as
    long as it runs. Raises `Misconfigured`."""
    if settings is None:
        settings = load()
        configure_logging(settings.log_level, settings.log_format)
    metrics = Metrics()
    app = FastAPI(
        title="Heliograph",
        summary="Questions over your documents, answered from a knowledge graph with citations.",
        description=openapi.DESCRIPTION,
        version=operations.version(),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(settings, services, metrics),
        generate_unique_id_function=_operation_id,
        telemetry={"logs": False},  # they would hold validation failures, hence document text
    )
    if services is not None:
        app.state.deployment = Deployment(settings, services, metrics, Gate(services.keyring))
    problems.install(app)
    pages.install(app)
    app.include_router(operations.router)
    versioned = APIRouter()
    for router in (documents.router, jobs.router, query.router, graph.router, admin.router):
        versioned.include_router(router)
    app.include_router(versioned, prefix=VERSIONED)
    app.include_router(versioned, include_in_schema=False)
    openapi.install(app)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "X-API-Key",
                           "X-Request-ID", "X-Workspace"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )  # fmt: skip
    app.add_middleware(
        RequestMiddleware, metrics=metrics, max_upload_bytes=settings.max_upload_bytes
    )
    return app


def _lifespan(settings: Settings, services: Services | None, metrics: Metrics):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            opened = services
            if opened is None:
                # Here, so that whoever brings services of their own needs no adapter.
                from app.wiring import open_services  # noqa: PLC0415

                opened = await stack.enter_async_context(open_services(settings))
            await refuse_open_door(settings, opened)
            app.state.deployment = Deployment(settings, opened, metrics, Gate(opened.keyring))
            log.info("serving host=%s port=%d", settings.host, settings.port)
            yield

    return lifespan


async def refuse_open_door(settings: Settings, services: Services) -> None:
    """Without any API key the service listens on loopback only."""
    if settings.on_loopback or await services.keyring.all():
        return
    raise Misconfigured(
        f"HELIOGRAPH_HOST is {settings.host}, but there is no API key, so anyone could read and "
        f"delete everything. Make one first: {MAKE_A_KEY}"
    )


def _operation_id(route: APIRoute) -> str:
    return route.name
