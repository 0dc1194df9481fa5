"""A workspace into an archive and back: between stores, under another name, from a broken file."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from app.domain import Clustering, Kind, Placement, Plan, Ruling, Status, VectorQuery
from app.errors import BadRecord, Conflict, Invalid, NotFound, TooLarge, Unavailable
from app.folding import document_scope
from app.ports import Services
from app.settings import Settings
from app.upkeep.backup import backup
from app.upkeep.check import check
from app.upkeep.container import MANIFEST, PAGE_BYTES, Seal, Writer, compressed, members
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump
from app.upkeep.jobs import new_job
from app.upkeep.restore import restore
from app.upkeep.verify import verified
from app.wiring import embedded_queue, open_services
from tests import make, qdrant_standin
from tests.servers import Server
from tests.workers.conftest import CountingExtractor, RecordingQueue, Rig

CURIE = (
    "Marie Curie was a physicist in Paris. Marie Curie discovered polonium with Pierre Curie. "
    "Marie Curie won the Nobel Prize in Physics in 1903."
)
PARIS = "Paris is the capital of France. Marie Curie taught at the University of Paris."
RADIUM = "Radium is a chemical element. Marie Curie isolated radium in Paris in 1910."


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Rig]:
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        queue, extractor = RecordingQueue(), CountingExtractor(services.models.extractor)
        models = replace(services.models, extractor=extractor)
        yield Rig(replace(services, queue=queue, models=models), queue, extractor)


async def archived(services: Services, name: str, *, packed: bool = False) -> IO[bytes]:
    stream = backup(services.workspace(name), services.models.embedder, now=1.0)
    pieces = [piece async for piece in (compressed(stream) if packed else stream)]
    return io.BytesIO(b"".join(pieces))


async def lines(services: Services, name: str) -> list[str]:
    return [line async for line in dump(services.workspace(name))]


async def assert_equal(one: Services, first: str, other: Services, second: str) -> None:
    ours = await lines(one, first)
    assert ours
    assert list(difference(ours, await lines(other, second))) == []


async def fill(rig: Rig, name: str = "default") -> None:
    await rig.submit(CURIE, workspace=name)  # whose id derives from its bytes
    await rig.submit(RADIUM, "mine", workspace=name)
    await rig.drain()
    await rig.submit(PARIS, "mine", workspace=name)  # replaces it
    await rig.drain()


# --- within one pair of stores -------------------------------------------------------------------


async def test_a_clone_is_equal_and_asks_no_model_again(rig: Rig) -> None:
    await fill(rig)
    calls = len(rig.extractor.calls)
    file = await archived(rig.services, "default")
    done = await restore(rig.services, "copy", file)
    assert (done.documents, done.queued, done.vectors) == (2, 0, True)
    await assert_equal(rig.services, "default", rig.services, "copy")
    await rig.drain()  # what is left to a worker changes nothing
    await assert_equal(rig.services, "default", rig.services, "copy")
    assert len(rig.extractor.calls) == calls
    stale = await rig.workspace("copy").graph.unindexed()
    assert stale == []


async def test_a_clone_lives_on_by_itself(rig: Rig) -> None:
    await fill(rig)
    await restore(rig.services, "copy", await archived(rig.services, "default"))
    await rig.drain()
    again = await rig.submit(CURIE, workspace="copy")
    assert again.status is Status.READY  # known: equal bytes have an equal id
    await rig.delete(again.id, "copy")
    await rig.drain()
    assert [one.id for one in await rig.workspace("copy").documents.page()] == ["mine"]
    await rig.submit(PARIS, "mine", workspace="other")
    await rig.drain()
    await assert_equal(rig.services, "other", rig.services, "copy")
    assert len(await rig.workspace("default").documents.page()) == 2


async def test_all_that_a_document_shows_is_kept(rig: Rig) -> None:
    await fill(rig)
    before = await rig.workspace().documents.get("mine")
    dates = await rig.workspace().archive.dates(["mine"])
    await restore(rig.services, "copy", await archived(rig.services, "default"))
    after = await rig.workspace("copy").documents.get("mine")
    assert after.version == before.version == 2
    assert replace(after, job=before.job, updated_at=0) == replace(before, updated_at=0)
    assert (after.job.plan, after.job.state) == (Plan.INGEST, before.job.state)
    assert await rig.workspace("copy").archive.dates(["mine"]) == dates


async def test_rulings_and_placements_are_kept(rig: Rig) -> None:
    await fill(rig)
    names = rig.workspace().names
    [derived] = [one.id for one in await rig.workspace().documents.page() if one.id != "mine"]
    await names.rule([Ruling("marie curie", "pierre curie", False, "user", "a couple", 5.0)])
    await names.place([Placement("paris", document_scope(derived), "paris texas", "Paris, Texas")])
    await rig.services.journal.open(job := make.job("", plan=Plan.CURATE, workspace="default"))
    await rig.queue.send([Rig.first(replace(job, stage="resolve"))])
    await rig.drain()
    await restore(rig.services, "copy", await archived(rig.services, "default"))
    await assert_equal(rig.services, "default", rig.services, "copy")
    await rig.drain()
    await assert_equal(rig.services, "default", rig.services, "copy")
    [placed] = await rig.workspace("copy").names.placed()
    assert placed.scope == document_scope(derived)


async def test_a_document_on_its_way_is_queued_and_one_that_failed_stays_so(rig: Rig) -> None:
    await fill(rig)
    await rig.submit(RADIUM, "waiting")
    rig.queue.sent.clear()
    await rig.submit(" ", "empty")
    await rig.drain()
    failed = await rig.workspace().documents.get("empty")
    assert failed.status is Status.FAILED
    file = await archived(rig.services, "default")
    done = await restore(rig.services, "copy", file)
    assert (done.documents, done.queued) == (4, 1)
    copied = await rig.workspace("copy").documents.get("empty")
    assert (copied.status, copied.job.error) == (Status.FAILED, failed.job.error)
    await rig.drain()
    assert (await rig.workspace("copy").documents.get("waiting")).status is Status.READY


async def test_a_backup_amid_changes_is_of_whole_documents(rig: Rig) -> None:
    """Each as it was at one moment: replaced and deleted while the archive is written."""
    for n in range(6):
        await rig.submit(f"{CURIE} Person {n} met Marie Curie in Paris.", f"d{n}")
    await rig.drain()
    pieces, changes = [], iter(range(6))
    stream = backup(rig.workspace(), rig.services.models.embedder, now=1.0)
    async for piece in stream:
        pieces.append(piece)
        if b"documents/" in piece[:100] and (n := next(changes, None)) is not None:
            if n % 2:
                await rig.delete(f"d{n}")
            else:
                await rig.submit(f"{RADIUM} Somebody else was {n}.", f"d{n}")
            await rig.drain()
    done = await restore(rig.services, "copy", io.BytesIO(b"".join(pieces)))
    await rig.drain()
    copied = await rig.workspace("copy").documents.page()
    assert [one.id for one in copied] == ["d0", "d2", "d4"]
    assert {one.status for one in copied} == {Status.READY}
    assert done.documents == 3
    assert await check(rig.services, rig.workspace("copy"), wait=0) == []
    await assert_equal(rig.services, "default", rig.services, "copy")


async def test_gzip_is_seen(rig: Rig) -> None:
    await fill(rig)
    file = await archived(rig.services, "default", packed=True)
    assert gzip.decompress(file.read())
    await restore(rig.services, "copy", file)
    await assert_equal(rig.services, "default", rig.services, "copy")


# --- what is refused -----------------------------------------------------------------------------


async def test_a_workspace_with_documents_is_not_restored_into(rig: Rig) -> None:
    await fill(rig)
    before = await lines(rig.services, "default")
    with pytest.raises(Conflict, match="has documents"):
        await restore(rig.services, "default", await archived(rig.services, "default"))
    assert list(difference(before, await lines(rig.services, "default"))) == []


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def changed(data: bytes) -> bytes:
    place = data.index(b"polonium")
    return data[:place] + b"P" + data[place + 1 :]


def without_a_member(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for member in old:
            if not member.name.startswith("entities/"):
                new.addfile(member, old.extractfile(member))
    return out.getvalue()


@pytest.mark.parametrize("harm", [cut, changed, without_a_member, lambda data: b"", lambda _: b"x"])
async def test_a_damaged_archive_changes_nothing(rig: Rig, harm: Any) -> None:
    await fill(rig)
    data = (await archived(rig.services, "default")).read()
    with pytest.raises(Invalid):
        await restore(rig.services, "copy", io.BytesIO(harm(data)))
    assert await rig.workspace("copy").documents.page() == []
    assert await rig.services.journal.jobs("copy") == []


def resealed(data: bytes, name: str, harm: Callable[[Any], Any], **changed: Any) -> bytes:
    """With JSON of members changed, and a checksum that fits."""
    writer, out, told = Writer(), b"", {}
    with tarfile.open(fileobj=io.BytesIO(data)) as old:
        for member in old:
            content = old.extractfile(member)
            assert content is not None
            held = content.read()
            if member.name == MANIFEST:
                told = json.loads(held)
                continue
            if member.name.startswith(name):
                lines = [json.loads(line) for line in held.split(b"\n")]
                held = b"\n".join(json.dumps(harm(line)).encode() for line in lines)
            out += writer.member(member.name, held)
    facts = {"void": told["void"], "documents": told["documents"], **changed}
    return out + writer.end(**(harm(facts) if name == MANIFEST else facts))


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        (MANIFEST, lambda facts: {}),
        ("heliograph.json", lambda header: [header]),
        ("heliograph.json", lambda header: {"format": header["format"]}),
        ("documents/", lambda held: {**held, "id": ""}),
        ("documents/", lambda held: {**held, "id": 7}),
        ("documents/", lambda held: {**held, "id": "x" * 129}),
        ("documents/", lambda held: {**held, "state": "asleep"}),
        ("documents/", lambda held: {**held, "live": "yes"}),
        ("documents/", lambda held: {**held, "version": 10**30}),
        ("chunks/", lambda held: {"chunk": held["chunk"]}),
        ("chunks/", lambda held: {**held, "extraction": {"entities": 5}}),
        ("chunks/", lambda held: {**held, "chunk": {**held["chunk"], "document_id": "theirs"}}),
        ("entities/", lambda held: [held]),
        ("entities/", lambda held: {**held, "point": {**held["point"], "dense": "AAAA"}}),
    ],
)
async def test_an_archive_that_no_backup_writes_is_refused_and_changes_nothing(
    rig: Rig, name: str, harm: Any
) -> None:
    await fill(rig)
    data = (await archived(rig.services, "default")).read()
    with pytest.raises(Invalid):
        await restore(rig.services, "copy", io.BytesIO(resealed(data, name, harm)))
    assert await rig.workspace("copy").documents.page() == []
    assert await lines(rig.services, "copy") == []


async def test_an_archive_cannot_reach_for_the_files_of_another_workspace(rig: Rig) -> None:
    await fill(rig)
    secret = await rig.workspace("theirs").blobs.put(b"not yours")
    data = (await archived(rig.services, "default")).read()

    def reach(held: Any) -> Any:
        return {**held, "live": {**held["live"], "source": secret, "text": secret}}

    with pytest.raises(BadRecord, match="lacks a file"):
        await restore(rig.services, "copy", io.BytesIO(resealed(data, "documents/", reach)))
    assert await rig.workspace("copy").documents.page() == []
    # An archive may say that a file was gone when it was written: then it stays gone.
    facts = {"missing": [secret]}
    await restore(rig.services, "copy", io.BytesIO(resealed(data, "documents/", reach, **facts)))
    for document in await rig.workspace("copy").documents.page():
        for key in (document.revision.source, document.revision.text):
            with pytest.raises(NotFound):
                await rig.workspace("copy").blobs.get(key)


async def test_a_workspace_that_has_lost_files_can_still_be_moved(rig: Rig) -> None:
    await fill(rig)
    mine = await rig.workspace().documents.get("mine")
    await rig.workspace().blobs.delete([mine.revision.source])
    done = await restore(rig.services, "copy", await archived(rig.services, "default"))
    assert done.documents == 2
    moved = await rig.workspace("copy").documents.get("mine")
    with pytest.raises(NotFound):
        await rig.workspace("copy").blobs.get(moved.revision.source)
    held = await rig.workspace("copy").archive.chunks(document_id="mine", limit=9)
    assert [one.live for one in held] == [True]


async def test_an_archive_larger_than_the_limit_is_refused_before_it_is_unpacked(rig: Rig) -> None:
    await fill(rig)
    bomb = Writer()
    data = bomb.json("heliograph.json", {}) + bomb.member("blobs/" + "0" * 64, bytes(10**7))
    file = io.BytesIO(gzip.compress(data + bomb.end()))
    with pytest.raises(TooLarge, match="HELIOGRAPH_MAX_RESTORE_BYTES"):
        list(members(file, limit=10**6))
    whole = await archived(rig.services, "default")
    with pytest.raises(TooLarge, match="HELIOGRAPH_MAX_RESTORE_BYTES"):
        await restore(rig.services, "copy", whole, limit=10**3)
    await restore(rig.services, "copy", whole, limit=10**7)


async def test_long_blobs_and_pages_go_through_in_pieces(rig: Rig) -> None:
    """More than any member may have in memory: blobs of 96 MiB, read and written with less."""
    await fill(rig)
    length, chunk = 96 * 2**20, bytes(range(256)) * 4096
    with tempfile.TemporaryFile() as file:
        for _ in range(length // len(chunk)):
            file.write(chunk)
        key = await rig.workspace().blobs.put_file(file)
    writer = Writer()
    tracemalloc.start()
    try:
        with tempfile.TemporaryFile() as blob, tempfile.TemporaryFile() as archive:
            async for piece in rig.workspace().blobs.pieces(key):
                blob.write(piece)
            for piece in writer.file(f"blobs/{key}", blob):
                archive.write(piece)
            archive.write(writer.end())
            seal = Seal()
            for member in members(archive, seal=seal):
                for _ in member.pieces():
                    pass
        assert seal.checksum == writer.seal.checksum
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_a_page_is_ended_where_it_grows_long() -> None:
    writer = Writer()
    data = writer.page("chunks/1", [{"text": "x" * (PAGE_BYTES // 3)} for _ in range(5)])
    data += writer.end()
    found = [(one.name, one.size) for one in members(io.BytesIO(data))]
    assert [name for name, _ in found][:-1] == [f"chunks/1/{n:08}.ndjson" for n in (1, 2, 3)]
    assert all(size < PAGE_BYTES for _, size in found)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.DIRTYPE,
                                  tarfile.SYMTYPE, tarfile.GNUTYPE_SPARSE])  # fmt: skip
def test_entries_that_are_no_plain_files_are_refused_unread(kind: bytes) -> None:
    info = tarfile.TarInfo("heliograph.json")
    info.type, info.size = kind, 2**33
    with pytest.raises(Invalid):
        list(members(io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))))


@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 700, 1023, 1024, 1500])
def test_an_archive_that_is_cut_anywhere_is_refused(length: int) -> None:
    writer = Writer()
    whole = writer.member("heliograph.json", b"{}") + writer.end(void=[], documents=0)
    with pytest.raises(Invalid):
        verified(io.BytesIO(whole[:length]))


async def test_a_restore_that_fails_leaves_what_was_uploaded_meanwhile(rig: Rig) -> None:
    await fill(rig)
    data = (await archived(rig.services, "default")).read()
    space = rig.workspace("copy")

    class Beside:
        def __getattr__(self, name: str) -> Any:
            return getattr(space.vectors, name)

        async def upsert(self, points: Any) -> None:
            if any(point.ref.kind is Kind.ENTITY for point in points):
                await rig.submit(RADIUM, "theirs", workspace="copy")
                raise Unavailable("The vector store is away.")
            await space.vectors.upsert(points)

    broken: Any = replace(space, vectors=Beside())
    services = replace(rig.services, workspace=lambda name: broken)
    with pytest.raises(Unavailable):
        await restore(services, "copy", io.BytesIO(data))
    await rig.drain()
    [left] = await space.documents.page()
    assert (left.id, left.status) == ("theirs", Status.READY)


async def test_what_an_error_leaves_half_made_is_taken_back(rig: Rig) -> None:
    await fill(rig)
    before = await lines(rig.services, "default")
    file = await archived(rig.services, "default")
    space = rig.workspace("copy")

    class Away:
        def __getattr__(self, name: str) -> Any:
            return getattr(space.vectors, name)

        async def upsert(self, points: Any) -> None:
            if any(point.ref.kind is Kind.ENTITY for point in points):
                raise Unavailable("The vector store is away.")
            await space.vectors.upsert(points)

    broken: Any = replace(space, vectors=Away())
    services = replace(
        rig.services, workspace=lambda name: broken if name == "copy" else rig.workspace(name)
    )
    with pytest.raises(Unavailable):
        await restore(services, "copy", file)
    assert await lines(rig.services, "copy") == []
    assert {kind: await space.vectors.count(kind) for kind in Kind} == dict.fromkeys(Kind, 0)
    assert list(difference(before, await lines(rig.services, "default"))) == []
    mine = await rig.workspace().documents.get("mine")
    assert await rig.workspace().blobs.has(mine.revision.source)
    await rig.drain()
    await restore(rig.services, "copy", file)
    await assert_equal(rig.services, "default", rig.services, "copy")


DYING = """
import asyncio, os, sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from app.domain import Kind
from app.settings import Settings
from app.upkeep.restore import restore
from app.wiring import embedded_queue, open_services

