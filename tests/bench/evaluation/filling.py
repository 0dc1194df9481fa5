"""The stores of all grounds, each filled when it is not there yet."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

from app.ports import Embedder
from app.settings import Settings
from app.wiring import embedded_queue, open_embedder
from tests.bench.evaluation.baselines import Piece
from tests.bench.evaluation.grounds import Store
from tests.bench.evaluation.stores import chunks_of, encode_again, fill, fingerprint_of
from tests.bench.evaluation.vectors import RememberedEmbedder
from tests.bench.replay.process import replaying, settings
from tests.system.stack import ROOT

WHOLE = 2048  # tokens: recordings are of whole chunks, which must not be cut again
VECTORS = "vectors.sqlite"


class Stores:
    """A folder of filled stores; `keep`: those of older code are good enough. `encoder`: settings
    of another than the built-in one, which needs a folder of its own; `plain`: stores of the
    built-in one, which are copied where they are there."""

    def __init__(
        self, folder: Path, *, keep: bool = False, encoder: Mapping[str, str] | None = None,
        plain: Stores | None = None,
    ) -> None:  # fmt: skip
        self._folder, self._keep = folder, keep
        self._encoder, self._plain = dict(encoder or {}), plain
        self._code = fingerprint_of(ROOT)
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def vectors(self) -> Path:
        """A file of vectors by text, shared by all stores and systems."""
        return self._folder / VECTORS

    def folder(self, store: Store) -> Path:
        return self._folder / store.key

    def environment(self, store: Store) -> dict[str, str]:
        """Of a service that stands on this store. It asks no model: recordings were for reading."""
        told = {"HELIOGRAPH_DATA_DIR": str(self.folder(store) / "data"), **self._encoder}
        if store.set == "graphrag-bench-medical":
            told["HELIOGRAPH_OPTIONS__CHUNK_TOKENS"] = str(WHOLE)
        return told

    def made(self, store: Store) -> Mapping[str, Any] | None:
        """What is known of a store that is there and as the code of today would make it."""
        path = self.folder(store) / "made.json"
        if not path.exists():
            return None
        known: dict[str, Any] = json.loads(path.read_text())
        current = self._keep or known["code"] == self._code
        return known if current and known["corpus"] == store.load().digest else None

    def ready(self, store: Store) -> Mapping[str, Any]:
        if known := self.made(store):
            return known
        shutil.rmtree(self.folder(store), ignore_errors=True)
        self.folder(store).mkdir(parents=True)
        if self._plain and (known := self._plain.made(store)):
            return self._copied(store, self._plain, known)
        passages = store.load().passages
        with ExitStack() as stack:
            told = self.environment(store)
            if store.recorded:
                told |= settings(stack.enter_context(replaying([store.set])))
            seconds = asyncio.run(fill(_settings(told), passages, vectors=self.vectors))
        made = {
            "code": self._code, "corpus": store.load().digest, "documents": len(passages),
            "seconds": round(seconds, 1),
        }  # fmt: skip
        return self._noted(store, "filled", made)

    def _copied(self, store: Store, plain: Stores, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """A store of the built-in encoder, with other vectors."""
        data = self.folder(store) / "data"
        shutil.copytree(plain.folder(store) / "data", data, ignore=shutil.ignore_patterns("queue"))
        settings = _settings(self.environment(store))
        seconds = asyncio.run(encode_again(settings, vectors=self.vectors))
        return self._noted(store, "encoded again", {**known, "seconds": round(seconds, 1)})

    def _noted(self, store: Store, what: str, made: Mapping[str, Any]) -> Mapping[str, Any]:
        (self.folder(store) / "made.json").write_text(json.dumps(made))
        print(
            f"{what} {store.key}: {made['documents']} documents in {made['seconds']:.0f} s",
            flush=True,
        )
        return made

    @asynccontextmanager
    async def embedder(self, store: Store) -> AsyncIterator[Embedder]:
        """The encoder of this store, with the vectors that are known."""
        settings = _settings(self.environment(store))
        async with embedded_queue(settings) as queued, open_embedder(queued, {}) as embedder:
            with closing(RememberedEmbedder(embedder, self.vectors)) as remembered:
                yield remembered

    async def pieces(self, store: Store) -> list[Piece]:
        """The chunks of a filled store as the service cut them: the baselines rank the same."""
        path = self.folder(store) / "chunks.json"
        titles = {passage.id: passage.title for passage in store.load().passages}
        if not path.exists():
            rows = await chunks_of(_settings(self.environment(store)), list(titles))
            await asyncio.to_thread(path.write_text, json.dumps(rows))
        rows = json.loads(await asyncio.to_thread(path.read_text))
        return [Piece(document, titles[document], text) for document, text in rows]


def _settings(told: Mapping[str, str]) -> Settings:
    """What the service's own reader of the environment makes of it, without the environment."""
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in told.items():
        _, _, short = name.lower().partition("_")
        group, _, option = short.partition("__")
        if option:
            options[option] = value
        else:
            values[group] = value
    return Settings(_env_file=None, option_settings=options, **values)
