"""What functions are given: a workspace, models, the service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from app.domain import Options
from app.joint import Joint
from app.ports.archive import Archive
from app.ports.blobs import Blobs
from app.ports.communities import Communities
from app.ports.documents import Documents, Evaluations
from app.ports.graph import GraphStore
from app.ports.names import Names
from app.ports.roles import (
    Answerer,
    Embedder,
    Extractor,
    Judge,
    Keyworder,
    Profiler,
    Referee,
    Reporter,
    Reranker,
    Rewriter,
    Scorers,
    Tokenizer,
)
from app.ports.service import Journal, Keyring, Queue
from app.ports.vectors import Pingable, VectorEngine, VectorStore
from app.together import Turns


@dataclass(frozen=True, slots=True)
class Workspace:
    """Everything bound to one workspace."""

    name: str
    documents: Documents
    graph: GraphStore
    names: Names
    vectors: VectorStore
    blobs: Blobs
    options: Options
    archive: Archive
    evaluations: Evaluations
    communities: Communities


@dataclass(frozen=True, slots=True)
class Models:
    extractor: Extractor
    profiler: Profiler
    keyworder: Keyworder
    answerer: Answerer
    embedder: Embedder
    reranker: Reranker | None
    tokenizer: Tokenizer
    reporter: Reporter
    plain_reporter: Reporter  # by rules: for what is not worth a model's reply, or got none
    judge: Judge | None = None
    rewriter: Rewriter | None = None  # only a language model can play it
    referee: Referee | None = None
    scorers: Scorers | None = None
    joint: Joint = field(default_factory=Joint)  # calls under way in this process
    turns: Turns = field(default_factory=Turns)  # by workspace: settlements in this process


@dataclass(frozen=True, slots=True)
class Services:
    """Exists once per process."""

    workspace: Callable[[str], Workspace]
    journal: Journal
    keyring: Keyring
    queue: Queue
    models: Models
    vectors: VectorEngine
    dependencies: Mapping[str, Pingable]
    # One by other settings than those of the service (`embed_…`); `Invalid` if they cannot be.
    embedder: Callable[[Mapping[str, object]], AbstractAsyncContextManager[Embedder]]
