"""What only SQLite can get wrong: query plans, growth, clocks, crashes and broken files."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.domain import Kind, Placement, Plan, Ref, Ruling, State, Status
from app.errors import Invalid, Misconfigured, Unavailable
from app.folding import document_scope
from app.resolution.model import Pair
from app.resolution.settlement import Reviewed, Settlement
from app.stores.sqlite import (
    SqliteDatabase,
    SqliteDocuments,
    SqliteGraph,
    SqliteJournal,
    SqliteKeyring,
    SqliteNames,
)
from migrations import migrate
from tests import make
from tests.contract.conftest import Library

READING = make.extraction(
    make.entity("Hub", "a fact", aliases=["Nave"]), make.relation("Hub", "Rim", "a spoke"),
    about=["Hub"],
)  # fmt: skip


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    await migrate(f"sqlite://{tmp_path / 'graph.db'}")
    return tmp_path / "graph.db"


@asynccontextmanager
async def opened(path: Path, now: float | None = None) -> AsyncIterator[SqliteDatabase]:
    if now is None:
        async with SqliteDatabase.open(path) as database:
            yield database
    else:
        async with SqliteDatabase.open(path, clock=lambda: now) as database:
            yield database


def library_of(database: SqliteDatabase, name: str = "w") -> Library:
    return Library(
        name, SqliteDocuments(database, name), SqliteGraph(database, name),
        SqliteNames(database, name),
    )  # fmt: skip


async def use_everything(database: SqliteDatabase) -> None:
    """Every method of every store, on something that is there."""
    library, graph = library_of(database), SqliteGraph(database, "w")
    keyring = SqliteKeyring(database)
    for document in ("d1", "d2"):
        revision = make.revision(metadata={"a": [1, "x"]}, date="2024-01-01")
        await library.ingest(document, {f"c-{document}": READING}, revision)
    hub, spoke = Ref(Kind.ENTITY, "hub"), Ref(Kind.RELATION, "hub\trim")
    await library.profile_all("d1")
    await library.profile_all()
    await library.index_all("d1")
    await library.index_all()
    await library.fingerprint()
    job = await library.open("d1")
    await library.put("d1", job, {"c-d1": READING, "c9": READING})
    await graph.fold("d1", job, await graph.unfolded("d1", job))
    await graph.unread("d1", job)
    await graph.extractions(["key of c9"])
    await graph.pending_chunks("d1", ["c9"])
    for documents in (None, ["d1"]):
        await graph.entity_links(["hub"], chunks=5, about=5, documents=documents)
        await graph.relations_of(["hub"], per_entity=5, documents=documents)
        await graph.relation_chunks([spoke.key], per_relation=5, documents=documents)
        await graph.evidence([hub, spoke], documents=documents)
    for ref in (hub, spoke):
        await graph.mentions(ref)
        await graph.supported(ref.kind, ["d1"], limit=5)
    await graph.find(["hub", "nave", "x"], about=True)
    await graph.search("hub", limit=5, after="rim")
    await graph.subgraph(["hub"], depth=2, limit=5)
    await use_documents_and_journal(library, SqliteJournal(database), job)
    await use_names(library)
    await library.delete("d1")
    await library.forget_the_gone()
    await keyring.add(make.api_key("k", digest="x"))
    await keyring.find("x")
    await keyring.revoke("k")
    await keyring.workspaces()


async def use_names(library: Library) -> None:
    names = library.names
    one, other = sorted(("hub", "rim"))
    pair = Reviewed(Pair(one, other, "alias", 50, 60), "ask")
    await library.settle({"rim": "hub"}, blocks={"rim": ["b"]}, pairs=[pair], reopen=["hub"])
    await names.settle(Settlement(await names.version(), decisions=[(one, other, "merge")]))
    await names.place([Placement("rim", document_scope("d1"), "tyre", "Tyre")])
    await names.move("m", limit=1)
    await library.move("m")
    await library.settle({"rim": "rim"}, apart={"hub": {"film": "Hub (film)"}})
    await library.move("m")
    await names.rule([Ruling(one, other, True, "user")])
    await names.unrule(one, other)
    for keys in (["hub", "rim"], ["x"]):
        await names.known(keys)
        await names.members(keys)
        await names.in_blocks(keys, limit=5)
        await names.pairs(keys)
        await names.rulings(keys)
    await names.used_by("hub", limit=5)
    await names.placed(after="hub\tdocument:d0")
    for decision in ("", "ask"):
        await names.review(decision=decision, after=pair.place)
    await names.place([Placement("rim", document_scope("d1"), "")], remove=True)
    await names.moving()
    await names.adopt("m")
    await names.moved("m")
    await names.tidy("m")
    await names.together([("hub", "rim")])


async def use_documents_and_journal(library: Library, journal: SqliteJournal, job: str) -> None:
    documents_store = library.documents
    await documents_store.parsed("d1", job, text="t", title="t")
    await documents_store.blob_in_use("t")
    await documents_store.counts()
    await documents_store.many(["d1"])
    for status in (None, Status.QUEUED):
        await documents_store.page(status=status, filters={"a": 1, "date": {"gt": "2"}}, after="a")
    await documents_store.matching({"a": [1, "x"], "date": {"gt": "2"}}, limit=5)
    await documents_store.matching({}, limit=5)
    step = await journal.claim(f"{job}.parse.0", lease=60, tries=3)
    assert step is not None
    await journal.renew(step, lease=60)
    step = (await journal.finish(step, shards=[["a"], ["b"]], lease=60)).step
    assert step is not None
    await journal.release(step, delay=0, error="x")
    await journal.overdue(limit=5, lease=30)
    for narrowed in ({}, {"document_id": "d1"}, {"state": State.QUEUED}, {"after": job}):
        await journal.jobs("w", **narrowed)  # type: ignore[arg-type]
    await journal.job("w", job)
    await journal.close("w", job, State.CANCELLED)
    await library.reopen("d1", Plan.INGEST)


@pytest.fixture
async def plans(path: Path) -> dict[str, list[str]]:
    """Statement -> steps of its query plan, for all that the stores execute."""
    statements: set[str] = set()
    async with opened(path) as database:
        for connection in database._connections:
            connection.set_trace_callback(statements.add)
        await use_everything(database)
    probe = sqlite3.connect(path)
    found = {
        sql: [row[3] for row in probe.execute(f"explain query plan {sql}")]
        for sql in sorted(statements)
        if re.match(r"\s*(select|with|insert|update|delete)", sql)
    }
    probe.close()
    assert len(found) > 80
    return found


async def test_no_statement_reads_a_whole_table_or_index(plans: dict[str, list[str]]) -> None:
    small = r"SCAN (CONSTANT ROW|\w+ VIRTUAL TABLE|\(subquery|names\b|\d+ CONSTANT)"
    scans = {
        sql: step
        for sql, steps in plans.items()
        for step in steps
        if step.startswith("SCAN") and not re.match(small, step)
    }
    assert scans == {}
    # An index that leads by workspace only helps if it is partial, counts, or a limit ends it.
    whole = {
        sql: step
        for sql, steps in plans.items()
        for step in steps
        if re.search(r"(INDEX (?!\w+_(unindexed|unprofiled))|KEY)\w* ?\(workspace=\?\)", step)
        and not re.search(
            r"limit|group by status|from (totals|settlements|moved)\b|replace moved", sql
        )
    }
    assert whole == {}


async def test_bounded_reads_of_hubs_follow_an_index_and_sort_nothing(
    plans: dict[str, list[str]],
) -> None:
    bounded = {
        sql: steps
        for sql, steps in plans.items()
        if re.search(
            r"order by (m\.|a\.|r\.|e\.)?(chunk_id|weight|mentions desc, e.key limit)", sql
        )
    }
    assert len(bounded) >= 8
    assert {sql: s for sql, steps in bounded.items() for s in steps if "TEMP B-TREE" in s} == {}


async def test_no_statement_seeks_each_of_a_list_for_each_of_its_rows(
    plans: dict[str, list[str]],
) -> None:
    """A list in the condition, next to rows of a list: an index of both is asked for every two."""
    lists = re.compile(r"and (?:\w+\.)?(\w+) in \(select value from json_each")
    squared = [
        (sql, step)
        for sql, steps in plans.items()
        for step in steps[1:]
        for column in lists.findall(sql)
        if "VIRTUAL TABLE" in steps[0] and f"AND {column}=?" in step
        and "select 1 " not in sql  # whether there is one: of the few entities of a name
    ]  # fmt: skip
    assert squared == []


async def work_of_one_document(path: Path, stored: int) -> dict[str, int]:
    """SQLite's own instruction count of each call, next to so many documents about the same."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    async with opened(path) as database:
        library = library_of(database)
        graph = library.graph
        for n in range(0, stored, 100):
            await library.ingest(f"d{n}", {f"c{n + i:05}": READING for i in range(100)})
        await library.profile_all()
        await library.index_all()
        for connection in database._connections:
            connection.set_progress_handler(count, 10)
        work: dict[str, int] = {}

        def lap(name: str) -> None:
            nonlocal counted
            work[name], counted = counted, 0

        job = await library.open("new")
        ids = await library.put("new", job, {"new": READING})
        lap("put")
        await graph.fold("new", job, ids)
        lap("fold")
        refs = await graph.unprofiled("new")
        lap("unprofiled")
        await graph.evidence(refs)
        lap("evidence")
        await library.profile_all("new")
        await library.index_all("new")
        lap("profile and index")
        await library.documents.publish("new", job)
        lap("publish")
        await graph.entity_links(["hub"], chunks=10, about=10)
        await graph.relations_of(["hub"], per_entity=10)
        await graph.relation_chunks(["hub\trim"], per_relation=10)
        await graph.chunk_links(["new"])
        await graph.stats()
        await graph.search("hub", limit=10)
        await graph.subgraph(["hub"], depth=1, limit=10)
        lap("query")
        await library.delete("new")
        lap("delete")
        await graph.unprofiled()
        await graph.unindexed()
        lap("stale of the workspace")
        return work


