"""What the core asks of the outside: Protocols, and the bundles that carry them.

A store method is one transaction, may be called twice with the same effect, and raises only errors
of `app.errors`. Missing keys are left out of results; only `get` and `job` raise `NotFound`.
Everything bound to a workspace is reached through `Workspace`, so code below the API cannot name
another one.
"""

from app.ports.archive import Archive, Repairs
from app.ports.blobs import Blobs
from app.ports.bundles import Models, Services, Workspace
from app.ports.communities import Communities
from app.ports.documents import Condition, Documents, Evaluations, Filters
from app.ports.graph import GraphReader, GraphStore, GraphWriter
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
    Trained,
)
from app.ports.service import Journal, Keyring, Queue
from app.ports.vectors import NextVectors, Pingable, VectorEngine, VectorStore

__all__ = [
    "Answerer",
    "Archive",
    "Blobs",
    "Communities",
    "Condition",
    "Documents",
    "Embedder",
    "Evaluations",
    "Extractor",
    "Filters",
    "GraphReader",
    "GraphStore",
    "GraphWriter",
    "Journal",
    "Judge",
    "Keyring",
    "Keyworder",
    "Models",
    "Names",
    "NextVectors",
    "Pingable",
    "Profiler",
    "Queue",
    "Referee",
    "Repairs",
    "Reporter",
    "Reranker",
    "Rewriter",
    "Scorers",
    "Services",
    "Tokenizer",
    "Trained",
    "VectorEngine",
    "VectorStore",
    "Workspace",
]
