"""The HTTP application: settings in, routes out. `python -m app.main` serves it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import uvicorn
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware

from app.api import (
    admin,
    chat,
    communities,
    curation,
    documents,
    evaluations,
    graph,
    jobs,
    ollama,
    openapi,
    operations,
    pages,
    problems,
    query,
)
from app.api.auth import Gate
from app.api.deps import MAKE_A_KEY, Deployment
from app.api.requests import RequestMiddleware
from app.errors import AppError, Misconfigured
from app.ports import Services
from app.settings import Settings, load
from app.telemetry import Metrics, configure_logging

log = logging.getLogger("heliograph.api")

VERSIONED = "/v1"
GRACE_SECONDS = 5  # for requests under way when the process is told to stop


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
    for part in (
        documents, jobs, query, chat, curation, communities, graph, evaluations, admin,
    ):  # fmt: skip
        versioned.include_router(part.router)
    app.include_router(versioned, prefix=VERSIONED)
    app.include_router(versioned, include_in_schema=False)
    app.include_router(ollama.router)
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
        RequestMiddleware,
        metrics=metrics,
        max_upload_bytes=settings.max_upload_bytes,
        max_restore_bytes=settings.max_restore_bytes,
    )
    return app


def _lifespan(
    settings: Settings, services: Services | None, metrics: Metrics
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            opened = services
            if opened is None:
                opened = await stack.enter_async_context(_services(settings))
            await refuse_open_door(settings, opened)
            deployment = Deployment(settings, opened, metrics, Gate(opened.keyring))
            stack.push_async_callback(deployment.reindexing.stop)
            app.state.deployment = deployment
            log.info("serving host=%s port=%d", settings.host, settings.port)
            yield

    return lifespan


@asynccontextmanager
async def _services(settings: Settings) -> AsyncIterator[Services]:
    # Here, so that whoever brings services of their own needs no adapter.
    from app.wiring import open_services  # noqa: PLC0415

    if settings.queue_url.startswith("embedded:"):
        raise Misconfigured(
            "An API of its own needs a queue that workers reach: set HELIOGRAPH_QUEUE_URL to a "
            "Redis or Valkey server, or run `make serve` for all in one process."
        )
    async with open_services(settings) as services:
        yield services


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


async def main() -> None:
    """Serve until SIGTERM or Ctrl-C. Stores and keys are checked before anything listens, so that
    what is wrong is one sentence."""
    settings = load()
    configure_logging(settings.log_level, settings.log_format)
    async with _services(settings) as services:
        await refuse_open_door(settings, services)
        config = uvicorn.Config(
            create_app(settings, services),
            host=settings.host.strip("[]"),
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        # uvicorn raises the signal again once it has stopped; the stores are to be closed first.
        signal.signal(signal.SIGTERM, lambda *_: None)
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except AppError as error:
        raise SystemExit(f"heliograph: {error.detail}") from None
    except KeyboardInterrupt:
        pass
