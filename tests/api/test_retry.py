"""One bad chunk costs one chunk, and just that chunk can be tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.domain import EntityMention, Extraction
from app.errors import BadModelOutput
from app.ports import Workspace
from tests.api.conftest import Site, assert_problem

GOOD, BAD = "Ada Lovelace wrote about the engine.", "Charles Babbage is unreadable."


@dataclass
class Moody:
    """An extractor that cannot read some passages, until it can."""

    bad: str = "unreadable"
    version: str = "moody"
    by_model: bool = True
    calls: list[str] = field(default_factory=list)

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        self.calls.append(text)
        if self.bad and self.bad in text:
            raise BadModelOutput("the reply holds nothing")
        return Extraction((EntityMention(" ".join(text.split()[:2]), "person", text),))


@pytest.fixture
def moody(site: Site) -> Moody:
    """The site with chunks of a sentence, read by a moody extractor."""
    extractor, inner = Moody(), site.services.workspace

    def workspace(name: str) -> Workspace:
        space = inner(name)
        options = replace(space.options, chunk_tokens=12, chunk_overlap=0)
        return replace(space, options=options)

    models = replace(site.services.models, extractor=extractor)
    site.services = replace(site.services, models=models, workspace=workspace)
    return extractor


async def shown(site: Site, path: str = "") -> dict[str, Any]:
    body: dict[str, Any] = (await site.client.get(f"/documents/d{path}")).json()
    return body


async def entities(site: Site) -> set[str]:
    found = await site.services.workspace("default").graph.search("", limit=100)
    return {one.name for one in found}


async def test_a_bad_chunk_is_named_and_read_again_alone(site: Site, moody: Moody) -> None:
    await site.add(f"{GOOD}\n\n{BAD}", id="d")
    body = await shown(site)
    chunks = (await shown(site, "/chunks"))["chunks"]
    assert body["status"] == "ready"
    [warning] = body["warnings"]
    assert chunks[1]["id"] in warning and "the reply holds nothing" in warning
    assert [one["error"] for one in chunks] == [None, "the reply holds nothing"]
    moody.bad, moody.calls[:] = "", []
    path = f"/documents/d/chunks/{chunks[1]['id']}/retry"
    assert (await site.client.post(path)).status_code == 202
    assert len((await shown(site, "/chunks"))["chunks"]) == 2, "visible meanwhile"
    await site.work()
    assert moody.calls == [BAD]
    body = await shown(site)
    assert (body["status"], body["warnings"], body["version"]) == ("ready", [], 1)
    assert [one["error"] for one in (await shown(site, "/chunks"))["chunks"]] == [None, None]
    assert {"Ada Lovelace", "Charles Babbage"} <= await entities(site)
    assert_problem(await site.client.post(path), 409, "not_failed")
    reply = await site.client.post("/documents/d/chunks/no-such-chunk/retry")
    assert_problem(reply, 404, "not_found")


async def test_a_ready_document_reads_all_its_bad_chunks_again(site: Site, moody: Moody) -> None:
    await site.add(f"{GOOD}\n\n{BAD}\n\n{BAD} It is.", id="d")
    before = (await shown(site))["warnings"]
    assert len(before) == 2
    moody.calls[:] = []
    assert (await site.client.post("/documents/d/retry")).status_code == 202
    await site.work()
    assert len(moody.calls) == 2
    assert (await shown(site))["warnings"] == before
    moody.bad = "It is"
    assert (await site.client.post("/documents/d/retry")).status_code == 202
    await site.work()
    [left] = (await shown(site))["warnings"]
    assert left in before


async def test_a_retry_that_is_cancelled_leaves_the_document_as_it_was(
    site: Site, moody: Moody
) -> None:
    await site.add(f"{GOOD}\n\n{BAD}", id="d")
    before, chunks = await shown(site), await shown(site, "/chunks")
    await site.client.post("/documents/d/retry")
    assert (await site.client.post("/documents/d/cancel")).status_code == 200
    await site.work()
    after = await shown(site)
    assert (after["status"], after["error"]["code"]) == ("failed", "cancelled")
    assert (after["warnings"], after["version"]) == (before["warnings"], 1)
    assert await shown(site, "/chunks") == chunks
    moody.bad = ""
    assert (await site.client.post("/documents/d/retry")).status_code == 202
    await site.work()
    after = await shown(site)
    assert (after["status"], after["warnings"], after["error"]) == ("ready", [], None)


LONG = "Marie Curie met Pierre Curie in Paris, and Henri Becquerel wrote to them both. " * 3


@dataclass
class Weak(Moody):
    """A model that follows the form and finds nothing."""

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        return Extraction()


def read_by(site: Site, extractor: Moody) -> None:
    models = replace(site.services.models, extractor=extractor)
    site.services = replace(site.services, models=models)


async def test_a_model_too_weak_to_extract_is_said(site: Site, moody: Moody) -> None:
    read_by(site, Weak())
    await site.add(LONG, id="d")
    body = await shown(site)
    [warning] = body["warnings"]
    assert body["status"] == "ready"
    assert warning.startswith("no_entities: the model found no entity in any of ")
    listed = (await site.client.get("/documents")).json()["documents"]
    assert [one["warnings"] for one in listed] == [[warning]]


@pytest.mark.parametrize(
    ("text", "by_model"),
    [
        ("Nothing to see here, Marie.", True),
        ("nothing at all is named here. " * 20, True),
        (LONG, False),
    ],
)
async def test_a_text_that_names_nothing_and_rules_that_find_nothing_raise_no_alarm(
    site: Site, moody: Moody, text: str, by_model: bool
) -> None:
    read_by(site, Weak(by_model=by_model))
    await site.add(text, id="d")
    assert (await shown(site))["warnings"] == []


async def test_readiness_notices_a_model_that_finds_nothing_again_and_again(
    site: Site, moody: Moody
) -> None:
    read_by(site, Weak())
    for n in range(10):
        assert (await site.client.get("/readyz")).json()["notices"] == []
        await site.add(f"{LONG} {n}", id=f"d{n}")
    [notice] = (await site.client.get("/readyz")).json()["notices"]
    assert notice.startswith("no_entities: in 1 workspace the model found no entity in any of ")
    read_by(site, Moody())
    await site.add(LONG, id="better")
    assert (await site.client.get("/readyz")).json()["notices"] == []
