"""The graph store, journal and keyring of a service on many hosts: a Neo4j server."""

from app.stores.neo4j.archive import Neo4jArchive
from app.stores.neo4j.communities import Neo4jCommunities
from app.stores.neo4j.database import Database, open_database
from app.stores.neo4j.documents import Neo4jDocuments
from app.stores.neo4j.evaluations import Neo4jEvaluations
from app.stores.neo4j.graph import Neo4jGraph
from app.stores.neo4j.journal import Neo4jJournal
from app.stores.neo4j.keyring import Neo4jKeyring
from app.stores.neo4j.names import Neo4jNames

__all__ = [
    "Database",
    "Neo4jArchive",
    "Neo4jCommunities",
    "Neo4jDocuments",
    "Neo4jEvaluations",
    "Neo4jGraph",
    "Neo4jJournal",
    "Neo4jKeyring",
    "Neo4jNames",
    "open_database",
]
