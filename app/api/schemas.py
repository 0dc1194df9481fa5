"""Bodies of responses, and their making from the nouns of the domain."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from app.domain import (
    Chunk,
    ChunkLinks,
    Document,
    Entity,
    Failure,
    Job,
    Mention,
    Plan,
    Relation,
    State,
    Status,
    Subgraph,
    Usage,
)
from app.errors import Invalid


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def cursor_of(last: str) -> str:
    """An opaque cursor; callers must not learn to build it."""
    return base64.urlsafe_b64encode(last.encode()).decode().rstrip("=")


def after(cursor: str | None) -> str:
    """What a cursor stands for; "" for the first page."""
    if not cursor:
        return ""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Invalid(
            "This cursor is not one that a list of this service gave.", code="bad_cursor"
        ) from None


# --- documents and jobs --------------------------------------------------------------------------


class AcceptedBody(BaseModel):
    """A document that was taken in."""

    id: str = Field(description="Id of the document.", examples=["carol"])
    name: str = Field(description="Its name.", examples=["carol.txt"])
    status: Status = Field(description="Its state now.", examples=["queued"])
    job_id: str = Field(
        description="Job that makes it ready; the earlier one if we had the same content already.",
        examples=["0b5f0d7c3c0e4f7b9f3e7c1a5d2b8e64"],
    )


class AcceptedListBody(BaseModel):
    documents: list[AcceptedBody] = Field(description="In the order of the request.")


class ProgressBody(BaseModel):
    """How far a job is. Of a job that is done: stage `done`, 1 of 1."""

    stage: str = Field(
        description="Stage at hand, the one it stopped at, or `done`.", examples=["extract"]
    )
    done: int = Field(
        description="Units of the stage that are done (chunks, things to profile, …)."
    )
    total: int = Field(description="All units of the stage; 0 while unknown.")

    @classmethod
    def of(cls, job: Job) -> ProgressBody:
        if job.state is State.DONE:  # its last stage may have had nothing to do
            return cls(stage="done", done=1, total=1)
        return cls(stage=job.stage, done=job.done, total=job.total)


class FailureBody(BaseModel):
    code: str = Field(description="Stable name of the fault.", examples=["encrypted"])
    message: str = Field(description="What happened, for people.")
    stage: str = Field(description="Where it happened.")
    retryable: bool = Field(description="Whether trying again can help.")

    @classmethod
    def of(cls, failure: Failure | None) -> FailureBody | None:
        if failure is None:
            return None
        return cls(
            code=failure.code,
            message=failure.message,
            stage=failure.stage,
            retryable=failure.retryable,
        )


class UsageBody(BaseModel):
    """What models were used for it."""

    llm_calls: int = Field(description="Calls of language models.")
    prompt_tokens: int = Field(description="Tokens sent to them.")
    completion_tokens: int = Field(description="Tokens they wrote.")
    cost: float = Field(description="Cost, in the currency of the price settings.")

    @classmethod
    def of(cls, usage: Usage) -> UsageBody:
        return cls(
            llm_calls=usage.llm_calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost=usage.cost,
        )


class DocumentBody(BaseModel):
    """A document and how far it is."""

    id: str = Field(description="Id of the document.")
    name: str = Field(description="Its name.")
    title: str = Field(description="Title found in it; may be empty.")
    media_type: str = Field(description="Its format.", examples=["application/pdf"])
    size: int = Field(description="Bytes of the original.")
    status: Status = Field(description="State of its latest job.")
    progress: ProgressBody = Field(description="Progress of its latest job.")
    error: FailureBody | None = Field(description="Why the latest job failed, if it did.")
    warnings: list[str] = Field(description="What was left out or guessed.")
    metadata: dict[str, Any] = Field(description="Its metadata.")
    date: str = Field(description="Its date (ISO 8601): as given, else that of the upload.")
    version: int = Field(description="Version that queries see; 0 while there is none.")
    replacing: bool = Field(description="Whether a newer version than the visible one is stored.")
    chunks: int = Field(description="Chunks that queries see.")
    usage: UsageBody = Field(description="Model usage of its ingestion so far.")
    job_id: str = Field(description="Its latest job.")
    created_at: datetime = Field(description="First upload.")
    updated_at: datetime = Field(description="Last change.")

    @classmethod
    def of(cls, document: Document) -> DocumentBody:
        revision, job = document.revision, document.job
        return cls(
            id=document.id,
            name=revision.name,
            title=revision.title,
            media_type=revision.media_type,
            size=revision.size,
            status=document.status,
            progress=ProgressBody.of(job),
            error=FailureBody.of(job.error),
            warnings=list(document.warnings),
            metadata=dict(revision.metadata),
            date=revision.date or moment(document.created_at).date().isoformat(),
            version=document.version,
            replacing=document.live is not None and document.pending is not None,
            chunks=document.chunks,
            usage=UsageBody.of(document.usage),
            job_id=job.id,
            created_at=moment(document.created_at),
            updated_at=moment(document.updated_at),
        )


class DocumentListBody(BaseModel):
    documents: list[DocumentBody] = Field(description="In the order of their ids.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


class ChunkBody(BaseModel):
    """A piece of a document: `text` is the slice `[start:end]` of the parsed text."""

    id: str = Field(description="Id of the chunk.")
    position: int = Field(description="Its place in the document, from 0.")
    start: int = Field(description="First character in the parsed text.")
    end: int = Field(description="Behind its last character.")
    text: str = Field(description="The text.")
    tokens: int = Field(description="Its length in tokens.")
    headings: list[str] = Field(description="Headings above it, outermost first.")
    page: int | None = Field(description="Page of its first character, from 1; null without pages.")
    page_end: int | None = Field(description="Page of its last character.")
    entities: list[str] = Field(description="Ids of the entities that it mentions.")
    error: str | None = Field(description="Why it could not be read; null if it was.")

    @classmethod
    def of(cls, chunk: Chunk, links: ChunkLinks | None, error: str | None = None) -> ChunkBody:
        return cls(
            id=chunk.id,
            position=chunk.position,
            start=chunk.start,
            end=chunk.end,
            text=chunk.text,
            tokens=chunk.tokens,
            headings=list(chunk.headings),
            page=chunk.page,
            page_end=chunk.page_end,
            entities=list(links.entities) if links else [],
            error=error,
        )


class ChunkListBody(BaseModel):
    chunks: list[ChunkBody] = Field(description="In the order of the text.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


class JobBody(BaseModel):
    """A piece of background work."""

    id: str = Field(description="Id of the job.")
    kind: Plan = Field(description="What it does.")
    document_id: str = Field(description="For which document.")
    state: State = Field(description="Its state; done, failed and cancelled are final.")
    stage: str = Field(description="Stage at hand, the one it stopped at, or `done`.")
    done: int = Field(description="Units of the stage that are done; 1 of 1 when the job is.")
    total: int = Field(description="All units of the stage; 0 while unknown.")
    attempts: int = Field(description="Failed tries so far.")
    error: FailureBody | None = Field(description="Why it failed, if it did.")
    created_at: datetime = Field(description="When it was opened.")
    updated_at: datetime = Field(description="Last change.")

    @classmethod
    def of(cls, job: Job) -> JobBody:
        progress = ProgressBody.of(job)
        return cls(
            id=job.id,
            kind=job.plan,
            document_id=job.document_id,
            state=job.state,
            stage=progress.stage,
            done=progress.done,
            total=progress.total,
            attempts=job.attempts,
            error=FailureBody.of(job.error),
            created_at=moment(job.created_at),
            updated_at=moment(job.updated_at),
        )


class JobListBody(BaseModel):
    jobs: list[JobBody] = Field(description="Newest first.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


class JobIdBody(BaseModel):
    job_id: str = Field(description="The job that does it.")


# --- the graph -----------------------------------------------------------------------------------


class EntityBody(BaseModel):
    """A thing that documents speak of."""

    id: str = Field(description="Normal form of its name; percent-encode it in paths.")
    name: str = Field(description="Its name as most often written.")
    type: str = Field(description="What kind of thing.")
    text: str = Field(description="Its profile.")
    aliases: list[str] = Field(description="Other names and spellings.")
    mentions: int = Field(description="Chunks that mention it.")
    degree: int = Field(description="Relations that it has.")

    @classmethod
    def of(cls, entity: Entity) -> EntityBody:
        return cls(
            id=entity.key,
            name=entity.name,
            type=entity.kind,
            text=entity.profile,
            aliases=list(entity.aliases),
            mentions=entity.mentions,
            degree=entity.degree,
        )


class RelationBody(BaseModel):
    """What documents say of two things together. It has no direction; its evidence may."""

    source_id: str = Field(description="Id of one entity.")
    target_id: str = Field(description="Id of the other.")
    source: str = Field(description="Name of the one.")
    target: str = Field(description="Name of the other.")
    keywords: list[str] = Field(description="Themes, most frequent first.")
    text: str = Field(description="Its profile.")
    weight: float = Field(description="Sum of the strengths of its evidence.")
    mentions: int = Field(description="Chunks that state it.")

    @classmethod
    def of(cls, relation: Relation) -> RelationBody:
        return cls(
            source_id=relation.source,
            target_id=relation.target,
            source=relation.source_name,
            target=relation.target_name,
            keywords=list(relation.keywords),
            text=relation.profile,
            weight=relation.weight,
            mentions=relation.mentions,
        )


class EvidenceBody(BaseModel):
    """What one chunk says."""

    chunk_id: str = Field(description="The chunk.")
    document_id: str = Field(description="Its document.")
    name: str = Field(description="The name as written there.")
    type: str = Field(description="The type as read there.")
    description: str = Field(description="What the chunk says about it.")

    @classmethod
    def of(cls, mention: Mention) -> EvidenceBody:
        return cls(
            chunk_id=mention.chunk_id,
            document_id=mention.document_id,
            name=mention.name,
            type=mention.kind,
            description=mention.description,
        )


class EntityListBody(BaseModel):
    entities: list[EntityBody] = Field(description="Most mentioned first.")
    next: str | None = Field(description="Cursor of the next page; null on the last one.")


class EntityDetailBody(EntityBody):
    evidence: list[EvidenceBody] = Field(description="What chunks say of it, one page.")
    next: str | None = Field(description="Cursor for more evidence; null on the last page.")
    relations: list[RelationBody] = Field(description="Its heaviest relations.")


class RelationDetailBody(RelationBody):
    evidence: list[EvidenceBody] = Field(description="What chunks say of it, one page.")
    next: str | None = Field(description="Cursor for more evidence; null on the last page.")


class SubgraphBody(BaseModel):
    entities: list[EntityBody] = Field(description="The entities, nearest first.")
    relations: list[RelationBody] = Field(description="Relations among them.")
    truncated: bool = Field(description="Whether the limit left something out.")

    @classmethod
    def of(cls, subgraph: Subgraph) -> SubgraphBody:
        return cls(
            entities=[EntityBody.of(one) for one in subgraph.entities],
            relations=[RelationBody.of(one) for one in subgraph.relations],
            truncated=subgraph.truncated,
        )


class StatsBody(BaseModel):
    """Records that queries see."""

    documents: int = Field(description="Documents with a visible version.")
    chunks: int = Field(description="Their chunks.")
    entities: int = Field(description="Things that they mention.")
    relations: int = Field(description="Relations among these.")


def page_of(found: Sequence[Any], limit: int) -> tuple[Sequence[Any], bool]:
    """The page of a list that was read one longer than the page, and whether more follows."""
    return found[:limit], len(found) > limit
