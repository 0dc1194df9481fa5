"""The first pieces of evidence of many entities or relations, each read along an index.

Without a limit to documents, or with many documents, pieces are read in the order of chunk ids
until there are enough. With few documents each is looked up, since a hub might have to be read to
its end to find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, LiteralString

from app.domain import Kind
from app.stores.neo4j.database import Database, Row

FEW_DOCUMENTS = 64

Order = Literal["chunk", "described", "about"]  # all, those with a description, those about it

_TYPES: dict[Kind, tuple[LiteralString, LiteralString]] = {
    Kind.ENTITY: ("MENTIONS", "entity"),
    Kind.RELATION: ("STATES", "relation"),
}


async def first_pieces(
    database: Database, workspace: str, kind: Kind, keys: Sequence[str], *,
    limit: int, documents: Sequence[str] | None = None, order: Order = "chunk", after: str = "",
) -> dict[str, list[Row]]:  # fmt: skip
    """Key -> the first `limit` pieces behind chunk `after`: its chunk, document, text…"""
    if documents is not None and len(documents) <= FEW_DOCUMENTS:
        query = by_document(kind, order)
    else:
        query = in_order(kind, order)
    rows = await database.read(
        query, workspace=workspace, keys=list(keys), after=after, limit=limit,
        documents=None if documents is None else list(documents),
    )  # fmt: skip
    return {row["key"]: row["pieces"] for row in rows}


def in_order(kind: Kind, order: Order) -> LiteralString:
    type_, owner = _TYPES[kind]
    return f"""
        UNWIND $keys AS key
        CALL (key) {{
            MATCH ()-[m:{type_}]->() USING INDEX SEEK m:{type_}(workspace, {owner}, {order})
            WHERE m.workspace = $workspace AND m.{owner} = key AND m.{order} > $after
                AND ($documents IS NULL OR m.document IN $documents)
            WITH m ORDER BY m.workspace, m.{owner}, m.{order} LIMIT $limit
            RETURN collect(m {{.chunk, .document, .name, .kind, .description, .source, .target}})
                AS pieces
        }}
        RETURN key, pieces
        """


def by_document(kind: Kind, order: Order) -> LiteralString:
    type_, owner = _TYPES[kind]
    return f"""
        UNWIND $keys AS key
        CALL (key) {{
            UNWIND $documents AS document
            MATCH ()-[m:{type_}]->() USING INDEX SEEK m:{type_}(workspace, {owner}, document)
            WHERE m.workspace = $workspace AND m.{owner} = key AND m.document = document
                AND m.{order} > $after
            WITH DISTINCT m ORDER BY m.{order} LIMIT $limit
            RETURN collect(m {{.chunk, .document, .name, .kind, .description, .source, .target}})
                AS pieces
        }}
        RETURN key, pieces
        """
