"""The reindexing of this process: one at a time, in the background."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

from app.errors import AppError, Conflict
from app.ports import Embedder, Services
from app.upkeep.reindex import Progress, reindex

log = logging.getLogger("heliograph.reindex")


class Reindexing:
    """`progress` is of the one under way, or else the last one; `error` why it ended early."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.error = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def start(
        self, services: Services, embedder: AbstractAsyncContextManager[Embedder]
    ) -> None:
        """Returns once the embedder has answered; its errors are raised here."""
        if self.running:
            raise Conflict("New vectors are being made already.")
        self.progress, self.error = None, ""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(services, embedder, begun))
        # Stopped before it ran at all, the task itself says nothing.
        self._task.add_done_callback(lambda _: _stopped(begun))
        await asyncio.shield(begun)

    async def stop(self) -> None:
        """What was made stays, for the next one to go on with."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(
        self,
        services: Services,
        embedder: AbstractAsyncContextManager[Embedder],
        begun: asyncio.Future[None],
    ) -> None:
        try:
            async with embedder as opened:
                self._hear(Progress(opened.model, opened.dimension))
                begun.set_result(None)
                await reindex(services, opened, self._hear)
        except AppError as error:
            self._end(error.detail)
            if not begun.done():
                begun.set_exception(error)
        except asyncio.CancelledError:
            self._end("It was stopped.")
            _stopped(begun)
            raise
        except Exception as error:  # nobody awaits this task: say it here
            log.exception("reindex.bug")
            self._end(f"internal error: {type(error).__name__}")
            if not begun.done():
                begun.set_exception(error)

    def _hear(self, progress: Progress) -> None:
        self.progress = progress

    def _end(self, why: str) -> None:
        self.error = why
        log.warning("reindex.ended detail=%s", why)


def _stopped(begun: asyncio.Future[None]) -> None:
    """For whoever still waits for the embedder: not as a cancellation of its own."""
    if not begun.done():
        begun.set_exception(Conflict("It was stopped before it began."))
