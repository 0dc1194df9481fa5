"""The graph for people: search, one thing, what surrounds it."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from app.api.deps import EntityId, Readable
from app.api.problems import responses
from app.api.schemas import (
    EntityBody,
    EntityDetailBody,
    EntityListBody,
    EvidenceBody,
    RelationBody,
    RelationDetailBody,
    StatsBody,
    SubgraphBody,
    after,
    cursor_of,
    page_of,
)
from app.curation import entity_of
from app.domain import Kind, Ref, Relation, relation_key
from app.errors import Invalid, NotFound
from app.ports import GraphReader

router = APIRouter(prefix="/graph", tags=["graph"])

Limit = Annotated[int, Query(ge=1, le=500, description="Entries on a page.")]
Cursor = Annotated[str | None, Query(max_length=4096, description="`next` of the page before.")]
Name = Annotated[str, Query(min_length=1, max_length=512, description="Id or name of an entity.")]


@router.get("/entities", summary="Search entities", responses=responses(400, 401, 403, 422, 503))
async def search_entities(
    workspace: Readable,
    search: Annotated[
        str,
        Query(max_length=512, description="Words of a name or alias; empty lists all."),
    ] = "",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EntityListBody:
    """A page of entities, most mentioned first."""
    found = await workspace.graph.search(search.strip(), limit=limit + 1, after=after(cursor))
    page, more = page_of(found, limit)
    return EntityListBody(
        entities=[EntityBody.of(one) for one in page],
        next=cursor_of(page[-1].key) if more else None,
    )


@router.get(
    "/entities/{entity_id}",
    summary="Get an entity",
    responses=responses(400, 401, 403, 404, 422, 503),
)
async def get_entity(
    entity_id: EntityId,
    workspace: Readable,
    relations: Annotated[int, Query(ge=0, le=200, description="Most relations to show.")] = 50,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EntityDetailBody:
    """Its profile, what chunks say of it, and its heaviest relations."""
    entity = await entity_of(workspace.graph, entity_id)
    mentions, around = await asyncio.gather(
        workspace.graph.mentions(
            Ref(Kind.ENTITY, entity.key), after=after(cursor), limit=limit + 1
        ),
        workspace.graph.relations_of([entity.key], per_entity=max(1, relations)),
    )
    page, more = page_of(mentions, limit)
    return EntityDetailBody(
        **EntityBody.of(entity).model_dump(),
        evidence=[EvidenceBody.of(one) for one in page],
        next=cursor_of(page[-1].chunk_id) if more else None,
        relations=[RelationBody.of(one) for one in around[:relations]],
    )


@router.get(
    "/relation", summary="Get a relation", responses=responses(400, 401, 403, 404, 422, 503)
)
async def get_relation(
    workspace: Readable, source: Name, target: Name, limit: Limit = 50, cursor: Cursor = None
) -> RelationDetailBody:
    """What documents say of two entities together; their order does not matter."""
    relation = await _relation(workspace.graph, source, target)
    mentions = await workspace.graph.mentions(
        Ref(Kind.RELATION, relation.key), after=after(cursor), limit=limit + 1
    )
    page, more = page_of(mentions, limit)
    return RelationDetailBody(
        **RelationBody.of(relation).model_dump(),
        evidence=[EvidenceBody.of(one) for one in page],
        next=cursor_of(page[-1].chunk_id) if more else None,
    )


@router.get(
    "/subgraph",
    summary="Get what surrounds entities",
    responses=responses(401, 403, 404, 422, 503),
)
async def get_subgraph(
    workspace: Readable,
    entity: Annotated[
        list[Annotated[str, Query(min_length=1, max_length=2048)]],
        Query(min_length=1, max_length=50, description="Ids or names to start from; repeat it."),
    ],
    depth: Annotated[int, Query(ge=0, le=4, description="Steps to go.")] = 1,
    limit: Annotated[int, Query(ge=1, le=2000, description="Most entities.")] = 100,
) -> SubgraphBody:
    """Breadth first, heaviest relations first."""
    starts = await asyncio.gather(*(entity_of(workspace.graph, one) for one in entity))
    keys = list(dict.fromkeys(one.key for one in starts))
    return SubgraphBody.of(await workspace.graph.subgraph(keys, depth=depth, limit=limit))


@router.get("/stats", summary="Count what is stored", responses=responses(401, 403, 503))
async def get_stats(workspace: Readable) -> StatsBody:
    stats = await workspace.graph.stats()
    return StatsBody(
        documents=stats.documents,
        chunks=stats.chunks,
        entities=stats.entities,
        relations=stats.relations,
    )


async def _relation(graph: GraphReader, source: str, target: str) -> Relation:
    one, other = await asyncio.gather(entity_of(graph, source), entity_of(graph, target))
    if one.key == other.key:
        raise Invalid("Both names mean the same entity.", code="same_entity")
    found = await graph.relations([relation_key(one.key, other.key)])
    if not found:
        raise NotFound("There is no relation between these entities.")
    return found[0]
