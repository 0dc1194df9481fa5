"""What a mode hands on to be packed into a context, and what it has to say about itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.domain import Hit, Keywords, Theme, Usage


@dataclass(frozen=True, slots=True)
class Found:
    """Keys with scores, best first. `names`: those of the question that are in the index."""

    chunks: tuple[Hit, ...] = ()
    entities: tuple[Hit, ...] = ()
    relations: tuple[Hit, ...] = ()
    keywords: Keywords = field(default_factory=Keywords)
    names: tuple[str, ...] = ()
    likeness: float = 0.0  # cosine of the question and the nearest chunk or keyword hit
    hint: str = ""  # what the reader should know of how it was found
    themes: tuple[Theme, ...] = ()
    explain: Mapping[str, object] = field(default_factory=dict)


class Clock:
    """Milliseconds and model usage of one query, by stage; lives as long as the query."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._stages: dict[str, float] = {}
        self.usage = Usage()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = 1000 * (time.perf_counter() - began)
            self._stages[name] = self._stages.get(name, 0.0) + spent

    def read(self) -> dict[str, float]:
        total = 1000 * (time.perf_counter() - self._began)
        return {name: round(ms, 2) for name, ms in {**self._stages, "total": total}.items()}
