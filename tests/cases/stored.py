"""Checks that look into the stores themselves: vector points, and that a text is nowhere.

Folders are read from copies, so a running service is not disturbed.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from tests.cases.checks import Told, at_most, check, outside, strings
from tests.cases.deployment import EMBEDDED
from tests.cases.run import Run

DENSE = "dense"
KINDS = ("chunks", "entities", "relations")
MINE = ("*.log", "clock", "connections")  # files of the runner in the folder of a case
PAGE = 1000


# --- vectors -------------------------------------------------------------------------------------


def _points(run: Run, *, everywhere: bool = False) -> Iterator[tuple[str, qe.Record]]:
    """(kind, point) of the case's workspaces."""
    mine = {workspace or "default" for workspace in run.workspaces()}
    root = run.service.data / "vectors" if run.service.kind == EMBEDDED else (
        run.service.folder / "qdrant"
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="heliograph-points-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy, ignore_dangling_symlinks=True)
        for path in sorted(p for p in copy.iterdir() if p.is_dir() and not p.suffix):
            kind = next((kind for kind in KINDS if f"_{kind}__" in path.name), path.name)
            for point in _scrolled(path):
                if everywhere or (point.payload or {}).get("workspace") in mine:
                    yield kind, point


def _scrolled(path: Path) -> Iterator[qe.Record]:
    shard = qe.EdgeShard.load(str(path))
    try:
        offset = None
        while True:
            points, offset = shard.scroll(
                qe.ScrollRequest(limit=PAGE, offset=offset, with_payload=True, with_vector=True)
            )
            yield from points
            if offset is None:
                return
    finally:
        shard.close()


def _dense(point: qe.Record) -> list[float] | None:
    named: Any = point.vector
    return list(named[DENSE]) if isinstance(named, dict) and named.get(DENSE) else None


@check("points")
def points(run: Run, told: Told, value: Any) -> str:
    """`5`, bounds, `{"chunks": 5, …}`, or the kind with bounds beside it."""
    found = [kind for kind, _ in _points(run)]
    if isinstance(value, str):
        number = found.count(value) if value in KINDS else len(found)
        return outside(f"points of {value}", number, told)
    if isinstance(value, dict) and (kinds := [k for k in value if k in KINDS]):
        faults = [outside(f"points of {k}", found.count(k), value[k]) for k in kinds]
        return next((one for one in faults if one), "")
    return outside("points", len(found), value)


@check("vectors_finite")
def vectors_finite(run: Run, _told: Told, _value: Any) -> str:
    seen = 0
    for kind, point in _points(run):
        vector = _dense(point)
        seen += vector is not None
        if vector and not all(map(math.isfinite, vector)):
            return f"a vector of {kind} {(point.payload or {}).get('key')!r} is not finite"
    ready = [n for n in run.docs if (run.document(n) or {}).get("status") == "ready"]
    return "" if seen or not ready else "no vectors are stored at all"


@check("zero_vectors")
def zero_vectors(run: Run, _told: Told, bound: Any) -> str:
    zero = [kind for kind, point in _points(run) if (v := _dense(point)) and not any(v)]
    return at_most(f"zero vectors {zero[:3]}", len(zero), bound)


# --- texts ---------------------------------------------------------------------------------------


@check("dump_lacks")
def dump_lacks(run: Run, _told: Told, texts: Any) -> str:
    """Neither records nor the bytes of files hold it: SQLite after its log was merged, blobs, the
    queue's files. Of vectors the points count, not what their engine has not cleared yet."""
    wanted = strings(texts)
    places = [*_in_files(run, wanted), *_in_points(run, wanted)]
    if run.service.kind != EMBEDDED:
        places += [*_in_neo4j(run, wanted), *_in_redis(run, wanted)]
    return f"still held by {places[:5]}" if places else ""


def _in_files(run: Run, wanted: list[str]) -> Iterator[str]:
    data = run.service.data
    for database in data.rglob("*.db"):
        with closing(sqlite3.connect(database, timeout=10)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            yield from _in_rows(connection, database.name, wanted)
    needles = [form for text in wanted for form in _forms(text)]
    for path in data.rglob("*"):
        if path.is_file() and path.relative_to(data).parts[0] != "vectors":
            content = path.read_bytes()
            if any(needle in content for needle in needles):
                yield f"the file {path.relative_to(data)}"


def _forms(text: str) -> set[bytes]:
    return {text.encode(), json.dumps(text)[1:-1].encode(), text.encode("utf-16-le")}


def _in_rows(connection: sqlite3.Connection, name: str, wanted: list[str]) -> Iterator[str]:
    tables = [row[0] for row in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    )]  # fmt: skip
    for table in tables:
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            if any(text in str(value) for value in row for text in wanted):
                yield f"a row of {name}:{table}"
                break


def _in_points(run: Run, wanted: list[str]) -> Iterator[str]:
    for kind, point in _points(run, everywhere=True):
        if any(text in str(point.payload) for text in wanted):
            yield f"a point of {kind}"


def _in_neo4j(run: Run, wanted: list[str]) -> Iterator[str]:
    with run.grounds.driver() as driver, driver.session() as session:
        for query in (
            "MATCH (n) RETURN labels(n)[0] AS label, properties(n) AS held",
            "MATCH ()-[r]->() RETURN type(r) AS label, properties(r) AS held",
        ):
            for row in session.run(query):
                if any(text in str(row["held"]) for text in wanted):
                    yield f"Neo4j {row['label']}"


def _in_redis(run: Run, wanted: list[str]) -> Iterator[str]:
    client = run.grounds.redis
    for name in client.scan_iter():
        dumped = client.dump(name) or b""
        if any(text.encode() in name + dumped for text in wanted):
            yield f"Redis {name!r}"


# --- files ---------------------------------------------------------------------------------------


@check("files_outside")
def files_outside(run: Run, told: Told, value: Any) -> str:
    """Files that the service left beside its data: how many may be (0), or names that may not."""
    allowed = value if isinstance(value, int) and not isinstance(value, bool) else 0
    names = strings(value) if isinstance(value, (str, list)) else strings(told.get("name"))
    if isinstance(value, str) and value in run.files:  # found by `find_files`
        found = [path for path in run.files[value] if not path.startswith(str(run.service.data))]
    else:
        found = [str(path) for path in _beside(run, farther=bool(names))]
    wrong = [path for path in found if not names or value in run.files or any(
        name in path for name in names
    )]  # fmt: skip
    return at_most(f"files outside the data folder {wrong[:3]}", len(wrong), allowed)


def _beside(run: Run, *, farther: bool) -> Iterator[Path]:
    """In the folder of the service and right above; with names to look for also where it was
    started and among all temporary files, which others make as well."""
    folder = run.service.folder
    theirs = [run.service.data, folder / "qdrant"]
    for path in folder.rglob("*"):
        inside = any(path.is_relative_to(one) for one in theirs)
        known = str(path) in run.touched or any(path.match(mine) for mine in MINE)
        if path.is_file() and not inside and not known:
            yield path
    for above in (folder.parent, *((folder.parent.parent, Path.cwd()) if farther else ())):
        for path in above.iterdir():
            if path.is_file() and path.stat().st_mtime > run.began and not path.match("*.log"):
                yield path
