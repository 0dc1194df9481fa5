from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.query.library import Library, open_libraries


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Library]:
    async with open_libraries(tmp_path, "test") as [library]:
        yield library


@pytest.fixture
async def growing(empty: Library) -> Library:
    """Like `library`, for tests that add to it."""
    return await _filled(empty)


@pytest.fixture(scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Library]:
    async with open_libraries(tmp_path_factory.mktemp("shelf"), "test") as [library]:
        yield await _filled(library)


@pytest.fixture
def library(shelf: Library) -> Library:
    """Documents that tests only read, with roles of its own for each."""
    return Library(shelf.workspace, shelf.chunks)


async def _filled(library: Library) -> Library:
    """Two hops apart: a film, its director, and the town that she was born in."""
    for document, title, text in (
        (
            "film", "The Silent Harbour",
            "The Silent Harbour is a 1961 drama film. It was directed by Aino Korhonen.",
        ),
        (
            "director", "Aino Korhonen",
            "Aino Korhonen was a Finnish director. She was born in Kuusamo in 1920.",
        ),
        (
            "town", "Kuusamo",
            "Kuusamo is a town in Northern Ostrobothnia known for its ski resort.",
        ),
        (
            "lake", "Lake Inari",
            "Lake Inari is the largest lake in Sápmi. It freezes in November.",
        ),
        (
            "bread", "Rye bread",
            "Rye bread is baked from rye flour and sourdough in most homes.",
        ),
    ):  # fmt: skip
        await library.add(document, title, text)
    await library.index()
    return library
