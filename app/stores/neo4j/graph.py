"""The graph of one workspace in Neo4j: reader and writer in one."""

from __future__ import annotations

from app.stores.neo4j.chunks import Neo4jChunks
from app.stores.neo4j.marks import Neo4jMarks
from app.stores.neo4j.reader import Neo4jReader


class Neo4jGraph(Neo4jReader, Neo4jChunks, Neo4jMarks):
    """Implements `app.ports.GraphStore`."""
