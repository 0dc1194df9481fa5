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
async def library(empty: Library) -> Library:
    """Two hops apart: a film, its director, and the town that he was born in."""
    await empty.add(
        "film",
        "The Silent Harbour",
        "The Silent Harbour is a 1961 drama film. It was directed by Aino Korhonen.",
    )
    await empty.add(
        "director",
        "Aino Korhonen",
        "Aino Korhonen was a Finnish director. She was born in Kuusamo in 1920.",
    )
    await empty.add(
        "town",
        "Kuusamo",
        "Kuusamo is a town in Northern Ostrobothnia known for its ski resort.",
    )
    await empty.add(
        "lake",
        "Lake Inari",
        "Lake Inari is the largest lake in Sápmi. It freezes in November.",
    )
    await empty.add(
        "bread",
        "Rye bread",
        "Rye bread is baked from rye flour and sourdough in most homes.",
    )
    await empty.index()
    return empty
