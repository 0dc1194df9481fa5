"""Which names are one thing: what was decided and why, and people's own decisions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from app import curation
from app.api.deps import Deployed, EntityId, JsonOnly, Readable, Writable
from app.api.fields import Body, Written, check_written
from app.api.graph import Cursor, Limit
from app.api.problems import responses
from app.api.schemas import after, cursor_of, page_of
from app.domain import Placement, Plan, Ruling, first_ticket
from app.errors import Invalid
from app.folding import document_of, sense_of
from app.ports import Services, Workspace
from app.resolution.explain import explanation
from app.resolution.settlement import Reviewed
from app.upkeep.jobs import new_job, send

router = APIRouter(prefix="/graph", tags=["graph"])

MAX_GROUPS = 64
AT_ONCE, CHUNKS = 8, 16  # so many times so many chunks are moved within a request
_PLACE = re.compile(r"\d{1,3}\.\d{3}\t[^\t]+\t[^\t]+")
Name = Annotated[
    str,
    Query(min_length=1, max_length=512, description="A name."),
    AfterValidator(check_written),
]
Note = Annotated[str, StringConstraints(max_length=1000)]


# --- bodies --------------------------------------------------------------------------------------


class NameBody(BaseModel):
    key: str = Field(description="Normal form of the name.")
    name: str = Field(description="The name as most often written.")
    mentions: int = Field(description="Chunks that use it.")
    entity_id: str = Field(description="The entity that it means.")


class RulingBody(BaseModel):
    """Somebody's word on two names."""

    one: str = Field(description="Normal form of the one name.")
    other: str = Field(description="Normal form of the other.")
    same: bool = Field(description="Whether both are one thing.")
    by: str = Field(description="`user`, or `model` where a language model was asked.")
    note: str = Field(description="Why, in their words.")

    @classmethod
    def of(cls, ruling: Ruling) -> RulingBody:
        return cls(
            one=ruling.one, other=ruling.other, same=ruling.same, by=ruling.by, note=ruling.note
        )


class CandidateBody(BaseModel):
    """Two names that may be one thing, and what was made of it."""

    one: NameBody = Field(description="The one name.")
    other: NameBody = Field(description="The other.")
    decision: Literal["merge", "ask", "apart"] = Field(
        description="`merge` from 80 points on, `ask` from 50 (apart until somebody decides)."
    )
    together: bool = Field(description="Whether both mean one entity now.")
    score: float = Field(description="Points, 0 to 100.")
    relation: str = Field(description="How the two names are related: the class of the rules.")
    veto: str = Field(description="What speaks against it, whatever the points; empty for nothing.")
    features: dict[str, float | str] = Field(description="What the points come from.")
    ruling: RulingBody | None = Field(description="Somebody's word, which beats the rules.")
    explanation: str = Field(description="The same in a sentence.")


