"""The folder of the embedded vectors: shards of Qdrant Edge, and which of them are in use."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import qdrant_edge as qe

from app.domain import Kind
from app.errors import AppError, Misconfigured, Unavailable
from app.stores import vectors
from app.stores.edge_flushes import Flushes

T = TypeVar("T")
Shards = Mapping[Kind, qe.EdgeShard]

MANIFEST = "manifest.json"
PREFIX = "heliograph"
THREADS = 4  # callers, and of each shard's search pool, which has 8 by default on two cores
# 4 bits a dimension beside the floats (256 bytes a point): a search reads these first and scores
# the best again from the floats, so that it finds the same in about a third of the time. Folders
# made without them stay as they are until `reindex`.
ROUGH = qe.TurboQuantQuantizationConfig(bits=qe.TurboQuantBitSize.Bits4)

log = logging.getLogger("heliograph.vectors")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is in use: shards of a model, in one of its two slots. `former`: names of shards that it
    took over from, which go when nobody answers from them any more."""

    model: str
    dimension: int
    slot: int = 0
    former: tuple[str, ...] = ()

    @property
    def names(self) -> dict[Kind, str]:
        return vectors.slots(PREFIX, self.model, self.dimension)[self.slot]

    def of_same_model(self, other: Manifest) -> bool:
        return (self.model, self.dimension) == (other.model, other.dimension)


def read_manifest(folder: Path) -> Manifest | None:
    file = folder / MANIFEST
    if not file.exists():
        return None
    try:
        held = json.loads(file.read_text("utf-8"))
        return Manifest(
            str(held["model"]), int(held["dimension"]), int(held.get("slot", 0)),
            tuple(held.get("former", ())),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise Misconfigured(f"{file} is damaged; delete the folder and reindex.") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    draft = folder / f"{MANIFEST}.new"
    draft.write_text(json.dumps(asdict(manifest)) + "\n", "utf-8")
    draft.replace(folder / MANIFEST)


def beside(folder: Path, used: Manifest | None, model: str, dimension: int) -> Manifest:
    """Where to make vectors of a model that are to replace those in use: what an earlier try left
    is gone on with."""
    taken = used.names if used else {}
    both = (Manifest(model, dimension, 0), Manifest(model, dimension, 1))
    free = [one for one in both if one.names != taken]
    return next((one for one in free if (folder / one.names[Kind.CHUNK]).exists()), free[0])


def delete_others(folder: Path, kept: Collection[str]) -> list[str]:
    names = (one.name for one in folder.iterdir() if one.is_dir())
    return delete_shards(folder, sorted(name for name in names if name not in kept))


def delete_shards(folder: Path, names: Iterable[str]) -> list[str]:
    gone = [name for name in names if (folder / name).is_dir()]
    for name in gone:
        shutil.rmtree(folder / name)
        log.info("vectors.deleted folder=%s", name)
    return gone


class OpenShards:
    """The shards of one slot, and threads that call them; safe for many tasks, of one process."""

    def __init__(self, manifest: Manifest, shards: Shards) -> None:
        self.manifest = manifest
        self._shards = shards
        # Workspaces with points; those that lost their last one may still be among them.
        self.workspaces = {name for shard in shards.values() for name in _workspaces(shard)}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="vectors")
        self._flushes = Flushes(lambda kinds: self.run(lambda opened: _flush(opened, kinds)))
        self._closed = False

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> OpenShards:
        """Made where there are none. Blocking. `Misconfigured` if another process has them."""
        shards: dict[Kind, qe.EdgeShard] = {}
        try:
            for kind, name in manifest.names.items():
                shards[kind] = _load(folder / name, manifest.dimension)
        except AppError:
            for shard in shards.values():
                shard.close()
            raise
        return cls(manifest, shards)

    @property
    def model(self) -> str:
        return self.manifest.model

    @property
    def dimension(self) -> int:
        return self.manifest.dimension

    async def run(self, call: Callable[[Shards], T]) -> T:
        """One hop into the thread pool; the engine releases the interpreter lock there."""
        if self._closed:
            raise Unavailable("The vector store is closed.")
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, _translated(call), self._shards
        )

    async def write(self, call: Callable[[Shards], Collection[Kind]]) -> None:
        """`call` changes points and says of which kinds. The log survives a killed process; this
        returns when they would survive a power cut: the graph is told next that they are there."""
        await self._flushes.cover(await self.run(call))

    def close(self) -> None:
        """Waits for running calls; blocking, since it must also finish when a task is cancelled."""
        if self._closed:
            return
        self._closed = True
        self._pool.shutdown(wait=True)
        for shard in self._shards.values():
            shard.flush()
            shard.close()


def _workspaces(shard: qe.EdgeShard) -> Iterator[str]:
    """Two at most: more are not of interest. From the index, in 50 µs."""
    for hit in shard.facet(qe.FacetRequest("workspace", limit=2)).hits:
        yield str(hit.value)


def _flush(shards: Shards, kinds: Iterable[Kind]) -> None:
    for kind in kinds:
        shards[kind].flush()


def _load(path: Path, dimension: int) -> qe.EdgeShard:
    config = qe.EdgeConfig(
        vectors={
            vectors.DENSE: qe.EdgeVectorParams(
                size=dimension, distance=qe.Distance.Cosine, quantization_config=ROUGH
            )
        },
        sparse_vectors={vectors.TERMS: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
        max_search_threads=THREADS,
    )
    if not path.exists():
        _create(path, config)
    try:
        return qe.EdgeShard.load(str(path), config)
    except Exception as error:  # the engine knows no narrower type
        if "WouldBlock" in str(error):
            raise Misconfigured(
                f"The vector folder {path.parent} is in use by another process. The embedded "
                "store serves one process: stop it, or ask it by its admin endpoints. Several "
                "need HELIOGRAPH_VECTOR_URL=http://<qdrant>."
            ) from error
        raise Misconfigured(f"The vector folder {path} cannot be opened: {error}") from error


def _create(path: Path, config: qe.EdgeConfig) -> None:
    """Beside its place and then renamed: a start that was killed leaves no half-made shard."""
    draft = path.with_name(f"{path.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        shard = qe.EdgeShard.create(str(draft), config)
        tenant = qe.KeywordIndexParams(is_tenant=True)
        shard.update(qe.UpdateOperation.create_field_index("workspace", tenant))
        plain = qe.KeywordIndexParams()
        shard.update(qe.UpdateOperation.create_field_index("document_id", plain))
        shard.flush()
        shard.close()
    except Exception as error:  # the engine knows no narrower type
        raise Misconfigured(f"The vector folder {path} cannot be made: {error}") from error
    draft.rename(path)


def _translated(call: Callable[..., T]) -> Callable[..., T]:
    def translated(shards: Shards) -> T:
        with _errors():
            return call(shards)

    return translated


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:  # the engine raises just that; all else is ours
            raise
        # A full disk ends when somebody clears it, and is no fault of the texts.
        full = "No space left" in str(error)
        raise Unavailable(f"The vector store failed: {str(error)[:200]}", blameless=full) from error