async def test_no_call_costs_more_for_what_is_stored_already(tmp_path: Path) -> None:
    works = []
    for stored in (200, 2000):
        path = tmp_path / f"{stored}.db"
        await migrate(f"sqlite://{path}")
        works.append(await work_of_one_document(path, stored))
    few, many = works
    grown = {name: (few[name], many[name]) for name in few if many[name] > few[name] * 1.2 + 20}
    assert grown == {}


# --- time ----------------------------------------------------------------------------------------


async def test_a_fresh_step_is_left_to_the_queue_for_a_few_seconds(path: Path) -> None:
    job = make.job("d")
    async with opened(path, now=1000.0) as database:
        await SqliteDocuments(database, "w").submit("d", make.revision(), job)
        assert await SqliteJournal(database).overdue(limit=5, lease=30) == []
    async with opened(path, now=1006.0) as database:
        [ticket] = await SqliteJournal(database).overdue(limit=5, lease=30)
        assert ticket.step_id == f"{job.id}.parse.0"


async def test_a_lease_holds_until_its_time_is_up(path: Path) -> None:
    job = make.job("d")
    async with opened(path, now=1000.0) as database:
        await SqliteDocuments(database, "w").submit("d", make.revision(), job)
        step = await SqliteJournal(database).claim(f"{job.id}.parse.0", lease=30, tries=5)
        assert step is not None
    async with opened(path, now=1029.0) as database:
        assert await SqliteJournal(database).claim(step.id, lease=30, tries=5) is None
        assert await SqliteJournal(database).overdue(limit=5, lease=30) == []
    async with opened(path, now=1031.0) as database:
        assert [t.step_id for t in await SqliteJournal(database).overdue(limit=5, lease=30)] == [
            step.id
        ]
        assert await SqliteJournal(database).claim(step.id, lease=30, tries=5) is not None


