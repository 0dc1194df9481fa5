"""Records of an archive with every field of every kind replaced: what does not fit is named with
its line, and nothing else is ever raised."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from app.domain import (
    Chunk,
    EntityMention,
    Extraction,
    Failure,
    Kind,
    Point,
    Ref,
    RelationMention,
    Revision,
    Ruling,
    Sparse,
    Usage,
)
from app.errors import BadRecord, Invalid
from app.upkeep.container import MANIFEST, Writer
from app.upkeep.forms import point_json
from app.upkeep.verify import verified

BLOB = b"bytes of a document"
POINT = point_json(Point(Ref(Kind.CHUNK, "c"), (1.0, 0.0), Sparse((3, 5), (1.0, 2.0))))
WRONG: list[Any] = [
    None, True, 7, -1, 10**30, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "\x00", [], [7],
    [None], [[]], {}, {"a": 1}, {"a": {"b": None}},
]  # fmt: skip


def _key() -> str:
    import hashlib

    return hashlib.sha256(BLOB).hexdigest()


def _records() -> dict[str, Any]:
    """One sound record of each kind, by member."""
    revision = Revision(
        "n", "text/plain", 3, _key(), {"year": 7, "tags": ["a", 1.5], "ok": True}, "2020-01-01",
        "t", _key(),
    )  # fmt: skip
    said = Extraction(
        (EntityMention("A", "person", "d", ("B",)),), (RelationMention("A", "B", "d", ("k",), 2),),
        ("A",), "m", 0, "", Usage(),
    )  # fmt: skip
    profile = {
        "key": "a", "mentions": 1, "described": 1, "profile": "p", "covered": 0, "digest": "",
        "point": POINT,
    }  # fmt: skip
    return {
        "heliograph.json": {
            "format": 1, "workspace": "w", "created_at": 1.0,
            "embedding": {"model": "m", "dimension": 2},
        },
        "rulings/00000001.ndjson": Ruling("a", "b", True, "user", "n", 1.0)._asdict(),
        "placements/00000001.ndjson": {
            "key": "a", "scope": "", "entity": "b", "name": "B", "by_hand": True,
        },
        "documents/00000001.json": {
            "id": "d", "version": 1, "live": asdict(revision), "pending": asdict(revision),
            "date": "", "warnings": ["w"], "usage": asdict(Usage()), "created_at": 1.0,
            "updated_at": 1.0, "state": "done", "error": asdict(Failure("c", "m", "s", True)),
            "failed": False,
        },
        "chunks/00000001/00000001.ndjson": {
            "chunk": asdict(Chunk("c", "d", 0, 0, 1, "x", 1, ("h",), 1, 2)), "live": True,
            "key": "k", "extraction": asdict(said), "point": POINT,
        },
        "entities/00000001.ndjson": profile,
        "relations/00000001.ndjson": {**profile, "key": "a\tb"},
    }  # fmt: skip


def _archive(changed: dict[str, Any], **facts: Any) -> io.BytesIO:
    """`changed` members hold a sound line before the changed one."""
    writer, out = Writer(), b""
    for name, record in _records().items():
        if name.startswith("documents/"):
            out += writer.member(f"blobs/{_key()}", BLOB)
        lines = [json.dumps(record).encode()]
        if name in changed:
            lines = [json.dumps(changed[name]).encode()]
            if name.endswith(".ndjson"):
                lines.insert(0, json.dumps(record).encode())
        out += writer.member(name, b"\n".join(lines))
    manifest = {
        "void": [], "documents": 1, "missing": [], "members": writer.seal.members,
        "sha256": writer.seal.checksum, **facts,
    }  # fmt: skip
    return io.BytesIO(out + Writer().member(MANIFEST, json.dumps(manifest).encode()) + bytes(1024))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = (
        value.items() if isinstance(value, dict)
        else enumerate(value) if isinstance(value, list) else ()
    )  # fmt: skip
    for key, one in inner:
        yield from _places(one, (*path, key))


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(value[path[0]], path[1:], new)
    return copied


def _without(value: Any, path: tuple[Any, ...]) -> Any:
    if len(path) == 1:
        return {key: one for key, one in value.items() if key != path[0]}
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _without(value[path[0]], path[1:])
    return copied


def _plain(name: str) -> Any:
    return json.loads(json.dumps(_records()[name]))


def test_sound_records_are_taken() -> None:
    contents = verified(_archive({}))
    assert contents.header.workspace == "w"
    assert contents.manifest.documents == 1


@pytest.mark.parametrize("name", _records())
def test_a_field_of_a_wrong_type_is_named_with_its_line(name: str) -> None:
    line = "line 2" if name.endswith(".ndjson") else "line 1"
    sound, refused = _plain(name), 0
    for path in _places(sound):
        for wrong in WRONG:
            try:
                verified(_archive({name: _with(sound, path, wrong)}))
            except BadRecord as error:
                refused += 1
                told = error.detail
                if path in (("id",), ("embedding", "dimension")) and "chunks/" in told:
                    continue  # it fits, but what comes after no longer does
                assert name in told
                assert line in told or "refers to" in told
                assert (error.status, error.code) == (422, "bad_record")
            except Invalid as error:
                assert "format" in error.detail
    assert refused > len(list(_places(sound))) * len(WRONG) // 2


@pytest.mark.parametrize("name", _records())
def test_a_missing_or_an_unknown_field_is_named(name: str) -> None:
    sound = _plain(name)
    with pytest.raises(BadRecord, match="unknown field, 'more'"):
        verified(_archive({name: {**sound, "more": 1}}))
    for key in sound:
        needed = name != "rulings/00000001.ndjson" or key not in ("note", "at")
        if needed:
            with pytest.raises(BadRecord, match=f"lacks the field {key}"):
                verified(_archive({name: _without(sound, (key,))}))


@pytest.mark.parametrize("field", ["void", "documents", "missing", "members", "sha256"])
def test_a_manifest_of_wrong_types_is_refused(field: str) -> None:
    for wrong in WRONG:
        facts = {field: wrong}
        try:
            verified(_archive({}, **facts))
        except Invalid:
            continue
        fitting = {"void": ([], [7]), "documents": (7,), "missing": ([],)}
        assert wrong in fitting.get(field, ())


@pytest.mark.parametrize(
    "line",
    [b"{", b"[" * 100_000, b"\xff", b'{"a": ' + b"9" * 5000 + b"}", b"null", b'"x"', b"\x00"],
)
def test_a_line_that_is_no_object_is_named(line: bytes) -> None:
    writer = Writer()
    data = writer.json("heliograph.json", _plain("heliograph.json"))
    data += writer.member("rulings/00000001.ndjson", b"\n\n" + line)
    with pytest.raises(BadRecord, match=r"rulings/00000001\.ndjson, line 3"):
        verified(io.BytesIO(data + writer.end(void=[], documents=0)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("point", "dense"), "AAAA"), (("point", "dense"), "AAAAAA=="), (("point", "dense"), "é"),
        (("point", "indices"), "AAAAAA=="), (("point", "values"), ""),
        (("point", "indices"), "AwAAAAMAAAA="), (("point", "values"), "AADAfwAAwH8="),
    ],
)  # fmt: skip
def test_a_point_that_no_collection_takes_is_named(path: tuple[str, str], value: str) -> None:
    for name in ("chunks/00000001/00000001.ndjson", "entities/00000001.ndjson"):
        with pytest.raises(BadRecord, match=r"line 2: point"):
            verified(_archive({name: _with(_plain(name), path, value)}))


def test_a_blob_under_another_hash_is_refused() -> None:
    writer = Writer()
    data = writer.json("heliograph.json", _plain("heliograph.json"))
    data += writer.member(f"blobs/{_key()}", BLOB + b"!")
    with pytest.raises(BadRecord, match="hash of another"):
        verified(io.BytesIO(data + writer.end(void=[], documents=0)))
