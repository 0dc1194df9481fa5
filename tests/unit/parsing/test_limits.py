"""Hostile files, and the child process that meets them."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import zlib
from pathlib import Path

import pytest

from app import media
from app.errors import Unparsable
from tests.unit.parsing.made import LIMITS, epub, lines, parsed, pdf, zipped
from tests.unit.parsing.test_office import word
from workers.parsing import Limits, parse
from workers.parsing.pool import Child, Order, Pool
from workers.parsing.refusals import SENTENCES

HTML = b"<p>" + b"some words " * 50 + b"</p>"


async def code_of(data: bytes, media_type: str, *, limits: Limits = LIMITS) -> str:
    with pytest.raises(Unparsable) as caught:
        await parsed(data, media_type, limits=limits)
    assert caught.value.detail == SENTENCES[caught.value.code]
    return caught.value.code


@pytest.mark.parametrize("media_type", [media.DOCX, media.XLSX, media.PPTX, media.EPUB])
async def test_an_archive_that_unpacks_to_too_much_is_a_bomb(media_type: str) -> None:
    data = zipped({"word/document.xml": b"\0" * (20 << 20), "mimetype": b"x"})
    assert (
        await code_of(data, media_type, limits=dataclasses.replace(LIMITS, expanded_mb=10))
        == "bomb"
    )


@pytest.mark.parametrize("media_type", [media.DOCX, media.XLSX, media.PPTX, media.EPUB, media.PDF])
async def test_noise_and_truncated_files_are_damaged(media_type: str) -> None:
    assert await code_of(b"PK\x03\x04" + b"noise" * 50, media_type) == "damaged"
    whole = epub({"a.xhtml": "<p>one</p>"}, order=["a.xhtml"])
    assert await code_of(whole[: len(whole) // 2], media_type) == "damaged"
    assert await code_of(zipped({"a": b"b"}), media_type) == "damaged"
    assert await code_of(b"", media_type) == "empty"


async def test_ten_million_laughs_stay_unexpanded() -> None:
    entities = "<!ENTITY a 'ha'>" + "".join(
        f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)
    )
    sound = word("<w:p><w:r><w:t>ok</w:t></w:r></w:p>")
    assert (await parsed(sound, media.DOCX)).text == "ok"
    laughs = zipped(
        {
            "_rels/.rels": "<R><Relationship Type='x/officeDocument' Target='d.xml'/></R>",
            "d.xml": f"<!DOCTYPE x [{entities}]><w:document "
            "xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'>"
            "<w:body><w:p><w:r><w:t>&j;</w:t></w:r></w:p></w:body></w:document>",
        }
    )
    assert await code_of(laughs, media.DOCX) == "too_complex"


async def test_a_stream_that_inflates_beyond_memory_ends_the_fork_only() -> None:
    stream = zlib.compress(b"(x) Tj " * 60_000_000)
    page = pdf([lines(["text"], left=50, top=700)])
    body = page.index(b"<< /Length", page.index(b"6 0 obj"))
    end = page.index(b"endstream", body)
    data = (
        page[:body] + b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(stream) + stream
        + b"\n" + page[end:]
    )  # fmt: skip
    limits = dataclasses.replace(LIMITS, memory_mb=300, seconds=20)
    assert await code_of(data, media.PDF, limits=limits) in (
        "too_complex",
        "empty",
        "damaged",
        "too_long",
    )
    assert (await parsed(HTML, media.HTML)).text.startswith("some words")


async def test_a_hundred_thousand_columns_take_linear_time() -> None:
    data = ",".join(f"c{n}" for n in range(100_000)) + "\n" + ",".join(map(str, range(100_000)))
    assert "c99999: 99999" in (await parsed(data.encode(), media.CSV)).text


async def test_too_much_text_is_refused() -> None:
    limits = dataclasses.replace(LIMITS, text=1000)
    assert await code_of(b"word " * 300, media.TEXT, limits=limits) == "too_long"
    assert await code_of(b"<p>" + b"word " * 300, media.HTML, limits=limits) == "too_long"


async def test_a_slow_document_is_stopped_and_the_next_one_is_served() -> None:
    limits = dataclasses.replace(LIMITS, seconds=0.001)
    slow = b"<p>" + b"<b>x</b> " * 400_000
    assert await code_of(slow, media.HTML, limits=limits) == "too_complex"
    assert (await parsed(HTML, media.HTML)).text.startswith("some words")


async def test_memory_is_limited() -> None:
    limits = dataclasses.replace(LIMITS, memory_mb=150)
    assert (
        await code_of(b"<p>" + b"<b>x</b> " * 4_000_000, media.HTML, limits=limits) == "too_complex"
    )


async def test_cancelling_kills_the_child() -> None:
    slow = b"<p>" + b"<b>x</b> " * 2_000_000
    task = asyncio.create_task(parse(slow, "a.html", media.HTML, limits=LIMITS))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await parsed(HTML, media.HTML)).text.startswith("some words")


def test_a_child_that_died_is_replaced() -> None:
    pool = Pool(1)
    try:
        assert "parsed" in pool.parse(Order(HTML, media.HTML, LIMITS))
        [child] = pool._children
        child.kill()
        child._process.wait()
        assert "parsed" in pool.parse(Order(HTML, media.HTML, LIMITS))
        assert child not in pool._children
    finally:
        pool.close()


def test_an_order_cancelled_before_its_turn_is_never_sent() -> None:
    child = Child()
    try:
        order = Order(HTML, media.HTML, LIMITS)
        order.cancel()
        assert order.run(child)["cause"] == "cancelled"
        assert child.alive
    finally:
        child.close()


def test_a_child_sees_no_environment_but_its_import_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_SECRET", "s3cret")
    child = Child()
    try:
        environment = Path(f"/proc/{child._process.pid}/environ")
        if not environment.exists():
            pytest.skip("this system has no /proc")
        assert b"s3cret" not in environment.read_bytes()
    finally:
        child.close()


async def test_the_declared_type_is_only_a_hint() -> None:
    document = pdf([lines(["Text in a PDF"], left=50, top=700)])
    assert (
        "Text in a PDF" in (await parse(document, "a.pdf", "application/x-foo", limits=LIMITS)).text
    )
    with pytest.raises(Unparsable) as caught:
        await parse(os.urandom(2000), "a.bin", "application/octet-stream", limits=LIMITS)
    assert caught.value.code == "unsupported_type"