# --- several processes, crashes, broken files ----------------------------------------------------

WRITER = """
import asyncio, sys
from pathlib import Path
from app.stores.sqlite import SqliteDatabase, SqliteDocuments
from tests import make

async def main(path, name):
    async with SqliteDatabase.open(Path(path)) as database:
        documents = SqliteDocuments(database, "w")
        for n in range(10_000):
            await documents.submit(f"{name}-{n:05}", make.revision(), make.job())
            print(n, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_writing_processes_that_are_killed_lose_nothing_they_acknowledged(
    path: Path,
) -> None:
    acknowledged = {"a": -1, "b": -1}
    writers = {
        name: await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(path), name, stdout=asyncio.subprocess.PIPE
        )
        for name in acknowledged
    }
    for name, writer in writers.items():
        assert writer.stdout is not None
        while acknowledged[name] < 15:
            acknowledged[name] = int(await writer.stdout.readline())
    for name, writer in writers.items():
        writer.kill()
        out, _ = await writer.communicate()
        whole = out.decode().splitlines()
        acknowledged[name] = max([acknowledged[name], *map(int, whole)])
    async with opened(path) as database:
        ids = {one.id for one in await SqliteDocuments(database, "w").page(limit=100_000)}
        for name, last in acknowledged.items():
            assert {f"{name}-{n:05}" for n in range(last + 1)} <= ids
        await library_of(database).ingest("after", {"c": READING})
        [check] = await database.rows("pragma integrity_check", {})
        assert check[0] == "ok"


async def test_a_failed_call_leaves_nothing_behind(path: Path) -> None:
    async with opened(path) as database:
        library = library_of(database)
        await library.ingest("d", {"c1": READING})
        before = await library.fingerprint()
        job = await library.open("e")
        chunks = [make.chunk("good"), make.chunk("bad", text="\ud800")]
        with pytest.raises(Invalid):
            await library.graph.put_chunks("e", job, chunks, ["k1", "k2"])
        assert await library.graph.unread("e", job) == []
        await library.reopen("e", Plan.DELETE)
        await library.delete("e")
        assert await library.fingerprint() == before


async def test_the_event_loop_goes_on_while_the_file_is_locked(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    async with opened(path) as database:
        other.execute("begin immediate")
        keyring = SqliteKeyring(database)
        write = asyncio.create_task(keyring.add(make.api_key("k")))
        for _ in range(20):
            await asyncio.sleep(0.005)
            assert await keyring.all() == []  # readers do not wait
        assert not write.done()
        other.execute("rollback")
        await write
        assert [key.id for key in await keyring.all()] == ["k"]
    other.close()


async def test_a_database_without_or_with_a_newer_schema_is_refused(
    path: Path, tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured, match="migrations"):
        async with opened(tmp_path / "nothing.db"):
            pass
    assert not (tmp_path / "nothing.db").exists()
    sqlite3.connect(tmp_path / "empty.db").execute("create table x (y)").connection.close()
    with pytest.raises(Misconfigured, match="migrations"):
        async with opened(tmp_path / "empty.db"):
            pass
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("insert into migrations values (9999, 'x', 'x', 0)")
    database.close()
    with pytest.raises(Misconfigured, match="newer"):
        async with opened(path):
            pass


async def test_a_file_that_is_no_database_is_unavailable_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"not a database, " * 1000)
    with pytest.raises(Unavailable) as raised:
        async with opened(tmp_path / "broken.db"):
            pass
    assert raised.value.code == "database_corrupt"


async def test_a_full_disk_is_unavailable_and_passes(path: Path) -> None:
    async with opened(path) as database:
        documents = SqliteDocuments(database, "w")
        await documents.submit("d0", make.revision(), make.job("d0"))
        connection = database._write_connection
        assert connection is not None
        [pages] = connection.execute("pragma page_count").fetchone()
        connection.execute(f"pragma max_page_count = {pages}")
        big = make.revision(metadata={"a": "x" * 100_000})
        with pytest.raises(Unavailable) as raised:
            await documents.submit("d1", big, make.job("d1"))
        assert raised.value.code == "disk_full"
        connection.execute("pragma max_page_count = 1000000")
        await documents.submit("d1", big, make.job("d1"))
        assert [one.id for one in await documents.page()] == ["d0", "d1"]


async def test_writes_that_wait_together_are_one_transaction_in_which_each_fails_alone(
    path: Path,
) -> None:
    async with opened(path) as database:

        def blocking(connection: sqlite3.Connection) -> None:
            begun.set()
            going_on.wait()

        def insert(key: str, fault: Exception | None = None) -> None:
            def work(connection: sqlite3.Connection) -> int:
                connection.execute("insert into entities (workspace, key) values ('w', ?)", [key])
                if fault:
                    raise fault
                return connection.total_changes

            tasks.append(asyncio.create_task(database.write(work)))

        begun, going_on = threading.Event(), threading.Event()
        tasks: list[asyncio.Task[int]] = []
        first = asyncio.create_task(database.write(blocking))
        await asyncio.to_thread(begun.wait)
        insert("one")
        insert("two", Invalid("no"))
        insert("three")
        await asyncio.sleep(0)
        going_on.set()
        await first
        one, two, three = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(two, Invalid)
        assert isinstance(one, int) and isinstance(three, int)
        rows = await database.rows("select key from entities order by key", {})
        assert [row["key"] for row in rows] == ["one", "three"]