class Dying:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    async def upsert(self, points):
        if any(point.ref.kind is Kind.ENTITY for point in points):
            os._exit(9)
        await self.inner.upsert(points)

async def main(folder, archive):
    settings = Settings(_env_file=None, data_dir=folder)
    async with embedded_queue(settings) as wired, open_services(wired) as services:
        def workspace(name):
            space = services.workspace(name)
            return replace(space, vectors=Dying(space.vectors))
        with archive.open("rb") as file:
            await restore(replace(services, workspace=workspace), "copy", file)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


async def test_a_worker_ends_the_restore_of_a_process_that_died(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path / "data")
    archive = tmp_path / "archive.tar"
    async with opened(settings) as rig:
        await fill(rig)
        archive.write_bytes((await archived(rig.services, "default")).read())
    died = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", DYING, str(settings.data_dir), str(archive)],
        cwd=Path(__file__).parent.parent.parent,
        check=False,
    )
    assert died.returncode == 9
    async with opened(settings) as rig:
        database: Any = rig.services.dependencies["graph"]
        await database.write(  # the lease has run out
            lambda connection: connection.execute("update steps set ready_at = 0, overdue_at = 0")
        )
        await rig.sweep()
        await assert_equal(rig.services, "default", rig.services, "copy")
        assert not rig.extractor.calls


