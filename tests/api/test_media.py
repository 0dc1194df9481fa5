"""Types of uploads: by content first, then by name."""

from __future__ import annotations

import io
import zipfile

import pytest

from app.errors import Unparsable
from app.media import (
    CSV,
    DOCX,
    EPUB,
    HTML,
    JSON,
    MARKDOWN,
    PDF,
    TEXT,
    XLSX,
    media_type_of,
    text_type_of,
)


def package(*members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for member in members:
            file.writestr(member, "x" * 5000)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "declared", "data", "expected"),
    [
        ("report.txt", "text/plain", b"%PDF-1.7\n", PDF),
        ("report.pdf", "", b"\n\n%PDF-1.7\n", PDF),
        ("broken.pdf", "", b"nothing of the sort", PDF),
        ("notes", "", b"Amber.", TEXT),
        ("notes.md", "application/octet-stream", b"# Amber", MARKDOWN),
        ("NOTES.MD", "", b"# Amber", MARKDOWN),
        ("notes", "text/markdown; charset=utf-8", b"# Amber", MARKDOWN),
        ("page", "", b"\xef\xbb\xbf <!DOCTYPE html><p>Amber", HTML),
        ("a.csv", "application/vnd.ms-excel", b"a,b\n1,2\n", CSV),
        ("a.json", "", b"{}", JSON),
        ("utf16", "", "Amber is resin. ".encode("utf-16"), TEXT),
        ("utf16", "", ("Amber is resin. " * 10).encode("utf-16-le"), TEXT),
        ("latin1", "", "Übermäßig".encode("latin-1"), TEXT),
        ("a.docx", "", package("[Content_Types].xml", "word/document.xml"), DOCX),
        ("renamed.bin", "", package("[Content_Types].xml", "xl/workbook.xml"), XLSX),
        ("book", "", package("mimetype")[:30] + b"mimetypeapplication/epub+zip" + bytes(90), EPUB),
        ("locked.docx", "", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), DOCX),
    ],
)
def test_the_type_of_a_file(name: str, declared: str, data: bytes, expected: str) -> None:
    assert media_type_of(name, declared, data) == expected


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.zip", package("readme.txt")),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500)),
        ("a.txt", b"\x89PNG\r\n\x1a\n"),
        ("a.md", b"GIF89a"),
        ("a", bytes(range(256))),
        ("a", b"\x00\x01\x02\x03"),
        ("a.rtf", b"{\\rtf1 hello}"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, data: bytes) -> None:
    with pytest.raises(Unparsable) as caught:
        media_type_of(name, "", data)
    assert caught.value.code == "unsupported_type"
    assert name in caught.value.detail


def test_text_that_came_as_a_string_is_text_whatever_it_is_called() -> None:
    assert text_type_of("a.md") == MARKDOWN
    assert text_type_of("a.pdf") == TEXT
    assert text_type_of("") == TEXT
