"""Reading a store page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeVar

Row = TypeVar("Row")
Row_co = TypeVar("Row_co", covariant=True)


class Read(Protocol[Row_co]):
    """A read in the order of a key: up to `limit` rows behind the row named by `after`."""

    async def __call__(self, *, after: str, limit: int) -> Sequence[Row_co]: ...


async def pages(
    read: Read[Row], name: Callable[[Row], str], limit: int
) -> AsyncIterator[Sequence[Row]]:
    """All that `read` has, none of the pages empty. `name` tells what `after` calls a row."""
    after, full = "", True
    while full and (page := await read(after=after, limit=limit)):
        after, full = name(page[-1]), len(page) == limit
        yield page
