"""The graph of one workspace in SQLite: reader and writer in one."""

from __future__ import annotations

from app.stores.sqlite.reader import SqliteGraphReader
from app.stores.sqlite.writer import SqliteGraphWriter


class SqliteGraph(SqliteGraphReader, SqliteGraphWriter):
    """Implements `app.ports.GraphStore`."""
