"""Schema files are applied once, in order, as a whole, whoever starts at the same moment."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest

import migrations
from app.errors import Misconfigured, Unavailable
from app.stores.sqlite.database import SCHEMA
from migrations import Migration, files, migrate, migrate_sqlite, pending

FOLDER = Path(migrations.__file__).parent / "sqlite"
NAMES = [migration.name for migration in files(FOLDER, ".sql")]


def tables(path: Path) -> set[str]:
    database = sqlite3.connect(path)
    try:
        return {name for (name,) in database.execute("select name from sqlite_master")}
    finally:
        database.close()


async def test_a_new_database_gets_all_files_and_a_second_run_none(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'new folder' / 'graph.db'}"
    assert await migrate(url) == NAMES
    assert await migrate(url) == []


def test_the_stores_expect_the_newest_file() -> None:
    assert len(NAMES) == SCHEMA


async def test_of_several_starters_one_applies_and_all_find_it_done(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'graph.db'}"
    code = "import asyncio, sys, migrations; print(asyncio.run(migrations.migrate(sys.argv[1])))"
    starters = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, url,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(5)
    ]  # fmt: skip
    said = sorted([(await starter.communicate())[0].decode().strip() for starter in starters])
    assert said == sorted([str(NAMES), *["[]"] * 4])


def test_a_file_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "0001_good.sql").write_text("create table good (x);")
    (folder / "0002_bad.sql").write_text("create table half (x);\ncreate table good (x);")
    path = tmp_path / "graph.db"
    with pytest.raises(Unavailable):
        migrate_sqlite(path, folder)
    assert tables(path) == set()
    (folder / "0002_bad.sql").write_text("create table half (x); -- repaired")
    assert migrate_sqlite(path, folder) == ["0001_good.sql", "0002_bad.sql"]
    assert tables(path) == {"good", "half", "migrations"}


def test_a_later_file_is_applied_to_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "0001_one.sql").write_text("create table one (x);\ninsert into one values (';');")
    path = tmp_path / "graph.db"
    migrate_sqlite(path, folder)
    (folder / "0002_two.sql").write_text(
        "create trigger t after insert on one begin\n  delete from one;\n  select 1;\nend;\n"
        "alter table one add column y; -- no end"
    )
    assert migrate_sqlite(path, folder) == ["0002_two.sql"]
    assert "t" in tables(path)


def test_a_changed_file_and_a_newer_store_are_refused() -> None:
    first, second = Migration(1, "0001_a.sql", "a"), Migration(2, "0002_b.sql", "b")
    applied = {1: first.checksum}
    assert pending([first, second], applied) == [second]
    with pytest.raises(Misconfigured, match=r"0001_a\.sql changed"):
        pending([Migration(1, "0001_a.sql", "else"), second], applied)
    with pytest.raises(Misconfigured, match="newer"):
        pending([first], applied | {2: second.checksum})


@pytest.mark.parametrize("names", [["0002_b.sql"], ["0001_a.sql", "0003_c.sql"], ["1_a.sql"]])
def test_numbers_have_no_gaps(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    with pytest.raises(Misconfigured):
        files(tmp_path, ".sql")


async def test_unknown_stores_and_broken_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="mysql"):
        await migrate("mysql://host")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database " * 100)
    with pytest.raises(Unavailable, match=r"broken\.db"):
        await migrate(f"sqlite://{broken}")


async def test_the_command_migrates_the_configured_store(tmp_path: Path) -> None:
    async def run(url: str) -> tuple[int | None, str]:
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "migrations",
            env={"HELIOGRAPH_GRAPH_URL": url, "HELIOGRAPH_DATA_DIR": str(tmp_path),
                 "PYTHONPATH": str(FOLDER.parent.parent)},
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await command.communicate()
        return command.returncode, out.decode()

    url = f"sqlite://{tmp_path / 'graph.db'}"
    assert await run(url) == (0, "".join(f"applied {name}\n" for name in NAMES))
    assert await run(url) == (0, "the schema is up to date\n")
    code, said = await run("mysql://host")
    assert code == 1 and said.startswith("error: ")
