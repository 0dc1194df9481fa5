"""Work that is done side by side, and ends with one error where it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import AppError


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group. Where all that failed failed as expected, the first `AppError` is raised as it
    is, since it decides about a retry; a bug among them stays a group, which shows all."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except ExceptionGroup as group:
        # Not `except*`: Python before 3.11.4 wraps what is raised there in a group again.
        first = group.exceptions[0]
        if isinstance(first, AppError) and group.split(AppError)[1] is None:
            raise first from None
        raise