class CandidateListBody(BaseModel):
    candidates: list[CandidateBody] = Field(description="Best score first.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


class DecisionBody(Body):
    """A word on two names."""

    one: Written = Field(description="A name.", examples=["WHO"])
    other: Written = Field(description="Another.", examples=["World Health Organization"])
    same: bool = Field(description="Whether both are one thing.", examples=[True])
    note: Note = Field("", description="Why, for those who read it later.")


class MergeBody(Body):
    entities: list[Written] = Field(
        min_length=2, max_length=MAX_GROUPS, description="Ids or names of entities to make one.",
        examples=[["Jacob Marley", "Old Marley"]],
    )  # fmt: skip
    note: Note = Field("", description="Why.")


def _written_or_none(name: str) -> str:
    return check_written(name).strip() if name else ""


class GroupBody(Body):
    """A part of the entity: either what documents say, or what goes by names."""

    name: Annotated[str, Field(max_length=512), AfterValidator(_written_or_none)] = Field(
        "", description="Name of the new entity; needed with documents.",
        examples=["Li Wei (Company A)"],
    )  # fmt: skip
    documents: list[Annotated[str, StringConstraints(min_length=1, max_length=128)]] = Field(
        default_factory=list, max_length=10_000, description="Ids of documents that mean this one."
    )
    names: list[Written] = Field(
        default_factory=list, max_length=MAX_GROUPS, description="Names that mean this one."
    )


class SplitBody(Body):
    groups: list[GroupBody] = Field(
        min_length=1, max_length=MAX_GROUPS,
        description="The parts. What no group takes stays as it is.",
        examples=[[{"name": "Marley (in the sample)", "documents": ["a-christmas-carol"]}]],
    )  # fmt: skip


class CuratedBody(BaseModel):
    """A decision was kept; a job carries it out."""

    job_id: str = Field(description="The job that moves evidence, profiles and vectors.")
    changed: int = Field(description="Decisions or mentions that were recorded.")


class EditBody(BaseModel):
    """Where mentions of a name in a document were put by hand."""

    key: str = Field(description="Normal form of the name.")
    document_id: str = Field(description="In which document.")
    sense: str | None = Field(
        description="Only mentions that say the thing is this (empty: nothing of the kind), where "
        "the name means several things; null: all of the document."
    )
    entity_id: str | None = Field(description="The entity that they mean; null: none (removed).")
    name: str = Field(description="What is shown for it.")

    @classmethod
    def of(cls, one: Placement) -> EditBody:
        return cls(
            key=one.key, document_id=document_of(one.scope), sense=sense_of(one.scope),
            entity_id=one.entity or None, name=one.name,
        )  # fmt: skip


class EditListBody(BaseModel):
    edits: list[EditBody] = Field(description="In the order of names and documents.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


# --- decisions on names --------------------------------------------------------------------------


@router.get(
    "/resolution",
    summary="List names that may be one",
    responses=responses(400, 401, 403, 422, 503),
)
async def list_candidates(
    workspace: Readable,
    decision: Annotated[
        Literal["merge", "ask", "apart"] | None, Query(description="Only with this decision.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> CandidateListBody:
    """Pairs of names that the rules found alike, and what was decided."""
    found = await workspace.names.review(
        decision=decision or "", after=_place_of(cursor), limit=limit + 1
    )
    page, more = page_of(found, limit)
    return CandidateListBody(
        candidates=await _candidates(workspace, page),
        next=cursor_of(page[-1].place) if more else None,
    )


def _place_of(cursor: str | None) -> str:
    """`Reviewed.place`; a cursor of another list is none."""
    place = after(cursor)
    if place and not _PLACE.fullmatch(place):
        raise Invalid("This cursor is not one that this list gave.", code="bad_cursor")
    return place


@router.get(
    "/resolution/pair", summary="Explain two names", responses=responses(400, 401, 403, 422, 503)
)
async def explain_pair(workspace: Readable, one: Name, other: Name) -> CandidateBody:
    """What the rules make of two names, whether or not documents use them."""
    reviewed = await curation.compared(workspace, one, other)
    [body] = await _candidates(workspace, [reviewed])
    return body


@router.put(
    "/resolution", status_code=202, summary="Decide on two names", dependencies=[JsonOnly],
    responses=responses(400, 401, 403, 409, 413, 415, 422, 503),
)  # fmt: skip
async def decide(body: DecisionBody, workspace: Writable, deployed: Deployed) -> CuratedBody:
    """Holds for later documents too, and beats rules and models until it is taken back."""
    await curation.rule(workspace, body.one, body.other, same=body.same, note=body.note)
    return CuratedBody(job_id=await _carry_out(deployed.services, workspace), changed=1)


@router.delete(
    "/resolution", status_code=202, summary="Take a decision back",
    responses=responses(401, 403, 404, 422, 503),
)  # fmt: skip
async def take_back(one: Name, other: Name, workspace: Writable, deployed: Deployed) -> CuratedBody:
    """The rules decide again."""
    await curation.unrule(workspace, one, other)
    return CuratedBody(job_id=await _carry_out(deployed.services, workspace), changed=1)


async def _candidates(workspace: Workspace, found: Sequence[Reviewed]) -> list[CandidateBody]:
    keys = sorted({key for one in found for key in one.pair.keys})
    known = {name.key: name for name in await workspace.names.known(keys)}
    ruled = {(one.one, one.other): one for one in await workspace.names.rulings(keys)}

    def name_body(key: str) -> NameBody:
        name = known.get(key)
        if name is None:
            return NameBody(key=key, name=key, mentions=0, entity_id=key)
        return NameBody(key=key, name=name.form, mentions=name.mentions, entity_id=name.entity)

    bodies = []
    for reviewed in found:
        pair, ruling = reviewed.pair, ruled.get(reviewed.pair.keys)
        one, other = name_body(pair.one), name_body(pair.other)
        bodies.append(
            CandidateBody(
                one=one,
                other=other,
                decision=reviewed.decision,
                together=one.entity_id == other.entity_id,
                score=pair.score,
                relation=pair.relation,
                veto=pair.veto,
                features=dict(pair.features),
                ruling=RulingBody.of(ruling) if ruling else None,
                explanation=explanation(pair, reviewed.decision, ruling),
            )
        )
    return bodies


# --- entities by hand ----------------------------------------------------------------------------


@router.post(
    "/entities/merge", status_code=202, summary="Merge entities", dependencies=[JsonOnly],
    responses=responses(400, 401, 403, 404, 409, 413, 415, 422, 503),
)  # fmt: skip
async def merge_entities(body: MergeBody, workspace: Writable, deployed: Deployed) -> CuratedBody:
    """Make several entities one, now and for later documents."""
    rulings = await curation.merge(workspace, body.entities, body.note)
    return CuratedBody(job_id=await _carry_out(deployed.services, workspace), changed=len(rulings))


@router.post(
    "/entities/{entity_id}/split", status_code=202, summary="Split an entity",
    dependencies=[JsonOnly], responses=responses(400, 401, 403, 404, 413, 415, 422, 503),
)  # fmt: skip
async def split_entity(
    entity_id: EntityId, body: SplitBody, workspace: Writable, deployed: Deployed
) -> CuratedBody:
    """Several things under one name become several entities. Documents keep to their group when
    they are read again or replaced."""
    groups = [
        curation.Group(one.name, tuple(one.documents), tuple(one.names)) for one in body.groups
    ]
    changed = await curation.split(workspace, entity_id, groups)
    return CuratedBody(job_id=await _carry_out(deployed.services, workspace), changed=changed)


@router.delete(
    "/entities/{entity_id}", status_code=202, summary="Remove an entity",
    responses=responses(400, 401, 403, 404, 422, 503),
)  # fmt: skip
async def remove_entity(
    entity_id: EntityId, workspace: Writable, deployed: Deployed
) -> CuratedBody:
    """What the documents of this time say of it counts no more, with its relations. A document
    that comes later and mentions it makes it again, with its own evidence only."""
    removed = await curation.remove(workspace, entity_id)
    return CuratedBody(job_id=await _carry_out(deployed.services, workspace), changed=removed)


@router.get("/edits", summary="List edits by hand", responses=responses(400, 401, 403, 422, 503))
async def list_edits(
    workspace: Readable, limit: Limit = 100, cursor: Cursor = None
) -> EditListBody:
    """Where mentions were put by splits and removals, each of which can be taken back."""
    found = await workspace.names.placed(after=after(cursor), limit=limit + 1)
    page, more = page_of(found, limit)
    last = page[-1].place if page else ""
    return EditListBody(
        edits=[EditBody.of(one) for one in page], next=cursor_of(last) if more else None
    )


@router.delete(
    "/edits", status_code=202, summary="Take an edit back",
    responses=responses(401, 403, 404, 422, 503),
)  # fmt: skip
async def undo_edit(
    workspace: Writable,
    deployed: Deployed,
    name: Name,
    document_id: Annotated[
        str | None, Query(max_length=128, description="In this document; without it in all.")
    ] = None,
) -> CuratedBody:
    """Mentions of the name mean again what they mean by themselves."""
    undone = await curation.undo(workspace, name, document_id)
    return CuratedBody(job_id=await _carry_out(deployed.services, workspace), changed=undone)


async def _carry_out(services: Services, workspace: Workspace) -> str:
    """Evidence that follows placements by hand moves before the answer, as far as it is little;
    the job does the rest, and profiles and vectors."""
    job = new_job(workspace.name, Plan.CURATE)
    await services.journal.open(job)
    for _ in range(AT_ONCE):
        if not await workspace.names.move(job.id, limit=CHUNKS):
            break
    await send(services, [first_ticket(job.id, job.plan)])
    return job.id
