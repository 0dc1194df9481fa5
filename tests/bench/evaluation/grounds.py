"""What is measured: sets of passages as stores, and the questions that are put to them."""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.evaluation.questions import QuestionSet, read_folder

MOST = 250  # questions of a set that every system answers; `mix` and what it is held against, all


@dataclass(frozen=True, slots=True)
class Store:
    """Passages as one system stores them. `recorded`: with the extraction of a large model."""

    set: str
    only: str = ""  # field that marks the passages to take
    titles: bool = True
    recorded: bool = False

    @property
    def key(self) -> str:
        parts = [self.set, "" if self.titles else "untitled", "recorded" if self.recorded else ""]
        size = "6119" if self.set == "2wiki-101" and not self.only else ""
        return "-".join(part for part in (parts[0], size, *parts[1:]) if part)

    def load(self, *, lower: bool = False) -> QuestionSet:
        return _load(self, lower)


@dataclass(frozen=True, slots=True)
class Ground:
    """One column of the tables: a store and the form of the questions."""

    store: Store
    lower: bool = False

    @property
    def key(self) -> str:
        return f"{self.store.key}-lower" if self.lower else self.store.key

    @property
    def label(self) -> str:
        return LABELS[self.store.key.replace("-untitled", "")]

    def load(self) -> QuestionSet:
        return self.store.load(lower=self.lower)


LABELS = {
    "2wiki-101": "2wiki, 780", "2wiki-101-6119": "2wiki, 6,119", "musique-train": "musique",
    "musique-train-recorded": "musique, replayed", "hotpotqa-train": "hotpotqa", "popqa": "popqa",
    "lihua-world": "lihua", "graphrag-bench-medical": "medical",
    "graphrag-bench-medical-recorded": "medical, replayed", "graphrag-bench-novel": "novel",
}  # fmt: skip

_SMALL = Store("2wiki-101", only="subset101")
_STORES = (
    _SMALL, Store("musique-train"), Store("hotpotqa-train"), Store("lihua-world"),
    Store("graphrag-bench-medical"), Store("musique-train", recorded=True),
    Store("graphrag-bench-medical", recorded=True), Store("popqa"), Store("graphrag-bench-novel"),
)  # fmt: skip
_TITLED = ("2wiki-101", "musique-train", "hotpotqa-train", "popqa")
_LARGE = Store("2wiki-101")


def _untitled(store: Store) -> Store:
    return Store(store.set, store.only, titles=False, recorded=store.recorded)


STORES: tuple[Store, ...] = (
    *_STORES,
    *(_untitled(s) for s in _STORES if s.set in _TITLED and not s.recorded),
    _LARGE, _untitled(_LARGE),
)  # fmt: skip
# Sets whose passages have no titles are asked as they are; all also in lower case.
GROUNDS: tuple[Ground, ...] = (
    *(Ground(store) for store in STORES),
    *(Ground(store, lower=True) for store in STORES if store.titles),
)


def chosen(names: str) -> tuple[Ground, ...]:
    """Grounds by their keys or patterns such as `musique*`, comma separated; "" for all."""
    return tuple(ground for ground in GROUNDS if matches(ground.key, names))


def matches(key: str, names: str) -> bool:
    wanted = [name.strip() for name in names.split(",") if name.strip()] or ["*"]
    return any(fnmatch.fnmatch(key, one) for one in wanted)


def shared() -> Path:
    default = Path(__file__).resolve().parents[3].parent / "shared"
    return Path(os.environ.get("HELIOGRAPH_SHARED") or default) / "data"


@cache
def _load(store: Store, lower: bool) -> QuestionSet:
    titled = store.titles and store.set in (*_TITLED, "lihua-world")
    return read_folder(shared() / store.set, titles=titled, lower=lower, only=store.only)
