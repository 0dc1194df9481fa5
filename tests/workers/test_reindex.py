"""A change of embedding model: refused at the start, mended by `reindex`, without a model call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.domain import Kind, Status, VectorQuery
from app.errors import Conflict, Misconfigured
from app.settings import Settings
from app.wiring import embedded_queue, open_services
from tests.model_server import running
from tests.workers.conftest import CountingExtractor, RecordingQueue, Rig
from workers.reindex import reindex

TEXT = "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie."


async def fill(settings: Settings, *, until_ready: bool = True) -> dict[Kind, int]:
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        queue = RecordingQueue()
        extractor = CountingExtractor(services.models.extractor)
        rig = Rig(replace(services, queue=queue), queue, extractor)
        for workspace in ("one", "two"):
            await rig.submit(TEXT, "d", workspace=workspace)
        if until_ready:
            await rig.drain()
            status = (await rig.workspace("one").documents.get("d")).status
            assert status is Status.READY
        vectors = rig.workspace("one").vectors
        return {kind: await vectors.count(kind) for kind in Kind}


async def test_another_embedding_model_is_refused_until_everything_is_embedded_anew(
    tmp_path: Path,
) -> None:
    before = await fill(Settings(_env_file=None, data_dir=tmp_path))
    async with running() as model:
        other = Settings(
            _env_file=None, data_dir=tmp_path,
            embed_url=f"openai+http://{model.host}/v1", embed_model="another",
        )  # fmt: skip
        with pytest.raises(Misconfigured, match="reindex"):
            async with embedded_queue(other) as wired, open_services(wired):
                pass
        assert await reindex(other) == 2 * sum(before.values())
        async with embedded_queue(other) as wired, open_services(wired) as services:
            workspace = services.workspace("two")
            assert {kind: await workspace.vectors.count(kind) for kind in Kind} == before
            made = await services.models.embedder.embed(["polonium"], purpose="query")
            [hits] = await workspace.vectors.search(
                [VectorQuery(Kind.CHUNK, 5, dense=made.vectors[0])]
            )
            assert len(hits) == 1
        assert model.calls("extract") == 0
    with pytest.raises(Misconfigured, match="reindex"):
        async with (
            embedded_queue(Settings(_env_file=None, data_dir=tmp_path)) as wired,
            open_services(wired),
        ):
            pass


async def test_documents_on_their_way_are_waited_for(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    await fill(settings, until_ready=False)
    with pytest.raises(Conflict, match="on their way"):
        await reindex(settings)
