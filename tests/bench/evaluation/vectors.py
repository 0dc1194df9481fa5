"""Vectors that are made once for all stores and systems."""

from __future__ import annotations

import hashlib
import sqlite3
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from app.domain import Embeddings, Vector
from app.ports import Embedder


class RememberedEmbedder:
    """An embedder whose vectors lie in a file, so that equal texts are encoded once for all stores
    and systems."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self.model, self.dimension = embedder.model, embedder.dimension
        self._file = sqlite3.connect(path, timeout=60)
        self._file.execute("pragma journal_mode = wal")
        self._file.execute("create table if not exists v (key blob primary key, vector blob)")

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["document", "query"]
    ) -> Embeddings:
        keys = {text: hashlib.sha256(text.encode()).digest()[:16] for text in texts}
        found: dict[str, Vector] = {}
        for text, key in keys.items():
            if row := self._file.execute("select vector from v where key = ?", (key,)).fetchone():
                found[text] = tuple(array("f", row[0]))
        missing = [text for text in keys if text not in found]
        if missing:
            made = await self._embedder.embed(missing, purpose=purpose)
            found.update(zip(missing, made.vectors, strict=True))
            self._file.executemany(
                "insert or ignore into v values (?, ?)",
                [(keys[text], array("f", found[text]).tobytes()) for text in missing],
            )
            self._file.commit()
        return Embeddings([found[text] for text in texts])

    def close(self) -> None:
        self._file.close()
