"""Blobs in a folder, in memory, and in an object store reached over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.errors import Misconfigured, NotFound, Unavailable
from app.stores.blobs import PIECE, ObjectBlobs


class Bucket(ThreadingHTTPServer):
    """The part of S3 that blobs use: objects by path, written whole or in parts, and bulk deletes.
    Signatures must be there but are not verified."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), BucketHandler)
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}  # path -> part number -> bytes
        self.refuse = False


class BucketHandler(BaseHTTPRequestHandler):
    server: Bucket
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        path, query = self._address()
        body = self._body()
        if not self._allowed():
            return
        if "partNumber" in query:
            self.server.parts[path][int(query["partNumber"])] = body
        else:
            self.server.objects[path] = body
        self._reply(200, etag=hashlib.md5(body).hexdigest())

    def do_GET(self) -> None:
        if not self._allowed():
            return
        path, query = self._address()
        if "list-type" in query:
            start = f"{path.rstrip('/')}/"
            keys = (one.removeprefix(start) for one in sorted(self.server.objects))
            found = (
                f"<Contents><Key>{key}</Key><LastModified>2030-01-01T00:00:00.000Z</LastModified>"
                "<ETag>none</ETag><Size>1</Size></Contents>"
                for key in keys
                if key.startswith(query.get("prefix", ""))
            )
            self._xml("ListBucketResult", "".join(found) + "<IsTruncated>false</IsTruncated>")
        else:
            body = self.server.objects.get(path)
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
            if body is not None and wanted:
                start, end = int(wanted[1]), int(wanted[2]) + 1
                self._reply(206, body[start:end], span=f"bytes {start}-{end - 1}/{len(body)}")
                return
            self._reply(404 if body is None else 200, body or b"")

    def do_POST(self) -> None:
        path, query = self._address()
        body = self._body()
        if not self._allowed():
            return
        if "uploads" in query:
            self.server.parts[path] = {}
            self._xml("InitiateMultipartUploadResult", "<UploadId>1</UploadId>")
        elif "uploadId" in query:
            parts = self.server.parts.pop(path)
            self.server.objects[path] = b"".join(parts[number] for number in sorted(parts))
            self._xml("CompleteMultipartUploadResult", "<ETag>whole</ETag>")
        else:
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                self.server.objects.pop(f"{path.rstrip('/')}/{key}", None)
            deleted = (f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._xml("DeleteResult", "".join(deleted))

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _address(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def _allowed(self) -> bool:
        signed = self.headers.get("authorization", "").startswith("AWS4-HMAC-SHA256")
        if self.server.refuse or not signed:
            self._reply(403)
            return False
        return True

    def _xml(self, root: str, inner: str) -> None:
        self._reply(200, f"<{root}>{inner}</{root}>".encode())

    def _reply(self, status: int, body: bytes = b"", etag: str = "none", span: str = "") -> None:
        self.send_response(status)
        if span:
            self.send_header("content-range", span)
        self.send_header("etag", f'"{etag}"')
        self.send_header("last-modified", "Tue, 01 Jan 2030 00:00:00 GMT")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def running_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with Bucket() as bucket:
        thread = threading.Thread(target=bucket.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        for name, value in {
            "AWS_ENDPOINT": f"http://127.0.0.1:{bucket.server_port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "somewhere",
            "AWS_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        try:
            yield bucket
        finally:
            bucket.shutdown()
            thread.join()


@pytest.fixture(params=["file", "memory", "s3"])
async def blobs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ObjectBlobs]:
    if request.param == "s3":
        with running_bucket(monkeypatch):
            yield ObjectBlobs.open("s3://bucket/some/prefix")
    else:
        yield ObjectBlobs.open({"file": tmp_path.as_uri(), "memory": "memory://"}[request.param])


async def test_bytes_come_back_by_their_hash(blobs: ObjectBlobs) -> None:
    data = bytes(range(256)) * 40_000  # beyond what goes into one part
    key = await blobs.put(data)
    assert key == hashlib.sha256(data).hexdigest()
    assert await blobs.get(key) == data


async def test_a_file_is_stored_from_its_start_and_read_in_parts(blobs: ObjectBlobs) -> None:
    data = bytes(range(256)) * 50_000
    with tempfile.TemporaryFile() as file:
        file.write(data)
        key = await blobs.put_file(file)
    assert key == hashlib.sha256(data).hexdigest()
    assert await blobs.get(key) == data
    assert await blobs.size(key) == len(data)
    for start, end in ((0, None), (0, 0), (5, 10), (len(data) - 3, len(data) + 9), (2**20, None)):
        pieces = [piece async for piece in blobs.pieces(key, start=start, end=end)]
        assert b"".join(pieces) == data[start:end]
        assert all(len(piece) <= PIECE for piece in pieces)


async def test_keys_are_listed_by_their_first_digits(blobs: ObjectBlobs) -> None:
    before = time.time()
    keys = sorted([await blobs.put(str(n).encode()) for n in range(400)])
    for start in sorted({key[:2] for key in keys})[:3]:
        mine = [key for key in keys if key.startswith(start)]
        found = await blobs.under(start, limit=1000)
        assert [key for key, _ in found] == mine
        assert all(put_at > before - 10 for _, put_at in found)
        seen: list[str] = []
        while page := await blobs.under(start, after=seen[-1] if seen else "", limit=1):
            seen += [key for key, _ in page]
        assert seen == mine


async def test_digits_that_no_key_begins_with_list_nothing(blobs: ObjectBlobs) -> None:
    assert await blobs.under("ab", limit=5) == []


async def test_an_empty_file_can_be_stored_from_a_file(blobs: ObjectBlobs) -> None:
    with tempfile.TemporaryFile() as file:
        key = await blobs.put_file(file)
    assert key == await blobs.put(b"")
    assert await blobs.size(key) == 0
    assert [piece async for piece in blobs.pieces(key)] == []


@pytest.mark.parametrize("key", ["0" * 64, "", "../../etc/passwd"])
async def test_parts_of_what_is_not_there_are_not_found(blobs: ObjectBlobs, key: str) -> None:
    with pytest.raises(NotFound):
        await blobs.size(key)
    with pytest.raises(NotFound):
        await anext(blobs.pieces(key))


async def test_an_empty_file_is_a_file(blobs: ObjectBlobs) -> None:
    assert await blobs.get(await blobs.put(b"")) == b""


async def test_equal_bytes_share_a_key_even_when_written_at_once(blobs: ObjectBlobs) -> None:
    keys = await asyncio.gather(*(blobs.put(b"same") for _ in range(16)))
    assert len(set(keys)) == 1
    assert await blobs.get(keys[0]) == b"same"


async def test_what_is_not_there_is_not_found(blobs: ObjectBlobs) -> None:
    with pytest.raises(NotFound):
        await blobs.get("0" * 64)


@pytest.mark.parametrize(
    "key", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 65, "0" * 64 + "/"]
)
async def test_a_key_that_is_no_hash_reaches_no_file(blobs: ObjectBlobs, key: str) -> None:
    with pytest.raises(NotFound):
        await blobs.get(key)
    assert not await blobs.has(key)
    await blobs.delete([key])


async def test_delete_takes_many_and_missing_and_may_be_repeated(blobs: ObjectBlobs) -> None:
    keys = [await blobs.put(text) for text in (b"one", b"two", b"three")]
    for _ in range(2):
        await blobs.delete([*keys[:2], "f" * 64, keys[0]])
    for key in keys[:2]:
        with pytest.raises(NotFound):
            await blobs.get(key)
    assert [await blobs.has(key) for key in keys] == [False, False, True]
    assert await blobs.get(keys[2]) == b"three"


async def test_deleted_bytes_can_be_stored_again(blobs: ObjectBlobs) -> None:
    key = await blobs.put(b"phoenix")
    await blobs.delete([key])
    assert await blobs.put(b"phoenix") == key
    assert await blobs.get(key) == b"phoenix"


async def test_ping_names_the_store(blobs: ObjectBlobs) -> None:
    assert await blobs.ping() in {"LocalStore", "MemoryStore", "S3Store"}


# --- the folder ----------------------------------------------------------------------------------


async def test_two_processes_see_the_same_folder(tmp_path: Path) -> None:
    one, other = (ObjectBlobs.open(tmp_path.as_uri()) for _ in range(2))
    assert await other.get(await one.put(b"shared")) == b"shared"


async def test_a_folder_is_made_and_may_have_spaces_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "my files" / "blobs"
    key = await ObjectBlobs.open(folder.as_uri()).put(b"x")
    assert [file.name for file in folder.rglob("*") if file.is_file()] == [key]


async def test_a_damaged_blob_is_healed_by_writing_it_again(tmp_path: Path) -> None:
    blobs = ObjectBlobs.open(tmp_path.as_uri())
    key = await blobs.put(b"whole")
    _only_file(tmp_path).write_bytes(b"")
    await blobs.put(b"whole")
    assert await blobs.get(key) == b"whole"


async def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    blobs = ObjectBlobs.open(tmp_path.as_uri())
    _block(tmp_path / hashlib.sha256(b"x").hexdigest()[:2])
    with pytest.raises(Unavailable):
        await blobs.put(b"x")


def _only_file(folder: Path) -> Path:
    [file] = [file for file in folder.rglob("*") if file.is_file()]
    return file


def _block(folder: Path) -> None:
    """A file where a folder is needed: stops even a user who may write everywhere."""
    folder.write_text("in the way")


# --- the object store ----------------------------------------------------------------------------


async def test_objects_lie_under_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_bucket(monkeypatch) as bucket:
        key = await ObjectBlobs.open("s3://bucket/some/prefix").put(b"x")
        assert list(bucket.objects) == [f"/bucket/some/prefix/{key[:2]}/{key}"]


async def test_refused_credentials_are_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_bucket(monkeypatch) as bucket:
        bucket.refuse = True
        blobs = ObjectBlobs.open("s3://bucket")
        for call in (
            lambda: blobs.put(b"x"),
            lambda: blobs.get("0" * 64),
            lambda: blobs.delete(["0" * 64]),
            blobs.ping,
        ):
            with pytest.raises(Unavailable, match="credentials"):
                await call()


@pytest.mark.parametrize("url", ["ftp://host/x", "blobs", "file://relative/folder", "s3://"])
def test_an_impossible_address_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured):
        ObjectBlobs.open(url)


async def test_all_keys_are_listed_with_when_they_were_put(blobs: ObjectBlobs) -> None:
    before = time.time()
    keys = {await blobs.put(f"listed {n}".encode()) for n in range(3)}
    found = {key: put_at async for key, put_at in blobs.list()}
    assert keys <= found.keys()
    assert all(found[key] >= before - 60 for key in keys)  # clocks of stores differ
    await blobs.delete(sorted(keys))
    assert not keys & {key async for key, _ in blobs.list()}