# --- between stores ------------------------------------------------------------------------------


@pytest.fixture
def qdrant(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with qdrant_standin.running(tmp_path_factory.mktemp("qdrant")) as server:
        yield server.url


@pytest.fixture
async def remote(tmp_path: Path, neo4j: Server, qdrant: str) -> AsyncIterator[Rig]:
    """Neo4j and Qdrant in place of SQLite and Edge."""
    from migrations import migrate

    await migrate(neo4j.url, user=neo4j.user, password=neo4j.password)
    settings = Settings(
        _env_file=None, data_dir=tmp_path / "remote", graph_url=neo4j.url, graph_user=neo4j.user,
        graph_password=neo4j.password, vector_url=qdrant,
    )  # fmt: skip
    async with opened(settings) as rig:
        yield rig


@pytest.mark.server
async def test_from_sqlite_and_edge_to_neo4j_and_qdrant_and_back(rig: Rig, remote: Rig) -> None:
    there, back = make.name(), make.name()
    await fill(rig)
    await communities_of(rig)
    await restore(remote.services, there, await archived(rig.services, "default"))
    await assert_equal(rig.services, "default", remote.services, there)
    await remote.drain()
    await assert_equal(rig.services, "default", remote.services, there)
    before = await remote.workspace(there).communities.page(limit=100)
    await communities_of(remote, there)
    assert await remote.workspace(there).communities.page(limit=100) == before, "divided alike"
    await restore(rig.services, back, await archived(remote.services, there))
    await rig.drain()
    await assert_equal(rig.services, "default", rig.services, back)
    assert not remote.extractor.calls
    embedded = await remote.services.models.embedder.embed(["polonium"], purpose="query")
    [vector] = embedded.vectors
    [hits] = await remote.workspace(there).vectors.search([VectorQuery(Kind.CHUNK, 5, vector)])
    assert len(hits) == 2


# --- communities ---------------------------------------------------------------------------------


async def communities_of(rig: Rig, name: str = "default") -> None:
    job = new_job(name, Plan.COMMUNITIES)
    await rig.workspace(name).communities.begin(job.id, Clustering(levels=2, size=3))
    await rig.services.journal.open(job)
    await rig.queue.send([Rig.first(job)])
    await rig.drain()


async def test_a_clone_has_the_communities_with_their_reports_and_vectors(rig: Rig) -> None:
    await fill(rig)
    await communities_of(rig)
    await restore(rig.services, "copy", await archived(rig.services, "default"))
    await assert_equal(rig.services, "default", rig.services, "copy")
    ours, theirs = rig.workspace().communities, rig.workspace("copy").communities
    assert await theirs.division() == await ours.division()
    copies = await theirs.page(limit=100)
    assert copies
    assert all(one.fresh and one.indexed for one in copies)
    assert [one.report for one in copies] == [one.report for one in await ours.page(limit=100)]
    assert await theirs.due() == []


async def test_a_report_is_not_restored_where_its_evidence_was_not_in_the_archive(
    rig: Rig,
) -> None:
    await fill(rig)
    await communities_of(rig)
    space, added = rig.workspace(), False

    class Meanwhile:
        """What comes after documents were written, and before communities are."""

        def __getattr__(self, name: str) -> Any:
            return getattr(space.archive, name)

        async def relations(self, **page: Any) -> Any:
            nonlocal added
            if not added:
                added = True
                await rig.submit("Marie Curie met Albert Einstein in Paris.", "late")
                await rig.drain()
                await communities_of(rig)
            return await space.archive.relations(**page)

    writing: Any = replace(space, archive=Meanwhile())
    stream = backup(writing, rig.services.models.embedder, now=1.0)
    file = io.BytesIO(b"".join([piece async for piece in stream]))
    assert "Einstein" in repr(await space.communities.page(limit=100))
    await restore(rig.services, "copy", file)
    copies = await rig.workspace("copy").communities.page(limit=100)
    assert copies
    assert "Einstein" not in repr(copies)
