"""The worker: `python -m workers.main`, or `arq workers.main.WorkerSettings`.

arq only carries step ids. Its time-out, tries and results are not used: a claim in the journal is
a lease with a heartbeat, and what arq loses or doubles, the sweep and the claim put right. The
first way goes on through a queue server that is away; started by its own command, arq ends then,
and whoever watches it starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

from arq.worker import Worker, func

from app.errors import AppError, Misconfigured
from app.ports import Services
from app.settings import Settings, load
from app.telemetry import configure_logging
from app.together import to_its_end
from app.upkeep.litter import FOLDERS, Litter
from app.wiring import arq_options, open_services
from workers.crew import Crew
from workers.runner import Terms, holders_first, sweep

log = logging.getLogger("heliograph.worker")

CLEAR_SECONDS = 60.0
ANY_WORKSPACE = "default"  # files are of all of them
SWEEP_SECONDS = 10.0  # at most; with a shorter lease a third of it
RESTART_SECONDS = 1.0
LEAVE_SECONDS = 5.0  # for steps under way when the process is told to stop
POLL_SECONDS = 0.05
HANDS = 4  # tickets between queue and claim at a time; steps under way are the crew's to count


async def run_step(context: dict[str, Any], step_id: str) -> None:
    """The one function that arq calls."""
    await context["crew"].take(step_id)


class StepWorker(Worker):
    """arq's worker, but for that it leaves to others what its own crew has no place for."""

    async def start_jobs(self, job_ids: list[bytes]) -> None:
        crew: Crew = self.ctx["crew"]
        for job_id in job_ids:
            await crew.vacancy(lambda: self.job_counter)
            await super().start_jobs([job_id])


def arq_settings(settings: Settings) -> dict[str, Any]:
    """Arguments of arq's worker."""
    return {
        **arq_options(settings),
        "functions": [func(cast(Any, run_step), name="run_step", max_tries=1_000_000)],
        "max_jobs": HANDS,
        "keep_result": 0,
        "poll_delay": POLL_SECONDS,
        "log_results": False,
    }


@contextlib.asynccontextmanager
async def working(services: Services, settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
    """A worker inside this process, over services that are open already; yields its task."""
    terms = _terms(settings)
    crew = Crew(services, terms, settings.max_jobs)
    sweeper = asyncio.create_task(_sweep_for_ever(services, terms))
    clearer = asyncio.create_task(_clear_for_ever(services))
    running = asyncio.create_task(_work_for_ever(crew, settings))
    try:
        yield running
    finally:
        await _end(sweeper, clearer, running)
        await crew.leave(LEAVE_SECONDS)


async def _end(*tasks: asyncio.Task[None]) -> None:
    """Told again until they hear: cancelled while its server is away, the client of Redis may raise
    an error of its own in place of the cancellation."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=RESTART_SECONDS)


async def _work_for_ever(crew: Crew, settings: Settings) -> None:
    """arq ends when the queue server is away for a moment; the service would go on without a
    worker. It cancels its jobs then and waits for them: awaited here and not in a task of its own,
    it would end this loop as if that had been cancelled."""
    while True:
        worker = StepWorker(**arq_settings(settings), ctx={"crew": crew}, handle_signals=False)
        try:
            await to_its_end(worker.async_run(), _end)
        except Exception as error:  # arq's, whatever it is: steps never raise
            log.warning("worker.restart error=%s", type(error).__name__, exc_info=True)
        finally:
            with contextlib.suppress(Exception):  # arq closes what is closed already
                await to_its_end(worker.close(), _end)
        await asyncio.sleep(RESTART_SECONDS)


def _terms(settings: Settings) -> Terms:
    return Terms(lease=settings.lease_seconds, tries=settings.tries)


async def _sweep_for_ever(services: Services, terms: Terms) -> None:
    pause = min(SWEEP_SECONDS, terms.lease / 3)
    while True:
        try:
            await sweep(services, terms)
        except AppError as error:
            log.warning("sweep.failed code=%s", error.code)
            await _back(services, terms)
        except Exception:  # a bug must not end what every lost message relies on
            log.exception("sweep.bug")
        await asyncio.sleep(pause)


async def _clear_for_ever(services: Services) -> None:
    """Files that nobody refers to, of all workspaces, a slice at a time."""
    litter = Litter(random.randrange(FOLDERS))
    while True:
        await asyncio.sleep(CLEAR_SECONDS)
        try:
            await litter.clear(services.workspace(ANY_WORKSPACE))
        except AppError as error:
            log.warning("clear.failed code=%s", error.code)
        except Exception:
            log.exception("clear.bug")


async def _back(services: Services, terms: Terms) -> None:
    """Wait until the store is back and whoever holds a lease has renewed it."""
    while True:
        await asyncio.sleep(min(1.0, terms.lease / 3))
        with contextlib.suppress(AppError):
            await services.journal.overdue(limit=1, lease=terms.lease)
            break
    await asyncio.sleep(holders_first(terms.lease))


# --- a process of its own ------------------------------------------------------------------------


async def main() -> None:
    """Work until told to stop (Ctrl-C, SIGTERM)."""
    settings = _settings()
    stop = asyncio.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sign, stop.set)
    async with open_services(settings) as services, working(services, settings) as running:
        log.info("worker.started max_jobs=%d", settings.max_jobs)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, running}, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.done():  # a bug: whoever watches us starts us again
            raise SystemExit("heliograph: the worker has ended by itself")


def _settings() -> Settings:
    settings = load()
    if settings.queue_url.startswith("embedded:"):
        raise Misconfigured(
            "A worker of its own needs a queue that both reach: set HELIOGRAPH_QUEUE_URL to a "
            "Redis or Valkey server, or run `make serve` for all in one process."
        )
    configure_logging(settings.log_level, settings.log_format)
    return settings


# --- by arq's own command ------------------------------------------------------------------------


async def _start(context: dict[str, Any]) -> None:
    await arq_options(context["settings"])["on_startup"](context)
    settings = context["settings"]
    stack = context["stack"] = AsyncExitStack()
    services = await stack.enter_async_context(open_services(settings))
    terms = _terms(settings)
    context["crew"] = Crew(services, terms, settings.max_jobs)
    context["sweeper"] = asyncio.create_task(_sweep_for_ever(services, terms))
    context["clearer"] = asyncio.create_task(_clear_for_ever(services))
    log.info("worker.started max_jobs=%d", settings.max_jobs)


async def _stop(context: dict[str, Any]) -> None:
    if sweeper := context.get("sweeper"):
        sweeper.cancel()
        context["clearer"].cancel()
        await context["crew"].leave(LEAVE_SECONDS)
    await context["stack"].aclose()


def _worker_settings() -> type:
    settings = _settings()
    options = {
        **arq_settings(settings),
        "ctx": {"settings": settings},
        "on_startup": _start,
        "on_shutdown": _stop,
    }
    return type("WorkerSettings", (), options)


def __getattr__(name: str) -> Any:
    """`WorkerSettings` is made when arq asks for it, so that an import reads no environment."""
    if name == "WorkerSettings":
        return _worker_settings()
    raise AttributeError(name)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except AppError as error:  # a server is away; whoever watches us starts us again
        raise SystemExit(f"heliograph: {error.detail}") from None
