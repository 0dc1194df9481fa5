"""API and worker in one process, with the bundled Valkey: `make serve` and `make run` start it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn

from app.errors import AppError, Misconfigured
from app.main import create_app, refuse_open_door
from app.settings import Settings, load
from app.telemetry import configure_logging
from app.wiring import embedded_queue, open_services
from workers.main import working


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
    """The whole service, listening once the context is entered; yields the task that ends when it
    was told to stop (Ctrl-C, SIGTERM)."""
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(_listener(settings))
        settings = await stack.enter_async_context(embedded_queue(settings))
        services = await stack.enter_async_context(open_services(settings))
        await refuse_open_door(settings, services)
        app = create_app(settings, services)
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5)
        )
        worker = await stack.enter_async_context(working(services, settings))
        # uvicorn raises the signal again once it has stopped; the stores are to be closed first.
        signal.signal(signal.SIGTERM, lambda *_: None)
        served = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await _until_up(server, served, worker)
            yield served
        finally:
            server.should_exit = True
            await served


async def _until_up(
    server: uvicorn.Server, served: asyncio.Task[None], worker: asyncio.Task[None]
) -> None:
    while not server.started:
        for task in (served, worker):
            if task.done():
                await task
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def _listener(settings: Settings) -> Iterator[socket.socket]:
    """Bound before anything else starts, so that a taken port is one clear sentence."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on connections; else replies wait 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host.strip("[]"), settings.port))
        except OSError as error:
            raise Misconfigured(
                f"Cannot listen on {settings.host}:{settings.port} ({error.strerror}). "
                "Choose another with HELIOGRAPH_HOST and HELIOGRAPH_PORT."
            ) from error
        yield listener


async def main() -> None:
    settings = load()
    configure_logging(settings.log_level, settings.log_format)
    async with serving(settings) as stopped:
        await stopped


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except AppError as error:
        raise SystemExit(f"heliograph: {error.detail}") from None
    except KeyboardInterrupt:
        pass
