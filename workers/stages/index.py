"""Changed texts to vectors: embed, upsert, then mark what the vector store now covers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from app.domain import Point, Ref, Stale, Step, Usage
from app.ports import Models, Workspace
from app.together import to_its_end
from app.upkeep.texts import Text, points_of, texts_of
from workers.reach import reaches_beyond
from workers.shards import coded, decoded, shards

log = logging.getLogger("heliograph.index")

SHARD = 128  # references a step: small enough to see progress, large enough for full batches
GONE = "-"


async def of_document(workspace: Workspace, step: Step) -> list[list[str]]:
    return _shards(await workspace.graph.unindexed(step.document_id))


async def of_workspace(workspace: Workspace, step: Step) -> list[list[str]]:
    return _shards(await workspace.graph.unindexed())


async def beyond_document(workspace: Workspace, step: Step) -> list[list[str]]:
    return await of_workspace(workspace, step) if await reaches_beyond(workspace, step) else []


def _shards(stale: Sequence[Stale]) -> list[list[str]]:
    return shards([(GONE if one.gone else "") + coded(one.ref) for one in stale], SHARD)


async def run(workspace: Workspace, models: Models, step: Step) -> None:
    refs: dict[bool, list[Ref]] = {False: [], True: []}
    for code in step.shard:
        refs[code.startswith(GONE)].append(decoded(code.removeprefix(GONE)))
    if refs[True]:
        await _erase(workspace, refs[True])
    # What has evidence again by now lost its point all the same: it is written with the others.
    # A run before this one may have died when it had written what another document has newer.
    written, unchanged = await write(
        workspace, models, refs[False] + refs[True],
        anew=step.attempt > 1, payer=step.document_id,
    )  # fmt: skip
    await _warn(workspace, step, [point for point in written if not point.dense])
    log.info(
        "points.indexed workspace=%s document=%s upserted=%d unchanged=%d deleted=%d",
        workspace.name, step.document_id, len(written), unchanged, len(refs[True]),
    )  # fmt: skip


async def write(
    workspace: Workspace, models: Models, refs: Sequence[Ref], *, anew: bool = False,
    payer: str = "",
) -> tuple[list[Point], int]:  # fmt: skip
    """Embed and upsert what changed since it was indexed (`anew`: everything), and mark it. The
    points written, and how many texts needed none. What it costs is charged to a document."""
    texts = await texts_of(workspace, refs)
    changed = [text for text in texts if anew or text.digest != text.indexed]
    points: list[Point] = []
    if changed:
        made = await models.embedder.embed([text.text for text in changed], purpose="document")
        if payer and made.usage != Usage():
            await asyncio.shield(workspace.documents.charge(payer, made.usage))
        # In a thread: segmenting the words of long texts takes a while.
        points = await asyncio.to_thread(points_of, changed, made.vectors)
        await to_its_end(_put(workspace, models, points, texts, payer))
    else:
        await workspace.graph.mark_indexed([text.mark for text in texts])
    return points, len(texts) - len(changed)


async def _put(
    workspace: Workspace, models: Models, points: Sequence[Point], texts: Sequence[Text], payer: str
) -> None:
    """Not to be left half-way: what is being written when its job is overtaken arrives all the
    same, and whoever deleted its evidence has looked already."""
    await workspace.vectors.upsert(points)
    await workspace.graph.mark_indexed([text.mark for text in texts])
    await _look_again(workspace, models, points, payer)


async def _look_again(
    workspace: Workspace, models: Models, written: Sequence[Point], payer: str
) -> None:
    """What changed while it was embedded: another run may have written it from the newer text, and
    marked it, before this one wrote the older text over it. And points of what was deleted would
    stay for ever: whoever deleted it has looked already."""
    now = {
        text.ref: text.digest for text in await texts_of(workspace, [one.ref for one in written])
    }
    changed = [one.ref for one in written if now.get(one.ref) != one.digest]
    if gone := [ref for ref in changed if ref not in now]:
        await _erase(workspace, gone)
    if changed:  # with those gone that came back in between
        await write(workspace, models, changed, anew=True, payer=payer)


async def _erase(workspace: Workspace, refs: Sequence[Ref]) -> None:
    await workspace.vectors.delete(refs)
    await workspace.graph.forget(refs)


async def _warn(workspace: Workspace, step: Step, points: Sequence[Point]) -> None:
    """Texts that the embedding model could not take are found by their words only: say so."""
    if points:
        names = ", ".join(f"{point.ref.kind} {point.ref.key}" for point in points[:5])
        warning = f"{len(points)} texts have no vector and are found by words only: {names}"
        await workspace.documents.charge(step.document_id, Usage(), [warning])
