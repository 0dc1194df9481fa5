"""What is derived, made anew: a graph from what was read, vectors from the graph."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field, SecretStr

from app.api.deps import Administrator, Caller, Deployed, Deployment
from app.api.fields import Body
from app.api.problems import responses
from app.api.schemas import JobBody
from app.api.upkeep import Kept
from app.domain import Plan, first_ticket
from app.errors import Forbidden
from app.ports import Embedder
from app.upkeep.jobs import new_job, send
from app.upkeep.reindexing import Reindexing

router = APIRouter()


@router.post(
    "/workspaces/{workspace}/rebuild",
    status_code=202,
    summary="Rebuild the graph of a workspace",
    responses=responses(401, 403, 422, 503),
)
async def rebuild_workspace(workspace: Kept, deployed: Deployed) -> JobBody:
    """Folds the graph anew from what was read in the chunks, by a job and without a model call for
    what was read: for a damaged graph, and for new rules of folding or resolution. Rulings and
    placements by hand stay, and so do summaries whose evidence is there. Questions and uploads go
    on; chunk by chunk evidence is replaced in one step, counts and names follow."""
    services, job = deployed.services, new_job(workspace.name, Plan.REBUILD)
    await services.journal.open(job)
    await send(services, [first_ticket(job.id, job.plan)])
    return JobBody.of(await services.journal.job(workspace.name, job.id))


# --- vectors -------------------------------------------------------------------------------------


class ReindexBody(Body):
    """The embedding model of the new vectors. Without fields: the one in use."""

    embed_url: str | None = Field(
        None, max_length=2000, description="As HELIOGRAPH_EMBED_URL.",
        examples=["openai+https://api.example.com/v1"],
    )  # fmt: skip
    embed_model: str | None = Field(
        None, max_length=200, description="As HELIOGRAPH_EMBED_MODEL.",
        examples=["text-embedding-3-large"],
    )  # fmt: skip
    embed_key: SecretStr | None = Field(
        None, description="As HELIOGRAPH_EMBED_KEY; that of the service goes to its own URL only."
    )
    embed_dimension: int | None = Field(
        None, ge=8, le=65_536, description="As HELIOGRAPH_EMBED_DIMENSION; empty: ask the model."
    )

    def changes(self, own_url: str) -> dict[str, object]:
        """Of the settings of the service; none: its own embedder."""
        changes = self.model_dump(exclude_none=True)
        if changes:
            changes.setdefault("embed_dimension", None)
        if self.embed_url not in (None, own_url):
            changes.setdefault("embed_key", SecretStr(""))
        return changes


class ReindexStateBody(BaseModel):
    state: Literal["none", "running", "done", "ended"] = Field(
        description="Of the last one in this process; ended: before it was done."
    )
    stage: str = Field(description="building, catching up, switching or done.")
    model: str = Field(description="Embedding model of the new vectors.")
    dimension: int = Field(description="Their dimension.")
    texts: int = Field(description="Texts looked at in the present pass.")
    embedded: int = Field(description="Texts embedded so far.")
    detail: str = Field(description="Why it ended, or what is to be done next.")

    @classmethod
    def of(cls, reindexing: Reindexing, model: str) -> ReindexStateBody:
        progress, detail = reindexing.progress, reindexing.error
        if progress is None:
            return cls(
                state="ended" if detail else "none", stage="", model="", dimension=0, texts=0,
                embedded=0, detail=detail,
            )  # fmt: skip
        done = progress.stage == "done"
        if done and progress.model != model:
            detail = "Start all processes with the settings of this model: until then they answer "
            detail += "from the former vectors, and new documents wait."
        state: Literal["running", "done", "ended"] = "done" if done else "ended"
        return cls(
            state="running" if reindexing.running and not done else state,
            stage=progress.stage, model=progress.model, dimension=progress.dimension,
            texts=progress.texts, embedded=progress.embedded, detail=detail,
        )  # fmt: skip


def _of_all(called: Administrator) -> Caller:
    if called.workspaces:
        raise Forbidden(
            "Vectors of all workspaces are made together: use an admin key for all of them.",
            code="workspace_forbidden",
        )
    return called


OfAll = Annotated[Caller, Depends(_of_all)]


@router.post(
    "/reindex",
    status_code=202,
    summary="Make all vectors anew",
    responses=responses(400, 401, 403, 409, 422, 503),
)
async def start_reindex(
    called: OfAll, deployed: Deployed, body: ReindexBody | None = None
) -> ReindexStateBody:
    """Embeds all workspaces beside the vectors in use, in this process, while questions and uploads
    go on, and switches over in one step. One that was interrupted is gone on with. After a switch
    to another model running processes answer from the former vectors and write no more: start them
    with its settings. No language model is called."""
    changes = body.changes(deployed.settings.embed_url) if body else {}
    await deployed.reindexing.start(deployed.services, _embedder(deployed, changes))
    return _state(deployed)


def _embedder(
    deployed: Deployment, changes: dict[str, object]
) -> AbstractAsyncContextManager[Embedder]:
    if changes:
        return deployed.services.embedder(changes)

    @asynccontextmanager
    async def own() -> AsyncIterator[Embedder]:
        yield deployed.services.models.embedder

    return own()


@router.get("/reindex", summary="How far new vectors are", responses=responses(401, 403, 503))
async def read_reindex(called: OfAll, deployed: Deployed) -> ReindexStateBody:
    """Of the process that answers: ask the one that was told to make them."""
    return _state(deployed)


class DiscardedBody(BaseModel):
    deleted: list[str] = Field(description="Names of the collections.")


@router.delete(
    "/reindex",
    summary="Delete vectors that are not in use",
    responses=responses(401, 403, 409, 503),
)
async def discard_vectors(called: OfAll, deployed: Deployed) -> DiscardedBody:
    """Stops what this process makes anew, and deletes half-made vectors and those of a former
    model. Not while another process makes new ones, or still answers from the former."""
    await deployed.reindexing.stop()
    return DiscardedBody(deleted=await deployed.services.vectors.discard())


def _state(deployed: Deployment) -> ReindexStateBody:
    return ReindexStateBody.of(deployed.reindexing, deployed.services.models.embedder.model)
