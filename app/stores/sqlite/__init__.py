"""The embedded graph store, journal and keyring: one SQLite file."""

from app.stores.sqlite.archive import SqliteArchive
from app.stores.sqlite.communities import SqliteCommunities
from app.stores.sqlite.database import SqliteDatabase
from app.stores.sqlite.documents import SqliteDocuments
from app.stores.sqlite.evaluations import SqliteEvaluations
from app.stores.sqlite.graph import SqliteGraph
from app.stores.sqlite.journal import SqliteJournal
from app.stores.sqlite.keyring import SqliteKeyring
from app.stores.sqlite.names import SqliteNames

__all__ = [
    "SqliteArchive",
    "SqliteCommunities",
    "SqliteDatabase",
    "SqliteDocuments",
    "SqliteEvaluations",
    "SqliteGraph",
    "SqliteJournal",
    "SqliteKeyring",
    "SqliteNames",
]
